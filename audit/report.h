/* SPDX-License-Identifier: MIT */
/*
 * report.h - a small file through which `weir record --any` and the processes that it records tell each other things. All of them have it
 * mapped.
 *
 * The command creates the file, accessible to its user alone, and names it in $WEIR_AUDIT. The command writes `asked` before the program
 * runs. The processes only add to `told`, each field atomically, so that the figures of a killed process stay. Each process that opens the
 * file checks that it belongs to the user.
 */
#ifndef WEIR_AUDIT_REPORT_H
#define WEIR_AUDIT_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/keys.h"

#define AUDIT_VARIABLE "WEIR_AUDIT"
#define AUDIT_VERSION UINT64_C(0x57414401) /* the version of this format; command and library are always of one release */
#define AUDIT_SLOTS 64
#define AUDIT_TEXT 256

/* Figures of the calls of some threads. A thread adds to the slot of its thread id, modulo AUDIT_SLOTS, so that few threads share a cache
   line. */
struct audit_slot {
    _Atomic uint64_t calls;
    _Atomic uint64_t timed, ticks; /* the calls that were timed, and the sum of Weir's own part in them, in ticks (clock.h) */
} __attribute__((aligned(64)));

struct audit_report {
    uint64_t version;
    struct {
        bool has_stacks;
        char name[POLICY_FILE_NAME_MAX + 1]; /* the name for the traces, with %p and %r */
    } asked;
    struct {
        /* processes that loaded this library; processes that loaded the driver; traces that were begun */
        _Atomic uint32_t processes, drivers, traces;
        _Atomic uint32_t weirs;    /* processes that loaded Weir itself, in which this recording ended */
        _Atomic uint32_t torches;  /* processes that loaded PyTorch's own CUDA allocator */
        _Atomic uint32_t seconds;  /* second copies of the driver, whose calls are not recorded */
        _Atomic uint32_t has_failure, has_unknown; /* set once, by the process that writes the text below */
        char failure[AUDIT_TEXT];  /* why a trace could not be made, or ended early */
        char unknown[AUDIT_TEXT];  /* a function of the driver that a program looked up in a form unknown to this library */
        struct audit_slot slots[AUDIT_SLOTS];
    } told;
};

#endif
