/* SPDX-License-Identifier: MIT */
/*
 * Figures that add up: a long random workload, checked step by step against a model that knows nothing but what was asked for.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/stream.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static const char policy_format[] = "weir: 1\n"
                                    "exact_peaks: %2$s\n"
                                    "defaults: { pool: main }\n"
                                    "pools:\n"
                                    "  main: { release_threshold: 128MiB, peer_access: all, cache: %1$s }\n"
                                    "  capped: { max_size: 256MiB, small_below: 64KiB, release_threshold: none, cache: %1$s }\n"
                                    "  plain: { small_below: 0, devices: [0], cache: %1$s }\n"
                                    "  shared: { ipc: posix_fd, devices: [1] }\n"
                                    "streams:\n"
                                    "  to_capped: { pool: capped }\n"
                                    "  to_plain: { pool: plain }\n"
                                    "  to_shared: { pool: shared }\n"
                                    "  own: { pool: capped, private: true }\n";

/* What `cache` is in all pools that may have one. */
struct caches {
    const char *text;
    uint64_t per_stream, per_device, largest; /* largest: 0 means off */
    bool exact;                               /* exact_peaks */
};

static const struct caches defaults = { "{}", MIB(64), MIB(512), MIB(1), false };
static const struct caches roomy = { "{ per_stream: 128MiB, largest: 16MiB, capture_check: false }", MIB(128), MIB(512), MIB(16), false };
static const struct caches tight = { "{ per_stream: 200KiB, per_device: 300KiB, largest: 100KiB }", KIB(200), KIB(300), KIB(100), false };
static const struct caches off = { "off", 0, 0, 0, false };
static const struct caches exact = { "{}", MIB(64), MIB(512), MIB(1), true };

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The model ---------------------------------------------------------------------------------------------------------------------------- */

#define DEVICES 2
#define STREAMS 8
#define BLOCKS_MAX 128
#define EDGE 64 /* bytes at both ends of a block that carry its pattern */

/* One pool of the policy, or all private ones of an entry and device together. */
struct account {
    const char *name;
    int device;
    int is_private;
    uint64_t live, live_high, blocks, mallocs, frees, failures;
    uint64_t rounding; /* bytes that CUDA gave for live blocks above what was asked */
    uint64_t hits;     /* the most that was seen */
};

static struct account accounts[] = {
    { .name = "main", .device = 0 },
    { .name = "main", .device = 1 },
    { .name = "capped", .device = 0 },
    { .name = "capped", .device = 1 },
    { .name = "plain", .device = 0 },
    { .name = "shared", .device = 1 },
    { .name = "capped", .device = 0, .is_private = 1 },
    { .name = "capped", .device = 1, .is_private = 1 },
};
#define ACCOUNTS (sizeof accounts / sizeof accounts[0])
#define POLICY_POOLS 6

struct block {
    unsigned char *ptr;
    size_t size;
    uint64_t rounding;
    struct account *account;
    int stream; /* the slot in which it was last used, -1 if that stream is closed, and so done */
    unsigned char pattern;
};

static struct {
    weir *w;
    const struct caches *caches;
    uint64_t random;
    struct {
        weir_stream *s;
        struct account *account; /* of the pool that serves it */
        int device;
    } streams[STREAMS];
    struct block blocks[BLOCKS_MAX];
    size_t count;
    gpu_event events[DEVICES];
    uint64_t digest; /* of all figures seen */
} world;

static uint64_t draw(uint64_t below)
{
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return (world.random >> 11) % below;
}

/* 1 byte to 64 MiB, each order of magnitude as likely as the others. */
static size_t draw_size(void)
{
    uint64_t top = UINT64_C(1) << (1 + draw(26));
    return (size_t)(top / 2 + draw(top / 2 + 1));
}

/* What is asked of CUDA for a request that a cache may keep: multiples of 512 bytes up to 4 KiB, above eight sizes for each doubling. */
static uint64_t size_class_of(uint64_t size)
{
    uint64_t step = 512;
    while (size > 16 * step)
        step *= 2;
    return (size + step - 1) / step * step;
}

static uint64_t rounding_of(const struct account *account, size_t size, size_t slot)
{
    bool is_cached = world.caches->largest && strcmp(account->name, "shared") != 0 && world.streams[slot].account == account;
    return is_cached && size_class_of(size) <= world.caches->largest ? size_class_of(size) - size : 0;
}

static struct account *find_account(const char *name, int device, int is_private)
{
    for (size_t i = 0; i < ACCOUNTS; i++)
        if (strcmp(accounts[i].name, name) == 0 && accounts[i].device == device && accounts[i].is_private == is_private)
            return &accounts[i];
    ck_abort_msg("no pool %s on device %d", name, device);
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

static void open_slot(size_t slot)
{
    static const char *const names[DEVICES][4] = { { NULL, "to_capped", "to_plain", "own" }, { NULL, "to_capped", "to_shared", "own" } };
    int device = (int)draw(DEVICES);
    const char *name = names[device][draw(4)];
    weir_stream *s = fixture_stream(world.w, device, name);
    world.streams[slot].s = s;
    world.streams[slot].device = device;
    world.streams[slot].account = find_account(weir_pool_name(weir_stream_pool(s)), device, name && strcmp(name, "own") == 0);
}

static void close_slot(size_t slot)
{
    weir_stream_close(world.streams[slot].s);
    world.streams[slot].s = NULL;
    for (size_t i = 0; i < world.count; i++)
        if (world.blocks[i].stream == (int)slot)
            world.blocks[i].stream = -1;
}

static void reopen(void)
{
    size_t slot = draw(STREAMS);
    close_slot(slot);
    open_slot(slot);
}

static gpu_stream handle_of(size_t slot)
{
    return weir_stream_handle(world.streams[slot].s);
}

/* Orders what `slot` does next behind the last use of the block, without waiting for it. */
static void order_behind(const struct block *block, size_t slot)
{
    const struct gpu *gpu = fixture_gpu();
    if (block->stream < 0 || block->stream == (int)slot)
        return;
    gpu_event event = world.events[world.streams[block->stream].device];
    ck_assert_int_eq(gpu->event_record(event, handle_of((size_t)block->stream)), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_wait_event(handle_of(slot), event), GPU_SUCCESS);
}

/* Data --------------------------------------------------------------------------------------------------------------------------------- */

static size_t edge_of(const struct block *block)
{
    return block->size < EDGE ? block->size : EDGE;
}

/* Only streams of the block's own device may touch it, or any where peers have access. */
static bool can_touch(const struct block *block, size_t slot)
{
    return world.streams[slot].device == block->account->device || strcmp(block->account->name, "main") == 0;
}

static void mark(struct block *block, size_t slot)
{
    const struct gpu *gpu = fixture_gpu();
    size_t edge = edge_of(block);
    block->pattern = (unsigned char)draw(256);
    ck_assert_int_eq(gpu->set_async(block->ptr, block->pattern, edge, handle_of(slot)), GPU_SUCCESS);
    ck_assert_int_eq(gpu->set_async(block->ptr + block->size - edge, block->pattern, edge, handle_of(slot)), GPU_SUCCESS);
    block->stream = (int)slot;
}

static void check_mark(struct block *block, size_t slot)
{
    const struct gpu *gpu = fixture_gpu();
    unsigned char data[2 * EDGE];
    size_t edge = edge_of(block);
    order_behind(block, slot);
    ck_assert_int_eq(gpu->copy_async(data, block->ptr, edge, handle_of(slot)), GPU_SUCCESS);
    ck_assert_int_eq(gpu->copy_async(data + edge, block->ptr + block->size - edge, edge, handle_of(slot)), GPU_SUCCESS);
    fixture_synchronize(world.streams[slot].s);
    for (size_t i = 0; i < 2 * edge; i++)
        ck_assert_msg(data[i] == block->pattern, "block of %zu bytes has %u instead of %u", block->size, data[i], block->pattern);
    block->stream = (int)slot;
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

static void count_malloc(struct account *account, const struct block *block)
{
    account->live += block->size;
    account->rounding += block->rounding;
    account->blocks++;
    account->mallocs++;
    if (account->live > account->live_high)
        account->live_high = account->live;
}

/* Refused only where one more growth by whole steps would have passed the cap, or the device has no memory for it, although what caches
   held was given back. */
static void count_failure(struct account *account, uint64_t size)
{
    uint64_t growth = (size + MIB(32) - 1) / MIB(32) * MIB(32), room, memory;
    bool is_capped = strcmp(account->name, "capped") == 0;
    ck_assert_int_eq(fixture_gpu()->device_memory(account->device, &room, &memory), GPU_SUCCESS);
    if (!is_capped)
        ck_assert_uint_lt(room, growth);
    else if (!account->is_private && room >= growth)
        ck_assert_uint_gt(fixture_figures(world.w, "capped", account->device).reserved + growth, MIB(256));
    account->failures++;
}

static void allocate(void)
{
    if (world.count == BLOCKS_MAX)
        return;
    size_t slot = draw(STREAMS), size = draw_size(), pool = draw(POLICY_POOLS);
    struct account *account = world.streams[slot].account;
    void *ptr = NULL;
    weir_status status;
    switch (draw(4)) {
    case 0:
        status = weir_malloc(world.w, &ptr, size, world.streams[slot].device, handle_of(slot));
        break;
    case 1:
        account = &accounts[pool];
        /* Where another device's stream is refused at the cap, what the pool grew by goes back only with the next request. */
        if (strcmp(account->name, "capped") == 0)
            account = find_account("capped", world.streams[slot].device, 0);
        status = weir_pool_malloc(fixture_pool(world.w, account->name, account->device), &ptr, size, handle_of(slot));
        break;
    default:
        status = weir_stream_malloc(world.streams[slot].s, &ptr, size);
    }
    if (status != WEIR_OK) {
        ck_assert_int_eq(status, WEIR_OUT_OF_MEMORY);
        ck_assert_ptr_null(ptr);
        count_failure(account, size + rounding_of(account, size, slot));
        return;
    }
    struct block *block = &world.blocks[world.count++];
    *block = (struct block){ .ptr = ptr, .size = size, .rounding = rounding_of(account, size, slot), .account = account, .stream = -1 };
    count_malloc(account, block);
    if (can_touch(block, slot))
        mark(block, slot);
}

static void give_back(void)
{
    if (world.count == 0)
        return;
    struct block *block = &world.blocks[draw(world.count)];
    size_t slot = draw(STREAMS);
    bool is_marked = block->pattern != 0 && can_touch(block, slot);
    if (is_marked && draw(4) == 0)
        check_mark(block, slot);
    order_behind(block, slot);
    weir_status status = draw(2) ? weir_stream_free(world.streams[slot].s, block->ptr) : weir_free(world.w, block->ptr, handle_of(slot));
    ck_assert_int_eq(status, WEIR_OK);
    struct account *account = block->account;
    account->live -= block->size;
    account->rounding -= block->rounding;
    account->blocks--;
    account->frees++;
    ck_assert_int_eq(weir_stream_free(world.streams[slot].s, block->ptr), WEIR_NOT_A_BLOCK);
    *block = world.blocks[--world.count];
}

static void disturb(void)
{
    struct account *account = &accounts[draw(POLICY_POOLS)];
    weir_pool *pool = fixture_pool(world.w, account->name, account->device);
    switch (draw(4)) {
    case 0:
        ck_assert_int_eq(weir_pool_trim(pool, MIB(32) * draw(8), NULL, NULL), WEIR_OK);
        break;
    case 1:
        if (strcmp(account->name, "shared") != 0)
            ck_assert_int_eq(weir_pool_set_release_threshold(pool, MIB(64) * draw(8), NULL), WEIR_OK);
        break;
    case 2:
        reopen();
        break;
    default:
        if (world.count)
            ck_assert_int_eq(weir_free(world.w, world.blocks[0].ptr + 1 + draw(100), NULL), WEIR_NOT_A_BLOCK);
    }
}

/* Checking ----------------------------------------------------------------------------------------------------------------------------- */

static void digest(uint64_t value)
{
    world.digest = (world.digest ^ value) * UINT64_C(0x100000001b3);
}

/* Each stream may have 1 MiB, or the largest block that it caches, more or less than the pool knows of, if it has a cache at all. */
static void check_live_high(const struct account *account, uint64_t live_high)
{
    uint64_t step = world.caches->largest > MIB(1) ? world.caches->largest : MIB(1);
    uint64_t tolerance = world.caches->largest && !world.caches->exact ? STREAMS * step : 0;
    ck_assert_uint_le(live_high, account->live_high + tolerance);
    ck_assert_uint_le(account->live_high, live_high + tolerance);
}

static void check_account(struct account *account, const weir_pool_stats *sum)
{
    ck_assert_uint_eq(sum->live, account->live);
    ck_assert_uint_eq(sum->live_blocks, account->blocks);
    ck_assert_uint_eq(sum->slack, account->rounding); /* nobody else is in these pools */
    if (account->is_private)
        return; /* several pools, of which each has its own */
    check_live_high(account, sum->live_high);
    ck_assert_uint_ge(sum->cache_hits, account->hits);
    ck_assert_uint_le(sum->cache_hits, sum->mallocs);
    account->hits = sum->cache_hits;
    ck_assert_uint_eq(sum->mallocs, account->mallocs);
    ck_assert_uint_eq(sum->frees, account->frees);
    ck_assert_uint_eq(sum->failures, account->failures);
    ck_assert_uint_eq(sum->graph_blocks, 0);
    if (sum->max_size && !account->is_private)
        ck_assert_uint_le(sum->reserved, sum->max_size);
}

static void check_bounds(const weir_pool_stats *pool)
{
    uint64_t cached = 0, large = 0;
    for (size_t slot = 0; slot < STREAMS; slot++) {
        weir_stream *s = world.streams[slot].s;
        if (!s)
            continue;
        ck_assert_uint_le(s->cache.bytes, world.caches->per_stream);
        /* Of large blocks one alone, or a small part of what the pool has, which is less here. */
        ck_assert_uint_le(s->cache.recent.bytes, world.caches->largest ? MIB(64) : 0);
        if (world.streams[slot].device == pool->device && strcmp(weir_pool_name(weir_stream_pool(s)), pool->name) == 0) {
            cached += s->cache.bytes;
            large += s->cache.recent.bytes;
        }
    }
    ck_assert_uint_le(pool->cached, cached + large);
    ck_assert_uint_le(pool->cached, pool->is_exportable ? 0 : world.caches->per_device + large);
}

static void check_figures(void)
{
    weir_stats *stats;
    weir_pool_stats sums[ACCOUNTS];
    memset(sums, 0, sizeof sums);
    ck_assert_int_eq(weir_stats_take(world.w, NULL, &stats), WEIR_OK);
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        fixture_check_identities(pool);
        check_bounds(pool);
        struct account *account = find_account(pool->name, pool->device, pool->is_private);
        weir_pool_stats *sum = &sums[account - accounts];
        weir_pool_stats before = *sum;
        *sum = *pool;
        sum->live += before.live;
        sum->slack += before.slack;
        sum->live_blocks += before.live_blocks;
        digest(pool->reserved);
        digest(pool->reserved_high);
        digest(pool->cached);
        digest(pool->cache_hits);
    }
    for (size_t i = 0; i < ACCOUNTS; i++)
        check_account(&accounts[i], &sums[i]);
    weir_stats_free(stats);
}

static void begin(uint64_t seed, const struct caches *caches)
{
    char policy[1024];
    fixture_machine("devices=2");
    memset(&world, 0, sizeof world);
    world.caches = caches;
    for (size_t i = 0; i < ACCOUNTS; i++)
        accounts[i] = (struct account){ .name = accounts[i].name, .device = accounts[i].device, .is_private = accounts[i].is_private };
    world.random = seed;
    snprintf(policy, sizeof policy, policy_format, caches->text, caches->exact ? "true" : "false");
    world.w = fixture_open(policy);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(fixture_gpu()->event_create(device, &world.events[device]), GPU_SUCCESS);
    for (size_t slot = 0; slot < STREAMS; slot++)
        open_slot(slot);
}

static void run(unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        uint64_t what = draw(100);
        if (what < 46)
            allocate();
        else if (what < 91)
            give_back();
        else if (what < 96)
            fixture_synchronize(world.streams[draw(STREAMS)].s);
        else
            disturb();
        if (i % 100 == 0)
            check_figures();
    }
    check_figures();
}

static void end(void)
{
    uint64_t hits = 0;
    while (world.count)
        give_back();
    check_figures();
    for (size_t slot = 0; slot < STREAMS; slot++)
        close_slot(slot);
    check_figures(); /* without streams nothing is cached */
    for (size_t i = 0; i < ACCOUNTS; i++)
        hits += accounts[i].hits;
    ck_assert_int_eq(hits > 0, world.caches->largest > 0);
    weir_close(world.w);
    const char *line = fixture_log(); /* of refusals at the cap; what close itself has to say would come behind it */
    ck_assert_msg(!*line || strstr(line, "no ") == line, "%s", line);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(fixture_gpu()->event_destroy(world.events[device]), GPU_SUCCESS);
    fixture_expect_empty();
}

static const struct caches *const variants[] = { &defaults, &tight, &off, &roomy, &exact };

START_TEST(figures_agree_with_a_model_over_many_steps)
{
    begin(1, variants[_i]);
    run(suite_rounds(20000, 100000));
    end();
}
END_TEST

static const uint64_t seeds[] = { 20260, 987654321, 42 };

START_TEST(figures_agree_with_a_model_for_other_seeds)
{
    begin(seeds[_i / COUNT(variants)], variants[_i % COUNT(variants)]);
    run(suite_rounds(3000, 10000));
    end();
}
END_TEST

START_TEST(same_seed_gives_the_same_figures)
{
    begin(5, variants[_i]);
    run(suite_rounds(2000, 5000));
    end();
    uint64_t first = world.digest;
    begin(5, variants[_i]);
    run(suite_rounds(2000, 5000));
    end();
    ck_assert_uint_eq(world.digest, first);
}
END_TEST

/* The highest figures ------------------------------------------------------------------------------------------------------------------ */

START_TEST(reset_makes_the_highest_figures_start_from_what_there_is)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: none, small_below: 0 } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *kept = fixture_malloc(s, MIB(40)), *gone = fixture_malloc(s, MIB(100));
    ck_assert_int_eq(weir_stream_free(s, gone), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, MIB(140));
    ck_assert_uint_ge(fixture_figures(w, "a", 0).reserved_high, MIB(140));
    ck_assert_int_eq(weir_stats_reset_peaks(w, 0, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, MIB(40));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved_high, fixture_figures(w, "a", 0).reserved);
    fixture_malloc(s, MIB(10));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, MIB(50));
    ck_assert_int_eq(weir_stream_free(s, kept), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, MIB(50));
    weir_close(w);
}
END_TEST

START_TEST(reset_of_one_device_leaves_the_others)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    for (int device = 0; device < 2; device++) {
        weir_stream *s = fixture_stream(w, device, NULL);
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(40))), WEIR_OK);
    }
    ck_assert_int_eq(weir_stats_reset_peaks(w, 1, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, MIB(40));
    ck_assert_uint_eq(fixture_figures(w, "a", 1).live_high, 0);
    ck_assert_int_eq(weir_stats_reset_peaks(w, -1, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, 0);
    ck_assert_int_eq(weir_stats_reset_peaks(w, 2, NULL), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_stats_reset_peaks(w, -2, NULL), WEIR_NOT_FOUND);
    weir_close(w);
}
END_TEST

/* Below the megabyte that a stream may keep to itself. */
START_TEST(exact_peaks_count_what_caches_serve_to_the_byte)
{
    void *ptrs[10];
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\nexact_peaks: true\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 10; i++)
            ptrs[i] = fixture_malloc(s, 1001);
        for (unsigned i = 0; i < 10; i++)
            ck_assert_int_eq(weir_stream_free(s, ptrs[i]), WEIR_OK);
    }
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, 10010);
    ck_assert_int_eq(weir_stats_reset_peaks(w, 0, NULL), WEIR_OK);
    for (unsigned i = 0; i < 7; i++)
        ptrs[i] = fixture_malloc(s, 1002);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_high, 7014);
    ck_assert_uint_gt(fixture_figures(w, "a", 0).cache_hits, 20);
    weir_close(w);
}
END_TEST

/* What the threads of one test share. */
struct beside {
    weir *w;
    gpu_stream unopened;
    unsigned rounds;
    atomic_bool is_over;
};

/* Frees a block of a class where no cache takes it, so that each request of it is one to CUDA. */
static void *ask_cuda_again_and_again(void *data)
{
    struct beside *beside = data;
    weir_stream *s = fixture_stream(beside->w, 0, NULL);
    for (unsigned i = 0; i < beside->rounds; i++)
        ck_assert_int_eq(weir_free(beside->w, fixture_malloc(s, MIB(1) + 1), beside->unopened), WEIR_OK);
    weir_stream_close(s);
    atomic_store(&beside->is_over, true);
    return NULL;
}

static void *look_again_and_again(void *data)
{
    struct beside *beside = data;
    while (!atomic_load(&beside->is_over))
        ck_assert_uint_le(fixture_figures(beside->w, "a", 0).live_high, MIB(1) + 1 + 512);
    return NULL;
}

/* Of a request to CUDA other threads see what it is rounded up by later than its bytes. */
START_TEST(exact_peaks_have_nothing_of_what_classes_round_up_beside_other_threads)
{
    fixture_machine(NULL);
    struct beside beside = { .w = fixture_open("weir: 1\nexact_peaks: true\npools: { a: { cache: { largest: 2MiB } } }\n"),
                             .rounds = suite_rounds(100000, 1000000) };
    pthread_t asking, looking;
    weir_stream *s = fixture_stream(beside.w, 0, NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &beside.unopened), GPU_SUCCESS);
    ck_assert_int_eq(pthread_create(&asking, NULL, ask_cuda_again_and_again, &beside), 0);
    ck_assert_int_eq(pthread_create(&looking, NULL, look_again_and_again, &beside), 0);
    while (!atomic_load(&beside.is_over))
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 512)), WEIR_OK);
    pthread_join(asking, NULL);
    pthread_join(looking, NULL);
    ck_assert_uint_le(fixture_figures(beside.w, "a", 0).live_high, MIB(1) + 1 + 512);
    weir_close(beside.w);
    fixture_gpu()->stream_destroy(beside.unopened);
}
END_TEST

/* Single facts ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(slack_is_what_size_classes_round_up)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, 1);          /* 512 */
    fixture_malloc(s, 513);        /* 1 KiB */
    fixture_malloc(s, KIB(8) + 1); /* 9 KiB */
    fixture_malloc(s, MIB(1) + 1); /* above cache.largest */
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 1 + 513 + KIB(8) + 1 + MIB(1) + 1);
    ck_assert_uint_eq(figures.used, 512 + KIB(1) + KIB(9) + MIB(1) + 1);
    ck_assert_uint_eq(figures.slack, 511 + 511 + KIB(1) - 1);
    weir_close(w);
}
END_TEST

START_TEST(blocks_on_streams_that_were_not_opened_make_no_slack)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, 513, 0, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).used, 513);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, 0);
    weir_close(w);
}
END_TEST

START_TEST(freed_block_moves_from_live_and_slack_to_cached)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 5000)), WEIR_OK);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 0);
    ck_assert_uint_eq(figures.slack, 0);
    ck_assert_uint_eq(figures.cached, 5120);
    ck_assert_uint_eq(figures.used, 5120);
    ck_assert_uint_eq(figures.frees, 1);
    weir_close(w);
}
END_TEST

START_TEST(request_served_by_a_cache_counts_as_malloc_and_as_hit)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 5000)), WEIR_OK);
    uint64_t calls = sim_calls("malloc_async");
    fixture_malloc(s, 4700); /* of the same class */
    ck_assert_uint_eq(sim_calls("malloc_async"), calls);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.mallocs, 2);
    ck_assert_uint_eq(figures.cache_hits, 1);
    ck_assert_uint_eq(figures.cached, 0);
    ck_assert_uint_eq(figures.live, 4700);
    ck_assert_uint_eq(figures.slack, 420);
    weir_close(w);
}
END_TEST

START_TEST(figures_of_a_closed_streams_cache_stay_in_its_pool)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 5000)), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 5000)), WEIR_OK);
    weir_stream_close(s);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.mallocs, 2);
    ck_assert_uint_eq(figures.frees, 2);
    ck_assert_uint_eq(figures.cache_hits, 1);
    ck_assert_uint_eq(figures.cached, 0);
    ck_assert_uint_eq(figures.used, 0);
    weir_close(w);
}
END_TEST

START_TEST(without_a_cache_blocks_of_odd_sizes_make_no_slack)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { cache: off } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, 1);
    fixture_malloc(s, 513);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 514);
    ck_assert_uint_eq(figures.used, 514);
    ck_assert_uint_eq(figures.slack, 0);
    ck_assert_uint_eq(figures.reserved, MIB(32));
    weir_close(w);
}
END_TEST

START_TEST(high_marks_stay_when_memory_goes)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: none } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(100))), WEIR_OK);
    fixture_synchronize(s);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live_high, MIB(100));
    ck_assert_uint_eq(figures.reserved_high, MIB(128));
    ck_assert_uint_eq(figures.reserved, 0);
    weir_close(w);
}
END_TEST

START_TEST(failed_requests_are_counted_and_nothing_else_changes)
{
    void *ptr;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, GIB(2), 0, NULL), WEIR_OUT_OF_MEMORY);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.failures, 1);
    ck_assert_uint_eq(figures.mallocs, 0);
    ck_assert_uint_eq(figures.live, 0);
    ck_assert_uint_eq(figures.live_high, 0);
    weir_close(w);
}
END_TEST

START_TEST(figures_that_cuda_does_not_give_are_an_error)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, MIB(3));
    for (unsigned nth = 1; nth <= 6; nth++) { /* used, reserved and its mark, of pool and twin */
        error = (weir_error)WEIR_ERROR_INIT;
        sim_fail("pool_get", nth, GPU_UNKNOWN);
        ck_assert_int_eq(weir_stats_take(w, &error, &stats), WEIR_CUDA_ERROR);
        ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
        ck_assert_ptr_null(stats);
    }
    weir_close(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *tcase = suite_case(suite, "figures", 0);
    suite_add(tcase, slack_is_what_size_classes_round_up, reset_makes_the_highest_figures_start_from_what_there_is,
              reset_of_one_device_leaves_the_others, exact_peaks_count_what_caches_serve_to_the_byte,
              blocks_on_streams_that_were_not_opened_make_no_slack, freed_block_moves_from_live_and_slack_to_cached,
              request_served_by_a_cache_counts_as_malloc_and_as_hit, figures_of_a_closed_streams_cache_stay_in_its_pool,
              without_a_cache_blocks_of_odd_sizes_make_no_slack, high_marks_stay_when_memory_goes,
              failed_requests_are_counted_and_nothing_else_changes, figures_that_cuda_does_not_give_are_an_error);

    tcase = suite_case(suite, "threads", 300);
    suite_add(tcase, exact_peaks_have_nothing_of_what_classes_round_up_beside_other_threads);

    tcase = suite_case(suite, "random", 300);
    tcase_add_loop_test(tcase, figures_agree_with_a_model_over_many_steps, 0, 3);
    tcase_add_loop_test(tcase, figures_agree_with_a_model_for_other_seeds, 0, COUNT(seeds) * COUNT(variants));
    tcase_add_loop_test(tcase, same_seed_gives_the_same_figures, 0, COUNT(variants));
    return suite_run(suite);
}
