/* SPDX-License-Identifier: MIT */
/*
 * refused.c - a program that has a request refused, on the simulator: what `weir trace why` is tried on.
 *
 *     refused KEPT FREED GAPS ASKED [LATER [OTHERS [BUSY [POOL [ASLEEP [POLICY]]]]]]    sizes in MiB
 *
 * Takes one block with the tag "weights" that it keeps, then GAPS times a block that it frees and one of 1 MiB that it keeps, waits for
 * the frees, and asks for more. Works on for itself, so that the recording has something behind the refusal, LATER times. OTHERS: what it
 * has without Weir. BUSY: ms that the GPU works before the frees, for which it does not wait then; it asks on another stream. POOL:
 * another pool, of which it takes 1 MiB for good, or ASLEEP, with which that pool goes to sleep. POLICY: a file that it reads before it
 * asks; before that the policy is that of the environment. Time is virtual. It ends with 0 if the request was refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "include/weir.h"
#include "include/weir_sleep.h"

#define MIB (UINT64_C(1) << 20)
#define GAPS_MAX 1024
#define WORK UINT64_C(1000000) /* ns between two steps */

static weir_stream *s;

static const struct gpu *gpu;

/* What is not Weir's; it goes with the process. */
static void take_outside(uint64_t bytes)
{
    struct gpu_pool_spec spec = { .device = 0 };
    gpu_pool pool;
    void *ptr;
    if (bytes && (gpu->pool_create(&spec, &pool) != GPU_SUCCESS ||
                  gpu->malloc_async(&ptr, bytes, pool, weir_stream_handle(s)) != GPU_SUCCESS))
        exit(1);
}

static void keep_busy(uint64_t ms)
{
    if (ms && gpu->delay(weir_stream_handle(s), ms * 1000000) != GPU_SUCCESS)
        exit(1);
}

static void must(weir_status status, const char *what)
{
    weir_error error;
    if (status == WEIR_OK)
        return;
    weir_last_error(&error);
    fprintf(stderr, "refused: %s: %s: %s\n", what, weir_status_text(status), error.text);
    exit(1);
}

static void *get(uint64_t bytes)
{
    void *ptr;
    must(weir_stream_malloc(s, &ptr, bytes), "weir_stream_malloc");
    sim_advance(WORK);
    return ptr;
}

static void drop(void *ptr)
{
    must(weir_stream_free(s, ptr), "weir_stream_free");
    sim_advance(WORK);
}

static uint64_t number(char **argv, int place)
{
    return strtoull(argv[place], NULL, 10);
}

static void use_pool(weir *w, const char *name, uint64_t asleep)
{
    weir_pool *pool;
    void *ptr;
    if (!name)
        return;
    must(weir_pool_get(w, name, 0, NULL, &pool), "weir_pool_get");
    must(weir_pool_malloc(pool, &ptr, asleep ? asleep * MIB : MIB, weir_stream_handle(s)), "weir_pool_malloc");
    if (asleep)
        must(weir_pool_sleep(pool, WEIR_SLEEP_DISCARD, 1000, NULL, NULL), "weir_pool_sleep");
}

int main(int argc, char **argv)
{
    static void *freed[GAPS_MAX], *kept[GAPS_MAX];
    weir *w;
    void *ptr = NULL, *weights = NULL;
    if (argc < 5 || number(argv, 3) > GAPS_MAX)
        return 2;
    uint64_t gaps = number(argv, 3), later = argc > 5 ? number(argv, 5) : 0, others = argc > 6 ? number(argv, 6) : 0;
    uint64_t busy = argc > 7 ? number(argv, 7) : 0;
    weir_stream *asker;
    const char *why;
    gpu = gpu_find("sim", &why);
    must(weir_open(NULL, NULL, &w), "weir_open");
    must(weir_stream_create(w, 0, NULL, NULL, &s), "weir_stream_create");
    must(weir_stream_create(w, 0, NULL, NULL, &asker), "weir_stream_create");
    take_outside(others * MIB);
    use_pool(w, argc > 8 ? argv[8] : NULL, argc > 9 ? number(argv, 9) : 0);
    must(weir_tag_push(w, "weights"), "weir_tag_push");
    weights = number(argv, 1) ? get(number(argv, 1) * MIB) : NULL;
    must(weir_tag_pop(w, NULL), "weir_tag_pop");
    for (uint64_t i = 0; i < gaps; i++) {
        freed[i] = get(number(argv, 2) * MIB);
        kept[i] = get(MIB);
    }
    keep_busy(busy);
    for (uint64_t i = 0; i < gaps; i++)
        drop(freed[i]);
    if (!busy)
        must(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
    if (argc > 10)
        must(weir_reload(w, argv[10], NULL), "weir_reload");
    must(weir_mark(w, "asks"), "weir_mark");
    weir_status status = weir_stream_malloc(busy ? asker : s, &ptr, number(argv, 4) * MIB);
    if (status == WEIR_OK)
        must(weir_stream_free(busy ? asker : s, ptr), "weir_stream_free");
    for (uint64_t i = 0; i < later; i++)
        drop(get((1 + i % 7) * 64 * 1024));
    for (uint64_t i = 0; i < gaps; i++)
        drop(kept[i]);
    if (weights)
        drop(weights);
    weir_stream_close(asker);
    weir_stream_close(s);
    weir_close(w);
    return status != WEIR_OUT_OF_MEMORY;
}
