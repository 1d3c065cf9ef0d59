/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/unit/top_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROCESSES_MAX = 8, POOLS_MAX = 8 };

static struct process items[PROCESSES_MAX];
static process_device devices[PROCESSES_MAX];
static process_pool pools[PROCESSES_MAX][POOLS_MAX];
static process_audit audits[PROCESSES_MAX];
static struct processes look = {.items = items};

void top_data_clear(void)
{
    look.count = 0;
}

struct process *top_data_process(int pid, const char *program, const char *uuid)
{
    process_device *device = &devices[look.count];
    struct process *process = &items[look.count];
    *device = (process_device){.memory = 1024 * MIB, .memory_free = 512 * MIB};
    snprintf(device->uuid, sizeof device->uuid, "GPU-%s", uuid);
    *process = (struct process){.pid = pid, .number = 1, .uid = getuid(), .status = WEIR_OK, .devices = device, .device_count = 1};
    process->pools = pools[look.count++];
    snprintf(process->socket, sizeof process->socket, "/run/%d.1", pid);
    snprintf(process->program, sizeof process->program, "%s", program);
    return process;
}

process_pool *top_data_pool(struct process *process, const char *name, uint64_t reserved, uint64_t live)
{
    process_pool *pool = &process->pools[process->pool_count++];
    *pool = (process_pool){.reserved = reserved, .live = live, .idle = reserved - live};
    snprintf(pool->name, sizeof pool->name, "%s", name);
    return pool;
}

process_audit *top_data_audit(struct process *process, const char *name)
{
    process_audit *audit = &audits[process - items];
    *audit = (process_audit){.flags = WIRE_POOL_AUTO};
    snprintf(audit->name, sizeof audit->name, "%s", name);
    process->audits = audit;
    process->audit_count = 1;
    return audit;
}

void top_data_hang(struct process *process)
{
    process->status = WEIR_TIMEOUT;
    snprintf(process->reason, sizeof process->reason, "%s: it hangs", process->socket);
    process->device_count = process->pool_count = 0;
    process->program[0] = '\0';
}

const struct processes *top_data_look(void)
{
    return &look;
}

static void *copy_of(const void *from, size_t size)
{
    void *copy = must(malloc(size + 1));
    return size ? memcpy(copy, from, size) : copy; /* no bytes may be of a list that is NULL */
}

struct processes top_data_seen(void)
{
    struct processes seen = {.count = look.count, .items = copy_of(items, sizeof items)};
    for (size_t i = 0; i < seen.count; i++) {
        seen.items[i].devices = copy_of(items[i].devices, items[i].device_count * sizeof *items[i].devices);
        seen.items[i].pools = copy_of(items[i].pools, items[i].pool_count * sizeof *items[i].pools);
        seen.items[i].audits = copy_of(items[i].audits, items[i].audit_count * sizeof *items[i].audits);
    }
    return seen;
}
