/* SPDX-License-Identifier: MIT */
/*
 * threads.c - eight threads with streams of their own and shared ones, short of memory all the time, while a ninth takes statistics, trims
 * and reloads. What is asserted holds in any interleaving; the sanitizers see the rest. Runs on the simulator and on a GPU.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/scene.h"

#define WORKERS 8
#define SHARED 3
#define KEPT 24         /* blocks that a worker keeps before it frees one */
#define QUEUE 64        /* blocks on their way from one worker to another */

static const char policy_format[] = "weir: 1\ncapture: %s\ndefaults: { pool: main }\n"
                                    "pools:\n"
                                    "  main: { release_threshold: %s, on_oom: { deadline: %s } }\n"
                                    "  plain: { small_below: 0, on_oom: { steps: [wait, trim], deadline: 20ms },\n"
                                    "           cache: { per_stream: 1MiB, per_device: 2MiB, largest: 256KiB } }\n"
                                    "streams:\n"
                                    "  own: { pool: plain, private: true }\n"
                                    "  side: { pool: plain }\n";

struct block {
    void *ptr;
    uint64_t size;
    gpu_event made; /* behind its allocation: CUDA wants every free ordered behind it, on whichever stream. NULL: complete already */
};

/* What all threads of one test share. */
struct crowd {
    weir_stream *shared[SHARED];
    gpu_stream unopened; /* destroyed after the last thread ended */
    weir_pool *plain;
    uint64_t most; /* the largest request that may be served */
    uint64_t device_memory;
    unsigned operations;  /* of each worker */
    pthread_mutex_t lock; /* of the queue */
    struct block queue[QUEUE];
    size_t queued;
    atomic_bool over;
    atomic_uint wrong; /* figures that did not add up */
    char policies[2][64];
};

struct worker {
    struct crowd *crowd;
    pthread_t thread;
    uint64_t random;
    gpu_stream stream; /* that own is opened on, or NULL if Weir made it */
    weir_stream *own;
    struct block kept[KEPT];
    size_t count;
    uint64_t main_mallocs, main_failures; /* served by, and refused from, the pool `main` */
    char complaint[256];                  /* the first status that should not have been */
};

static uint64_t next_random(struct worker *worker, uint64_t below)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random % below;
}

static void complain(struct worker *worker, const char *what, weir_status status)
{
    weir_error error;
    weir_last_error(&error);
    if (!worker->complaint[0])
        snprintf(worker->complaint, sizeof worker->complaint, "%s: %s: %.180s", what, weir_status_name(status), error.text);
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

static void open_own(struct worker *worker)
{
    static const char *const names[] = { NULL, "own", "side", "own" };
    const char *name = names[next_random(worker, 4)];
    weir_status status;
    if (worker->stream)
        status = weir_stream_open(scene.w, 0, worker->stream, name, NULL, &worker->own);
    else
        status = weir_stream_create(scene.w, 0, name, NULL, &worker->own);
    if (status != WEIR_OK)
        complain(worker, "opening a stream", status);
}

static weir_stream *some_stream(struct worker *worker)
{
    uint64_t chosen = next_random(worker, SHARED * 2);
    return chosen < SHARED ? worker->crowd->shared[chosen] : worker->own;
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t some_size(struct worker *worker)
{
    uint64_t kind = next_random(worker, 100);
    if (kind < 50) /* one size that comes again and again, so that caches have what is asked for */
        return 4096;
    if (kind < 60)
        return 1 + next_random(worker, 256 * 1024);
    if (kind < 90)
        return 1 + next_random(worker, 24 * MIB);
    if (kind < 98)
        return 1 + next_random(worker, worker->crowd->most);
    return worker->crowd->device_memory + 1;
}

static void count_request(struct worker *worker, bool from_main, weir_status status)
{
    worker->main_mallocs += from_main && status == WEIR_OK;
    worker->main_failures += from_main && status == WEIR_OUT_OF_MEMORY;
    if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY)
        complain(worker, "a request", status);
}

static void note_made(struct worker *worker, struct block *block, gpu_stream stream)
{
    if (scene.gpu->event_create(0, &block->made) != GPU_SUCCESS || scene.gpu->event_record(block->made, stream) != GPU_SUCCESS)
        complain(worker, "an event", WEIR_CUDA_ERROR);
}

/* Orders `stream` behind the allocation of a block that is freed on it next. */
static bool order(struct block block, gpu_stream stream)
{
    if (!block.made)
        return true;
    bool good = scene.gpu->stream_wait_event(stream, block.made) == GPU_SUCCESS;
    return scene.gpu->event_destroy(block.made) == GPU_SUCCESS && good;
}

static void take(struct worker *worker)
{
    struct crowd *crowd = worker->crowd;
    struct block block = { .size = some_size(worker) };
    weir_stream *s = some_stream(worker);
    bool is_main = weir_stream_pool(s) == scene.pool;
    gpu_stream stream = weir_stream_handle(s);
    weir_status status;
    switch (next_random(worker, 4)) {
    case 0:
        status = weir_malloc(scene.w, &block.ptr, block.size, 0, weir_stream_handle(s));
        break;
    case 1:
        is_main = false;
        status = weir_pool_malloc(crowd->plain, &block.ptr, block.size, weir_stream_handle(s));
        break;
    case 2:
        is_main = true;
        stream = crowd->unopened;
        status = weir_malloc(scene.w, &block.ptr, block.size, 0, stream);
        break;
    default:
        status = weir_stream_malloc(s, &block.ptr, block.size);
    }
    count_request(worker, is_main, status);
    if (status != WEIR_OK)
        return;
    note_made(worker, &block, stream);
    worker->kept[worker->count++] = block;
}

static void give(struct worker *worker, struct block block)
{
    weir_stream *s = some_stream(worker);
    uint64_t way = next_random(worker, 3);
    gpu_stream stream = way == 1 ? worker->crowd->unopened : weir_stream_handle(s);
    if (!order(block, stream))
        complain(worker, "waiting for an allocation", WEIR_CUDA_ERROR);
    weir_status status = way == 2 ? weir_stream_free(s, block.ptr) : weir_free(scene.w, block.ptr, stream);
    if (status != WEIR_OK)
        complain(worker, "a free", status);
}

static struct block take_kept(struct worker *worker)
{
    size_t at = next_random(worker, worker->count);
    struct block block = worker->kept[at];
    worker->kept[at] = worker->kept[--worker->count];
    return block;
}

/* Puts a block into the queue and takes another out; one of the two may be missing (ptr NULL). */
static struct block exchange(struct crowd *crowd, struct block block, uint64_t random)
{
    struct block taken = { .ptr = NULL };
    pthread_mutex_lock(&crowd->lock);
    if (crowd->queued && (crowd->queued == QUEUE || !block.ptr)) {
        size_t at = random % crowd->queued;
        taken = crowd->queue[at];
        crowd->queue[at] = crowd->queue[--crowd->queued];
    }
    if (block.ptr)
        crowd->queue[crowd->queued++] = block;
    pthread_mutex_unlock(&crowd->lock);
    return taken;
}

/* The application's callback: what waits in the queue can be spared. */
static uint64_t spare(void *data, int device, uint64_t needed)
{
    struct crowd *crowd = data;
    (void)device;
    struct block block = exchange(crowd, (struct block){ .ptr = NULL }, needed);
    if (!block.ptr || !order(block, crowd->unopened))
        return 0;
    return weir_free(scene.w, block.ptr, crowd->unopened) == WEIR_OK ? block.size : 0;
}

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

static void operate(struct worker *worker)
{
    uint64_t chosen = next_random(worker, 100);
    if (chosen < 45 && worker->count < KEPT) {
        take(worker);
    } else if (chosen < 70 && worker->count) {
        give(worker, take_kept(worker));
    } else if (chosen < 90 && worker->count) {
        struct block block = exchange(worker->crowd, take_kept(worker), next_random(worker, QUEUE));
        if (block.ptr)
            give(worker, block);
    } else if (chosen < 94) {
        scene.gpu->delay(weir_stream_handle(worker->own), MILLISECOND * next_random(worker, 3));
    } else if (chosen < 97) {
        weir_status status = weir_stream_synchronize(worker->own, NULL);
        if (status != WEIR_OK)
            complain(worker, "synchronising", status);
    } else {
        weir_stream_close(worker->own);
        open_own(worker);
    }
}

static void *work(void *data)
{
    struct worker *worker = data;
    open_own(worker);
    for (unsigned i = 0; i < worker->crowd->operations && !worker->complaint[0]; i++)
        operate(worker);
    while (worker->count)
        give(worker, take_kept(worker));
    weir_stream_close(worker->own);
    return NULL;
}

static void check_figures(struct crowd *crowd)
{
    weir_stats *stats;
    if (weir_stats_take(scene.w, NULL, &stats) != WEIR_OK) {
        atomic_fetch_add(&crowd->wrong, 1);
        return;
    }
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        bool right = pool->live + pool->cached + pool->slack == pool->used && pool->used + pool->idle == pool->reserved &&
                     pool->live_blocks == pool->mallocs - pool->frees && pool->frees <= pool->mallocs && pool->live <= pool->live_high &&
                     pool->reserved <= pool->reserved_high && pool->live_high <= crowd->device_memory;
        atomic_fetch_add(&crowd->wrong, !right);
    }
    weir_stats_free(stats);
}

static void *administer(void *data)
{
    struct crowd *crowd = data;
    for (unsigned i = 0; !atomic_load(&crowd->over); i++) {
        unsigned id;
        uint64_t released;
        bool good = true;
        check_figures(crowd);
        switch (i % 5) {
        case 0:
            good = weir_pool_trim(scene.pool, i % 3 * 64 * MIB, NULL, &released) == WEIR_OK;
            break;
        case 1:
            good = weir_pool_set_release_threshold(crowd->plain, i % 3 * 128 * MIB, NULL) == WEIR_OK;
            break;
        case 2:
            good = weir_reload(scene.w, crowd->policies[i / 5 % 2], NULL) == WEIR_OK;
            break;
        case 3:
            good = weir_oom_add(scene.w, spare, crowd, NULL, &id) == WEIR_OK && weir_oom_remove(scene.w, id, NULL) == WEIR_OK;
            break;
        default:
            usleep(200);
        }
        atomic_fetch_add(&crowd->wrong, !good);
    }
    return NULL;
}

/* Scenes ------------------------------------------------------------------------------------------------------------------------------- */

static void write_policy(char path[64], const char *capture, const char *threshold, const char *deadline)
{
    char text[1024];
    int len = snprintf(text, sizeof text, policy_format, capture, threshold, deadline);
    snprintf(path, 64, "/tmp/weir-threads-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, (size_t)len), len);
    close(fd);
}

static struct crowd *gather(const char *capture)
{
    static struct crowd crowd;
    char text[1024];
    if (scene_is_sim())
        scene_simulate("memory=1GiB");
    crowd = (struct crowd){ .queued = 0 };
    pthread_mutex_init(&crowd.lock, NULL);
    write_policy(crowd.policies[0], capture, "all", "20ms");
    write_policy(crowd.policies[1], capture, "256MiB", "50ms");
    snprintf(text, sizeof text, policy_format, capture, "all", "20ms");
    scene_open(text);
    scene_ok(weir_pool_get(scene.w, "plain", 0, NULL, &crowd.plain), "weir_pool_get");
    for (size_t i = 0; i < SHARED; i++)
        crowd.shared[i] = scene_create(i ? NULL : "side");
    crowd.unopened = scene_stream(0);
    crowd.device_memory = scene_device_stats(0).memory;
    crowd.most = 400 * MIB;
    crowd.operations = scene_is_sim() ? suite_rounds(2000, 5000) : 400; /* a GPU takes its time to refuse */
    return &crowd;
}

/* Nothing is in users' hands, so what the pool still uses is in caches, within their bounds, and a trim takes that too. The streams that are
   still open have large blocks: one of 64 MiB at most, or a 32nd of what the pool had at most. */
static void expect_empty_pool(const char *name, uint64_t per_device, unsigned streams)
{
    weir_pool *pool;
    weir_pool_stats stats = scene_pool_stats(name);
    ck_assert_uint_eq(stats.live, 0);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.graph_blocks, 0);
    ck_assert_uint_eq(stats.used, stats.cached);
    uint64_t large = stats.reserved_high / 32 > 64 * MIB ? stats.reserved_high / 32 : 64 * MIB;
    ck_assert_uint_le(stats.cached, per_device + streams * large);
    scene_ok(weir_pool_get(scene.w, name, 0, NULL, &pool), "weir_pool_get");
    scene_ok(weir_pool_trim(pool, 0, NULL, NULL), "weir_pool_trim");
    stats = scene_pool_stats(name);
    ck_assert_uint_eq(stats.cached, 0);
    ck_assert_uint_eq(stats.used, 0);
}

static void expect_nothing_left(struct crowd *crowd, const struct worker *workers)
{
    uint64_t mallocs = 0, failures = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        ck_assert_msg(!workers[i].complaint[0], "%s", workers[i].complaint);
        mallocs += workers[i].main_mallocs;
        failures += workers[i].main_failures;
    }
    ck_assert_uint_eq(crowd->wrong, 0);
    expect_empty_pool("main", 512 * MIB, SHARED - 1);
    expect_empty_pool("plain", 2 * MIB, 1);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.mallocs, mallocs);
    ck_assert_uint_eq(stats.failures, failures);
}

static void free_queue(struct crowd *crowd)
{
    while (crowd->queued) {
        struct block block = exchange(crowd, (struct block){ .ptr = NULL }, 0);
        ck_assert(order(block, crowd->unopened));
        scene_free_on(crowd->unopened, block.ptr);
    }
}

static void run_crowd(struct crowd *crowd, uint64_t seed)
{
    struct worker workers[WORKERS];
    pthread_t administrator;
    unsigned id;
    /* On a large GPU most of it is taken first, so that memory is as short there. */
    void *held = scene.memory > 2 * GIB ? scene_malloc(crowd->shared[1], scene.memory / (32 * MIB) * (32 * MIB) - 2 * GIB) : NULL;
    scene_ok(weir_oom_add(scene.w, spare, crowd, NULL, &id), "weir_oom_add");
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){ .crowd = crowd, .random = seed * 1000003 + i * 7919 + 1, .stream = i % 2 ? scene_stream(0) : NULL };
    ck_assert_int_eq(pthread_create(&administrator, NULL, administer, crowd), 0);
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&crowd->over, true);
    pthread_join(administrator, NULL);

    workers[0].main_mallocs += held != NULL;
    free_queue(crowd);
    if (held)
        scene_free(crowd->shared[1], held);
    for (size_t i = 0; i < 2; i++)
        unlink(crowd->policies[i]);
    expect_nothing_left(crowd, workers);
    weir_device_stats stats = scene_device_stats(0);
    ck_assert_uint_ge(stats.recoveries, 1);
    /* On a GPU the administrator empties the caches too often for any hit to be sure. */
    if (scene_is_sim()) {
        ck_assert_uint_gt(scene_pool_stats("main").cache_hits, 0);
        ck_assert_uint_gt(scene_pool_stats("plain").cache_hits, 0);
    }
}

START_TEST(figures_add_up_under_eight_threads_short_of_memory)
{
    run_crowd(gather("caller"), (uint64_t)_i + 1);
}
END_TEST

START_TEST(figures_add_up_under_eight_threads_in_relaxed_mode)
{
    run_crowd(gather("relaxed"), 11);
}
END_TEST

/* A private pool is left by its stream, freed into by another thread, and seen by a third, over and over. */
static void *open_and_close(void *data)
{
    struct worker *worker = data;
    for (unsigned i = 0; i < 150 && !worker->complaint[0]; i++) {
        struct block block = { .size = 8 * MIB };
        weir_stream *s;
        weir_status status = weir_stream_create(scene.w, 0, "own", NULL, &s);
        if (status != WEIR_OK) {
            complain(worker, "opening a stream", status);
            break;
        }
        status = weir_stream_malloc(s, &block.ptr, block.size);
        if (status == WEIR_OUT_OF_MEMORY)
            block.ptr = NULL;
        else if (status != WEIR_OK)
            complain(worker, "a request", status);
        weir_stream_close(s);
        block = exchange(worker->crowd, block, next_random(worker, QUEUE));
        if (block.ptr && weir_free(scene.w, block.ptr, worker->crowd->unopened) != WEIR_OK)
            complain(worker, "a free", WEIR_NOT_A_BLOCK);
    }
    return NULL;
}

START_TEST(private_pools_are_free_again_with_their_last_block_whoever_frees_it)
{
    struct crowd *crowd = gather("relaxed");
    struct worker workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){ .crowd = crowd, .random = i * 7919 + 1 };
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, open_and_close, &workers[i]), 0);
    for (unsigned i = 0; i < 100; i++)
        check_figures(crowd);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    free_queue(crowd);
    for (size_t i = 0; i < 2; i++)
        unlink(crowd->policies[i]);
    expect_nothing_left(crowd, workers);
    weir_stats *stats;
    scene_ok(weir_stats_take(scene.w, NULL, &stats), "weir_stats_take");
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        ck_assert_uint_eq(weir_stats_pool(stats, i)->live_blocks, 0);
    /* At most one for each worker's stream, one for each block that waited in the queue, and one that a snapshot held back. */
    ck_assert_uint_le(weir_stats_pool_count(stats), 2 + 2 * WORKERS + QUEUE + 1);
    weir_stats_free(stats);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("threads");
    TCase *crowd = suite_case(suite, "crowd", 240);
    tcase_add_checked_fixture(crowd, scene_begin, scene_end);
    tcase_add_loop_test(crowd, figures_add_up_under_eight_threads_short_of_memory, 0, 2);
    suite_add(crowd, figures_add_up_under_eight_threads_in_relaxed_mode,
              private_pools_are_free_again_with_their_last_block_whoever_frees_it);
    return suite_run(suite);
}
