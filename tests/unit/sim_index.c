/* SPDX-License-Identifier: MIT */
/* sim_index.c - what the index of the simulator's pools finds, beside a walk over all segments, after each of many random calls. */
#include <unistd.h>

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim_internal.h"
#include "tests/support/suite.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define STREAMS 5
#define BLOCKS 160

static const struct gpu *g;
static gpu_pool pool;
static gpu_stream streams[STREAMS];
static gpu_event events[STREAMS];
static void *blocks[BLOCKS];
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* As the segments say it. */
static struct sim_segment *walk(uint64_t size, const struct sim_stream *stream)
{
    struct sim_segment *best = NULL, *begin = NULL;
    uint64_t best_bytes = UINT64_MAX, bytes = 0;
    for (struct sim_segment *segment = pool->segments;; segment = segment->next) {
        if (segment && sim_memory_is_usable(pool, segment, stream)) {
            begin = bytes ? begin : segment;
            bytes += segment->size;
            continue;
        }
        if (bytes >= size && bytes < best_bytes) {
            best = begin;
            best_bytes = bytes;
        }
        if (!segment)
            return best;
        bytes = 0;
    }
}

static void check_index(void)
{
    struct sim_segment *head = NULL;
    const struct sim_stream *stream = streams[draw(STREAMS)];
    uint64_t size = sim_round_up(1 + draw(draw(2) ? 64 * KIB : 40 * MIB), pool->alignment);
    ck_assert(sim_index_is_valid(pool));
    struct sim_segment *found = sim_index_best_fit(pool, size, stream, sim_memory_is_usable, &head);
    ck_assert_ptr_eq(found, walk(size, stream));
    ck_assert(!found || (head->offset <= found->offset && head->offset + head->run > found->offset));
    ck_assert(sim_index_is_valid(pool));
}

/* Starts anew, so that nothing of the last pool is open. */
static void end(void)
{
    char why[256];
    ck_assert_int_eq(sim_configure("memory=32MiB", why, sizeof why), 0);
}

static void begin(const struct gpu_pool_spec *spec, const char *settings)
{
    char why[256];
    ck_assert_int_eq(sim_configure(settings, why, sizeof why), 0);
    const char *reason;
    g = gpu_find("sim", &reason);
    ck_assert_int_eq(g->pool_create(spec, &pool), 0);
    for (int i = 0; i < STREAMS; i++) {
        ck_assert_int_eq(g->stream_create(0, &streams[i]), 0);
        ck_assert_int_eq(g->event_create(0, &events[i]), 0);
    }
}

static void malloc_or_free(size_t slot)
{
    static const uint64_t most[] = { 4 * KIB, 512 * KIB, 3 * MIB, 70 * MIB };
    gpu_stream stream = streams[draw(STREAMS)];
    if (blocks[slot]) {
        ck_assert_int_eq(g->free_async(blocks[slot], stream), 0);
        blocks[slot] = NULL;
        return;
    }
    int code = g->malloc_async(&blocks[slot], 1 + draw(most[draw(4)]), pool, stream);
    ck_assert(code == 0 || code == GPU_OUT_OF_MEMORY);
    blocks[slot] = code ? NULL : blocks[slot];
}

/* With nothing to be kept, each whole step that is idle goes back, unless it was exported. */
static void trim(uint64_t keep)
{
    ck_assert_int_eq(g->pool_trim(pool, keep), 0);
    for (const struct sim_segment *segment = pool->segments; segment && !keep; segment = segment->next)
        if (segment->state == SIM_SEGMENT_FREE && segment->observed && !segment->exported)
            ck_assert_uint_ge(sim_round_up(segment->offset, SIM_STEP), sim_round_down(segment->offset + segment->size, SIM_STEP));
}

static void do_another(uint64_t what)
{
    gpu_stream stream = streams[draw(STREAMS)];
    gpu_event event = events[draw(STREAMS)];
    enum gpu_pool_attribute reuse = GPU_POOL_REUSE_EVENT_DEPENDENCIES + (enum gpu_pool_attribute)draw(3);
    struct gpu_shared_block shared;
    void *block = blocks[draw(BLOCKS)];
    switch (what) {
    case 0:
        ck_assert_int_eq(g->stream_synchronize(stream), 0);
        return;
    case 1:
        ck_assert_int_eq(draw(4) ? g->event_synchronize(event) : g->device_synchronize(0), 0);
        return;
    case 2:
        ck_assert_int_eq(g->event_record(event, stream), 0);
        return;
    case 3:
        ck_assert_int_eq(g->stream_wait_event(stream, event), 0);
        return;
    case 4:
        trim(draw(2) ? 0 : draw(512 * MIB));
        return;
    case 5:
        ck_assert_int_eq(draw(4) ? 0 : g->pool_set(pool, reuse, draw(3) > 0), 0);
        return;
    case 6:
        ck_assert_int_eq(g->delay(stream, draw(100000)), 0);
        return;
    case 7:
        g->pause(draw(50000));
        return;
    case 8:
        ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, draw(2) ? UINT64_MAX : draw(256 * MIB)), 0);
        return;
    default:
        if (block && pool->handle_exported)
            ck_assert_int_eq(g->block_export(block, &shared), 0);
    }
}

static void play(unsigned seed)
{
    state = seed;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = NULL;
    for (int i = 0; i < 4000; i++) {
        if (draw(4))
            malloc_or_free(draw(BLOCKS));
        else
            do_another(draw(10));
        check_index();
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        ck_assert(!blocks[i] || g->free_async(blocks[i], streams[0]) == 0);
        blocks[i] = NULL;
    }
    check_index();
}

START_TEST(index_finds_what_a_walk_finds)
{
    for (unsigned seed = 1; seed <= suite_rounds(1, 40); seed++) {
        begin(&(struct gpu_pool_spec){ .device = 0 }, "memory=2GiB");
        play(seed);
    }
}
END_TEST

START_TEST(index_finds_what_a_walk_finds_where_memory_is_short)
{
    for (unsigned seed = 1; seed <= suite_rounds(1, 40); seed++) {
        begin(&(struct gpu_pool_spec){ .device = 0, .max_size = 288 * MIB }, "memory=300MiB,trim=1ms/GiB");
        play(seed);
    }
}
END_TEST

START_TEST(index_finds_what_a_walk_finds_where_blocks_are_exported)
{
    for (unsigned seed = 1; seed <= suite_rounds(1, 40); seed++) {
        int fd;
        begin(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true }, "memory=2GiB");
        ck_assert_int_eq(g->pool_export(pool, &fd), 0);
        close(fd);
        play(seed);
    }
}
END_TEST

START_TEST(many_runs_stay_in_order)
{
    enum { MANY = 5000 };
    static void *many[MANY];
    begin(&(struct gpu_pool_spec){ .device = 0 }, "memory=2GiB");
    state = 7;
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(g->malloc_async(&many[i], 1 + draw(100 * KIB), pool, streams[0]), 0);
    for (int i = 0; i < MANY; i += 2)
        ck_assert_int_eq(g->free_async(many[i], streams[0]), 0);
    check_index();
    for (int i = 1; i < MANY; i += 2)
        ck_assert_int_eq(g->free_async(many[i], streams[1]), 0);
    ck_assert_int_eq(g->device_synchronize(0), 0);
    check_index();
    ck_assert_ptr_null(pool->segments->next);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simulator's index");
    TCase *all = suite_case(suite, "index", 120);
    tcase_add_checked_fixture(all, NULL, end);
    suite_add(all, index_finds_what_a_walk_finds, index_finds_what_a_walk_finds_where_memory_is_short,
              index_finds_what_a_walk_finds_where_blocks_are_exported, many_runs_stay_in_order);
    return suite_run(suite);
}
