/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "bench/worker.h"

#include <string.h>
#include <unistd.h>

#define WARM_LEASES 8 /* at a time; more than one order ever has */

struct raw_slot {
    void *ptr;
    gpu_event ready, release;
};

struct state {
    const struct gpu *gpu;
    gpu_stream stream;
    int passed; /* the descriptor that came with the order, or -1 */
    weir *w;
    weir_import *import;
    void *scratch; /* what is read is copied there */
    size_t scratch_bytes;
    gpu_pool raw_pool;
    struct raw_slot slots[WORKER_SLOTS_MAX];
    double times[WORKER_TIMES_MAX];
};

/* There is nothing to be told but that it is done. */
static void answer_done(void)
{
    worker_answer(&(struct worker_answer){.at = bench_now()});
}

/* Median and 99th percentile of the order's times. */
static void answer_times(struct state *state, unsigned count)
{
    struct worker_answer what = {.at = bench_now()};
    what.values[0] = bench_quantile(state->times, count, 50);
    what.values[1] = bench_quantile(state->times, count, 99);
    worker_answer(&what);
}

static void ensure_scratch(struct state *state, size_t bytes)
{
    if (bytes <= state->scratch_bytes)
        return;
    shared_check(weir_free(state->w, state->scratch, state->stream), "weir_free");
    shared_check(weir_malloc(state->w, &state->scratch, bytes, 0, state->stream), "weir_malloc");
    state->scratch_bytes = bytes;
}

/* Weir --------------------------------------------------------------------------------------------------------------------------------- */

static weir_lease *lease_block(const struct state *state, const char *name)
{
    weir_lease *lease = NULL;
    BENCH_WEIR(weir_import_acquire(state->import, name, 0, state->stream, &error, &lease));
    return lease;
}

static void release(const struct state *state, weir_lease *lease)
{
    BENCH_WEIR(weir_lease_release(lease, state->stream, &error));
}

static void do_connect(struct state *state, const struct worker_order *order)
{
    weir_lease *leases[WARM_LEASES];
    weir_import_close(state->import);
    uint64_t start = bench_now();
    BENCH_WEIR(weir_import_open(state->w, order->text, NULL, &error, &state->import));
    uint64_t connected = bench_now();
    leases[0] = lease_block(state, "known");
    struct worker_answer what = {.at = bench_now()};
    what.values[0] = (double)(connected - start);
    what.values[1] = (double)(what.at - connected);
    for (size_t i = 1; i < WARM_LEASES; i++)
        leases[i] = lease_block(state, "known");
    for (size_t i = 0; i < WARM_LEASES; i++)
        release(state, leases[i]);
    worker_answer(&what);
}

static void do_first(struct state *state, const struct worker_order *order)
{
    (void)order;
    uint64_t start = bench_now();
    weir_lease *lease = lease_block(state, "first");
    struct worker_answer what = {.at = bench_now()};
    what.values[0] = (double)(what.at - start);
    release(state, lease);
    worker_answer(&what);
}

static weir_reader *open_reader(const struct state *state, const char *ring)
{
    weir_reader *reader = NULL;
    BENCH_WEIR(weir_reader_open(state->import, ring, 0, &error, &reader));
    answer_done();
    return reader;
}

static void do_frames(struct state *state, const struct worker_order *order)
{
    weir_reader *reader = open_reader(state, order->text);
    for (unsigned i = 0; i < order->count; i++) {
        weir_lease *lease = NULL;
        uint64_t sent;
        BENCH_WEIR(weir_reader_next(reader, WORKER_PATIENCE, state->stream, &error, &lease));
        uint64_t now = bench_now();
        memcpy(&sent, weir_lease_get_info(lease)->metadata, sizeof(sent));
        state->times[i] = (double)(now - sent);
        release(state, lease);
        link_send_time(WORKER_FD, now);
    }
    weir_reader_close(reader);
    answer_times(state, order->count);
}

static void do_leases(struct state *state, const struct worker_order *order)
{
    for (unsigned i = 0; i < order->count; i++) {
        uint64_t start = bench_now();
        weir_lease *lease = lease_block(state, "known");
        state->times[i] = (double)(bench_now() - start);
        release(state, lease);
    }
    answer_times(state, order->count);
}

static void read_bytes(const struct state *state, const void *ptr, size_t bytes)
{
    if (bytes)
        BENCH_GPU(state->gpu, copy_async(state->scratch, ptr, bytes, state->stream));
}

static void do_ring(struct state *state, const struct worker_order *order)
{
    ensure_scratch(state, order->bytes);
    weir_reader *reader = open_reader(state, order->text);
    for (unsigned i = 0; i < order->count; i++) {
        weir_lease *lease = NULL;
        BENCH_WEIR(weir_reader_next(reader, WORKER_PATIENCE, state->stream, &error, &lease));
        read_bytes(state, weir_lease_get_info(lease)->ptr, order->bytes);
        release(state, lease);
    }
    BENCH_GPU(state->gpu, stream_synchronize(state->stream));
    answer_done();
    weir_reader_close(reader);
}

/* Bare messages, and the waist alone -----------------------------------------------------------------------------------------------------
 */

static void do_messages(struct state *state, const struct worker_order *order)
{
    for (unsigned i = 0; i < order->count; i++) {
        uint64_t sent = link_receive_time(WORKER_FD), now = bench_now();
        state->times[i] = (double)(now - sent);
        link_send_time(WORKER_FD, now);
    }
    answer_times(state, order->count);
}

static void do_echoes(struct state *state, const struct worker_order *order)
{
    for (unsigned i = 0; i < order->count; i++) {
        uint64_t start = bench_now();
        link_send_time(WORKER_FD, start);
        link_receive_time(WORKER_FD);
        state->times[i] = (double)(bench_now() - start);
    }
    answer_times(state, order->count);
}

static void do_raw_first(struct state *state, const struct worker_order *order)
{
    const struct gpu *gpu = state->gpu;
    gpu_pool pool = NULL;
    gpu_event ready = NULL;
    void *ptr = NULL;
    uint64_t start = bench_now();
    BENCH_GPU(gpu, pool_import(0, state->passed, &pool));
    uint64_t has_pool = bench_now();
    BENCH_GPU(gpu, block_import(pool, &order->block, &ptr));
    uint64_t has_block = bench_now();
    BENCH_GPU(gpu, event_open_shared(0, &order->ready, &ready));
    struct worker_answer what = {.at = bench_now()};
    what.values[0] = (double)(has_pool - start);
    what.values[1] = (double)(has_block - has_pool);
    what.values[2] = (double)(what.at - has_block);
    BENCH_GPU(gpu, event_destroy(ready));
    BENCH_GPU(gpu, free_async(ptr, state->stream));
    BENCH_GPU(gpu, stream_synchronize(state->stream));
    BENCH_GPU(gpu, pool_destroy(pool));
    worker_answer(&what);
}

static void do_raw_pool(struct state *state, const struct worker_order *order)
{
    (void)order;
    BENCH_GPU(state->gpu, pool_import(0, state->passed, &state->raw_pool));
    answer_done();
}

static void do_raw_slot(struct state *state, const struct worker_order *order)
{
    struct raw_slot *slot = &state->slots[order->slot];
    BENCH_GPU(state->gpu, block_import(state->raw_pool, &order->block, &slot->ptr));
    BENCH_GPU(state->gpu, event_open_shared(0, &order->ready, &slot->ready));
    BENCH_GPU(state->gpu, event_open_shared(0, &order->release, &slot->release));
    answer_done();
}

static void do_raw_ring(struct state *state, const struct worker_order *order)
{
    const struct gpu *gpu = state->gpu;
    ensure_scratch(state, order->bytes);
    answer_done();
    for (unsigned i = 0; i < order->count; i++) {
        const struct raw_slot *slot = &state->slots[i % order->slot];
        uint64_t time = link_receive_time(WORKER_FD);
        BENCH_GPU(gpu, stream_wait_event(state->stream, slot->ready));
        read_bytes(state, slot->ptr, order->bytes);
        BENCH_GPU(gpu, event_record(slot->release, state->stream));
        link_send_time(WORKER_FD, time);
    }
    BENCH_GPU(state->gpu, stream_synchronize(state->stream));
    answer_done();
}

static void free_raw(struct state *state)
{
    const struct gpu *gpu = state->gpu;
    for (size_t i = 0; i < WORKER_SLOTS_MAX && state->slots[i].ptr; i++) {
        BENCH_GPU(gpu, free_async(state->slots[i].ptr, state->stream));
        BENCH_GPU(gpu, event_destroy(state->slots[i].ready));
        BENCH_GPU(gpu, event_destroy(state->slots[i].release));
    }
    BENCH_GPU(gpu, stream_synchronize(state->stream));
    if (state->raw_pool)
        BENCH_GPU(gpu, pool_destroy(state->raw_pool));
}

/* Orders ------------------------------------------------------------------------------------------------------------------------------- */

static void set_up(struct state *state)
{
    memset(state, 0, sizeof(*state));
    state->gpu = shared_gpu();
    BENCH_GPU(state->gpu, stream_create(0, &state->stream));
    state->w = shared_weir(state->gpu->name, "weir: 1\npools: { scratch: { devices: [0] } }\n");
}

static void leave(struct state *state)
{
    weir_import_close(state->import);
    shared_check(weir_free(state->w, state->scratch, state->stream), "weir_free");
    free_raw(state);
    weir_close(state->w);
    BENCH_GPU(state->gpu, stream_destroy(state->stream));
}

int consumer_main(void)
{
    static void (*const tasks[])(struct state * state, const struct worker_order *order) = {
        [CONSUMER_CONNECT] = do_connect,   [CONSUMER_FIRST] = do_first,       [CONSUMER_MESSAGES] = do_messages,
        [CONSUMER_FRAMES] = do_frames,     [CONSUMER_ECHOES] = do_echoes,     [CONSUMER_LEASES] = do_leases,
        [CONSUMER_RING] = do_ring,         [CONSUMER_RAW_FIRST] = do_raw_first, [CONSUMER_RAW_POOL] = do_raw_pool,
        [CONSUMER_RAW_SLOT] = do_raw_slot, [CONSUMER_RAW_RING] = do_raw_ring,
    };
    static struct state state;
    struct worker_order order;
    set_up(&state);
    while (worker_take(&order, &state.passed)) {
        link_pin(order.cpu);
        tasks[order.task](&state, &order);
        if (state.passed >= 0)
            close(state.passed);
    }
    leave(&state);
    return 0;
}
