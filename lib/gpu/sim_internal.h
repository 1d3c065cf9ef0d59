/* SPDX-License-Identifier: MIT */
/*
 * sim_internal.h - declarations that the files of the simulator share.
 *
 * There is one simulated machine, `sim`. Unless a comment says otherwise, sim.lock guards everything in it and every struct declared here.
 * Each operation of struct gpu takes the lock in sim_enter(), runs its sim_<operation>(), and releases the lock in sim_leave(). The callers
 * of the functions below hold the lock.
 * CUDA crashes when a destroyed stream is used; there the simulator aborts.
 *
 * Time is virtual. No thread runs the work that is queued on a stream. When work is queued, sim_enqueue() computes its end from the work
 * before it; its effect on memory waits in sim.actions until the clock gets there (sim_advance_to()). Only calls that block, poll or cost
 * time move the clock, so a program sees the same interleaving in every run.
 *
 * A machine with a name is shared by several processes (sim_machine.h) and has the real clock, CLOCK_MONOTONIC, as no process can know
 * whether another one is about to do something. In each process a thread (sim_thread.c) runs the work that is due. Calls that wait really
 * wait. If a stream waits for another process's event, the end of its work is not known when the work is queued: see sim_gate.c.
 */
#ifndef WEIR_SIM_INTERNAL_H
#define WEIR_SIM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/cost.h"
#include "lib/gpu/gpu_tables.h"
#include "lib/gpu/sim.h"
#include "lib/gpu/sim_handles.h"
#include "lib/gpu/sim_index.h"

#define SIM_DEVICES_MAX 16
#define SIM_STEP (UINT64_C(32) << 20) /* pools grow and shrink by multiples of this */
#define SIM_PAGE (UINT64_C(2) << 20)  /* unit of a growth for which a whole step has no room */
#define SIM_ALIGNMENT UINT64_C(512)
#define SIM_NEVER UINT64_MAX
#define SIM_NAME_SIZE 33 /* of a machine's name, with its NUL */
#define SIM_SHARED_MAX (UINT64_C(5248) << 20) /* the largest block that can be imported, in bytes */
#define SIM_LAUNCH_NS UINT64_C(1000) /* time of the shortest copy or set; add 1 ns for each KiB */

/* CUDA's error numbers that only the simulator uses; gpu.h has the others. */
enum sim_code {
    SIM_INITIALIZATION_ERROR = 3,
    SIM_UNLOADING = 4,
    SIM_NO_CONTEXT = 201, /* cudaErrorDeviceUninitialized */
    SIM_ILLEGAL_STATE = 401,
    SIM_CAPTURE_UNMATCHED = 903,
    SIM_CAPTURE_ISOLATION = 905,
    SIM_CAPTURED_EVENT = 907,
    SIM_CAPTURE_WRONG_THREAD = 908,
};

/* A handle is the address of the simulator's own struct, which therefore has the name that CUDA gives to the target of the handle. */
#define sim_event CUevent_st

enum sim_operation {
#define SIM_OPERATION_ENUM(name, check, parameters, arguments) SIM_OP_##name,
    GPU_OPERATIONS(SIM_OPERATION_ENUM)
#undef SIM_OPERATION_ENUM
        SIM_OP_COUNT
};

/* The nth call from now on fails with `code`; nth 0: no call. */
struct sim_fault {
    unsigned nth;
    int code;
};

/* Settings (sim_settings.c) ------------------------------------------------------------------------------------------------------------ */

struct sim_settings {
    uint64_t devices;
    uint64_t memory;         /* bytes of each device */
    uint64_t grow, grow_host, trim; /* nanoseconds per GiB */
    uint64_t grow_each;      /* further nanoseconds for each growth of a pool on the device, */
    uint64_t first;          /* for the first growth of a pool, */
    uint64_t first_of_all;   /* and for the first growth in this process */
    uint64_t driver;         /* in CUDA's notation: 12020 is 12.2 */
    uint64_t numa;           /* host NUMA nodes */
    uint64_t pools, posix_fd, mig, os_managed, mapping; /* 0 or 1 */
    uint64_t addresses;      /* bytes that all address ranges may have together */
    char name[SIM_NAME_SIZE];      /* of the machine; "": the machine is this process's own */
    bool reaches[SIM_DEVICES_MAX][SIM_DEVICES_MAX]; /* [device][peer]: kernels on `peer` can reach memory of `device` */
    struct gpu_cost costs[SIM_OP_COUNT];            /* of each call, in addition to the time that it waits */
    struct sim_fault faults[SIM_OP_COUNT + 1];      /* the injected faults; the last element is for any operation */
};

/* Reads the settings from text. Pure. Returns 0; or -1, with what is wrong and what to write in `why`. */
int sim_settings_parse(const char *text, struct sim_settings *settings, char *why, size_t len);

/* Returns the key of the first setting in which two machines differ, or NULL. Injected faults are not compared. */
const char *sim_settings_difference(const struct sim_settings *a, const struct sim_settings *b);

/* Returns the operation's index into `faults`: SIM_OP_COUNT for NULL, -1 if there is no such operation. */
int sim_operation_find(const char *name);
extern const char *const sim_operation_names[SIM_OP_COUNT];

/* Machine ------------------------------------------------------------------------------------------------------------------------------ */

/* One entry says: this stream has waited for everything up to sequence number `sequence` of the stream with the id `stream`. */
struct sim_wait {
    uint64_t stream; /* the stream's id */
    uint64_t sequence;
};

struct sim_waits {
    struct sim_wait *items;
    size_t count, room;
};

enum sim_stream_kind { SIM_STREAM_CREATED, SIM_STREAM_LEGACY, SIM_STREAM_PER_THREAD };

/* The address of a created stream is its handle. The next new stream takes the last of the destroyed ones, in sim.spare_streams. */
struct sim_stream {
    struct sim_stream *prev, *next; /* `prev` is valid while the stream is open */
    bool is_open;
    enum sim_stream_kind kind;
    int device;
    uint64_t id;         /* never used twice */
    uint64_t context;    /* the id of the program's own context that has the stream; 0: the device's own context has it */
    uint64_t busy_until; /* the time at which all queued work ends */
    struct sim_waits waits;
    struct sim_capture *capture; /* the capture that this stream belongs to, or NULL */
};

struct sim_event {
    struct sim_event *prev, *next; /* `prev` is valid while the event is open */
    bool is_open;
    bool is_of_destroyed; /* its context was destroyed; its handle is never used again */
    int device;
    uint64_t context; /* as for a stream */
    int shared;       /* its number in the machine; -1: the event is not shared */
    uint64_t done_at; /* the time at which it completes; unused if it is shared */
    uint64_t stream, sequence; /* the stream (its id) on which this process recorded it last, and the place there; 0, 0: on none */
    struct sim_waits waits;    /* what is complete once the event is complete; includes its own record */
    uint64_t capture;       /* id of the capture in which it was recorded; 0: in none */
};

/* Identities: used = requested bytes of live segments; held = bytes of live and free segments, which is what the device lacks; reserved =
   held without the bytes of hidden segments; exported = bytes of exported segments. An imported pool takes no memory from its device. */
struct sim_pool {
    struct sim_pool *next;
    int device;
    enum gpu_location location;
    bool is_default, destroyed; /* destroyed: its owner destroyed it, and it waits for the end of its last block */
    bool imported;
    bool has_grown;
    bool handle_exported; /* pool_export() was called, so its blocks can be exported */
    int shared;           /* the number in the machine of an exportable or imported pool, else -1 */
    uint64_t max_size;
    uint64_t release_threshold;
    uint64_t reuse[3]; /* index: attribute - GPU_POOL_REUSE_EVENT_DEPENDENCIES */
    enum gpu_access access[SIM_DEVICES_MAX];
    unsigned char *base; /* start of the address range, which is accessible where there is memory */
    uint64_t span;       /* length of the address range */
    uint64_t alignment;  /* alignment of its blocks */
    int fd;              /* the memfd behind an exportable or imported pool, else -1 */
    struct sim_segment *segments;
    struct sim_index index;
    struct sim_waits freed; /* the last free of each stream that ever freed in it */
    size_t blocks, unobserved; /* live segments; free segments not observed yet */
    uint64_t held, exported, reserved, reserved_high, used, used_high;
};

/* The effect of queued work at the time `due`: a copy, a set, or the completion of a shared event's record. */
struct sim_action {
    struct sim_action *next;
    uint64_t due;
    int fence; /* the fence of a shared event's record; -1: the action is a copy or a set */
    int device; /* the device of the stream, which needs access to the memory */
    unsigned char *dst;
    const unsigned char *src; /* NULL: set dst to `byte` */
    unsigned char *staged;    /* a copy of the pageable host memory, to which src then points; freed with the action */
    int byte;
    size_t size;
};

/* A block of a captured allocation. It has addresses but no memory, since the work of a graph is never run. */
struct sim_graph_block {
    struct sim_graph_block *next;
    void *address;
    size_t size;
};

struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    struct sim_stream *origin;
    struct sim_thread *thread; /* the thread that began it; NULL once that has ended */
    enum gpu_capture_mode mode;
    bool invalid;
    size_t nodes;
    struct sim_graph_block *blocks;
    uint64_t bytes, most; /* bytes of these blocks, now and at their peak */
};

/* A context of the program's own; its address is its handle. The next new context takes the last one of sim.spare_contexts. */
struct sim_context {
    struct sim_context *next;
    uint64_t id; /* never used twice */
    int device;
};

/* The simulator's state of one thread, which owns it and frees it at its end. Other threads find it in sim.threads. */
struct sim_thread {
    struct sim_thread *next;
    int device;
    struct sim_context *context; /* that the program made current, until it chooses another device, as in CUDA; NULL: the device's own */
    enum gpu_capture_mode mode;
    struct sim_stream *streams[SIM_DEVICES_MAX]; /* its per-thread streams, made when first used */
};

struct sim_device {
    bool used; /* it was given work, or a stream, an event or a pool was made on it */
    uint64_t gone_until; /* when the work of destroyed streams ends */
    struct sim_pool *default_pool, *current_pool;
    struct sim_pool pages, graphs; /* not real pools: `held` has the device's bytes in pages, and in graphs */
    struct sim_stream legacy;
};

/* Address ranges and the pages mapped into them (sim_map.c). */
struct sim_map {
    struct sim_address_range *ranges;
    struct sim_page *pages;
    int fd;       /* the file that has the memory of all pages; -1: there are no pages */
    uint64_t end; /* size of the file */
};

/* A point in time that depends on another process; see sim_gate.c. */
struct sim_gate {
    bool used;
    int fence;        /* the fence that the gate waits for; -1: the gate waits for both times, a and b */
    uint64_t a, b;
    uint64_t made_at; /* the gate opens no earlier than at this time */
};

/* This process's membership in its machine (sim_machine.h). */
struct sim_membership {
    struct sim_machine *shared;
    int fd;   /* the machine's file, on which an OFD lock shows that the process lives; -1: the machine is this process's own */
    int self; /* the process's slot */
    char path[64];
};

/* A call that waits for a time, which may still be unknown. On the stack of the waiting thread. */
struct sim_sleeper {
    struct sim_sleeper *next;
    uint64_t until;
};

struct sim {
    pthread_mutex_t lock;
    bool ready;  /* the settings and devices are set up */
    bool used;   /* an operation has run: a child of fork() cannot use the simulator any more */
    bool forked; /* this process is such a child */
    bool gone;   /* the process is exiting, and has left its named machine */
    bool has_grown; /* a pool of this process has grown */
    struct sim_settings settings;
    struct sim_membership machine;
    uint64_t calls[SIM_OP_COUNT];
    uint64_t now, last_id, sequence;
    uint64_t changes; /* see sim_changes(); also read without the lock */
    uint64_t handled; /* bytes that the operation in progress handles, for its cost */
    int sticky; /* the error that has ended the process's work on its devices, or 0; every operation returns it */
    struct sim_device devices[SIM_DEVICES_MAX];
    struct sim_pool *pools;
    size_t destroyed_pools; /* number of pools that their owners have destroyed */
    struct sim_map map;
    struct sim_stream *streams, *spare_streams; /* created and per-thread streams */
    struct sim_event *events, *spare_events, *dead_events; /* dead: events of destroyed contexts */
    struct sim_context *contexts, *spare_contexts;
    struct sim_handles stream_handles, event_handles; /* handles of created streams, and of events */
    struct sim_action *actions; /* ordered by `due`, then by age */
    struct sim_capture *captures;
    struct sim_thread *threads;
    struct sim_gate *gates; /* gate_room elements, of which the first gate_count were ever used */
    size_t gate_count, gate_room;
    struct sim_sleeper *sleepers;
};
extern struct sim sim;
extern _Thread_local struct sim_thread *sim_self; /* the calling thread's state, which sim_enter() sets */

/* sim.c -------------------------------------------------------------------------------------------------------------------------------- */

static inline void sim_note_change(void)
{
    __atomic_store_n(&sim.changes, sim.changes + 1, __ATOMIC_RELAXED);
}

/* Declares sim_<operation>(), which is the operation without the lock, the count, the injected faults and the check. */
#define SIM_OPERATION_DECLARE(name, check, parameters, arguments) int sim_##name parameters;

/* Returns 0, or GPU_INVALID_DEVICE if there is no device with that number. */
int sim_device_find(int device);
/* Charges `bytes` of the device's memory to an account that is no pool (-bytes: gives them back). false: the device has too few. */
bool sim_device_charge(int device, struct sim_pool *account, uint64_t bytes);
/* Returns whether the simulated driver has at least this version (12020 is 12.2). */
bool sim_driver(uint64_t version);
bool sim_supports(int device, enum gpu_feature feature, char *why, size_t len);

/* sim_clock.c -------------------------------------------------------------------------------------------------------------------------- */

/* Moves the clock to `time`, and runs all actions that are due by then. On a named machine only sim_thread.c calls it. */
void sim_advance_to(uint64_t time);
/* Moves the clock by the cost of a call. Does nothing on a named machine, whose clock runs by itself. */
void sim_advance_by(uint64_t nanoseconds);
/* Adds work that takes this many nanoseconds to the stream, and returns the time of its end. */
uint64_t sim_enqueue(struct sim_stream *stream, uint64_t nanoseconds);
/* Inserts the action after all actions that are due at the same time or earlier. */
void sim_action_insert(struct sim_action *action);
/* Queues the record of a shared event: the fence is done when the stream reaches the record. Returns 0 or GPU_OUT_OF_MEMORY. */
int sim_fence_enqueue(struct sim_stream *stream, int fence);
/* Returns when the fence will be done, or SIM_NEVER if it is not among the actions. */
uint64_t sim_fence_due(int fence);
void sim_actions_clear(void);

/* sim_gate.c --------------------------------------------------------------------------------------------------------------------------- */

/* Returns the later of two times. */
uint64_t sim_time_join(uint64_t a, uint64_t b);
/* Returns the time `nanoseconds` after `time`. */
uint64_t sim_time_add(uint64_t time, uint64_t nanoseconds);
/* Returns whether the time is not known yet, or never comes. */
bool sim_time_is_open(uint64_t time);
/* Returns the time, unknown so far, at which another process's fence is done. The ledger holds the fence for this process. */
uint64_t sim_gate_of_fence(int fence);
/* Replaces times that have become known. Returns whether there was any. */
bool sim_gates_settle(void);
/* Returns whether any gate waits for a fence. */
bool sim_gates_are_closed(void);
void sim_gates_clear(void);

/* sim_thread.c ------------------------------------------------------------------------------------------------------------------------- */

/* Starts the thread of a named machine. Returns 0 or GPU_OUT_OF_MEMORY. */
int sim_thread_start(void);
/* Ends the thread and waits for its end; releases sim.lock during the wait. */
void sim_thread_stop(void);
void sim_thread_after_fork(void);
/* On a named machine: sets the clock to the real time, and runs all actions that are due. */
void sim_catch_up(void);
/* Wakes the thread if it has to look at what this process has queued. */
void sim_thread_notify(void);
/* Waits until the time; releases sim.lock during a real wait. */
void sim_wait_until(uint64_t time);
/* Sleeps for this many nanoseconds of real time. The caller does not hold sim.lock. */
void sim_sleep(uint64_t nanoseconds);

/* sim_stream.c ------------------------------------------------------------------------------------------------------------------------- */

/* 0 or GPU_OUT_OF_MEMORY: everything of that stream up to the sequence is among the waits. */
int sim_waits_add(struct sim_waits *waits, uint64_t stream, uint64_t sequence);
void sim_waits_clear(struct sim_waits *waits);
/* Up to which sequence what that stream was given is among them; 0: nothing is. */
uint64_t sim_waits_for(const struct sim_waits *waits, uint64_t stream);

/* Puts the stream in place of a fixed handle. 0, GPU_OUT_OF_MEMORY, or GPU_INVALID_HANDLE: there is no such stream. */
int sim_stream_find(gpu_stream *stream);
/* The same for an operation that is queued on the stream; also returns the error that the operation gets if a capture does not allow it. */
int sim_work_begin(gpu_stream *stream);
/* Makes the stream wait until `done_at` for what another one was given up to `sequence`. 0 or GPU_OUT_OF_MEMORY. */
int sim_stream_wait_for(struct sim_stream *stream, uint64_t other, uint64_t sequence, uint64_t done_at);
void sim_stream_init(struct sim_stream *stream, enum sim_stream_kind kind, int device);
/* Ends the context with that id: waits for its work, destroys its streams, and makes its events unusable. */
void sim_streams_end_context(uint64_t id);
void sim_thread_streams_clear(struct sim_thread *thread);
void sim_streams_clear(void);
/* Returns 0, GPU_INVALID_HANDLE if there is no such event, or GPU_CONTEXT_DESTROYED if its context was destroyed. */
int sim_event_find(gpu_event event);

/* sim_context.c ------------------------------------------------------------------------------------------------------------------------ */

/* Returns the id of the context in which the calling thread makes streams and events of the device; 0: the device's own context. */
uint64_t sim_context_here(int device);
bool sim_context_lives(const struct gpu_context *context);
/* Returns NULL if host memory runs out. */
struct sim_context *sim_context_make(int device);
void sim_context_drop(struct sim_context *context);
void sim_contexts_clear(void);

/* sim_share.c -------------------------------------------------------------------------------------------------------------------------- */

/* Returns the time at which the event's last record completes; not later than sim.now: it is complete. If another process made that record
   and it is not complete, returns SIM_NEVER, or with `wait` a time for a stream to wait for (sim_gate.c). */
uint64_t sim_event_due(const struct sim_event *event, bool wait);
/* Replaces the last record of a shared event by a new one. */
int sim_event_record_shared(struct sim_event *event, struct sim_stream *stream);
/* This process has destroyed a handle of the shared event with that number; unless sim.events has another one, it leaves the event. */
void sim_event_leave(int number);
/* Tells the machine that this process has destroyed a shared pool. */
void sim_pool_leave(const struct sim_pool *pool);

/* sim_capture.c ------------------------------------------------------------------------------------------------------------------------ */

/* Before an unsafe call: invalidates captures that the call would disturb, and returns GPU_CAPTURE_UNSUPPORTED if there are any, else 0. */
int sim_capture_check_unsafe(void);
/* Returns 0, or the error of an operation that is queued on the stream. */
int sim_capture_enter(const struct sim_stream *stream);
/* For an operation that a capturing stream does not allow: if the stream captures, invalidates the capture and returns the error. */
int sim_capture_refuse(const struct sim_stream *stream);
/* A wait for an event, where stream or event are part of a capture: the stream joins the capture, or the capture is invalidated. */
int sim_capture_wait(struct sim_stream *stream, const struct sim_event *event);
void sim_capture_invalidate(uint64_t id);
/* Invalidates all captures on the device. Returns false if there is none. */
bool sim_capture_invalidate_device(int device);
int sim_capture_malloc(struct sim_capture *capture, size_t size, void **ptr);
int sim_capture_free(struct sim_capture *capture, void *ptr);
/* Ends the capture that began on the stream, since the stream ends. */
void sim_capture_drop_origin(struct sim_stream *stream);
void sim_captures_clear(void);

/* sim_range.c -------------------------------------------------------------------------------------------------------------------------- */

static inline uint64_t sim_round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static inline uint64_t sim_round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

/* Cuts the segment after `size` bytes; the rest becomes the next segment, of the same kind. Returns false if host memory runs out. As with
   all functions that change segments, a free segment must not be in a run of the index (sim_run_leave()). */
bool sim_segment_split(struct sim_pool *pool, struct sim_segment *segment, uint64_t size);
/* The first adds the next segment to this one. The second merges the segment with equal neighbours, and returns the merged one. */
void sim_segment_absorb(struct sim_pool *pool, struct sim_segment *segment);
struct sim_segment *sim_segment_merge(struct sim_pool *pool, struct sim_segment *segment);
/* Takes memory from the device for the pool. Returns false if the device has too little. */
bool sim_range_take(struct sim_pool *pool, uint64_t bytes);
/* Cuts a segment of `bytes` bytes, still absent, out of a gap. Returns NULL if there is no such gap or host memory runs out. */
struct sim_segment *sim_range_take_gap(struct sim_pool *pool, uint64_t bytes);
/* Makes the pool grow until it has a free row of `size` bytes. Returns 0 or GPU_OUT_OF_MEMORY. */
int sim_range_grow(struct sim_pool *pool, uint64_t size);

/* sim_memory.c ------------------------------------------------------------------------------------------------------------------------- */

/* Reserves the pool's address range. Returns 0 or GPU_OUT_OF_MEMORY. */
int sim_memory_open(struct sim_pool *pool, uint64_t span, bool exportable);
/* The same for an imported pool; if it succeeds, the pool owns the descriptor. */
int sim_memory_open_imported(struct sim_pool *pool, uint64_t span, int fd);
/* Unmaps the range, and gives the pool's memory back to the device. */
void sim_memory_close(struct sim_pool *pool);
/* Returns whether the stream may use the free memory without a wait. */
bool sim_memory_is_usable(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream);
/* Allocates a block for the stream, whose later work may have to wait for a free on another stream. */
int sim_memory_take(struct sim_pool *pool, size_t size, struct sim_stream *stream, void **ptr);
/* Returns the live segment that begins at ptr, and its pool, or NULL if there is none. */
struct sim_segment *sim_memory_block(const void *ptr, struct sim_pool **pool);
void sim_memory_free(struct sim_pool *pool, struct sim_segment *segment, struct sim_stream *stream);
/* Maps `size` bytes at that offset of an imported pool's memory, or finds where they are mapped already. */
int sim_memory_import(struct sim_pool *pool, uint64_t offset, uint64_t size, void **ptr);
/* Marks the live segment as exported: from now on its memory stays with the pool. */
void sim_memory_export(struct sim_pool *pool, struct sim_segment *segment);
/* Gives at most `want` bytes back that are idle and observed. Returns how many it gave. */
uint64_t sim_memory_release(struct sim_pool *pool, uint64_t want);
/* After a synchronise: marks as observed the frees of the stream `id` up to `sequence` (id 0: of all streams of the device). */
void sim_memory_observe(uint64_t id, uint64_t sequence, int device);
/* Returns the time at which all frees of the pool are complete. */
uint64_t sim_memory_quiet_at(const struct sim_pool *pool);
/* Returns the pool whose address range contains ptr; NULL: ptr is host memory or a page (sim_map_has()). */
struct sim_pool *sim_memory_pool(const void *ptr);
/* Returns whether the pool has memory at each of these bytes. */
bool sim_memory_is_present(const struct sim_pool *pool, const void *ptr, size_t size);

/* sim_pool.c --------------------------------------------------------------------------------------------------------------------------- */

int sim_pool_make(const struct gpu_pool_spec *spec, struct sim_pool **pool);
/* Returns 0, or GPU_INVALID_VALUE if there is no such pool. */
int sim_pool_find(gpu_pool pool);
/* The same for operations that an imported pool does not allow: they return GPU_INVALID_VALUE for it. */
int sim_pool_find_own(gpu_pool pool);
/* Follows a synchronise: every pool gives back the memory that it has above its threshold. */
void sim_pools_enforce_thresholds(void);
/* Ends the destroyed pools whose last free is complete. */
void sim_pools_sweep(void);
/* Returns when there will be a pool to sweep, or SIM_NEVER if none will be by the passing of time alone. */
uint64_t sim_pools_next_sweep(void);
void sim_pools_clear(void);

/* sim_map.c ---------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether the address is in an address range, mapped or not. */
bool sim_map_has(const void *ptr);
/* Reserves addresses without memory and access at `address` (NULL: at a multiple of GPU_PAGE_UNIT). Returns NULL if the process gets none. */
void *sim_map_nothing(void *address, uint64_t size);
/* Returns whether the device has access to each byte; the first byte is in an address range. */
bool sim_map_can_touch(int device, const void *ptr, size_t size);
void sim_map_count(size_t *ranges, size_t *pages);
void sim_map_clear(void);

/* sim_errors.c: code_name and code_text. */
const char *sim_code_name(int code);
const char *sim_code_text(int code);

GPU_OPERATIONS(SIM_OPERATION_DECLARE)
#undef SIM_OPERATION_DECLARE

#endif
