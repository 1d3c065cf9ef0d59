// SPDX-License-Identifier: MIT
// data.js - what the command wrote into the page, unpacked: a document of JSON, and for each trace its columns of numbers.
//
// A row of a trace is an event that changed a block: one begins ("birth"), one ends, or one ends and another begins in its place. Names are those
// of tools/page/columns.h. All else of the page only reads what is made here.
"use strict";

const BYTES_EXACT = Number.MAX_SAFE_INTEGER; // above it sums of bytes are rounded
const CACHED = 0, ALLOCATED = 1, FOUND = 2; // states of classes
const ROUNDING = 512; // bytes of what classes are given is written less their sizes rounded up to it
const KIND = { map: 32, unmap: 33, trim: 34, figures: 35, settings: 36, synchronise: 39, wait: 40, rung: 41, refusal: 42, mark: 43, asked: 44,
    call: 45, sleep: 47, wake: 48 };
const CALLS = ["call 0", "cudaFree", "cudaFreeHost", "cudaHostAlloc", "cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaFreeAsync",
    "cudaMemPoolTrimTo", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"];
const RUNGS = ["flush", "wait", "trim", "callbacks", "neighbours"];

// Reads varints, one after the other.
class Numbers {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    next() {
        let byte = this.bytes[this.at++], value = byte & 127, factor = 128;
        while (byte > 127) {
            byte = this.bytes[this.at++];
            value += (byte & 127) * factor;
            factor *= 128;
        }
        return value;
    }

    // A zigzag.
    nextSigned() {
        const value = this.next();
        return value % 2 ? -(value + 1) / 2 : value / 2;
    }

    // As many as the array has room for: a loop of its own, since most of the page's loading is this.
    fill(array) {
        const bytes = this.bytes;
        let at = this.at;
        for (let i = 0; i < array.length; i++) {
            let byte = bytes[at++], value = byte & 127;
            for (let factor = 128; byte > 127; factor *= 128) {
                byte = bytes[at++];
                value += (byte & 127) * factor;
            }
            array[i] = value;
        }
        this.at = at;
        return array;
    }

    // Each as the step from the one before.
    fillSteps(array) {
        this.fill(array);
        for (let i = 1; i < array.length; i++)
            array[i] += array[i - 1];
        return array;
    }

    fillSignedSteps(array) {
        this.fill(array);
        for (let i = 0, sum = 0; i < array.length; i++)
            array[i] = sum += array[i] % 2 ? -(array[i] + 1) / 2 : array[i] / 2;
        return array;
    }
}

// The document and the columns: { document, bytes }, `bytes` being those of all columns.
async function unpack(element) {
    const text = atob(element.textContent.trim());
    let bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++)
        bytes[i] = text.charCodeAt(i);
    if (element.dataset.coding === "deflate") {
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
        bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    }
    const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const document = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
    return { document, bytes: bytes.subarray(8 + length) };
}

// Readers of one trace's columns by their names, and how many bytes these take.
function columnsOf(json, bytes) {
    const columns = {};
    let at = 0;
    for (const [name, length, count] of json.columns) {
        columns[name] = { numbers: new Numbers(bytes.subarray(at, at + length)), count };
        at += length;
    }
    return { columns, length: at };
}

function readClasses(columns) {
    const read = (name, type) => columns[name].numbers.fill(new type(columns[name].count));
    const size = read("class_size", Float64Array), given = new Float64Array(size.length);
    for (let i = 0; i < size.length; i++)
        given[i] = Math.ceil(size[i] / ROUNDING) * ROUNDING + columns.class_given.numbers.nextSigned();
    return {
        count: size.length, size, given, tag: read("class_tag", Int32Array),
        stack: read("class_stack", Int32Array), pool: read("class_pool", Int32Array), stream: read("class_stream", Int32Array),
        state: read("class_state", Uint8Array),
    };
}

// Events that change no block: growth, trims, waits, figures, marks, refusals. `row`: how many rows stand before each.
function readOthers(columns, rows) {
    const count = columns.other_event.count;
    const read = (name, type) => columns[name].numbers.fill(new type(count));
    const others = {
        count,
        event: columns.other_event.numbers.fillSteps(new Uint32Array(count)),
        time: columns.other_time.numbers.fillSignedSteps(new Float64Array(count)),
        thread: read("other_thread", Int32Array), kind: read("other_kind", Uint8Array), pool: read("other_pool", Int32Array),
        stream: read("other_stream", Int32Array), a: read("other_a", Float64Array), b: read("other_b", Float64Array),
        size: read("other_size", Float64Array), stack: read("other_stack", Int32Array),
        row: new Int32Array(count), at: new Float64Array(count),
    };
    for (let i = 0, row = 0; i < count; i++) {
        while (row < rows.count && rows.event[row] < others.event[i])
            row++;
        others.row[i] = row;
        others.at[i] = Math.max(others.time[i], row ? rows.at[row - 1] : 0);
    }
    return others;
}

// Rows: event (how many events the trace had behind it), time, at (time that never falls: the axis), thread, birth and death (-1: none).
function readRows(columns) {
    const count = columns.event.count;
    const rows = {
        count,
        event: columns.event.numbers.fillSteps(new Uint32Array(count)),
        time: columns.time.numbers.fillSignedSteps(new Float64Array(count)),
        at: new Float64Array(count),
        thread: columns.thread.numbers.fill(new Int32Array(count)),
        birth: new Int32Array(count).fill(-1), death: new Int32Array(count).fill(-1),
    };
    for (let i = 0, latest = 0; i < count; i++)
        rows.at[i] = latest = Math.max(latest, rows.time[i]);
    return rows;
}

function readClassOf({ numbers, count }) {
    const array = new Int32Array(count);
    for (let i = 0, next = 0; i < count; i++) {
        const value = numbers.next();
        array[i] = value ? value - 1 : next++;
    }
    return array;
}

// Births: their class, the row they begin and end with (ended: count of rows for those that never do), and their address, in units.
function readBirths(columns, rows) {
    const count = columns.class.count, ref = columns.ref.numbers, addresses = columns.address.numbers;
    const births = {
        count, class: readClassOf(columns.class), born: new Int32Array(count),
        died: new Int32Array(count).fill(rows.count), address: new Float64Array(count),
    };
    for (let row = 0, birth = 0, last = 0; row < rows.count; row++) {
        const value = ref.next(), former = value ? birth - Math.floor(value / 2) : -1;
        if (former >= 0) {
            births.died[former] = row;
            rows.death[row] = former;
        }
        if (value && value % 2 === 0)
            continue;
        births.born[birth] = row;
        births.address[birth] = former >= 0 ? births.address[former] : (last += addresses.nextSigned());
        rows.birth[row] = birth++;
    }
    return births;
}

// One trace: the members of its JSON, and what its columns say.
function readTrace(json, bytes, number) {
    const { columns, length } = columnsOf(json, bytes);
    const rows = readRows(columns), births = readBirths(columns, rows), classes = readClasses(columns);
    const trace = { ...json, number, rows, births, classes, others: readOthers(columns, rows), length };
    trace.unit = 2 ** json.addresses.shift; // bytes of an address's unit
    trace.end = Math.max(json.last, rows.count ? rows.at[rows.count - 1] : 0);
    return trace;
}

function readTraces(document, bytes) {
    let at = 0;
    return document.files.map((json, number) => {
        const trace = readTrace(json, bytes.subarray(at), number);
        at += trace.length;
        return trace;
    });
}

// The address of a birth as the command writes it.
function addressText(trace, birth) {
    const units = BigInt(Math.round(trace.births.address[birth]));
    return "0x" + (BigInt(trace.addresses.lowest) + (units << BigInt(trace.addresses.shift))).toString(16);
}

// The first place in a sorted array whose value is greater.
function placeBehind(array, value, count = array.length) {
    let low = 0, high = count;
    while (low < high) {
        const middle = low + high >> 1;
        if (array[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
