// SPDX-License-Identifier: MIT
// draw.js - what all lanes draw with: colours and patterns, a canvas that fits its place, and the axis that they share.
"use strict";

// Okabe and Ito's colours and two more, which people who are blind to some colours tell apart, each with a pattern of its own.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b0a030", "#8f6fd0", "#2f8f8f", "#8a8a8a"];
const PATTERNS = ["plain", "rising", "dots", "falling", "level", "cross", "upright", "rising-wide", "dots-wide", "falling-wide"];

const theme = {};

function readTheme() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "faint", "rule", "paper", "alarm", "free"])
        theme[name] = style.getPropertyValue(`--${name}`).trim();
}

// A colour as a pixel of ImageData.
function pixelOf(colour, alpha = 255) {
    const value = parseInt(colour.slice(1), 16);
    return (alpha << 24 | (value & 255) << 16 | (value >> 8 & 255) << 8 | value >> 16) >>> 0;
}

// Lines or dots over a colour, in a tile of 8 by 8 dots of the screen.
function paintTile(g, pattern, scale) {
    const size = 8 * scale;
    g.strokeStyle = g.fillStyle = "rgba(255,255,255,.38)";
    g.lineWidth = scale;
    const line = (x1, y1, x2, y2) => {
        g.beginPath();
        g.moveTo(x1 * size, y1 * size);
        g.lineTo(x2 * size, y2 * size);
        g.stroke();
    };
    const kind = pattern.split("-")[0];
    if (kind === "rising" || kind === "cross")
        for (const shift of [-1, 0, 1])
            line(shift, 1, shift + 1, 0);
    if (kind === "falling" || kind === "cross")
        for (const shift of [-1, 0, 1])
            line(shift, 0, shift + 1, 1);
    if (kind === "level")
        line(0, 0.5, 1, 0.5);
    if (kind === "upright")
        line(0.5, 0, 0.5, 1);
    if (kind === "dots")
        g.fillRect(size / 2, size / 2, 1.5 * scale, 1.5 * scale);
}

const fills = new Map();

// What a slot's areas are filled with.
function fillOf(slot, scale) {
    const name = `${slot} ${scale}`;
    if (!fills.has(name)) {
        const tile = document.createElement("canvas"), size = 8 * scale * (PATTERNS[slot].includes("wide") ? 2 : 1);
        tile.width = tile.height = size;
        const g = tile.getContext("2d");
        g.fillStyle = COLOURS[slot];
        g.fillRect(0, 0, size, size);
        paintTile(g, PATTERNS[slot], size / 8);
        fills.set(name, g.createPattern(tile, "repeat"));
    }
    return fills.get(name);
}

// The little square of a legend.
function swatch(slot) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 24;
    canvas.className = "swatch";
    canvas.setAttribute("aria-hidden", "true");
    const g = canvas.getContext("2d");
    g.fillStyle = fillOf(slot, 2);
    g.fillRect(0, 0, 24, 24);
    return canvas;
}

// A canvas as large as its place: { g, width, height, scale }, in dots of the screen.
function surfaceOf(canvas) {
    const scale = Math.min(2, window.devicePixelRatio || 1), width = Math.max(1, Math.round(canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) {
        canvas.width = width;
        canvas.height = height;
    }
    const g = canvas.getContext("2d");
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = `${11 * scale}px ${getComputedStyle(document.body).fontFamily}`;
    return { g, width, height, scale };
}

// A text on the paper's colour, so that it can be read over anything.
function label(surface, text, x, y, colour = theme.ink) {
    const { g, scale } = surface, width = g.measureText(text).width;
    const left = Math.max(2 * scale, Math.min(surface.width - width - 3 * scale, x));
    g.globalAlpha = 0.86;
    g.fillStyle = theme.paper;
    g.fillRect(left - 2 * scale, y - 10 * scale, width + 4 * scale, 13 * scale);
    g.globalAlpha = 1;
    g.fillStyle = colour;
    g.fillText(text, left, y);
    return left + width;
}

function rule(surface, x, colour, dashes = []) {
    const { g, scale } = surface;
    g.strokeStyle = colour;
    g.lineWidth = scale;
    g.setLineDash(dashes.map(dash => dash * scale));
    g.beginPath();
    g.moveTo(Math.round(x) + 0.5, 0);
    g.lineTo(Math.round(x) + 0.5, surface.height);
    g.stroke();
    g.setLineDash([]);
}

// Lines at round amounts of bytes below `most`, with their figures.
function drawScale(surface, most, y) {
    const { g, scale } = surface, room = surface.height / (38 * scale);
    let step = 1;
    while (most / step > Math.max(2, room))
        step *= 2;
    g.lineWidth = 1;
    for (let value = step; value < most; value += step) {
        g.strokeStyle = theme.rule;
        g.beginPath();
        g.moveTo(0, Math.round(y(value)) + 0.5);
        g.lineTo(surface.width, Math.round(y(value)) + 0.5);
        g.stroke();
        if (y(value) > 28 * scale)
            label(surface, sizeText(value), 4 * scale, y(value) - 3 * scale, theme.faint);
    }
}

// The axis -----------------------------------------------------------------------------------------------------------------------------------

// What is seen: from `from` to `to`, in ns since the first file was started, or, byRequest, in rows.
const axis = { byRequest: false, from: 0, to: 1, end: 1, begin: 0 };

function setAxis(traces, byRequest) {
    axis.byRequest = byRequest;
    if (byRequest) {
        axis.begin = 0;
        axis.end = Math.max(1, ...traces.map(trace => trace.rows.count));
    } else {
        axis.begin = Math.min(...traces.map(trace => trace.shift + Math.min(trace.first, trace.rows.count ? trace.rows.at[0] : trace.first)));
        axis.end = Math.max(axis.begin + 1, ...traces.map(trace => trace.shift + trace.end));
    }
    axis.from = axis.begin;
    axis.to = axis.end;
}

// Where a row stands on the axis.
const placeOfRow = (trace, row) => axis.byRequest ? row : trace.rows.at[row] + trace.shift;
// Where an event stands that changes no block.
const placeOfOther = (trace, i) => axis.byRequest ? trace.others.row[i] - 0.5 : trace.others.at[i] + trace.shift;
const placeOfStep = (trace, line, i) => axis.byRequest ? line.row[i] - 0.5 : line.at[i] + trace.shift;
const xOf = (place, width) => (place - axis.from) / (axis.to - axis.from) * width;
const placeAt = (x, width) => axis.from + x / width * (axis.to - axis.from);

// The first row that stands behind a place of the axis.
function rowBehind(trace, place) {
    return axis.byRequest ? Math.max(0, Math.min(trace.rows.count, Math.floor(place) + 1)) :
        placeBehind(trace.rows.at, place - trace.shift, trace.rows.count);
}

// The same of the steps of a line.
function stepBehind(trace, line, place) {
    return axis.byRequest ? placeBehind(line.row, place + 0.5, line.count) : placeBehind(line.at, place - trace.shift, line.count);
}

function placeText(place) {
    return axis.byRequest ? `request ${countText(Math.round(place))}` : momentText({ shift: 0 }, Math.max(0, place));
}

// Draws a line of steps, the most of each column of dots. Returns the greatest value that was drawn.
function drawLine(surface, trace, line, y, style) {
    const { g, width, scale } = surface;
    let place = stepBehind(trace, line, axis.from), value = place ? line.value[place - 1] : 0, most = value;
    g.strokeStyle = style.colour;
    g.lineWidth = (style.width || 1.5) * scale;
    g.setLineDash((style.dashes || []).map(dash => dash * scale));
    g.beginPath();
    g.moveTo(0, y(value));
    for (let x = 0; x < width && place < line.count; x++) {
        const behind = stepBehind(trace, line, placeAt(x + 1, width));
        if (behind === place)
            continue;
        const high = Math.max(line.mostOf(place, behind), 0);
        g.lineTo(x, y(value));
        g.lineTo(x, y(high));
        value = line.value[behind - 1];
        g.lineTo(x + 1, y(value));
        most = Math.max(most, high);
        place = behind;
    }
    g.lineTo(Math.min(width, xOf(axis.byRequest ? trace.rows.count : trace.end + trace.shift, width)), y(value));
    g.stroke();
    g.setLineDash([]);
    return most;
}

// The line of a replay: the most of each of its slices of the recording's time. halo: a colour that keeps it apart from what lies below.
function drawSlices(surface, trace, replay, values, y, style) {
    const { g, width, scale } = surface, last = values.reduce((end, value, i) => value ? i + 1 : end, 0);
    const span = replay.end - replay.begin, dots = (style.width || 1.5) * scale;
    g.beginPath();
    for (let i = 0; i < last; i++) {
        const place = slice => {
            const time = replay.begin + span * slice / values.length;
            return xOf(axis.byRequest ? placeBehind(trace.rows.at, time, trace.rows.count) : time + trace.shift, width);
        };
        g.lineTo(place(i), y(values[i]));
        g.lineTo(place(i + 1), y(values[i]));
    }
    for (const [colour, wide, dashes] of [[style.halo, dots + 3 * scale, []], [style.colour, dots, style.dashes || []]]) {
        if (!colour)
            continue;
        g.strokeStyle = colour;
        g.lineWidth = wide;
        g.setLineDash(dashes.map(dash => dash * scale));
        g.stroke();
    }
    g.setLineDash([]);
}

// What a replay had at a time of its trace.
function sliceAt(replay, values, time) {
    const span = Math.max(1, replay.end - replay.begin), slice = Math.floor((time - replay.begin) / span * values.length);
    return values[Math.max(0, Math.min(values.length - 1, slice))];
}
