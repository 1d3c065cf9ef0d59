/* SPDX-License-Identifier: MIT */
/* memory_lane.c - what one thread of a program does: requests, frees here and there, work, and everything else that may come between. */
#include <stdio.h>
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/chaos/memory.h"
#include "tests/chaos/schedule.h"
#include "tests/chaos/waist.h"
#include "tests/support/ownership.h"

#define IN_VAIN 6 /* steps of a lane that asks for too much */
#define LATENESS (10 * MILLISECOND) /* what a driver's call may take beyond a deadline, and what others take between two steps of a call */

static uint64_t below(struct lane *lane, uint64_t bound)
{
    return random_below(&lane->random, bound);
}

static bool once_in(struct lane *lane, uint64_t times)
{
    return random_once_in(&lane->random, times);
}

/* What is extra has numbers of its own, so that a plain program's are the same. */
static bool extra_once_in(struct lane *lane, uint64_t times)
{
    return random_once_in(&lane->extra, times);
}

static void expect_code(int code, const char *what)
{
    CHAOS_EXPECT(code == GPU_SUCCESS, "%s: expected success, seen %d", what, code);
}

static void expect_ok(const struct program *program, weir_status status, const char *what)
{
    weir_error error;
    weir_last_error(&error);
    bool is_fault = status == WEIR_CUDA_ERROR && program->plan.fault_once_in;
    CHAOS_EXPECT(status == WEIR_OK || is_fault, "%s: expected WEIR_OK, seen %s: %.900s", what, weir_status_name(status), error.text);
}

/* Contents ------------------------------------------------------------------------------------------------------------------------------ */

static void mark(struct lane *lane, struct block *block)
{
    const struct gpu *gpu = lane->program->gpu;
    block->mark = (unsigned char)(1 + atomic_fetch_add(&lane->program->marks, 1) % 255);
    CHAOS_EXPECT(ownership_claim(block->ptr, block->size), "a block of %llu bytes: expected bytes that nobody has, seen some that are another's",
                 (unsigned long long)block->size);
    expect_code(gpu->set_async(block->ptr, block->mark, 1, lane->stream), "marking a block");
    expect_code(gpu->set_async((char *)block->ptr + block->size - 1, block->mark, 1, lane->stream), "marking a block");
    expect_code(gpu->event_create(block->device, &block->made), "an event");
    expect_code(gpu->event_record(block->made, lane->stream), "an event");
}

/* The stream, which is of this device, looks at the block when it comes to this point, behind all that was given to it before. */
static void witness(struct program *program, const struct block *block, gpu_stream stream, int device)
{
    const struct gpu *gpu = program->gpu;
    size_t at = atomic_fetch_add(&program->witness_count[device], 1);
    if (at >= WITNESSES)
        return;
    struct witness *seen = &program->witnesses[device][at];
    *seen = (struct witness){ .mark = block->mark };
    seen->first = program->witness_bytes[device] + 2 * at;
    seen->last = seen->first + 1;
    expect_code(gpu->copy_async(seen->first, block->ptr, 1, stream), "looking at a block");
    expect_code(gpu->copy_async(seen->last, (char *)block->ptr + block->size - 1, 1, stream), "looking at a block");
}

/* Requests ------------------------------------------------------------------------------------------------------------------------------ */

static uint64_t some_size(struct lane *lane)
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
    uint64_t lateness = plan->lanes > LANES_FEW ? 4 * LATENESS : LATENESS;
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
    for (size_t name = 0; name < memory_names(lane->program); name++)
        bytes += weir__growth_undone(&lane->program->pools[name][lane->device]->growth);
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

static void keep(struct lane *lane, struct block block)
{
    lane->kept[lane->count++] = block;
    lane->bytes += block.size;
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
    expect_ok(program, asked->status, "a request");
    if (asked->status != WEIR_OK)
        return;
    block.number = model_served(program->model, refusal->begin, block.pool, block.size);
    /* Of a class that is a quarter larger, behind the rest of a step. */
    atomic_fetch_add(&program->served[asked->name][lane->device], (block.size + block.size / 4) / MODEL_STEP * MODEL_STEP + 2 * MODEL_STEP);
    mark(lane, &block);
    keep(lane, block);
}

static void take(struct lane *lane, uint64_t size)
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

/* Of frees on streams that are not open, or of another device, recovery knows all but a 64th of the device, which is a step. */
static bool can_go_anywhere(const struct block *block)
{
    return block->size >= MODEL_STEP;
}

static weir_status free_of_weir(const struct program *program, const struct block *block, gpu_stream stream, weir_stream *s)
{
    return s ? weir_stream_free(s, block->ptr) : weir_free(block->pool / DEVICES_MAX == OTHER ? program->other : program->w, block->ptr, stream);
}

/* Small blocks that were freed on a refuge are seen once a step came together there: in two entries of the table, where somebody waits for
   one of them. */
static void note_freed(struct program *program, const struct block *block, gpu_stream stream)
{
    size_t name = block->pool / DEVICES_MAX;
    if (stream != program->refuge[block->device] || can_go_anywhere(block)) {
        /* Where time is real, delays are short. */
        model_freed(program->model, block->number, stream ? stream : waist_legacy(block->device));
        return;
    }
    model_freed_unseen(program->model, block->number, stream);
    pthread_mutex_lock(&program->lock);
    struct unseen *unseen = &program->unseen[name][block->device];
    unseen->bytes += block->size;
    if (unseen->count < sizeof unseen->numbers / sizeof *unseen->numbers)
        unseen->numbers[unseen->count++] = block->number;
    for (; unseen->bytes >= 2 * MODEL_STEP && unseen->count; unseen->count--)
        model_see(program->model, unseen->numbers[unseen->count - 1]);
    unseen->bytes = unseen->count ? unseen->bytes : 0;
    pthread_mutex_unlock(&program->lock);
}

bool block_free(struct program *program, struct block *block, gpu_stream stream, int device, weir_stream *s)
{
    if (!stream) /* stands for the current device's legacy stream */
        expect_code(program->gpu->set_current_device(device), "the current device");
    expect_code(program->gpu->stream_wait_event(stream, block->made), "waiting for an event");
    witness(program, block, stream, device);
    CHAOS_EXPECT(ownership_give_up(block->ptr, block->size), "a block of %llu bytes: expected to be ours, seen bytes that are not",
                 (unsigned long long)block->size);
    waist_enter_weir(true);
    weir_status status = free_of_weir(program, block, stream, s);
    waist_enter_weir(false);
    expect_ok(program, status, "a free");
    if (status != WEIR_OK) {
        CHAOS_EXPECT(ownership_claim(block->ptr, block->size), "a free that failed: expected the block to stay ours, seen it given away");
        /* Whoever frees it next comes behind this stream's look at it. */
        expect_code(program->gpu->event_destroy(block->made), "an event");
        expect_code(program->gpu->event_create(device, &block->made), "an event");
        expect_code(program->gpu->event_record(block->made, stream), "an event");
        return false;
    }
    note_freed(program, block, stream);
    expect_code(program->gpu->event_destroy(block->made), "an event");
    return true;
}

static void give(struct lane *lane, struct block block)
{
    struct program *program = lane->program;
    bool is_other = block.pool / DEVICES_MAX == OTHER, by_stream = below(lane, 3) > 0;
    gpu_stream stream = by_stream || once_in(lane, 2) || !can_go_anywhere(&block) ? lane->stream : program->refuge[lane->device];
    weir_stream *s = by_stream ? is_other ? lane->other : lane->s : NULL;
    int device = lane->device;
    lane->bytes -= block.size;
    if (program->plan.extras.frees_anywhere && extra_once_in(lane, 3)) {
        s = NULL;
        device = block.device;
        stream = extra_once_in(lane, 2) ? NULL : program->refuge[device];
    }
    if (!block_free(program, &block, stream, device, s))
        keep(lane, block);
}

static struct block take_kept(struct lane *lane)
{
    size_t at = below(lane, lane->count);
    struct block block = lane->kept[at];
    lane->kept[at] = lane->kept[--lane->count];
    return block;
}

/* Gives one away where there is room, and takes another one, perhaps of another device, if there is any. */
static void pass_on(struct lane *lane)
{
    struct program *program = lane->program;
    struct block given = take_kept(lane), taken = { .ptr = NULL };
    lane->bytes -= given.size;
    pthread_mutex_lock(&program->lock);
    if (program->passed_count)
        taken = program->passed[--program->passed_count];
    bool has_room = program->passed_count < sizeof program->passed / sizeof *program->passed && can_go_anywhere(&given);
    if (has_room)
        program->passed[program->passed_count++] = given;
    pthread_mutex_unlock(&program->lock);
    if (!has_room)
        keep(lane, given);
    if (taken.ptr)
        keep(lane, taken);
}

/* Lays one aside for the callback. */
static void spare(struct lane *lane)
{
    struct program *program = lane->program;
    struct block block = take_kept(lane);
    lane->bytes -= block.size;
    pthread_mutex_lock(&program->lock);
    bool has_room = program->spare_count < SPARE_MAX && can_go_anywhere(&block);
    if (has_room)
        program->spare[program->spare_count++] = block;
    pthread_mutex_unlock(&program->lock);
    if (!has_room)
        keep(lane, block);
}

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

/* Everything else ------------------------------------------------------------------------------------------------------------------------ */

void lane_open_stream(struct lane *lane)
{
    struct program *program = lane->program;
    weir_status status;
    weir_error error = WEIR_ERROR_INIT;
    lane->owns_stream = once_in(lane, 2);
    if (lane->owns_stream) {
        expect_code(program->gpu->stream_create(lane->device, &lane->stream), "a stream");
        status = weir_stream_open(program->w, lane->device, lane->stream, NULL, &error, &lane->s);
    } else {
        status = weir_stream_create(program->w, lane->device, NULL, &error, &lane->s);
    }
    CHAOS_EXPECT(status == WEIR_OK, "opening a stream: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    lane->stream = weir_stream_handle(lane->s);
    if (!program->other)
        return;
    status = weir_stream_open(program->other, lane->device, lane->stream, NULL, &error, &lane->other);
    CHAOS_EXPECT(status == WEIR_OK, "opening a stream: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
}

/* What was freed on a stream that is destroyed before it came there cannot be seen to be free by anybody but a synchronise of the device.
   Weir sees to its own frees on a stream that is closed, but knows of no others. */
static void open_anew(struct lane *lane)
{
    if (lane->is_foreign)
        expect_code(lane->program->gpu->stream_synchronize(lane->stream), "synchronising");
    lane->is_foreign = false;
    weir_stream_close(lane->other);
    weir_stream_close(lane->s);
    if (lane->owns_stream) {
        expect_code(lane->program->gpu->stream_synchronize(lane->stream), "synchronising");
        expect_code(lane->program->gpu->stream_destroy(lane->stream), "a stream's end");
    }
    lane_open_stream(lane);
}

static void work(struct lane *lane)
{
    uint64_t longest = lane->program->plan.longest_delay;
    if (longest && (!lane->program->plan.is_virtual || waist_stream_due(lane->stream) < lane->program->gpu->now() + longest))
        expect_code(lane->program->gpu->delay(lane->stream, 1 + below(lane, longest)), "a delay");
}

/* CUDA's own calls on a pool of their own, beside Weir. */
static void use_foreign(struct lane *lane)
{
    struct program *program = lane->program;
    void *ptr;
    uint64_t size = MODEL_STEP * (1 + below(lane, 8)), begin = model_tick(program->model);
    int code = program->gpu->malloc_async(&ptr, size, program->foreign[lane->device], lane->stream);
    if (code != GPU_SUCCESS)
        return;
    size_t number = model_served(program->model, begin, memory_pool_number(FOREIGN, lane->device), size);
    if (once_in(lane, 2))
        work(lane);
    expect_code(program->gpu->free_async(ptr, lane->stream), "a foreign free");
    lane->is_foreign = true;
    model_freed(program->model, number, lane->stream);
}

static void reload(struct lane *lane)
{
    char path[64];
    weir_error error = WEIR_ERROR_INIT;
    snprintf(path, sizeof path, "/proc/self/fd/%d", lane->program->policies[below(lane, POLICIES)]);
    weir_status status = weir_reload(lane->program->w, path, &error);
    CHAOS_EXPECT(status == WEIR_OK, "a reload: expected WEIR_OK, seen %s: %.900s", weir_status_name(status), error.text);
    chaos_count(&chaos_figures->reloads, 1);
}

static void judge_snapshot(const struct lane *lane)
{
    weir_stats *stats;
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = weir_stats_take(lane->program->w, &error, &stats);
    CHAOS_EXPECT(status == WEIR_OK, "a snapshot: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        bool adds_up = pool->live + pool->cached + pool->slack == pool->used && pool->used + pool->idle == pool->reserved &&
                       pool->frees <= pool->mallocs && pool->mallocs - pool->frees == pool->live_blocks && pool->live <= pool->live_high &&
                       pool->reserved <= pool->reserved_high && pool->cache_hits <= pool->mallocs;
        CHAOS_EXPECT(adds_up, "figures of %s: expected sums that hold, seen live %llu + cached %llu + slack %llu, used %llu + idle %llu, "
                     "reserved %llu, highs %llu and %llu, blocks %llu = %llu - %llu", pool->name, (unsigned long long)pool->live,
                     (unsigned long long)pool->cached, (unsigned long long)pool->slack, (unsigned long long)pool->used,
                     (unsigned long long)pool->idle, (unsigned long long)pool->reserved, (unsigned long long)pool->live_high,
                     (unsigned long long)pool->reserved_high, (unsigned long long)pool->live_blocks, (unsigned long long)pool->mallocs,
                     (unsigned long long)pool->frees);
    }
    weir_stats_free(stats);
}

/* Until the next reload, or the next change. */
static void set_threshold(struct lane *lane)
{
    weir_pool *pool = lane->program->pools[below(lane, NAMES)][lane->device];
    weir_status status = weir_pool_set_release_threshold(pool, MODEL_STEP * below(lane, 8), NULL);
    CHAOS_EXPECT(status == WEIR_OK, "a threshold: expected WEIR_OK, seen %s", weir_status_name(status));
}

static void trim(struct lane *lane)
{
    weir_pool *pool = lane->program->pools[below(lane, NAMES)][lane->device];
    weir_status status = weir_pool_trim(pool, 0, NULL, NULL);
    CHAOS_EXPECT(status == WEIR_OK, "a trim: expected WEIR_OK, seen %s", weir_status_name(status));
}

static void do_something_else(struct lane *lane)
{
    switch (below(lane, 11)) {
    case 0:
        trim(lane);
        break;
    case 1:
        judge_snapshot(lane);
        break;
    case 2:
        if (lane->program->plan.reloads)
            reload(lane);
        break;
    case 3:
        open_anew(lane);
        break;
    case 4:
    case 5:
        use_foreign(lane);
        break;
    case 6:
        set_threshold(lane);
        break;
    case 7:
        (void)!weir_stream_synchronize(lane->s, NULL);
        break;
    default:
        work(lane);
    }
}

static uint64_t budget(const struct lane *lane)
{
    const struct plan *plan = &lane->program->plan;
    uint64_t bound = plan->caps[0] ? plan->caps[0] : plan->memory;
    return bound * (uint64_t)plan->devices / plan->lanes / 100 * plan->fill;
}

/* A lane is joined after those before it. So one behind this one has not been. */
static void cancel_next(struct lane *lane)
{
    struct program *program = lane->program;
    if (lane->number + 1 < program->plan.lanes && atomic_load(&program->lanes[lane->number + 1].is_running) && extra_once_in(lane, 40))
        pthread_cancel(program->lanes[lane->number + 1].self);
}

/* Between two steps a thread that was cancelled in a request ends. */
static void end_step(struct lane *lane)
{
    const struct plan *plan = &lane->program->plan;
    if (!plan->extras.throws || plan->is_virtual)
        return;
    cancel_next(lane);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void begin(struct lane *lane)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    lane->self = pthread_self();
    atomic_store(&lane->is_running, true);
}

void *lane_run_in_vain(void *data)
{
    struct lane *lane = data;
    struct program *program = lane->program;
    begin(lane);
    for (unsigned i = 0; i < IN_VAIN; i++) {
        if (lane->count < KEPT_MAX - 2)
            take(lane, random_once_in(&lane->extra, 2) ? MODEL_STEP : vain_size(program, &lane->extra, (size_t)random_below(&lane->extra, memory_names(program)), lane->device));
        if (lane->count && extra_once_in(lane, 2))
            give(lane, take_kept(lane));
        end_step(lane);
    }
    return NULL;
}

void *lane_run(void *data)
{
    struct lane *lane = data;
    begin(lane);
    for (unsigned i = 0; i < lane->program->plan.operations; i++) {
        uint64_t chosen = below(lane, 100);
        bool is_full = lane->count >= KEPT_MAX - 2 || lane->bytes > budget(lane);
        if (chosen < 45 && !is_full)
            take(lane, some_size(lane));
        else if (chosen < 80 && lane->count)
            give(lane, take_kept(lane));
        else if (chosen < 86 && lane->count)
            pass_on(lane);
        else if (chosen < 87 && lane->count)
            spare(lane);
        else
            do_something_else(lane);
        end_step(lane);
    }
    return NULL;
}
