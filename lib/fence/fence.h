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
 * point of each stream is complete. The *fences* are all lines and parked blocks of one device. A caller *uses* a line from the call that
 * returned the line until the caller *puts* the line, which means weir__line_put(): a line in use is not destroyed.
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
 *    be dropped, two neighbouring marks are merged, but never the oldest: the later of the two stays and covers the frees of both. Some
 *    memory then becomes complete later than it could, but none waits for ever.
 * 4. Weir uses a stream's handle only while its line is OPEN, or within a call of the program that names the stream, and never while the
 *    stream captures. Stream 0 lives as long as its device, so its handle may be used at any time. The capture status is read after each
 *    record: an event that became part of a capture is never queried.
 * 5. Memory leaves a debt because its step is complete, or because weir__debts_order() made another stream wait for it and moved it to that
 *    stream's debt. A line that is GONE gets no more marks, so the memory that no mark covers moves to the line of its device at once. When
 *    the device is to be covered, memory moves there too if its mark is broken (the event can never complete), or if no mark covers the
 *    memory and its line is PASSING.
 * 6. Host memory that a free needs is allocated before the free begins, by weir__debt_of().
 *
 * Locks, from the top down: the `lock` of a line, of which no thread holds two, is held over the calls that record, query and synchronise
 * events; the tables' lock (line.c), one for the process, guards the lists of lines, of their debts and of parked blocks; the `lock` of a
 * debt guards its parts. The last two are not held over calls of CUDA. Below the lock of a debt come only locks that an owner's tracker
 * takes. Moving memory to another line needs no lock of that line, whose step is atomic.
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
#define WEIR__STEP_BYTES (UINT64_C(64) << 20) /* the most bytes of frees on a PASSING line that may share the step of one mark */

enum weir__line_kind {
    /* A stream that the program opened with Weir, or that Weir made. It is alive until weir__line_close() or weir__line_gone(). */
    WEIR__LINE_OPEN,
    /* A stream that the program only named in calls. The program may destroy it at any moment between two calls; stream 0 stays alive. */
    WEIR__LINE_PASSING,
    /* A stream that captured when its last opener closed it. The capture may still go on, but Weir may not query the stream any more. */
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
    /* the marks of the process are numbered as they are made. A mark that is recorded again keeps its number, and two merged marks keep the
       lower one */
    uint64_t number;
    uint64_t bytes;  /* counted bytes that were freed between the previous mark and this one; at least 1 */
    bool is_wanted;  /* made by weir__line_cover_anyway(): kept even if no debt and no point depends on the mark */
};

/* One stream, or all work of one device. Its fences own the line, from the first call that names the stream until no debt and no point
   depends on the line and no call uses it. */
struct weir__line {
    struct weir__link link;           /* the entry in fences->lines. The tables' lock guards this member and the next eleven */
    struct weir__line *next, *before; /* the neighbours in the list of all lines of the process */
    struct weir__debt *debts;         /* the first debt on this line */
    unsigned users;                   /* how often the line is used: by its openers, by calls, and by points of parked blocks */
    _Atomic unsigned points;          /* the number of points of parked blocks on this line. Written under that lock, read without it */
    const void *group;                /* the group of these blocks, or of the first of them if `is_mixed` */
    bool is_mixed;                    /* blocks of several groups have had points here since `points` was 0 last */
    /* the last time that a call on this stream took no parked block: weir__points_reached at that time, and the group of the call */
    uint64_t looked;
    const void *looked_for;
    bool is_listed;                   /* the line is in fences->lines */
    struct weir__fences *fences;      /* the fences of the line's device. This member and the next two never change */
    gpu_stream handle;
    /* the stream's id, which no other stream of the process ever gets. 0 if the id is unknown: each call then gets a line of its own */
    uint64_t id;

    /* Threads read the next five members without a lock. `is_wanted` and `uncovered` are also written without one; the others are written
       under `lock`. */
    _Atomic enum weir__line_kind kind;
    _Atomic uint64_t step;      /* the step that a free notes now. synchronise() in wait.c raises that of a DEVICE line without `lock` */
    _Atomic uint64_t done;      /* the last step that is known to be complete */
    atomic_bool is_wanted;      /* weir__line_cover_anyway() was called: the next mark gets `is_wanted` */
    _Atomic uint64_t uncovered; /* at least the bytes freed since the newest mark. A free raises this number, a mark sets it to 0 */

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
        uint64_t step, bytes;
        uint64_t first; /* `bytes` were freed in the steps from `first` to `step` */
    } parts[WEIR__PARTS];     /* the oldest first */
    unsigned count;
    /* memory whose bytes the part of `step` counts already, as weir__line_count_by_handle() has counted them. A stream that frees the same
       memory over and over in one step has no more of it pending than it freed once. A step of 0: none */
    struct weir__again {
        uint64_t step;
        uintptr_t from, until;
    } again;
    _Alignas(max_align_t) unsigned char room[]; /* the data that the owner's tracker keeps about this debt */
};

/* How an owner tracks the memory that its debts count, so that the memory can serve other streams as soon as it leaves a debt. An arena,
   for example, tracks its extents. A tracker has at most the bytes that the debt counts, and fewer if the freeing stream has reused some of
   the memory. The three functions are called with the debt's lock held, and call no function of this file. */
struct weir__tracker {
    size_t room; /* bytes of `room` that each debt reserves for the tracker, set to zero */
    /* Memory was freed in the step *step. `step` is the pointer that the freeing thread passed to weir__line_free(): it points into the
       owner's struct of the freed memory, by which the tracker finds that struct. */
    void (*freed)(struct weir__debt *debt, const uint64_t *step);
    /* Returns whether the tracker has memory that was freed in a step above `after` and up to `until`. */
    bool (*has)(struct weir__debt *debt, uint64_t after, uint64_t until);
    /* Moves the memory of these steps to the debt `to`, as if the memory had been freed in `step` on the line of `to`. If `to` is NULL, the
       memory is complete instead. Returns the bytes that moved to `to`. */
    uint64_t (*pass)(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step);
};

/* All debts of one owner of memory: a member of the owner's struct, such as weir_pool. */
struct weir__debts {
    struct weir__fences *fences; /* the fences of the memory's device. This member and the next never change */
    const struct weir__tracker *tracker; /* NULL if the owner tracks nothing, because CUDA orders the reuse of its memory */
    const void *group;           /* identifies the device of the weir to which the owner belongs, or NULL. Changed under the tables' lock */
    struct weir__debt *whole;    /* the owner's debt on the DEVICE line of the memory's device, or NULL. Guarded by the tables' lock */
    atomic_bool is_unknown;      /* no mark could be recorded for some free, so Weir never learns when that free is complete */
    struct weir__debts *next;                /* the next retired owner. Guarded by the tables' lock */
    bool (*end)(struct weir__debts *debts); /* the function that weir__debts_retire() was given */
};

/* The lines and parked blocks of one device. They belong to the process and not to a weir, since the memory of a weir may still be pending
   when the weir is closed. */
struct weir__fences {
    struct weir__fences *next; /* guarded by the tables' lock */
    const struct gpu *gpu;     /* fixed, as are the next three */
    int device;
    bool has_device_events;
    struct weir__line *whole; /* the DEVICE line */
    _Atomic uint64_t completed; /* bytes that have left debts of this device's owners because the bytes were complete. Only rises */
    struct weir__table lines; /* the lines whose id is known. The hash key is the handle */
    unsigned users;           /* calls of weir__fences_join() without weir__fences_leave() so far, and retired owners */
    /* the number of lines without the DEVICE line. Above `limit` lines, weir__line_of() destroys the lines that nothing needs */
    size_t count, limit;
    /* the list of parked blocks. Changed under the tables' lock, and read without the lock to see whether the list is empty */
    struct weir__parked *_Atomic parked;
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
/* Adds a use of a line that is in use already. Call weir__line_put() to end that use. */
void weir__line_hold(struct weir__line *line);
/* Ends one use of the line. After the last use the line may be destroyed. */
void weir__line_put(struct weir__line *line);

/* One opener closes the stream, which is still alive. When the last opener closes the stream, the line gets its last mark and becomes GONE,
   or CAPTURED if the stream captures. */
void weir__line_close(struct weir__line *line);
/* Closes and puts the line of a stream that Weir made. is_seen: the stream was synchronised, so everything on the line is complete. */
void weir__line_end(struct weir__line *line, bool is_seen);
/* The program has destroyed the stream while it was open: the line is GONE for all its openers. Each opener still calls
   weir__line_close(). */
void weir__line_gone(struct weir__line *line);
/* weir_close() has begun, and no capture may outlast weir_close(): makes the CAPTURED lines of the group (NULL: of every group) GONE. */
void weir__fences_captures_over(struct weir__fences *fences, const void *group);

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

void weir__debts_init(struct weir__debts *debts, struct weir__fences *fences);
/* The memory's owner is about to be destroyed: frees all its debts, pending or not. */
void weir__debts_end(struct weir__debts *debts);
/* Removes the owner from its group. */
void weir__debts_leave_group(struct weir__debts *debts);
/* Returns the owner's debt on a line that the caller uses, and makes the debt if there is none. Returns NULL if host memory runs out: the
   caller must then free nothing on the line. */
struct weir__debt *weir__debt_of(struct weir__debts *debts, struct weir__line *line);

/* Counts `bytes` as freed on the debt's line. Call it within a call that names the line's stream, after the work of that call is on the
   stream. The line gets a mark once `due` bytes have none. The free gets a mark at once if `due` is 0, or if the owner has a tracker and
   the line is not OPEN; if that mark fails, nothing is counted and the function returns the GPU code of the failure. Otherwise returns
   GPU_SUCCESS. Sets *step to the step of the free. */
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
/* Like weir__line_count(), but finds the line by the stream's handle, which saves the call of CUDA that reads the stream's id. Counts on the
   OPEN line with that handle, or else on a PASSING one. By now the handle may mean another stream. The only harm is then that a failing
   request waits for the wrong stream. memory: the address of the freed bytes; NULL: unknown. Bytes there that were freed before, and have no
   mark yet, are not counted again. Returns false, and counts nothing, if the owner has no debt on such a line. Sets *due to the line if the
   line needs weir__line_cover(): the caller calls that, and then weir__line_put(). Otherwise sets *due to NULL. */
bool weir__line_count_by_handle(struct weir__fences *fences, gpu_stream handle, struct weir__debts *debts, const void *memory,
                                uint64_t bytes, struct weir__line **due);

/* Records a mark behind all frees of the line that have none. is_named: this call of the program names the stream; otherwise the stream is
   used only if the line is OPEN. Returns false if some frees still have no mark. Stream 0 is covered only if it is named or OPEN, since an
   event on it may hold up other streams. */
bool weir__line_cover(struct weir__line *line, bool is_named);
/* Like weir__line_cover() within a call that names the stream, for frees that no thread waits for yet. If the line has two marks or more,
   records the newest mark again instead of adding one. */
void weir__line_renew(struct weir__line *line);
/* Covers stream 0 of the device, if that stream has a line. The present call need not name stream 0, which is always alive. */
void weir__fences_cover_legacy(struct weir__fences *fences);

/* weir__line_cover() that records a mark even if no bytes were counted: the program may have freed memory on the stream without Weir. */
void weir__line_cover_anyway(struct weir__line *line, bool is_named);

/* Queries the events of the line's marks, the oldest first, until one is not complete, and drops the marks that are. Returns the number of
   marks left. Frees on stream 0 without a mark are complete if the stream is idle, so a PASSING stream 0 is queried itself; if the stream
   is not idle, it counts as one more mark. */
unsigned weir__line_look(struct weir__line *line);

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

/* Selects the memory that the functions below look at: the debts of one owner; or the debts and parked blocks of one group; or those of the
   whole device. If `line` is NULL, the scope has all lines on which such memory is pending, and lines in use that have such debts. */
struct weir__scope {
    struct weir__fences *fences;
    const struct weir__debts *debts; /* the owner whose debts are meant. NULL: all owners of the device `fences` */
    const void *group;               /* if `debts` is NULL: only owners and parked blocks of this group. NULL: of every group */
    bool is_parked;                  /* only lines with points of blocks that the group has parked */
    struct weir__line *line;         /* only this line, which the caller uses. NULL: all lines */
    /* only marks with numbers above `after` and up to `until` count. An `until` of 0 sets no upper bound */
    uint64_t after, until;
    uint64_t deadline;               /* a time of gpu->now() after which no event is recorded or queried. 0: no deadline */
};

/* Returns the number of the newest mark of the process. */
uint64_t weir__marks_made(void);

/* Return bytes of the scope: all pending bytes; the pending bytes that a mark covers; and the pending bytes that no mark covers on lines
   that are not OPEN. For the last kind only a call of the program that names the stream can record a mark. */
uint64_t weir__scope_pending(const struct weir__scope *scope);
uint64_t weir__scope_marked(const struct weir__scope *scope);
uint64_t weir__scope_lost(const struct weir__scope *scope);
/* Covers each OPEN line of the scope. all: also covers up to 256 OPEN lines without counted bytes, since the program may have freed memory
   there without Weir. */
void weir__scope_cover(const struct weir__scope *scope, bool all);
/* Calls weir__line_look() for each line of the scope. Returns how many of the marks that are left count by `after` and `until`. */
unsigned weir__scope_look(const struct weir__scope *scope);
/* Repeats weir__scope_look(), at least once, until it returns 0 or `deadline` (a time of gpu->now()) has passed. Returns whether it
   returned 0. */
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
/* Covers memory that no stream's mark can cover any more, by an event behind all work of the device: memory on GONE lines, and memory
   without a mark on PASSING lines. Drivers before 12.5 have no such events: for them the function synchronises the device, if
   may_synchronise is set. Returns false if neither is possible. Call it while no stream captures. CUDA records such an event behind the
   work of one context only, the calling thread's current context of that device: work of other contexts is not covered. */
bool weir__fences_cover_device(struct weir__fences *fences, bool may_synchronise);
/* Returns whether a line of the scope has memory that only weir__fences_cover_device() can cover: the line has no mark behind that memory,
   and is DEVICE, GONE or PASSING (but not stream 0). */
bool weir__scope_needs_devices(const struct weir__scope *scope);
/* Calls weir__fences_cover_device() for the device of each such line. */
void weir__scope_cover_devices(const struct weir__scope *scope, bool may_synchronise);

/*
 * Makes the stream of `user` wait, on the GPU, for memory that the owner has pending on other lines, until the stream may use `bytes` of
 * such memory. The caller's call must name that stream. The memory moves to the owner's debt on `user`. The host does not wait. On each
 * line the oldest marks come first. Returns the bytes that moved: less than `bytes` if no more is pending or a call failed.
 */
uint64_t weir__debts_order(struct weir__debts *debts, struct weir__line *user, uint64_t bytes);
/* Makes the stream of `user` wait, on the GPU, for all memory that the owner has pending on other lines of the same device. Goes from line
   to line until the lines waited for had `bytes` pending in sum. Skips lines where no mark can be recorded behind all frees. The memory
   stays in the debts of those lines, since CUDA's pool lends the memory to the waiting stream only until the freeing stream frees something
   newer. Returns that sum. */
uint64_t weir__debts_order_newest(struct weir__debts *debts, struct weir__line *user, uint64_t bytes);

/* Queries the marks behind the owner's pending memory. Returns whether all frees of the owner are known to be complete. */
bool weir__debts_are_settled(const struct weir__debts *debts);
/* Removes the owner from its group, and destroys it once its debts are settled: each weir__debts_sweep() that finds the debts settled calls
   `end`, until `end` returns true. `end` destroys the owner. */
void weir__debts_retire(struct weir__debts *debts, bool (*end)(struct weir__debts *debts));
/* Calls `end` of the retired owners whose debts are settled, on all devices. The thread may be in any capture mode. */
void weir__debts_sweep(const struct gpu *gpu);

/* Parking ------------------------------------------------------------------------------------------------------------------------------ */

struct weir__point {
    struct weir__line *line;
    uint64_t step;
};

/* A block that waits for points. The tables' lock guards the object while it is parked. Before and after that time the object belongs to
   the caller. `items` and `group` are the caller's at all times. */
struct weir__parked {
    struct weir__parked *next;
    void *items;
    const void *group; /* the group that parked the block, as in struct weir__debts */
    size_t count, room;
    struct weir__point points[];
};

/* Returns an object with room for `room` points, which the caller frees with free(); NULL if host memory runs out. */
struct weir__parked *weir__parked_new(size_t room);
/* Parks the block until all work that is on `lines` now is complete. The caller uses the lines, or they are DEVICE lines (`whole`). There
   are at most parked->room lines. A block without lines waits for nothing. */
void weir__park(struct weir__fences *fences, struct weir__parked *parked, struct weir__line *const *lines, size_t count);
/* weir__fences_settled() takes the parked blocks of the group whose points are all complete. A point on the line `own` (NULL: no line)
   counts as complete, since the next work of the caller on that stream comes after the point. weir__fences_unpark() takes all parked blocks
   of the group. Both return a list by `next`, which the caller owns. */
struct weir__parked *weir__fences_settled(struct weir__fences *fences, const void *group, struct weir__line *own);
struct weir__parked *weir__fences_unpark(struct weir__fences *fences, const void *group);
/* Takes the oldest parked block of the group that waits for no DEVICE line, and makes the stream of `user` wait on the GPU for all points
   of that block. The caller's call names the stream. Returns the block, which the caller owns and which that stream can free now. Returns
   NULL if there is no such block, or if the stream cannot wait for one of the points. */
struct weir__parked *weir__fences_order(struct weir__fences *fences, const void *group, struct weir__line *user);
/* Calls `use` for each block that the group has parked, with the tables' lock held. */
void weir__parked_visit(struct weir__fences *fences, const void *group, void (*use)(const struct weir__parked *parked, void *data),
                        void *data);

/* Returns whether the statements at the head of this file are true of the line. Takes the locks named there. */
bool weir__line_is_valid(struct weir__line *line);

#endif
