// SPDX-License-Identifier: MIT
// panel.js - what stands beside the lanes: the answer to a refusal, who has memory at the cursor, the block that was clicked, what keeps pages
// mapped, replays, and what weir tune found.
//
// Names come from strangers. They reach the page through textContent alone.
"use strict";

const $ = id => document.getElementById(id);

// An element with a text or with children.
function make(name, content, attributes = {}) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
        if (key in element && key !== "list")
            element[key] = value;
        else
            element.setAttribute(key, value);
    if (Array.isArray(content))
        element.append(...content);
    else if (content !== undefined && content !== null)
        element.textContent = content;
    return element;
}

// Characters that act instead of being seen, as the command shows them.
function plainText(text) {
    return String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
        character => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function tableOf(caption, headings, rows) {
    const cellOf = cell => make("td", cell instanceof Node ? [cell] : cell);
    return make("table", [
        ...caption ? [make("caption", caption)] : [],
        make("thead", [make("tr", headings.map(heading => make("th", heading, { scope: "col" })))]),
        make("tbody", rows.map(row => Array.isArray(row) ? make("tr", row.map(cellOf)) : row)),
    ]);
}

const framesList = frames => make("ol", frames.map(frame => make("li", frame)), { className: "frames" });

// Moments ------------------------------------------------------------------------------------------------------------------------------------

// What a trace had at the cursor: { row, event, time, live, held }.
function momentOf(state, trace) {
    const { rows } = trace, cursor = state.cursor, mine = cursor.trace === trace;
    const row = mine && cursor.row !== undefined ? cursor.row : Math.min(rows.count, rowBehind(trace, cursor.place)) - 1;
    const event = mine && cursor.event !== undefined ? cursor.event : row >= 0 ? rows.event[row] : 0;
    return {
        row, event, time: mine && cursor.time !== undefined ? cursor.time : row >= 0 ? rows.time[row] : trace.first,
        live: row >= 0 ? trace.total[row] : 0, held: trace.held.valueAt(event),
    };
}

function showMoment(state) {
    const trace = state.traces[state.current], moment = momentOf(state, trace), holders = holdersAt(trace, moment.row, state.grouping);
    const blocks = holders.reduce((sum, holder) => sum + holder.blocks, 0);
    $("moment-title").textContent = (state.cursor.name ? `${state.cursor.name}: ` : "") +
        `${momentText(trace, moment.time)}, event ${countText(moment.event)}` +
        (state.traces.length > 1 ? ` of ${trace.name}` : "");
    $("moment-sum").textContent = `${sizeText(moment.live)} in ${countText(blocks)} block${plural(blocks)}; held by the pools ${sizeText(moment.held)}.`;
    Object.assign($("moment").dataset, { live: moment.live, blocks, held: moment.held, event: moment.event, time: moment.time, trace: trace.number });
    $("copy").disabled = moment.row < 0;
    $("text-command").textContent = liveCommand(trace, moment.event);
    if ($("text-box").open)
        $("text").textContent = liveText(trace, moment.row, moment.event, moment.time, state.limit);
    showHolders(state, trace, moment, holders);
    showComparison(state);
}

const HOLDER_COLUMNS = [
    { key: "name", heading: holder => holder, text: h => h.name, value: h => h.name },
    { key: "bytes", heading: "bytes", text: h => sizeText(h.bytes), value: h => h.bytes },
    { key: "share", heading: "share", text: h => h.share, value: h => h.bytes },
    { key: "blocks", heading: "blocks", text: h => countText(h.blocks), value: h => h.blocks },
    { key: "given", heading: "given", text: h => sizeText(h.given), value: h => h.given },
    { key: "age", heading: "oldest for", text: h => timeText(h.age), value: h => h.age },
];

function sortHolders(state, holders) {
    const { key, isUp } = state.sort, { value } = HOLDER_COLUMNS.find(column => column.key === key);
    if (key === "bytes" && !isUp)
        return holders;
    return holders.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (isUp ? 1 : -1));
}

// The stacks of a holder's blocks at the moment, the largest first.
function holderStacks(trace, row, grouping, key) {
    const { births, classes, rows } = trace, keys = groupKeys(trace, grouping), stacks = new Map();
    eachBirth(trace, row, row, birth => {
        const c = births.class[birth];
        if (classes.state[c] !== CACHED && keys[c] === key)
            stacks.set(classes.stack[c], (stacks.get(classes.stack[c]) || 0) + classes.size[c]);
    });
    return rows.count ? [...stacks].sort((a, b) => b[1] - a[1]) : [];
}

function holderRow(state, trace, moment, holder) {
    const slot = state.series.slots.get(holder.name), isOpen = state.open === holder.key;
    const name = make("button", holder.name, { type: "button", className: "name", "aria-expanded": String(isOpen) });
    name.addEventListener("click", () => {
        state.open = isOpen ? null : holder.key;
        showMoment(state);
        $("holders").querySelector(`[data-name="${holder.key}"] button`)?.focus();
    });
    const figures = HOLDER_COLUMNS.slice(1).map(column => make("td", column.text(holder)));
    const title = make("td", [make("span", [swatch(Math.min(slot ?? SLOTS - 1, SLOTS - 1)), name], { className: "named" })]);
    const row = make("tr", figures), rows = [row];
    // Names of stacks are long: they have a row of their own.
    if (state.grouping === "stack") {
        title.colSpan = HOLDER_COLUMNS.length;
        row.prepend(make("td"));
        row.className = "below";
        rows.unshift(make("tr", [title]));
    } else {
        row.prepend(title);
    }
    rows[0].dataset.name = holder.key;
    Object.assign(row.dataset, { key: holder.key, bytes: holder.bytes, blocks: holder.blocks, given: holder.given, oldest: holder.oldest });
    if (!isOpen)
        return rows;
    const stacks = holderStacks(trace, moment.row, state.grouping, holder.key), inside = [];
    for (const [stack, bytes] of stacks.slice(0, 5)) {
        inside.push(make("p", `${sizeText(bytes)}${stack ? "" : ", without a stack"}`));
        if (stack)
            inside.push(framesList(stackFrames(trace, stack)));
    }
    if (stacks.length > 5)
        inside.push(make("p", `and ${countText(stacks.length - 5)} more stacks`));
    return [...rows, make("tr", [make("td", inside, { colSpan: HOLDER_COLUMNS.length })])];
}

function showHolders(state, trace, moment, holders) {
    for (const holder of holders) {
        holder.name = groupName(trace, state.grouping, holder.key);
        holder.share = shareText(holder.bytes, moment.live);
        holder.age = Math.max(0, moment.time - holder.oldest);
    }
    const shown = sortHolders(state, holders), limit = state.showsAll ? shown.length : 12;
    const headings = HOLDER_COLUMNS.map(column => {
        const button = make("button", column.key === "name" ? state.grouping : column.heading, { type: "button" });
        button.dataset.sort = column.key;
        button.addEventListener("click", () => {
            state.sort = { key: column.key, isUp: state.sort.key === column.key ? !state.sort.isUp : column.key === "name" };
            showMoment(state);
            $("holders").querySelector(`[data-sort="${column.key}"]`).focus();
        });
        const sort = state.sort.key === column.key ? { "aria-sort": state.sort.isUp ? "ascending" : "descending" } : {};
        return make("th", [button], { scope: "col", ...sort });
    });
    const rows = shown.slice(0, limit).flatMap(holder => holderRow(state, trace, moment, holder));
    const table = make("table", [make("caption", `Who has memory, by ${state.grouping}`), make("thead", [make("tr", headings)]), make("tbody", rows)]);
    const rest = shown.length > limit ? [moreButton(state, shown.length - limit)] : [];
    $("holders").replaceChildren(table, ...rest);
}

function moreButton(state, count) {
    const button = make("button", `${countText(count)} more`, { type: "button" });
    button.addEventListener("click", () => {
        state.showsAll = true;
        showMoment(state);
    });
    return button;
}

// Files and replays at the cursor, with the difference to the first of them.
function showComparison(state) {
    const all = comparable(state);
    if (all.length < 2) {
        $("compare").replaceChildren();
        return;
    }
    let first;
    const rows = all.map(one => {
        const now = one.at(momentOf(state, one.trace));
        first ||= now;
        const title = make("td", [make("span", [colourMark(COLOURS[one.slot]), one.name], { className: "named" })]);
        const row = make("tr", [title, make("td", sizeText(now.live)), make("td", sizeText(now.held)),
            make("td", now === first ? "" : changeText(now.live - first.live)), make("td", now === first ? "" : changeText(now.held - first.held))]);
        Object.assign(row.dataset, { live: now.live, held: now.held });
        return row;
    });
    $("compare").replaceChildren(tableOf("Beside each other", ["", "live", "held", "live, more", "held, more"], rows));
}

// A block ----------------------------------------------------------------------------------------------------------------------------------

// The live blocks right below and above a birth at a row; each may be missing.
function neighboursOf(trace, birth, row) {
    const { map } = trace, start = map.place[birth], end = map.end[birth];
    let below = -1, above = -1;
    eachBirth(trace, row, row, other => {
        if (other === birth)
            return;
        const place = map.place[other];
        if (place < start && (below < 0 || place > map.place[below]))
            below = other;
        if (place >= end && (above < 0 || place < map.place[above]))
            above = other;
    });
    return { below, above };
}

function blockText(trace, birth) {
    const c = trace.births.class[birth], { classes } = trace;
    return classes.state[c] === CACHED ? `${sizeText(classes.given[c])} in a cache` : `${sizeText(classes.size[c])}, ${trace.tags[classes.tag[c]] || "-"}`;
}

function showBlock(state) {
    const box = $("block");
    box.hidden = !state.pinned;
    if (!state.pinned)
        return;
    const { trace, birth } = state.pinned, { births, classes, rows } = trace, c = births.class[birth];
    const born = births.born[birth], died = births.died[birth];
    const { below, above } = neighboursOf(trace, birth, Math.min(Math.max(momentOf(state, trace).row, born), died - 1));
    const at = row => `${momentText(trace, rows.time[row])}, event ${countText(rows.event[row])}, by thread ${trace.threads[rows.thread[row]]}`;
    const isCached = classes.state[c] === CACHED;
    const facts = [
        ["size", isCached ? "none: a cache has it" : `${sizeText(classes.size[c])} (${countText(classes.size[c])} B)`],
        ["given", `${sizeText(classes.given[c])} (${countText(classes.given[c])} B)`], ["address", addressText(trace, birth)],
        ["tag", trace.tags[classes.tag[c]] || "-"], ["pool", trace.pools[classes.pool[c]].text],
        ["stream", groupName(trace, "stream", classes.stream[c])],
        ["born", classes.state[c] === FOUND ? "before the trace began" : at(born)],
        ["died", died >= rows.count ? "never: it is there at the end" : at(died)],
        ["life", timeText(lifeOf(trace, birth))],
        ["below it", below < 0 ? "nothing" : blockText(trace, below)], ["above it", above < 0 ? "nothing" : blockText(trace, above)],
    ];
    const close = make("button", "Let go", { type: "button" });
    close.append(" ", make("kbd", "Esc"));
    close.addEventListener("click", () => pin(state, null));
    const stack = stackFrames(trace, classes.stack[c]);
    const list = make("dl", facts.flatMap(([term, fact]) => [make("dt", term), make("dd", fact)]));
    box.replaceChildren(make("h2", `Block ${addressText(trace, birth)}`), list,
        ...stack.length ? [make("h3", "Stack, the innermost first"), framesList(stack)] : [], close);
    Object.assign(box.dataset, { birth, size: classes.size[c], given: classes.given[c], address: addressText(trace, birth) });
}

// What keeps pages mapped at the cursor.
function showPins(state) {
    const trace = state.traces[state.current], pins = state.pins[trace.number] || [], box = $("pins");
    box.hidden = !pins.length;
    if (!pins.length)
        return;
    const free = pins.reduce((sum, { free }) => sum + free, 0);
    const rows = pins.slice(0, 8).map(({ birth, free }) => {
        const name = make("button", `${addressText(trace, birth)}: ${blockText(trace, birth)}`, { type: "button", className: "name" });
        name.addEventListener("click", () => pin(state, { trace, birth }));
        return [name, sizeText(free)];
    });
    box.replaceChildren(make("h2", "What keeps pages mapped"),
        make("p", `${countText(pins.length)} block${plural(pins.length)}, outlined in the map, ${pins.length === 1 ? "lies" : "lie"} alone in pages of ` +
            `${sizeText(trace.map.size)} of which more than half is free: ${sizeText(free)} that cannot go back.`),
        tableOf("", ["block", "free around it"], rows));
}

// Answers that the command wrote -----------------------------------------------------------------------------------------------------------

function showWhy(state) {
    const trace = state.traces[state.current], why = trace.why && trace.why[0], box = $("why");
    box.hidden = !why || !why.refusal;
    if (box.hidden)
        return;
    const { refusal } = why, pool = plainText(refusal.pool ?? "-");
    const parts = [make("h2", `Out of memory: ${sizeText(refusal.asked)} refused`),
        make("p", `At ${momentText(trace, refusal.time)} pool ${pool} had no ${sizeText(refusal.asked)} for stream ${refusal.stream}: ` +
            `${refusal.reason}. It is refusal ${countText(refusal.number)} of ${countText(refusal.count)}.`),
        ...(refusal.conclusions || []).map(line => make("p", plainText(line)))];
    if (why.can_judge && why.changes.length) {
        const row = (name, o) => [name, timeText(o.stall), timeText(o.worst), sizeText(o.peak_reserved), sizeText(o.mean_reserved)];
        parts.push(tableOf("Changes of the policy that would have served it, the cheapest first", ["change", "stall", "worst", "peak", "mean"],
            [row("none: refused", why.recorded), ...why.changes.slice(0, state.limit).map(change => row(plainText(change.change), change))]));
    } else if (why.can_judge) {
        parts.push(make("p", `No policy that was tried would have served it; ${countText(why.tried)} were.`));
    } else {
        parts.push(make("p", `Which change of the policy would have served it cannot be judged: ${plainText(why.why_not)}.`));
    }
    if (why.guesses && why.guesses.length) {
        const guesses = make("ul", why.guesses.map(guess => make("li", plainText(guess))), { className: "plain" });
        parts.push(make("details", [make("summary", "Why this is a guess"), guesses]));
    }
    box.replaceChildren(...parts);
    Object.assign(box.dataset, { asked: refusal.asked, changes: (why.changes || []).map(change => change.change).join("; ") });
}

function showReplays(state) {
    const box = $("replays"), trace = state.traces[state.current], replays = trace.replays || [];
    box.hidden = !replays.length;
    if (box.hidden)
        return;
    const rows = replays.map((replay, i) => {
        if (!replay.is_done)
            return [plainText(replay.policy), `failed: ${plainText(replay.why)}`, "", ""];
        const mark = make("input", null, { type: "checkbox", checked: state.shownReplays.has(i) });
        mark.addEventListener("change", () => {
            if (mark.checked)
                state.shownReplays.add(i);
            else
                state.shownReplays.delete(i);
            changed(state);
        });
        const title = make("td", [make("label", [mark, " ", colourMark(COLOURS[slotOfReplay(i)]), replay.policy])]);
        const row = make("tr", [title, make("td", sizeText(replay.peak_reserved)),
            make("td", timeText(replay.stall)), make("td", countText(replay.all_refused))]);
        Object.assign(row.dataset, { peak: replay.peak_reserved, stall: replay.stall });
        return row;
    });
    box.replaceChildren(make("h2", "Replayed under other policies"),
        ...trace.replays_why_not ? [make("p", `These cannot be judged: ${trace.replays_why_not}.`)] : [],
        tableOf("", ["policy", "peak", "stalls", "refused"], rows),
        ...[...trace.replays.map(replay => replay.gain || ""), ...trace.replays_assumptions.split("\n")].filter(Boolean).map(line => make("p", line)),
        make("p", `Costs: ${trace.replays_costs}.`));
}

function candidateText(trial) {
    const bytes = trial.release_threshold, threshold = typeof bytes !== "number" ? bytes : bytes > BYTES_EXACT ? "all" : sizeText(bytes);
    return `${trial.backing}, keeps ${threshold}` + (trial.initial_size ? `, begins with ${sizeText(trial.initial_size)}` : "") +
        (trial.cache_largest ? `, caches to ${sizeText(trial.cache_largest)}` : ", no caches") + (trial.max_size ? `, at most ${sizeText(trial.max_size)}` : "");
}

// The front of weir tune: a click shows the line of that policy over the memory lane.
function showTune(state) {
    const box = $("tune"), tune = state.tune;
    box.hidden = !tune;
    if (!tune)
        return;
    const parts = [make("h2", `What weir tune found for ${plainText(tune.for)}`)];
    if (!Array.isArray(tune.pools))
        parts.push(make("p", "The file of --tune has no fronts in it."));
    for (const pool of Array.isArray(tune.pools) ? tune.pools : []) {
        const rows = (pool.front || []).map(trial => {
            const isShown = state.tuned === trial, figures = trial.figures || {};
            const name = make("button", candidateText(trial), { type: "button", className: "name", "aria-pressed": String(isShown) });
            name.disabled = !trial.reserved;
            name.addEventListener("click", () => {
                state.tuned = isShown ? null : trial;
                showTune(state);
                changed(state);
            });
            const cells = [make("td", [name]), make("td", sizeText(figures.peak_reserved)), make("td", timeText(figures.stall)), make("td", countText(figures.refused))];
            const row = make("tr", cells,
                { className: trial.is_chosen ? "chosen" : "", "aria-selected": String(isShown) });
            Object.assign(row.dataset, { peak: figures.peak_reserved, stall: figures.stall });
            return row;
        });
        parts.push(tableOf(`Pool ${plainText(pool.pool)}: the best in memory and time; bold: the choice`, ["policy", "peak", "stalls", "refused"], rows));
    }
    box.replaceChildren(...parts);
}
