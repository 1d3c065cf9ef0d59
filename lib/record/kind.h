/* SPDX-License-Identifier: MIT */
/* kind.h - the kinds of events. The numbers are those of doc/trace.md. The first kind is used only in memory, never in files. */
#ifndef WEIR_LIB_KIND_H
#define WEIR_LIB_KIND_H

enum weir__kind {
    WEIR__KIND_MORE = 1, /* the next part of a name, for the event before it */
    WEIR__KIND_MALLOC = 16,
    WEIR__KIND_FREE = 17,
    WEIR__KIND_SERVE = 18,
    WEIR__KIND_KEEP = 19,
    WEIR__KIND_RETURN = 20,
    WEIR__KIND_LIVE = 21,
    WEIR__KIND_CACHED = 22,
    WEIR__KIND_GRAPH_MALLOC = 23,
    WEIR__KIND_GRAPH_FREE = 24,
    WEIR__KIND_MAP = 32,
    WEIR__KIND_UNMAP = 33,
    WEIR__KIND_TRIM = 34,
    WEIR__KIND_FIGURES = 35,
    WEIR__KIND_SETTINGS = 36,
    WEIR__KIND_STREAM_OPEN = 37,
    WEIR__KIND_STREAM_CLOSE = 38,
    WEIR__KIND_SYNCHRONISE = 39,
    WEIR__KIND_WAIT = 40,
    WEIR__KIND_RUNG = 41,
    WEIR__KIND_OUT_OF_MEMORY = 42,
    WEIR__KIND_MARK = 43,
    WEIR__KIND_ASKED = 44,
    WEIR__KIND_HELD = 45,
    WEIR__KIND_YIELD = 46,
    WEIR__KIND_SLEEP = 47,
    WEIR__KIND_WAKE = 48,
};

#endif
