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
    struct store {
        unsigned count;
        void *blocks[NEIGHBOUR_BLOCKS_MAX];
    } stores[2]; /* Weir's blocks, and raw ones */
};

/* Orders ------------------------------------------------------------------------------------------------------------------------------- */

/* false: there is no memory for it. */
static bool take(const struct state *state, bool raw, size_t bytes, void **ptr)
{
    if (!raw) {
        weir_status status = weir_stream_malloc(state->stream, ptr, bytes);
        if (status != WEIR_OUT_OF_MEMORY)
            shared_check(status, "weir_stream_malloc");
        return status == WEIR_OK;
    }
    int code = state->gpu->malloc_async(ptr, bytes, state->raw_pool, state->raw_stream);
    if (code && code != GPU_OUT_OF_MEMORY)
        bench_die(__FILE__, __LINE__, "malloc_async", state->gpu->code_text(code));
    return code == GPU_SUCCESS;
}

/* Returns how many there was no memory for. */
static unsigned take_all(struct state *state, const struct worker_order *order)
{
    struct store *store = &state->stores[order->raw];
    unsigned failed = 0;
    for (unsigned i = 0; i < order->count; i++) {
        if (take(state, order->raw, order->bytes, &store->blocks[store->count]))
            store->count++;
        else
            failed++;
    }
    return failed;
}

static void drop(struct state *state, bool raw)
{
    struct store *store = &state->stores[raw];
    while (store->count) {
        void *block = store->blocks[--store->count];
        if (raw)
            BENCH_GPU(state->gpu, free_async(block, state->raw_stream));
        else
            shared_check(weir_stream_free(state->stream, block), "weir_stream_free");
    }
    BENCH_GPU(state->gpu, stream_synchronize(raw ? state->raw_stream : weir_stream_handle(state->stream)));
}

static void obey(struct state *state, const struct worker_order *order)
{
    struct worker_answer answer = {.at = 0};
    uint64_t start = bench_now();
    if (order->task == NEIGHBOUR_TAKE)
        answer.values[0] = take_all(state, order);
    else if (order->task == NEIGHBOUR_DROP)
        drop(state, order->raw);
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
    drop(state, false);
    drop(state, true);
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
