/* SPDX-License-Identifier: MIT */
/* fence_internal.h - functions and variables that the files of lib/fence/ share. fence.h explains the words. */
#ifndef WEIR_LIB_FENCE_INTERNAL_H
#define WEIR_LIB_FENCE_INTERNAL_H

#include "lib/fence/fence.h"

/* The tables' lock guards the lists of all fences, lines, debts and parked blocks of the process. */
void weir__tables_lock(void);
void weir__tables_unlock(void);


/* The first of all fences, and the first of all lines, of the process. Guarded by the tables' lock. */
extern struct weir__fences *weir__fences_first __attribute__((visibility("hidden")));
extern struct weir__line *weir__lines_first __attribute__((visibility("hidden")));
/* Raised when a block is parked, and after `done` of a line with points of parked blocks has risen: until then the blocks that could not be
   taken before cannot be taken. Any thread may raise and read the number. */
extern _Atomic uint64_t weir__points_reached __attribute__((visibility("hidden")));
/* Count one point of a block of that group more or less on the line, and one use of the line more. The caller holds the tables' lock. */
void weir__line_add_point(struct weir__line *line, const void *group);
static inline void weir__line_drop_point(struct weir__line *line)
{
    atomic_fetch_sub(&line->points, 1);
}
/* Returns the owner's debt on the line, or NULL. The caller holds the tables' lock. */
struct weir__debt *weir__debt_find(const struct weir__line *line, const struct weir__debts *debts);
/* Returns the owner's debt on the DEVICE line of the line's device, or NULL. The caller holds the tables' lock. */
struct weir__debt *weir__debt_of_device(const struct weir__line *line, const struct weir__debts *debts);

/* Lines. The functions take the locks that they need, unless their comment says that the caller holds one. */

/* Moves all debts and points that no mark covers to the DEVICE line of the line's device. The caller holds the line's lock. */
void weir__line_move_to_device(struct weir__line *line);
/* weir__line_cover(), but returns the GPU code, or GPU_INVALID_HANDLE if the stream may not be used. The caller holds the line's lock. */
int weir__line_cover_locked(struct weir__line *line, bool is_named);
/* Makes the line GONE if its kind is `kind`: Weir does not use the stream of a GONE line any more. */
void weir__line_end_if(struct weir__line *line, enum weir__line_kind kind);
/* Returns whether the line has a debt with bytes in a step above `after` and up to `step`, or a point of a parked block in any step. The
   caller holds the tables' lock. */
bool weir__line_is_needed(const struct weir__line *line, uint64_t after, uint64_t step);
/* Makes the line PASSING unless it is OPEN: a call of the program names the stream, so the stream is alive. The caller holds the line's
   lock. */
void weir__line_revive(struct weir__line *line);
/* Sets `done` to `step`, and drops the marks up to that step. The frees up to that step are complete, and the caller has synchronised the
   stream, an event or the device behind them. The caller holds the line's lock. */
void weir__line_reach(struct weir__line *line, uint64_t step);
/* Returns whether the line is stream 0, in whichever context. */
bool weir__line_is_legacy(const struct weir__line *line);
/* Returns whether a call of CUDA on the line's handle reaches the line's stream now. A fixed handle, such as stream 0, means a stream of
   the thread's current device, which may be another device. */
bool weir__line_is_current(const struct weir__line *line);
/* Like weir__line_look(), but returns only the number of the marks left that count for the scope by its `after` and `until`, plus 1 for a
   PASSING stream 0 that is not idle. */
unsigned weir__line_look_for(struct weir__line *line, const struct weir__scope *scope);
/* Returns the number of the line's marks that count for the scope, without querying any event. */
unsigned weir__line_marks(struct weir__line *line, const struct weir__scope *scope);

/* Returns whether the owner's debts belong to the scope. */
bool weir__scope_has(const struct weir__scope *scope, const struct weir__debts *owner);
/* Returns the bytes of the scope that are pending on the line in steps up to `step`. The caller holds the tables' lock. */
uint64_t weir__scope_pending_on(const struct weir__scope *scope, const struct weir__line *line, uint64_t step);
/* Returns the next line of the scope after `after` (NULL: the first line), or NULL at the end. The caller uses the line until it passes the
   line as `after`, which puts the line. */
struct weir__line *weir__scope_next(const struct weir__scope *scope, struct weir__line *after);

/* Adds `bytes` to the debt, freed in step *step, and tells the owner's tracker. Steps mostly come in rising order; frees of several threads
   at the same time may come in any order. */
void weir__debt_add(struct weir__debt *debt, uint64_t bytes, const uint64_t *step);
/* Adds `bytes` of an owner without a tracker that were freed in `step`, and lie at `memory` (NULL: not known), less those that this step
   counts already. Returns the bytes added. */
uint64_t weir__debt_add_at(struct weir__debt *debt, const void *memory, uint64_t bytes, uint64_t step);
/* Moves the bytes of the steps above `after` and up to `until` to `to`, another debt of the same owner, as if freed in `step`. Returns the
   bytes moved. The caller holds the tables' lock. */
uint64_t weir__debt_pass(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step);
/* Returns the bytes of the steps above `after` and up to `step`. */
uint64_t weir__debt_bytes(struct weir__debt *debt, uint64_t after, uint64_t step);
/* Sets is_needed[i] for each mark i of the debt's line that is the first mark to cover some bytes of the debt which another stream could
   use. Leaves the other entries as they are. The caller holds the line's lock. */
void weir__debt_need(struct weir__debt *debt, bool is_needed[static WEIR__MARKS]);
/* Returns whether the debt has bytes of the steps above `after` and up to `step` that another stream could use. */
bool weir__debt_has(struct weir__debt *debt, uint64_t after, uint64_t step);
/* Removes the bytes that are complete by the line's `done` from the debt. Returns the bytes that are pending. */
uint64_t weir__debt_pending(struct weir__debt *debt);

#endif
