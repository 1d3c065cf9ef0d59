/* SPDX-License-Identifier: MIT */
/*
 * cache_threads.c - caches under eight threads with streams of their own and shared ones, two pools, and frees on other streams, while a
 * ninth thread trims, reloads and takes statistics. What is asserted holds in any interleaving; the sanitizers see the rest. Runs on the
 * simulator and on a GPU.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/alloc/stream.h"
#include "tests/api/scene.h"
#include "tests/support/ownership.h"

#define KIB (UINT64_C(1) << 10)
#define WORKERS 8
#define SHARED 3
#define KEPT 24  /* blocks that a worker keeps before it frees one */
#define QUEUE 64 /* blocks on their way from one worker to another */

static const char policy_format[] = "weir: 1\nkeeper: %s\ndefaults: { pool: main }\n"
                                    "pools:\n"
                                    "  main: { release_threshold: 64MiB, cache: %s }\n"
                                    "  side: { small_below: 0, cache: { per_stream: 2MiB, per_device: 4MiB, capture_check: false } }\n"
                                    "streams:\n"
                                    "  own: { pool: side, private: true }\n"
                                    "  side: { pool: side }\n";

static const char *const caches[] = { "{ per_stream: 2MiB, per_device: 6MiB, idle: 10ms }", "off", "{ largest: 64KiB, idle: 10ms }", "on" };
#define CACHES (sizeof caches / sizeof caches[0])

struct block {
    void *ptr;
    uint64_t size;
    gpu_event made; /* behind its allocation, where another stream may free it */
};

/* What all threads of one test share. */
struct crowd {
    weir_stream *shared[SHARED];
    gpu_stream unopened;
    weir_pool *side;
    unsigned operations;  /* of each worker */
    pthread_mutex_t lock; /* of the queue */
    struct block queue[QUEUE];
    size_t queued;
    atomic_bool over;
    atomic_uint wrong;    /* figures that did not add up, calls of the ninth thread that failed */
    atomic_uint overlaps;
    atomic_uint_fast64_t main_mallocs;
    char policies[CACHES][64];
};

struct worker {
    struct crowd *crowd;
    pthread_t thread;
    uint64_t random;
    gpu_stream stream; /* that own is opened on, or NULL if Weir made it */
    weir_stream *own;
    struct block kept[KEPT];
    size_t count;
    char complaint[256]; /* the first status that should not have been */
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

static void open_own(struct worker *worker)
{
    static const char *const names[] = { NULL, "own", "side" };
    const char *name = names[next_random(worker, 3)];
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

/* Mostly a handful of classes, so that caches meet them again. */
static uint64_t some_size(struct worker *worker)
{
    uint64_t kind = next_random(worker, 100);
    if (kind < 60)
        return (1 + next_random(worker, 8)) * 8 * KIB;
    if (kind < 95)
        return 1 + next_random(worker, 512 * KIB);
    return 1 + next_random(worker, 4 * MIB);
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------ */

static void take(struct worker *worker)
{
    struct crowd *crowd = worker->crowd;
    struct block block = { .size = some_size(worker) };
    weir_stream *s = some_stream(worker);
    gpu_stream stream = weir_stream_handle(s);
    bool is_main = weir_stream_pool(s) == scene.pool;
    weir_status status;
    switch (next_random(worker, 6)) {
    case 0:
        status = weir_malloc(scene.w, &block.ptr, block.size, 0, stream);
        break;
    case 1:
        is_main = false;
        status = weir_pool_malloc(crowd->side, &block.ptr, block.size, stream);
        break;
    case 2:
        is_main = true;
        stream = crowd->unopened;
        status = weir_malloc(scene.w, &block.ptr, block.size, 0, stream);
        break;
    default:
        status = weir_stream_malloc(s, &block.ptr, block.size);
    }
    if (status != WEIR_OK) {
        complain(worker, "a request", status);
        return;
    }
    atomic_fetch_add(&crowd->overlaps, !ownership_claim(block.ptr, block.size));
    atomic_fetch_add(&crowd->main_mallocs, is_main);
    if (scene.gpu->event_create(0, &block.made) != GPU_SUCCESS || scene.gpu->event_record(block.made, stream) != GPU_SUCCESS)
        complain(worker, "an event", WEIR_CUDA_ERROR);
    worker->kept[worker->count++] = block;
}

/* Orders `stream` behind the allocation of a block that is freed on it next, and gives up its bytes. */
static bool let_go(struct crowd *crowd, struct block block, gpu_stream stream)
{
    bool good = scene.gpu->stream_wait_event(stream, block.made) == GPU_SUCCESS;
    good = scene.gpu->event_destroy(block.made) == GPU_SUCCESS && good;
    atomic_fetch_add(&crowd->overlaps, !ownership_give_up(block.ptr, block.size));
    return good;
}

static void give(struct worker *worker, struct block block)
{
    weir_stream *s = some_stream(worker);
    uint64_t way = next_random(worker, 4);
    gpu_stream stream = way == 1 ? worker->crowd->unopened : weir_stream_handle(s);
    if (!let_go(worker->crowd, block, stream))
        complain(worker, "waiting for an allocation", WEIR_CUDA_ERROR);
    weir_status status = way >= 2 ? weir_stream_free(s, block.ptr) : weir_free(scene.w, block.ptr, stream);
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

/* Puts a block into the queue, and takes another out if it is full (ptr NULL: none). */
static struct block exchange(struct crowd *crowd, struct block block, uint64_t random)
{
    struct block taken = { .ptr = NULL };
    pthread_mutex_lock(&crowd->lock);
    if (crowd->queued == QUEUE) {
        size_t at = random % crowd->queued;
        taken = crowd->queue[at];
        crowd->queue[at] = crowd->queue[--crowd->queued];
    }
    crowd->queue[crowd->queued++] = block;
    pthread_mutex_unlock(&crowd->lock);
    return taken;
}

/* Threads ----------------------------------------------------------------------------------------------------------------------------- */

static void operate(struct worker *worker)
{
    uint64_t chosen = next_random(worker, 1000);
    if (chosen < 480 && worker->count < KEPT) {
        take(worker);
    } else if (chosen < 800 && worker->count) {
        give(worker, take_kept(worker));
    } else if (chosen < 980 && worker->count) {
        struct block block = exchange(worker->crowd, take_kept(worker), next_random(worker, QUEUE));
        if (block.ptr)
            give(worker, block);
    } else if (chosen < 985) {
        scene.gpu->delay(weir_stream_handle(worker->own), MILLISECOND / 10);
    } else if (chosen < 990) {
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
                     pool->reserved <= pool->reserved_high && pool->cache_hits <= pool->mallocs && pool->cached <= 512 * MIB;
        atomic_fetch_add(&crowd->wrong, !right);
    }
    weir_stats_free(stats);
}

static void *administer(void *data)
{
    struct crowd *crowd = data;
    for (unsigned i = 0; !atomic_load(&crowd->over); i++) {
        bool good = true;
        check_figures(crowd);
        switch (i % 4) {
        case 0:
            good = weir_pool_trim(i % 8 ? scene.pool : crowd->side, 0, NULL, NULL) == WEIR_OK;
            break;
        case 2:
            good = weir_reload(scene.w, crowd->policies[i / 4 % CACHES], NULL) == WEIR_OK;
            break;
        default:
            usleep(500);
        }
        atomic_fetch_add(&crowd->wrong, !good);
    }
    return NULL;
}

/* Scenes ------------------------------------------------------------------------------------------------------------------------------ */

static struct crowd *gather(const char *keeper)
{
    static struct crowd crowd;
    char text[1024];
    crowd = (struct crowd){ .operations = scene_is_sim() ? 3000 : 20000 };
    pthread_mutex_init(&crowd.lock, NULL);
    for (size_t i = 0; i < CACHES; i++) {
        int len = snprintf(text, sizeof text, policy_format, keeper, caches[i]);
        snprintf(crowd.policies[i], sizeof crowd.policies[i], "/tmp/weir-cache-threads-XXXXXX");
        int fd = mkstemp(crowd.policies[i]);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, text, (size_t)len), len);
        close(fd);
    }
    snprintf(text, sizeof text, policy_format, keeper, caches[0]);
    scene_open(text);
    scene_ok(weir_pool_get(scene.w, "side", 0, NULL, &crowd.side), "weir_pool_get");
    for (size_t i = 0; i < SHARED; i++)
        crowd.shared[i] = scene_create(i ? NULL : "side");
    crowd.unopened = scene_stream(0);
    return &crowd;
}

static void run_threads(struct crowd *crowd, struct worker *workers, uint64_t seed)
{
    pthread_t administrator;
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){ .crowd = crowd, .random = seed * 1000003 + i * 7919 + 1, .stream = i % 2 ? scene_stream(0) : NULL };
    ck_assert_int_eq(pthread_create(&administrator, NULL, administer, crowd), 0);
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&crowd->over, true);
    pthread_join(administrator, NULL);
    for (size_t i = 0; i < CACHES; i++)
        unlink(crowd->policies[i]);
    while (crowd->queued) {
        struct block block = crowd->queue[--crowd->queued];
        ck_assert(let_go(crowd, block, crowd->unopened));
        scene_free_on(crowd->unopened, block.ptr);
    }
}

static void run_crowd(const char *keeper, uint64_t seed)
{
    struct worker workers[WORKERS];
    struct crowd *crowd = gather(keeper);
    run_threads(crowd, workers, seed);
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_msg(!workers[i].complaint[0], "%s", workers[i].complaint);
    ck_assert_uint_eq(atomic_load(&crowd->overlaps), 0);
    ck_assert(!ownership_is_full());
    ck_assert_uint_eq(atomic_load(&crowd->wrong), 0);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    scene_ok(weir_pool_trim(crowd->side, 0, NULL, NULL), "weir_pool_trim");
    weir_pool_stats main = scene_pool_stats("main"), side = scene_pool_stats("side");
    ck_assert_uint_eq(main.live + main.live_blocks + main.cached + main.used, 0);
    ck_assert_uint_eq(side.live + side.live_blocks + side.cached + side.used, 0);
    ck_assert_uint_eq(main.mallocs, atomic_load(&crowd->main_mallocs));
    ck_assert_uint_eq(atomic_load(&scene.log_lines), 0);
}

START_TEST(blocks_never_overlap_and_figures_add_up_under_eight_threads)
{
    run_crowd("false", (uint64_t)_i + 1);
}
END_TEST

START_TEST(blocks_never_overlap_and_figures_add_up_beside_the_keeper)
{
    run_crowd("true", (uint64_t)_i + 11);
}
END_TEST

/* Closing ----------------------------------------------------------------------------------------------------------------------------- */

/* Uses a stream until it is closed. */
struct user {
    weir_stream *s;
    uint64_t size;     /* of its requests */
    gpu_stream refuge; /* where it frees what it has left then */
    atomic_uint pairs;
    weir_status last;
};

static void *use_until_closed(void *data)
{
    struct user *user = data;
    void *ptr;
    while ((user->last = weir_stream_malloc(user->s, &ptr, user->size)) == WEIR_OK) {
        user->last = weir_stream_free(user->s, ptr);
        if (user->last != WEIR_OK) {
            weir_status status = weir_free(scene.w, ptr, user->refuge);
            user->last = status == WEIR_OK ? user->last : status;
            break;
        }
        atomic_fetch_add(&user->pairs, 1);
    }
    return NULL;
}

START_TEST(calls_on_a_stream_that_is_being_closed_end_with_an_error_and_lose_nothing)
{
    scene_open("weir: 1\npools: { main: { cache: { per_stream: 1MiB } } }\n");
    gpu_stream refuge = scene_stream(0);
    for (unsigned round = 0; round < suite_rounds(100, 400); round++) {
        pthread_t threads[2];
        struct user users[2];
        weir_stream *s = scene_create(NULL);
        for (size_t i = 0; i < 2; i++) {
            users[i] = (struct user){ .s = s, .size = 64 * KIB, .refuge = refuge };
            ck_assert_int_eq(pthread_create(&threads[i], NULL, use_until_closed, &users[i]), 0);
        }
        while (atomic_load(&users[0].pairs) + atomic_load(&users[1].pairs) < 1 + round % 50)
            sched_yield();
        weir_stream_close(s);
        for (size_t i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            ck_assert_int_eq(users[i].last, WEIR_INVALID);
        }
        scene_sync(refuge);
        weir_pool_stats stats = scene_pool_stats("main");
        ck_assert_uint_eq(stats.live_blocks, 0);
        ck_assert_uint_eq(stats.used, 0);
    }
}
END_TEST

/* Its cache serves the first size by its class, the second as a large block, and the third not at all. */
START_TEST(stream_that_a_thread_has_to_itself_can_be_closed_by_another)
{
    static const uint64_t sizes[] = { 64 * KIB, 4 * MIB, 65 * MIB };
    scene_open("weir: 1\npools: { main: { release_threshold: 64MiB, cache: { per_stream: 1MiB } } }\n");
    gpu_stream refuge = scene_stream(0);
    for (unsigned round = 0; round < 100; round++) {
        pthread_t thread;
        struct user user = { .s = scene_create(NULL), .size = sizes[_i], .refuge = refuge };
        ck_assert_int_eq(pthread_create(&thread, NULL, use_until_closed, &user), 0);
        while (atomic_load(&user.pairs) < 512 + round)
            sched_yield();
        weir_stream_close(user.s);
        pthread_join(thread, NULL);
        ck_assert_int_eq(user.last, WEIR_INVALID);
        scene_sync(refuge);
        ck_assert_uint_eq(scene_pool_stats("main").live_blocks, 0);
        ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    }
}
END_TEST

static void *trim_for_ever(void *data)
{
    struct crowd *crowd = data;
    while (!atomic_load(&crowd->over))
        if (weir_pool_trim(scene.pool, 0, NULL, NULL) != WEIR_OK)
            atomic_fetch_add(&crowd->wrong, 1);
    return NULL;
}

/* The simulator aborts where a stream is used that was destroyed, and orphans would be looked at. */
START_TEST(close_waits_for_a_flush_that_is_in_progress)
{
    static struct crowd crowd;
    pthread_t thread;
    scene_open("weir: 1\npools: { main: {} }\n");
    uint64_t before = scene_is_sim() ? sim_calls("event_record_device") : 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, trim_for_ever, &crowd), 0);
    for (unsigned round = 0; round < 300; round++) {
        gpu_stream raw = scene_stream(0);
        weir_stream *s;
        void *ptrs[16];
        scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
        for (size_t i = 0; i < 16; i++)
            ptrs[i] = scene_malloc(s, 64 * KIB);
        for (size_t i = 0; i < 16; i++)
            scene_free(s, ptrs[i]);
        weir_stream_close(s);
        scene_drop_stream(raw);
    }
    atomic_store(&crowd.over, true);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(atomic_load(&crowd.wrong), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    if (scene_is_sim())
        ck_assert_uint_eq(sim_calls("event_record_device"), before);
}
END_TEST

static void *open_and_close(void *data)
{
    struct user *user = data;
    user->last = WEIR_OK;
    for (unsigned i = 0; i < 1000 && user->last == WEIR_OK; i++) {
        weir_stream *s;
        void *ptr;
        user->last = weir_stream_create(scene.w, 0, NULL, NULL, &s);
        if (user->last != WEIR_OK)
            break;
        for (unsigned k = 0; k < 50 && user->last == WEIR_OK; k++) {
            user->last = weir_stream_malloc(s, &ptr, 64 * KIB);
            if (user->last == WEIR_OK)
                user->last = weir_stream_free(s, ptr);
        }
        weir_stream_close(s);
    }
    atomic_store(&user->pairs, UINT32_MAX);
    return NULL;
}

START_TEST(counts_never_fall_while_streams_are_closed)
{
    pthread_t thread;
    struct user user = { .refuge = NULL };
    uint64_t mallocs = 0, frees = 0;
    scene_open("weir: 1\npools: { main: {} }\n");
    ck_assert_int_eq(pthread_create(&thread, NULL, open_and_close, &user), 0);
    while (atomic_load(&user.pairs) != UINT32_MAX) {
        weir_pool_stats stats = scene_pool_stats("main");
        ck_assert_uint_ge(stats.mallocs, mallocs);
        ck_assert_uint_ge(stats.frees, frees);
        ck_assert_uint_ge(stats.mallocs, stats.frees);
        mallocs = stats.mallocs;
        frees = stats.frees;
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(user.last, WEIR_OK);
    ck_assert_uint_eq(scene_pool_stats("main").mallocs, 50000);
}
END_TEST

static void *take_stats(void *data)
{
    weir_stats **stats = data;
    return weir_stats_take(scene.w, NULL, stats) == WEIR_OK ? NULL : stats;
}

/* While a snapshot waits for the lock of one cache, what was live when it began is freed into a cache that it comes to later. */
START_TEST(snapshot_does_not_count_twice_what_moves_meanwhile)
{
    pthread_t thread;
    void *ptrs[3], *failed;
    weir_stats *stats;
    scene_open("weir: 1\npools: { main: { max_size: 256MiB, small_below: 0, cache: { largest: 8MiB } } }\n");
    weir_stream *later = scene_create(NULL), *held = scene_create(NULL);
    for (size_t i = 0; i < 3; i++)
        ptrs[i] = scene_malloc(later, 8 * MIB);
    weir__spin_lock(&held->cache.lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, take_stats, &stats), 0);
    while (pthread_rwlock_trywrlock(&held->device->lock) == 0) { /* the snapshot has not begun */
        pthread_rwlock_unlock(&held->device->lock);
        sched_yield();
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* if it has not come to the lock by then, there is nothing to be seen */
    for (size_t i = 0; i < 3; i++)
        scene_free(later, ptrs[i]);
    weir__spin_unlock(&held->cache.lock);
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    const weir_pool_stats *pool = weir_stats_pool(stats, 0);
    ck_assert_uint_le(pool->live + pool->cached, 24 * MIB);
    ck_assert_uint_eq(pool->used, 24 * MIB);
    ck_assert_uint_eq(pool->reserved, 32 * MIB);
    weir_stats_free(stats);
}
END_TEST

/* Two streams, of which one is idle at a time, with room for half of one; now and then one is closed and another opened. */
static void *use_in_turns(void *data)
{
    struct user *user = data;
    weir_stream *streams[2] = { NULL, NULL };
    user->last = WEIR_OK;
    for (unsigned turn = 0; turn < 12; turn++) {
        weir_stream **s = &streams[turn % 2];
        if (turn % 5 < 2) {
            weir_stream_close(*s);
            if (weir_stream_create(scene.w, 0, NULL, NULL, s) != WEIR_OK)
                user->last = WEIR_INVALID;
        }
        for (unsigned i = 0; i < 700 && user->last == WEIR_OK; i++) {
            void *ptrs[8];
            for (size_t k = 0; k < 8 && user->last == WEIR_OK; k++)
                user->last = weir_stream_malloc(*s, &ptrs[k], 64 * KIB);
            for (size_t k = 0; k < 8 && user->last == WEIR_OK; k++)
                user->last = weir_stream_free(*s, ptrs[k]);
        }
    }
    weir_stream_close(streams[0]);
    weir_stream_close(streams[1]);
    return NULL;
}

START_TEST(room_moves_from_idle_streams_to_busy_ones_and_nothing_is_lost)
{
    pthread_t threads[4];
    struct user users[4];
    scene_open("weir: 1\npools: { main: { cache: { per_stream: 512KiB, per_device: 1MiB, largest: 64KiB } } }\n");
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_in_turns, &users[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(users[i].last, WEIR_OK);
    }
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.live_blocks + stats.cached + stats.live + stats.used, 0);
    ck_assert_uint_eq(stats.mallocs, 4 * 12 * 700 * 8);
}
END_TEST

/* A raw handle whose stream is opened and closed over and over: served from the cache or not, never lost. */
static void *use_raw(void *data)
{
    struct user *user = data;
    void *ptr;
    user->last = WEIR_OK;
    for (unsigned i = 0; i < 20000 && user->last == WEIR_OK; i++) {
        user->last = weir_malloc(scene.w, &ptr, 64 * KIB, 0, user->refuge);
        if (user->last == WEIR_OK)
            user->last = weir_free(scene.w, ptr, user->refuge);
        atomic_fetch_add(&user->pairs, 1);
    }
    atomic_store(&user->pairs, UINT32_MAX);
    return NULL;
}

START_TEST(raw_handle_works_while_its_stream_is_opened_and_closed)
{
    pthread_t thread;
    scene_open("weir: 1\npools: { main: {} }\n");
    struct user user = { .refuge = scene_stream(0) };
    ck_assert_int_eq(pthread_create(&thread, NULL, use_raw, &user), 0);
    while (atomic_load(&user.pairs) != UINT32_MAX) {
        weir_stream *s;
        scene_ok(weir_stream_open(scene.w, 0, user.refuge, NULL, NULL, &s), "weir_stream_open");
        weir_stream_close(s);
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(user.last, WEIR_OK);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.mallocs, 20000);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.used, 0);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("cache_threads");
    TCase *crowd = suite_case(suite, "crowd", 240), *close = suite_case(suite, "closing", 240);
    tcase_add_checked_fixture(crowd, scene_begin, scene_end);
    tcase_add_checked_fixture(close, scene_begin, scene_end);
    tcase_add_loop_test(crowd, blocks_never_overlap_and_figures_add_up_under_eight_threads, 0, 3);
    tcase_add_loop_test(crowd, blocks_never_overlap_and_figures_add_up_beside_the_keeper, 0, 2);
    suite_add(close, calls_on_a_stream_that_is_being_closed_end_with_an_error_and_lose_nothing);
    tcase_add_loop_test(close, stream_that_a_thread_has_to_itself_can_be_closed_by_another, 0, 3);
    suite_add(close, close_waits_for_a_flush_that_is_in_progress, counts_never_fall_while_streams_are_closed,
              snapshot_does_not_count_twice_what_moves_meanwhile, room_moves_from_idle_streams_to_busy_ones_and_nothing_is_lost,
              raw_handle_works_while_its_stream_is_opened_and_closed);
    return suite_run(suite);
}
