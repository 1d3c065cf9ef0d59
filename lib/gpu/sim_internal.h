/* SPDX-License-Identifier: MIT */
/*
 * sim_internal.h - what the files of the simulator share.
 *
 * There is one simulated machine, `sim`, behind one lock: everything in it, and every struct declared here, is guarded by sim.lock unless
 * a comment says otherwise. Each operation of struct gpu takes the lock in sim_enter(), runs its sim_<operation>() and drops the lock in
 * sim_leave(); the functions below are called with the lock held.
 *
 * Where CUDA crashes, at any use of a stream that was destroyed, the simulator aborts.
 *
 * Time is virtual. Work queued on a stream is not run by anybody: when it is queued, its end is computed from what stands before it
 * (sim_enqueue), and its effect on memory waits in sim.actions until the clock gets there (sim_advance_to). Only calls that block, poll or
 * cost something move the clock, so that a program sees the same interleaving in every run.
 *
 * A machine with a name, which several processes share (sim_machine.h), has the real clock, CLOCK_MONOTONIC: a GPU goes on working
 * while the process that gave it work sits in poll(), so something outside the program's calls has to run the work, and a virtual clock
 * could then only move when all processes agree that nobody is about to do anything, which nobody can know. In each process one thread
 * (sim_thread.c) runs what is due. Calls that wait really do, and what growing a pool costs is what it costs here.
 *
 * When work ends that stands behind another process's event is not known when it is queued: see sim_gate.c.
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
#define SIM_STEP (UINT64_C(32) << 20) /* pools grow by, and give back, multiples of this */
#define SIM_PAGE (UINT64_C(2) << 20)  /* what a growth is rounded to where a whole step has no room */
#define SIM_ALIGNMENT UINT64_C(512)
#define SIM_NEVER UINT64_MAX
#define SIM_NAME_SIZE 33 /* of a machine */
#define SIM_SHARED_MAX (UINT64_C(5248) << 20) /* bytes of the largest block that can be imported */
#define SIM_LAUNCH_NS UINT64_C(1000) /* the shortest copy or set; on top, 1 ns for each KiB */

/* Error numbers of CUDA that only the simulator's inside needs; gpu.h has the others. */
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

/* A handle is the address of the simulator's own struct, which has the name that CUDA gives to what such a handle points to. */
#define sim_event CUevent_st

enum sim_operation {
#define SIM_OPERATION_ENUM(name, check, parameters, arguments) SIM_OP_##name,
    GPU_OPERATIONS(SIM_OPERATION_ENUM)
#undef SIM_OPERATION_ENUM
        SIM_OP_COUNT
};

/* The nth call from now fails with code; nth 0: none. */
struct sim_fault {
    unsigned nth;
    int code;
};

/* Settings (sim_settings.c) ------------------------------------------------------------------------------------------------------------ */

struct sim_settings {
    uint64_t devices;
    uint64_t memory;         /* bytes of each device */
    uint64_t grow, grow_host, trim; /* nanoseconds per GiB */
    uint64_t grow_each;      /* nanoseconds on top for each growth of a pool on the device, */
    uint64_t first;          /* for the first one of a pool, */
    uint64_t first_of_all;   /* and for the first one in this process */
    uint64_t driver;         /* as CUDA writes versions: 12020 is 12.2 */
    uint64_t numa;           /* host NUMA nodes */
    uint64_t pools, posix_fd, mig, os_managed, mapping; /* 0 or 1 */
    uint64_t addresses;      /* bytes of all ranges that pages are mapped into */
    char name[SIM_NAME_SIZE];      /* of the machine; "": it is this process's own */
    bool reaches[SIM_DEVICES_MAX][SIM_DEVICES_MAX]; /* [device][peer]: kernels on peer can reach memory of device */
    struct gpu_cost costs[SIM_OP_COUNT];            /* of each call, on top of the time that it waits */
    struct sim_fault faults[SIM_OP_COUNT + 1];      /* to come; the last is for any operation */
};

/* Pure. Returns 0, or -1 and writes into why what is wrong and what to write; *settings is then unspecified. */
int sim_settings_parse(const char *text, struct sim_settings *settings, char *why, size_t len);

/* The key of the first setting in which two machines differ, or NULL. Faults are no matter of the machine. */
const char *sim_settings_difference(const struct sim_settings *a, const struct sim_settings *b);

/* The index into faults of the operation: SIM_OP_COUNT for NULL, -1 if there is none of that name. */
int sim_operation_find(const char *name);
extern const char *const sim_operation_names[SIM_OP_COUNT];

/* Machine ------------------------------------------------------------------------------------------------------------------------------ */

/* "This stream has waited for everything up to sequence number `sequence` of stream `stream`." */
struct sim_wait {
    uint64_t stream; /* an id */
    uint64_t sequence;
};

struct sim_waits {
    struct sim_wait *items;
    size_t count, room;
};

enum sim_stream_kind { SIM_STREAM_CREATED, SIM_STREAM_LEGACY, SIM_STREAM_PER_THREAD };

/* The address of a created stream is its handle. Destroyed ones wait in sim.spare_streams, whence the next create takes the last. */
struct sim_stream {
    struct sim_stream *prev, *next; /* prev: while it is open */
    bool is_open;
    enum sim_stream_kind kind;
    int device;
    uint64_t id;         /* never used twice */
    uint64_t context;    /* the id of the program's context that it is of; 0: it is of the device's own */
    uint64_t busy_until; /* the time at which all that was queued has ended */
    struct sim_waits waits;
    struct sim_capture *capture; /* the capture that this stream belongs to, or NULL */
};

struct sim_event {
    struct sim_event *prev, *next; /* prev: while it is open */
    bool is_open;
    bool is_of_destroyed; /* its context was destroyed; nothing else gets its handle then */
    int device;
    uint64_t context; /* as a stream's */
    int shared;       /* its number in the machine, -1: of this process alone */
    uint64_t done_at; /* not of a shared one */
    uint64_t stream, sequence; /* where this process recorded it: a stream's id; 0, 0: on none */
    struct sim_waits waits;    /* what has ended once the event has; that place is among it */
    uint64_t capture;       /* id of the capture in which it was recorded, 0 for none */
};

/*
 * Identities: used = bytes asked for of live segments; held = bytes of live and free segments, which is what the device lacks; reserved =
 * the same without hidden ones; exported = bytes of exported ones. An imported pool's device lacks nothing for it.
 */
struct sim_pool {
    struct sim_pool *next;
    int device;
    enum gpu_location location;
    bool is_default, destroyed; /* destroyed: gone for its owner, waiting for its last block */
    bool imported;
    bool has_grown;
    bool handle_exported; /* its handle was exported, so its blocks can be */
    int shared;           /* number in the machine of an exportable or imported one, else -1 */
    uint64_t max_size;
    uint64_t release_threshold;
    uint64_t reuse[3]; /* by attribute - GPU_POOL_REUSE_EVENT_DEPENDENCIES */
    enum gpu_access access[SIM_DEVICES_MAX];
    unsigned char *base; /* of the address range, accessible where there is memory */
    uint64_t span;       /* its length */
    uint64_t alignment;  /* of its blocks */
    int fd;              /* the memfd behind an exportable or imported pool, else -1 */
    struct sim_segment *segments;
    struct sim_index index;
    struct sim_waits freed; /* the last free of each stream that ever freed in it */
    size_t blocks, unobserved; /* live segments; free segments not observed yet */
    uint64_t held, exported, reserved, reserved_high, used, used_high;
};

/* What happens when the clock gets to `due`: a copy or a set, or a stream comes to the record of a shared event. */
struct sim_action {
    struct sim_action *next;
    uint64_t due;
    int fence; /* of a shared event's record; -1: the action is a copy or a set */
    int device; /* the stream's, which needs access to the memory */
    unsigned char *dst;
    const unsigned char *src; /* NULL: set to byte */
    unsigned char *staged;    /* a copy of pageable host memory, freed afterwards; src points to it */
    int byte;
    size_t size;
};

/* A block made by a captured allocation: address space only, since the graph never runs. */
struct sim_graph_block {
    struct sim_graph_block *next;
    void *address;
    size_t size;
};

struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    struct sim_stream *origin;
    struct sim_thread *thread; /* that began it; NULL once it ended */
    enum gpu_capture_mode mode;
    bool invalid;
    size_t nodes;
    struct sim_graph_block *blocks;
    uint64_t bytes, most; /* of these blocks, now and at most */
};

/* A context of the program's own; its address is its handle. Destroyed ones wait in sim.spare_contexts, whence the next one is taken. */
struct sim_context {
    struct sim_context *next;
    uint64_t id; /* never used twice */
    int device;
};

/* Owned by its thread, freed when that ends; other threads see it through sim.threads. */
struct sim_thread {
    struct sim_thread *next;
    int device;
    struct sim_context *context; /* that the program made current; NULL: that of the device. Choosing a device ends it, as in CUDA */
    enum gpu_capture_mode mode;
    struct sim_stream *streams[SIM_DEVICES_MAX]; /* its per-thread streams, made at first use */
};

struct sim_device {
    bool used; /* work was given to it, or a stream, an event or a pool was made there */
    uint64_t gone_until; /* the end of the work of streams that were destroyed */
    struct sim_pool *default_pool, *current_pool;
    struct sim_pool pages, graphs; /* what it lacks for pages and for graphs is `held` of these, of which nothing else is used */
    struct sim_stream legacy;
};

/* Address ranges, and pages that are mapped into them (sim_map.c). */
struct sim_map {
    struct sim_address_range *ranges;
    struct sim_page *pages;
    int fd;       /* the file that all pages are parts of; -1 while there are none */
    uint64_t end; /* of the file */
};

/* A time that depends on what another process does; see sim_gate.c. */
struct sim_gate {
    bool used;
    int fence;        /* the fence that it waits for, or -1: for both of these times */
    uint64_t a, b;
    uint64_t made_at; /* the time is no earlier than this */
};

/* This process on its machine (sim_machine.h). */
struct sim_membership {
    struct sim_machine *shared;
    int fd;   /* of the file; its OFD lock is the process's sign of life. -1: the machine is this process's own */
    int self; /* slot */
    char path[64];
};

/* A call that waits for a time, which may be one that nobody knows yet. On the stack of its thread. */
struct sim_sleeper {
    struct sim_sleeper *next;
    uint64_t until;
};

struct sim {
    pthread_mutex_t lock;
    bool ready;  /* settings and devices are set up */
    bool used;   /* some operation ran: a child of fork() is refused from then on */
    bool forked; /* this process is such a child */
    bool gone;   /* the process exits, and has left its named machine */
    bool has_grown; /* some pool of this process has grown */
    struct sim_settings settings;
    struct sim_membership machine;
    uint64_t calls[SIM_OP_COUNT];
    uint64_t now, last_id, sequence;
    uint64_t changes; /* how often pools or pages came, went or changed their bytes; read without the lock too */
    uint64_t handled; /* bytes by which the cost of the operation in progress grows */
    int sticky; /* the error that has killed the process's work on its devices, or 0 */
    struct sim_device devices[SIM_DEVICES_MAX];
    struct sim_pool *pools;
    size_t destroyed_pools; /* how many of these are gone for their owners */
    struct sim_map map;
    struct sim_stream *streams, *spare_streams; /* created and per-thread ones */
    struct sim_event *events, *spare_events, *dead_events; /* dead: of destroyed contexts */
    struct sim_context *contexts, *spare_contexts;
    struct sim_handles stream_handles, event_handles; /* of created streams */
    struct sim_action *actions; /* by due, then by age */
    struct sim_capture *captures;
    struct sim_thread *threads;
    struct sim_gate *gates; /* room for gate_room; those from gate_count on were never used */
    size_t gate_count, gate_room;
    struct sim_sleeper *sleepers;
};
extern struct sim sim;
extern _Thread_local struct sim_thread *sim_self; /* the calling thread, known to every operation */

/* sim.c -------------------------------------------------------------------------------------------------------------------------------- */

static inline void sim_note_change(void)
{
    __atomic_store_n(&sim.changes, sim.changes + 1, __ATOMIC_RELAXED);
}

/* sim_<operation>(), for each operation: without the lock, the count, the faults and the check. */
#define SIM_OPERATION_DECLARE(name, check, parameters, arguments) int sim_##name parameters;

/* 0, or GPU_INVALID_DEVICE: there is none of that number. */
int sim_device_find(int device);
/* Charges an account of the device that is no pool with so many bytes more (-bytes: less). Returns false if the device has too few. */
bool sim_device_charge(int device, struct sim_pool *account, uint64_t bytes);
/* Whether the simulated driver is at least this version (12020 is 12.2). */
bool sim_driver(uint64_t version);
bool sim_supports(int device, enum gpu_feature feature, char *why, size_t len);

/* sim_clock.c -------------------------------------------------------------------------------------------------------------------------- */

/* Moves the clock and runs what is due by then. Only sim_thread.c may move that of a named machine. */
void sim_advance_to(uint64_t time);
/* Moves the clock by what a call costs. Does nothing on a named machine, whose clock runs by itself. */
void sim_advance_by(uint64_t nanoseconds);
/* Adds work of so many nanoseconds to the stream and returns when it will have ended. */
uint64_t sim_enqueue(struct sim_stream *stream, uint64_t nanoseconds);
/* Inserts the action behind all actions that are due no later. */
void sim_action_insert(struct sim_action *action);
/* Queues the record of a shared event: the fence is done when the stream comes to it. 0 or GPU_OUT_OF_MEMORY. */
int sim_fence_enqueue(struct sim_stream *stream, int fence);
/* When that will be; SIM_NEVER if it is not among the actions. */
uint64_t sim_fence_due(int fence);
void sim_actions_clear(void);

/* sim_gate.c --------------------------------------------------------------------------------------------------------------------------- */

/* The later of two times. */
uint64_t sim_time_join(uint64_t a, uint64_t b);
/* `nanoseconds` after a time. */
uint64_t sim_time_add(uint64_t time, uint64_t nanoseconds);
/* Whether it is a time that is not known yet, or never comes. */
bool sim_time_is_open(uint64_t time);
/* The time at which another process's fence, which the ledger holds for us, is done. */
uint64_t sim_gate_of_fence(int fence);
/* Puts in what has become known. Returns whether anything has. */
bool sim_gates_settle(void);
/* Whether any waits for a fence. */
bool sim_gates_are_closed(void);
void sim_gates_clear(void);

/* sim_thread.c ------------------------------------------------------------------------------------------------------------------------- */

/* Starts the thread of a named machine. 0 or GPU_OUT_OF_MEMORY. */
int sim_thread_start(void);
/* Ends it and waits for it; drops sim.lock meanwhile. */
void sim_thread_stop(void);
void sim_thread_after_fork(void);
/* Of a named machine: brings the clock up to date, runs what is due. */
void sim_catch_up(void);
/* Has the thread look at what this process has queued. */
void sim_thread_notify(void);
/* Waits until the time, with sim.lock dropped while it really waits. */
void sim_wait_until(uint64_t time);
/* Without the lock: lets so much time pass. */
void sim_sleep(uint64_t nanoseconds);

/* sim_stream.c ------------------------------------------------------------------------------------------------------------------------- */

/* 0 or GPU_OUT_OF_MEMORY: everything of that stream up to the sequence is among the waits. */
int sim_waits_add(struct sim_waits *waits, uint64_t stream, uint64_t sequence);
void sim_waits_clear(struct sim_waits *waits);
/* Up to which sequence what that stream was given is among them; 0: nothing is. */
uint64_t sim_waits_for(const struct sim_waits *waits, uint64_t stream);

/* Puts the stream in place of a fixed handle. 0, GPU_OUT_OF_MEMORY, or GPU_INVALID_HANDLE: there is no such stream. */
int sim_stream_find(gpu_stream *stream);
/* The same for an operation that is queued on the stream: also the error that it gets where a capture is in its way. */
int sim_work_begin(gpu_stream *stream);
/* Makes the stream wait until `done_at` for what another one was given up to `sequence`. 0 or GPU_OUT_OF_MEMORY. */
int sim_stream_wait_for(struct sim_stream *stream, uint64_t other, uint64_t sequence, uint64_t done_at);
void sim_stream_init(struct sim_stream *stream, enum sim_stream_kind kind, int device);
/* The context of that id is being destroyed: waits for its work; its streams and events are no more. */
void sim_streams_end_context(uint64_t id);
void sim_thread_streams_clear(struct sim_thread *thread);
void sim_streams_clear(void);
/* 0, GPU_INVALID_HANDLE: there is no such event, or GPU_CONTEXT_DESTROYED. */
int sim_event_find(gpu_event event);

/* sim_context.c ------------------------------------------------------------------------------------------------------------------------ */

/* The id of the context in which the calling thread makes streams and events of the device; 0: the device's own. */
uint64_t sim_context_here(int device);
bool sim_context_lives(const struct gpu_context *context);
/* NULL: no host memory. */
struct sim_context *sim_context_make(int device);
void sim_context_drop(struct sim_context *context);
void sim_contexts_clear(void);

/* sim_share.c -------------------------------------------------------------------------------------------------------------------------- */

/* When what the event was last recorded behind has ended: it has if that is not after sim.now. With `wait` the answer for what another
   process recorded is good for a stream to wait for, else SIM_NEVER. */
uint64_t sim_event_due(const struct sim_event *event, bool wait);
/* Puts a new record in place of the shared event's last one. */
int sim_event_record_shared(struct sim_event *event, struct sim_stream *stream);
/* This process has destroyed the shared event of that number: it is a user of it no more, unless sim.events still has one. */
void sim_event_leave(int number);
/* The pool goes: those that share it are told. */
void sim_pool_leave(const struct sim_pool *pool);

/* sim_capture.c ------------------------------------------------------------------------------------------------------------------------ */

/* GPU_CAPTURE_UNSUPPORTED if the thread may not do something that could disturb a capture; the captures concerned are invalid then. */
int sim_capture_check_unsafe(void);
/* For an operation queued on the stream: 0, or the error that it gets. */
int sim_capture_enter(const struct sim_stream *stream);
/* For one that no stream allows that captures: the capture is invalid then. */
int sim_capture_refuse(const struct sim_stream *stream);
/* A wait where the stream or the event is part of a capture: the stream joins it, or the capture is spoilt. */
int sim_capture_wait(struct sim_stream *stream, const struct sim_event *event);
void sim_capture_invalidate(uint64_t id);
/* Spoils every capture on the device, or returns false if there is none. */
bool sim_capture_invalidate_device(int device);
int sim_capture_malloc(struct sim_capture *capture, size_t size, void **ptr);
int sim_capture_free(struct sim_capture *capture, void *ptr);
/* The stream goes away: so does the capture that began on it. */
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

/* Cuts what is beyond `size` bytes off; it becomes the next segment, of the same kind. False if there is no host memory. As for all that
   changes segments: a free one is in no run meanwhile (sim_run_leave). */
bool sim_segment_split(struct sim_pool *pool, struct sim_segment *segment, uint64_t size);
void sim_segment_absorb(struct sim_pool *pool, struct sim_segment *segment);
struct sim_segment *sim_segment_merge(struct sim_pool *pool, struct sim_segment *segment);
/* The pool takes memory from its device; false if that has not so much. */
bool sim_range_take(struct sim_pool *pool, uint64_t bytes);
/* So many bytes of a gap as a segment of their own, still absent; NULL if there is none or no host memory. */
struct sim_segment *sim_range_take_gap(struct sim_pool *pool, uint64_t bytes);
int sim_range_grow(struct sim_pool *pool, uint64_t size);

/* sim_memory.c ------------------------------------------------------------------------------------------------------------------------- */

/* Maps the address range. 0 or GPU_OUT_OF_MEMORY. */
int sim_memory_open(struct sim_pool *pool, uint64_t span, bool exportable);
/* The same for an imported pool; takes the descriptor over if it succeeds. */
int sim_memory_open_imported(struct sim_pool *pool, uint64_t span, int fd);
/* Unmaps it and returns all that the device lacks for it. */
void sim_memory_close(struct sim_pool *pool);
/* Whether the stream may have the free memory as it is. */
bool sim_memory_is_usable(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream);
/* A block for the stream, which may have to wait for a free of another stream before its later work runs. */
int sim_memory_take(struct sim_pool *pool, size_t size, struct sim_stream *stream, void **ptr);
/* The live segment that begins at ptr, and its pool; NULL if there is none. */
struct sim_segment *sim_memory_block(const void *ptr, struct sim_pool **pool);
int sim_memory_free(struct sim_pool *pool, struct sim_segment *segment, struct sim_stream *stream);
/* Maps `size` bytes at that offset of an imported pool's memory, or finds where they are mapped already. */
int sim_memory_import(struct sim_pool *pool, uint64_t offset, uint64_t size, void **ptr);
/* The live segment stays with the pool from now on. */
void sim_memory_export(struct sim_pool *pool, struct sim_segment *segment);
/* Gives back at most `want` bytes that are idle and observed. */
uint64_t sim_memory_release(struct sim_pool *pool, uint64_t want);
/* A synchronise was seen: frees of stream `id` up to `sequence` (id 0: all of the device's streams) are observed. */
void sim_memory_observe(uint64_t id, uint64_t sequence, int device);
/* When all frees of the pool have ended. */
uint64_t sim_memory_quiet_at(const struct sim_pool *pool);
/* The pool whose address range has ptr, or NULL: host memory, or that of a page (sim_map_has). */
struct sim_pool *sim_memory_pool(const void *ptr);
/* Whether there is memory behind each byte. */
bool sim_memory_is_present(const struct sim_pool *pool, const void *ptr, size_t size);

/* sim_pool.c --------------------------------------------------------------------------------------------------------------------------- */

int sim_pool_make(const struct gpu_pool_spec *spec, struct sim_pool **pool);
/* 0, or GPU_INVALID_VALUE: there is no such pool. */
int sim_pool_find(gpu_pool pool);
/* The same for what an imported pool cannot be asked. */
int sim_pool_find_own(gpu_pool pool);
/* After a synchronise: every pool gives back what it holds above its threshold. */
void sim_pools_enforce_thresholds(void);
/* Lets go of destroyed pools whose last free has ended. */
void sim_pools_sweep(void);
/* When there will be something to sweep; SIM_NEVER if not by time alone. */
uint64_t sim_pools_next_sweep(void);
void sim_pools_clear(void);

/* sim_map.c ---------------------------------------------------------------------------------------------------------------------------- */

/* Whether the address is in a range, mapped or not. */
bool sim_map_has(const void *ptr);
/* Addresses that nobody can access, with nothing behind them: these, or for NULL any. NULL if the process gets none. */
void *sim_map_nothing(void *address, uint64_t size);
/* Whether the device has access to each byte, the first of which is in a range. */
bool sim_map_can_touch(int device, const void *ptr, size_t size);
void sim_map_count(size_t *ranges, size_t *pages);
void sim_map_clear(void);

/* sim_errors.c: code_name and code_text. */
const char *sim_code_name(int code);
const char *sim_code_text(int code);

GPU_OPERATIONS(SIM_OPERATION_DECLARE)
#undef SIM_OPERATION_DECLARE

#endif
