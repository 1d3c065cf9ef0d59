/* SPDX-License-Identifier: MIT */
/* fence_internal.h - what the files of lib/fence/ share. */
#ifndef WEIR_LIB_FENCE_INTERNAL_H
#define WEIR_LIB_FENCE_INTERNAL_H

#include "lib/fence/fence.h"

/* The tables' lock: of all fences, lines, debts and parked blocks of the process. */
void weir__tables_lock(void);
void weir__tables_unlock(void);
/* With it: all fences, one after the other. */
extern struct weir__fences *weir__fences_first __attribute__((visibility("hidden")));
/* With it: all lines of the process, one after the other. */
extern struct weir__line *weir__lines_first __attribute__((visibility("hidden")));
/* With it: the owner's debt on the line, or NULL. */
struct weir__debt *weir__debt_find(const struct weir__line *line, const struct weir__debts *debts);
/* With it: the owner's debt on the line of the line's device, or NULL. */
struct weir__debt *weir__debt_of_device(const struct weir__line *line, const struct weir__debts *debts);

/* With the line's lock: what no mark covers moves to the line of the device. */
void weir__line_move_to_device(struct weir__line *line);
/* With the line's lock: as weir__line_cover(). Returns the waist's code, or GPU_INVALID_HANDLE where the stream may not be touched. */
int weir__line_cover_locked(struct weir__line *line, bool is_named);
/* Nobody may touch the stream from now on, if its line is of that kind. */
void weir__line_end_if(struct weir__line *line, enum weir__line_kind kind);
/* With the tables' lock: whether something was freed on the line, or a point is there, behind `after` and no later than `step`. */
bool weir__line_is_needed(const struct weir__line *line, uint64_t after, uint64_t step);
/* With the line's lock, within a call that names the stream: if it was closed, it lives all the same. */
void weir__line_revive(struct weir__line *line);
/* With the line's lock: everything up to that step is complete, and CUDA was made to see it, so its marks are needed no more. */
void weir__line_reach(struct weir__line *line, uint64_t step);
/* Stream 0 of a device, of whichever context. */
bool weir__line_is_legacy(const struct weir__line *line);
/* Whether a handle that means another stream on each device means that of the line's: a call on it must not be one on another stream. */
bool weir__line_is_current(const struct weir__line *line);
/* As weir__line_look(), but returns how many marks are left of those that count for the scope. */
unsigned weir__line_look_for(struct weir__line *line, const struct weir__scope *scope);
/* The same without looking. */
unsigned weir__line_marks(struct weir__line *line, const struct weir__scope *scope);

/* Whether what the owner frees belongs to the scope. */
bool weir__scope_has(const struct weir__scope *scope, const struct weir__debts *owner);
/* With the tables' lock: what of the scope is pending on the line, in steps up to `step`. */
uint64_t weir__scope_pending_on(const struct weir__scope *scope, const struct weir__line *line, uint64_t step);
/* The line that comes after `after` (NULL: the first) and in which something of the scope is pending, for the caller to use until the next
   call; `after` is put. NULL at the end. */
struct weir__line *weir__scope_next(const struct weir__scope *scope, struct weir__line *after);

/* Adds bytes freed in that step, which is no earlier than those before it but for frees at the same time. */
void weir__debt_add(struct weir__debt *debt, uint64_t bytes, const uint64_t *step);
/* With the tables' lock: what was freed after `after`, no later than `until`, moves to another debt of the owner, as freed in that step.
   Returns the bytes. */
uint64_t weir__debt_pass(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step);
/* Bytes of steps after `after`, no later than `step`. */
uint64_t weir__debt_bytes(struct weir__debt *debt, uint64_t after, uint64_t step);
/* With the lock of the debt's line: adds for each of its marks whether another stream could have something of the debt that this mark is the first to cover. */
void weir__debt_need(struct weir__debt *debt, bool is_needed[static WEIR__MARKS]);
/* Whether another stream could have something of that. */
bool weir__debt_has(struct weir__debt *debt, uint64_t after, uint64_t step);
/* What is pending, by the line's `done`: the rest leaves the debt. */
uint64_t weir__debt_pending(struct weir__debt *debt);

#endif
