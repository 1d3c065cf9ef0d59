/* SPDX-License-Identifier: MIT */
/* An arena each of whose calls of the driver, and each of whose requests for host memory, fails in turn: nothing is lost or served twice.
 */
#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"
#include "tests/unit/arena_model.h"

#define MIB (UINT64_C(1) << 20)
#define CALLS 30 /* at least; the program makes fewer */

/* Grows, splits, moves, releases and trims, with frees that are pending, complete and in between. Whether the failure happened. */
static bool run_program(struct model *m)
{
    struct model_block *blocks[24];
    for (int i = 0; i < 24; i++) {
        blocks[i] = model_allocate(m, i % 3, i % 2 ? (uint64_t)(i % 5 + 1) * MIB : (uint64_t)(i + 1) * 3000);
        model_check(m);
    }
    for (int i = 0; i < 24; i += 1 + i % 2) {
        if (blocks[i])
            model_free(m, blocks[i], i % 3, 0);
        blocks[i] = NULL;
        model_check(m);
    }
    model_complete(m, 0, m->sequences[0]);
    model_complete(m, 1, m->sequences[1] / 2);
    model_check(m);
    /* Moved pages, then new ones. */
    struct model_block *block = model_allocate(m, 2, 13 * MIB);
    model_check(m);
    model_complete(m, 1, m->sequences[1]);
    model_complete(m, 2, m->sequences[2]);
    model_trim(m, 3 * MIB);
    model_check(m);
    if (block)
        model_free(m, block, 2, 0);
    model_allocate(m, 2, 17 * MIB);
    model_check(m);
    model_complete(m, 2, m->sequences[2]);
    model_allocate(m, 0, 11 * MIB);
    model_check(m);
    return m->fail_in == 0;
}

START_TEST(nothing_is_lost_where_the_nth_call_of_the_driver_fails)
{
    unsigned nth = 0;
    bool happened;
    do {
        struct model *m = model_new(20);
        m->fail_in = ++nth;
        happened = run_program(m);
        model_end(m);
    } while (happened && nth < 1000);
    ck_assert_uint_gt(nth, 20);
    ck_assert_uint_le(nth, CALLS);
}
END_TEST

/* From the nth on, so many calls fail. */
START_TEST(nothing_is_lost_where_several_calls_of_the_driver_fail)
{
    for (unsigned nth = 1; nth < CALLS; nth++) {
        struct model *m = model_new(20);
        m->fail_in = nth;
        m->fail_more = (unsigned)_i;
        run_program(m);
        m->fail_more = 0;
        model_end(m);
    }
}
END_TEST

START_TEST(nothing_is_lost_where_the_nth_request_for_host_memory_fails)
{
    if (!fail_malloc_works())
        return;
    bool happened;
    unsigned nth = 0;
    do {
        struct model *m = model_new(20);
        m->host_may_fail = true;
        fail_malloc_at(++nth);
        run_program(m);
        for (int i = 0; i < 200; i++)
            model_allocate(m, i % 3, 700);
        happened = fail_malloc_happened();
        fail_malloc_at(0);
        model_check(m);
        model_end(m);
    } while (happened && nth < 1000);
    ck_assert_uint_gt(nth, 4);
    ck_assert_uint_lt(nth, 1000);
}
END_TEST

START_TEST(an_arena_without_host_memory_is_none)
{
    if (!fail_malloc_works())
        return;
    static const struct weir__page_driver driver = {.create = NULL};
    long before = fail_malloc_live();
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct weir__arena arena;
        fail_malloc_at(nth);
        ck_assert(!weir__arena_init(&arena, MODEL_BASE, 8 * WEIR__PAGE_UNIT, &driver, NULL));
        fail_malloc_at(0);
        weir__arena_clear(&arena);
    }
    ck_assert_int_eq(fail_malloc_live(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena_failures");
    TCase *failures = suite_case(suite, "failures", 60);
    tcase_add_test(failures, nothing_is_lost_where_the_nth_call_of_the_driver_fails);
    tcase_add_loop_test(failures, nothing_is_lost_where_several_calls_of_the_driver_fail, 1, 6);
    tcase_add_test(failures, nothing_is_lost_where_the_nth_request_for_host_memory_fails);
    tcase_add_test(failures, an_arena_without_host_memory_is_none);
    return suite_run(suite);
}
