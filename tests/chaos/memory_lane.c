/* SPDX-License-Identifier: MIT */
/* memory_lane.c - what one thread of a program does: requests, frees here and there, work, and everything else that may come between. */
#include <stdio.h>
#include <string.h>

#include "tests/chaos/memory.h"
#include "tests/chaos/waist.h"
#include "tests/support/ownership.h"

#define IN_VAIN 6 /* steps of a lane that asks for too much */

void lane_expect_code(int code, const char *what)
{
    CHAOS_EXPECT(code == GPU_SUCCESS, "%s: expected success, seen %d", what, code);
}

void lane_expect_ok(const struct program *program, weir_status status, const char *what)
{
    weir_error error;
    weir_last_error(&error);
    bool is_fault = status == WEIR_CUDA_ERROR && program->plan.fault_once_in;
    CHAOS_EXPECT(status == WEIR_OK || is_fault, "%s: expected WEIR_OK, seen %s: %.900s", what, weir_status_name(status), error.text);
}

void lane_keep(struct lane *lane, struct block block)
{
    lane->kept[lane->count++] = block;
    lane->bytes += block.size;
}

/* Contents ------------------------------------------------------------------------------------------------------------------------------ */

void lane_mark(struct lane *lane, struct block *block)
{
    const struct gpu *gpu = lane->program->gpu;
    block->mark = (unsigned char)(1 + atomic_fetch_add(&lane->program->marks, 1) % 255);
    CHAOS_EXPECT(ownership_claim(block->ptr, block->size), "a block of %llu bytes: expected bytes that nobody has, seen some that are another's",
                 (unsigned long long)block->size);
    lane_expect_code(gpu->set_async(block->ptr, block->mark, 1, lane->stream), "marking a block");
    lane_expect_code(gpu->set_async((char *)block->ptr + block->size - 1, block->mark, 1, lane->stream), "marking a block");
    lane_expect_code(gpu->event_create(block->device, &block->made), "an event");
    lane_expect_code(gpu->event_record(block->made, lane->stream), "an event");
}

/* The stream, which is of this device, looks at the block when it comes to this point, behind all that was given to it before. */
static void witness(struct program *program, const struct block *block, gpu_stream stream, int device)
{
    const struct gpu *gpu = program->gpu;
    size_t at = program->is_napping ? WITNESSES : atomic_fetch_add(&program->witness_count[device], 1);
    if (at >= WITNESSES)
        return;
    struct witness *seen = &program->witnesses[device][at];
    *seen = (struct witness){ .mark = block->mark };
    seen->first = program->witness_bytes[device] + 2 * at;
    seen->last = seen->first + 1;
    lane_expect_code(gpu->copy_async(seen->first, block->ptr, 1, stream), "looking at a block");
    lane_expect_code(gpu->copy_async(seen->last, (char *)block->ptr + block->size - 1, 1, stream), "looking at a block");
}

void block_witness(struct program *program, const struct block *block)
{
    witness(program, block, program->refuge[block->device], block->device);
}

/* Frees --------------------------------------------------------------------------------------------------------------------------------- */

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
        lane_expect_code(program->gpu->set_current_device(device), "the current device");
    lane_expect_code(program->gpu->stream_wait_event(stream, block->made), "waiting for an event");
    witness(program, block, stream, device);
    CHAOS_EXPECT(ownership_give_up(block->ptr, block->size), "a block of %llu bytes: expected to be ours, seen bytes that are not",
                 (unsigned long long)block->size);
    waist_enter_weir(true);
    weir_status status = free_of_weir(program, block, stream, s);
    waist_enter_weir(false);
    lane_expect_ok(program, status, "a free");
    if (status != WEIR_OK) {
        CHAOS_EXPECT(ownership_claim(block->ptr, block->size), "a free that failed: expected the block to stay ours, seen it given away");
        /* Whoever frees it next comes behind this stream's look at it. */
        lane_expect_code(program->gpu->event_destroy(block->made), "an event");
        lane_expect_code(program->gpu->event_create(device, &block->made), "an event");
        lane_expect_code(program->gpu->event_record(block->made, stream), "an event");
        return false;
    }
    note_freed(program, block, stream);
    lane_expect_code(program->gpu->event_destroy(block->made), "an event");
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
        lane_keep(lane, block);
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
        lane_keep(lane, given);
    if (taken.ptr)
        lane_keep(lane, taken);
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
        lane_keep(lane, block);
}

/* Everything else ------------------------------------------------------------------------------------------------------------------------ */

void lane_open_stream(struct lane *lane)
{
    struct program *program = lane->program;
    weir_status status;
    weir_error error = WEIR_ERROR_INIT;
    lane->owns_stream = once_in(lane, 2);
    if (lane->owns_stream) {
        lane_expect_code(program->gpu->stream_create(lane->device, &lane->stream), "a stream");
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
        lane_expect_code(lane->program->gpu->stream_synchronize(lane->stream), "synchronising");
    lane->is_foreign = false;
    weir_stream_close(lane->other);
    weir_stream_close(lane->s);
    if (lane->owns_stream) {
        lane_expect_code(lane->program->gpu->stream_synchronize(lane->stream), "synchronising");
        lane_expect_code(lane->program->gpu->stream_destroy(lane->stream), "a stream's end");
    }
    lane_open_stream(lane);
}

static void work(struct lane *lane)
{
    uint64_t longest = lane->program->plan.longest_delay;
    if (longest && (!lane->program->plan.is_virtual || waist_stream_due(lane->stream) < lane->program->gpu->now() + longest))
        lane_expect_code(lane->program->gpu->delay(lane->stream, 1 + below(lane, longest)), "a delay");
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
    lane_expect_code(program->gpu->free_async(ptr, lane->stream), "a foreign free");
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
            lane_take(lane, random_once_in(&lane->extra, 2) ? MODEL_STEP : vain_size(program, &lane->extra, (size_t)random_below(&lane->extra, memory_names(program)), lane->device));
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
            lane_take(lane, lane_some_size(lane));
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
