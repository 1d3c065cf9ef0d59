/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "bench/worker.h"

#include <stdlib.h>
#include <string.h>

/* A neighbour: it takes memory and gives it back as it is told. */
struct state {
    const struct gpu *gpu;
    weir *w;
    weir_stream *stream;
    weir_pool *pool;
    gpu_pool raw_pool;
    gpu_stream raw_stream;
    unsigned count, raw_count;
    void *blocks[NEIGHBOUR_BLOCKS_MAX], *raw_blocks[NEIGHBOUR_BLOCKS_MAX];
};

/* Orders ------------------------------------------------------------------------------------------------------------------------------- */

static unsigned take(struct state *state, const struct worker_order *order)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < order->count; i++) {
        weir_status status = weir_stream_malloc(state->stream, &state->blocks[state->count], order->bytes);
        if (status == WEIR_OUT_OF_MEMORY) {
            failed++;
        } else {
            shared_check(status, "weir_stream_malloc");
            state->count++;
        }
    }
    return failed;
}

static unsigned take_raw(struct state *state, const struct worker_order *order)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < order->count; i++) {
        int code = state->gpu->malloc_async(&state->raw_blocks[state->raw_count], order->bytes, state->raw_pool, state->raw_stream);
        if (code == GPU_OUT_OF_MEMORY) {
            failed++;
        } else if (code) {
            bench_die(__FILE__, __LINE__, "malloc_async", state->gpu->code_text(code));
        } else {
            state->raw_count++;
        }
    }
    return failed;
}

static void drop(struct state *state)
{
    while (state->count)
        shared_check(weir_stream_free(state->stream, state->blocks[--state->count]), "weir_stream_free");
    BENCH_WEIR(weir_stream_synchronize(state->stream, &error));
}

static void drop_raw(struct state *state)
{
    while (state->raw_count)
        BENCH_GPU(state->gpu, free_async(state->raw_blocks[--state->raw_count], state->raw_stream));
    BENCH_GPU(state->gpu, stream_synchronize(state->raw_stream));
}

static void obey(struct state *state, const struct worker_order *order)
{
    struct worker_answer answer = {.at = 0};
    uint64_t start = bench_now();
    if (order->task == NEIGHBOUR_TAKE)
        answer.values[0] = order->raw ? take_raw(state, order) : take(state, order);
    else if (order->task == NEIGHBOUR_DROP)
        (order->raw ? drop_raw : drop)(state);
    else if (order->raw)
        BENCH_GPU(state->gpu, pool_trim(state->raw_pool, order->bytes));
    else
        BENCH_WEIR(weir_pool_trim(state->pool, order->bytes, &error, NULL));
    if (order->task == NEIGHBOUR_EMPTY)
        answer.values[0] = (double)(bench_now() - start);
    worker_answer(&answer);
}

/* Life --------------------------------------------------------------------------------------------------------------------------------- */

static void set_up(struct state *state)
{
    struct gpu_pool_spec spec = {.device = 0, .location = GPU_LOCATION_DEVICE};
    memset(state, 0, sizeof(*state));
    state->gpu = shared_gpu();
    state->w = shared_weir(state->gpu->name, NEIGHBOUR_POLICY);
    BENCH_WEIR(weir_stream_create(state->w, 0, NULL, &error, &state->stream));
    state->pool = weir_stream_pool(state->stream);
    BENCH_GPU(state->gpu, stream_create(0, &state->raw_stream));
    BENCH_GPU(state->gpu, pool_create(&spec, &state->raw_pool));
    BENCH_GPU(state->gpu, pool_set(state->raw_pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX));
}

static void leave(struct state *state)
{
    drop(state);
    drop_raw(state);
    weir_stream_close(state->stream);
    weir_close(state->w);
    BENCH_GPU(state->gpu, pool_destroy(state->raw_pool));
    BENCH_GPU(state->gpu, stream_destroy(state->raw_stream));
}

int neighbour_main(void)
{
    static struct state state;
    struct worker_order order;
    int passed;
    set_up(&state);
    while (worker_take(&order, &passed))
        obey(&state, &order);
    leave(&state);
    return 0;
}
