/* SPDX-License-Identifier: MIT */
/* Extents and pages of an arena, beside a model that looks at everything after each step. */
#include "bench/numbers.h"
#include "tests/support/suite.h"
#include "tests/unit/arena_model.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define NONE (-1) /* stream */
#define PROGRAM_SIZE 4096

enum { ONE, OTHER };

/* A block that must be served. */
static struct model_block *get(struct model *m, int stream, uint64_t bytes)
{
    struct model_block *block = model_allocate(m, stream, bytes);
    ck_assert_ptr_nonnull(block);
    model_check(m);
    return block;
}

static void put(struct model *m, struct model_block *block, int stream)
{
    model_free(m, block, stream, 0);
    model_check(m);
}

static void expect_offset(const struct model_block *block, uint64_t offset)
{
    ck_assert_uint_eq(block->address - MODEL_BASE, offset);
}

static uint64_t mapped(const struct model *m)
{
    return weir__arena_figures(&m->arena).mapped;
}

/* Owners ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(what_a_stream_freed_serves_it_at_once)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    expect_offset(get(m, ONE, 4 * MIB), 0);
    ck_assert_uint_eq(mapped(m), 4 * MIB);
    model_end(m);
}
END_TEST

START_TEST(another_stream_gets_other_memory_until_the_free_is_complete)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    expect_offset(get(m, OTHER, 4 * MIB), 4 * MIB);
    model_complete(m, ONE, m->sequences[ONE]);
    expect_offset(get(m, OTHER, 4 * MIB), 0);
    model_end(m);
}
END_TEST

START_TEST(a_request_on_no_stream_gets_only_what_is_complete)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    expect_offset(get(m, NONE, 4 * MIB), 4 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_free_that_is_complete_already_is_anybodys)
{
    struct model *m = model_new(20);
    struct model_block *block = get(m, ONE, 4 * MIB);
    model_complete(m, ONE, 1);
    put(m, block, ONE); /* as sequence 1 */
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, 0);
    expect_offset(get(m, OTHER, 4 * MIB), 0);
    model_end(m);
}
END_TEST

START_TEST(of_neighbours_that_merge_the_later_free_counts)
{
    struct model *m = model_new(20);
    struct model_block *low = get(m, ONE, 4 * MIB), *high = get(m, ONE, 4 * MIB);
    put(m, low, ONE);
    put(m, high, ONE);
    model_complete(m, ONE, 1);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, 8 * MIB);
    model_complete(m, ONE, 2);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).complete, 8 * MIB);
    model_end(m);
}
END_TEST

/* The stream itself is served from both at once. */
START_TEST(of_neighbours_whose_stream_keeps_steps_apart_each_free_counts)
{
    struct model *m = model_new(20);
    struct model_block *blocks[3];
    m->streams[ONE].large.keeps_steps = true;
    for (int i = 0; i < 3; i++)
        blocks[i] = get(m, ONE, 4 * MIB);
    put(m, blocks[0], ONE);
    put(m, blocks[1], ONE);
    model_check(m);
    struct model_block *both = get(m, ONE, 8 * MIB);
    expect_offset(both, 0);
    put(m, both, ONE);
    put(m, blocks[2], ONE);
    model_complete(m, ONE, 3);
    model_check(m);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).complete, 8 * MIB);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, 4 * MIB);
    model_end(m);
}
END_TEST

START_TEST(frees_reported_out_of_order_are_complete_in_their_order)
{
    struct model *m = model_new(20);
    struct model_block *a = get(m, ONE, 2 * MIB), *wall = get(m, ONE, 2 * MIB), *b = get(m, ONE, 2 * MIB), *end = get(m, ONE, 2 * MIB);
    model_free(m, a, ONE, 0); /* 1 */
    model_free(m, b, ONE, 1); /* 1, though it is the second */
    model_check(m);
    model_complete(m, ONE, 1);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).complete, 4 * MIB);
    put(m, wall, NONE);
    put(m, end, NONE);
    model_end(m);
}
END_TEST

START_TEST(own_and_complete_neighbours_serve_one_request_before_the_arena_grows)
{
    struct model *m = model_new(20);
    struct model_block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = get(m, ONE, 2 * MIB);
    get(m, OTHER, 2 * MIB); /* behind them, so that none of them is the last */
    put(m, blocks[1], ONE);
    put(m, blocks[2], NONE);
    put(m, blocks[0], NONE);
    put(m, blocks[3], ONE);
    expect_offset(get(m, ONE, 7 * MIB), 0);
    ck_assert_uint_eq(mapped(m), 10 * MIB);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, MIB);
    model_end(m);
}
END_TEST

START_TEST(neighbours_of_others_do_not_serve)
{
    struct model *m = model_new(20);
    struct model_block *own = get(m, ONE, 2 * MIB), *others = get(m, ONE, 2 * MIB);
    get(m, ONE, 2 * MIB);
    put(m, own, ONE);
    put(m, others, OTHER);
    expect_offset(get(m, ONE, 4 * MIB), 6 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_stream_that_waits_for_another_one_gets_what_that_freed)
{
    struct model *m = model_new(20);
    struct model_block *block = get(m, ONE, 4 * MIB);
    get(m, ONE, 2 * MIB);
    put(m, block, ONE);
    model_wait(m, ONE, OTHER);
    model_check(m);
    expect_offset(get(m, ONE, 4 * MIB), 6 * MIB); /* it is the other one's now */
    expect_offset(get(m, OTHER, 4 * MIB), 0);
    model_end(m);
}
END_TEST

START_TEST(what_was_passed_on_is_complete_once_the_waiting_stream_was_seen_there)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    model_wait(m, ONE, OTHER);
    model_complete(m, OTHER, m->sequences[OTHER] - 1);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, 4 * MIB);
    model_complete(m, OTHER, m->sequences[OTHER]);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).pending, 0);
    expect_offset(get(m, NONE, 4 * MIB), 0);
    model_end(m);
}
END_TEST

/* Pinned ------------------------------------------------------------------------------------------------------------------------------- */

/* A trim gives back every page that is free as a whole, so what is complete after it is pinned. */
START_TEST(what_a_trim_leaves_is_what_is_pinned)
{
    struct model *m = model_new(64);
    struct model_block *blocks[36];
    uint64_t state = (uint64_t)_i, pinned, before;
    for (unsigned i = 0; i < 36; i++) {
        state = state * 636413622384679365u + 1442695036888963367u;
        blocks[i] = get(m, NONE, (state >> 33) % (i % 3 ? 2 * MIB : 100 * KIB) + 1);
    }
    for (unsigned i = 0; i < 36; i++)
        if (i % 7)
            put(m, blocks[i], NONE);
    ck_assert(weir__arena_pinned(&m->arena, SIZE_MAX, &before));
    model_trim(m, UINT64_MAX);
    ck_assert(weir__arena_pinned(&m->arena, SIZE_MAX, &pinned));
    ck_assert_uint_gt(pinned, 0);
    ck_assert_uint_eq(pinned, before);
    ck_assert_uint_eq(pinned, weir__arena_figures(&m->arena).complete);
    ck_assert(!weir__arena_pinned(&m->arena, 2, &pinned));
    model_end(m);
}
END_TEST

/* Where -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(the_lowest_fitting_address_of_a_bin_is_taken)
{
    struct model *m = model_new(20);
    struct model_block *low = get(m, NONE, 3 * MIB), *wall = get(m, NONE, MIB), *high = get(m, NONE, 2 * MIB);
    get(m, NONE, 2 * MIB);
    put(m, high, NONE);
    put(m, low, NONE);
    expect_offset(get(m, NONE, 2 * MIB), 0);
    expect_offset(wall, 3 * MIB);
    model_end(m);
}
END_TEST

START_TEST(the_last_free_extent_is_taken_only_where_nothing_else_fits)
{
    struct model *m = model_new(20);
    struct model_block *first = get(m, NONE, 8 * MIB), *wall = get(m, NONE, 2 * MIB), *last = get(m, NONE, 2 * MIB);
    put(m, last, NONE);
    put(m, first, NONE);
    expect_offset(get(m, NONE, 2 * MIB), 0); /* not the 2 MiB that fit exactly */
    expect_offset(get(m, NONE, 7 * MIB), 10 * MIB);
    expect_offset(wall, 8 * MIB);
    ck_assert_uint_eq(mapped(m), 18 * MIB);
    model_end(m);
}
END_TEST

START_TEST(sizes_are_exact_to_512_bytes)
{
    struct model *m = model_new(20);
    expect_offset(get(m, NONE, MIB + 1), 0);
    expect_offset(get(m, NONE, MIB), MIB + 512);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).live, 2 * MIB + 512);
    model_end(m);
}
END_TEST

START_TEST(small_requests_have_a_part_of_their_own)
{
    struct model *m = model_new(20);
    expect_offset(get(m, NONE, MIB - 1), UINT64_C(24) * 2 * MIB);
    expect_offset(get(m, NONE, MIB), 0);
    model_end(m);
}
END_TEST

START_TEST(small_blocks_pin_no_large_pages)
{
    struct model *m = model_new(20);
    struct model_block *large[3];
    for (int i = 0; i < 3; i++) {
        large[i] = get(m, NONE, 8 * MIB);
        get(m, NONE, 64 * KIB);
    }
    for (int i = 0; i < 3; i++)
        put(m, large[i], NONE);
    ck_assert_uint_eq(model_trim(m, UINT64_MAX), 24 * MIB);
    ck_assert_uint_eq(mapped(m), 2 * MIB);
    model_end(m);
}
END_TEST

/* The last free extent is another stream's: what grows is what lies behind it, and they merge when it is complete. */
START_TEST(an_arena_grows_behind_a_last_extent_that_is_pending)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    put(m, get(m, OTHER, 4 * MIB), OTHER);
    ck_assert_uint_eq(mapped(m), 8 * MIB);
    model_complete(m, OTHER, 1);
    model_complete(m, ONE, 1);
    model_check(m);
    expect_offset(get(m, NONE, 8 * MIB), 0);
    ck_assert_uint_eq(mapped(m), 8 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_request_that_lacks_little_grows_what_is_its_own)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    expect_offset(get(m, ONE, 5 * MIB), 0);
    ck_assert_uint_eq(mapped(m), 6 * MIB);
    ck_assert_uint_eq(weir__arena_figures(&m->arena).complete, MIB);
    model_end(m);
}
END_TEST

/* Pages -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(complete_pages_are_moved_before_new_ones_are_created)
{
    struct model *m = model_new(20);
    struct model_block *low = get(m, NONE, 4 * MIB), *wall = get(m, NONE, 2 * MIB), *high = get(m, NONE, 4 * MIB);
    get(m, NONE, 2 * MIB);
    put(m, low, NONE);
    put(m, high, NONE);
    expect_offset(get(m, NONE, 8 * MIB), 12 * MIB);
    expect_offset(wall, 4 * MIB);
    ck_assert_uint_eq(mapped(m), 12 * MIB);
    ck_assert_uint_eq(m->arena.large.moved_count, 2);
    model_end(m);
}
END_TEST

/* Each block ends in the middle of a unit. A freed one between two live ones leaves them the units that it shares with them, no more. */
static const uint64_t between[] = {5 * MIB, 7 * MIB, 11 * MIB + 512, 15 * MIB};

START_TEST(live_neighbours_of_a_large_block_pin_only_the_units_that_they_share_with_it)
{
    uint64_t pinned;
    struct model *m = model_new(24);
    get(m, NONE, between[_i]);
    struct model_block *freed = get(m, NONE, between[_i]);
    get(m, NONE, between[_i]);
    put(m, freed, NONE);
    ck_assert(weir__arena_pinned(&m->arena, SIZE_MAX, &pinned));
    ck_assert_uint_le(pinned, 2 * WEIR__PAGE_UNIT + (between[_i] < 6 * MIB ? WEIR__PAGE_UNIT : 0));
    model_end(m);
}
END_TEST

START_TEST(pages_with_pending_frees_are_neither_moved_nor_released)
{
    struct model *m = model_new(20);
    struct model_block *low = get(m, ONE, 4 * MIB);
    get(m, ONE, 2 * MIB);
    put(m, low, ONE);
    get(m, OTHER, 8 * MIB);
    ck_assert_uint_eq(m->arena.large.moved_count, 0);
    ck_assert_uint_eq(model_trim(m, UINT64_MAX), 0);
    model_complete(m, ONE, 1);
    ck_assert_uint_eq(model_trim(m, UINT64_MAX), 4 * MIB);
    model_end(m);
}
END_TEST

START_TEST(pages_move_from_one_part_to_the_other)
{
    struct model *m = model_new(20);
    put(m, get(m, NONE, 64 * KIB), NONE);
    get(m, NONE, 2 * MIB);
    ck_assert_uint_eq(m->arena.large.moved_count, 1);
    ck_assert_uint_eq(mapped(m), 2 * MIB);
    model_end(m);
}
END_TEST

/* A page of 16 MiB is no page for small requests, but it is memory. */
START_TEST(a_page_too_large_to_be_moved_is_released_where_memory_is_out)
{
    struct model *m = model_new(8);
    put(m, get(m, NONE, 16 * MIB), NONE);
    get(m, NONE, 64 * KIB);
    ck_assert_uint_eq(mapped(m), 2 * MIB);
    ck_assert_uint_eq(m->arena.large.released_count, 1);
    model_end(m);
}
END_TEST

/* The place that lacks the fewest bytes is a hole of 4 MiB and a part of what is free behind it, whose page is needed to fill the hole. */
static const struct {
    const char *label;
    uint64_t before, page; /* bytes behind the hole: of the first page, and of the one in which the request ends */
    uint64_t bytes;
} ends[] = {
    {"the page is the first one behind the hole", 0, 4 * MIB, 6 * MIB},
    {"another page lies between", 2 * MIB, 6 * MIB, 10 * MIB},
};

START_TEST(a_page_that_a_request_would_use_in_part_is_released_where_memory_is_out)
{
    uint64_t mapped_in_the_end = ends[_i].bytes + 2 * MIB;
    struct model *m = model_new(20);
    struct model_block *hole = get(m, NONE, 4 * MIB), *before = ends[_i].before ? get(m, NONE, ends[_i].before) : NULL;
    struct model_block *page = get(m, NONE, ends[_i].page);
    get(m, NONE, 2 * MIB);
    put(m, hole, NONE);
    ck_assert_uint_eq(model_trim(m, UINT64_MAX), 4 * MIB);
    put(m, page, NONE);
    if (before)
        put(m, before, NONE);
    m->capacity = mapped_in_the_end;
    expect_offset(get(m, NONE, ends[_i].bytes), 0);
    ck_assert_uint_eq(mapped(m), mapped_in_the_end);
    model_end(m);
}
END_TEST

START_TEST(an_error_other_than_out_of_memory_costs_no_idle_page)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 8 * MIB), NONE);
    m->is_broken = true;
    m->fail_in = 1;
    ck_assert_ptr_null(model_allocate(m, ONE, 1000));
    model_check(m);
    ck_assert_uint_eq(mapped(m), 8 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_device_that_creates_no_large_pages_serves_in_smaller_ones)
{
    struct model *m = model_new(20);
    m->largest = 6 * MIB;
    get(m, NONE, 40 * MIB);
    ck_assert_uint_eq(mapped(m), 40 * MIB);
    ck_assert_uint_ge(m->arena.large.created_count, 7);
    model_end(m);
}
END_TEST

START_TEST(a_request_that_is_refused_leaves_the_device_what_it_had)
{
    struct model *m = model_new(20);
    m->largest = 8 * MIB;
    struct model_block *low = get(m, NONE, 6 * MIB);
    get(m, NONE, 4 * MIB);
    put(m, low, NONE);
    ck_assert_ptr_null(model_allocate(m, NONE, 38 * MIB));
    model_check(m);
    ck_assert_uint_eq(mapped(m), 10 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_hole_is_filled_where_that_takes_the_fewest_pages)
{
    struct model *m = model_new(20);
    struct model_block *low = get(m, NONE, 3 * MIB), *high = get(m, NONE, 5 * MIB);
    get(m, NONE, 2 * MIB);
    put(m, high, NONE);
    ck_assert_uint_eq(model_trim(m, UINT64_MAX), 4 * MIB); /* of its 5 */
    expect_offset(get(m, NONE, 5 * MIB), 3 * MIB);
    put(m, low, NONE);
    model_end(m);
}
END_TEST

START_TEST(a_trim_gives_back_the_highest_pages_and_no_more_than_it_must)
{
    struct model *m = model_new(20);
    struct model_block *a = get(m, NONE, 2 * MIB), *b = get(m, NONE, 2 * MIB), *c = get(m, NONE, 2 * MIB);
    put(m, a, NONE);
    put(m, b, NONE);
    put(m, c, NONE);
    ck_assert_uint_eq(model_trim(m, 1), 2 * MIB);
    expect_offset(get(m, NONE, 4 * MIB), 0);
    ck_assert_uint_eq(mapped(m), 4 * MIB);
    model_end(m);
}
END_TEST

/* In the middle of a call ---------------------------------------------------------------------------------------------------------------
 */

/* Steps of zeros each ask for a byte. At some number of blocks the growth has the last node. */
START_TEST(others_leave_a_growth_the_node_that_it_needs)
{
    static const uint8_t steps[4 * 4];
    for (int count = 1; count < 80; count++) {
        struct model *m = model_new(20);
        struct model_block *room = get(m, NONE, 64 * KIB);
        for (int i = 0; i < count; i++)
            get(m, NONE, 1);
        get(m, NONE, MIB - 1);
        put(m, room, NONE);
        m->within = steps;
        m->within_count = 4;
        get(m, NONE, MIB - 1);
        ck_assert_uint_eq(m->within_count, 2);
        ck_assert_uint_eq(m->live_count, (size_t)count + 4);
        m->within_count = 0;
        model_end(m);
    }
}
END_TEST

/* A complete page is being moved while its neighbours are freed: they merge with it only where it stays. */
START_TEST(neighbours_freed_while_a_page_is_moved_are_not_moved_with_it)
{
    /* Frees block 0 on no stream, at the first call. */
    static const uint8_t steps[4] = {3, 0, 0, 0};
    struct model *m = model_new(20);
    get(m, NONE, 2 * MIB);
    struct model_block *moved = get(m, NONE, 2 * MIB);
    get(m, NONE, 2 * MIB);
    put(m, moved, NONE);
    m->within = steps;
    m->within_count = 1;
    expect_offset(get(m, NONE, 4 * MIB), 6 * MIB);
    ck_assert_uint_eq(m->within_count, 0);
    ck_assert_uint_eq(m->arena.large.moved_count, 2); /* the second one was free by then */
    ck_assert_uint_eq(mapped(m), 6 * MIB);
    model_end(m);
}
END_TEST

/* Bounds ------------------------------------------------------------------------------------------------------------------------------- */

static const uint64_t impossible[] = {
    0,
    UINT64_C(24) * 2 * MIB + 1,
    UINT64_C(1) << 62,
    (UINT64_C(1) << 63) - 1,
    UINT64_C(1) << 63,
    (UINT64_C(1) << 63) + 1,
    UINT64_MAX - 511,
    UINT64_MAX,
};

START_TEST(what_the_range_cannot_hold_is_refused)
{
    struct model *m = model_new(20);
    put(m, get(m, ONE, 4 * MIB), ONE);
    ck_assert_ptr_null(model_allocate(m, ONE, impossible[_i]));
    model_check(m);
    ck_assert_uint_eq(mapped(m), 4 * MIB);
    model_end(m);
}
END_TEST

START_TEST(what_the_device_cannot_hold_is_refused_and_nothing_is_lost)
{
    struct model *m = model_new(4);
    get(m, NONE, 2 * MIB);
    ck_assert_ptr_null(model_allocate(m, NONE, 7 * MIB));
    model_check(m);
    get(m, NONE, 6 * MIB);
    model_end(m);
}
END_TEST

START_TEST(a_whole_range_is_one_block)
{
    struct model *m = model_new(24);
    expect_offset(get(m, NONE, UINT64_C(24) * 2 * MIB), 0);
    ck_assert_ptr_null(model_allocate(m, NONE, MIB));
    model_end(m);
}
END_TEST

/* Random programs ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(random_programs_agree_with_the_model)
{
    static uint8_t program[PROGRAM_SIZE];
    unsigned rounds = suite_rounds(12, 1500);
    uint64_t state = (uint64_t)_i * rounds + 1;
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof(program); i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            program[i] = (uint8_t)(state >> 24);
        }
        model_run(program, sizeof(program), false);
    }
}
END_TEST

static const struct {
    const char *label;
    uint64_t bytes; /* of each block, of which every second is freed */
    bool trims;
} beside[] = {
    {"holes", WEIR__PAGE_UNIT, true},
    {"free extents without a page of their own", 3 * WEIR__PAGE_UNIT / 2, false},
};

START_TEST(a_growth_beside_ten_thousand_looks_at_few)
{
    enum { BLOCKS = 20000 };
    static uint64_t most = WEIR__PAGE_UNIT;
    static struct weir__extent *blocks[BLOCKS], *block;
    struct weir__arena arena;
    ck_assert(weir__arena_init(&arena, MODEL_BASE, 6 * BLOCKS * WEIR__PAGE_UNIT, &numbers, &most));
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(weir__arena_grow(&arena, NULL, beside[_i].bytes, &blocks[i]), 0);
    for (int i = 0; i < BLOCKS; i += 2)
        weir__arena_give(&arena, blocks[i], NULL, 0);
    if (beside[_i].trims)
        weir__arena_trim(&arena, UINT64_MAX);
    uint64_t before = arena.large.looked_count;
    ck_assert_int_eq(weir__arena_grow(&arena, NULL, 2 * WEIR__PAGE_UNIT, &block), 0);
    ck_assert_uint_lt(arena.large.looked_count - before, 1000);
    weir__arena_clear(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *owners = suite_case(suite, "owners", 0), *where = suite_case(suite, "where", 0), *pages = suite_case(suite, "pages", 0),
          *bounds = suite_case(suite, "bounds", 0), *random = suite_case(suite, "random", 60);
    tcase_add_test(owners, what_a_stream_freed_serves_it_at_once);
    tcase_add_test(owners, another_stream_gets_other_memory_until_the_free_is_complete);
    tcase_add_test(owners, a_request_on_no_stream_gets_only_what_is_complete);
    tcase_add_test(owners, a_free_that_is_complete_already_is_anybodys);
    tcase_add_test(owners, of_neighbours_that_merge_the_later_free_counts);
    tcase_add_test(owners, of_neighbours_whose_stream_keeps_steps_apart_each_free_counts);
    tcase_add_test(owners, frees_reported_out_of_order_are_complete_in_their_order);
    tcase_add_test(owners, own_and_complete_neighbours_serve_one_request_before_the_arena_grows);
    tcase_add_test(owners, neighbours_of_others_do_not_serve);
    tcase_add_test(owners, a_stream_that_waits_for_another_one_gets_what_that_freed);
    tcase_add_test(owners, what_was_passed_on_is_complete_once_the_waiting_stream_was_seen_there);
    tcase_add_loop_test(owners, what_a_trim_leaves_is_what_is_pinned, 0, 20);
    tcase_add_test(where, the_lowest_fitting_address_of_a_bin_is_taken);
    tcase_add_test(where, the_last_free_extent_is_taken_only_where_nothing_else_fits);
    tcase_add_test(where, sizes_are_exact_to_512_bytes);
    tcase_add_test(where, small_requests_have_a_part_of_their_own);
    tcase_add_test(where, small_blocks_pin_no_large_pages);
    tcase_add_test(where, an_arena_grows_behind_a_last_extent_that_is_pending);
    tcase_add_test(where, a_request_that_lacks_little_grows_what_is_its_own);
    tcase_add_test(pages, complete_pages_are_moved_before_new_ones_are_created);
    tcase_add_loop_test(pages, live_neighbours_of_a_large_block_pin_only_the_units_that_they_share_with_it, 0,
                        (int)(sizeof(between) / sizeof(between[0])));
    tcase_add_test(pages, pages_with_pending_frees_are_neither_moved_nor_released);
    tcase_add_test(pages, pages_move_from_one_part_to_the_other);
    tcase_add_test(pages, a_page_too_large_to_be_moved_is_released_where_memory_is_out);
    tcase_add_loop_test(pages, a_page_that_a_request_would_use_in_part_is_released_where_memory_is_out, 0,
                        (int)(sizeof(ends) / sizeof(ends[0])));
    tcase_add_test(pages, an_error_other_than_out_of_memory_costs_no_idle_page);
    tcase_add_test(pages, a_device_that_creates_no_large_pages_serves_in_smaller_ones);
    tcase_add_test(pages, a_request_that_is_refused_leaves_the_device_what_it_had);
    tcase_add_test(pages, a_hole_is_filled_where_that_takes_the_fewest_pages);
    tcase_add_test(pages, a_trim_gives_back_the_highest_pages_and_no_more_than_it_must);
    tcase_add_test(pages, others_leave_a_growth_the_node_that_it_needs);
    tcase_add_test(pages, neighbours_freed_while_a_page_is_moved_are_not_moved_with_it);
    tcase_add_loop_test(bounds, what_the_range_cannot_hold_is_refused, 0, (int)(sizeof(impossible) / sizeof(impossible[0])));
    tcase_add_test(bounds, what_the_device_cannot_hold_is_refused_and_nothing_is_lost);
    tcase_add_loop_test(bounds, a_growth_beside_ten_thousand_looks_at_few, 0, (int)(sizeof(beside) / sizeof(beside[0])));
    tcase_add_test(bounds, a_whole_range_is_one_block);
    tcase_add_loop_test(random, random_programs_agree_with_the_model, 0, 4);
    return suite_run(suite);
}
