/* SPDX-License-Identifier: MIT */
/*
 * fence.h - when freed memory may be used by other streams and pools: one mechanism for all memory that was freed and is not complete.
 *
 * A free is stream-ordered. The stream on which memory is freed may reuse the memory at once. Another stream or pool may use it only once
 * the GPU has reached that point of the stream and Weir has synchronised an event there, or once the other stream waits for that point. A
 * free is *complete* when the GPU has reached it and Weir knows that, and *pending* until then.
 *
 * A *line* is the work of one stream, or all work of one device, as a sequence of numbered steps. A free on a line notes the line's present
 * step. A *mark* is an event of Weir's own, recorded on the stream, that ends a step: once the event is complete, so are all frees of that
 * step and of earlier steps. A mark *covers* these frees, and to *cover* a line means to record a mark behind its frees. A *debt* is the
 * memory that one owner, such as a pool, has freed on one line and does not know to be complete; its *parts* are bytes by step.
 * A *point* is one step of a line. A *parked* block was used on several streams, so that no single stream can free it; it waits until one
 * point of each stream is complete. The *fences* are all lines and parked blocks of one device.
 *
 * The following holds whatever calls fail:
 *
 * 1. done < marks[0].step < marks[1].step < … < step. `done` is the last step that is known to be complete. It rises only after the event
 *    of that step's mark was seen complete and was synchronised: until then CUDA does not give the memory freed before it to other pools.
 * 2. A free reads `step` after its work is on the stream, and a mark raises `step` before its event is recorded. So the event of a mark is
 *    behind every free of its step and of earlier steps, and a free on an OPEN line need not take the line's lock. A free on a PASSING line
 *    takes the line's lock, and may share the step of the newest mark, whose event is then recorded again behind that free. (Only
 *    weir__line_count_by_handle() takes the tables' lock instead, and never shares a step.)
 * 3. A line has at most WEIR__MARKS marks. If all are in use, marks are dropped on which no debt, no point and no wait depends. If none can
 *    be dropped, one is dropped that is not the oldest, and the mark behind it stands for both: some memory becomes complete later than it
 *    could, but none waits for ever.
 * 4. Weir uses a stream's handle only while its line is OPEN, or within a call of the program that names the stream, and never while the
 *    stream captures. Stream 0 lives as long as its device, so its handle may be used at any time. The capture status is read after each
 *    record: an event that a capture has caught is never queried.
 * 5. Memory leaves a debt because its step is complete, or because weir__debts_order() made another stream wait for it and moved it to that
 *    stream's debt. A line that is GONE gets no more marks, so the memory that no mark covers moves to the line of its device at once. When
 *    the device is to be covered, memory whose event is broken and memory on PASSING lines without a mark move there too.
 * 6. Host memory that a free needs is allocated before the free begins, by weir__debt_of().
 *
 * Locks, from the top down: `lock` of a line, of which no thread has two, held over the calls that record, ask and await events; the
 * tables' (line.c), one for all devices, which guards what lines there are, their debts and what is parked; `lock` of a debt, which guards
 * its parts. The last two are held over no call of CUDA; below them there is only what a tracker locks. What is passed from one line to another needs no lock of the second: its
 * step is atomic.
 *
 * Locks, from the top down: the `lock` of a line, of which no thread holds two, is held over the calls that record, query and synchronise
 * events; the tables' lock (line.c), one for the process, guards the lists of lines, of their debts and of parked blocks; the `lock` of a
 * debt guards its parts. The last two are not held over calls of CUDA. Moving memory to another line needs no lock of that line, whose step
 * is atomic.
 *
 * Call these functions in relaxed capture mode, and never in the child of a fork.
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
#define WEIR__PARTS (WEIR__MARKS + 1)         /* parts of a debt: one for each mark, and one for frees behind the last mark */
#define WEIR__STEP_BYTES (UINT64_C(64) << 20) /* bytes that frees on a PASSING line may put into the step of one mark */

enum weir__line_kind {
    /* A stream that the program opened with Weir, or that Weir made. It is alive until weir__line_close() or weir__line_gone(). */
    WEIR__LINE_OPEN,
    /* A stream that the program only named in calls. The program may destroy it at any moment between two calls; stream 0 stays alive. */
    WEIR__LINE_PASSING,
    /* A stream that was capturing when it was closed. The capture may still go on, and Weir cannot ask any more. */
    WEIR__LINE_CAPTURED,
    /* A stream that was closed or destroyed. If a free names a GONE or CAPTURED stream, the stream is alive, and the line becomes
       PASSING. */
    WEIR__LINE_GONE,
    /* All work of one device. */
    WEIR__LINE_DEVICE,
};

/* An event that ends a step. */
struct weir__mark {
    gpu_event event;
    uint64_t step;
    uint64_t number; /* counts the marks of the process; a mark that is recorded again, or stands for another, has the lower number */
    uint64_t bytes;  /* counted bytes that were freed between the previous mark and this one; at least 1 */
    bool is_wanted;  /* made by weir__line_cover_anyway(): kept even if no debt and no point depends on the mark */
};

/* One stream, or all work of one device. Its fences own the line, from the first call that names the stream until no debt and no point
   depends on the line and no call uses it. */
struct weir__line {
    struct weir__link link;           /* in fences->lines. Guarded by the tables' lock, as the next six */
    struct weir__line *next, *before; /* of all lines of the process */
    struct weir__debt *debts;         /* all that was freed here */
    unsigned users;                   /* its opener, calls that use it, and points of parked blocks */
    unsigned points;                  /* of parked blocks */
    bool is_listed;                   /* in fences->lines */
    struct weir__fences *fences;      /* of its device. Fixed, as the next two */
    gpu_stream handle;
    uint64_t id; /* the stream's, which no other stream of the process ever has; 0: unknown, and each call gets a line of its own */

    /* Read without a lock; all but `is_wanted` and `uncovered` are written under `lock`: */
    _Atomic enum weir__line_kind kind;
    _Atomic uint64_t step;      /* the step that a free notes now. synchronise() in wait.c raises that of a DEVICE line without `lock` */
    _Atomic uint64_t done;      /* the last step that is known to be complete */
    atomic_bool is_wanted;      /* weir__line_cover_anyway() was called: the next mark gets `is_wanted` */
    _Atomic uint64_t uncovered; /* at least the bytes freed since the newest mark. A free adds to it, a mark sets it to 0 */

    pthread_mutex_t lock;                 /* guards the members below */
    struct gpu_context context;           /* the stream's context, if the line is OPEN */
    unsigned openers;                     /* weirs that have the stream open: the line is OPEN until the last of them closes the stream */
    struct weir__mark marks[WEIR__MARKS]; /* the oldest first */
    unsigned count;                       /* marks in use */
    gpu_event spare;                      /* an event for the next mark, or NULL */
    uint64_t passed;                      /* the last step for which weir__debts_order() made another stream wait */
};

/* The memory that one owner has freed on one line and that is pending. The line owns the debt; the memory's owner may keep a pointer to the
   debt as long as it uses the line. */
struct weir__debt {
    struct weir__debt *next;   /* the next debt on the same line; guarded by the tables' lock */
    struct weir__debts *owner; /* fixed, as is `line` */
    struct weir__line *line;
    weir__spin lock; /* guards the members below */
    struct weir__part {
        uint64_t step, bytes; /* `bytes` were freed in that step or earlier */
    } parts[WEIR__PARTS];     /* the oldest first */
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

/* All debts of one owner of memory: a member of the owner's struct, such as weir_pool. */
struct weir__debts {
    struct weir__fences *fences; /* of the device that the memory is of. Fixed, as the next */
    const struct weir__tracker *tracker; /* NULL: it tracks nothing, as CUDA orders it. Fixed */
    const void *group;           /* the weir's device whose owner it is one of, or NULL. Changed under the tables' lock */
    struct weir__debt *whole;    /* the one on the line of that device, or NULL. Guarded by the tables' lock */
    atomic_bool is_unknown;      /* something was freed on an unknown stream: it is never complete */
    struct weir__debts *next;                /* of retired ones. Guarded by the tables' lock */
    bool (*end)(struct weir__debts *debts); /* with weir__debts_retire(), which sets it */
};

/* The lines and parked blocks of one device. They belong to the process and not to a weir, since the memory of a weir may still be pending
   when the weir is closed. */
struct weir__fences {
    struct weir__fences *next; /* guarded by the tables' lock */
    const struct gpu *gpu;     /* fixed, as are the next three */
    int device;
    bool has_device_events;
    struct weir__line *whole; /* the DEVICE line */
    _Atomic uint64_t completed; /* bytes that debts of the device's owners were ever seen to be rid of, because they were complete */
    struct weir__table lines; /* those whose id is known, by their handles */
    unsigned users;           /* joined and not left, and retired owners */
    size_t count, limit;      /* lines, but for that of the device; beyond so many those that nobody needs are dropped */
    struct weir__parked *_Atomic parked; /* read without the lock to see whether there are any */
};

/* A stream that the program named in the present call. During the call the stream is alive and does not capture. */
struct weir__caller {
    gpu_stream handle;
    uint64_t id; /* as in struct weir__line; ignored for stream 0, which has an id of its own here */
};

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

/* Returns the fences of a device, or NULL if host memory runs out. Join the fences of each device on whose streams memory may be freed, and
   call weir__fences_leave() in the end. */
struct weir__fences *weir__fences_join(const struct gpu *gpu, int device);
/* Ends one join. After the last one the fences are destroyed, at once or as soon as nothing depends on their last line. */
void weir__fences_leave(struct weir__fences *fences);

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

/* Returns the line of a stream that the program opened or Weir made, and makes the line OPEN; NULL if host memory runs out. Call
   weir__line_close() when the stream is closed, and weir__line_put() after that. */
struct weir__line *weir__line_open(struct weir__fences *fences, const struct weir__caller *caller);
/* Returns the line of a stream that a call names, or NULL if host memory runs out. Call weir__line_put() at the end of that call. */
struct weir__line *weir__line_of(struct weir__fences *fences, const struct weir__caller *caller);
/* Another use of a line that the caller knows to be used, to be put as well. */
void weir__line_hold(struct weir__line *line);
/* Ends one use of the line, which may be destroyed then. */
void weir__line_put(struct weir__line *line);

/* One opener closes the stream, which is still alive. When the last opener does, the line gets its last mark and becomes GONE, or CAPTURED
   if the stream captures. */
void weir__line_close(struct weir__line *line);
/* Closes and puts the line of a stream that Weir made. is_seen: the stream was synchronised, so everything on the line is complete. */
void weir__line_end(struct weir__line *line, bool is_seen);
/* The program has destroyed the stream while it was open: the line is GONE for all its openers. Each opener still calls
   weir__line_close(). */
void weir__line_gone(struct weir__line *line);
/* weir_close() has begun, which no capture may outlast: lines of the group (NULL: any) that captured when they were closed are gone. */
void weir__fences_captures_over(struct weir__fences *fences, const void *group);

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

void weir__debts_init(struct weir__debts *debts, struct weir__fences *fences);
/* The memory's owner is about to be destroyed: frees all its debts, pending or not. */
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
 * Counts `bytes` as freed on the line, for memory whose reuse is safe without the count, because CUDA orders it. The count serves only
 * requests that fail for lack of memory and then wait for pending frees: if host memory runs out, nothing is counted and such a request
 * does not wait for these bytes. Returns true if the line is not OPEN and WEIR__PASSING_BYTES or more on it have no mark: call
 * weir__line_cover() then, since Weir may not use the stream after the present call. OPEN lines are covered when a request needs the
 * memory.
 */
#define WEIR__PASSING_BYTES (UINT64_C(32) << 20)
bool weir__line_count(struct weir__line *line, struct weir__debts *debts, uint64_t bytes);
/*
 * weir__line_count() by the stream's handle alone, which saves a call of CUDA for the stream's id: counts on the line that has the handle
 * and is OPEN, or else PASSING. By now the handle may mean another stream. The only harm is then that a failing request waits for the wrong
 * stream. Returns false, with nothing counted, if the owner has no debt on such a line yet. *due: the line, if it needs weir__line_cover()
 * as above, with weir__line_put() to follow; else NULL.
 */
bool weir__line_count_by_handle(struct weir__fences *fences, gpu_stream handle, struct weir__debts *debts, uint64_t bytes,
                                struct weir__line **due);

/* Records a mark behind all frees of the line that have none. is_named: this call of the program names the stream; otherwise the stream is
   used only if the line is OPEN. Returns false if some frees still have no mark. Stream 0 is covered only if it is named or OPEN, since an
   event on it may hold up other streams. */
bool weir__line_cover(struct weir__line *line, bool is_named);
/* The same within a call that names the stream, for frees that nobody waits for yet: the line needs no third mark, as its newest one is
   recorded anew. */
void weir__line_renew(struct weir__line *line);
/* Covers stream 0 of the device, which is always alive. */
void weir__fences_cover_legacy(struct weir__fences *fences);

/* weir__line_cover() that records a mark even if no bytes were counted: the program may have freed memory on the stream without Weir. */
void weir__line_cover_anyway(struct weir__line *line, bool is_named);

/* Queries the events of the line's marks, the oldest first, until one is not complete, and drops the marks that are. Returns the number of
   marks left. Frees on stream 0 without a mark are complete if the stream is idle, so a PASSING stream 0 is queried itself; if the stream
   is not idle, it counts as one more mark. */
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

/* Returns the number of the newest mark of the process. */
uint64_t weir__marks_made(void);

/* Return bytes of the scope: all that are pending; those of them that a mark covers; and those that no mark covers on lines that are not
   OPEN, where only a call of the program that names the stream can record one. */
uint64_t weir__scope_pending(const struct weir__scope *scope);
uint64_t weir__scope_marked(const struct weir__scope *scope);
uint64_t weir__scope_lost(const struct weir__scope *scope);
/* Covers each OPEN line of the scope. all: also covers up to 256 OPEN lines without counted bytes, since the program may have freed memory
   there without Weir. */
void weir__scope_cover(const struct weir__scope *scope, bool all);
/* Calls weir__line_look() for each line of the scope. Returns the number of marks left, of those that count by `after` and `until`. */
unsigned weir__scope_look(const struct weir__scope *scope);
/* Repeats weir__scope_look(), at least once, until no such mark is left or `deadline` (by gpu->now()) has passed. Returns whether no mark
   is left. */
bool weir__scope_finish(const struct weir__scope *scope, uint64_t deadline);

/* A wait of a thread for pending memory: for the marks that exist when the wait begins. */
struct weir__wait {
    struct weir__scope scope;
    uint64_t completed; /* fences->completed at the last look */
    unsigned left;      /* marks that were not complete at the last look */
};

/* Covers the scope, see weir__scope_cover(), and begins a wait. A wait need not be ended. */
void weir__wait_begin(struct weir__wait *wait, const struct weir__scope *scope, bool all);
/* Looks at the scope once, without blocking. *bytes: the bytes on the device that have become complete since the last look, whichever
   thread noticed. Returns whether any bytes or marks have become complete. */
bool weir__wait_look(struct weir__wait *wait, uint64_t *bytes);
/*
 * Covers the memory that no stream's mark can cover any more, that of GONE lines and that of PASSING lines without a mark, by an event
 * behind all work of the device. Drivers before 12.5 have no such events: there the function synchronises the device, if may_synchronise.
 * Returns false if it could do neither. Call it while nothing captures. CUDA records such an event behind the work of one context, the
 * calling thread's current context of that device: work of other contexts is not covered.
 */
bool weir__fences_cover_device(struct weir__fences *fences, bool may_synchronise);
/* Whether something on the scope's lines needs that: on the line of a device, or on a PASSING one, and without a mark. */
bool weir__scope_needs_devices(const struct weir__scope *scope);
/* Does so for the devices of these lines. */
void weir__scope_cover_devices(const struct weir__scope *scope, bool may_synchronise);

/*
 * Makes the stream of `user` wait, on the GPU, for memory that the owner has pending on other lines, until the stream may use `bytes` of
 * such memory. The caller's call must name that stream. The memory moves to the owner's debt on `user`. The host does not wait. On each
 * line the oldest marks come first. Returns the bytes that moved: less than `bytes` if no more is pending or a call failed.
 */
uint64_t weir__debts_order(struct weir__debts *debts, struct weir__line *user, uint64_t bytes);
/* Makes it wait for all that others have freed there, line by line, until that were so many bytes. They stay in the debts of those lines: a
   pool of CUDA's lends them only until the other stream frees something newer. Lines of other devices, and lines where no mark can be put
   behind all, lend nothing. */
uint64_t weir__debts_order_newest(struct weir__debts *debts, struct weir__line *user, uint64_t bytes);

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

/* Returns an object with room for `room` points, which the caller frees with free(); NULL if host memory runs out. */
struct weir__parked *weir__parked_new(size_t room);
/* Takes it. It waits for all that is on these lines by now: lines that the caller uses, or the `whole` of some fences. There are no more
   than there is room for; without any it waits for nothing. */
void weir__park(struct weir__fences *fences, struct weir__parked *parked, struct weir__line *const *lines, size_t count);
/* Those of the group of which each point is reached, or is on `own` (NULL: no line), whose stream comes to it before what the caller does there
   next; or all of the group: a list by `next`, which is the caller's. */
struct weir__parked *weir__fences_settled(struct weir__fences *fences, const void *group, const struct weir__line *own);
struct weir__parked *weir__fences_unpark(struct weir__fences *fences, const void *group);
/* Makes the stream of `user`, which the caller's call names, wait on the GPU for all points of the block that the group parked first, of those
   that wait for streams alone. Returns the block, which that stream can free now and the caller owns; NULL if there is none, or no mark can be
   had for one of its points. */
struct weir__parked *weir__fences_order(struct weir__fences *fences, const void *group, struct weir__line *user);
/* Calls `use` for each that the group has parked, under the tables' lock. */
void weir__parked_visit(struct weir__fences *fences, const void *group, void (*use)(const struct weir__parked *parked, void *data),
                        void *data);

/* Returns whether the statements at the head of this file are true of the line. Takes the locks named there. */
bool weir__line_is_valid(struct weir__line *line);

#endif
