/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - what return addresses of a recorded process are called. The trace says which module each lies in; its file is looked into when
 * the first address in it is asked for.
 *
 * Nothing in it is trusted: see object.h for which files are opened. What is said of an address has no control characters, whatever a
 * file's tables have. It belongs to its maker, and modules have to outlive it; one thread.
 */
#ifndef WEIR_TRACE_SYMBOLS_H
#define WEIR_TRACE_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"

#define SYMBOLS_FILES_MAX 400 /* that are looked into: each takes up to two descriptors, of 1,024 as a rule */

struct symbols;

/* What is known of an address. The texts are the table's. */
struct symbol {
    const struct trace_module *module;
    uint64_t address;
    const char *function; /* "" if it is not known */
    const char *file;     /* of its source; "" likewise */
    unsigned line;
    bool has_changed; /* the module's file is not the recorded one any more */
};

struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);

/* Of a return address in that module: what is looked for is the call right before it. */
const struct symbol *symbols_find(struct symbols *symbols, const struct trace_module *module, uint64_t address);

#endif
