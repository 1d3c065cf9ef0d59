/* SPDX-License-Identifier: MIT */
/* fence_waits.c - how the host waits for lines, how a stream does, and what is parked or retired until then. */
#include <stdlib.h>

#include "tests/unit/fence.h"

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(wait_ends_once_enough_is_complete)
{
    gpu_stream streams[2] = {rig_stream(0), rig_stream(0)};
    struct weir__line *lines[2] = {rig_open(streams[0]), rig_open(streams[1])};
    for (unsigned i = 0; i < 2; i++) {
        rig_delay(streams[i], 10 + 100 * i);
        rig_free(lines[i], MIB, NEVER);
    }
    uint64_t begun = rig.gpu->now();
    ck_assert_uint_eq(rig_wait(&rig.scope, MIB, begun + 1000 * MILLISECOND), MIB);
    ck_assert_uint_lt(rig.gpu->now() - begun, 50 * MILLISECOND);
    ck_assert_uint_eq(rig_wait(&rig.scope, MIB, rig.gpu->now() + 20 * MILLISECOND), 0);
    ck_assert_uint_eq(rig_wait(&rig.scope, UINT64_MAX, rig.gpu->now() + 1000 * MILLISECOND), MIB);
    for (unsigned i = 0; i < 2; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

START_TEST(owners_are_told_apart)
{
    struct weir__debts other;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    uint64_t step;
    weir__debts_init(&other, rig.fences);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(weir__line_free(weir__debt_of(&other, line), 2 * MIB, NEVER, &step), GPU_SUCCESS);
    const struct weir__scope theirs = {.fences = rig.fences, .debts = &other}, all = {.fences = rig.fences};
    ck_assert_uint_eq(rig_pending(), MIB);
    ck_assert_uint_eq(weir__scope_pending(&theirs), 2 * MIB);
    ck_assert_uint_eq(weir__scope_pending(&all), 3 * MIB);
    rig_close(line, stream);
    ck_assert_uint_eq(rig_look(), 0);
    ck_assert_uint_eq(weir__scope_pending(&all), 0);
    weir__debts_end(&other);
}
END_TEST

/* Memory of device 0, freed on a stream of device 1. */
START_TEST(stream_of_another_device_counts_for_the_owner)
{
    gpu_stream stream = rig_stream(1);
    struct weir__line *line = rig_open(stream);
    const struct weir__scope device = {.fences = rig.fences};
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_ptr_eq(line->fences, rig.other);
    ck_assert_uint_eq(weir__scope_pending(&device), MIB);
    ck_assert_uint_eq(rig_wait(&device, UINT64_MAX, rig.gpu->now() + 100 * MILLISECOND), MIB);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), MIB); /* that device's work is not behind the event of this one */
    ck_assert(weir__fences_cover_device(rig.other, false));
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(only_the_marks_of_a_span_are_waited_for)
{
    gpu_stream streams[3];
    struct weir__line *lines[3];
    struct weir__scope scope = rig.scope;
    uint64_t numbers[3];
    for (unsigned i = 0; i < 3; i++) {
        streams[i] = rig_stream(0);
        lines[i] = rig_open(streams[i]);
        rig_delay(streams[i], i == 1 ? 10 : 1000);
        rig_free(lines[i], MIB, NEVER);
        ck_assert(weir__line_cover(lines[i], false));
        numbers[i] = weir__marks_made();
    }
    ck_assert_uint_eq(weir__scope_look(&scope), 3);
    scope.until = numbers[1];
    ck_assert_uint_eq(weir__scope_look(&scope), 2);
    scope.after = numbers[0];
    ck_assert_uint_eq(weir__scope_look(&scope), 1);
    uint64_t begun = rig.gpu->now();
    ck_assert(weir__scope_finish(&scope, begun + 500 * MILLISECOND));
    ck_assert_uint_lt(rig.gpu->now() - begun, 20 * MILLISECOND);
    scope.until = numbers[2];
    ck_assert(!weir__scope_finish(&scope, rig.gpu->now() + 20 * MILLISECOND));
    ck_assert_uint_eq(rig_pending(), 2 * MIB);
    for (unsigned i = 0; i < 3; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

/* Else a stream that goes on and on would keep a wait from its end. */
START_TEST(what_is_freed_during_a_wait_does_not_prolong_it)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__wait wait;
    uint64_t bytes;
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    weir__wait_begin(&wait, &rig.scope, false);
    ck_assert(!weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(wait.left, 1);
    rig_delay(stream, 1000);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    sim_advance(10 * MILLISECOND);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, MIB);
    ck_assert_uint_eq(wait.left, 0);
    ck_assert_uint_eq(rig_pending(), MIB);
    ck_assert_uint_eq(weir__scope_marked(&rig.scope), MIB);
    rig_close(line, stream);
}
END_TEST

START_TEST(what_another_thread_sees_complete_counts_for_each_wait)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__wait waits[2];
    uint64_t bytes;
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    for (unsigned i = 0; i < 2; i++)
        weir__wait_begin(&waits[i], &rig.scope, false);
    sim_advance(10 * MILLISECOND);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(weir__wait_look(&waits[i], &bytes));
        ck_assert_uint_eq(bytes, MIB);
        ck_assert(!weir__wait_look(&waits[i], &bytes));
        ck_assert_uint_eq(bytes, 0);
    }
    rig_close(line, stream);
}
END_TEST

/* As a program does that frees by itself on a stream that it opened. */
START_TEST(line_on_which_nothing_was_counted_gets_a_mark_where_that_is_asked_for)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__wait wait;
    uint64_t bytes;
    ck_assert_ptr_nonnull(weir__debt_of(&rig.debts, line));
    rig_delay(stream, 10);
    weir__wait_begin(&wait, &rig.scope, false);
    ck_assert_uint_eq(wait.left, 0);
    weir__wait_begin(&wait, &rig.scope, true);
    ck_assert_uint_eq(wait.left, 1);
    sim_advance(10 * MILLISECOND);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert_uint_eq(wait.left, 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(group_has_the_debts_of_its_owners)
{
    struct weir__debts others[2];
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    const struct weir__scope group = {.fences = rig.fences, .group = others};
    uint64_t step;
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    for (unsigned i = 0; i < 2; i++) {
        weir__debts_init(&others[i], rig.fences);
        others[i].group = others;
        ck_assert_int_eq(weir__line_free(weir__debt_of(&others[i], line), 2 * MIB, NEVER, &step), GPU_SUCCESS);
    }
    ck_assert_uint_eq(weir__scope_pending(&group), 4 * MIB);
    ck_assert_uint_eq(rig_pending(), MIB);
    rig_close(line, stream);
    ck_assert(weir__scope_finish(&group, rig.gpu->now() + 100 * MILLISECOND));
    ck_assert_uint_eq(weir__scope_pending(&group), 0);
    for (unsigned i = 0; i < 2; i++)
        weir__debts_end(&others[i]);
}
END_TEST

START_TEST(no_line_is_touched_after_the_deadline_of_a_scope)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__scope scope = rig.scope;
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    rig_free(line, MIB, NEVER);
    sim_advance(MILLISECOND);
    scope.deadline = rig.gpu->now() - 1;
    uint64_t records = sim_calls("event_record"), queries = sim_calls("event_query");
    weir__scope_cover(&scope, true);
    ck_assert_uint_eq(weir__scope_look(&scope), 1);
    ck_assert_uint_eq(sim_calls("event_record"), records);
    ck_assert_uint_eq(sim_calls("event_query"), queries);
    rig_close(line, stream);
}
END_TEST

/* Each costs a call, and a program may have thousands of open streams. What was counted is covered all the same. */
START_TEST(no_more_than_256_lines_get_a_mark_that_nothing_was_counted_on)
{
    enum { LINES = 260 };
    gpu_stream streams[LINES];
    struct weir__line *lines[LINES];
    struct weir__scope all = {.fences = rig.fences};
    for (unsigned i = 0; i < LINES; i++) {
        streams[i] = rig_stream(0);
        lines[i] = rig_open(streams[i]);
    }
    rig_free(lines[0], MIB, NEVER);
    rig_free(lines[LINES - 1], MIB, NEVER);
    uint64_t records = sim_calls("event_record");
    weir__scope_cover(&all, true);
    ck_assert_uint_eq(sim_calls("event_record"), records + 258);
    ck_assert_uint_eq(atomic_load(&lines[0]->uncovered), 0);
    ck_assert_uint_eq(atomic_load(&lines[LINES - 1]->uncovered), 0);
    for (unsigned i = 0; i < LINES; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

/* Order -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(stream_waits_for_no_more_than_it_needs_the_oldest_first)
{
    gpu_stream lender = rig_stream(0), borrower = rig_stream(0);
    struct weir__line *line = rig_open(lender), *user = rig_open(borrower);
    for (unsigned i = 0; i < 4; i++) {
        rig_delay(lender, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    uint64_t begun = rig.gpu->now();
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, 2 * MIB), 2 * MIB);
    ck_assert_uint_eq(rig.gpu->now(), begun); /* the host did not wait */
    ck_assert_uint_eq(rig_pending_on(line), 2 * MIB);
    ck_assert_uint_eq(rig_pending_on(user), 2 * MIB);
    ck_assert_int_eq(rig.gpu->stream_synchronize(borrower), GPU_SUCCESS);
    ck_assert_uint_gt(rig.gpu->now() - begun, 19 * MILLISECOND);
    ck_assert_uint_lt(rig.gpu->now() - begun, 21 * MILLISECOND);
    rig_close(line, lender);
    rig_close(user, borrower);
}
END_TEST

START_TEST(lender_without_a_mark_gets_one)
{
    gpu_stream lender = rig_stream(0), borrower = rig_stream(0);
    struct weir__line *line = rig_open(lender), *user = rig_open(borrower);
    rig_delay(lender, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, 3 * MIB), MIB);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, 3 * MIB), 0);
    ck_assert_uint_eq(sim_calls("stream_wait_event"), 1);
    rig_close(line, lender);
    rig_close(user, borrower);
}
END_TEST

/* Both rings are full, and a mark is dropped in the middle of it. */
START_TEST(all_that_a_full_lender_has_can_be_passed_on)
{
    gpu_stream lender = rig_stream(0), borrower = rig_stream(0);
    struct weir__line *line = rig_open(lender), *user = rig_open(borrower);
    for (unsigned i = 0; i < 2 * WEIR__MARKS; i++) {
        rig_delay(lender, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    rig_free(line, MIB, NEVER);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, UINT64_MAX), (2 * WEIR__MARKS + 1) * MIB);
    ck_assert_uint_eq(rig_pending_on(line), 0);
    ck_assert(weir__line_cover(user, false));
    sim_advance((2 * WEIR__MARKS - 1) * 10 * MILLISECOND);
    ck_assert_uint_gt(rig_look(), 0);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, lender);
    rig_close(user, borrower);
}
END_TEST

START_TEST(passing_borrower_gets_a_mark_behind_its_wait)
{
    gpu_stream lender = rig_stream(0), borrower = rig_stream(0);
    struct weir__line *line = rig_open(lender), *user = rig_name(borrower);
    rig_delay(lender, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, MIB), MIB);
    ck_assert_uint_eq(user->count, 1);
    weir__line_put(user);
    ck_assert_int_eq(rig.gpu->stream_destroy(borrower), GPU_SUCCESS);
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, lender);
}
END_TEST

START_TEST(wait_that_fails_leaves_the_memory_where_it_is)
{
    gpu_stream lender = rig_stream(0), borrower = rig_stream(0);
    struct weir__line *line = rig_open(lender), *user = rig_open(borrower);
    rig_delay(lender, 10);
    rig_free(line, MIB, NEVER);
    sim_fail("stream_wait_event", 1, GPU_UNKNOWN);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, MIB), 0);
    ck_assert_uint_eq(rig_pending_on(line), MIB);
    ck_assert_uint_eq(rig_pending_on(user), 0);
    rig_close(line, lender);
    rig_close(user, borrower);
}
END_TEST

/* Parked and retired ------------------------------------------------------------------------------------------------------------------- */

static struct weir__parked *park(struct weir__line *const *lines, size_t count)
{
    struct weir__parked *parked = weir__parked_new(count);
    ck_assert_ptr_nonnull(parked);
    parked->items = &rig;
    weir__park(rig.fences, parked, lines, count);
    return parked;
}

/* Whether just that is settled. It is over then. */
static bool is_settled(struct weir__parked *parked)
{
    const struct weir__scope scope = {.fences = rig.fences}, other = {.fences = rig.other};
    weir__scope_cover(&scope, false);
    weir__scope_look(&scope);
    weir__scope_cover(&other, false);
    weir__scope_look(&other);
    struct weir__parked *settled = weir__fences_settled(rig.fences, NULL, NULL);
    ck_assert(!settled || (settled == parked && !settled->next && settled->items == &rig));
    free(settled);
    return settled;
}

START_TEST(parked_block_waits_for_each_of_its_points)
{
    gpu_stream streams[2] = {rig_stream(0), rig_stream(1)};
    struct weir__line *lines[2] = {rig_open(streams[0]), rig_open(streams[1])};
    rig_delay(streams[0], 10);
    rig_delay(streams[1], 20);
    struct weir__parked *parked = park(lines, 2);
    ck_assert(!is_settled(parked));
    rig_delay(streams[0], 100); /* behind the point */
    sim_advance(10 * MILLISECOND);
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
    for (unsigned i = 0; i < 2; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

/* A stream that found nothing looks again only once something has changed: a point was reached, or another block was parked. */
START_TEST(stream_that_found_no_parked_block_finds_what_becomes_free_later)
{
    gpu_stream streams[2] = {rig_stream(0), rig_stream(1)};
    struct weir__line *lines[2] = {rig_open(streams[0]), rig_open(streams[1])};
    rig_delay(streams[1], 10);
    struct weir__parked *both = park(lines, 2);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, lines[0]));
    struct weir__parked *own = park(lines, 1);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, lines[0]), own);
    ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, lines[0]));
    weir__line_cover(lines[1], false);
    sim_advance(10 * MILLISECOND);
    ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, lines[0])); /* nobody has looked at the event yet */
    weir__line_look(lines[1]);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, lines[0]), both);
    free(own);
    free(both);
    for (unsigned i = 0; i < 2; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

START_TEST(point_of_a_gone_line_is_one_of_its_device)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    struct weir__parked *parked = park(&line, 1);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    ck_assert_ptr_eq(parked->points[0].line, rig.fences->whole);
    weir__line_put(line);
    sim_advance(5 * MILLISECOND);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert(!is_settled(parked));
    sim_advance(5 * MILLISECOND);
    ck_assert(is_settled(parked));
}
END_TEST

START_TEST(block_is_parked_for_a_line_that_is_gone_already)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    struct weir__parked *parked = park(&line, 1);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
}
END_TEST

START_TEST(parked_blocks_of_other_groups_are_theirs)
{
    static const char one, two;
    struct weir__scope scope = {.fences = rig.fences, .group = &one, .is_parked = true};
    struct weir__line *whole = rig.fences->whole;
    struct weir__parked *parked[2] = {weir__parked_new(1), weir__parked_new(1)};
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(parked[i]);
        parked[i]->group = i ? &two : &one;
        weir__park(rig.fences, parked[i], &whole, 1);
    }
    ck_assert(weir__scope_needs_devices(&scope));
    weir__scope_cover_devices(&scope, false);
    ck_assert(!weir__scope_needs_devices(&scope));
    ck_assert_uint_eq(weir__scope_look(&scope), 0);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, &one, NULL), parked[0]);
    ck_assert_ptr_null(parked[0]->next);
    ck_assert_ptr_null(weir__fences_settled(rig.fences, &one, NULL));
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, &two, NULL), parked[1]);
    for (unsigned i = 0; i < 2; i++)
        free(parked[i]);
}
END_TEST

START_TEST(parked_block_is_settled_for_the_stream_of_its_only_point)
{
    gpu_stream streams[2] = {rig_stream(0), rig_stream(0)};
    struct weir__line *lines[2] = {rig_open(streams[0]), rig_open(streams[1])};
    rig_delay(streams[0], 10);
    rig_delay(streams[1], 20);
    struct weir__parked *parked = park(lines, 2);
    ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, lines[1]));
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(!is_settled(parked));
    ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, lines[0]));
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, lines[1]), parked);
    free(parked);
    for (unsigned i = 0; i < 2; i++)
        rig_close(lines[i], streams[i]);
}
END_TEST

START_TEST(parked_block_can_be_had_back_before_its_points_are_reached)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    struct weir__parked *parked = park(&line, 1);
    ck_assert_ptr_eq(weir__fences_unpark(rig.fences, NULL), parked);
    ck_assert_uint_eq(parked->count, 0);
    ck_assert(!is_settled(parked));
    free(parked);
    rig_close(line, stream);
}
END_TEST

/* An event would make a context there. */
START_TEST(device_that_the_process_does_not_use_is_not_waited_for)
{
    bool is_used = true;
    const struct weir__scope scope = {.fences = rig.fences, .is_parked = true};
    struct weir__line *lines[2] = {rig.fences->whole, rig.other->whole};
    gpu_stream stream = rig_stream(0);
    rig_delay(stream, 10);
    struct weir__parked *parked = park(lines, 2);
    weir__scope_cover_devices(&scope, false);
    ck_assert_int_eq(rig.gpu->device_is_used(1, &is_used), GPU_SUCCESS);
    ck_assert(!is_used);
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

/* Its stream may have been destroyed, so that no event can be put there. */
START_TEST(point_of_a_passing_line_needs_an_event_of_its_device)
{
    const struct weir__scope scope = {.fences = rig.fences, .is_parked = true};
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    rig_delay(stream, 10);
    struct weir__parked *parked = park(&line, 1);
    weir__line_put(line);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    ck_assert(!is_settled(parked));
    ck_assert(weir__scope_needs_devices(&scope));
    weir__scope_cover_devices(&scope, false);
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
}
END_TEST

START_TEST(point_of_a_captured_line_waits_until_its_stream_is_opened_again)
{
    const struct weir__scope scope = {.fences = rig.fences, .is_parked = true};
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__parked *parked = park(&line, 1);
    size_t nodes;
    ck_assert_int_eq(rig.gpu->capture_begin(stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    weir__line_close(line);
    weir__line_put(line);
    ck_assert_int_eq(rig.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    ck_assert(!weir__scope_needs_devices(&scope));
    ck_assert(!is_settled(parked));
    line = rig_open(stream);
    rig_delay(stream, 10);
    ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, NULL));
    ck_assert(!is_settled(parked));
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
    rig_close(line, stream);
}
END_TEST

/* CUDA sees frees of stream 0 by an event there alone, which anybody may put there. */
START_TEST(frees_of_stream_0_stay_on_its_line_when_the_device_is_covered)
{
    struct weir__line *line = rig_name(GPU_STREAM_LEGACY);
    rig_delay(GPU_STREAM_LEGACY, 10);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_pending_on(line), MIB);
    weir__line_put(line);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(mark_of_a_point_alone_is_not_needless)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    struct weir__parked *parked = park(&line, 1);
    ck_assert(weir__line_cover(line, false));
    for (unsigned i = 0; i < 2 * WEIR__MARKS; i++) {
        rig_delay(stream, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    sim_advance(10 * MILLISECOND);
    ck_assert(is_settled(parked));
    rig_close(line, stream);
}
END_TEST

static unsigned ended;

static bool end_owner(struct weir__debts *debts)
{
    weir__debts_end(debts);
    ended++;
    return true;
}

START_TEST(retired_owner_ends_once_nothing_is_pending)
{
    struct weir__debts owner;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    uint64_t step;
    ended = 0;
    weir__debts_init(&owner, rig.fences);
    rig_delay(stream, 10);
    ck_assert_int_eq(weir__line_free(weir__debt_of(&owner, line), MIB, MIB, &step), GPU_SUCCESS);
    weir__debts_retire(&owner, end_owner);
    weir__debts_sweep(rig.gpu);
    ck_assert_uint_eq(ended, 0);
    sim_advance(10 * MILLISECOND);
    weir__debts_sweep(rig.gpu);
    ck_assert_uint_eq(ended, 1);
    weir__debts_init(&owner, rig.fences);
    weir__debts_retire(&owner, end_owner);
    weir__debts_sweep(rig.gpu);
    ck_assert_uint_eq(ended, 2);
    rig_close(line, stream);
}
END_TEST

static unsigned refusals;

static bool end_at_last(struct weir__debts *debts)
{
    if (refusals) {
        refusals--;
        return false;
    }
    return end_owner(debts);
}

START_TEST(retired_owner_that_cannot_end_yet_is_asked_by_each_sweep)
{
    struct weir__debts owner;
    ended = 0;
    refusals = 2;
    weir__debts_init(&owner, rig.fences);
    weir__debts_retire(&owner, end_at_last);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(ended, 0);
        weir__debts_sweep(rig.gpu);
    }
    ck_assert_uint_eq(ended, 1);
    weir__debts_sweep(rig.gpu);
    ck_assert_uint_eq(ended, 1);
}
END_TEST

/* The same fences have the marks that such an owner waits for. */
START_TEST(fences_outlive_who_joined_them_while_an_owner_is_retired)
{
    struct weir__debts owner;
    struct weir__fences *fences = weir__fences_join(rig.gpu, 1);
    gpu_stream stream = rig_stream(1);
    struct weir__line *line = weir__line_open(fences, &(struct weir__caller){.handle = stream});
    uint64_t step;
    ended = 0;
    weir__debts_init(&owner, fences);
    owner.group = &owner;
    rig_delay(stream, 10);
    ck_assert_int_eq(weir__line_free(weir__debt_of(&owner, line), MIB, 0, &step), GPU_SUCCESS);
    rig_close(line, stream);
    weir__debts_retire(&owner, end_owner);
    ck_assert_ptr_null(owner.group);
    weir__fences_leave(fences);
    ck_assert_ptr_eq(weir__fences_join(rig.gpu, 1), fences);
    weir__fences_leave(fences);
    sim_advance(10 * MILLISECOND);
    weir__debts_sweep(rig.gpu);
    ck_assert_uint_eq(ended, 1);
}
END_TEST

START_TEST(owner_that_freed_nobody_knows_where_is_never_settled)
{
    ck_assert(weir__debts_are_settled(&rig.debts));
    atomic_store(&rig.debts.is_unknown, true);
    ck_assert(!weir__debts_are_settled(&rig.debts));
}
END_TEST

START_TEST(fences_outlive_who_joined_them_while_a_line_is_in_use)
{
    struct weir__fences *fences = weir__fences_join(rig.gpu, 0);
    ck_assert_ptr_eq(fences, rig.fences);
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_free(line, MIB, NEVER);
    weir__fences_leave(fences);
    weir__fences_leave(rig.fences);
    rig_close(line, stream); /* all of it goes with the debts, which the end of the test looks at */
    ck_assert_ptr_nonnull(rig.fences = weir__fences_join(rig.gpu, 0));
    weir__debts_end(&rig.debts);
    weir__debts_init(&rig.debts, rig.fences);
}
END_TEST

void fence_add_waits(Suite *suite)
{
    TCase *waits = suite_case(suite, "waits", 0);
    tcase_add_checked_fixture(waits, rig_begin, rig_end);
    suite_add(waits, wait_ends_once_enough_is_complete, owners_are_told_apart, stream_of_another_device_counts_for_the_owner,
              only_the_marks_of_a_span_are_waited_for, what_is_freed_during_a_wait_does_not_prolong_it,
              what_another_thread_sees_complete_counts_for_each_wait, line_on_which_nothing_was_counted_gets_a_mark_where_that_is_asked_for,
              group_has_the_debts_of_its_owners, no_line_is_touched_after_the_deadline_of_a_scope,
              no_more_than_256_lines_get_a_mark_that_nothing_was_counted_on,
              stream_waits_for_no_more_than_it_needs_the_oldest_first, lender_without_a_mark_gets_one,
              all_that_a_full_lender_has_can_be_passed_on, passing_borrower_gets_a_mark_behind_its_wait,
              wait_that_fails_leaves_the_memory_where_it_is);
    TCase *parked = suite_case(suite, "parked", 0);
    tcase_add_checked_fixture(parked, rig_begin, rig_end);
    suite_add(parked, parked_blocks_of_other_groups_are_theirs, parked_block_can_be_had_back_before_its_points_are_reached,
              parked_block_is_settled_for_the_stream_of_its_only_point,
              device_that_the_process_does_not_use_is_not_waited_for, point_of_a_passing_line_needs_an_event_of_its_device,
              point_of_a_captured_line_waits_until_its_stream_is_opened_again,
              frees_of_stream_0_stay_on_its_line_when_the_device_is_covered, parked_block_waits_for_each_of_its_points,
              stream_that_found_no_parked_block_finds_what_becomes_free_later, point_of_a_gone_line_is_one_of_its_device,
              block_is_parked_for_a_line_that_is_gone_already, mark_of_a_point_alone_is_not_needless,
              retired_owner_ends_once_nothing_is_pending, retired_owner_that_cannot_end_yet_is_asked_by_each_sweep,
              fences_outlive_who_joined_them_while_an_owner_is_retired, owner_that_freed_nobody_knows_where_is_never_settled,
              fences_outlive_who_joined_them_while_a_line_is_in_use);
}
