// SPDX-License-Identifier: MIT
// map.js - the map of addresses: each block where it lay, from when to when. What a cache has is hatched in grey; memory that was mapped and free
// is hatched in the colour of the paper; what keeps a page from going back is outlined. Below it: the largest free piece against all that is free.
//
// A trace says of no page when it was mapped, only how many bytes a pool has. So a page of 2 MiB counts as mapped from its first block on until its
// pool gave memory back while nothing lay in it. That is what the device can have got back at that moment, not what it did get. A program that
// calls cudaMalloc by itself has no such pages: each of its frees gives the block back.
"use strict";

const PAGE = 2 ** 21;
const TRIMS_MAX = 200; // that pages are looked through for, the largest first
const PAGES_MAX = 1 << 17; // of more than these, two, four and so on count as one
const WORK_MAX = 2e7; // pages that are looked at for all trims, or for all moments, together
const SAMPLES = 256; // moments at which free pieces are measured

// Where addresses lie in the map: holes of pages that no block ever lay in are left out. Sets trace.map: of each birth its place in bytes, where it
// ends, and its first and last page; regions, which are addresses without a hole; pages, those of all regions.
function layOut(trace) {
    const { births, classes, unit } = trace, count = births.count, base = Number(BigInt(trace.addresses.lowest) % BigInt(PAGE));
    const place = new Float64Array(count), end = new Float64Array(count), first = new Int32Array(count), last = new Int32Array(count);
    const start = i => births.address[i] * unit + base, behind = i => start(i) + Math.max(1, classes.given[births.class[i]]);
    let size = PAGE, regions = regionsOf(count, start, behind, size);
    for (let all; (all = regions.reduce((sum, { first, last }) => sum + last - first + 1, 0)) > PAGES_MAX;) {
        size *= 2 ** Math.ceil(Math.log2(all / PAGES_MAX));
        regions = regionsOf(count, start, behind, size);
    }
    const regionOf = new Map(), pages = [], pageOf = address => Math.floor(address / size);
    for (const region of regions)
        for (const page of region.begins)
            regionOf.set(page, region);
    for (let i = 0; i < count; i++) {
        const region = regionOf.get(pageOf(start(i)));
        region.start = Math.min(region.start, start(i));
        region.end = Math.max(region.end, behind(i));
    }
    let height = 0;
    for (const region of regions) {
        region.place = height;
        region.number = pages.length;
        height += region.end - region.start;
        for (let page = region.first; page <= region.last; page++)
            pages.push({
                place: region.place + Math.max(0, page * size - region.start), end: region.place + Math.min(region.end, (page + 1) * size) - region.start,
                pool: 0, from: -1, spans: [],
            });
    }
    for (let i = 0; i < count; i++) {
        const region = regionOf.get(pageOf(start(i)));
        place[i] = region.place + start(i) - region.start;
        end[i] = region.place + behind(i) - region.start;
        first[i] = region.number + pageOf(start(i)) - region.first;
        last[i] = region.number + Math.max(pageOf(start(i)), pageOf(behind(i) - 1)) - region.first;
    }
    trace.map = { place, end, first, last, regions, pages, size, base, height: Math.max(1, height), axes: [] };
    followPages(trace);
}

// Pages from `first` to `last` without a hole, or with one of a page. `begins`: pages that a block begins in.
function regionsOf(count, start, behind, size) {
    const lasts = new Map(), regions = [];
    for (let i = 0; i < count; i++) {
        const page = Math.floor(start(i) / size), last = Math.max(page, Math.floor((behind(i) - 1) / size)), known = lasts.get(page);
        if (known === undefined || known < last)
            lasts.set(page, last);
    }
    for (const page of Float64Array.from(lasts.keys()).sort()) {
        let region = regions[regions.length - 1];
        if (!region || page > region.last + 2)
            regions.push(region = { first: page, last: page, begins: [], start: Infinity, end: 0, place: 0, number: 0 });
        region.last = Math.max(region.last, lasts.get(page));
        region.begins.push(page);
    }
    return regions;
}

// Where each birth begins and ends on the axis.
function spansOnAxis(trace) {
    const { births, rows, map } = trace, mode = axis.byRequest ? 1 : 0, count = rows.count;
    if (map.axes[mode])
        return map.axes[mode];
    const from = new Float64Array(births.count), to = new Float64Array(births.count), end = endPlace(trace);
    for (let i = 0; i < births.count; i++) {
        const born = births.born[i], died = births.died[i];
        from[i] = mode ? born : rows.at[born] + trace.shift;
        to[i] = died >= count ? end : mode ? died : rows.at[died] + trace.shift;
    }
    return map.axes[mode] = { from, to };
}

// Goes through births and trims in their order. `next` leads over pages that are mapped to the first one at or behind a place that is not.
function followPages(trace) {
    const { births, classes, map, rows } = trace, { pages } = map, trims = trimsOf(trace), next = new Int32Array(pages.length + 1);
    const find = i => {
        while (next[i] !== i)
            i = next[i] = next[next[i]];
        return i;
    };
    const renew = () => {
        for (let i = 0; i <= pages.length; i++)
            next[i] = i < pages.length && pages[i].from >= 0 ? i + 1 : i;
    };
    let trim = 0;
    renew();
    for (let i = 0; i < births.count; i++) {
        for (; trim < trims.length && trims[trim].row <= births.born[i]; trim++) {
            closePages(trace, trims[trim]);
            renew();
        }
        if (!trace.pools[classes.pool[births.class[i]]].keeps_memory)
            continue;
        for (let page = find(map.first[i]); page <= map.last[i]; page = find(page)) {
            pages[page].from = births.born[i];
            pages[page].pool = classes.pool[births.class[i]];
            next[page] = page + 1;
        }
    }
    for (; trim < trims.length; trim++)
        closePages(trace, trims[trim]);
    for (const page of pages)
        if (page.from >= 0)
            page.spans.push([page.from, rows.count]);
}

// Moments at which pools gave memory back, the largest of them, in their order.
function trimsOf(trace) {
    const { others } = trace, trims = [];
    for (let i = 0; i < others.count; i++)
        if ((others.kind[i] === KIND.trim || others.kind[i] === KIND.unmap) && others.a[i] > 0)
            trims.push({ pool: others.pool[i], row: others.row[i], bytes: others.a[i] });
    return trims.sort((a, b) => b.bytes - a.bytes).slice(0, Math.min(TRIMS_MAX, WORK_MAX / trace.map.pages.length)).sort((a, b) => a.row - b.row);
}

// Pages of the pool without a block are not mapped from here on, until the next block comes into them.
function closePages(trace, { pool, row }) {
    const { pages, first, last } = trace.map, begun = new Int32Array(pages.length + 1); // blocks that begin in a page less those that end before it
    let used = 0;
    eachBirth(trace, row - 1, row - 1, birth => {
        begun[first[birth]]++;
        begun[last[birth] + 1]--;
    });
    pages.forEach((page, i) => {
        used += begun[i];
        if (used || page.pool !== pool || page.from < 0 || page.from >= row)
            return;
        page.spans.push([page.from, row]);
        page.from = -1;
    });
}

// Drawing ----------------------------------------------------------------------------------------------------------------------------------

// The part of the addresses that is seen, the same of all maps: from 0, the lowest, to 1.
const band = { from: 0, to: 1 };

const yOf = (map, place, height) => (place / map.height - band.from) / (band.to - band.from) * height;

function drawFree(pixels, surface, trace) {
    const { width, height } = surface, { map } = trace, colour = pixelOf(theme.free);
    let before = { top: -1 };
    for (const page of map.pages) {
        const top = Math.max(0, Math.floor(yOf(map, page.place, height)));
        const bottom = Math.min(height, Math.max(top + 1, Math.floor(yOf(map, page.end, height))));
        // Many pages lie in one row of dots, and most of them are alike.
        const now = { top, bottom, count: page.spans.length, from: page.spans[0]?.[0], to: page.spans[0]?.[1] };
        if (top >= bottom || Object.keys(now).every(name => now[name] === before[name]))
            continue;
        before = now;
        for (const [from, to] of page.spans) {
            const x0 = Math.max(0, Math.floor(xOf(placeOfRow(trace, Math.min(from, trace.rows.count - 1)), width)));
            const x1 = Math.min(width, to >= trace.rows.count ? xOf(endPlace(trace), width) : xOf(placeOfRow(trace, to), width));
            for (let y = top; y < bottom; y++)
                for (let x = x0 + ((8 - (x0 + y) % 8) % 8); x < x1; x += 8) {
                    pixels[y * width + x] = colour;
                    if (x + 1 < x1)
                        pixels[y * width + x + 1] = colour;
                }
        }
    }
}

const endPlace = trace => axis.byRequest ? trace.rows.count : trace.end + trace.shift;

// Blocks that are seen, each in its slot's colour; those that the search leaves out are pale.
function drawBlocks(pixels, surface, state, trace) {
    const { width, height } = surface, { births, classes, map } = trace, slot = state.series.traces[trace.number].slot;
    const colours = COLOURS.map(colour => pixelOf(colour)), pale = COLOURS.map(colour => pixelOf(colour, 60)), cached = pixelOf(theme.faint);
    const scaleY = height / map.height / (band.to - band.from), lowest = band.from * map.height;
    const scaleX = width / (axis.to - axis.from), begin = axis.from, spans = spansOnAxis(trace);
    const from = rowBehind(trace, axis.from) - 1, to = rowBehind(trace, axis.to), found = state.found && state.found[trace.number];
    eachBirth(trace, Math.max(-1, from), to, birth => {
        const c = births.class[birth], y0 = Math.max(0, (map.place[birth] - lowest) * scaleY | 0);
        const x0 = Math.max(0, (spans.from[birth] - begin) * scaleX | 0);
        const x1 = Math.min(width, Math.max(x0 + 1, Math.min(width, (spans.to[birth] - begin) * scaleX) | 0));
        const below = (map.end[birth] - lowest) * scaleY, y1 = below < 0 ? 0 : Math.min(height, Math.max(y0 + 1, below | 0));
        if (classes.state[c] === CACHED) {
            for (let y = y0; y < y1; y++)
                for (let x = x0 + ((6 - (x0 + 5 * y) % 6) % 6), row = y * width; x < x1; x += 6)
                    pixels[row + x] = cached;
            return;
        }
        const colour = found && !found[birth] ? pale[slot[c]] : colours[slot[c]];
        if (x1 - x0 === 1)
            for (let p = y0 * width + x0, stop = y1 * width; p < stop; p += width)
                pixels[p] = colour;
        else
            for (let y = y0; y < y1; y++)
                pixels.fill(colour, y * width + x0, y * width + x1);
    });
}

// Where a birth is on the canvas, in its dots.
function boxOf(surface, trace, birth) {
    const { births, map, rows } = trace, { width, height } = surface, died = births.died[birth], y0 = yOf(map, map.place[birth], height);
    const x0 = xOf(placeOfRow(trace, births.born[birth]), width);
    const x1 = died >= rows.count ? xOf(endPlace(trace), width) : xOf(placeOfRow(trace, died), width);
    return { x0, x1, y0, y1: yOf(map, map.end[birth], height) };
}

function outline(surface, box, colour, width) {
    const { g, scale } = surface;
    g.strokeStyle = colour;
    g.lineWidth = width * scale;
    g.strokeRect(Math.max(-4, box.x0) + 0.5, box.y0 + 0.5, Math.max(2 * scale, Math.min(surface.width + 4, box.x1) - Math.max(-4, box.x0)),
        Math.max(2 * scale, box.y1 - box.y0));
}

function drawMap(canvas, state, trace) {
    const surface = surfaceOf(canvas), { g, width, height, scale } = surface;
    if (!trace.map)
        layOut(trace);
    const image = g.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    if (trace.births.count) {
        drawFree(pixels, surface, trace);
        drawBlocks(pixels, surface, state, trace);
    }
    g.putImageData(image, 0, 0);
    for (const region of trace.map.regions.slice(1, 400)) {
        g.strokeStyle = theme.rule;
        g.lineWidth = 1;
        g.strokeRect(-1, Math.round(yOf(trace.map, region.place, height)) + 0.5, width + 2, 0);
    }
    const pieces = `in ${trace.map.regions.length} piece${plural(trace.map.regions.length)}`, seen = band.to - band.from;
    const where = seen < 1 ? `, from ${addressOf(trace, band.from * trace.map.height)} on, ` : " ";
    label(surface, `${sizeText(trace.map.height * seen)} of addresses${where}${pieces}`, 4 * scale, 12 * scale, theme.faint);
}

// What changes with the cursor, on a canvas of its own over the map.
function drawPins(canvas, state, trace) {
    const surface = surfaceOf(canvas);
    for (const pin of (state.pins[trace.number] || []).slice(0, 500))
        outline(surface, boxOf(surface, trace, pin.birth), theme.ink, 1);
    if (state.pinned && state.pinned.trace === trace)
        outline(surface, boxOf(surface, trace, state.pinned.birth), theme.alarm, 2);
}

// The address at a place of the map.
function addressOf(trace, place) {
    const region = trace.map.regions.reduce((found, region) => region.place <= place ? region : found, trace.map.regions[0]);
    if (!region)
        return "0x0";
    const lowest = BigInt(trace.addresses.lowest), offset = Math.floor(region.start + place - region.place) - trace.map.base;
    return "0x" + (lowest + BigInt(offset)).toString(16);
}

// The block at a place of the canvas: one that is live there, or the latest that was near in a column; -1 if there is none.
function birthAt(trace, row, share) {
    const { map } = trace, seen = band.to - band.from, place = (band.from + share * seen) * map.height;
    let best = -1, distance = map.height * seen / 60;
    eachBirth(trace, row, row, birth => {
        const start = map.place[birth], end = map.end[birth];
        const away = place < start ? start - place : place > end ? place - end : 0;
        if (away < distance || away === 0 && best < 0) {
            best = birth;
            distance = away;
        }
    });
    return best;
}

// Free pieces ------------------------------------------------------------------------------------------------------------------------------

// Blocks that alone keep a page mapped after the row: the only live ones in a page of which more than half is free.
function pinsAt(trace, row) {
    const { map, classes, births } = trace, blocks = new Map();
    if (row < 0 || !map)
        return [];
    eachBirth(trace, row, row, birth => {
        if (classes.state[births.class[birth]] === CACHED)
            return;
        const first = map.first[birth], last = map.last[birth];
        for (const page of first === last ? [first] : [first, last]) {
            const known = blocks.get(page);
            blocks.set(page, { birth: known ? -1 : birth, bytes: (known ? known.bytes : 0) + inPage(trace, birth, page) });
        }
    });
    const pins = new Map();
    for (const [page, { birth, bytes }] of blocks)
        if (birth >= 0 && bytes < map.size / 2)
            pins.set(birth, (pins.get(birth) || 0) + map.pages[page].end - map.pages[page].place - bytes);
    return [...pins].map(([birth, free]) => ({ birth, free })).sort((a, b) => b.free - a.free);
}

function inPage(trace, birth, page) {
    const start = trace.map.place[birth], end = trace.map.end[birth], { place, end: stop } = trace.map.pages[page];
    return Math.max(0, Math.min(end, stop) - Math.max(start, place));
}

// { free, largest }: bytes of mapped pages that no program has after the row, and the longest piece of them without a gap.
function freeAt(trace, row) {
    const { map, classes, births } = trace, live = [];
    eachBirth(trace, row, row, birth => {
        if (classes.state[births.class[birth]] !== CACHED)
            live.push(birth);
    });
    const starts = Float64Array.from(live, birth => map.place[birth]).sort();
    const byStart = new Map(live.map(birth => [map.place[birth], map.end[birth]]));
    let free = 0, largest = 0, piece = 0, next = 0, reached = 0;
    const end = () => {
        largest = Math.max(largest, piece);
        piece = 0;
    };
    let before = null;
    for (const page of map.pages) {
        const isMapped = page.spans.some(([from, to]) => from <= row && row < to);
        const touches = before && before.end === page.place && before.pool === page.pool;
        before = page;
        if (!isMapped || !touches)
            end();
        if (!isMapped)
            continue;
        let at = Math.max(page.place, reached);
        for (; next < starts.length && starts[next] < page.end; next++) {
            if (starts[next] > at) {
                free += starts[next] - at;
                piece += starts[next] - at;
            }
            if (byStart.get(starts[next]) > at || starts[next] >= at)
                end();
            at = Math.max(at, byStart.get(starts[next]));
            reached = Math.max(reached, at);
        }
        if (at < page.end) {
            free += page.end - at;
            piece += page.end - at;
        } else {
            end();
        }
    }
    end();
    return { free, largest };
}

// Measures free pieces at moments all over the trace, a few at a time, so that the page answers meanwhile. Calls done() at the end.
function measureFree(trace, done) {
    const samples = trace.freeSamples = [], count = Math.min(SAMPLES, trace.rows.count, Math.ceil(WORK_MAX / (trace.map.pages.length + 1)));
    const work = () => {
        const begun = performance.now();
        while (samples.length < count && performance.now() - begun < 12) {
            const row = Math.round((trace.rows.count - 1) * (samples.length + 0.5) / count);
            samples.push({ row, ...freeAt(trace, row) });
        }
        if (samples.length < count)
            setTimeout(work, 4);
        else
            done();
    };
    work();
}

function drawFreePieces(canvas, state, trace) {
    const surface = surfaceOf(canvas), { g, width, height, scale } = surface, samples = trace.freeSamples || [];
    // Where nearly nothing was live, all was free: the scale is that of the rest.
    const isBusy = sample => trace.total[sample.row] >= trace.peak.bytes / 8, busy = samples.some(isBusy) ? samples.filter(isBusy) : samples;
    const most = busy.reduce((sum, sample) => Math.max(sum, sample.free), 1), y = value => height - Math.min(1, value / most) * (height - 14 * scale);
    const area = (name, fill) => {
        g.fillStyle = fill;
        g.beginPath();
        g.moveTo(0, height);
        samples.forEach((sample, i) => {
            const x = xOf(placeOfRow(trace, sample.row), width);
            const next = i + 1 < samples.length ? xOf(placeOfRow(trace, samples[i + 1].row), width) : xOf(endPlace(trace), width);
            if (i === 0)
                g.lineTo(x, height);
            g.lineTo(x, y(sample[name]));
            g.lineTo(next, y(sample[name]));
            if (i + 1 === samples.length)
                g.lineTo(next, height);
        });
        g.fill();
    };
    area("free", theme.free);
    area("largest", COLOURS[4]);
    label(surface, `up to ${sizeText(most === 1 ? 0 : most)}`, 4 * scale, 11 * scale, theme.faint);
}
