/* SPDX-License-Identifier: MIT */
/* The memory of graphs, as addresses alone: which parts of which chunks are handed out. */
#include <stdlib.h>

#include "plugin/torch/arena.h"
#include "tests/support/suite.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define CHUNK (2 * MIB)

static struct weir__table live;
static struct torch_arena arena = { .live = &live };
static char *base = (char *)(uintptr_t)(16 * MIB);
static int stream, other;

static void add(const void *key)
{
    ck_assert(torch_arena_add(&arena, &(struct torch_arena_chunk){ .base = base, .size = CHUNK, .key = key }));
}

static void set_up(void)
{
    weir__table_init(&live);
    add(&stream);
}

static void drop(void)
{
    ck_assert_ptr_nonnull(arena.chunks);
    ck_assert_uint_eq(arena.chunks->live_count, 0);
    torch_arena_remove(arena.chunks);
}

static void tear_down(void)
{
    drop();
    ck_assert_ptr_null(arena.chunks);
    ck_assert_ptr_null(arena.free_parts);
    ck_assert_uint_eq(arena.live_count, 0);
    ck_assert_uint_eq(live.count, 0);
    weir__table_destroy(&live);
}

static char *take(size_t size)
{
    char *ptr = torch_arena_take(&arena, &stream, 0, size, false);
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

/* Returns what was asked for; 0: it is no live part. */
static size_t try_to_give(const void *ptr)
{
    struct torch_arena_part *part = torch_arena_find(&live, ptr);
    struct torch_arena_chunk *empty;
    if (!part)
        return 0;
    struct torch_arena *owner = torch_arena_of(part);
    size_t asked = torch_arena_give(part, &empty);
    ck_assert_ptr_eq(owner, &arena);
    ck_assert(empty ? !empty->live_count : arena.live_count > 0);
    return asked;
}

static void give(const void *ptr)
{
    ck_assert_uint_gt(try_to_give(ptr), 0);
}

START_TEST(first_part_has_the_address_of_its_chunk_and_may_be_all_of_it)
{
    char *ptr = take(CHUNK);
    ck_assert_ptr_eq(ptr, base);
    give(ptr);
}
END_TEST

START_TEST(parts_are_aligned_and_do_not_overlap)
{
    char *a = take(1), *b = take(513), *c = take(512);
    ck_assert_ptr_eq(b, a + 512);
    ck_assert_ptr_eq(c, b + 1024);
    give(b);
    give(a);
    give(c);
}
END_TEST

START_TEST(what_is_given_back_serves_again)
{
    char *a = take(4 * KIB), *b = take(4 * KIB);
    give(a);
    ck_assert_ptr_eq(take(4 * KIB), a);
    give(a);
    give(b);
}
END_TEST

START_TEST(smallest_part_that_fits_serves)
{
    char *large = take(64 * KIB), *wall = take(512), *small = take(4 * KIB), *end = take(512);
    give(large);
    give(small);
    ck_assert_ptr_eq(take(3 * KIB), small);
    give(small);
    give(wall);
    give(end);
}
END_TEST

START_TEST(neighbours_that_are_free_become_one)
{
    size_t third = CHUNK / 3 / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    char *a = take(third), *b = take(third), *c = take(third);
    ck_assert_ptr_null(torch_arena_take(&arena, &stream, 0, 2 * third, false));
    give(a);
    give(c);
    give(b);
    char *all = take(CHUNK);
    ck_assert_ptr_eq(all, a);
    give(all);
}
END_TEST

START_TEST(another_stream_gets_nothing_of_it)
{
    ck_assert_ptr_null(torch_arena_take(&arena, &other, 0, 512, false));
}
END_TEST

START_TEST(of_parts_of_one_size_the_lowest_serves)
{
    char *parts[9];
    for (size_t i = 0; i < 9; i++)
        parts[i] = take(4 * KIB);
    for (size_t i = 0; i < 4; i++)
        give(parts[2 * ((i * 3 + 2) % 4) + 1]);
    for (size_t i = 0; i < 4; i++)
        ck_assert_ptr_eq(take(4 * KIB), parts[2 * i + 1]);
    for (size_t i = 0; i < 9; i++)
        give(parts[i]);
}
END_TEST

START_TEST(only_starts_of_live_parts_can_be_given_back)
{
    char *first = take(2 * KIB), *ptr = take(2 * KIB);
    ck_assert_uint_eq(try_to_give(ptr + 512), 0);
    give(first);
    ck_assert_uint_eq(try_to_give(first), 0);
    give(ptr);
    ck_assert_uint_eq(try_to_give(ptr), 0);
}
END_TEST

START_TEST(chunk_is_empty_with_its_last_part)
{
    struct torch_arena_chunk *empty;
    char *first = take(512), *second = take(512);
    torch_arena_give(torch_arena_find(&live, first), &empty);
    ck_assert_ptr_null(empty);
    torch_arena_give(torch_arena_find(&live, second), &empty);
    ck_assert_ptr_eq(empty, arena.chunks);
}
END_TEST

/* What a request looks at grows with the logarithm of the number of parts, if there are as many sizes as parts or only one size. */
START_TEST(request_among_64000_free_parts_looks_at_few)
{
    enum { COUNT = 128000, MOST = 64 };
    static char *parts[COUNT];
    struct torch_arena_chunk chunk = { .base = base + GIB, .size = (size_t)(_i ? 1 + COUNT / 2 : 1) * COUNT * 512, .key = &other };
    ck_assert(torch_arena_add(&arena, &chunk));
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_ptr_nonnull(parts[i] = torch_arena_take(&arena, &other, 0, 512 * (_i ? 1 + i / 2 : 1), false));
    for (size_t i = 0; i < COUNT; i += 2)
        give(parts[i]);
    uint64_t before = arena.looked_count;
    for (size_t i = 0; i < COUNT; i += 2) {
        void *ptr = torch_arena_take(&arena, &other, 0, 512 * (_i ? 1 + i / 2 : 1), false);
        ck_assert_ptr_eq(ptr, parts[i]);
        ck_assert_uint_le(arena.looked_count - before, MOST);
        before = arena.looked_count;
    }
    for (size_t i = 0; i < COUNT; i++)
        give(parts[i]);
    drop();
}
END_TEST

START_TEST(chunks_have_the_sizes_of_torchs)
{
    const size_t sizes[][3] = { { 1, 2, 2 },
                                { MIB, 2, 2 },
                                { MIB + 1, 20, 2 },
                                { 3 * MIB, 20, 4 },
                                { 10 * MIB - 1, 20, 10 },
                                { 10 * MIB, 10, 10 },
                                { 10 * MIB + 1, 12, 12 },
                                { 32 * MIB, 32, 32 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_uint_eq(torch_arena_chunk_size(sizes[i][0]), sizes[i][1] * MIB);
        ck_assert_uint_eq(torch_arena_least_size(sizes[i][0]), sizes[i][2] * MIB);
    }
    ck_assert_uint_eq(torch_arena_chunk_size(SIZE_MAX), 0);
    ck_assert_ptr_null(torch_arena_take(&arena, &stream, 0, SIZE_MAX, false));
}
END_TEST

START_TEST(restored_state_has_its_parts_and_all_else_is_free)
{
    char *a = take(4 * KIB), *b = take(8 * KIB), *c = take(512);
    give(b);
    struct torch_arena_state *state = torch_arena_save(&arena);
    ck_assert_ptr_nonnull(state);
    ck_assert_uint_eq(state->count, 2);
    give(a);
    take(1 * KIB);
    take(64 * KIB);
    ck_assert(torch_arena_fits(&arena, state));
    ck_assert(torch_arena_restore(&arena, state));
    ck_assert_uint_eq(arena.live_count, 2);
    ck_assert_ptr_eq(take(8 * KIB), b);
    ck_assert_uint_eq(try_to_give(a), 4 * KIB);
    give(b);
    give(c);
    give(take(CHUNK));
    free(state);
}
END_TEST

START_TEST(state_does_not_fit_without_its_chunk)
{
    char *ptr = take(512);
    struct torch_arena_state *state = torch_arena_save(&arena);
    give(ptr);
    drop();
    ck_assert(!torch_arena_fits(&arena, state));
    add(&other);
    ck_assert(!torch_arena_fits(&arena, state));
    drop();
    free(state);
    add(&stream);
}
END_TEST

enum { STEPS = CHUNK / TORCH_ARENA_STEP };

/* By looking at every step: where the smallest gap begins that has room, the lowest of several. STEPS: there is none. */
static size_t best_gap(const char *owner, size_t steps)
{
    size_t best = STEPS, best_length = STEPS + 1;
    for (size_t at = 0, end; at < STEPS; at = end + 1) {
        for (end = at; end < STEPS && !owner[end];)
            end++;
        if (end - at >= steps && end - at < best_length) {
            best = at;
            best_length = end - at;
        }
    }
    return best;
}

/* Random takes and gives against a map of the steps of the chunk. */
START_TEST(random_use_takes_the_best_gap_and_never_hands_out_a_byte_twice)
{
    enum { SLOTS = 100 };
    static char owner[STEPS];
    char *ptrs[SLOTS] = { NULL };
    size_t sizes[SLOTS] = { 0 };
    uint64_t random = 1;
    for (unsigned round = 0; round < 20000; round++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t slot = (size_t)(random >> 33) % SLOTS, size = 1 + (size_t)(random >> 40) % (48 * KIB), steps = (size + 511) / 512;
        bool is_take = !ptrs[slot];
        if (is_take) {
            size_t gap = best_gap(owner, steps);
            ptrs[slot] = torch_arena_take(&arena, &stream, 0, size, false);
            ck_assert_ptr_eq(ptrs[slot], gap < STEPS ? base + gap * 512 : NULL);
            sizes[slot] = size;
        }
        if (!ptrs[slot])
            continue;
        for (size_t at = (size_t)(ptrs[slot] - base) / 512, end = at + (sizes[slot] + 511) / 512; at < end; at++) {
            ck_assert_int_eq(owner[at], is_take ? 0 : 1);
            owner[at] = is_take;
        }
        if (!is_take) {
            ck_assert_uint_eq(try_to_give(ptrs[slot]), sizes[slot]);
            ptrs[slot] = NULL;
        }
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (ptrs[i])
            give(ptrs[i]);
    give(take(CHUNK));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = suite_case(suite, "arena", 0);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, first_part_has_the_address_of_its_chunk_and_may_be_all_of_it, parts_are_aligned_and_do_not_overlap,
              what_is_given_back_serves_again, smallest_part_that_fits_serves, of_parts_of_one_size_the_lowest_serves,
              neighbours_that_are_free_become_one, another_stream_gets_nothing_of_it, only_starts_of_live_parts_can_be_given_back,
              chunk_is_empty_with_its_last_part, chunks_have_the_sizes_of_torchs,
              random_use_takes_the_best_gap_and_never_hands_out_a_byte_twice, restored_state_has_its_parts_and_all_else_is_free,
              state_does_not_fit_without_its_chunk);
    tcase_add_loop_test(tcase, request_among_64000_free_parts_looks_at_few, 0, 2);
    return suite_run(suite);
}
