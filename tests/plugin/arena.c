/* SPDX-License-Identifier: MIT */
/* The memory of graphs, as addresses alone: which parts of which chunks are handed out. */
#include <stdlib.h>

#include "plugin/torch/arena.h"
#include "tests/support/suite.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define CHUNK (2 * MIB)

static struct torch_arena arena;
static char *base = (char *)(uintptr_t)(16 * MIB);
static int stream, other;

static void set_up(void)
{
    ck_assert(torch_arena_add(&arena, &stream, 0, base, CHUNK));
}

/* What is done about a chunk without live parts. */
static bool keep(void *chunk, uint64_t size, void *data)
{
    (void)chunk, (void)size, (void)data;
    return false;
}

static bool drop(void *chunk, uint64_t size, void *data)
{
    (void)data;
    ck_assert_ptr_eq(chunk, base);
    ck_assert_uint_eq(size, CHUNK);
    return true;
}

static void tear_down(void)
{
    torch_arena_shrink(&arena, keep, NULL);
    ck_assert_ptr_nonnull(arena.chunks);
    torch_arena_shrink(&arena, drop, NULL);
    ck_assert_ptr_null(arena.chunks);
    ck_assert_uint_eq(arena.live_count, 0);
}

static char *take(size_t size)
{
    char *ptr = torch_arena_take(&arena, &stream, 0, size, false);
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

static void give(const void *ptr)
{
    ck_assert(torch_arena_give(&arena, ptr));
}

START_TEST(no_part_has_the_address_of_its_chunk)
{
    char *ptr = take(1);
    ck_assert_ptr_eq(ptr, base + TORCH_ARENA_STEP);
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
    size_t third = (CHUNK - TORCH_ARENA_STEP) / 3 / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    char *a = take(third), *b = take(third), *c = take(third);
    ck_assert_ptr_null(torch_arena_take(&arena, &stream, 0, 2 * third, false));
    give(a);
    give(c);
    give(b);
    char *all = take(CHUNK - TORCH_ARENA_STEP);
    ck_assert_ptr_eq(all, a);
    give(all);
}
END_TEST

START_TEST(another_stream_gets_nothing_of_it)
{
    ck_assert_ptr_null(torch_arena_take(&arena, &other, 0, 512, false));
}
END_TEST

START_TEST(only_starts_of_live_parts_can_be_given_back)
{
    char *ptr = take(2 * KIB);
    ck_assert(!torch_arena_give(&arena, ptr + 512));
    ck_assert(!torch_arena_give(&arena, base));
    give(ptr);
    ck_assert(!torch_arena_give(&arena, ptr));
}
END_TEST

START_TEST(chunk_with_a_live_part_is_not_empty)
{
    char *ptr = take(512);
    torch_arena_shrink(&arena, drop, NULL);
    ck_assert_ptr_nonnull(arena.chunks);
    give(ptr);
    torch_arena_shrink(&arena, drop, NULL);
    ck_assert_ptr_null(arena.chunks);
    set_up();
}
END_TEST

START_TEST(chunk_of_the_usual_size_holds_what_it_was_taken_for)
{
    const size_t sizes[] = { 1, MIB, MIB + 1, 10 * MIB, 10 * MIB + 1, 64 * MIB, 1000 * MIB };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        ck_assert_uint_ge(torch_arena_chunk_size(sizes[i]), sizes[i] + TORCH_ARENA_STEP);
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
    ck_assert_uint_eq(torch_arena_give(&arena, a), 4 * KIB);
    give(b);
    give(c);
    give(take(CHUNK - TORCH_ARENA_STEP));
    free(state);
}
END_TEST

START_TEST(state_does_not_fit_without_its_chunk)
{
    char *ptr = take(512);
    struct torch_arena_state *state = torch_arena_save(&arena);
    give(ptr);
    torch_arena_shrink(&arena, drop, NULL);
    ck_assert(!torch_arena_fits(&arena, state));
    ck_assert(torch_arena_add(&arena, &other, 0, base, CHUNK));
    ck_assert(!torch_arena_fits(&arena, state));
    torch_arena_shrink(&arena, drop, NULL);
    free(state);
    set_up();
}
END_TEST

/* Random takes and gives against a map of the steps of the chunk. */
START_TEST(random_use_never_hands_out_a_byte_twice)
{
    enum { SLOTS = 100, STEPS = CHUNK / TORCH_ARENA_STEP };
    static char owner[STEPS];
    char *ptrs[SLOTS] = { NULL };
    size_t sizes[SLOTS] = { 0 };
    uint64_t random = 1;
    for (unsigned round = 0; round < 20000; round++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t slot = (size_t)(random >> 33) % SLOTS, size = 1 + (size_t)(random >> 40) % (48 * KIB);
        bool is_take = !ptrs[slot];
        if (is_take && !(ptrs[slot] = torch_arena_take(&arena, &stream, 0, size, false)))
            continue;
        if (is_take)
            sizes[slot] = size;
        for (size_t at = (size_t)(ptrs[slot] - base) / 512; at * 512 < (size_t)(ptrs[slot] - base) + sizes[slot]; at++) {
            ck_assert_int_eq(owner[at], is_take ? 0 : 1);
            owner[at] = is_take;
        }
        if (!is_take) {
            ck_assert_uint_eq(torch_arena_give(&arena, ptrs[slot]), sizes[slot]);
            ptrs[slot] = NULL;
        }
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (ptrs[i])
            give(ptrs[i]);
    give(take(CHUNK - TORCH_ARENA_STEP));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = suite_case(suite, "arena", 0);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, no_part_has_the_address_of_its_chunk, parts_are_aligned_and_do_not_overlap, what_is_given_back_serves_again,
              smallest_part_that_fits_serves, neighbours_that_are_free_become_one, another_stream_gets_nothing_of_it,
              only_starts_of_live_parts_can_be_given_back, chunk_with_a_live_part_is_not_empty,
              chunk_of_the_usual_size_holds_what_it_was_taken_for, random_use_never_hands_out_a_byte_twice,
              restored_state_has_its_parts_and_all_else_is_free, state_does_not_fit_without_its_chunk);
    return suite_run(suite);
}
