/* SPDX-License-Identifier: MIT */
/*
 * sim_machine.h - what the processes of one simulated machine share: who lacks how much device memory, which pools and events are open
 * where, and which records of events have been reached.
 *
 * With the setting name=X it lies in a file that all processes of this user with that name map; without, in memory of this process alone,
 * which then is the machine's only one. What processes see of each other is here; everything else of the simulator is each process's own.
 *
 * The file is /dev/shm/weir-sim-<uid>-<name>, mode 0600; one that others could open, and so lock, is refused. Joining and leaving happen
 * under flock() of the file. Each process has a slot and holds an OFD lock on the byte of that number as long as it lives, so that a slot
 * whose byte is not locked is that of a dead process. Who runs short of something forgets the dead first. A file without a living process
 * is started anew; the last to leave removes it.
 *
 * Everything in struct sim_machine is guarded by its lock, a robust mutex, which is a leaf behind sim.lock and never held over a call that
 * waits. A process may be killed at any instant of holding it: whatever is written is either one word, or not reachable before one word was
 * written (commit), or can be computed anew (sim_ledger_recover).
 */
#ifndef WEIR_SIM_MACHINE_H
#define WEIR_SIM_MACHINE_H

#include "lib/gpu/sim_internal.h"

#define SIM_PROCESSES_MAX 64 /* a set of processes is a uint64_t */
#define SIM_SHARED_POOLS_MAX 1024
#define SIM_SHARED_EVENTS_MAX 4096
#define SIM_FENCES_MAX (2 * SIM_SHARED_EVENTS_MAX) /* one for each event, and as many that somebody still waits for */

struct sim_machine_process {
    bool used;
    int pid;
    uint32_t wake; /* a futex, changed when there is something for the process's thread to see; atomic, without the lock */
    uint64_t held[SIM_DEVICES_MAX]; /* bytes of each device that its pools took, but for exportable ones */
};

/* An exportable pool. Free unless it has users. */
struct sim_machine_pool {
    uint64_t users; /* processes that made or imported it and have not destroyed it */
    uint64_t serial, device_number, inode; /* of its memfd */
    int device;
    int owner;         /* slot of the process that made it, -1 once that has destroyed it or is dead */
    uint64_t held;     /* bytes that the device lacks for it; without an owner: what was exported */
    uint64_t exported; /* bytes of blocks that were exported: they go back with the last user */
};

/* Free unless it has users. */
struct sim_machine_event {
    uint64_t users; /* processes that made or opened it and have not destroyed it */
    uint64_t serial;
    int device;
    int maker; /* slot of the process that made it, -1 once that is dead */
    int fence; /* what its last record stands for, -1: never recorded */
};

/* One record of a shared event. Free unless somebody holds it or an event has it. */
struct sim_fence {
    uint64_t holders; /* the process whose stream has not come to it, and those whose streams wait for it */
    uint64_t done_at;
    int recorder; /* slot of the process that recorded it, -1 once that is dead */
    bool done;    /* stays false if the recorder died before its stream got there */
    bool current; /* some event still has this as its last record */
};

struct sim_machine {
    uint64_t layout; /* sizeof(struct sim_machine): another build's file is not for us */
    uint64_t id;     /* no other machine, earlier ones of that name included, has it */
    struct sim_settings settings;
    pthread_mutex_t lock;
    uint64_t last_serial;
    int fence_hint, event_hint; /* where to look for a free one first */
    int pools_end; /* no pool from here on has ever had a user; nearly always most of them, and each growth of a pool asks them all */
    struct sim_machine_process processes[SIM_PROCESSES_MAX];
    struct sim_machine_pool pools[SIM_SHARED_POOLS_MAX];
    struct sim_machine_event events[SIM_SHARED_EVENTS_MAX];
    struct sim_fence fences[SIM_FENCES_MAX];
};

/* sim_machine.c: life ------------------------------------------------------------------------------------------------------------------ */

/* Joins or makes the machine of these settings and takes a slot. 0, or -1 and writes into why what to do. */
int sim_machine_open(const struct sim_settings *settings, char *why, size_t len);
/* Gives up the slot and all that the process has in the machine. */
void sim_machine_close(void);
/* Whether a machine of that name could be joined. 0, or -1 and why. Changes nothing. */
int sim_machine_check(const struct sim_settings *settings, char *why, size_t len);
/* sim_machine_close() for a process that exits. Its other threads may still call: they have a private, empty machine from now on. */
void sim_machine_leave(void);
/* In the child of a fork: what it has is a private, empty machine, and its parent's slot is not kept alive by it. */
void sim_machine_after_fork(void);

/* Whether it is shared with other processes: then time is that of CLOCK_MONOTONIC. */
static inline bool sim_machine_is_named(void)
{
    return sim.machine.shared && sim.machine.fd >= 0;
}
/* Tells the simulator's thread of the process in this slot to look. */
void sim_machine_wake(int process);

/* sim_ledger.c: memory, events, fences ------------------------------------------------------------------------------------------------- */

/* For sim_machine.c. Frees all that the process in the slot had. The machine's lock is held. */
void sim_ledger_forget(struct sim_machine *machine, int process);
/* Makes whole what a process left that died holding the lock. The lock is held. */
void sim_ledger_recover(struct sim_machine *machine);

/* Bytes of the device that nobody has. */
uint64_t sim_ledger_free(int device);
/* The processes that have memory of the device, and this one. Fills up to `room`; returns how many there are. */
size_t sim_ledger_processes(int device, struct gpu_process *processes, size_t room);
/* The device lacks now `held` bytes for the pool instead of pool->held, which the caller changes. False, and nothing was done: it has not
   so many. */
bool sim_ledger_charge(const struct sim_pool *pool, uint64_t held);
/* An exportable pool, whose memfd is open. Sets pool->shared. False: the machine has too many. */
bool sim_ledger_pool_add(struct sim_pool *pool);
/* Makes an imported pool a user of the one behind pool->fd, and sets pool->shared. False: there is none on that device. */
bool sim_ledger_pool_find(struct sim_pool *pool);
/* last: this process has no other pool with that number. */
void sim_ledger_pool_leave(const struct sim_pool *pool, bool last);
void sim_ledger_pool_exported(const struct sim_pool *pool, uint64_t bytes);

/* What stands in a struct gpu_shared_block and a struct gpu_shared_event. */
struct sim_block_handle {
    uint64_t machine, pool_serial, offset, size;
};
struct sim_event_handle {
    uint64_t machine, event_serial;
    uint64_t event;
};
void sim_ledger_block_handle(const struct sim_pool *pool, struct sim_block_handle *handle);
/* Whether the handle is of a block of that pool. */
bool sim_ledger_is_of_pool(const struct sim_pool *pool, const struct sim_block_handle *handle);

/* Returns the event's number, or -1: the machine has too many. */
int sim_ledger_event_add(int device, struct sim_event_handle *handle);
/* *event: its number. GPU_INVALID_HANDLE: there is none on the device. SIM_NO_CONTEXT: this process made it. */
int sim_ledger_event_open(int device, const struct sim_event_handle *handle, int *event);
void sim_ledger_event_leave(int event);
/* A new fence in place of the event's former one; -1: the machine has too many. Held until sim_ledger_fence_done(). */
int sim_ledger_event_record(int event);
/* The fence that a stream of this process has to wait for: -1 if there is none, or it is done. own: recorded by this process. With hold the
   fence of another process is held until sim_ledger_fence_release(). */
int sim_ledger_event_fence(int event, bool hold, bool *own);
void sim_ledger_fence_done(int fence, uint64_t at);
bool sim_ledger_fence_is_done(int fence, uint64_t *at);
void sim_ledger_fence_release(int fence);

/* sim_machine.c: the lock. Callers hold sim.lock. */
struct sim_machine *sim_machine_lock(void);
void sim_machine_unlock(void);
/* Forgets the dead. The lock is held. */
void sim_machine_reap(struct sim_machine *machine);

#endif
