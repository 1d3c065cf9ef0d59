// SPDX-License-Identifier: MIT
// twins.js - the table that each lane has beside its picture, with the same figures in words: for those who do not see the picture, and to copy
// from. A table is made when it is opened, and anew when the view changes.
"use strict";

const TWIN_ROWS = 24;

const momentCells = (trace, row) => [momentText(trace, trace.rows.time[row]), countText(trace.rows.event[row])];

// Rows at even distances of the axis, each the one with the most in its part.
function sampleRows(trace) {
    const rows = [];
    for (let i = 0, from = rowBehind(trace, axis.from); i < TWIN_ROWS; i++) {
        const to = rowBehind(trace, axis.from + (axis.to - axis.from) * (i + 1) / TWIN_ROWS);
        if (to > from)
            rows.push(highestRow(trace, from, to));
        from = to;
    }
    return rows;
}

function memoryTable(state, trace) {
    const sums = state.series.traces[trace.number], now = new Float64Array(sums.count);
    const rows = sampleRows(trace).map(row => {
        slotsAt(trace, sums, row, now);
        return [...momentCells(trace, row), sizeText(trace.total[row]), sizeText(trace.held.valueAt(trace.rows.event[row])), ...Array.from(now, sizeText)];
    });
    return tableOf("The most of each of the view's parts", ["time", "event", "live", "held", ...state.series.names], rows);
}

function stepsTable(state, trace) {
    const { list } = stepsOf(trace), { from, to } = seenSteps(trace), others = trace.others;
    const longest = Array.from(list.subarray(from, to)).sort((a, b) => stepTime(others, b) - stepTime(others, a) || a - b).slice(0, 50);
    const rows = longest.map(i => [stepName(trace, i), timeText(stepTime(others, i)), stepBytes(others, i) ? sizeText(stepBytes(others, i)) : "",
        momentText(trace, others.time[i]), String(trace.threads[others.thread[i]]), trace.pools[others.pool[i]] ? trace.pools[others.pool[i]].text : "-"]);
    return tableOf(`The longest of the view's ${countText(to - from)} steps`, ["step", "took", "bytes", "ended at", "thread", "pool"], rows);
}

function mapTable(state, trace) {
    const { births, classes, rows } = trace, from = Math.max(-1, rowBehind(trace, axis.from) - 1), to = rowBehind(trace, axis.to);
    const found = state.found && state.found[trace.number], largest = [];
    let count = 0, least = -1;
    eachBirth(trace, from, to, birth => {
        if (classes.state[births.class[birth]] === CACHED || found && !found[birth])
            return;
        count++;
        if (largest.length === 50 && classes.given[births.class[birth]] <= least)
            return;
        largest.push(birth);
        largest.sort((a, b) => classes.given[births.class[b]] - classes.given[births.class[a]]).splice(50);
        least = classes.given[births.class[largest[largest.length - 1]]];
    });
    const cells = largest.map(birth => {
        const c = births.class[birth], died = births.died[birth], name = make("button", addressText(trace, birth), { type: "button", className: "name" });
        name.addEventListener("click", () => pin(state, { trace, birth }));
        return [name, sizeText(classes.size[c]), sizeText(classes.given[c]), momentText(trace, rows.time[births.born[birth]]),
            died >= rows.count ? "never" : momentText(trace, rows.time[died]), trace.tags[classes.tag[c]] || "-"];
    });
    return tableOf(`The largest of the view's ${countText(count)} blocks`, ["address", "size", "given", "born", "died", "tag"], cells);
}

function freeTable(state, trace) {
    const samples = (trace.freeSamples || []).filter(({ row }) => placeOfRow(trace, row) >= axis.from && placeOfRow(trace, row) <= axis.to);
    const step = Math.max(1, Math.ceil(samples.length / TWIN_ROWS)), rows = samples.filter((_, i) => i % step === 0)
        .map(({ row, free, largest }) => [...momentCells(trace, row), sizeText(free), sizeText(largest)]);
    return tableOf("Free in mapped pages", ["time", "event", "all", "largest piece"], rows);
}

function comparisonTable(state) {
    const all = comparable(state), first = state.traces[0], rows = sampleRows(first).map(row => {
        const cursor = { trace: first, row, place: placeOfRow(first, row) };
        return [momentText(first, first.rows.time[row]), ...all.map(one => sizeText(one.at(momentOf({ cursor }, one.trace)).held))];
    });
    return tableOf("Held by the pools", ["time", ...all.map(one => one.name)], rows);
}

function twinOf(name, table) {
    const box = make("div", null, { className: "scroll", tabIndex: 0 });
    const details = make("details", [make("summary", `${name} as a table`), box], { className: "twin" });
    const fill = () => {
        if (details.open)
            box.replaceChildren(table());
    };
    details.addEventListener("toggle", fill);
    return { details, fill };
}
