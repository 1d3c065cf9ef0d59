/* SPDX-License-Identifier: MIT */
/* sim_ledger.c - the tables of a simulated machine: the bytes that processes and pools have of each device, exportable pools, shared
   events, and fences. Each function holds the machine's lock for a few writes. The order of the writes keeps the tables valid if the
   process dies in between. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/sim_machine.h"

#include <string.h>
#include <sys/stat.h>

static uint64_t bit(int process)
{
    return UINT64_C(1) << process;
}

static uint64_t own_bit(void)
{
    return bit(sim.machine.self);
}

/* Writes the word that makes earlier writes reachable, or makes later writes unreachable. Neither compiler nor processor moves a write
   across it. */
static void commit(uint64_t *word, uint64_t value)
{
    __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

/* The dead ----------------------------------------------------------------------------------------------------------------------------- */

/* The owner leaves the pool; other processes may still have its exported blocks. */
static void drop_owner(struct sim_machine_pool *pool)
{
    pool->held = pool->exported;
    pool->owner = -1;
}

void sim_ledger_forget(struct sim_machine *machine, int process)
{
    for (int i = 0; i < machine->pools_end; i++) {
        struct sim_machine_pool *pool = &machine->pools[i];
        if (!(pool->users & bit(process)))
            continue;
        if (pool->owner == process)
            drop_owner(pool);
        commit(&pool->users, pool->users & ~bit(process));
    }
    for (int i = 0; i < SIM_SHARED_EVENTS_MAX; i++) {
        struct sim_machine_event *event = &machine->events[i];
        if (event->users == bit(process) && event->fence >= 0)
            machine->fences[event->fence].current = false;
        if (event->maker == process)
            event->maker = -1;
        event->users &= ~bit(process);
    }
    for (int i = 0; i < SIM_FENCES_MAX; i++) {
        struct sim_fence *fence = &machine->fences[i];
        if (fence->recorder == process)
            fence->recorder = -1;
        fence->holders &= ~bit(process);
    }
    memset(machine->processes[process].held, 0, sizeof(machine->processes[process].held));
    machine->processes[process].used = false;
}

/* Everything else in the machine is valid at every instant. */
void sim_ledger_recover(struct sim_machine *machine)
{
    for (int i = 0; i < SIM_FENCES_MAX; i++)
        machine->fences[i].current = false;
    for (int i = 0; i < SIM_SHARED_EVENTS_MAX; i++)
        if (machine->events[i].users && machine->events[i].fence >= 0)
            machine->fences[machine->events[i].fence].current = true;
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t free_bytes(const struct sim_machine *machine, int device)
{
    uint64_t held = 0;
    for (int i = 0; i < SIM_PROCESSES_MAX; i++)
        held += machine->processes[i].held[device];
    for (int i = 0; i < machine->pools_end; i++)
        held += machine->pools[i].users && machine->pools[i].device == device ? machine->pools[i].held : 0;
    return held < sim.settings.memory ? sim.settings.memory - held : 0;
}

uint64_t sim_ledger_free(int device)
{
    struct sim_machine *machine = sim_machine_lock();
    sim_machine_reap(machine);
    uint64_t bytes = free_bytes(machine, device);
    sim_machine_unlock();
    return bytes;
}

static uint64_t held_by(const struct sim_machine *machine, int process, int device)
{
    uint64_t held = machine->processes[process].held[device];
    for (int i = 0; i < machine->pools_end; i++)
        held += machine->pools[i].users && machine->pools[i].owner == process && machine->pools[i].device == device ? machine->pools[i].held : 0;
    return held;
}

size_t sim_ledger_processes(int device, struct gpu_process *processes, size_t room)
{
    size_t count = 0;
    struct sim_machine *machine = sim_machine_lock();
    sim_machine_reap(machine);
    for (int i = 0; i < SIM_PROCESSES_MAX; i++) {
        uint64_t held = machine->processes[i].used ? held_by(machine, i, device) : 0;
        if (!held && i != sim.machine.self)
            continue;
        if (count < room)
            processes[count] = (struct gpu_process){ .pid = machine->processes[i].pid, .bytes = held };
        count++;
    }
    sim_machine_unlock();
    return count;
}

bool sim_ledger_charge(const struct sim_pool *pool, uint64_t held)
{
    if (pool->location != GPU_LOCATION_DEVICE || pool->imported)
        return true;
    struct sim_machine *machine = sim_machine_lock();
    uint64_t *place = pool->shared >= 0 ? &machine->pools[pool->shared].held :
                                          &machine->processes[sim.machine.self].held[pool->device];
    bool fits = held <= pool->held || free_bytes(machine, pool->device) >= held - pool->held;
    if (fits)
        *place += held - pool->held;
    sim_machine_unlock();
    return fits;
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

static bool identify(int fd, uint64_t *device_number, uint64_t *inode)
{
    struct stat status;
    if (fstat(fd, &status))
        return false;
    *device_number = status.st_dev;
    *inode = status.st_ino;
    return true;
}

bool sim_ledger_pool_add(struct sim_pool *pool)
{
    struct sim_machine_pool made = { .device = pool->device, .owner = sim.machine.self };
    if (!identify(pool->fd, &made.device_number, &made.inode))
        return false;
    struct sim_machine *machine = sim_machine_lock();
    int i = 0;
    while (i < SIM_SHARED_POOLS_MAX && machine->pools[i].users)
        i++;
    if (i < SIM_SHARED_POOLS_MAX) {
        made.serial = ++machine->last_serial;
        machine->pools[i] = made;
        if (i >= machine->pools_end)
            machine->pools_end = i + 1;
        commit(&machine->pools[i].users, own_bit());
        pool->shared = i;
    }
    sim_machine_unlock();
    return i < SIM_SHARED_POOLS_MAX;
}

bool sim_ledger_pool_find(struct sim_pool *pool)
{
    uint64_t device_number, inode;
    bool found = false;
    if (!identify(pool->fd, &device_number, &inode))
        return false;
    struct sim_machine *machine = sim_machine_lock();
    sim_machine_reap(machine);
    for (int i = 0; i < machine->pools_end && !found; i++) {
        struct sim_machine_pool *candidate = &machine->pools[i];
        found = candidate->users && candidate->device == pool->device && candidate->device_number == device_number &&
                candidate->inode == inode;
        if (found) {
            candidate->users |= own_bit();
            pool->shared = i;
        }
    }
    sim_machine_unlock();
    return found;
}

void sim_ledger_pool_leave(const struct sim_pool *pool, bool last)
{
    struct sim_machine *machine = sim_machine_lock();
    struct sim_machine_pool *shared = &machine->pools[pool->shared];
    if (!pool->imported)
        drop_owner(shared);
    if (last)
        commit(&shared->users, shared->users & ~own_bit());
    sim_machine_unlock();
}

void sim_ledger_pool_exported(const struct sim_pool *pool, uint64_t bytes)
{
    struct sim_machine *machine = sim_machine_lock();
    machine->pools[pool->shared].exported = bytes;
    sim_machine_unlock();
}

void sim_ledger_block_handle(const struct sim_pool *pool, struct sim_block_handle *handle)
{
    struct sim_machine *machine = sim_machine_lock();
    handle->machine = machine->id;
    handle->pool_serial = machine->pools[pool->shared].serial;
    sim_machine_unlock();
}

bool sim_ledger_is_of_pool(const struct sim_pool *pool, const struct sim_block_handle *handle)
{
    struct sim_block_handle own;
    sim_ledger_block_handle(pool, &own);
    return handle->machine == own.machine && handle->pool_serial == own.pool_serial;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static int find_free_event(struct sim_machine *machine)
{
    for (int i = 0; i < SIM_SHARED_EVENTS_MAX; i++) {
        int event = (machine->event_hint + i) % SIM_SHARED_EVENTS_MAX;
        if (!machine->events[event].users)
            return machine->event_hint = event;
    }
    return -1;
}

int sim_ledger_event_add(int device, struct sim_event_handle *handle)
{
    struct sim_machine *machine = sim_machine_lock();
    int event = find_free_event(machine);
    if (event < 0) {
        sim_machine_reap(machine);
        event = find_free_event(machine);
    }
    if (event >= 0) {
        struct sim_machine_event *made = &machine->events[event];
        *made = (struct sim_machine_event){ .device = device, .maker = sim.machine.self, .fence = -1, .serial = ++machine->last_serial };
        commit(&made->users, own_bit());
        *handle = (struct sim_event_handle){ machine->id, made->serial, (uint64_t)event };
    }
    sim_machine_unlock();
    return event;
}

static int open_event(struct sim_machine_event *event, int device, uint64_t serial)
{
    if (!event->users || event->serial != serial || event->device != device)
        return GPU_INVALID_HANDLE;
    if (event->maker == sim.machine.self)
        return SIM_NO_CONTEXT;
    event->users |= own_bit();
    return 0;
}

int sim_ledger_event_open(int device, const struct sim_event_handle *handle, int *event)
{
    struct sim_machine *machine = sim_machine_lock();
    int code = GPU_INVALID_HANDLE;
    if (handle->machine == machine->id && handle->event < SIM_SHARED_EVENTS_MAX)
        code = open_event(&machine->events[handle->event], device, handle->event_serial);
    if (!code)
        *event = (int)handle->event;
    sim_machine_unlock();
    return code;
}

void sim_ledger_event_leave(int event)
{
    struct sim_machine *machine = sim_machine_lock();
    struct sim_machine_event *shared = &machine->events[event];
    uint64_t users = shared->users & ~own_bit();
    if (!users && shared->fence >= 0)
        machine->fences[shared->fence].current = false;
    commit(&shared->users, users);
    sim_machine_unlock();
}

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

static int find_free_fence(struct sim_machine *machine)
{
    for (int i = 0; i < SIM_FENCES_MAX; i++) {
        int fence = (machine->fence_hint + i) % SIM_FENCES_MAX;
        if (!machine->fences[fence].holders && !machine->fences[fence].current)
            return machine->fence_hint = fence;
    }
    return -1;
}

int sim_ledger_event_record(int event)
{
    struct sim_machine *machine = sim_machine_lock();
    int fence = find_free_fence(machine);
    if (fence < 0) {
        sim_machine_reap(machine);
        fence = find_free_fence(machine);
    }
    if (fence >= 0) {
        struct sim_machine_event *shared = &machine->events[event];
        machine->fences[fence] = (struct sim_fence){ .recorder = sim.machine.self };
        commit(&machine->fences[fence].holders, own_bit());
        int former = shared->fence;
        shared->fence = fence;
        machine->fences[fence].current = true;
        if (former >= 0)
            machine->fences[former].current = false;
    }
    sim_machine_unlock();
    return fence;
}

int sim_ledger_event_fence(int event, bool hold, bool *own)
{
    struct sim_machine *machine = sim_machine_lock();
    int number = machine->events[event].fence;
    if (number >= 0) {
        struct sim_fence *fence = &machine->fences[number];
        *own = fence->recorder == sim.machine.self;
        if (fence->done)
            number = -1;
        else if (hold && !*own)
            fence->holders |= own_bit();
    }
    sim_machine_unlock();
    return number;
}

void sim_ledger_fence_done(int number, uint64_t at)
{
    struct sim_machine *machine = sim_machine_lock();
    struct sim_fence *fence = &machine->fences[number];
    fence->done_at = at;
    fence->done = true;
    uint64_t waiting = fence->holders & ~own_bit();
    commit(&fence->holders, waiting);
    sim_machine_unlock();
    for (int process = 0; waiting; process++, waiting >>= 1)
        if (waiting & 1)
            sim_machine_wake(process);
}

bool sim_ledger_fence_is_done(int number, uint64_t *at)
{
    struct sim_machine *machine = sim_machine_lock();
    bool done = machine->fences[number].done;
    *at = machine->fences[number].done_at;
    sim_machine_unlock();
    return done;
}

void sim_ledger_fence_release(int number)
{
    struct sim_machine *machine = sim_machine_lock();
    machine->fences[number].holders &= ~own_bit();
    sim_machine_unlock();
}
