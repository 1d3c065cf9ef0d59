// SPDX-License-Identifier: MIT
// model.js - sums over a trace: what was live and held after each row, who had it at any moment, and whether that is what the command says.
//
// Nothing here decides what an event does to a block: the command's model did. The page adds up, and checkTrace() compares.
"use strict";

const STEP = 256; // rows between two places that sums are kept of
const SLOTS = 10; // groups that are drawn apart, the last of them being all the others together

// Values that change at moments: what pools held, what a cap was. Moments are rows (`row` stand before one) and times.
class StepLine {
    constructor(room = 1024) {
        this.count = 0;
        this.row = new Int32Array(room);
        this.at = new Float64Array(room);
        this.event = new Uint32Array(room);
        this.value = new Float64Array(room);
    }

    add(event, row, at, value) {
        if (this.count && this.value[this.count - 1] === value)
            return;
        if (this.count === this.row.length)
            for (const name of ["row", "at", "event", "value"]) {
                const larger = new this[name].constructor(2 * this.count);
                larger.set(this[name]);
                this[name] = larger;
            }
        this.row[this.count] = row;
        this.at[this.count] = at;
        this.event[this.count] = event;
        this.value[this.count++] = value;
    }

    // The value behind so many events.
    valueAt(event) {
        const place = placeBehind(this.event, event, this.count);
        return place ? this.value[place - 1] : 0;
    }

    seal() {
        this.most = new Float64Array(Math.ceil(this.count / STEP));
        for (let i = 0; i < this.count; i++)
            this.most[i / STEP | 0] = Math.max(this.most[i / STEP | 0], this.value[i]);
        return this;
    }

    // The greatest value of those from `from` on and before `to`.
    mostOf(from, to) {
        let most = 0;
        for (let i = from; i < to;)
            if (i % STEP === 0 && i + STEP <= to) {
                most = Math.max(most, this.most[i / STEP]);
                i += STEP;
            } else {
                most = Math.max(most, this.value[i++]);
            }
        return most;
    }
}

// Sums of one tag, stack, pool or stream, as the command's model has them.
const SUM_NAMES = ["blocks", "size", "given", "peak_size", "peak_given", "allocations", "allocated"];

class Sums {
    constructor(count) {
        this.blocks = new Float64Array(count);
        this.size = new Float64Array(count);
        this.given = new Float64Array(count);
        this.peak_size = new Float64Array(count);
        this.peak_given = new Float64Array(count);
        this.allocations = new Float64Array(count);
        this.allocated = new Float64Array(count);
    }

    add(place, size, given, isAllocated) {
        this.blocks[place]++;
        const bytes = this.size[place] += size, all = this.given[place] += given;
        if (bytes > this.peak_size[place])
            this.peak_size[place] = bytes;
        if (all > this.peak_given[place])
            this.peak_given[place] = all;
        if (isAllocated) {
            this.allocations[place]++;
            this.allocated[place] += size;
        }
    }

    take(place, size, given) {
        this.blocks[place]--;
        this.size[place] -= size;
        this.given[place] -= given;
    }
}

// What pools hold: reserved bytes, or where more is given or cached and the pool is awake, or nothing is known of them, that.
class Holding {
    constructor(trace) {
        const count = trace.pools.length;
        this.pools = trace.pools;
        this.used = new Float64Array(count); // live and cached, bytes given
        this.reserved = new Float64Array(count);
        this.isKnown = new Uint8Array(count);
        this.isAsleep = new Uint8Array(count);
        this.held = new Float64Array(count);
        this.most = new Float64Array(count);
        this.all = 0;
        this.mostOfAll = 0;
    }

    settle(pool) {
        const isAsSaid = this.isKnown[pool] && (this.isAsleep[pool] || this.reserved[pool] > this.used[pool]);
        const held = isAsSaid ? this.reserved[pool] : this.used[pool];
        this.all += held - this.held[pool];
        this.held[pool] = held;
        if (held > this.most[pool])
            this.most[pool] = held;
        if (this.all > this.mostOfAll)
            this.mostOfAll = this.all;
    }

    reserve(pool, bytes) {
        this.isKnown[pool] = 1;
        this.reserved[pool] = bytes;
        this.settle(pool);
    }

    // Of a pool of CUDA, figures stand behind growth; an arena's trim unmaps.
    apply(kind, pool, a, b) {
        const isArena = pool > 0 && this.pools[pool].is_arena;
        if (kind === KIND.figures)
            this.reserve(pool, b);
        else if (kind === KIND.map && isArena)
            this.reserve(pool, this.reserved[pool] + a);
        else if ((kind === KIND.unmap || kind === KIND.trim && !isArena) && this.isKnown[pool])
            this.reserve(pool, Math.max(0, this.reserved[pool] - a));
        if (kind === KIND.sleep || kind === KIND.wake) {
            this.isAsleep[pool] = kind === KIND.sleep ? 1 : 0;
            this.settle(pool);
        }
    }
}

// Caps of pools that have been used: their sum where each of them has one.
class Caps {
    constructor(count) {
        this.cap = new Float64Array(count);
        this.isUsed = new Uint8Array(count);
    }

    sum() {
        let sum = 0;
        for (let pool = 0; pool < this.cap.length; pool++) {
            if (this.isUsed[pool] && !this.cap[pool])
                return 0;
            sum += this.isUsed[pool] ? this.cap[pool] : 0;
        }
        return sum;
    }
}

function addTo(sums, classes, c) {
    const size = classes.size[c], given = classes.given[c], isAllocated = classes.state[c] === ALLOCATED;
    sums.all.add(0, size, given, isAllocated);
    sums.tags.add(classes.tag[c], size, given, isAllocated);
    sums.stacks.add(classes.stack[c], size, given, isAllocated);
    sums.pools.add(classes.pool[c], size, given, isAllocated);
    sums.streams.add(classes.stream[c], size, given, isAllocated);
}

function takeFrom(sums, classes, c) {
    const size = classes.size[c], given = classes.given[c];
    sums.all.take(0, size, given);
    sums.tags.take(classes.tag[c], size, given);
    sums.stacks.take(classes.stack[c], size, given);
    sums.pools.take(classes.pool[c], size, given);
    sums.streams.take(classes.stream[c], size, given);
}

// Goes through the trace once. Sets total (live bytes after each row), peak, held and caps (lines), sums, holding.
function addUp(trace) {
    const { rows, births, classes, others } = trace, count = rows.count;
    const total = trace.total = new Float64Array(count);
    const sums = trace.sums = {
        all: new Sums(1), tags: new Sums(trace.tags.length), stacks: new Sums(trace.stacks.length), pools: new Sums(trace.pools.length),
        streams: new Sums(trace.streams.length),
    };
    const holding = trace.holding = new Holding(trace), held = trace.held = new StepLine(), caps = trace.caps = new StepLine(16);
    const cap = new Caps(trace.pools.length), cached = trace.cached = new Float64Array(trace.pools.length);
    let live = 0, peak = { row: -1, bytes: 0 }, other = 0;
    trace.firstStack = count;

    const applyOthers = event => {
        for (; other < others.count && others.event[other] < event; other++) {
            const kind = others.kind[other], pool = others.pool[other];
            if (kind === KIND.settings) {
                cap.cap[pool] = others.b[other];
                caps.add(others.event[other], others.row[other], others.at[other], cap.sum());
            } else {
                holding.apply(kind, pool, others.a[other], others.b[other]);
                held.add(others.event[other], others.row[other], others.at[other], holding.all);
            }
        }
    };
    for (let row = 0; row < count; row++) {
        applyOthers(rows.event[row]);
        const death = rows.death[row], birth = rows.birth[row];
        if (death >= 0) {
            const c = births.class[death], pool = classes.pool[c], size = classes.size[c], given = classes.given[c];
            if (classes.state[c] === CACHED)
                cached[pool] -= given;
            else
                takeFrom(sums, classes, c);
            live -= size;
            holding.used[pool] -= given;
            holding.settle(pool);
        }
        if (birth >= 0) {
            const c = births.class[birth], pool = classes.pool[c], size = classes.size[c], given = classes.given[c];
            if (classes.state[c] === CACHED)
                cached[pool] += given;
            else
                addTo(sums, classes, c);
            live += size;
            holding.used[pool] += given;
            holding.settle(pool);
            if (!cap.isUsed[pool]) {
                cap.isUsed[pool] = 1;
                caps.add(rows.event[row], row, rows.at[row], cap.sum());
            }
            if (classes.stack[c] && row < trace.firstStack)
                trace.firstStack = row;
        }
        total[row] = live;
        if (live > peak.bytes)
            peak = { row, bytes: live };
        held.add(rows.event[row], row, rows.at[row], holding.all);
    }
    applyOthers(Infinity);
    trace.peak = peak;
    held.seal();
    caps.seal();
    trace.highest = new Int32Array(Math.ceil(count / STEP)); // of each step: the row with the most
    for (let i = 0; i < count; i++)
        if (i % STEP === 0 || total[i] > total[trace.highest[i / STEP | 0]])
            trace.highest[i / STEP | 0] = i;
    trace.lastDeath = new Int32Array(Math.ceil(births.count / STEP)); // of each step of births: the last row that any of them ends with
    for (let i = 0; i < births.count; i++)
        trace.lastDeath[i / STEP | 0] = Math.max(trace.lastDeath[i / STEP | 0], births.died[i]);
}

// The row with the most live bytes of those from `from` on and before `to`; -1 if there are none.
function highestRow(trace, from, to) {
    let best = -1;
    for (let i = from; i < to;) {
        const isWhole = i % STEP === 0 && i + STEP <= to, row = isWhole ? trace.highest[i / STEP] : i;
        if (best < 0 || trace.total[row] > trace.total[best])
            best = row;
        i += isWhole ? STEP : 1;
    }
    return best;
}

// Calls look(birth) for each block that is there from the row `from` to the row `to` or at some time between, in the order of births.
function eachBirth(trace, from, to, look) {
    const { births } = trace, end = placeBehind(births.born, to, births.count);
    for (let start = 0; start < end; start += STEP) {
        if (trace.lastDeath[start / STEP] <= from)
            continue;
        for (let i = start, stop = Math.min(end, start + STEP); i < stop; i++)
            if (births.died[i] > from)
                look(i);
    }
}

// Checking ---------------------------------------------------------------------------------------------------------------------------------

// Differences between the page's sums and the command's, in words; none, if all are equal. isExact: no figure is too large for the page.
function checkTrace(trace) {
    const differences = [], totals = trace.totals;
    let isExact = true;
    const compare = (name, mine, theirs) => {
        if (theirs > BYTES_EXACT || mine > BYTES_EXACT)
            isExact = false;
        else if (mine !== theirs)
            differences.push(`${name}: the page has ${mine}, the command ${theirs}`);
    };
    const compareSums = (name, sums, place, theirs) => {
        for (const sum of SUM_NAMES)
            compare(`${name}, ${sum}`, sums[sum][place], theirs[sum]);
    };
    compareSums("all", trace.sums.all, 0, totals.all);
    totals.tags.forEach((theirs, i) => compareSums(`tag ${trace.tags[i]}`, trace.sums.tags, i, theirs));
    totals.stacks.forEach((theirs, i) => compareSums(`stack ${i}`, trace.sums.stacks, i, theirs));
    const places = new Map(trace.streams.map((stream, i) => [stream.text, i]));
    for (const theirs of totals.streams)
        if (places.has(theirs.stream))
            compareSums(`stream ${theirs.stream}`, trace.sums.streams, places.get(theirs.stream), theirs);
        else
            compare(`stream ${theirs.stream}, blocks`, 0, theirs.allocations);
    const spans = spansOf(trace);
    totals.pools.forEach((theirs, i) => {
        const name = `pool ${trace.pools[i].text}`;
        compareSums(name, trace.sums.pools, i, theirs);
        compare(`${name}, cached`, trace.cached[i], theirs.cached);
        compare(`${name}, held`, trace.holding.held[i], theirs.held);
        compare(`${name}, held_peak`, trace.holding.most[i], theirs.held_peak);
        for (const span of ["map", "unmap", "trim", "wait", "synchronise", "call"]) {
            compare(`${name}, ${span} count`, spans[i][span].count, theirs[span].count);
            compare(`${name}, ${span} ns`, spans[i][span].ns, theirs[span].ns);
        }
    });
    compare("held", trace.holding.all, totals.held);
    compare("peak_held", trace.holding.mostOfAll, totals.peak_held);
    compare("peak_event", trace.peak.row >= 0 ? trace.rows.event[trace.peak.row] : 0, totals.peak_event);
    const kinds = kind => trace.others.kind.reduce((sum, other) => sum + (other === kind), 0);
    compare("marks", kinds(KIND.mark), totals.marks);
    compare("refusals", kinds(KIND.refusal), totals.refusals);
    return { differences: isExact ? differences : [], isExact };
}

// How often growth and the like were, and how long they took, pool by pool.
function spansOf(trace) {
    const others = trace.others, none = () => ({ count: 0, ns: 0 });
    const spans = trace.pools.map(() => ({ map: none(), unmap: none(), trim: none(), wait: none(), synchronise: none(), call: none() }));
    const names = new Map(Object.keys(spans[0] || {}).map(name => [KIND[name], name]));
    for (let i = 0; i < others.count; i++) {
        const name = names.get(others.kind[i]);
        if (!name)
            continue;
        const span = spans[others.pool[i]][name];
        span.count++;
        span.ns += stepTime(others, i);
    }
    return spans;
}

// How long a step took, in ns.
function stepTime(others, i) {
    const kind = others.kind[i];
    return kind === KIND.synchronise || kind === KIND.wait ? others.a[i] :
        kind === KIND.map || kind === KIND.unmap || kind === KIND.trim || kind === KIND.rung || kind === KIND.call ? others.b[i] : 0;
}

// Groups -----------------------------------------------------------------------------------------------------------------------------------

const GROUPINGS = ["tag", "stack", "pool", "stream", "size"];

// What the blocks of a class are named by in a grouping; the values of `size` are bytes, those of the others numbers of the trace.
function groupKeys(trace, grouping) {
    return grouping === "size" ? trace.classes.size : trace.classes[grouping];
}

function groupName(trace, grouping, key) {
    switch (grouping) {
    case "tag":
        return trace.tags[key];
    case "pool":
        return trace.pools[key].text;
    case "stream":
        return trace.streams[key].name ? `${trace.streams[key].name} (${trace.streams[key].text})` : trace.streams[key].text;
    case "size":
        return sizeText(key);
    default:
        return stackNames(trace)[key];
    }
}

// Of each stack the frame that says most: Python's innermost, else the first behind Weir's own. Where that is the same one for several stacks, the
// next frames stand behind it.
function stackNames(trace) {
    if (trace.stackNames)
        return trace.stackNames;
    const named = trace.stacks.slice(1).map((stack, i) => {
        const frames = stack.map(frame => trace.frames[frame]), python = frames.findIndex(frame => /\.py:\d+\)$/.test(frame));
        const own = frames.findLastIndex(frame => /^weir_|^libweir|^libcuda(rt)?\.so|^(__)?cuda|^libcudart_/.test(frame)), first = python >= 0 ? python : Math.min(own + 1, frames.length - 1);
        return frames.length ? frames.slice(first).map(frame => frame.replace(/\([^)]*\/(?=[^)]*\)$)/, "(")) : [`stack ${i + 1}`];
    });
    return trace.stackNames = nameApart(["without a stack", ...named.map(frames => frames[0])], named);
}

// Adds frames to names that several stacks have, three at most.
function nameApart(names, named) {
    for (let depth = 1; depth <= 3; depth++) {
        const counts = new Map();
        for (const name of names)
            counts.set(name, (counts.get(name) || 0) + 1);
        named.forEach((frames, i) => {
            if (counts.get(names[i + 1]) > 1 && frames[depth])
                names[i + 1] += ` < ${frames[depth]}`;
        });
    }
    return names;
}

// The groups that are drawn apart: those that have the most at the peak, then those that ever had the most. Made once for each grouping; files
// that are shown together have the same colours for the same names.
function seriesOf(traces, grouping) {
    const weights = new Map();
    for (const trace of traces) {
        const keys = groupKeys(trace, grouping), most = new Map();
        for (const holder of holdersAt(trace, trace.peak.row, grouping))
            most.set(holder.key, holder.bytes);
        for (let c = 0; c < trace.classes.count; c++)
            if (trace.classes.state[c] !== CACHED && !most.has(keys[c]))
                most.set(keys[c], 0);
        for (const [key, bytes] of most) {
            const name = groupName(trace, grouping, key);
            weights.set(name, Math.max(weights.get(name) || 0, bytes));
        }
    }
    const names = [...weights].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const shown = names.length > SLOTS ? [...names.slice(0, SLOTS - 1), `${names.length - SLOTS + 1} others`] : names;
    const slots = new Map(names.map((name, i) => [name, Math.min(i, SLOTS - 1)]));
    return { grouping, names: shown, slots, traces: traces.map(trace => keptSums(trace, grouping, slots, shown.length)) };
}

// Of each class its slot, and every STEP rows what each slot had.
function keptSums(trace, grouping, slots, count) {
    const { rows, classes } = trace, keys = groupKeys(trace, grouping), slot = new Uint8Array(classes.count), names = new Map();
    for (let c = 0; c < classes.count; c++) {
        if (classes.state[c] === CACHED)
            continue;
        if (!names.has(keys[c]))
            names.set(keys[c], slots.get(groupName(trace, grouping, keys[c])) || 0);
        slot[c] = names.get(keys[c]);
    }
    const kept = new Float64Array((Math.floor(rows.count / STEP) + 1) * count), now = new Float64Array(count);
    for (let row = 0; row < rows.count; row++) {
        if (row % STEP === 0)
            kept.set(now, row / STEP * count);
        applyRow(trace, row, slot, now);
    }
    return { slot, kept, count };
}

function applyRow(trace, row, slot, now) {
    const { rows, births, classes } = trace, death = rows.death[row], birth = rows.birth[row];
    if (death >= 0)
        now[slot[births.class[death]]] -= classes.size[births.class[death]];
    if (birth >= 0)
        now[slot[births.class[birth]]] += classes.size[births.class[birth]];
}

// What each slot had after the row, into `now`.
function slotsAt(trace, sums, row, now) {
    const first = Math.floor(row / STEP);
    now.set(sums.kept.subarray(first * sums.count, (first + 1) * sums.count));
    for (let i = first * STEP; i <= row; i++)
        applyRow(trace, i, sums.slot, now);
}

// Who has memory after the row (-1: before the first), the same sums as the command's: by key, those with the most bytes first.
function holdersAt(trace, row, grouping) {
    const { rows, births, classes } = trace, keys = groupKeys(trace, grouping), holders = new Map();
    if (row >= 0)
        eachBirth(trace, row, row, birth => {
            const c = births.class[birth];
            if (classes.state[c] === CACHED)
                return;
            let holder = holders.get(keys[c]);
            const time = rows.time[births.born[birth]];
            if (!holder)
                holders.set(keys[c], holder = { key: keys[c], blocks: 0, bytes: 0, given: 0, oldest: time });
            holder.blocks++;
            holder.bytes += classes.size[c];
            holder.given += classes.given[c];
            holder.oldest = Math.min(holder.oldest, time);
        });
    const order = grouping === "stream" ? key => BigInt(trace.streams[key].text) : key => key;
    return [...holders.values()].sort((a, b) => b.bytes - a.bytes || a.oldest - b.oldest || (order(a.key) < order(b.key) ? -1 : 1));
}
