/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What others call themselves may hold anything; on the screen it shall take one column for each byte, and give no orders. */
static void clean(char *text)
{
    for (; *text; text++)
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
}

static void add_pool(struct top_sums *to, const process_pool *pool, double rate)
{
    to->reserved += pool->reserved;
    to->live += pool->live;
    to->idle += pool->idle;
    to->rate += rate > 0 ? rate : 0;
}

/* Devices ----------------------------------------------------------------------------------------------------------------------------- */

static size_t find_device(const struct top_model *model, const char *uuid)
{
    size_t at = 0;
    while (at < model->device_count && strcmp(model->devices[at].uuid, uuid) != 0)
        at++;
    return at;
}

size_t top_model_device(const struct top_model *model, const struct top_process *process, const process_pool *pool)
{
    const process_device *device = process_device_of(&process->now, pool);
    return device ? find_device(model, device->uuid) : model->device_count;
}

static void add_device(struct top_model *model, const process_device *seen)
{
    size_t at = find_device(model, seen->uuid);
    if (at == model->device_count) {
        model->devices = must(realloc(model->devices, (at + 1) * sizeof(*model->devices)));
        model->devices[model->device_count++] = (struct top_device){.index = seen->index};
        memcpy(model->devices[at].uuid, seen->uuid, sizeof(seen->uuid));
    }
    struct top_device *device = &model->devices[at];
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

/* The devices of those that answer, with what is seen here of each. */
static void look_at_devices(struct top_model *model)
{
    model->device_count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        for (size_t j = 0; j < model->processes[i].now.device_count; j++)
            add_device(model, &model->processes[i].now.devices[j]);
    if (model->device_count > 0)
        qsort(model->devices, model->device_count, sizeof(*model->devices), compare_devices);
    for (size_t i = 0; i < model->process_count; i++) {
        const struct top_process *process = &model->processes[i];
        for (size_t j = 0; j < process->now.pool_count; j++) {
            size_t at = top_model_device(model, process, &process->now.pools[j]);
            if (at < model->device_count)
                add_pool(&model->devices[at].sums, &process->now.pools[j], process->rates[j]);
        }
    }
}

/* Processes --------------------------------------------------------------------------------------------------------------------------- */

/* Private pools of several streams look the same from outside; their order tells them apart. */
static bool is_same_pool(const process_pool *a, const process_pool *b)
{
    return a->device == b->device && a->flags == b->flags && strcmp(a->name, b->name) == 0;
}

/* The pool of the look before that is pools[at] of this one; NULL if there is none. */
static const process_pool *find_before(const struct process *before, const process_pool *pools, size_t at)
{
    size_t nth = 0;
    for (size_t i = 0; i < at; i++)
        nth += is_same_pool(&pools[i], &pools[at]);
    for (size_t i = 0; i < before->pool_count; i++)
        if (is_same_pool(&before->pools[i], &pools[at]) && nth-- == 0)
            return &before->pools[i];
    return NULL;
}

static const struct top_process *find_process(const struct top_process *processes, size_t count, const char *socket)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(processes[i].now.socket, socket) == 0)
            return &processes[i];
    return NULL;
}

/* What a process is now. former: what it was at the look before, or NULL. rates: room for those of its pools. */
static struct top_process look_at_process(const struct process *seen, const struct top_process *former, double seconds, double *rates)
{
    struct top_process process = {.now = *seen, .rates = rates, .has_answered = seen->status == WEIR_OK};
    struct text text;
    snprintf(process.name, sizeof(process.name), "%s", process_name(seen, &text));
    if (former)
        memcpy(process.user, former->user, sizeof(process.user));
    if (process.has_answered && !process.user[0])
        snprintf(process.user, sizeof(process.user), "%s", process_user(seen->uid, &text));
    if (former && !process.has_answered)
        memcpy(process.now.program, former->now.program, sizeof(process.now.program));
    /* The reason begins with the socket, but the process is named beside it. */
    size_t len = strlen(seen->socket);
    if (strncmp(seen->reason, seen->socket, len) == 0 && strncmp(seen->reason + len, ": ", 2) == 0)
        snprintf(process.now.reason, sizeof(process.now.reason), "%s", seen->reason + len + 2);
    char *const texts[] = {process.name, process.user, process.now.program, process.now.reason};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        clean(texts[i]);
    for (size_t i = 0; i < seen->pool_count; i++) {
        const process_pool *pool = &seen->pools[i], *old = former ? find_before(&former->now, seen->pools, i) : NULL;
        rates[i] = old && old->mallocs <= pool->mallocs && seconds > 0 ? (double)(pool->mallocs - old->mallocs) / seconds : -1;
        add_pool(&process.sums, pool, rates[i]);
    }
    return process;
}

/* What is left of a process that has vanished. */
static struct top_process gone(const struct top_process *former)
{
    struct top_process process = *former;
    process.is_gone = true;
    process.has_answered = false;
    process.rates = NULL;
    process.sums = (struct top_sums){0};
    process.now.devices = NULL;
    process.now.pools = NULL;
    process.now.tags = NULL;
    process.now.audits = NULL;
    process.now.device_count = process.now.pool_count = process.now.tag_count = process.now.audit_count = 0;
    return process;
}

/* Order ------------------------------------------------------------------------------------------------------------------------------- */

static double measure_of(const struct top_process *process, enum top_sort sort)
{
    switch (sort) {
    case TOP_BY_RESERVED:
        return (double)process->sums.reserved;
    case TOP_BY_LIVE:
        return (double)process->sums.live;
    case TOP_BY_IDLE:
        return (double)process->sums.idle;
    case TOP_BY_RATE:
        return process->sums.rate;
    default:
        return 0;
    }
}

/* Those without figures stand behind those that have some, unless the order is by process. */
static int compare_processes(const void *one, const void *other, void *data)
{
    const struct top_process *a = one, *b = other;
    enum top_sort sort = *(const enum top_sort *)data;
    if (sort != TOP_BY_PID && a->has_answered != b->has_answered)
        return a->has_answered ? -1 : 1;
    double x = measure_of(a, sort), y = measure_of(b, sort);
    if (x != y)
        return x < y ? 1 : -1;
    return a->now.pid != b->now.pid ? (a->now.pid > b->now.pid ? 1 : -1) : strcmp(a->now.socket, b->now.socket);
}

void top_model_sort(struct top_model *model, enum top_sort sort)
{
    model->sort = sort;
    if (model->process_count > 0)
        qsort_r(model->processes, model->process_count, sizeof(*model->processes), compare_processes, &model->sort);
}

static void forget_look(struct top_model *model)
{
    processes_free(&model->seen);
    free(model->processes);
    free(model->rates);
}

void top_model_look(struct top_model *model, struct processes processes, uint64_t now)
{
    struct top_model before = *model;
    double seconds = before.looked_at ? (double)(now - before.looked_at) / 1e9 : 0;
    size_t pools = 0;
    for (size_t i = 0; i < processes.count; i++)
        pools += processes.items[i].pool_count;
    model->looked_at = now;
    model->seen = processes;
    model->processes = must(calloc(processes.count + before.process_count + 1, sizeof(*model->processes)));
    model->process_count = processes.count;
    model->rates = must(calloc(pools + 1, sizeof(*model->rates)));
    double *rates = model->rates;
    for (size_t i = 0; i < processes.count; i++) {
        const struct process *seen = &processes.items[i];
        const struct top_process *former = find_process(before.processes, before.process_count, seen->socket);
        model->processes[i] = look_at_process(seen, former, seconds, rates);
        rates += seen->pool_count;
    }
    for (size_t i = 0; i < before.process_count; i++) {
        const struct top_process *former = &before.processes[i];
        if (!former->is_gone && !find_process(model->processes, processes.count, former->now.socket))
            model->processes[model->process_count++] = gone(former);
    }
    forget_look(&before);
    look_at_devices(model);
    top_model_sort(model, model->sort);
}

void top_model_free(struct top_model *model)
{
    forget_look(model);
    free(model->devices);
    *model = (struct top_model){0};
}
