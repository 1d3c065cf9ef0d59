/* SPDX-License-Identifier: MIT */
/*
 * report.h - what `weir record --any` and the processes that it records tell each other: a small file, mapped by all of them.
 *
 * The command makes the file, for its user alone, and names it in $WEIR_AUDIT. It writes `asked` before the program runs; the processes only
 * add to `told`, each field atomically, so that what a killed process has told stays. Whoever opens the file checks that it is the user's.
 */
#ifndef WEIR_AUDIT_REPORT_H
#define WEIR_AUDIT_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/keys.h"

#define AUDIT_VARIABLE "WEIR_AUDIT"
#define AUDIT_VERSION UINT64_C(0x57414401) /* of this file: the command and the library are of one release */
#define AUDIT_SLOTS 64
#define AUDIT_TEXT 256

/* Calls of some threads: each adds to the slot of its number, so that few threads share a cache line. */
struct audit_slot {
    _Atomic uint64_t calls;
    _Atomic uint64_t timed, ticks; /* how many of them were timed, and what Weir's own part of those took (clock.h) */
} __attribute__((aligned(64)));

struct audit_report {
    uint64_t version;
    struct {
        bool has_stacks;
        char name[POLICY_FILE_NAME_MAX + 1]; /* of the traces, with %p and %r */
    } asked;
    struct {
        _Atomic uint32_t processes, drivers, traces; /* that the loader told of; with the driver in them; that were begun */
        _Atomic uint32_t weirs;    /* processes that have libweir in them and were left to it */
        _Atomic uint32_t torches;  /* with PyTorch's own allocator in them */
        _Atomic uint32_t seconds;  /* drivers that were loaded beside another copy, and are not seen */
        _Atomic uint32_t has_failure, has_unknown; /* who sets it writes the text below, once */
        char failure[AUDIT_TEXT];  /* why a trace could not be made, or ends early */
        char unknown[AUDIT_TEXT];  /* a function that was asked for in a form that is not known here */
        struct audit_slot slots[AUDIT_SLOTS];
    } told;
};

#endif
