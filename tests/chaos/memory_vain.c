/* SPDX-License-Identifier: MIT */
/* memory_vain.c - requests that nothing can serve, and what is to be as it was behind their refusal. */
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/chaos/memory.h"
#include "tests/chaos/waist.h"

/* What is free on each device, and what each pool reserves of it. */
struct holding {
    uint64_t free[DEVICES_MAX], reserved[POOLS][DEVICES_MAX];
};

static uint64_t free_of(const struct program *program, int device)
{
    uint64_t free = 0, all;
    int code = program->gpu->device_memory(device, &free, &all);
    CHAOS_EXPECT(code == GPU_SUCCESS, "the device's memory: expected success, seen %d", code);
    return free;
}

static struct holding look(const struct program *program)
{
    struct holding holding = { .free = { 0 } };
    weir_stats *stats;
    for (unsigned which = 0; (stats = memory_stats(program, which)); which++) {
        for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
            const weir_pool_stats *seen = weir_stats_pool(stats, i);
            holding.reserved[memory_name_of(seen)][seen->device] = seen->reserved;
        }
        weir_stats_free(stats);
    }
    for (int device = 0; device < program->plan.devices; device++)
        holding.free[device] = free_of(program, device);
    return holding;
}

/* The text says which requests came between. */
static void judge(struct program *program, const struct holding *before, const char *text, uint64_t size)
{
    memory_synchronize(program);
    struct holding now = look(program);
    for (int device = 0; device < program->plan.devices; device++) {
        uint64_t may_lack = 0;
        for (size_t name = 0; name < memory_names(program); name++) {
            uint64_t may_grow = atomic_load(&program->served[name][device]);
            may_lack += may_grow;
            CHAOS_EXPECT(now.reserved[name][device] <= before->reserved[name][device] + may_grow,
                         "pool %zu of device %d after %s %llu MiB: expected at most %llu MiB reserved, and %llu MiB for what was served, seen %llu MiB",
                         name, device, text, (unsigned long long)(size / MIB), (unsigned long long)(before->reserved[name][device] / MIB),
                         (unsigned long long)(may_grow / MIB), (unsigned long long)(now.reserved[name][device] / MIB));
        }
        CHAOS_EXPECT(now.free[device] + may_lack >= before->free[device],
                     "device %d after %s %llu MiB: expected at least %llu MiB free, but for %llu MiB that were served, seen %llu MiB", device, text,
                     (unsigned long long)(size / MIB), (unsigned long long)(before->free[device] / MIB), (unsigned long long)(may_lack / MIB),
                     (unsigned long long)(now.free[device] / MIB));
    }
}

/* Bytes when everybody was quiet, with the pools that are not Weir's. */
static uint64_t live[POOLS + 1][DEVICES_MAX];

static void count_live(const struct program *program)
{
    uint64_t blocks;
    for (size_t name = 0; name <= POOLS; name++)
        for (int device = 0; device < DEVICES_MAX; device++)
            live[name][device] = model_live(program->model, memory_pool_number(name, device), &blocks);
}

static uint64_t live_on(int device)
{
    uint64_t bytes = 0;
    for (size_t name = 0; name <= POOLS; name++)
        bytes += live[name][device];
    return bytes;
}

/* Above what is not live; above what is free by less than the part of the device from which on a request is looked at before CUDA is asked;
   just below that part; above what the cap leaves. */
uint64_t vain_size(struct program *program, struct chaos_random *random, size_t name, int device)
{
    uint64_t memory = program->plan.memory, cap = program->model->pools[memory_pool_number(name, device)].cap;
    uint64_t spare = memory - live_on(device), size = 0;
    switch (random_below(random, cap ? 4 : 3)) {
    case 0:
        size = spare / MODEL_STEP * MODEL_STEP + MODEL_STEP * (1 + random_below(random, 4));
        break;
    case 1:
        size = free_of(program, device) + memory / 64 - 512;
        break;
    case 2:
        size = memory / 64 - 512;
        break;
    default:
        size = cap > live[name][device] ? cap - live[name][device] + MODEL_STEP : cap;
        size = size < cap ? size : cap;
    }
    if (program->plan.is_whole)
        size = (size + MODEL_STEP - 1) / MODEL_STEP * MODEL_STEP;
    return size < memory ? size : memory;
}

static struct {
    void *ptr;
    size_t number; /* in the model */
} filling[DEVICES_MAX];

static void must(int code, const char *what)
{
    CHAOS_EXPECT(code == GPU_SUCCESS, "%s: expected success, seen %d", what, code);
}

void vain_fill(struct program *program)
{
    for (int device = 0; device < program->plan.devices; device++) {
        uint64_t free = free_of(program, device), left = MODEL_STEP * random_below(&program->extra, 4), begin = model_tick(program->model);
        filling[device].ptr = NULL;
        if (free < left + MODEL_STEP || random_once_in(&program->extra, 3))
            continue;
        uint64_t size = (free - left) / MODEL_STEP * MODEL_STEP;
        must(program->gpu->pool_create(&(struct gpu_pool_spec){ .device = device }, &program->filler[device]), "a pool");
        must(program->gpu->malloc_async(&filling[device].ptr, size, program->filler[device], program->refuge[device]), "what is free");
        filling[device].number = model_served(program->model, begin, memory_pool_number(FOREIGN, device), size);
    }
}

void vain_empty(struct program *program)
{
    for (int device = 0; device < program->plan.devices; device++) {
        if (!filling[device].ptr)
            continue;
        must(program->gpu->free_async(filling[device].ptr, program->refuge[device]), "a free");
        must(program->gpu->stream_synchronize(program->refuge[device]), "synchronising");
        must(program->gpu->pool_destroy(program->filler[device]), "a pool's end");
        model_freed(program->model, filling[device].number, NULL);
    }
}

static void ask(struct program *program, size_t name, int device)
{
    void *ptr;
    gpu_stream refuge = program->refuge[device];
    count_live(program); /* callbacks may have freed some */
    uint64_t size = vain_size(program, &program->extra, name, device), begin = model_tick(program->model);
    struct holding before = look(program);
    weir_status status = weir_pool_malloc(program->pools[name][device], &ptr, size, refuge);
    waist_enter_weir(false); /* a callback takes this thread for one of those that have faults */
    if (status == WEIR_OUT_OF_MEMORY) {
        atomic_fetch_add(&program->failures[name][device], 1);
        judge(program, &before, "the refusal of", size);
        return;
    }
    CHAOS_EXPECT(status == WEIR_OK, "a request for too much: expected WEIR_OUT_OF_MEMORY, seen %s", weir_status_name(status));
    size_t number = model_served(program->model, begin, memory_pool_number(name, device), size);
    status = weir_free(name == OTHER ? program->other : program->w, ptr, refuge);
    CHAOS_EXPECT(status == WEIR_OK, "a free: expected WEIR_OK, seen %s", weir_status_name(status));
    model_freed(program->model, number, NULL);
    memory_synchronize(program);
}

static void forget_served(struct program *program)
{
    memset((void *)program->served, 0, sizeof program->served);
}

void vain_ask_each_pool(struct program *program)
{
    forget_served(program);
    for (size_t name = 0; name < memory_names(program); name++)
        for (int device = 0; device < program->plan.devices; device++)
            ask(program, name, device);
}

static struct holding before_lanes;

void vain_begin_lanes(struct program *program)
{
    forget_served(program);
    count_live(program);
    before_lanes = look(program);
}

void vain_end_lanes(struct program *program)
{
    judge(program, &before_lanes, "requests for too much beside others, on a device of", program->plan.memory);
}
