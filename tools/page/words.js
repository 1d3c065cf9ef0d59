// SPDX-License-Identifier: MIT
// words.js - figures as the command writes them, and its answer to `weir trace live` at any moment, letter by letter.
//
// The texts of a moment are compared with the command's in tests: whoever changes one changes the other (tools/common/format.c, table.c,
// tools/trace/view.c, view_holders.c).
"use strict";

// As C's "%.*f", which rounds a tie to the even digit; toFixed() rounds it up.
function fixed(value, decimals) {
    const scaled = value * 10 ** decimals;
    if (Number.isInteger(value * 2 ** (decimals + 1)) && scaled % 1 === 0.5)
        return ((Math.floor(scaled) % 2 ? Math.ceil(scaled) : Math.floor(scaled)) / 10 ** decimals).toFixed(decimals);
    return value.toFixed(decimals);
}

// In the unit that gives less than `step`; one decimal below 100, and none where it would be a zero.
function scaledText(value, step, units) {
    let unit = 0;
    for (; value >= step - 0.5 && unit < units.length - 1; unit++)
        value /= step;
    const tenths = Math.floor(value * 10 + 0.5);
    if (tenths >= 1000 || tenths % 10 === 0)
        return `${Math.floor((tenths + (tenths >= 1000 ? 5 : 0)) / 10)} ${units[unit]}`;
    return `${Math.floor(tenths / 10)}.${tenths % 10} ${units[unit]}`;
}

const sizeText = bytes => scaledText(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
const timeText = ns => scaledText(ns, 1000, ["ns", "µs", "ms", "s"]);
const countText = count => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
const plural = count => count === 1 ? "" : "s";
// Signed, for differences.
const changeText = (bytes, text = sizeText) => (bytes > 0 ? "+" : bytes < 0 ? "−" : "") + text(Math.abs(bytes));

// A time since the first of the files was started.
function momentText(trace, time) {
    const units = ["ns", "µs", "ms"], whole = time + trace.shift;
    let value = whole, unit = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1000;
    if (whole === 0 || unit === 3)
        return `${fixed(whole / 1e9, whole ? 3 : 0)} s`;
    return `${fixed(value, unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${units[unit]}`;
}

// Frames of a stack, the innermost first.
const stackFrames = (trace, key) => (trace.stacks[key] || []).map(frame => trace.frames[frame]);

const holderHeadings = { tag: "TAG", pool: "POOL", stream: "STREAM", size: "BLOCK" };

function holderName(trace, grouping, key) {
    return grouping === "stream" ? trace.streams[key].text : groupName(trace, grouping, key);
}

// Cells as a table of the command; the first column is at the left.
function tableText(rows) {
    const widths = rows[0].map((_, column) => Math.max(...rows.map(row => [...row[column]].length)));
    return rows.map(row => row.map((cell, i) => {
        const pad = " ".repeat(widths[i] - [...cell].length);
        return "  " + (i ? pad + cell : cell + pad);
    }).join("").trimEnd() + "\n").join("");
}

function shareText(bytes, all) {
    return `${fixed(all ? 100 * bytes / all : 0, 1)} %`;
}

function stackText(trace, holder, all) {
    const frames = stackFrames(trace, holder.key), limit = frames.length > 13 ? 12 : frames.length;
    let text = `\n  ${sizeText(holder.bytes)} (${shareText(holder.bytes, all)}) in ${countText(holder.blocks)} block${plural(holder.blocks)}` +
        `${holder.key ? "" : ", without a stack"}\n`;
    for (const frame of frames.slice(0, limit))
        text += `    ${frame}\n`;
    return text + (frames.length > limit ? `    ... ${frames.length - limit} more\n` : "");
}

// What `weir trace live --at=#EVENT FILE` prints, where `row` is the last row of the moment.
function liveText(trace, row, event, time, limit) {
    const blocks = holdersAt(trace, row, "pool").reduce((sum, holder) => sum + holder.blocks, 0), all = row >= 0 ? trace.total[row] : 0;
    let text = `At ${momentText({ shift: 0 }, time)}: ${sizeText(all)} in ${countText(blocks)} block${plural(blocks)}; ` +
        `held by the pools ${sizeText(trace.held.valueAt(event))}.\n`;
    for (const grouping of blocks ? ["tag", "pool", "stream", "size"] : []) {
        const holders = holdersAt(trace, row, grouping), rows = [[holderHeadings[grouping], "BYTES", "SHARE", "BLOCKS", "GIVEN"]];
        for (const holder of holders.slice(0, limit))
            rows.push([holderName(trace, grouping, holder.key), sizeText(holder.bytes), shareText(holder.bytes, all),
                countText(holder.blocks), sizeText(holder.given)]);
        text += "\n" + tableText(rows);
        if (holders.length > limit)
            text += `  and ${countText(holders.length - limit)} more\n`;
    }
    if (!blocks || row < trace.firstStack)
        return text;
    const stacks = holdersAt(trace, row, "stack");
    for (const holder of stacks.slice(0, limit))
        text += stackText(trace, holder, all);
    return text + (stacks.length > limit ? `\n  and ${countText(stacks.length - limit)} more stacks\n` : "");
}

// The command that prints it.
function liveCommand(trace, event) {
    const path = /^[\w./-]+$/.test(trace.path) ? trace.path : `'${trace.path.replace(/'/g, "'\\''")}'`;
    return `weir trace live --at='#${event}' ${path}`;
}
