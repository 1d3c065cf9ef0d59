// SPDX-License-Identifier: MIT
// steps.js - the lane of what calls waited for: growth, trims, waits, rungs and synchronises, a row for each thread. The height of a bar says
// how long a step took, logarithmically; it stands where the step ended.
"use strict";

const STEPS = [
    { kind: KIND.map, name: "growth", colour: "#009e73" }, { kind: KIND.trim, name: "trim", colour: "#d55e00" },
    { kind: KIND.unmap, name: "unmap", colour: "#cc79a7" }, { kind: KIND.wait, name: "wait", colour: "#e69f00" },
    { kind: KIND.synchronise, name: "synchronise", colour: "#56b4e9" }, { kind: KIND.rung, name: "rung of recovery", colour: "#8f6fd0" },
    { kind: KIND.call, name: "call that waited", colour: "#0072b2" }, { kind: KIND.refusal, name: "refusal", colour: "#e0302a" },
];
const STEP_OF = new Map(STEPS.map((step, i) => [step.kind, i]));
const THREAD_ROWS = 8; // further threads share the last row

// The steps of a trace in their order, and the rows of threads that have some.
function stepsOf(trace) {
    if (trace.steps)
        return trace.steps;
    const list = [], counts = new Map();
    for (let i = 0; i < trace.others.count; i++)
        if (STEP_OF.has(trace.others.kind[i])) {
            list.push(i);
            counts.set(trace.others.thread[i], (counts.get(trace.others.thread[i]) || 0) + 1);
        }
    const threads = [...counts].sort((a, b) => b[1] - a[1]).map(([thread]) => thread);
    const row = new Map(threads.map((thread, i) => [thread, Math.min(i, THREAD_ROWS - 1)]));
    return trace.steps = { list: Int32Array.from(list), threads, row, rows: Math.max(1, Math.min(THREAD_ROWS, threads.length)) };
}

function stepName(trace, i) {
    const others = trace.others, kind = others.kind[i];
    if (kind === KIND.call)
        return (CALLS[others.a[i]] || `call ${others.a[i]}`) + (others.stack[i] ? ` at ${stackNames(trace)[others.stack[i]]}` : "");
    return kind === KIND.rung ? `rung ${RUNGS[others.a[i]] || others.a[i]}` : STEPS[STEP_OF.get(kind)].name;
}

// Bytes that a step was about; 0 where it has none.
function stepBytes(others, i) {
    const kind = others.kind[i];
    return kind === KIND.call ? others.size[i] : kind === KIND.wait ? others.b[i] : kind === KIND.synchronise || kind === KIND.rung ? 0 : others.a[i];
}

// Steps that are seen, from `from` on and before `to` in the list.
function seenSteps(trace) {
    const { list } = stepsOf(trace), count = list.length;
    let low = 0, high = count;
    const behind = place => {
        low = 0;
        high = count;
        while (low < high) {
            const middle = low + high >> 1;
            if (placeOfOther(trace, list[middle]) <= place)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    };
    return { from: Math.max(0, behind(axis.from) - 1), to: behind(axis.to) };
}

function drawSteps(canvas, state, trace) {
    const { list, threads, row, rows } = stepsOf(trace), surface = surfaceOf(canvas), { g, width, height, scale } = surface;
    const { from, to } = seenSteps(trace), others = trace.others, each = height / rows;
    const tallest = new Float32Array(rows * STEPS.length * (width + 1));
    for (let i = from; i < to; i++) {
        const x = Math.round(xOf(placeOfOther(trace, list[i]), width));
        if (x < 0 || x > width)
            continue;
        const bar = (row.get(others.thread[list[i]]) * STEPS.length + STEP_OF.get(others.kind[list[i]])) * (width + 1) + x;
        const share = others.kind[list[i]] === KIND.refusal ? 1 : Math.min(1, Math.max(0.14, Math.log10(1 + stepTime(others, list[i])) / 9.5));
        tallest[bar] = Math.max(tallest[bar], share);
    }
    for (let at = 0; at < rows; at++) {
        g.strokeStyle = theme.rule;
        g.lineWidth = 1;
        g.strokeRect(-1, Math.round((at + 1) * each) - 0.5, width + 2, 0);
        // Kinds that end at the same dot stand side by side, so that none hides another.
        for (let x = 0; x <= width; x++)
            for (let kind = 0, beside = 0; kind < STEPS.length; kind++) {
                const share = tallest[(at * STEPS.length + kind) * (width + 1) + x];
                if (!share)
                    continue;
                g.fillStyle = STEPS[kind].colour;
                g.fillRect(x + (2 * beside++ - 1) * scale, (at + 1) * each - share * (each - 3 * scale), 2 * scale, share * (each - 3 * scale));
            }
        const rest = threads.length > rows && at === rows - 1 ? ` and ${threads.length - rows} more` : "";
        if (threads.length)
            label(surface, `thread ${trace.threads[threads[at]]}${rest}`, 4 * scale, at * each + 12 * scale, theme.faint);
    }
    if (!threads.length)
        label(surface, "no step took long enough to be recorded", 4 * scale, 14 * scale, theme.faint);
}
