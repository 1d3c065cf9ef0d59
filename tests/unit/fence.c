/* SPDX-License-Identifier: MIT */
/* fence.c - lines, their marks, and streams that go or capture: one invariant of lib/fence/fence.h after the other. */
#include "tests/unit/fence.h"

#include <string.h>

#include "lib/base/event.h"

struct rig rig;

/* The machine -------------------------------------------------------------------------------------------------------------------------- */

void rig_join(const struct gpu *gpu)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_ptr_nonnull(gpu);
    rig.gpu = gpu;
    ck_assert_int_eq(rig.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_ptr_nonnull(rig.fences = weir__fences_join(rig.gpu, 0));
    ck_assert_ptr_nonnull(rig.other = weir__fences_join(rig.gpu, 1));
    weir__debts_init(&rig.debts, rig.fences);
    rig.scope = (struct weir__scope){.fences = rig.fences, .debts = &rig.debts};
}

void rig_begin_with(const char *settings)
{
    char why[256];
    const char *missing = NULL;
    ck_assert_msg(sim_configure(settings, why, sizeof why) == 0, "%s", why);
    rig_join(gpu_find("sim", &missing));
}

void rig_begin(void)
{
    rig_begin_with("devices=2");
}

void rig_end(void)
{
    struct sim_census census;
    weir__debts_end(&rig.debts);
    weir__fences_leave(rig.other);
    weir__fences_leave(rig.fences);
    sim_census(&census);
    ck_assert_uint_eq(census.events, 0);
    ck_assert_uint_eq(census.streams, 0);
}

gpu_stream rig_stream(int device)
{
    gpu_stream stream;
    ck_assert_int_eq(rig.gpu->stream_create(device, &stream), GPU_SUCCESS);
    return stream;
}

static struct weir__caller caller_of(gpu_stream stream)
{
    struct weir__caller caller = {.handle = stream};
    if (stream != GPU_STREAM_LEGACY && rig.gpu->supports(0, GPU_FEATURE_STREAM_ID, NULL, 0))
        ck_assert_int_eq(rig.gpu->stream_id(stream, &caller.id), GPU_SUCCESS);
    return caller;
}

static struct weir__fences *fences_of(gpu_stream stream)
{
    int device = 0;
    if (stream != GPU_STREAM_LEGACY)
        ck_assert_int_eq(rig.gpu->stream_device(stream, &device), GPU_SUCCESS);
    return device ? rig.other : rig.fences;
}

struct weir__line *rig_name(gpu_stream stream)
{
    const struct weir__caller caller = caller_of(stream);
    struct weir__line *line = weir__line_of(fences_of(stream), &caller);
    ck_assert_ptr_nonnull(line);
    return line;
}

struct weir__line *rig_open(gpu_stream stream)
{
    const struct weir__caller caller = caller_of(stream);
    struct weir__line *line = weir__line_open(fences_of(stream), &caller);
    ck_assert_ptr_nonnull(line);
    return line;
}

void rig_delay(gpu_stream stream, uint64_t milliseconds)
{
    ck_assert_int_eq(rig.gpu->delay(stream, milliseconds * MILLISECOND), GPU_SUCCESS);
}

uint64_t rig_free(struct weir__line *line, uint64_t bytes, uint64_t due)
{
    uint64_t step = 0;
    struct weir__debt *debt = weir__debt_of(&rig.debts, line);
    ck_assert_ptr_nonnull(debt);
    ck_assert_int_eq(weir__line_free(debt, bytes, due, &step), GPU_SUCCESS);
    ck_assert(weir__line_is_valid(line));
    return step;
}

uint64_t rig_pending(void)
{
    return weir__scope_pending(&rig.scope);
}

uint64_t rig_pending_on(struct weir__line *line)
{
    const struct weir__scope scope = {.fences = rig.fences, .debts = &rig.debts, .line = line};
    return weir__scope_pending(&scope);
}

uint64_t rig_look(void)
{
    weir__scope_look(&rig.scope);
    return rig_pending();
}

uint64_t rig_wait(const struct weir__scope *scope, uint64_t enough, uint64_t deadline)
{
    struct weir__wait wait;
    uint64_t pause = 0, all = 0, bytes;
    weir__wait_begin(&wait, scope, false);
    do {
        weir__wait_look(&wait, &bytes);
        all += bytes;
    } while (wait.left && all < enough && weir__event_pause(rig.gpu, &pause, deadline));
    return all;
}

void rig_close(struct weir__line *line, gpu_stream stream)
{
    weir__line_close(line);
    weir__line_put(line);
    ck_assert_int_eq(rig.gpu->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}

/* Steps and marks ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(free_is_pending_until_an_event_behind_it_is_complete)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(line->count, 1);
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_pending(), MIB); /* nobody has looked */
    ck_assert_uint_eq(rig_look(), 0);
    ck_assert(weir__debts_are_settled(&rig.debts));
    rig_close(line, stream);
}
END_TEST

START_TEST(mark_covers_what_was_freed_before_it_and_nothing_else)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    uint64_t first = rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    uint64_t second = rig_free(line, 2 * MIB, NEVER);
    ck_assert_uint_lt(first, second);
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    ck_assert_uint_eq(atomic_load(&line->done), first);
    rig_close(line, stream);
}
END_TEST

START_TEST(line_without_a_new_free_gets_no_other_mark)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    for (unsigned i = 0; i < 5; i++)
        ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(line->count, 1);
    ck_assert_uint_eq(sim_calls("event_record"), 1);
    rig_close(line, stream);
}
END_TEST

START_TEST(line_gets_a_mark_once_so_much_is_freed)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    for (unsigned i = 0; i < 7; i++)
        rig_free(line, 10 * MIB, 64 * MIB);
    ck_assert_uint_eq(line->count, 1);
    ck_assert_uint_eq(line->marks[0].bytes, 70 * MIB);
    rig_close(line, stream);
}
END_TEST

/* Eight older marks stay what they are; all of it becomes complete at the end. */
/* Each step is complete at most a quarter of all later than it could be. */
START_TEST(full_line_keeps_marks_over_all_of_its_steps)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    const unsigned steps = 4 * WEIR__MARKS;
    gpu_event oldest = NULL;
    for (unsigned i = 0; i < steps; i++) {
        rig_delay(stream, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
        oldest = i ? oldest : line->marks[0].event;
        ck_assert(weir__line_is_valid(line));
    }
    ck_assert_uint_eq(line->count, WEIR__MARKS);
    ck_assert_ptr_eq(line->marks[0].event, oldest);
    for (unsigned i = 1; i <= steps; i++) {
        sim_advance(10 * MILLISECOND);
        uint64_t left = rig_look();
        ck_assert_uint_ge(left, (steps - i) * MIB);
        ck_assert_uint_le(left, (steps - i + steps / 4) * MIB);
        ck_assert(i < steps || !left);
    }
    rig_close(line, stream);
}
END_TEST

/* The oldest stays what it was, and what it covers is complete first. */
START_TEST(line_that_is_renewed_has_an_oldest_mark_and_a_newest)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    for (unsigned i = 0; i < 5; i++) {
        rig_delay(stream, 10);
        rig_free(line, MIB, NEVER);
        weir__line_renew(line);
        ck_assert_uint_eq(line->count, i ? 2 : 1);
        ck_assert(weir__line_is_valid(line));
    }
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 4 * MIB);
    sim_advance(30 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 4 * MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(marks_on_which_nothing_depends_make_room)
{
    gpu_stream stream = rig_stream(0), other = rig_stream(0);
    struct weir__line *line = rig_open(stream), *user = rig_open(other);
    for (unsigned i = 0; i < WEIR__MARKS; i++) {
        rig_delay(stream, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, 5 * MIB), 5 * MIB);
    ck_assert_uint_eq(line->count, WEIR__MARKS);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(line->count, 4);
    ck_assert(weir__line_is_valid(line));
    ck_assert_uint_eq(rig_pending(), 9 * MIB);
    rig_close(line, stream);
    rig_close(user, other);
}
END_TEST

/* It stays in the debt, as only the driver knows what became of it. The stream behind which no mark can be put lends nothing. */
START_TEST(wait_for_the_newest_free_is_one_wait_for_each_line)
{
    gpu_stream stream = rig_stream(0), other = rig_stream(0), unnamed = rig_stream(0);
    struct weir__line *line = rig_open(stream), *user = rig_open(other);
    const struct weir__caller caller = {.handle = unnamed};
    struct weir__line *passing = weir__line_of(rig.fences, &caller);
    rig_delay(stream, 10);
    for (unsigned i = 0; i < 3; i++) {
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    rig_free(line, MIB, NEVER); /* behind the last mark */
    rig_free(passing, MIB, NEVER);
    uint64_t waits = sim_calls("stream_wait_event");
    ck_assert_uint_eq(weir__debts_order_newest(&rig.debts, user, 8 * MIB), 4 * MIB);
    ck_assert_uint_eq(sim_calls("stream_wait_event") - waits, 1);
    ck_assert_uint_eq(rig_pending_on(line), 4 * MIB);
    ck_assert_uint_eq(atomic_load(&line->uncovered), 0);
    ck_assert_int_eq(rig.gpu->stream_query(other), GPU_NOT_READY);
    sim_advance(10 * MILLISECOND);
    ck_assert_int_eq(rig.gpu->stream_query(other), GPU_SUCCESS);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert(weir__line_cover(passing, true));
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(passing);
    ck_assert_int_eq(rig.gpu->stream_destroy(unnamed), GPU_SUCCESS);
    rig_close(line, stream);
    rig_close(user, other);
}
END_TEST

/* What is beyond the parts of a debt counts as later, never as earlier. */
START_TEST(debt_of_many_steps_is_never_complete_too_early)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    for (unsigned i = 0; i < 100; i++) {
        rig_delay(stream, 1);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    for (unsigned passed = 0; passed <= 100; passed++) {
        ck_assert_uint_ge(rig_look(), (100 - passed) * MIB);
        sim_advance(MILLISECOND);
    }
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

/* The tenth free comes behind the newest mark, and others give up a part for it. */
START_TEST(free_beyond_the_parts_of_a_debt_is_not_covered_by_the_marks_before_it)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    for (unsigned i = 0; i < WEIR__PARTS; i++) {
        rig_delay(stream, 10);
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
    }
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    sim_advance(WEIR__PARTS * 10 * MILLISECOND);
    ck_assert_uint_ge(rig_look(), MIB);
    ck_assert(weir__line_cover(line, false));
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

/* Nobody has asked the debt since its parts were complete. */
START_TEST(parts_that_are_complete_make_room_in_a_debt)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    for (unsigned i = 0; i < 2 * WEIR__PARTS; i++) {
        rig_free(line, MIB, NEVER);
        ck_assert(weir__line_cover(line, false));
        ck_assert_uint_eq(weir__line_look(line), 0);
    }
    rig_delay(stream, 10);
    rig_free(line, 2 * MIB, NEVER);
    ck_assert_uint_eq(rig_pending(), 2 * MIB);
    rig_close(line, stream);
}
END_TEST

/* Passing streams ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(frees_on_a_passing_line_share_a_step_that_is_marked_behind_all_of_them)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    rig_delay(stream, 10);
    uint64_t first = rig_free(line, MIB, 0);
    rig_delay(stream, 10);
    ck_assert_uint_eq(rig_free(line, MIB, 0), first);
    ck_assert_uint_eq(line->count, 1);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(step_with_an_unmarked_free_behind_it_is_not_shared)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    uint64_t first = rig_free(line, MIB, 0), between = rig_free(line, MIB, NEVER), last = rig_free(line, MIB, 0);
    ck_assert_uint_lt(first, between);
    ck_assert_uint_eq(between, last);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(shared_step_ends_once_it_is_full)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    rig_delay(stream, 10);
    uint64_t first = rig_free(line, WEIR__STEP_BYTES - MIB, 0);
    ck_assert_uint_eq(rig_free(line, MIB, 0), first);
    ck_assert_uint_gt(rig_free(line, MIB, 0), first);
    ck_assert_uint_eq(line->count, 2);
    rig_close(line, stream);
}
END_TEST

START_TEST(shared_step_ends_once_it_is_passed_on_or_complete)
{
    gpu_stream stream = rig_stream(0), other = rig_stream(0);
    struct weir__line *line = rig_name(stream), *user = rig_open(other);
    rig_delay(stream, 10);
    uint64_t first = rig_free(line, MIB, 0);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, MIB), MIB);
    uint64_t second = rig_free(line, MIB, 0);
    ck_assert_uint_gt(second, first);
    sim_advance(10 * MILLISECOND);
    weir__scope_look(&rig.scope);
    ck_assert_uint_gt(rig_free(line, MIB, 0), second);
    rig_close(line, stream);
    rig_close(user, other);
}
END_TEST

/* The step of a mark that is full up is raised, which the frees before it do not mind. */
START_TEST(many_full_steps_of_a_passing_line_need_no_more_marks_than_there_are)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    for (unsigned i = 0; i < 3 * WEIR__MARKS; i++) {
        rig_delay(stream, 10);
        rig_free(line, WEIR__STEP_BYTES, 0);
    }
    ck_assert_uint_eq(line->count, WEIR__MARKS);
    sim_advance(1000 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(passing_stream_is_touched_only_by_calls_that_name_it)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    rig_free(line, MIB, NEVER);
    weir__line_put(line);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS); /* the simulator ends at whoever touches it now */
    weir__scope_cover(&rig.scope, false);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert_uint_eq(rig_wait(&rig.scope, UINT64_MAX, rig.gpu->now()), 0);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

/* Streams that go, and come with the same handle --------------------------------------------------------------------------------------- */

/* As two weirs of one process may. */
START_TEST(stream_that_two_have_open_is_open_until_the_second_closes_it)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *first = rig_open(stream), *second = rig_open(stream);
    ck_assert_ptr_eq(first, second);
    weir__line_close(first);
    weir__line_put(first);
    rig_free(second, MIB, NEVER);
    ck_assert(weir__line_cover(second, false));
    ck_assert_uint_eq(rig_look(), 0);
    rig_free(second, MIB, NEVER);
    weir__line_close(second);
    ck_assert_int_eq(atomic_load(&second->kind), WEIR__LINE_GONE);
    ck_assert_uint_eq(second->count, 1);
    weir__line_put(second);
    ck_assert_uint_eq(rig_look(), 0);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

/* Its handle may be another stream's. */
START_TEST(stream_that_is_gone_is_not_touched_when_it_is_closed)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    gpu_stream next = rig_stream(0);
    ck_assert_ptr_eq(next, stream);
    atomic_fetch_add(&line->uncovered, 1);
    weir__line_close(line);
    ck_assert_uint_eq(sim_calls("event_record"), 0);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_int_eq(rig.gpu->stream_destroy(next), GPU_SUCCESS);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(recycled_handle_is_another_line)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *former = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(former, MIB, NEVER);
    ck_assert(weir__line_cover(former, false));
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    gpu_stream again = rig_stream(0);
    ck_assert_ptr_eq(again, stream);
    weir__line_gone(former);
    struct weir__line *line = rig_open(again);
    ck_assert_ptr_ne(line, former);
    weir__line_put(former);
    rig_free(line, 2 * MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(rig_look(), MIB); /* the new stream is idle, the work of the former one goes on */
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, again);
}
END_TEST

START_TEST(what_a_gone_line_has_no_mark_for_waits_for_all_work_of_the_device)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    rig_free(line, 2 * MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    ck_assert_uint_eq(rig_pending_on(line), MIB);
    ck_assert_uint_eq(rig_pending_on(rig.fences->whole), 2 * MIB);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 3 * MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

/* The event was made in a context of the program's own, and says that it is complete when that goes. */
START_TEST(event_of_a_destroyed_context_says_nothing_of_the_device)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    void *context = sim_context_create(0);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    sim_context_destroy(context);
    sim_context_set_current(NULL);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(driver_without_device_events_waits_for_the_device_if_it_may)
{
    rig_end();
    rig_begin_with("devices=2,driver=12.0");
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    ck_assert(!weir__fences_cover_device(rig.fences, false));
    uint64_t before = rig.gpu->now();
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_ge(rig.gpu->now() - before, 10 * MILLISECOND);
    ck_assert_uint_eq(rig_pending(), 0);
}
END_TEST

/* Before 12.0. The free gets its mark in the call or never. */
START_TEST(call_of_a_stream_without_an_id_has_a_line_of_its_own)
{
    rig_end();
    rig_begin_with("devices=2,driver=11.8");
    gpu_stream stream = rig_stream(0);
    struct weir__line *one = rig_name(stream), *two = rig_name(stream);
    ck_assert_ptr_ne(one, two);
    rig_delay(stream, 10);
    rig_free(one, MIB, 0);
    rig_free(two, 2 * MIB, NEVER);
    weir__line_put(one);
    weir__line_put(two);
    ck_assert_uint_eq(rig_pending_on(rig.fences->whole), 2 * MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_eq(rig_pending(), 0);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

START_TEST(closed_stream_goes_on_as_a_passing_one)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    weir__line_close(line);
    weir__line_put(line);
    struct weir__line *again = rig_name(stream);
    ck_assert_ptr_eq(again, line);
    rig_free(again, MIB, 0);
    ck_assert_int_eq(atomic_load(&again->kind), WEIR__LINE_PASSING);
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(again);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

/* With an event behind each free, or none. */
START_TEST(lines_of_streams_that_were_used_once_do_not_pile_up)
{
    for (unsigned i = 0; i < 2000; i++) {
        gpu_stream stream = rig_stream(0);
        struct weir__line *line = rig_name(stream);
        rig_free(line, MIB, _i ? NEVER : 0);
        weir__line_put(line);
        ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
        ck_assert_uint_le(rig.fences->count, 130);
    }
    ck_assert_uint_eq(rig_look(), _i ? 2000 * MIB : 0);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(context_that_was_destroyed_ends_its_lines)
{
    void *context = sim_context_create(0);
    ck_assert_ptr_nonnull(context);
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_cover(line, false));
    rig_free(line, 2 * MIB, NEVER);
    sim_context_destroy(context); /* waits for its work; the simulator ends at whoever touches the stream */
    sim_context_set_current(NULL);
    ck_assert(!weir__line_cover(line, false));
    ck_assert_int_eq(atomic_load(&line->kind), WEIR__LINE_GONE);
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_close(line);
    weir__line_put(line);
}
END_TEST

/* Captures ----------------------------------------------------------------------------------------------------------------------------- */

static void begin_capture(gpu_stream stream)
{
    ck_assert_int_eq(rig.gpu->capture_begin(stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
}

/* It was not spoilt. */
static void end_capture(gpu_stream stream)
{
    size_t nodes;
    ck_assert_int_eq(rig.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
}

START_TEST(stream_that_captures_gets_no_mark_until_it_is_over)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_free(line, MIB, NEVER);
    begin_capture(stream);
    ck_assert(!weir__line_cover(line, false));
    ck_assert_uint_eq(rig_look(), MIB);
    end_capture(stream);
    ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(free_that_stands_with_its_mark_is_refused_where_the_stream_captures)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream);
    struct weir__debt *debt = weir__debt_of(&rig.debts, line);
    uint64_t step;
    rig_free(line, MIB, NEVER);
    begin_capture(stream);
    ck_assert_int_eq(weir__line_free(debt, MIB, 0, &step), GPU_CAPTURE_UNSUPPORTED);
    ck_assert_uint_eq(rig_pending(), MIB);
    end_capture(stream);
    ck_assert_int_eq(weir__line_free(debt, MIB, 0, &step), GPU_SUCCESS);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(line, stream);
}
END_TEST

START_TEST(stream_closed_while_it_captures_is_left_alone_until_it_is_named)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_free(line, MIB, NEVER);
    begin_capture(stream);
    weir__line_close(line);
    ck_assert_int_eq(atomic_load(&line->kind), WEIR__LINE_CAPTURED);
    weir__line_put(line);
    weir__scope_cover(&rig.scope, false);
    ck_assert_uint_eq(rig_look(), MIB);
    end_capture(stream);
    line = rig_name(stream);
    rig_free(line, MIB, 0);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(line);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

START_TEST(stream_closed_while_it_captures_is_gone_once_no_capture_may_be_left)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_free(line, MIB, NEVER);
    begin_capture(stream);
    weir__line_close(line);
    weir__line_put(line);
    end_capture(stream);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__fences_captures_over(rig.fences, NULL);
    ck_assert_uint_eq(rig_pending_on(rig.fences->whole), MIB);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

START_TEST(legacy_stream_is_one_line_that_is_marked_only_where_it_is_named)
{
    struct weir__line *line = rig_name(GPU_STREAM_LEGACY);
    const struct weir__caller null = {.handle = NULL};
    struct weir__line *same = weir__line_of(rig.fences, &null);
    ck_assert_ptr_eq(same, line);
    weir__line_put(same);
    rig_delay(GPU_STREAM_LEGACY, 10);
    rig_free(line, MIB, NEVER);
    weir__scope_cover(&rig.scope, false);
    ck_assert_uint_eq(weir__scope_look(&rig.scope), 1); /* it is not idle */
    ck_assert_uint_eq(rig_pending(), MIB);
    ck_assert_uint_eq(weir__scope_marked(&rig.scope), 0);
    ck_assert_uint_eq(sim_calls("event_record"), 0);
    weir__fences_cover_legacy(rig.fences);
    ck_assert_uint_eq(weir__scope_marked(&rig.scope), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(line);
}
END_TEST

/* An event there may hold up other streams, a question does not. */
START_TEST(what_was_freed_on_the_legacy_stream_is_complete_once_that_is_idle)
{
    struct weir__line *line = rig_name(GPU_STREAM_LEGACY);
    rig_delay(GPU_STREAM_LEGACY, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    ck_assert_uint_eq(sim_calls("event_record"), 0);
    weir__line_put(line);
}
END_TEST

/* Else a wait of as long as this one takes would be without an event. */
START_TEST(mark_that_is_waited_for_is_not_needless_though_nothing_is_counted_before_it)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    struct weir__wait wait;
    uint64_t bytes;
    ck_assert_ptr_nonnull(weir__debt_of(&rig.debts, line));
    rig_delay(stream, 10);
    weir__wait_begin(&wait, &rig.scope, true);
    for (unsigned i = 0; i < 3 * WEIR__MARKS; i++)
        weir__line_cover_anyway(line, false);
    ck_assert(!weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(wait.left, 1);
    sim_advance(10 * MILLISECOND);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(wait.left, 0);
    rig_close(line, stream);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence");
    TCase *marks = suite_case(suite, "marks", 0);
    tcase_add_checked_fixture(marks, rig_begin, rig_end);
    suite_add(marks, wait_for_the_newest_free_is_one_wait_for_each_line, free_is_pending_until_an_event_behind_it_is_complete,
              mark_covers_what_was_freed_before_it_and_nothing_else,
              line_without_a_new_free_gets_no_other_mark, line_gets_a_mark_once_so_much_is_freed, full_line_keeps_marks_over_all_of_its_steps,
              line_that_is_renewed_has_an_oldest_mark_and_a_newest, marks_on_which_nothing_depends_make_room,
              debt_of_many_steps_is_never_complete_too_early,
              free_beyond_the_parts_of_a_debt_is_not_covered_by_the_marks_before_it, parts_that_are_complete_make_room_in_a_debt);
    TCase *passing = suite_case(suite, "passing", 0);
    tcase_add_checked_fixture(passing, rig_begin, rig_end);
    suite_add(passing, frees_on_a_passing_line_share_a_step_that_is_marked_behind_all_of_them,
              step_with_an_unmarked_free_behind_it_is_not_shared, shared_step_ends_once_it_is_full,
              shared_step_ends_once_it_is_passed_on_or_complete, many_full_steps_of_a_passing_line_need_no_more_marks_than_there_are,
              passing_stream_is_touched_only_by_calls_that_name_it);
    TCase *gone = suite_case(suite, "gone", 0);
    tcase_add_checked_fixture(gone, rig_begin, rig_end);
    suite_add(gone, stream_that_two_have_open_is_open_until_the_second_closes_it, stream_that_is_gone_is_not_touched_when_it_is_closed,
              recycled_handle_is_another_line, what_a_gone_line_has_no_mark_for_waits_for_all_work_of_the_device,
              event_of_a_destroyed_context_says_nothing_of_the_device, driver_without_device_events_waits_for_the_device_if_it_may,
              call_of_a_stream_without_an_id_has_a_line_of_its_own, closed_stream_goes_on_as_a_passing_one,
              context_that_was_destroyed_ends_its_lines);
    tcase_add_loop_test(gone, lines_of_streams_that_were_used_once_do_not_pile_up, 0, 2);
    TCase *captures = suite_case(suite, "captures", 0);
    tcase_add_checked_fixture(captures, rig_begin, rig_end);
    suite_add(captures, stream_that_captures_gets_no_mark_until_it_is_over,
              free_that_stands_with_its_mark_is_refused_where_the_stream_captures,
              stream_closed_while_it_captures_is_left_alone_until_it_is_named,
              stream_closed_while_it_captures_is_gone_once_no_capture_may_be_left,
              legacy_stream_is_one_line_that_is_marked_only_where_it_is_named,
              what_was_freed_on_the_legacy_stream_is_complete_once_that_is_idle,
              mark_that_is_waited_for_is_not_needless_though_nothing_is_counted_before_it);
    fence_add_waits(suite);
    fence_add_failures(suite);
    fence_add_between(suite);
    fence_add_random(suite);
    fence_add_threads(suite);
    return suite_run(suite);
}
