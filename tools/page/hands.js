// SPDX-License-Identifier: MIT
// hands.js - the beginning of it all: makes the lanes, draws them anew when something changed, and follows mouse, keys and the page's address.
//
// One object, `state`, is all that changes: the axis of draw.js, the cursor, what is pinned, found, sorted and shown. changed() draws everything
// that depends on the view, moved() only what depends on the cursor.
"use strict";

const KEYS = [
    ["wheel, W S", "zoom, at the mouse or the cursor"], ["drag, A D", "move"],
    ["Shift with these", "in the map: zoom and move the addresses"], ["0", "all"], ["P", "the peak"], ["O", "the next refusal"], ["M", "the next mark"],
    ["← →", "the cursor by one request; with Shift by a hundredth of the view"], ["↑ ↓", "in the map: the next block by address"],
    ["Enter, click", "pin the block; the cursor stays"], ["Esc", "let go"], ["1 … 5", "by tag, stack, pool, stream, size"],
    ["X", "by time, or by request"], ["/", "find blocks"], ["C", "copy the moment as text"],
];

const timings = {}; // how long the last zoom and the last movement of the cursor took, and when the page was first painted, in ms: tests read them
let pending = 0;

// Lanes --------------------------------------------------------------------------------------------------------------------------------------

function legendOf(items) {
    return make("ul", items.map(([mark, text]) => make("li", [mark, text])), { className: "legend" });
}

const dashed = name => make("span", null, { className: `line ${name}`, "aria-hidden": "true" });

function colourMark(colour) {
    const canvas = make("canvas", null, { className: "swatch", width: 24, height: 24, "aria-hidden": "true" }), g = canvas.getContext("2d");
    g.fillStyle = colour;
    g.fillRect(0, 0, 24, 24);
    return canvas;
}

// A lane: its heading, its canvas, its legend, its table.
function addLane(state, kind, title, note, trace, draw, table) {
    const canvas = make("canvas", null, { className: "drawn", tabIndex: 0, role: "img" }), stage = make("div", [canvas], { className: "stage" });
    const twin = twinOf(title, () => table(state, trace)), legend = make("div"), name = state.traces.length > 1 && trace ? `, ${trace.name}` : "";
    const section = make("section", [make("h2", [title, make("small", note + name)]), stage, legend, twin.details], { className: `lane ${kind}` });
    canvas.setAttribute("aria-label", `${title}${name}. The same is in the table below. Arrows move the cursor.`);
    canvas.dataset.lane = kind;
    section.dataset.trace = trace ? trace.number : "";
    const lane = { kind, trace, canvas, legend, twin, stage, draw: () => draw(canvas, state, trace) };
    $("lanes").append(section);
    state.lanes.push(lane);
    holdCanvas(state, lane);
    return lane;
}

function addLanes(state) {
    $("lanes").classList.toggle("several", state.traces.length > 1);
    if (state.traces.length > 1) {
        const note = "what the pools held, of each file and each replay";
        const lane = addLane(state, "compare", "Beside each other", note, null, drawComparison, comparisonTable);
        lane.legend.append(legendOf(comparable(state).map(one => [colourMark(COLOURS[one.slot]), one.name])));
    }
    for (const trace of state.traces) {
        addLane(state, "memory", "Live memory", "what the program had; dashed: what the pools held", trace, drawMemory, memoryTable);
        const steps = addLane(state, "steps", "Steps", "what calls waited for, a row for each thread; the height is the time, logarithmically",
            trace, drawSteps, stepsTable);
        steps.legend.append(legendOf(STEPS.filter(step => trace.others.kind.includes(step.kind)).map(step => [colourMark(step.colour), step.name])));
        const map = addLane(state, "map", "Addresses",
            "each block where it lay; hatched: free, in memory that the pools had; outlined: keeps a page mapped", trace, drawMap, mapTable);
        map.over = make("canvas", null, { className: "over", "aria-hidden": "true" });
        map.stage.append(map.over);
        const free = addLane(state, "free", "Free pieces", "the largest free piece, in front of all that is free", trace, drawFreePieces, freeTable);
        free.legend.append(legendOf([[colourMark(COLOURS[4]), "largest piece"], [colourMark(theme.free), "all that is free"]]));
    }
    $("lanes").append(make("div", [make("span"), make("span"), make("span")], { id: "axis", "aria-hidden": "true" }));
}

function showLegends(state) {
    for (const lane of state.lanes)
        if (lane.kind === "memory") {
            const caps = hasCap(lane.trace) ? [[dashed("cap"), "cap of the pools"]] : [];
            const groups = state.series.names.map((name, slot) => [swatch(slot), name]);
            const overlays = overlaysOf(state, lane.trace).map(overlay => [colourMark(COLOURS[overlay.slot]), overlay.name]);
            lane.legend.replaceChildren(legendOf([...groups, [dashed(""), "held by the pools"], ...caps, ...overlays]));
        }
}

// Whether time tells requests apart: it does not where most of them have the time of another one, as on a simulator or with a coarse clock.
function isTimed(trace) {
    const { at, count } = trace.rows;
    let moments = 0;
    for (let i = 0; i < count; i++)
        moments += i === 0 || at[i] > at[i - 1];
    return moments * 50 > count;
}

// Drawing ------------------------------------------------------------------------------------------------------------------------------------

// The view changed: everything is drawn, and the table of each lane that is open is made.
function changed(state) {
    const begun = performance.now();
    for (const lane of state.lanes)
        lane.draw();
    showLegends(state);
    const [from, middle, to] = $("axis").children;
    from.textContent = placeText(axis.from);
    middle.textContent = placeText((axis.from + axis.to) / 2);
    to.textContent = placeText(axis.to);
    moved(state);
    timings.zoom = performance.now() - begun;
    for (const lane of state.lanes)
        lane.twin.fill();
    keepAddress(state);
}

// The cursor changed.
function moved(state) {
    const begun = performance.now();
    placeCursor(state);
    for (const trace of state.traces)
        state.pins[trace.number] = pinsAt(trace, momentOf(state, trace).row);
    for (const lane of state.lanes)
        if (lane.over)
            drawPins(lane.over, state, lane.trace);
    showMoment(state);
    showPins(state);
    timings.cursor = performance.now() - begun;
}

function placeCursor(state) {
    const canvas = state.lanes[0].canvas, x = xOf(state.cursor.place, canvas.clientWidth), line = $("cursor");
    line.hidden = x < 0 || x > canvas.clientWidth;
    line.style.transform = `translateX(${canvas.offsetLeft + canvas.parentElement.offsetLeft + x}px)`;
}

// Many movements between two frames are one.
function soon(work) {
    if (pending)
        cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => {
        pending = 0;
        work();
    });
}

// What may be done ---------------------------------------------------------------------------------------------------------------------------

function lookAt(state, from, to) {
    const whole = axis.end - axis.begin, least = axis.byRequest ? Math.min(whole, 20) : Math.max(1, Math.min(whole, whole / 1e7));
    const width = Math.min(whole, Math.max(least, to - from)), start = Math.max(axis.begin, Math.min(axis.end - width, from));
    axis.from = start;
    axis.to = start + width;
    changed(state);
}

function zoom(state, factor, place) {
    const middle = place >= axis.from && place <= axis.to ? place : (axis.from + axis.to) / 2;
    lookAt(state, middle - (middle - axis.from) * factor, middle + (axis.to - middle) * factor);
}

// The same of addresses, where `share` of what is seen stays.
function zoomBand(state, factor, share) {
    const seen = band.to - band.from, width = Math.min(1, Math.max(1e-6, seen * factor)), from = band.from + seen * share - width * share;
    band.from = Math.max(0, Math.min(1 - width, from));
    band.to = band.from + width;
    changed(state);
}

function shiftBand(state, share) {
    const width = band.to - band.from;
    band.from = Math.max(0, Math.min(1 - width, band.from + width * share));
    band.to = band.from + width;
    changed(state);
}

// Where the pinned block lies in what is seen of the addresses; the middle without one.
function shareOfPinned(state) {
    if (!state.pinned)
        return 0.5;
    const { trace, birth } = state.pinned;
    return Math.max(0, Math.min(1, yOf(trace.map, (trace.map.place[birth] + trace.map.end[birth]) / 2, 1)));
}

function shift(state, share) {
    const step = (axis.to - axis.from) * share;
    lookAt(state, axis.from + step, axis.to + step);
}

// The cursor to a place of the axis, or exactly behind a row, and if need be an event, of a trace.
function setCursor(state, cursor, isSeen = false) {
    state.cursor = cursor;
    if (cursor.trace)
        state.current = cursor.trace.number;
    const width = axis.to - axis.from;
    if (isSeen && (cursor.place < axis.from || cursor.place > axis.to))
        lookAt(state, cursor.place - width / 2, cursor.place + width / 2);
    else
        moved(state);
    keepAddress(state);
}

const cursorAtRow = (trace, row, name = "") => ({ trace, row, place: row >= 0 ? placeOfRow(trace, row) : axis.begin, name });

function cursorAtOther(trace, i, name) {
    return { trace, row: trace.others.row[i] - 1, event: trace.others.event[i], time: trace.others.time[i], place: placeOfOther(trace, i), name };
}

function peakCursor(state) {
    const trace = state.traces.reduce((best, trace) => trace.peak.bytes > best.peak.bytes ? trace : best);
    return cursorAtRow(trace, trace.peak.row, "At the peak");
}

// The first such event behind the cursor, or the first of all.
function nextOther(state, kind) {
    const all = state.traces.flatMap(trace => Array.from(trace.others.kind.keys()).filter(i => trace.others.kind[i] === kind).map(i => ({ trace, i })));
    all.sort((a, b) => placeOfOther(a.trace, a.i) - placeOfOther(b.trace, b.i));
    const { trace, event, place } = state.cursor;
    const isBehind = one => one.trace === trace && event !== undefined ? one.trace.others.event[one.i] > event : placeOfOther(one.trace, one.i) > place;
    return all.find(isBehind) || all[0];
}

function goToOther(state, kind) {
    const found = nextOther(state, kind);
    if (!found)
        return;
    const name = kind === KIND.mark ? `Mark ${found.trace.marks[found.trace.others.a[found.i]] || "-"}` : "Behind a refusal";
    setCursor(state, cursorAtOther(found.trace, found.i, name), true);
}

function stepCursor(state, direction, isLarge) {
    const trace = state.traces[state.current];
    if (isLarge) {
        setCursor(state, { place: Math.max(axis.begin, Math.min(axis.end, state.cursor.place + direction * (axis.to - axis.from) / 100)) }, true);
        return;
    }
    const row = Math.max(0, Math.min(trace.rows.count - 1, momentOf(state, trace).row + direction));
    if (trace.rows.count)
        setCursor(state, cursorAtRow(trace, row), true);
}

// The block above or below the pinned one at the cursor, by address.
function stepBlock(state, direction) {
    const trace = state.traces[state.current], { row } = momentOf(state, trace);
    let next = -1;
    if (state.pinned && state.pinned.trace === trace) {
        const { below, above } = neighboursOf(trace, state.pinned.birth, row);
        next = direction > 0 ? above : below;
    } else {
        next = birthAt(trace, row, direction > 0 ? 0 : 1);
        if (next < 0 && trace.births.count)
            eachBirth(trace, row, row, birth => next = birth);
    }
    if (next >= 0)
        pin(state, { trace, birth: next });
}

function pin(state, block) {
    state.pinned = block;
    if (block)
        state.current = block.trace.number;
    showBlock(state);
    moved(state);
    keepAddress(state);
}

function group(state, grouping) {
    state.grouping = grouping;
    state.open = null;
    $("grouping").value = grouping;
    state.allSeries[grouping] ||= seriesOf(state.traces, grouping);
    state.series = state.allSeries[grouping];
    changed(state);
}

function setByRequest(state, byRequest) {
    const { trace, row } = state.cursor, first = state.traces[state.current], { row: now } = momentOf(state, first);
    $("by-request").checked = byRequest;
    setAxis(state.traces, byRequest);
    state.cursor = trace ? { ...state.cursor, place: placeOfRow(trace, Math.max(0, row)) } : cursorAtRow(first, now);
    changed(state);
}

function find(state, text) {
    const said = $("search-said");
    said.classList.remove("wrong");
    $("search").value = text;
    try {
        const results = state.traces.map(trace => search(trace, text)), isAny = results[0] !== null;
        state.found = isAny ? results.map(result => result.found) : null;
        said.textContent = isAny ? `${countText(results.reduce((sum, { count }) => sum + count, 0))} blocks` : "";
        said.title = isAny ? `${sizeText(results.reduce((sum, { bytes }) => sum + bytes, 0))} asked for in all` : "";
    } catch (error) {
        state.found = null;
        said.textContent = error.message;
        said.classList.add("wrong");
    }
    state.search = text;
    changed(state);
}

async function copyText(state) {
    const trace = state.traces[state.current], moment = momentOf(state, trace);
    $("text-box").open = true;
    $("text").textContent = liveText(trace, moment.row, moment.event, moment.time, state.limit);
    try {
        await navigator.clipboard.writeText($("text").textContent);
    } catch {
        /* A browser that gives no clipboard to files: the text is selected, to be copied by hand. */
        getSelection().selectAllChildren($("text"));
        document.execCommand("copy");
    }
}

// The page's address -------------------------------------------------------------------------------------------------------------------------

const ADDRESS_PAUSE = 350; // ms: browsers refuse to change an address more often than a hundred times in half a minute
let addressTimer = 0, addressChanged = -ADDRESS_PAUSE;

// At once, or, where that was done a moment ago, once that pause is over.
function keepAddress(state) {
    if (addressTimer)
        return;
    const pause = addressChanged + ADDRESS_PAUSE - performance.now();
    if (pause <= 0) {
        writeAddress(state);
        return;
    }
    addressTimer = setTimeout(() => {
        addressTimer = 0;
        writeAddress(state);
    }, pause);
}

function writeAddress(state) {
    const { trace, row, event, place } = state.cursor, moment = momentOf(state, state.traces[state.current]);
    const parts = new URLSearchParams({ by: state.grouping, axis: axis.byRequest ? "request" : "time" });
    if (axis.from > axis.begin || axis.to < axis.end)
        parts.set("view", `${axis.from},${axis.to}`);
    if (band.to - band.from < 1)
        parts.set("rows", `${band.from},${band.to}`);
    parts.set("at", trace ? `${trace.number},${row},${event ?? moment.event}` : `${place}`);
    if (state.pinned)
        parts.set("pin", `${state.pinned.trace.number},${state.pinned.birth}`);
    if (state.search)
        parts.set("find", state.search);
    const address = `#${parts}`;
    if (address !== location.hash) {
        state.address = address;
        addressChanged = performance.now();
        history.replaceState(null, "", address);
    }
}

// Numbers of a list in the address; none, if it is none or one of them is not within its bounds.
function numbersOf(text, count) {
    const numbers = (text || "").split(",").map(Number);
    return text && numbers.length === count && numbers.every(Number.isFinite) ? numbers : null;
}

function readAddress(state) {
    const parts = new URLSearchParams(location.hash.slice(1)), by = parts.get("by"), trace = number => state.traces[number];
    if (GROUPINGS.includes(by)) {
        state.grouping = by;
        state.allSeries[by] ||= seriesOf(state.traces, by);
        state.series = state.allSeries[by];
        $("grouping").value = by;
    }
    setAxis(state.traces, parts.has("axis") ? parts.get("axis") === "request" : axis.byRequest);
    $("by-request").checked = axis.byRequest;
    const view = numbersOf(parts.get("view"), 2), exact = numbersOf(parts.get("at"), 3), place = numbersOf(parts.get("at"), 1);
    const block = numbersOf(parts.get("pin"), 2), isBlock = block && trace(block[0]) && block[1] >= 0 && block[1] < trace(block[0]).births.count;
    if (view && view[0] < view[1]) {
        axis.from = Math.max(axis.begin, view[0]);
        axis.to = Math.max(axis.from + 1, Math.min(axis.end, view[1]));
    }
    const rows = numbersOf(parts.get("rows"), 2);
    Object.assign(band, rows && rows[0] >= 0 && rows[0] < rows[1] && rows[1] <= 1 ? { from: rows[0], to: rows[1] } : { from: 0, to: 1 });
    if (exact && trace(exact[0]) && exact[1] >= -1 && exact[1] < trace(exact[0]).rows.count) {
        const found = Array.from(trace(exact[0]).others.event).indexOf(exact[2]);
        state.cursor = found >= 0 ? cursorAtOther(trace(exact[0]), found, "") : cursorAtRow(trace(exact[0]), exact[1]);
        state.current = exact[0];
    } else if (place && parts.get("at")) {
        state.cursor = { place: Math.max(axis.begin, Math.min(axis.end, place[0])) };
    }
    state.pinned = isBlock ? { trace: trace(block[0]), birth: block[1] } : null;
    if (parts.get("find"))
        find(state, parts.get("find"));
}

// Hands --------------------------------------------------------------------------------------------------------------------------------------

function holdCanvas(state, lane) {
    const { canvas, trace } = lane, place = event => placeAt(event.offsetX, canvas.clientWidth);
    let drag = null;
    canvas.addEventListener("wheel", event => {
        event.preventDefault();
        if (event.shiftKey && lane.kind === "map")
            zoomBand(state, (event.deltaY || event.deltaX) > 0 ? 1.35 : 1 / 1.35, event.offsetY / canvas.clientHeight);
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
            shift(state, event.deltaX / canvas.clientWidth);
        else
            zoom(state, event.deltaY > 0 ? 1.35 : 1 / 1.35, place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
        drag = { x: event.clientX, y: event.clientY, from: axis.from, to: axis.to, low: band.from, isFar: false };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
        if (drag && event.buttons) {
            drag.isFar ||= Math.abs(event.clientX - drag.x) > 4 || Math.abs(event.clientY - drag.y) > 4;
            const by = (drag.x - event.clientX) / canvas.clientWidth * (drag.to - drag.from);
            if (drag.isFar)
                soon(() => {
                    if (drag && lane.kind === "map") {
                        const width = band.to - band.from, low = drag.low + (drag.y - event.clientY) / canvas.clientHeight * width;
                        band.from = Math.max(0, Math.min(1 - width, low));
                        band.to = band.from + width;
                    }
                    lookAt(state, drag ? drag.from + by : axis.from, drag ? drag.to + by : axis.to);
                });
        } else if (!state.isHeld) {
            const cursor = { place: place(event) };
            if (trace)
                state.current = trace.number;
            soon(() => setCursor(state, cursor));
        }
    });
    canvas.addEventListener("pointerup", event => {
        if (drag && !drag.isFar)
            click(state, lane, event);
        drag = null;
    });
    canvas.addEventListener("keydown", event => {
        if (lane.kind === "map" && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
            event.preventDefault();
            state.current = trace.number;
            stepBlock(state, event.key === "ArrowUp" ? -1 : 1);
        } else if (event.key === "Enter" && trace) {
            state.current = trace.number;
            stepBlock(state, 1);
        }
    });
}

// A click holds the cursor where it is, and in the map pins the block there; a click beside any block lets go.
function click(state, lane, event) {
    const { canvas, trace } = lane, cursor = { place: placeAt(event.offsetX, canvas.clientWidth) };
    state.isHeld = !(state.isHeld && lane.kind !== "map");
    if (trace)
        state.current = trace.number;
    setCursor(state, cursor);
    if (lane.kind === "map") {
        const birth = birthAt(trace, momentOf(state, trace).row, event.offsetY / canvas.clientHeight);
        state.isHeld = birth >= 0;
        pin(state, birth >= 0 ? { trace, birth } : null);
    }
}

function letGo(state) {
    state.isHeld = false;
    pin(state, null);
    if (state.search)
        find(state, "");
}

const ACTIONS = {
    w: (state, event) => event.shiftKey ? zoomBand(state, 0.6, shareOfPinned(state)) : zoom(state, 0.6, state.cursor.place),
    s: (state, event) => event.shiftKey ? zoomBand(state, 1.6, shareOfPinned(state)) : zoom(state, 1.6, state.cursor.place),
    a: (state, event) => event.shiftKey ? shiftBand(state, -0.2) : shift(state, -0.2),
    d: (state, event) => event.shiftKey ? shiftBand(state, 0.2) : shift(state, 0.2),
    0: state => {
        Object.assign(band, { from: 0, to: 1 });
        lookAt(state, axis.begin, axis.end);
    },
    p: state => setCursor(state, peakCursor(state), true), o: state => goToOther(state, KIND.refusal),
    m: state => goToOther(state, KIND.mark), x: state => setByRequest(state, !axis.byRequest), c: state => copyText(state),
    "/": () => $("search").focus(), escape: letGo,
    arrowleft: (state, event) => stepCursor(state, -1, event.shiftKey), arrowright: (state, event) => stepCursor(state, 1, event.shiftKey),
};

function holdKeys(state) {
    document.addEventListener("keydown", event => {
        const isTyping = event.target.matches("input[type=search], select, textarea"), key = event.key.toLowerCase();
        if (event.ctrlKey || event.metaKey || event.altKey)
            return;
        if (isTyping) {
            if (key === "escape") {
                event.target.blur();
                letGo(state);
            }
            return;
        }
        if (/^[1-5]$/.test(key)) {
            group(state, GROUPINGS[Number(key) - 1]);
        } else if (ACTIONS[key] && !(key.startsWith("arrow") && event.target.matches("pre, .scroll, input"))) {
            event.preventDefault();
            ACTIONS[key](state, event);
        }
    });
}

function holdTools(state) {
    GROUPINGS.forEach((grouping, i) => $("grouping").append(make("option", `${grouping} (${i + 1})`, { value: grouping })));
    $("grouping").addEventListener("change", event => group(state, event.target.value));
    $("by-request").addEventListener("change", event => setByRequest(state, event.target.checked));
    $("search").addEventListener("input", event => find(state, event.target.value));
    $("all").addEventListener("click", () => ACTIONS[0](state));
    $("peak").addEventListener("click", () => ACTIONS.p(state));
    $("refusal").addEventListener("click", () => ACTIONS.o(state));
    $("mark").addEventListener("click", () => ACTIONS.m(state));
    $("copy").addEventListener("click", () => copyText(state));
    $("text-box").addEventListener("toggle", () => showMoment(state));
    const has = kind => state.traces.some(trace => trace.others.kind.includes(kind));
    $("refusal").disabled = !has(KIND.refusal);
    $("mark").disabled = !has(KIND.mark);
    $("keys").append(...KEYS.flatMap(([keys, what]) => [make("dt", keys), make("dd", what)]));
    let resized = 0;
    new ResizeObserver(() => {
        cancelAnimationFrame(resized);
        resized = requestAnimationFrame(() => changed(state));
    }).observe($("lanes"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        readTheme();
        changed(state);
    });
    addEventListener("hashchange", () => {
        if (location.hash === state.address)
            return;
        readAddress(state);
        changed(state);
        showBlock(state);
    });
}

// The beginning ------------------------------------------------------------------------------------------------------------------------------

function showHead(state) {
    const first = state.traces[0], names = state.traces.map(trace => trace.program || trace.path);
    const title = `${names.join(" and ")}${state.traces.length === 1 && first.pid ? `, pid ${first.pid}` : ""}${first.rank ? `, rank ${first.rank}` : ""}`;
    document.title = `${title} - weir trace`;
    $("title").textContent = title;
    $("facts").textContent = state.traces.map(trace => {
        const often = trace.totals.refusals === 1 ? "once" : `${countText(trace.totals.refusals)} times`;
        const refusals = trace.totals.refusals ? `; out of memory ${often}` : "";
        const lost = trace.lost_events || trace.lost_bytes ? `; lost: ${countText(trace.lost_events)} events, ${sizeText(trace.lost_bytes)}` : "";
        return `${countText(trace.births.count)} blocks in ${timeText(trace.last - trace.first)}; most at a time ${sizeText(trace.peak.bytes)}, ` +
            `held ${sizeText(trace.holding.mostOfAll)}${refusals}${lost}`;
    }).join(" | ");
}

// By the ends of their paths, where these tell them apart.
function nameTraces(traces) {
    const ends = traces.map(trace => trace.path.split("/").pop());
    traces.forEach((trace, i) => trace.name = ends.indexOf(ends[i]) === ends.lastIndexOf(ends[i]) ? ends[i] : trace.path);
}

// Traces of one job lie where they lay in time. Two runs, of which one was over before the other began, both begin at 0.
function align(traces) {
    const runs = traces.map(trace => [trace.shift, trace.shift + trace.end]).sort((a, b) => a[0] - b[0]);
    if (runs.some((run, i) => i && run[0] > runs[i - 1][1]))
        for (const trace of traces)
            trace.shift = 0;
}

// Says where the page's sums are not the command's. Tests read the attribute.
function showCheck(state) {
    const checks = state.traces.map(checkTrace), differences = checks.flatMap(check => check.differences), box = $("check");
    document.body.dataset.check = differences.length ? "differ" : checks.every(check => check.isExact) ? "equal" : "inexact";
    box.hidden = document.body.dataset.check === "equal";
    if (differences.length)
        box.textContent = "This page adds up to other figures than weir does, so do not rely on it. Please report it with the trace.\n" +
            differences.slice(0, 5).join("\n") +
            (differences.length > 5 ? `\nand ${differences.length - 5} more` : "");
    else if (!box.hidden)
        box.textContent = "The trace has figures above 8 PiB, which this page rounds; weir trace, on a terminal, has them exactly.";
}

function readTune(text) {
    try {
        return text ? JSON.parse(text) : null;
    } catch {
        return { for: "?", pools: null };
    }
}

async function begin() {
    const { document: json, bytes } = await unpack($("data"));
    const traces = readTraces(json, bytes), state = {
        traces, limit: json.limit, tune: readTune(json.tune), lanes: [], grouping: "tag", allSeries: {}, current: 0, cursor: null, pins: [], pinned: null,
        isHeld: false,
        found: null, search: "", sort: { key: "bytes", isUp: false }, showsAll: false, open: null, shownReplays: new Set(), tuned: null, address: "",
    };
    traces.forEach(addUp);
    nameTraces(traces);
    align(traces);
    readTheme();
    state.grouping = traces.some(trace => trace.tags.length > 1) ? "tag" : traces.some(trace => trace.stacks.length > 1) ? "stack" : "size";
    for (const { replays = [] } of traces)
        replays.forEach((replay, i) => i === 0 && replay.policy === "as recorded" || state.shownReplays.add(i));
    state.series = state.allSeries[state.grouping] = seriesOf(traces, state.grouping);
    traces.forEach(layOut);
    setAxis(traces, !traces.every(isTimed));
    $("by-request").checked = axis.byRequest;
    const refused = traces.find(trace => trace.totals.refusals);
    state.cursor = peakCursor(state);
    if (refused) {
        const last = refused.others.kind.lastIndexOf(KIND.refusal);
        state.cursor = cursorAtOther(refused, last, "Behind the last refusal");
    }
    state.current = state.cursor.trace.number;
    showHead(state);
    showCheck(state);
    holdTools(state);
    addLanes(state);
    $("grouping").value = state.grouping;
    if (location.hash)
        readAddress(state);
    holdKeys(state);
    changed(state);
    showWhy(state);
    showBlock(state);
    showReplays(state);
    showTune(state);
    requestAnimationFrame(() => setTimeout(() => {
        timings.painted = performance.now();
        document.body.dataset.ready = "yes";
        traces.forEach(trace => measureFree(trace, () => {
            for (const lane of state.lanes)
                if (lane.kind === "free" && lane.trace === trace)
                    lane.draw();
            document.body.dataset.measured = "yes";
        }));
    }));
    return state;
}

begin().catch(error => {
    $("check").hidden = false;
    $("check").textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later; weir trace, on a terminal, needs none.`;
    document.body.dataset.check = "failed";
    throw error;
});
