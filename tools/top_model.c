/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top_model.h"

#include <stdlib.h>
#include <string.h>

/* What others call themselves may hold anything; on the screen it shall take one column for each byte, and give no orders. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = 0;
    for (; from[len] && len + 1 < size; len++)
        to[len] = from[len] >= ' ' && from[len] <= '~' ? from[len] : '?';
    to[len] = '\0';
}

static void add_sums(struct top_sums *to, const struct top_sums *more)
{
    to->reserved += more->reserved;
    to->live += more->live;
    to->cached += more->cached;
    to->idle += more->idle;
}

static void add_deeds(struct top_deeds *to, const struct top_deeds *more)
{
    to->rescues += more->rescues;
    to->asked += more->asked;
    to->got += more->got;
    to->was_asked += more->was_asked;
    to->gave += more->gave;
}

static struct top_sums sums_of_pool(const process_pool *pool)
{
    return (struct top_sums){.reserved = pool->reserved, .live = pool->live, .cached = pool->cached, .idle = pool->idle};
}

static struct top_deeds deeds_of_device(const process_device *device)
{
    struct top_deeds deeds = {
        .asked = device->asks_sent,
        .got = device->bytes_got,
        .was_asked = device->asks_received,
        .gave = device->bytes_given,
    };
    for (size_t rung = 0; rung < WIRE_RUNGS; rung++)
        deeds.rescues += device->rescues[rung];
    return deeds;
}

/* Devices -------------------------------------------------------------------------------------------------------------------------------- */

static struct top_device *find_device(const struct top_model *model, const char *uuid)
{
    for (size_t i = 0; i < model->device_count; i++)
        if (strcmp(model->devices[i].uuid, uuid) == 0)
            return &model->devices[i];
    return NULL;
}

static void add_device(struct top_model *model, const process_device *seen)
{
    struct top_device *device = find_device(model, seen->uuid);
    if (!device) {
        model->devices = must(realloc(model->devices, (model->device_count + 1) * sizeof(*model->devices)));
        device = &model->devices[model->device_count++];
        *device = (struct top_device){.index = seen->index};
        memcpy(device->uuid, seen->uuid, sizeof(device->uuid));
    }
    if (seen->index < device->index)
        device->index = seen->index;
    device->memory = seen->memory;
    device->memory_free = seen->memory_free;
}

static int compare_devices(const void *one, const void *other)
{
    const struct top_device *a = one, *b = other;
    return a->index != b->index ? (a->index > b->index) - (a->index < b->index) : strcmp(a->uuid, b->uuid);
}

/* The devices of those that answer; pools and deeds name them by their place here. */
static void look_at_devices(struct top_model *model, const struct processes *processes)
{
    model->device_count = 0;
    for (size_t i = 0; i < processes->count; i++)
        for (size_t j = 0; j < processes->items[i].device_count; j++)
            add_device(model, &processes->items[i].devices[j]);
    if (model->device_count > 0)
        qsort(model->devices, model->device_count, sizeof(*model->devices), compare_devices);
}

/* Pools ---------------------------------------------------------------------------------------------------------------------------------- */

/* Private pools of several streams look the same from outside; their order tells them apart. */
static bool is_same_pool(const process_pool *a, const process_pool *b)
{
    return a->device == b->device && a->flags == b->flags && strcmp(a->name, b->name) == 0;
}

/* The pool of the look before that is pools[at] of this one; NULL if there is none. */
static const struct top_pool *find_before(const struct top_process *before, const process_pool *pools, size_t at)
{
    size_t nth = 0;
    for (size_t i = 0; i < at; i++)
        nth += is_same_pool(&pools[i], &pools[at]);
    for (size_t i = 0; i < before->pool_count; i++)
        if (is_same_pool(&before->pools[i].now, &pools[at]) && nth-- == 0)
            return &before->pools[i];
    return NULL;
}

static void remember(struct top_pool *pool)
{
    pool->reserved[pool->looks % TOP_HISTORY] = pool->now.reserved;
    pool->live[pool->looks % TOP_HISTORY] = pool->now.live;
    pool->looks++;
}

static void forget(struct top_process *process)
{
    free(process->pools);
    free(process->sorted);
    free(process->deeds);
}

/* Takes in a process that answered; *process has what it held before. */
static void take_answer(const struct top_model *model, struct top_process *process, const struct process *seen)
{
    struct top_process before = *process;
    process->age_ms = seen->age_ms;
    copy_text(process->program, sizeof(process->program), seen->program);
    process->pools = must(calloc(seen->pool_count + 1, sizeof(*process->pools)));
    process->sorted = must(calloc(seen->pool_count + 1, sizeof(struct top_pool *)));
    process->deeds = must(calloc(model->device_count + 1, sizeof(*process->deeds)));
    process->pool_count = seen->pool_count;
    process->device_count = model->device_count;
    process->sums = (struct top_sums){0};
    for (size_t i = 0; i < seen->pool_count; i++) {
        const struct top_pool *old = find_before(&before, seen->pools, i);
        const process_device *device = process_device_of(seen, &seen->pools[i]);
        struct top_pool *pool = &process->pools[i];
        if (old)
            *pool = *old;
        pool->now = seen->pools[i];
        process->sorted[i] = pool;
        pool->device = device ? (size_t)(find_device(model, device->uuid) - model->devices) : model->device_count;
        remember(pool);
        struct top_sums sums = sums_of_pool(&pool->now);
        add_sums(&process->sums, &sums);
    }
    for (size_t i = 0; i < seen->device_count; i++)
        process->deeds[find_device(model, seen->devices[i].uuid) - model->devices] = deeds_of_device(&seen->devices[i]);
    forget(&before);
}

/* Processes ------------------------------------------------------------------------------------------------------------------------------ */

static struct top_process *find_process(const struct top_model *model, const char *socket)
{
    for (size_t i = 0; i < model->process_count; i++)
        if (strcmp(model->processes[i].socket, socket) == 0)
            return &model->processes[i];
    return NULL;
}

static struct top_process *add_process(struct top_model *model, const char *socket)
{
    model->processes = must(realloc(model->processes, (model->process_count + 1) * sizeof(*model->processes)));
    struct top_process *process = &model->processes[model->process_count++];
    *process = (struct top_process){0};
    memcpy(process->socket, socket, sizeof(process->socket));
    return process;
}

/* The reason, without the socket that it begins with: the process is named beside it. */
static const char *reason_of(const struct process *seen)
{
    size_t len = strlen(seen->socket);
    return strncmp(seen->reason, seen->socket, len) == 0 && strncmp(seen->reason + len, ": ", 2) == 0 ? seen->reason + len + 2
                                                                                                      : seen->reason;
}

static void look_at_process(struct top_model *model, const struct process *seen)
{
    struct text text;
    struct top_process *process = find_process(model, seen->socket);
    if (!process)
        process = add_process(model, seen->socket);
    process->is_gone = false;
    process->has_answered = seen->status == WEIR_OK;
    process->pid = seen->pid;
    copy_text(process->name, sizeof(process->name), process_name(seen, &text));
    copy_text(process->reason, sizeof(process->reason), reason_of(seen));
    if (!process->has_answered)
        return;
    if (!process->user[0])
        copy_text(process->user, sizeof(process->user), process_user(seen->uid, &text));
    take_answer(model, process, seen);
}

/* Those that were gone already are forgotten; the others are, until they are seen. */
static void expect_all(struct top_model *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        if (model->processes[i].is_gone) {
            forget(&model->processes[i]);
            continue;
        }
        model->processes[kept] = model->processes[i];
        model->processes[kept].is_gone = true;
        model->processes[kept++].has_answered = false;
    }
    model->process_count = kept;
}

static void sum_up(struct top_model *model)
{
    model->sums = (struct top_sums){0};
    model->deeds = (struct top_deeds){0};
    for (size_t i = 0; i < model->device_count; i++)
        model->devices[i].sums = (struct top_sums){0};
    for (size_t i = 0; i < model->process_count; i++) {
        const struct top_process *process = &model->processes[i];
        if (!process->has_answered)
            continue;
        add_sums(&model->sums, &process->sums);
        for (size_t j = 0; j < process->device_count; j++)
            add_deeds(&model->deeds, &process->deeds[j]);
        for (size_t j = 0; j < process->pool_count; j++) {
            struct top_sums sums = sums_of_pool(&process->pools[j].now);
            if (process->pools[j].device < model->device_count)
                add_sums(&model->devices[process->pools[j].device].sums, &sums);
        }
    }
}

/* Order ---------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t size_by(enum top_sort sort, const struct top_sums *sums)
{
    switch (sort) {
    case TOP_BY_RESERVED:
        return sums->reserved;
    case TOP_BY_LIVE:
        return sums->live;
    case TOP_BY_CACHED:
        return sums->cached;
    case TOP_BY_IDLE:
        return sums->idle;
    default:
        return 0;
    }
}

static int compare_sizes(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int compare_numbers(long a, long b)
{
    return (a > b) - (a < b);
}

/* Whoever has no figures now stands behind those who have, in either direction. */
static int compare_processes(const void *one, const void *other, void *data)
{
    const struct top_process *a = one, *b = other;
    const struct top_model *model = data;
    if (model->sort != TOP_BY_PID && a->has_answered != b->has_answered)
        return a->has_answered ? -1 : 1;
    int order = model->sort == TOP_BY_NAME  ? strcmp(a->program, b->program)
                : model->sort == TOP_BY_PID ? compare_numbers(a->pid, b->pid)
                                            : compare_sizes(size_by(model->sort, &a->sums), size_by(model->sort, &b->sums));
    if (order != 0)
        return model->is_reversed ? -order : order;
    order = compare_numbers(a->pid, b->pid);
    return order ? order : strcmp(a->socket, b->socket);
}

static int compare_pools(const void *one, const void *other, void *data)
{
    const struct top_pool *a = *(struct top_pool *const *)one, *b = *(struct top_pool *const *)other;
    const struct top_model *model = data;
    struct top_sums of_a = sums_of_pool(&a->now), of_b = sums_of_pool(&b->now);
    int order = compare_sizes(size_by(model->sort, &of_a), size_by(model->sort, &of_b));
    if (order != 0)
        return model->is_reversed ? -order : order;
    return (a > b) - (a < b);
}

static void put_in_order(struct top_model *model)
{
    if (model->process_count == 0)
        return;
    qsort_r(model->processes, model->process_count, sizeof(*model->processes), compare_processes, model);
    for (size_t i = 0; i < model->process_count; i++)
        if (model->processes[i].pool_count > 0)
            qsort_r(model->processes[i].sorted, model->processes[i].pool_count, sizeof(struct top_pool *), compare_pools, model);
}

void top_model_look(struct top_model *model, const struct processes *processes)
{
    expect_all(model);
    look_at_devices(model, processes);
    for (size_t i = 0; i < processes->count; i++)
        look_at_process(model, &processes->items[i]);
    model->looks++;
    sum_up(model);
    put_in_order(model);
}

void top_model_sort(struct top_model *model, enum top_sort sort)
{
    model->is_reversed = model->sort == sort && !model->is_reversed;
    model->sort = sort;
    put_in_order(model);
}

void top_model_free(struct top_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        forget(&model->processes[i]);
    free(model->processes);
    free(model->devices);
    *model = (struct top_model){0};
}
