// SPDX-License-Identifier: MIT
// search.js - what is written behind `/`: words with blanks between them, all of which a block has to match.
//
//     tag:kv  stack:attention  pool:main  stream:0x7f  thread:4711  size>8M  size<=64K  given>1G  life>5ms  is:live  is:cached
//     A word without a colon is looked for in the tag and in all frames of the stack. "two words" in quotation marks are one. -word: not that.
"use strict";

const SEARCH_SIZES = { "": 1, b: 1, k: 2 ** 10, kib: 2 ** 10, m: 2 ** 20, mib: 2 ** 20, g: 2 ** 30, gib: 2 ** 30, t: 2 ** 40, tib: 2 ** 40 };
const SEARCH_TIMES = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, "": 1e9, min: 60e9 };
const COMPARE = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };

// Words of a search: quotation marks keep blanks together.
function searchWords(text) {
    return [...text.matchAll(/(?:[^\s"]|"[^"]*")+/g)].map(([word]) => word.replace(/"/g, ""));
}

// A word as a function of (trace, class) or of (trace, birth). Throws an Error that says what is wrong with it.
function searchTerm(word) {
    const figure = /^(size|given|life)(>=|<=|>|<|=)(\d+(?:\.\d+)?)\s*([a-zµ]*)$/i.exec(word);
    if (figure) {
        const [, name, sign, digits, unit] = figure, units = name === "life" ? SEARCH_TIMES : SEARCH_SIZES;
        if (!(unit.toLowerCase() in units))
            throw new Error(`'${word}': no unit '${unit}'; write ${name === "life" ? "life>5ms" : "size>8M"}`);
        const value = Number(digits) * units[unit.toLowerCase()], compare = COMPARE[sign];
        if (name === "life")
            return { ofBirth: (trace, birth) => compare(lifeOf(trace, birth), value) };
        return { ofClass: (trace, c) => compare(trace.classes[name][c], value) };
    }
    const named = /^([a-z]+):(.*)$/i.exec(word), [key, text] = named ? [named[1].toLowerCase(), named[2].toLowerCase()] : ["", word.toLowerCase()];
    const has = name => (name || "").toLowerCase().includes(text);
    switch (key) {
    case "tag":
        return { ofClass: (trace, c) => has(trace.tags[trace.classes.tag[c]]) };
    case "stack":
        return { ofClass: (trace, c) => stackFrames(trace, trace.classes.stack[c]).some(has) };
    case "pool":
        return { ofClass: (trace, c) => has(trace.pools[trace.classes.pool[c]].text) };
    case "stream":
        return { ofClass: (trace, c) => has(groupName(trace, "stream", trace.classes.stream[c])) };
    case "thread":
        return { ofBirth: (trace, birth) => String(trace.threads[trace.rows.thread[trace.births.born[birth]]]) === text };
    case "is":
        if (text !== "live" && text !== "cached")
            throw new Error(`'${word}': write is:live or is:cached`);
        return { ofClass: (trace, c) => (trace.classes.state[c] === CACHED) === (text === "cached") };
    case "":
        return { ofClass: (trace, c) => has(trace.tags[trace.classes.tag[c]]) || stackFrames(trace, trace.classes.stack[c]).some(has) };
    default:
        throw new Error(`'${word}': there is tag:, stack:, pool:, stream:, thread:, is:, size>, given> and life>`);
    }
}

// How long a block was there, in ns: to the end of the trace, if it was never freed.
function lifeOf(trace, birth) {
    const { births, rows } = trace, died = births.died[birth];
    return (died >= rows.count ? trace.end : rows.at[died]) - rows.at[births.born[birth]];
}

// { found: of each birth whether all words match, count, bytes }; null for a text without words.
function search(trace, text) {
    const terms = searchWords(text).map(word => {
        const isNot = word.length > 1 && word[0] === "-";
        return { isNot, ...searchTerm(isNot ? word.slice(1) : word) };
    });
    if (!terms.length)
        return null;
    const { births, classes } = trace, ofClass = new Uint8Array(classes.count), found = new Uint8Array(births.count);
    for (let c = 0; c < classes.count; c++)
        ofClass[c] = terms.every(term => !term.ofClass || term.ofClass(trace, c) !== term.isNot);
    const ofBirth = terms.filter(term => term.ofBirth);
    let count = 0, bytes = 0;
    for (let i = 0; i < births.count; i++)
        if (ofClass[births.class[i]] && ofBirth.every(term => term.ofBirth(trace, i) !== term.isNot)) {
            found[i] = 1;
            count++;
            bytes += classes.size[births.class[i]];
        }
    return { found, count, bytes };
}
