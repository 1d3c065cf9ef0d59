/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top/model.h"

#include <stdlib.h>
#include <string.h>

/* What others call themselves may hold anything; on the screen it shall take one column for each byte, and give no orders. */
static void clean(char *text)
{
    for (; *text; text++)
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
}

static void add_sums(struct top_sums *to, const struct top_sums *more)
{
    to->reserved += more->reserved;
    to->live += more->live;
    to->idle += more->idle;
    to->rate += more->rate;
}

static struct top_sums sums_of(const process_pool *pool, double rate)
{
    return (struct top_sums){.reserved = pool->reserved, .live = pool->live, .idle = pool->idle, .rate = rate > 0 ? rate : 0};
}

static void *copy_of(const void *items, size_t count, size_t size)
{
    void *copy = must(calloc(count + 1, size));
    if (count > 0)
        memcpy(copy, items, count * size);
    return copy;
}

/* Devices --------------------------------------------------------------------------------------------------------------------------------
 */

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
            struct top_sums sums = sums_of(&process->now.pools[j], process->rates[j]);
            if (at < model->device_count)
                add_sums(&model->devices[at].sums, &sums);
        }
    }
}

/* Processes ------------------------------------------------------------------------------------------------------------------------------
 */

static void forget_answer(struct process *answer, double **rates)
{
    free(answer->devices);
    free(answer->pools);
    free(*rates);
    answer->devices = NULL;
    answer->pools = NULL;
    *rates = NULL;
    answer->device_count = answer->pool_count = 0;
}

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

/* Takes in a process that answered; *process has what it held before. */
static void take_answer(struct top_process *process, const struct process *seen, double seconds)
{
    struct process before = process->now;
    double *rates_before = process->rates;
    process->now = *seen;
    clean(process->now.program);
    process->now.devices = copy_of(seen->devices, seen->device_count, sizeof(*seen->devices));
    process->now.pools = copy_of(seen->pools, seen->pool_count, sizeof(*seen->pools));
    process->rates = must(calloc(seen->pool_count + 1, sizeof(*process->rates)));
    process->sums = (struct top_sums){0};
    for (size_t i = 0; i < seen->pool_count; i++) {
        const process_pool *pool = &seen->pools[i], *old = find_before(&before, seen->pools, i);
        process->rates[i] = old && old->mallocs <= pool->mallocs && seconds > 0 ? (double)(pool->mallocs - old->mallocs) / seconds : -1;
        struct top_sums sums = sums_of(pool, process->rates[i]);
        add_sums(&process->sums, &sums);
    }
    forget_answer(&before, &rates_before);
}

/* Takes in why a process did not answer, without the socket that the reason begins with: the process is named beside it. */
static void take_refusal(struct top_process *process, const struct process *seen)
{
    size_t len = strlen(seen->socket);
    bool is_named = strncmp(seen->reason, seen->socket, len) == 0 && strncmp(seen->reason + len, ": ", 2) == 0;
    snprintf(process->now.reason, sizeof(process->now.reason), "%s", seen->reason + (is_named ? len + 2 : 0));
    clean(process->now.reason);
    process->now.pid = seen->pid;
    forget_answer(&process->now, &process->rates);
    process->sums = (struct top_sums){0};
}

static struct top_process *find_process(struct top_model *model, const char *socket)
{
    for (size_t i = 0; i < model->process_count; i++)
        if (strcmp(model->processes[i].now.socket, socket) == 0)
            return &model->processes[i];
    model->processes = must(realloc(model->processes, (model->process_count + 1) * sizeof(*model->processes)));
    struct top_process *process = &model->processes[model->process_count++];
    *process = (struct top_process){0};
    memcpy(process->now.socket, socket, sizeof(process->now.socket));
    return process;
}

static void look_at_process(struct top_model *model, const struct process *seen, double seconds)
{
    struct text text;
    struct top_process *process = find_process(model, seen->socket);
    process->is_gone = false;
    process->has_answered = seen->status == WEIR_OK;
    snprintf(process->name, sizeof(process->name), "%s", process_name(seen, &text));
    clean(process->name);
    if (!process->has_answered) {
        take_refusal(process, seen);
        return;
    }
    take_answer(process, seen, seconds);
    if (!process->user[0])
        snprintf(process->user, sizeof(process->user), "%s", process_user(seen->uid, &text));
    clean(process->user);
}

/* Those that were gone already are forgotten; the others are, until they are seen. */
static void expect_all(struct top_model *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->process_count; i++) {
        struct top_process *process = &model->processes[i];
        if (process->is_gone) /* its answer was forgotten by then */
            continue;
        process->is_gone = true;
        process->has_answered = false;
        model->processes[kept++] = *process;
    }
    model->process_count = kept;
}

/* Order ----------------------------------------------------------------------------------------------------------------------------------
 */

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

void top_model_look(struct top_model *model, const struct processes *processes, uint64_t now)
{
    double seconds = model->looked_at ? (double)(now - model->looked_at) / 1e9 : 0;
    model->looked_at = now;
    expect_all(model);
    for (size_t i = 0; i < processes->count; i++)
        look_at_process(model, &processes->items[i], seconds);
    for (size_t i = 0; i < model->process_count; i++)
        if (model->processes[i].is_gone)
            forget_answer(&model->processes[i].now, &model->processes[i].rates);
    look_at_devices(model);
    top_model_sort(model, model->sort);
}

void top_model_free(struct top_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        forget_answer(&model->processes[i].now, &model->processes[i].rates);
    free(model->processes);
    free(model->devices);
    *model = (struct top_model){0};
}
