/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - what return addresses of a recorded process are called. The trace says which files were loaded where; these are looked into
 * when the first address in them is asked for.
 *
 * Nothing in it is trusted: see object.h for which files are opened. What is said of an address has no control characters, whatever a
 * file's tables have. It belongs to its maker; one thread. An address keeps its first answer, so define the modules before asking.
 */
#ifndef WEIR_TRACE_SYMBOLS_H
#define WEIR_TRACE_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOLS_MODULES_MAX 65536 /* further ones are left out */
#define SYMBOLS_FILES_MAX 400     /* that are looked into: each takes up to two descriptors, of 1,024 as a rule */

struct symbols;

/* What is known of an address. The texts are the table's. */
struct symbol {
    uint64_t address;
    const char *text;     /* "function (file:line)", "function (module)", "module+0x…", or "0x…" */
    const char *function; /* "" if it is not known */
    const char *file;     /* of its source; "" likewise */
    unsigned line;
    const char *module; /* the path that was recorded; "" if there was none at the address */
    uint64_t offset;    /* in that file */
    bool has_changed;   /* the file is not the recorded one any more; the text says so too */
};

struct symbols *symbols_new(void);
void symbols_free(struct symbols *symbols);

/* A piece of code, as the trace defines it. One with the same id takes the place of the earlier one. */
void symbols_module(struct symbols *symbols, uint64_t id, uint64_t start, uint64_t length, uint64_t offset, const char *build_id,
                    const char *path);

/* Of a return address: what is looked for is the call right before it. */
const struct symbol *symbols_find(struct symbols *symbols, uint64_t address);
const char *symbols_text(struct symbols *symbols, uint64_t address);

#endif
