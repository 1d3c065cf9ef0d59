// SPDX-License-Identifier: MIT
// memory.js - the lane of live memory: what the program had, stacked by groups, what the pools held as a line, their cap, marks and refusals.
// And the lane that lays files and replays over each other.
"use strict";

// Of each column of dots the row with the most live bytes: -1 before the first row.
function columnRows(trace, width) {
    const rows = new Int32Array(width);
    let from = rowBehind(trace, axis.from);
    for (let x = 0; x < width; x++) {
        const to = rowBehind(trace, placeAt(x + 1, width));
        /* A column without a row has what the one before left. */
        rows[x] = to > from ? highestRow(trace, Math.max(0, x ? from : from - 1), to) : from - 1;
        from = to;
    }
    return rows;
}

// How high the scale goes: all that the files and what is laid over them have.
function mostOf(state) {
    let most = 1;
    for (const trace of state.traces) {
        const used = Math.max(trace.peak.bytes, trace.holding.mostOfAll), cap = trace.caps.mostOf(0, trace.caps.count);
        most = Math.max(most, used, cap <= 2 * used ? cap : 0);
        for (const { line } of overlaysOf(state, trace))
            most = Math.max(most, ...line);
    }
    return most * 1.08;
}

// A policy has one colour in all lanes and lists, and none of a file's, but where there are many. Dashes tell lines apart that lie on each other,
// and those of one policy in two files.
const slotOfReplay = i => (i * 3 + 5) % COLOURS.length, slotOfFile = i => i * 3 % COLOURS.length;
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 2]];

// Lines of replays that are shown over a trace: those of --policy, and the choice of weir tune that was clicked.
function overlaysOf(state, trace) {
    const overlays = [];
    (trace.replays || []).forEach((replay, i) => {
        if (replay.reserved_line && state.shownReplays.has(i))
            overlays.push({ name: replay.policy, replay, line: replay.reserved_line, slot: slotOfReplay(i), dashes: DASHES[i % DASHES.length] });
    });
    if (state.tuned && trace.number === 0 && state.tuned.reserved)
        overlays.push({ name: "the policy of weir tune", replay: state.tune, line: state.tuned.reserved, slot: 3 });
    return overlays;
}

// From the bottom up: an area for each slot.
function drawAreas(surface, trace, sums, rows, y) {
    const { g, width, scale } = surface, count = sums.count, now = new Float64Array(count);
    const edges = Array.from({ length: count + 1 }, () => new Float64Array(width));
    for (let x = 0, before = -2; x < width; x++) {
        if (rows[x] !== before && rows[x] >= 0)
            slotsAt(trace, sums, rows[x], now);
        before = rows[x];
        for (let slot = 0; slot < count; slot++)
            edges[slot + 1][x] = edges[slot][x] + (rows[x] >= 0 ? now[slot] : 0);
    }
    for (let slot = 0; slot < count; slot++) {
        g.fillStyle = fillOf(slot, scale);
        g.beginPath();
        for (let x = 0; x < width; x++) {
            g.lineTo(x, y(edges[slot + 1][x]));
            g.lineTo(x + 1, y(edges[slot + 1][x]));
        }
        for (let x = width - 1; x >= 0; x--) {
            g.lineTo(x + 1, y(edges[slot][x]));
            g.lineTo(x, y(edges[slot][x]));
        }
        g.fill();
    }
}

const hasCap = trace => trace.caps.mostOf(0, trace.caps.count) > 0;

// Names that would lie over each other are left out: the rules stay.
function drawMoments(surface, trace) {
    const { width, scale, height } = surface, others = trace.others;
    let end = -Infinity, refused = -Infinity, last = -Infinity;
    for (let i = 0; i < others.count; i++) {
        if (others.kind[i] !== KIND.mark && others.kind[i] !== KIND.refusal)
            continue;
        const x = xOf(placeOfOther(trace, i), width);
        if (x < 0 || x > width)
            continue;
        if (others.kind[i] === KIND.refusal) {
            rule(surface, x, theme.alarm);
            if (x > refused)
                refused = label(surface, `no ${sizeText(others.a[i])}`, x + 4 * scale, height - 8 * scale, theme.alarm) + 6 * scale;
        } else if (x - last >= 2 * scale) {
            rule(surface, x, theme.faint, [1, 3]);
            last = x;
            const name = (trace.marks[others.a[i]] || "").slice(0, 40);
            if (name && Math.min(x, width - surface.g.measureText(name).width - 8 * scale) > end)
                end = label(surface, name, x + 3 * scale, 11 * scale) + 8 * scale;
        }
    }
}

function drawMemory(canvas, state, trace) {
    const surface = surfaceOf(canvas), { height, scale } = surface, most = mostOf(state);
    const y = value => height - value / most * (height - 16 * scale);
    drawAreas(surface, trace, state.series.traces[trace.number], columnRows(trace, surface.width), y);
    drawScale(surface, most, y);
    if (hasCap(trace))
        drawLine(surface, trace, trace.caps, value => value && value < most ? y(value) : NaN, { colour: theme.alarm, dashes: [8, 4] });
    for (const overlay of overlaysOf(state, trace))
        drawSlices(surface, trace, overlay.replay, overlay.line, y, { colour: COLOURS[overlay.slot], width: 2, dashes: overlay.dashes, halo: theme.paper });
    drawLine(surface, trace, trace.held, y, { colour: theme.ink, dashes: [5, 3] });
    drawMoments(surface, trace);
}

// Comparing --------------------------------------------------------------------------------------------------------------------------------

// All that can be compared: each file, and what each replay of it comes to. `at`: what it had at a moment { live, held }.
function comparable(state) {
    const all = [];
    for (const trace of state.traces) {
        const name = state.traces.length > 1 ? trace.name : "recorded";
        all.push({ name, trace, slot: slotOfFile(trace.number), at: moment => ({ live: moment.live, held: moment.held }) });
        (trace.replays || []).forEach((replay, i) => {
            if (replay.reserved_line)
                all.push({
                    name: `${state.traces.length > 1 ? `${trace.name}, ` : ""}${replay.policy}, replayed`,
                    trace, replay, slot: slotOfReplay(i),
                    at: moment => ({ live: sliceAt(replay, replay.live_line, moment.time), held: sliceAt(replay, replay.reserved_line, moment.time) }),
                });
        });
    }
    return all;
}

function drawComparison(canvas, state) {
    const surface = surfaceOf(canvas), { height, scale } = surface, all = comparable(state);
    let most = mostOf(state);
    for (const { replay } of all)
        most = Math.max(most, ...(replay ? replay.reserved_line : []));
    const y = value => height - 2 * scale - value / most * (height - 12 * scale);
    drawScale(surface, most, y);
    all.forEach((one, i) => {
        const style = { colour: COLOURS[one.slot], dashes: DASHES[(i + one.trace.number) % DASHES.length], width: 2 };
        if (one.replay)
            drawSlices(surface, one.trace, one.replay, one.replay.reserved_line, y, style);
        else
            drawLine(surface, one.trace, one.trace.held, y, style);
    });
}
