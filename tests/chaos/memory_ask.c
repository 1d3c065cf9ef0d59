/* SPDX-License-Identifier: MIT */
/* memory_ask.c - one request of a lane: which memory, in which way, how it may end, and what the model is told of it. */
#include <stdio.h>

#include "lib/pool/weir_internal.h"
#include "tests/chaos/memory.h"
#include "tests/chaos/schedule.h"
#include "tests/chaos/waist.h"

#define LATENESS (10 * MILLISECOND) /* what a driver's call for 2 GiB may take beyond a deadline, and what others take between two steps of a call */

uint64_t lane_some_size(struct lane *lane)
{
    const struct plan *plan = &lane->program->plan;
    if (!plan->is_whole && once_in(lane, 3))
        return 512 + below(lane, MIB - 512);
    if (once_in(lane, 60)) /* often too much, whatever the others do */
        return MODEL_STEP * (1 + below(lane, plan->memory / MODEL_STEP + 4));
    if (!plan->is_whole && once_in(lane, 3))
        return MIB + below(lane, 100 * MIB);
    return MODEL_STEP * (1 + below(lane, 6));
}

/*
 * A call may end later than its deadline by what a driver's call takes, and by what it waited for its turn. The deadline begins with recovery,
 * after the first attempt, which is for the size class and for the exact size, and of the twin and of the pool.
 */
static void judge_time(const struct lane *lane, uint64_t size, uint64_t took, uint64_t delayed, weir_status status)
{
    const struct plan *plan = &lane->program->plan;
    uint64_t lateness = (plan->lanes > LANES_FEW ? 4 : 1) * (plan->memory / (2048 * MIB)) * LATENESS;
    uint64_t bound = plan->deadline + lateness + (plan->slow_refusals ? WAIST_SLOWEST_NS * (plan->has_twin ? 5 : 3) : 0);
    CHAOS_EXPECT(took - delayed <= bound, "a request of %llu MiB (%s): expected an end within %.1f ms, seen %.1f ms",
                 (unsigned long long)(size / MIB), weir_status_name(status), (double)bound / 1e6, (double)(took - delayed) / 1e6);
}

static uint64_t stream_due(const void *stream)
{
    return waist_stream_due((gpu_stream)(uintptr_t)stream);
}

/* What CUDA gave above a cap goes back on the stream that it was asked on. Until that gets there the device lacks it, as it lacks what the
   program freed behind work. */
static uint64_t undone(const struct lane *lane)
{
    uint64_t bytes = 0;
    for (size_t name = 0; name < memory_names(lane->program); name++) {
        struct weir__cap *cap = &lane->program->pools[name][lane->device]->native.cap;
        pthread_mutex_lock(&cap->lock);
        bytes += cap->is_due ? cap->size : 0;
        pthread_mutex_unlock(&cap->lock);
    }
    return bytes;
}

/* CUDA takes what is idle in its pools for each other, but not for pages, and Weir knows nothing of this pool: the most that it can have. */
static uint64_t foreign_idle(const struct lane *lane)
{
    uint64_t reserved = 0;
    lane->program->gpu->pool_get(lane->program->foreign[lane->device], GPU_POOL_RESERVED_HIGH, &reserved);
    return reserved;
}

static void refused(struct lane *lane, struct model_refusal *refusal, uint64_t began)
{
    const struct plan *plan = &lane->program->plan;
    uint64_t shortest = plan->deadlines[0];
    for (size_t i = 1; i < POLICIES && plan->reloads; i++)
        shortest = plan->deadlines[i] < shortest ? plan->deadlines[i] : shortest;
    uint64_t still = undone(lane);
    if (lane->program->model->pools[refusal->pool].is_arena)
        refusal->out_of_reach = foreign_idle(lane);
    refusal->undone = still > refusal->undone ? still : refusal->undone;
    refusal->end = model_tick(lane->program->model);
    refusal->patience = began + shortest - shortest / 4;
    /* Where the driver takes longer for one call than there is time for all of them, nobody gets round. */
    bool is_out_of_time = plan->slow_refusals && lane->program->gpu->now() - began >= shortest;
    /* A machine that stood still is no fault of anybody. */
    refusal->is_doubtful = plan->fault_once_in || is_out_of_time || (!plan->is_virtual && lane->program->gpu->now() - began > shortest / 4);
    weir_error error;
    weir_last_error(&error);
    snprintf(refusal->report, sizeof refusal->report, "%.890s", error.text);
    model_refused(lane->program->model, refusal, plan->is_virtual ? stream_due : NULL);
}

/* A request, its ways to the same memory, and what came of it. */
struct asked {
    struct lane *lane;
    uint64_t way;
    size_t name; /* of the pool that it comes from */
    uint64_t size;
    void *ptr;
    weir_status status;
};

static void choose_way(struct asked *asked)
{
    struct lane *lane = asked->lane;
    bool is_other = lane->other && extra_once_in(lane, 3);
    asked->way = below(lane, 4);
    asked->name = asked->way == 0 ? below(lane, NAMES) : 0;
    if (is_other)
        asked->name = OTHER;
}

static void request(void *data)
{
    struct asked *asked = data;
    struct lane *lane = asked->lane;
    struct program *program = lane->program;
    bool is_other = asked->name == OTHER;
    switch (asked->way) {
    case 0:
        asked->status = weir_pool_malloc(program->pools[asked->name][lane->device], &asked->ptr, asked->size, lane->stream);
        break;
    case 1:
        asked->status = weir_malloc(is_other ? program->other : program->w, &asked->ptr, asked->size, lane->device, lane->stream);
        break;
    default:
        asked->status = weir_stream_malloc(is_other ? lane->other : lane->s, &asked->ptr, asked->size);
    }
}

/* How a callback of this thread's request ends. */
static _Thread_local enum { RETURNS, THROWS, ENDS_THREAD } callback_end;

/* What a plan asks for: callbacks that do not return, and cancellation, which is for after the call. false: an exception came out. */
static bool request_somehow(struct asked *asked)
{
    struct lane *lane = asked->lane;
    const struct plan *plan = &lane->program->plan;
    if (!plan->extras.throws) {
        request(asked);
        return true;
    }
    callback_end = !extra_once_in(lane, 4) ? RETURNS : plan->is_virtual || extra_once_in(lane, 2) ? THROWS : ENDS_THREAD;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    bool threw = chaos_catch(request, asked);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHAOS_EXPECT(!threw || callback_end == THROWS, "a request: expected no exception, seen one");
    callback_end = RETURNS;
    return !threw;
}

/* After a call that served it, or failed. */
static void account(struct asked *asked, struct model_refusal *refusal, uint64_t began)
{
    struct lane *lane = asked->lane;
    struct program *program = lane->program;
    struct block block = { .ptr = asked->ptr, .size = asked->size, .device = lane->device, .pool = refusal->pool };
    if (asked->status == WEIR_OUT_OF_MEMORY) {
        atomic_fetch_add(&program->failures[asked->name][lane->device], 1);
        refused(lane, refusal, began);
        return;
    }
    lane_expect_ok(program, asked->status, "a request");
    if (asked->status != WEIR_OK)
        return;
    block.number = model_served(program->model, refusal->begin, block.pool, block.size);
    /* Of a class that is a quarter larger, behind the rest of a step. */
    atomic_fetch_add(&program->served[asked->name][lane->device], (block.size + block.size / 4) / MODEL_STEP * MODEL_STEP + 2 * MODEL_STEP);
    lane_mark(lane, &block);
    lane_keep(lane, block);
}

void lane_take(struct lane *lane, uint64_t size)
{
    struct program *program = lane->program;
    struct asked asked = { .lane = lane, .size = size };
    struct model_refusal refusal = { .begin = model_tick(program->model), .size = size, .undone = undone(lane) };
    bool times = program->plan.is_virtual;
    uint64_t began = program->gpu->now(), delayed = times ? schedule_delayed() : 0;
    choose_way(&asked);
    refusal.pool = memory_pool_number(asked.name, lane->device);
    waist_enter_weir(true);
    bool returned = request_somehow(&asked);
    waist_enter_weir(false);
    chaos_count(&chaos_figures->requests, 1);
    if (times)
        judge_time(lane, size, program->gpu->now() - began, schedule_delayed() - delayed, returned ? asked.status : WEIR_OUT_OF_MEMORY);
    if (returned)
        account(&asked, &refusal, began);
}

/* The callback ------------------------------------------------------------------------------------------------------------------------------ */

uint64_t lane_spare_some(void *data, int device, uint64_t needed)
{
    struct program *program = data;
    struct block block = { .ptr = NULL };
    (void)needed;
    if (callback_end == THROWS)
        chaos_throw();
    if (callback_end == ENDS_THREAD)
        pthread_exit(NULL);
    pthread_mutex_lock(&program->lock);
    for (size_t i = 0; i < program->spare_count && !block.ptr; i++)
        if (program->spare[i].device == device) {
            block = program->spare[i];
            program->spare[i] = program->spare[--program->spare_count];
        }
    pthread_mutex_unlock(&program->lock);
    if (!block.ptr)
        return 0;
    bool freed = block_free(program, &block, program->refuge[device], device, NULL);
    waist_enter_weir(true); /* where the callback was called from */
    if (freed)
        return block.size;
    pthread_mutex_lock(&program->lock);
    program->spare[program->spare_count++] = block;
    pthread_mutex_unlock(&program->lock);
    return 0;
}
