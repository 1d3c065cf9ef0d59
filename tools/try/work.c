/* SPDX-License-Identifier: MIT */
/* work.c - the workload of `weir try`: threads that allocate, fill, check and free blocks, and the main thread that watches them. */
#include "lib/base/service.h"
#include "tools/common/format.h"
#include "tools/try/try.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WINDOW 4096     /* bytes at each end of a block that are written and checked */
#define VERIFY_ONE_IN 8 /* frees; a check synchronises the stream, which programs seldom do */
#define CROSS_ONE_IN 4  /* frees that go to another stream than the block came from */
#define SYNC_ONE_IN 128 /* operations after which a stream is waited for, as at the end of a request or frame */
#define FEWEST 256      /* operations of each worker, however short the time: fewer say nothing */
#define SNAPSHOT_NS 20000000

/* Numbers that look random and are the same for the same seed: a counter, well stirred. */
static uint64_t next_random(struct try_worker *worker)
{
    uint64_t value = worker->random += UINT64_C(0x9E3779B97F4A7C15);
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

static bool one_in(struct try_worker *worker, unsigned n)
{
    return next_random(worker) % n == 0;
}

/* Many small requests, some medium, few large; within a class each doubling is as likely as the next. Odd sizes too, as programs have. */
static size_t pick_size(struct try_worker *worker, const struct try_pool *pool)
{
    static const struct {
        unsigned share; /* of 100 */
        size_t low;
        unsigned doublings; /* from low to the low of the next class, and in the end to TRY_LARGEST */
    } classes[] = {
        {60, TRY_SMALLEST, 7},
        {30, 64 << 10, 6},
        {10, 4 << 20, 4},
    };
    unsigned at = 0, dice = next_random(worker) % 100;
    while (dice >= classes[at].share)
        dice -= classes[at++].share;
    size_t size = classes[at].low << next_random(worker) % classes[at].doublings;
    size += next_random(worker) % size;
    uint64_t most = pool->budget / 3 < TRY_SMALLEST ? pool->budget : pool->budget / 3;
    if (most > pool->largest)
        most = pool->largest;
    return size < most ? size : (size_t)most;
}

static bool give_up(struct try_worker *worker, const char *what, const struct try_berth *berth, const char *why)
{
    if (!worker->blamed)
        snprintf(worker->reason, sizeof(worker->reason), "%s in pool '%s' on device %d: %s", what, berth->pool->policy->name,
                 berth->pool->device, why);
    worker->blamed = worker->blamed ? worker->blamed : berth->pool;
    return false;
}

static bool gpu_good(struct try_worker *worker, int code, const char *what, const struct try_berth *berth)
{
    return code == GPU_SUCCESS || give_up(worker, what, berth, worker->run->gpu->code_text(code));
}

static bool weir_failed(struct try_worker *worker, const char *what, const struct try_berth *berth)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_last_error(&error);
    return give_up(worker, what, berth, error.text);
}

static size_t window_of(const struct try_slot *slot)
{
    return slot->size < WINDOW ? slot->size : WINDOW;
}

/* Marks both ends of a new block, in stream order: by setting the front and copying it to the back. */
static bool write_pattern(struct try_worker *worker, struct try_berth *berth, struct try_slot *slot)
{
    const struct gpu *gpu = worker->run->gpu;
    gpu_stream stream = berth->streams[slot->stream].handle;
    size_t window = window_of(slot), half = window / 2;
    uint64_t tag = next_random(worker);
    slot->low = (unsigned char)tag;
    slot->high = (unsigned char)(tag >> 8);
    int code = half ? gpu->set_async(slot->ptr, slot->low, half, stream) : GPU_SUCCESS;
    if (code == GPU_SUCCESS)
        code = gpu->set_async(slot->ptr + half, slot->high, window - half, stream);
    if (code == GPU_SUCCESS && slot->size >= 2 * window)
        code = gpu->copy_async(slot->ptr + slot->size - window, slot->ptr, window, stream);
    return gpu_good(worker, code, "writing a block", berth);
}

static bool is_pattern(const unsigned char *bytes, size_t window, const struct try_slot *slot)
{
    for (size_t i = 0; i < window; i++)
        if (bytes[i] != (i < window / 2 ? slot->low : slot->high))
            return false;
    return true;
}

/* Reads both ends back on the stream that will free the block, and compares. False only if the GPU failed. */
static bool verify(struct try_worker *worker, struct try_berth *berth, const struct try_slot *slot, gpu_stream stream)
{
    const struct gpu *gpu = worker->run->gpu;
    unsigned char front[WINDOW], back[WINDOW];
    size_t window = window_of(slot);
    bool has_back = slot->size >= 2 * window;
    int code = gpu->copy_async(front, slot->ptr, window, stream);
    if (code == GPU_SUCCESS && has_back)
        code = gpu->copy_async(back, slot->ptr + slot->size - window, window, stream);
    int synchronized = gpu->stream_synchronize(stream);
    if (!gpu_good(worker, code ? code : synchronized, "reading a block back", berth))
        return false;
    worker->verified++;
    if (!is_pattern(front, window, slot) || (has_back && !is_pattern(back, window, slot))) {
        worker->corrupt++;
        give_up(worker, "a block did not hold what was written to it", berth, "its memory was given to somebody else");
    }
    return true;
}

static bool take(struct try_worker *worker, struct try_berth *berth, struct try_slot *slot, size_t size)
{
    slot->stream = (unsigned)(next_random(worker) % berth->stream_count);
    slot->size = size;
    void *ptr;
    weir_status status = try_malloc(berth->pool, &berth->streams[slot->stream], &ptr, size);
    if (status == WEIR_OUT_OF_MEMORY) {
        worker->failures++;
        weir_failed(worker, "a request failed", berth);
        return true;
    }
    if (status != WEIR_OK)
        return weir_failed(worker, "a request failed", berth);
    worker->served++;
    slot->ptr = ptr;
    berth->live += size;
    return write_pattern(worker, berth, slot);
}

static bool give(struct try_worker *worker, struct try_berth *berth, struct try_slot *slot)
{
    const struct gpu *gpu = worker->run->gpu;
    unsigned to = slot->stream;
    if (berth->stream_count > 1 && one_in(worker, CROSS_ONE_IN)) {
        to = (to + 1) % berth->stream_count;
        const struct try_stream *from = &berth->streams[slot->stream];
        int code = gpu->event_record(from->event, from->handle);
        if (code == GPU_SUCCESS)
            code = gpu->stream_wait_event(berth->streams[to].handle, from->event);
        if (!gpu_good(worker, code, "ordering two streams", berth))
            return false;
        worker->crossed++;
    }
    const struct try_stream *stream = &berth->streams[to];
    if (one_in(worker, VERIFY_ONE_IN) && !verify(worker, berth, slot, stream->handle))
        return false;
    weir_status status = try_free(worker->run, stream, slot->ptr);
    if (status != WEIR_OK)
        return weir_failed(worker, "a free failed", berth);
    worker->frees++;
    berth->live -= slot->size;
    slot->ptr = NULL;
    return true;
}

static bool operate(struct try_worker *worker)
{
    struct try_berth *berth = &worker->berths[next_random(worker) % worker->berth_count];
    struct try_slot *slot = &berth->slots[next_random(worker) % TRY_SLOTS];
    int code = worker->run->gpu->set_current_device(berth->pool->device);
    if (!gpu_good(worker, code, "choosing the device", berth))
        return false;
    if (one_in(worker, SYNC_ONE_IN)) {
        gpu_stream stream = berth->streams[next_random(worker) % berth->stream_count].handle;
        if (!gpu_good(worker, worker->run->gpu->stream_synchronize(stream), "waiting for a stream", berth))
            return false;
    }
    if (slot->ptr)
        return give(worker, berth, slot);
    size_t size = pick_size(worker, berth->pool);
    if (berth->live + size <= berth->pool->budget)
        return take(worker, berth, slot, size);
    /* No room for it: the next block in use goes instead. */
    for (size_t i = 0; i < TRY_SLOTS; i++)
        if (berth->slots[i].ptr)
            return give(worker, berth, &berth->slots[i]);
    return true;
}

/* Frees what is left, whatever happened before, so that only Weir can be at fault for a leak. A call that failed is made once more. */
static void give_all(struct try_worker *worker)
{
    for (size_t i = 0; i < worker->berth_count; i++) {
        struct try_berth *berth = &worker->berths[i];
        worker->run->gpu->set_current_device(berth->pool->device);
        for (size_t j = 0; j < TRY_SLOTS; j++)
            for (int attempt = 0; attempt < 2 && berth->slots[j].ptr; attempt++)
                give(worker, berth, &berth->slots[j]);
        for (unsigned k = 0; k < berth->stream_count; k++)
            worker->run->gpu->stream_synchronize(berth->streams[k].handle);
    }
}

static void *work(void *data)
{
    struct try_worker *worker = data;
    bool good = worker->berth_count > 0;
    for (unsigned count = 1; good; count++) {
        good = operate(worker);
        if (count >= FEWEST && atomic_load_explicit(&worker->run->stop, memory_order_relaxed))
            break;
    }
    give_all(worker);
    atomic_store(&worker->has_ended, true);
    return NULL;
}

/* Takes statistics, in which the figures of each pool must add up. NULL after try_fail(). */
static weir_stats *snapshot(struct try_run *run)
{
    weir_stats *stats = try_stats(run);
    for (size_t i = 0; stats && i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        if (pool->live + pool->cached + pool->slack != pool->used || pool->used + pool->idle != pool->reserved)
            try_fail(run,
                     "the figures of pool '%s' on device %d do not add up: live %" PRIu64 " + cached %" PRIu64 " + slack %" PRIu64
                     ", used %" PRIu64 " + idle %" PRIu64 ", reserved %" PRIu64,
                     pool->name, pool->device, pool->live, pool->cached, pool->slack, pool->used, pool->idle, pool->reserved);
    }
    return stats;
}

/* Takes statistics until the time is over or every worker has ended; stops the workers. */
static void supervise(struct try_run *run, uint64_t end)
{
    for (bool all_ended = false; !all_ended && weir__service_now() < end && run->reason_count == 0;) {
        weir_stats_free(snapshot(run));
        all_ended = true;
        for (unsigned t = 0; t < run->threads; t++)
            all_ended = all_ended && atomic_load(&run->workers[t].has_ended);
        nanosleep(&(struct timespec){.tv_nsec = SNAPSHOT_NS}, NULL);
    }
    atomic_store(&run->stop, true);
}

/* Adds the worker's reason, if it has one, unless another worker has told the same of the pool. */
static void blame(struct try_run *run, const struct try_worker *worker)
{
    const struct try_pool *pool = worker->blamed;
    if (!pool)
        return;
    for (const struct try_worker *other = run->workers; other < worker; other++)
        if (other->blamed == pool)
            return;
    try_fail(run, "%s", worker->reason);
}

static void add_up(struct try_run *run, const struct try_worker *worker)
{
    struct try_worker *total = &run->total;
    total->served += worker->served;
    total->frees += worker->frees;
    total->failures += worker->failures;
    total->crossed += worker->crossed;
    total->verified += worker->verified;
    total->corrupt += worker->corrupt;
    blame(run, worker);
}

/* Weir's counts must be those of the threads, to the last request. */
static void compare_counts(struct try_run *run)
{
    uint64_t mallocs = 0, frees = 0;
    weir_stats *stats = snapshot(run);
    for (size_t i = 0; stats && i < weir_stats_pool_count(stats); i++) {
        mallocs += weir_stats_pool(stats, i)->mallocs;
        frees += weir_stats_pool(stats, i)->frees;
    }
    if (stats && (mallocs != run->total.served || frees != run->total.frees))
        try_fail(run, "Weir counted %s requests and %s frees; the threads made %s and %s", COUNT_TEXT(mallocs), COUNT_TEXT(frees),
                 COUNT_TEXT(run->total.served), COUNT_TEXT(run->total.frees));
    weir_stats_free(stats);
}

void try_work(struct try_run *run)
{
    uint64_t start = weir__service_now();
    unsigned started = 0;
    for (; started < run->threads; started++) {
        struct try_worker *worker = &run->workers[started];
        int error = pthread_create(&worker->thread, NULL, work, worker);
        if (error) {
            try_fail(run, "cannot start thread %u: %s", started + 1, strerror(error));
            break;
        }
    }
    supervise(run, start + (uint64_t)(run->seconds * 1e9));
    for (unsigned i = 0; i < started; i++) {
        pthread_join(run->workers[i].thread, NULL);
        add_up(run, &run->workers[i]);
    }
    run->workload_seconds = (double)(weir__service_now() - start) / 1e9;
    compare_counts(run);
}
