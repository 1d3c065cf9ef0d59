/* SPDX-License-Identifier: MIT */
/*
 * recorded.h - the memory history that the shim keeps for torch (shim_history.h), compiled with stand-ins of torch's types, for tests in C:
 * what the shim does for each tensor, and its snapshots as plain structs. One history for the process. What throws returns false or NULL.
 */
#ifndef WEIR_TESTS_RECORDED_H
#define WEIR_TESTS_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A letter for each action. */
#define RECORDED_ALLOC 'a'
#define RECORDED_FREE_REQUESTED 'f'
#define RECORDED_FREE_COMPLETED 'c'
#define RECORDED_SEGMENT_ALLOC 'S'
#define RECORDED_SEGMENT_FREE 'F'
#define RECORDED_SNAPSHOT 's'
#define RECORDED_OOM 'o'
#define RECORDED_ANNOTATE 'A'

enum recorded_level { RECORDED_NO_STACKS, RECORDED_OF_BLOCKS, RECORDED_OF_ALLOCS, RECORDED_ALL_STACKS };

struct recorded_event {
    int action, device;
    uint64_t address, size;
    weir_cuda_stream stream, block_stream;
    unsigned long long pool;
    int64_t time;
    const char *compiled, *users;
    const void *stack;
};

struct recorded_part {
    uint64_t address, size, asked;
    bool is_allocated, is_active;
    const void *stack;
};

struct recorded_segment {
    int device;
    uint64_t address, size;
    weir_cuda_stream stream;
    unsigned long long pool;
    size_t first_part, part_count;
    const void *stack;
};

/* Its stacks are kept until it is freed. */
struct recorded {
    struct recorded_segment *segments;
    struct recorded_part *parts;
    struct recorded_event *events;
    size_t segment_count, part_count, event_count;
    void *kept;
};

/* left_out: names of actions, with a space behind each. */
bool recorded_begin(size_t entries, enum recorded_level level, bool clears, const char *left_out);
void recorded_end(void);
bool recorded_is_on(void);

/* A tensor is there; it goes, before its memory is freed, and behind that if this returned true. */
bool recorded_insert(void *ptr, size_t size, int device, weir_cuda_stream stream);
bool recorded_take(void *ptr);
void recorded_freed(void *ptr);

void recorded_oom(size_t size, int device, weir_cuda_stream stream, uint64_t memory_free);
void recorded_annotate(const void *ptr, const char *words);

/* Of two devices. */
struct recorded *recorded_snapshot(void);
void recorded_free(struct recorded *recorded);

/* What the thread compiles, and what its user says, from now on; compiled: NULL ends that. */
void recorded_say(const char *compiled, const char *users);

/* The stack of the live block in which ptr lies, to be released. NULL: none. */
void *recorded_stack_at(const void *ptr);
void recorded_release(void *stack);

/* Stacks that something keeps, and how often a snapshot said that events are missing. */
size_t recorded_stacks(void);
size_t recorded_warnings(void);

#ifdef __cplusplus
}
#endif

#endif
