/* SPDX-License-Identifier: MIT */
/* Ranges of an arena that come to rest. */
#include "bench/numbers.h"
#include "lib/backing/arena/arena.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)
#define BASE (UINT64_C(1) << 33)

enum { SLOTS = 64, REQUESTS = 2000 };

/* One pass of a program: blocks of random sizes, of which 512 MiB at most are live. In the end all are freed. Returns how many pages were
   moved and created. */
static uint64_t run_pass(struct weir__arena *arena, uint64_t state)
{
    struct weir__extent *slots[SLOTS] = {NULL};
    uint64_t before = arena->large.moved_count + arena->large.created_count;
    for (unsigned requests = 0; requests < REQUESTS;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        struct weir__extent **slot = &slots[state >> 58];
        uint64_t bytes = MIB + (state >> 20) % (63 * MIB);
        if (*slot) {
            weir__arena_give(arena, *slot, NULL, 0);
            *slot = NULL;
        } else if (arena->large.extents.live_bytes + bytes <= 512 * MIB) {
            *slot = weir__arena_take(arena, NULL, bytes);
            if (!*slot)
                ck_assert_int_eq(weir__arena_grow(arena, NULL, bytes, slot), 0);
            requests++;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i])
            weir__arena_give(arena, slots[i], NULL, 0);
    return arena->large.moved_count + arena->large.created_count - before;
}

START_TEST(a_range_that_keeps_moving_pages_grows_until_it_rests_and_begins_anew_after_a_trim)
{
    struct weir__arena arena;
    uint64_t seed = (uint64_t)_i + 1;
    ck_assert(weir__arena_init(&arena, BASE, UINT64_C(32) << 30, &numbers, NULL));
    ck_assert_uint_gt(run_pass(&arena, seed), 50);
    uint64_t moved = arena.large.moved_count;
    ck_assert_uint_gt(moved, 0); /* the first misses only move pages */
    for (int i = 0; i < 8; i++)
        run_pass(&arena, seed);
    ck_assert_uint_le(run_pass(&arena, seed), REQUESTS / 1000);
    ck_assert(weir__arena_is_valid(&arena));
    ck_assert_uint_lt(weir__arena_figures(&arena).mapped, 2 * arena.large.live_high);
    moved = arena.large.moved_count;
    weir__arena_trim(&arena, UINT64_MAX);
    run_pass(&arena, seed);
    ck_assert_uint_gt(arena.large.moved_count, moved);
    weir__arena_clear(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena_rest");
    TCase *passes = suite_case(suite, "passes", 60);
    tcase_add_loop_test(passes, a_range_that_keeps_moving_pages_grows_until_it_rests_and_begins_anew_after_a_trim, 0, 20);
    return suite_run(suite);
}
