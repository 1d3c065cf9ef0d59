/* SPDX-License-Identifier: MIT */
/*
 * fence.h - when freed memory may serve others: one mechanism for everything that was freed and is not complete.
 *
 * A free is stream-ordered: the memory is the stream's own at once, and anybody else's only once the GPU has come to that point of the
 * stream and CUDA was made to see it, or once the other stream was made to wait for that point. A *line* is one stream, or all work of one
 * device, as a sequence of numbered steps. A free on the line notes the line's present step. A *mark* is an event of Weir's own that ends a
 * step: once it is complete, so are all frees of that step and of the steps before it. A *debt* is what one owner of memory, such as a
 * pool, has freed on one line and does not know to be complete. A *point* is a step of a line that somebody waits for. *Parked* blocks are
 * those that no single stream can give back; each waits for some points.
 *
 * What holds, whatever calls fail:
 *
 * 1. done < marks[0].step < marks[1].step < … < step. `done` rises only after the event of a mark of that step was seen complete and was
 *    synchronised, since CUDA lets other pools have what was freed before an event only then.
 * 2. A free reads `step` after its work is on the stream, and a mark raises `step` before its event is recorded. So a mark is behind every
 *    free of its step and of those before it, and a free on an OPEN line needs no lock of the line. A free on a PASSING line has the line's
 *    lock, and may share the step of the newest mark: its event is then recorded anew, behind that free too.
 * 3. A line has WEIR__MARKS marks at most. Where they are all in use the newest one is recorded anew, never an older one: so some memory
 *    becomes complete later than it could, but none waits for ever. Marks that no debt, no point and no wait depends on are dropped first.
 * 4. A handle is touched only while its line is OPEN, or within a call of the program that names the stream, and never while it captures;
 *    that of stream 0, which lives as long as its device, whenever somebody needs what was freed there. Whether a stream captures is asked
 *    behind each record: an event that a capture has caught is never asked for anything.
 * 5. Memory leaves a debt because `done` covers it, or because weir__debts_order() made another stream wait for it: then it is in the debt
 *    of that stream. A line that is gone can get no mark any more, so what no mark covers moves to the line of its device at once; so does
 *    what a broken event covered, and what is on a PASSING line without a mark, once the device is to be covered.
 * 6. All host memory that a free needs is there before the free begins: weir__debt_of() has it.
 *
 * Completion is pulled. weir__line_look() raises `done`, and the parts of a debt are compared with `done` when they matter.
 *
 * Locks, from the top down: `lock` of a line, of which no thread has two, held over the calls that record, ask and await events; the
 * tables' (line.c), one for all devices, which guards what lines there are, their debts and what is parked; `lock` of a debt, which guards
 * its parts. The last two are held over no call of CUDA; below them there is only what a tracker locks. What is passed from one line to another needs no lock of the second: its
 * step is atomic.
 *
 * Call everything here in relaxed capture mode, and not in a forked child.
 */
#ifndef WEIR_LIB_FENCE_H
#define WEIR_LIB_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/spin.h"
#include "lib/base/table.h"
#include "lib/gpu/gpu.h"

#define WEIR__MARKS 8
#define WEIR__PARTS (WEIR__MARKS + 1)         /* of a debt: one for each mark, and one behind them */
#define WEIR__STEP_BYTES (UINT64_C(64) << 20) /* freed on a line since its last mark, after which it gets another one */

enum weir__line_kind {
    WEIR__LINE_OPEN,     /* the stream is alive until weir__line_close() or weir__line_gone(): the program opened it, or it is Weir's own */
    WEIR__LINE_PASSING,  /* calls have named the stream. Between two of them it may be destroyed at any moment; stream 0 never is */
    WEIR__LINE_CAPTURED, /* it captured when it was closed, and may go on: nobody can ask */
    WEIR__LINE_GONE,   /* closed, or destroyed. A free that names such a line, or a captured one, shows that it lives: it is PASSING then */
    WEIR__LINE_DEVICE, /* all work of one device */
};

/* An event that ends a step. */
struct weir__mark {
    gpu_event event;
    uint64_t step;
    uint64_t number; /* among all marks of the process; what is recorded anew keeps its number */
    uint64_t bytes;  /* that were freed since the mark before it, as far as they were counted. At least 1 */
    bool is_wanted;  /* somebody may wait for it although nothing is counted before it */
};

/* Owned by its fences, from the first call that names the stream until nothing depends on the line and no call uses it. */
struct weir__line {
    struct weir__link link;           /* in fences->lines. Guarded by the tables' lock, as the next six */
    struct weir__line *next, *before; /* of all lines of the process */
    struct weir__debt *debts;         /* all that was freed here */
    unsigned users;                   /* its opener, calls that use it, and points of parked blocks */
    unsigned points;                  /* of parked blocks */
    bool is_listed;                   /* in fences->lines */
    struct weir__fences *fences;      /* of its device. Fixed, as the next two */
    gpu_stream handle;
    uint64_t id; /* no other stream of the process ever has it; 0: nobody knows, and each call has a line of its own */
    _Atomic enum weir__line_kind kind; /* changed under `lock` */
    _Atomic uint64_t step;             /* that frees note now; raised under `lock` */
    _Atomic uint64_t done;             /* raised under `lock` */
    atomic_bool is_wanted;             /* so will the next mark be */
    _Atomic uint64_t uncovered;        /* at least the bytes freed since the newest mark; 0: none. A free adds to it, a mark takes all */

    pthread_mutex_t lock;                 /* guards the rest */
    struct gpu_context context;           /* of an OPEN line */
    unsigned openers;                     /* two weirs may have the same stream open: it is OPEN until the last of them closes it */
    struct weir__mark marks[WEIR__MARKS]; /* the oldest first */
    unsigned count;
    gpu_event spare; /* for the next mark, or NULL */
    uint64_t passed; /* the last step that another stream was made to wait for */
};

/* What one owner has freed on one line. Owned by the line; the owner may keep the pointer as long as it has the line. */
struct weir__debt {
    struct weir__debt *next;   /* of the line's debts; guarded by the tables' lock */
    struct weir__debts *owner; /* fixed, as is the next */
    struct weir__line *line;
    weir__spin lock; /* guards the rest */
    struct weir__part {
        uint64_t step, bytes;
    } parts[WEIR__PARTS]; /* the oldest first: bytes freed in that step, or in some before it */
    unsigned count;
    _Alignas(max_align_t) unsigned char room[]; /* of its tracker */
};

/*
 * How an owner tracks what it has freed, so that memory serves others as it leaves a debt: an arena its extents. What it tracks is no more
 * than what the debt counts, and less where a stream has used again what it freed. The functions are called with the lock of the debt, and
 * call nothing of this file.
 */
struct weir__tracker {
    size_t room; /* bytes that each debt has for it, zero at first */
    /* Something was freed in the step *step, which weir__line_free() has written where its caller wanted it: in what was freed. */
    void (*freed)(struct weir__debt *debt, const uint64_t *step);
    /* Whether something that was freed behind `after` and up to `until` is there. */
    bool (*has)(struct weir__debt *debt, uint64_t after, uint64_t until);
    /* All of that is now as if it were freed on the line of `to`, in that step; NULL: it is complete. Returns the bytes. */
    uint64_t (*pass)(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step);
};

/* All debts of one owner of memory, such as a pool or an arena, whose struct has this as a member. */
struct weir__debts {
    struct weir__fences *fences; /* of the device that the memory is of. Fixed, as the next */
    const struct weir__tracker *tracker; /* NULL: it tracks nothing, as CUDA orders it. Fixed */
    const void *group;           /* the weir's device whose owner it is one of, or NULL. Changed under the tables' lock */
    struct weir__debt *whole;    /* the one on the line of that device, or NULL. Guarded by the tables' lock */
    atomic_bool is_unknown;      /* something was freed on an unknown stream: it is never complete */
    struct weir__debts *next;                /* of retired ones. Guarded by the tables' lock */
    bool (*end)(struct weir__debts *debts); /* with weir__debts_retire(), which sets it */
};

/* One device's. Of the process, since arenas and pools outlive their weirs. */
struct weir__fences {
    struct weir__fences *next; /* guarded by the tables' lock, as what follows the next three */
    const struct gpu *gpu;
    int device;
    bool has_device_events;
    struct weir__line *whole; /* the DEVICE line */
    _Atomic uint64_t completed; /* bytes that debts of the device's owners were ever seen to be rid of, because they were complete */
    struct weir__table lines; /* those whose id is known, by their handles */
    unsigned users;           /* joined and not left, and retired owners */
    size_t count, limit;      /* lines, but for that of the device; beyond so many those that nobody needs are dropped */
    struct weir__parked *parked;
};

/* A stream as a call names it, for which it is alive and does not capture. */
struct weir__caller {
    gpu_stream handle;
    uint64_t id; /* as in struct weir__line. Not asked for stream 0, which is the same as long as its device is */
};

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

/* The device's; weir__fences_leave() follows. Join those of each device whose streams may free. NULL: no host memory. */
struct weir__fences *weir__fences_join(const struct gpu *gpu, int device);
/* They go with the last leave, or later with the last line that something depends on. */
void weir__fences_leave(struct weir__fences *fences);

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

/* The line of a stream that was opened, or of Weir's own, until weir__line_close() or weir__line_gone() and weir__line_put(). NULL: no host
   memory. */
struct weir__line *weir__line_open(struct weir__fences *fences, const struct weir__caller *caller);
/* The line of a stream that a call names, until weir__line_put() at the end of that call. NULL: no host memory. */
struct weir__line *weir__line_of(struct weir__fences *fences, const struct weir__caller *caller);
void weir__line_put(struct weir__line *line);

/* One that opened the stream has closed it. With the last one, while it is alive, it gets its last mark. */
void weir__line_close(struct weir__line *line);
/* Closes and puts the line of a stream of Weir's own. is_seen: the stream was synchronised, so nothing is pending. */
void weir__line_end(struct weir__line *line, bool is_seen);
/* The stream was destroyed while it was open, whoever has it open; weir__line_close() follows for each that has. */
void weir__line_gone(struct weir__line *line);
/* weir_close() has begun, which no capture may outlast: lines of the group (NULL: any) that captured when they were closed are gone. */
void weir__fences_captures_over(struct weir__fences *fences, const void *group);

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

void weir__debts_init(struct weir__debts *debts, struct weir__fences *fences);
/* The owner goes. What it still has pending is forgotten. */
void weir__debts_end(struct weir__debts *debts);
/* The owner is in no group any more. */
void weir__debts_leave_group(struct weir__debts *debts);
/* The owner's debt on a line that the caller uses. NULL: no host memory, and nothing may be freed. */
struct weir__debt *weir__debt_of(struct weir__debts *debts, struct weir__line *line);

/*
 * So many bytes were freed on the line, within a call that names its stream and after the work of that call is on it. The line gets a mark
 * once `due` bytes have none. With `due` 0 the free stands or falls with its mark: a code of the waist other than 0 says that nothing was
 * counted. So does each free of an owner with a tracker on a line that is not open. *step: that of the free.
 */
int weir__line_free(struct weir__debt *debt, uint64_t bytes, uint64_t due, uint64_t *step);

/*
 * The same for memory that is safe without, as CUDA orders it: only a rescue is lost where host memory lacks. true: nobody may touch the
 * stream later, and WEIR__PASSING_BYTES there have no mark, so they are due for weir__line_cover(). Open lines get theirs when somebody needs
 * the memory.
 */
#define WEIR__PASSING_BYTES (UINT64_C(32) << 20)
bool weir__line_count(struct weir__line *line, struct weir__debts *debts, uint64_t bytes);
/*
 * The same, in one look, for the stream that had the handle when it was named last. It may be another stream by now: then, too, a rescue is
 * lost. *due: the line if it is due, which weir__line_put() follows; or NULL. false: nothing was counted, as nothing of that owner was freed on
 * a stream of that handle so far.
 */
bool weir__line_count_by_handle(struct weir__fences *fences, gpu_stream handle, struct weir__debts *debts, uint64_t bytes,
                                struct weir__line **due);

/* Puts a mark behind everything that was freed on the line, within a call that names its stream (is_named), or if it may be touched without
   one. false: some of it has no mark. Stream 0 is marked only where it is named: an event there may hold up other streams. */
bool weir__line_cover(struct weir__line *line, bool is_named);
/* The same for stream 0 of the device, which is always alive. */
void weir__fences_cover_legacy(struct weir__fences *fences);

/* The same even if nothing was counted, since the program may have freed there by itself. */
void weir__line_cover_anyway(struct weir__line *line, bool is_named);

/* Asks the line's events, each until one is not complete. Returns how many marks are left. Stream 0 is asked itself for what no event stands
   behind, unless it is open: where it is not idle, that counts as one more. */
unsigned weir__line_look(struct weir__line *line);

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

/* What is looked at: the debts of one owner, or the debts and the parked blocks of a group, or of all on the device; on one line (NULL: on all
   on which something is pending, and on those that somebody uses). */
struct weir__scope {
    struct weir__fences *fences;
    const struct weir__debts *debts; /* NULL: all whose fences those are, */
    const void *group;               /* and whose group is this one; NULL: any */
    bool is_parked;                  /* only lines with points of blocks that the group has parked */
    struct weir__line *line;         /* that the caller uses; NULL: all */
    uint64_t after, until;           /* marks that count: those with higher numbers than `after`, up to `until`; 0: whenever they were made */
    uint64_t deadline;               /* by gpu->now(): no line is touched after it; 0: there is none */
};

/* The number of the last mark. */
uint64_t weir__marks_made(void);

/* Bytes that are not known to be complete; of them those that are before a mark; and those that are behind the last one on lines that are
   not open, so that nobody can put one behind them but a call that names their stream. */
uint64_t weir__scope_pending(const struct weir__scope *scope);
uint64_t weir__scope_marked(const struct weir__scope *scope);
uint64_t weir__scope_lost(const struct weir__scope *scope);
/* Covers each line that may be touched. all: up to 256 of those on which nothing was counted as well, since a program may have freed there by
   itself. */
void weir__scope_cover(const struct weir__scope *scope, bool all);
/* Looks at each line once. Returns how many marks are left of those that count. */
unsigned weir__scope_look(const struct weir__scope *scope);
/* Looks until none of these is left, or `deadline` has passed, by gpu->now(); once at least. true: none is left. */
bool weir__scope_finish(const struct weir__scope *scope, uint64_t deadline);

/* A wait for what is on its way back: for the marks that there are at its beginning. */
struct weir__wait {
    struct weir__scope scope;
    uint64_t completed; /* what fences->completed was at the last look */
    unsigned left;      /* marks that were not seen complete */
};

/* Covers the scope, as above. A wait needs no end. */
void weir__wait_begin(struct weir__wait *wait, const struct weir__scope *scope, bool all);
/* Looks once. *bytes: what has become complete since the last look, whoever saw that. true: some of it, or some mark, has. */
bool weir__wait_look(struct weir__wait *wait, uint64_t *bytes);
/*
 * Puts an event behind all work of the device, for what is on lines that are gone, and on PASSING ones without a mark. Without such events
 * (before driver 12.5) it waits for the device, if it may. false: it could do neither. Call it while nothing captures. CUDA records such an
 * event behind the work of one context, the thread's current one of that device: streams of other contexts that are alive are not behind
 * it.
 */
bool weir__fences_cover_device(struct weir__fences *fences, bool may_synchronise);
/* Whether something on the scope's lines needs that: on the line of a device, or on a PASSING one, and without a mark. */
bool weir__scope_needs_devices(const struct weir__scope *scope);
/* Does so for the devices of these lines. */
void weir__scope_cover_devices(const struct weir__scope *scope, bool may_synchronise);

/*
 * Makes the stream of `user`, which the caller's call names, wait for what the owner has pending on other lines, the oldest marks first,
 * until so many bytes are that stream's own: they are in its debt then. The host waits for nothing. Returns the bytes; fewer where there is
 * no more, or a call failed.
 */
uint64_t weir__debts_order(struct weir__debts *debts, struct weir__line *user, uint64_t bytes);

/* Looks at what the owner has pending. Returns whether nothing is. */
bool weir__debts_are_settled(const struct weir__debts *debts);
/* The owner, which belongs to no group from now on, goes once its debts are settled: each weir__debts_sweep() that sees them settled calls
   `end`, until that returns true. The owner's memory may be gone by then. */
void weir__debts_retire(struct weir__debts *debts, bool (*end)(struct weir__debts *debts));
/* Ends what is retired and settled, on all devices. In any capture mode. */
void weir__debts_sweep(const struct gpu *gpu);

/* Parking ------------------------------------------------------------------------------------------------------------------------------ */

struct weir__point {
    struct weir__line *line;
    uint64_t step;
};

/* What waits for points. Guarded by the tables' lock from weir__park() to weir__fences_settled(); else the caller's, as the next two always. */
struct weir__parked {
    struct weir__parked *next;
    void *items;
    const void *group; /* whose it is, as in struct weir__debts */
    size_t count, room;
    struct weir__point points[];
};

/* Room for so many points. NULL: no host memory. free() it. */
struct weir__parked *weir__parked_new(size_t room);
/* Takes it. It waits for all that is on these lines by now: lines that the caller uses, or the `whole` of some fences. There are no more
   than there is room for; without any it waits for nothing. */
void weir__park(struct weir__fences *fences, struct weir__parked *parked, struct weir__line *const *lines, size_t count);
/* Those of the group of which each point is reached, or all of them: a list by `next`, which is the caller's. */
struct weir__parked *weir__fences_settled(struct weir__fences *fences, const void *group);
struct weir__parked *weir__fences_unpark(struct weir__fences *fences, const void *group);
/* Calls `use` for each that the group has parked, under the tables' lock. */
void weir__parked_visit(struct weir__fences *fences, const void *group, void (*use)(const struct weir__parked *parked, void *data),
                        void *data);

/* Whether what stands at the head of this file holds for the line now. Takes its locks. */
bool weir__line_is_valid(struct weir__line *line);

#endif
