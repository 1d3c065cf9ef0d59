/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a recorded sequence of requests and frees, read from a file of lines `op,id,bytes` below that heading.
 *
 * `a` asks for so many bytes, `f` frees the block with that id and those bytes. Ids are 0, 1, … in the order of the requests. What is never
 * freed lives to the end. A file whose name ends in .zst is read through `zstd -dc`.
 */
#ifndef WEIR_BENCH_TRACE_H
#define WEIR_BENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_step {
    uint64_t bytes;
    uint32_t id;
    bool is_free;
};

struct trace {
    char name[32]; /* the file's, without its folder and endings */
    size_t step_count, block_count;
    struct trace_step *steps;
};

/* false: why says what is wrong, and where; there is nothing to clear. */
bool trace_read(struct trace *trace, const char *path, char *why, size_t len);
void trace_clear(struct trace *trace);

#endif
