/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - finds the function, source file and line of return addresses of a recorded process. The caller finds the module of an address
 * in the trace; the module's file is opened when its first address is looked up.
 *
 * Neither the trace nor the files are trusted: object.h says which files are opened, and control characters in names are replaced. The
 * caller owns the struct and keeps the modules valid as long as it exists; one thread uses it.
 */
#ifndef WEIR_TRACE_SYMBOLS_H
#define WEIR_TRACE_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/event.h"

#define SYMBOLS_FILES_MAX 400 /* files that are opened: each takes up to two descriptors, and the usual limit of a process is 1,024 */

struct symbols;

/* The result of a look-up. The strings belong to struct symbols. */
struct symbol {
    const struct trace_module *module;
    uint64_t address;
    const char *function; /* "" if unknown */
    const char *file;     /* the source file; "" if unknown */
    unsigned line;        /* 0 if unknown */
    bool has_changed;     /* the module's file on this machine is not the recorded one */
};

struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);

/* Looks up a return address in that module. The result describes the call instruction, which ends right before the return address. Never
   returns NULL. */
const struct symbol *symbols_find(struct symbols *symbols, const struct trace_module *module, uint64_t address);

#endif
