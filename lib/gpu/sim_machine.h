/* SPDX-License-Identifier: MIT */
/*
 * sim_machine.h - the part of a simulated machine that its processes share: which process has how much memory of each device, which pools
 * and events are open in which process, and which records of events have been reached. Everything else of the simulator is each process's
 * own.
 *
 * With the setting name=X this part lies in a file, which all processes of this user with that name map. Without a name it lies in memory
 * of this process, the only one on its machine.
 *
 * The file is /dev/shm/weir-sim-<uid>-<name>, mode 0600. A file that other users could open, and therefore lock, is refused. A process
 * joins and leaves under flock() of the file. Each process has a slot, and while it lives it holds an OFD lock on the byte of the slot's
 * number; so a slot whose byte is not locked belongs to a dead process. A process that runs out of something first gives up what dead
 * processes had. If no process of a file is alive, the next process starts the machine anew; the last process to leave removes the file.
 *
 * The lock in struct sim_machine, a robust mutex, guards everything else in it. It is taken after sim.lock, no lock is taken under it, and
 * it is never held over a call that waits. A process may be killed at any instant while it holds the lock. So each change is either a write
 * of one word, or becomes reachable by a write of one word (commit), or can be computed again (sim_ledger_recover).
 */
#ifndef WEIR_SIM_MACHINE_H
#define WEIR_SIM_MACHINE_H

#include "lib/gpu/sim_internal.h"

#define SIM_PROCESSES_MAX 64 /* a set of processes is a uint64_t with a bit for each slot */
#define SIM_SHARED_POOLS_MAX 1024
#define SIM_SHARED_EVENTS_MAX 4096
#define SIM_FENCES_MAX (2 * SIM_SHARED_EVENTS_MAX) /* one for each event, and as many that streams still wait for */

struct sim_machine_process {
    bool used;
    int pid;
    uint32_t wake; /* a futex, changed when the process's thread has something to look at; atomic, not under the lock */
    uint64_t held[SIM_DEVICES_MAX]; /* bytes of each device in the process's pools, except exportable ones */
};

/* An exportable pool. An element without users is free. */
struct sim_machine_pool {
    uint64_t users; /* bit set of processes that made or imported it, and have not destroyed it */
    uint64_t serial, device_number, inode; /* serial: never used twice; device number and inode of its memfd */
    int device;
    int owner;         /* slot of the process that made it; -1: that process has destroyed it or is dead */
    uint64_t held;     /* bytes of the device that it has; without an owner: the exported ones */
    uint64_t exported; /* bytes of exported blocks, which go back when the last user leaves */
};

/* A shared event. An element without users is free. */
struct sim_machine_event {
    uint64_t users; /* bit set of processes that made or opened it, and have not destroyed it */
    uint64_t serial;
    int device;
    int maker; /* slot of the process that made it; -1: that process is dead */
    int fence; /* the fence of its last record; -1: it was never recorded */
};

/* A fence: one record of a shared event. An element is free if it has no holders and no event has it as its last record. */
struct sim_fence {
    uint64_t holders; /* bit set: the recorder, until its stream reaches the record, and processes whose streams wait for it */
    uint64_t done_at;
    int recorder; /* slot of the process that recorded it; -1: that process is dead */
    bool done;    /* the stream has reached it; stays false if the recorder dies before */
    bool current; /* it is still the last record of an event */
};

struct sim_machine {
    uint64_t layout; /* sizeof(struct sim_machine): a process with another size cannot use the file */
    uint64_t id;     /* no other machine ever has it, not even an earlier one with the same name */
    struct sim_settings settings;
    pthread_mutex_t lock;
    uint64_t last_serial;
    int fence_hint, event_hint; /* where the search for a free element begins */
    int pools_end; /* no pool from this index on ever had a user: mostly nearly all of them, so each growth looks at few pools */
    struct sim_machine_process processes[SIM_PROCESSES_MAX];
    struct sim_machine_pool pools[SIM_SHARED_POOLS_MAX];
    struct sim_machine_event events[SIM_SHARED_EVENTS_MAX];
    struct sim_fence fences[SIM_FENCES_MAX];
};

/* sim_machine.c: life ------------------------------------------------------------------------------------------------------------------ */

/* Joins the machine of these settings, or makes it, and takes a slot. Returns 0; or -1, with what to do in `why`. */
int sim_machine_open(const struct sim_settings *settings, char *why, size_t len);
/* Gives up the slot and everything that the process has in the machine. */
void sim_machine_close(void);
/* Returns 0 if a machine with these settings could be joined, or -1 with the reason in `why`. Changes nothing. */
int sim_machine_check(const struct sim_settings *settings, char *why, size_t len);
/* sim_machine_close() for a process that exits. Its other threads may still call the simulator; from now on they have a private, empty
   machine. */
void sim_machine_leave(void);
/* For the child of a fork: gives the child a private, empty machine, and makes sure that it does not keep the parent's slot alive. */
void sim_machine_after_fork(void);

/* Returns whether the machine has a name, so that other processes may share it. Its clock is then CLOCK_MONOTONIC. */
static inline bool sim_machine_is_named(void)
{
    return sim.machine.shared && sim.machine.fd >= 0;
}
/* Wakes the simulator's thread of the process in this slot. */
void sim_machine_wake(int process);

/* sim_host.c: the number of blocks of page-locked memory, and the end of all of them. */
size_t sim_host_count(void);
void sim_host_clear(void);

/* sim_ledger.c: memory, events, fences ------------------------------------------------------------------------------------------------- */

/* For sim_machine.c: frees everything that the process in the slot had. The caller holds the machine's lock. */
void sim_ledger_forget(struct sim_machine *machine, int process);
/* Repairs the machine after a process has died while it held the lock. The caller holds the lock. */
void sim_ledger_recover(struct sim_machine *machine);

/* Returns the bytes of the device that no process has. */
uint64_t sim_ledger_free(int device);
/* Lists the processes that have memory of the device, and this process: fills in at most `room`, and returns how many there are. */
size_t sim_ledger_processes(int device, struct gpu_process *processes, size_t room);
/* Changes the bytes of the device that the pool has from pool->held to `held`; the caller then changes pool->held. Returns false, and
   changes nothing, if the device has too few. */
bool sim_ledger_charge(const struct sim_pool *pool, uint64_t held);
/* Adds an exportable pool, whose memfd is open, and sets pool->shared. Returns false if the machine has too many pools. */
bool sim_ledger_pool_add(struct sim_pool *pool);
/* Finds the machine's pool with the memfd pool->fd, makes this process a user of it, and sets pool->shared. Returns false if the device has
   no such pool. */
bool sim_ledger_pool_find(struct sim_pool *pool);
/* Ends this process's use of the pool. last: the process has no other pool with the same number. */
void sim_ledger_pool_leave(const struct sim_pool *pool, bool last);
/* Sets how many bytes of the pool are in exported blocks. */
void sim_ledger_pool_exported(const struct sim_pool *pool, uint64_t bytes);

/* The contents of a struct gpu_shared_block and of a struct gpu_shared_event. */
struct sim_block_handle {
    uint64_t machine, pool_serial, offset, size;
};
struct sim_event_handle {
    uint64_t machine, event_serial;
    uint64_t event;
};
void sim_ledger_block_handle(const struct sim_pool *pool, struct sim_block_handle *handle);
/* Returns whether the handle belongs to a block of that pool. */
bool sim_ledger_is_of_pool(const struct sim_pool *pool, const struct sim_block_handle *handle);

/* Adds an event. Returns its number, or -1 if the machine has too many. */
int sim_ledger_event_add(int device, struct sim_event_handle *handle);
/* Makes this process a user of an event, and sets *event to its number. Returns GPU_INVALID_HANDLE if the device has no such event, or
   SIM_NO_CONTEXT if this process made the event. */
int sim_ledger_event_open(int device, const struct sim_event_handle *handle, int *event);
void sim_ledger_event_leave(int event);
/* Gives the event a new fence in place of its former one, and returns it, or -1 if the machine has too many. This process holds the fence
   until sim_ledger_fence_done(). */
int sim_ledger_event_record(int event);
/* Returns the fence that a stream of this process has to wait for, or -1 if the event was never recorded or the fence is done. *own: this
   process recorded it. With `hold` this process holds another process's fence until sim_ledger_fence_release(). */
int sim_ledger_event_fence(int event, bool hold, bool *own);
void sim_ledger_fence_done(int fence, uint64_t at);
bool sim_ledger_fence_is_done(int fence, uint64_t *at);
void sim_ledger_fence_release(int fence);

/* sim_machine.c: the machine's lock. The callers hold sim.lock. */
struct sim_machine *sim_machine_lock(void);
void sim_machine_unlock(void);
/* Gives up everything that dead processes had. The caller holds the machine's lock. */
void sim_machine_reap(struct sim_machine *machine);

#endif
