/* SPDX-License-Identifier: MIT */
/*
 * stress.c - no two owners share a byte: ten million allocations on sixteen streams, a thread each, from two pools, with frees on other
 * streams, while another thread trims and the keeper runs. Once with CUDA's pools and once with arenas.
 *
 * Every live block is claimed in a map of memory (ownership.h). Into each eighth block the device writes a mark on the stream that got it,
 * and checks it on the stream that frees it, right before the free (marks.h). A block that goes to another stream is ordered by an event.
 * WEIR_STRESS_COUNT sets the number of allocations; on the simulator it is smaller unless that says otherwise.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/scene.h"
#include "tests/gpu/marks.h"
#include "tests/support/ownership.h"

#define KIB (UINT64_C(1) << 10)
#define LANES 16
#define KEPT 48   /* blocks that a lane keeps */
#define INBOX 64  /* blocks on their way to a lane */
#define SPARE 128 /* events that a lane keeps for later */
#define MARKED 8  /* each so many blocks has a mark */

static const char *const policies[] = {
    "weir: 1\nkeeper: true\ndefaults: { pool: main }\n"
    "pools:\n"
    "  main: { cache: { per_stream: 8MiB, per_device: 96MiB, idle: 20ms } }\n"
    "  side: { small_below: 0, cache: { per_stream: 4MiB, capture_check: false, idle: 20ms } }\n"
    "streams: { side: { pool: side } }\n",
    "weir: 1\nkeeper: true\ndefaults: { pool: main }\n"
    "pools:\n"
    "  main: { backing: arena, cache: off, release_threshold: 256MiB }\n"
    "  side: { backing: arena, cache: { per_stream: 4MiB, capture_check: false, idle: 20ms } }\n"
    "streams: { side: { pool: side } }\n",
};
#define POLICIES ((int)(sizeof policies / sizeof *policies))

struct block {
    void *ptr;
    size_t size;
    uint64_t tag;   /* of its mark; 0: it has none */
    gpu_event made; /* behind its allocation and its mark, if another stream frees it */
};

/* A stream and its thread. */
struct lane {
    pthread_t thread;
    struct lane *lanes;
    pthread_barrier_t *filled; /* reached when nothing more is sent */
    weir_pool *foreign;        /* another pool than the stream's */
    weir_stream *s;
    gpu_stream stream;
    uint64_t random, count, tags;
    struct block kept[KEPT];
    size_t kept_count;
    gpu_event spare[SPARE];
    size_t spare_count;
    pthread_mutex_t lock; /* of the inbox */
    struct block inbox[INBOX];
    size_t inbox_count;
    uint64_t overlaps, sent;
    char complaint[256]; /* the first thing that should not have been */
};

static uint64_t next_random(struct lane *lane, uint64_t below)
{
    lane->random ^= lane->random << 13;
    lane->random ^= lane->random >> 7;
    lane->random ^= lane->random << 17;
    return lane->random % below;
}

static void expect(struct lane *lane, int code, const char *what)
{
    if (code != GPU_SUCCESS && !lane->complaint[0])
        snprintf(lane->complaint, sizeof lane->complaint, "%s: %s", what, scene.gpu->code_name(code));
}

static void expect_ok(struct lane *lane, weir_status status, const char *what)
{
    weir_error error;
    if (status == WEIR_OK || lane->complaint[0])
        return;
    weir_last_error(&error);
    snprintf(lane->complaint, sizeof lane->complaint, "%s: %s: %.180s", what, weir_status_name(status), error.text);
}

static size_t some_size(struct lane *lane)
{
    uint64_t kind = next_random(lane, 100);
    if (kind < 70)
        return MARKS_SMALLEST + next_random(lane, 32 * KIB);
    if (kind < 97)
        return MARKS_SMALLEST + next_random(lane, MIB - MARKS_SMALLEST);
    return MIB + next_random(lane, 3 * MIB);
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------ */

static void take(struct lane *lane)
{
    struct block block = { .size = some_size(lane) };
    uint64_t way = next_random(lane, 64);
    weir_status status;
    if (way == 0)
        status = weir_pool_malloc(lane->foreign, &block.ptr, block.size, lane->stream);
    else if (way < 16)
        status = weir_malloc(scene.w, &block.ptr, block.size, 0, lane->stream);
    else
        status = weir_stream_malloc(lane->s, &block.ptr, block.size);
    expect_ok(lane, status, "a request");
    lane->count--;
    if (status != WEIR_OK)
        return;
    lane->overlaps += !ownership_claim(block.ptr, block.size);
    if (lane->count % MARKED == 0) {
        block.tag = lane->tags += 1000;
        expect(lane, marks_write(lane->stream, block.ptr, block.size, block.tag), "writing a mark");
    }
    lane->kept[lane->kept_count++] = block;
}

static void give(struct lane *lane, struct block block)
{
    if (block.tag)
        expect(lane, marks_check(lane->stream, block.ptr, block.size, block.tag), "checking a mark");
    lane->overlaps += !ownership_give_up(block.ptr, block.size);
    if (next_random(lane, 4))
        expect_ok(lane, weir_stream_free(lane->s, block.ptr), "a free");
    else
        expect_ok(lane, weir_free(scene.w, block.ptr, lane->stream), "a free");
}

static struct block take_kept(struct lane *lane)
{
    size_t at = next_random(lane, lane->kept_count);
    struct block block = lane->kept[at];
    lane->kept[at] = lane->kept[--lane->kept_count];
    return block;
}

/* Gives a block to another lane, or keeps it if that one has no room. */
static void send(struct lane *lane, struct block block)
{
    struct lane *other = &lane->lanes[next_random(lane, LANES)];
    if (lane->spare_count)
        block.made = lane->spare[--lane->spare_count];
    else
        expect(lane, scene.gpu->event_create(0, &block.made), "an event");
    expect(lane, scene.gpu->event_record(block.made, lane->stream), "an event");
    pthread_mutex_lock(&other->lock);
    bool sent = other->inbox_count < INBOX;
    if (sent)
        other->inbox[other->inbox_count++] = block;
    pthread_mutex_unlock(&other->lock);
    lane->sent += sent && other != lane;
    if (!sent) {
        lane->spare[lane->spare_count++] = block.made;
        give(lane, block);
    }
}

/* Frees what other lanes have sent, all of it. */
static void receive(struct lane *lane)
{
    struct block blocks[INBOX];
    pthread_mutex_lock(&lane->lock);
    size_t count = lane->inbox_count;
    memcpy(blocks, lane->inbox, count * sizeof *blocks);
    lane->inbox_count = 0;
    pthread_mutex_unlock(&lane->lock);
    for (size_t i = 0; i < count; i++) {
        expect(lane, scene.gpu->stream_wait_event(lane->stream, blocks[i].made), "waiting for an event");
        if (lane->spare_count < SPARE - 1) /* send() needs room for one */
            lane->spare[lane->spare_count++] = blocks[i].made;
        else
            expect(lane, scene.gpu->event_destroy(blocks[i].made), "an event");
        give(lane, blocks[i]);
    }
}

/* Threads ----------------------------------------------------------------------------------------------------------------------------- */

static void *run_lane(void *data)
{
    struct lane *lane = data;
    expect(lane, marks_enter(lane->stream), "a context");
    for (uint64_t step = 0; lane->count && !lane->complaint[0]; step++) {
        uint64_t chosen = next_random(lane, 100);
        if (lane->kept_count < KEPT && (chosen < 52 || !lane->kept_count))
            take(lane);
        else if (chosen < 90)
            give(lane, take_kept(lane));
        else
            send(lane, take_kept(lane));
        if (step % 32 == 0)
            receive(lane);
        /* Streams that are late make it matter which of them a block goes to. */
        if (step % 4096 == 0)
            expect(lane, scene.gpu->delay(lane->stream, next_random(lane, 200) * 1000), "a delay");
    }
    while (lane->kept_count)
        give(lane, take_kept(lane));
    pthread_barrier_wait(lane->filled);
    receive(lane);
    expect(lane, scene.gpu->stream_synchronize(lane->stream), "synchronising");
    while (lane->spare_count)
        expect(lane, scene.gpu->event_destroy(lane->spare[--lane->spare_count]), "an event");
    return NULL;
}

struct administrator {
    weir_pool *pools[2];
    atomic_bool over;
    unsigned wrong;
};

static void *administer(void *data)
{
    struct administrator *administrator = data;
    for (unsigned i = 0; !atomic_load(&administrator->over); i++) {
        weir_stats *stats;
        usleep(50000);
        administrator->wrong += weir_pool_trim(administrator->pools[i % 2], 0, NULL, NULL) != WEIR_OK;
        if (weir_stats_take(scene.w, NULL, &stats) == WEIR_OK)
            weir_stats_free(stats);
        else
            administrator->wrong++;
    }
    return NULL;
}

/* Scenes ------------------------------------------------------------------------------------------------------------------------------ */

static uint64_t count_of_allocations(void)
{
    const char *text = getenv("WEIR_STRESS_COUNT");
    uint64_t count = text ? strtoull(text, NULL, 10) : scene_is_sim() ? suite_rounds(100000, 100000) : 10000000;
    ck_assert_msg(count >= LANES, "WEIR_STRESS_COUNT=%s: write a number of at least %d", text, LANES);
    return count;
}

static void set_up_lanes(struct lane *lanes, pthread_barrier_t *filled, uint64_t count, weir_pool *const pools[2])
{
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];
        *lane = (struct lane){ .lanes = lanes, .filled = filled, .foreign = pools[1 - i % 2], .random = i * 7919 + 1 };
        lane->count = count / LANES + (i < count % LANES);
        lane->tags = (uint64_t)(i + 1) << 40;
        lane->s = scene_create(i % 2 ? "side" : NULL);
        lane->stream = weir_stream_handle(lane->s);
        pthread_mutex_init(&lane->lock, NULL);
    }
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void run_lanes(struct lane *lanes, struct administrator *administrator)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, administer, administrator), 0);
    for (size_t i = 0; i < LANES; i++)
        ck_assert_int_eq(pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]), 0);
    for (size_t i = 0; i < LANES; i++)
        pthread_join(lanes[i].thread, NULL);
    atomic_store(&administrator->over, true);
    pthread_join(thread, NULL);
}

static uint64_t count_wrong_marks(gpu_stream stream)
{
    uint64_t wrong = 0;
    ck_assert_int_eq(marks_count_wrong(stream, &wrong), GPU_SUCCESS);
    return wrong;
}

/* Says how much was done, on stderr, where TAP does not look. */
static void tell(uint64_t count, const struct lane *lanes, const struct timespec *start)
{
    double seconds = seconds_since(start);
    uint64_t sent = 0, hits = scene_pool_stats("main").cache_hits + scene_pool_stats("side").cache_hits;
    for (size_t i = 0; i < LANES; i++)
        sent += lanes[i].sent;
    fprintf(stderr, "stress: %llu allocations in %.1f s, %.1f %% of them from caches, %llu freed on another stream\n",
            (unsigned long long)count, seconds, 100.0 * (double)hits / (double)count, (unsigned long long)sent);
}

START_TEST(no_two_owners_share_a_byte)
{
    static struct lane lanes[LANES];
    static struct administrator administrator;
    pthread_barrier_t filled;
    struct timespec start;
    uint64_t count = count_of_allocations();
    scene_open(policies[_i]);
    administrator.pools[0] = scene.pool;
    scene_ok(weir_pool_get(scene.w, "side", 0, NULL, &administrator.pools[1]), "weir_pool_get");
    gpu_stream stream = scene_stream(0);
    ck_assert_int_eq(marks_open(scene.gpu, stream, count / MARKED + LANES), GPU_SUCCESS);
    pthread_barrier_init(&filled, NULL, LANES);
    set_up_lanes(lanes, &filled, count, administrator.pools);
    clock_gettime(CLOCK_MONOTONIC, &start);
    run_lanes(lanes, &administrator);
    tell(count, lanes, &start);
    for (size_t i = 0; i < LANES; i++) {
        ck_assert_msg(!lanes[i].complaint[0], "%s", lanes[i].complaint);
        ck_assert_uint_eq(lanes[i].overlaps, 0);
    }
    ck_assert_msg(!ownership_is_full(), "more addresses were seen than the map has room for: run fewer allocations");
    ck_assert_uint_eq(count_wrong_marks(stream), 0);
    ck_assert_uint_eq(administrator.wrong, 0);
    ck_assert_uint_eq(scene_pool_stats("main").live_blocks + scene_pool_stats("side").live_blocks, 0);
    ck_assert_uint_eq(scene_pool_stats("main").mallocs + scene_pool_stats("side").mallocs, count);
    marks_close(stream);
}
END_TEST

/* What the test above would miss if these were not so ------------------------------------------------------------------------------ */

START_TEST(mark_that_was_overwritten_is_found)
{
    scene_open(policies[0]);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = weir_stream_handle(s);
    ck_assert_int_eq(marks_open(scene.gpu, stream, 8), GPU_SUCCESS);
    void *ptr = scene_malloc(s, 4 * KIB);
    ck_assert_int_eq(marks_write(stream, ptr, 4 * KIB, 1), GPU_SUCCESS);
    ck_assert_int_eq(marks_check(stream, ptr, 4 * KIB, 1), GPU_SUCCESS);
    scene_sync(stream);
    ck_assert_uint_eq(count_wrong_marks(stream), 0);
    ck_assert_int_eq(marks_write(stream, ptr, 4 * KIB, 2), GPU_SUCCESS);
    ck_assert_int_eq(marks_check(stream, ptr, 4 * KIB, 1), GPU_SUCCESS);
    scene_sync(stream);
    ck_assert_uint_gt(count_wrong_marks(stream), 0);
    scene_free(s, ptr);
    marks_close(stream);
}
END_TEST

START_TEST(overlapping_claims_are_found)
{
    const char *ptr = (const char *)(UINT64_C(1) << 40);
    ck_assert(ownership_claim(ptr, 3 * MIB));
    ck_assert(!ownership_claim(ptr + 3 * MIB - 512, 1024));
    ck_assert(ownership_claim(ptr + 3 * MIB + 512, 512));
    ck_assert(ownership_give_up(ptr, 3 * MIB));
    ck_assert(!ownership_give_up(ptr, 512));
    ck_assert(ownership_claim(ptr + 512, 1));
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("stress");
    TCase *stress = suite_case(suite, "stress", 220), *means = suite_case(suite, "means", 60);
    tcase_add_checked_fixture(stress, scene_begin, scene_end);
    tcase_add_checked_fixture(means, scene_begin, scene_end);
    suite_add(means, mark_that_was_overwritten_is_found, overlapping_claims_are_found);
    tcase_add_loop_test(stress, no_two_owners_share_a_byte, 0, POLICIES);
    return suite_run(suite);
}
