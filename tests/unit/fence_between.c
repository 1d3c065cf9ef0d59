/* SPDX-License-Identifier: MIT */
/*
 * fence_between.c - what else happens in the process between two steps of a call: another weir that has the same stream open, another
 * thread, a context that goes, a closed stream that is opened again.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fence.h"

/* The simulator's operations, one of which does something more. */
static struct gpu hooked;
static const struct gpu *sim_gpu;

static void begin_hooked(const char *settings)
{
    rig_end();
    rig_begin_with(settings);
    weir__debts_end(&rig.debts);
    weir__fences_leave(rig.other);
    weir__fences_leave(rig.fences);
    sim_gpu = rig.gpu;
    hooked = *sim_gpu;
    rig_join(&hooked);
}

/* Lines that are used from several sides ------------------------------------------------------------------------------------------------
 */

/* As two weirs of a process do. */
START_TEST(stream_that_was_opened_twice_is_open_until_it_was_closed_twice)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *one = rig_open(stream), *two = rig_open(stream);
    ck_assert_ptr_eq(one, two);
    rig_delay(stream, 10);
    rig_free(one, MIB, NEVER);
    weir__line_close(one);
    weir__line_put(one);
    rig_free(two, MIB, NEVER);
    ck_assert_int_eq(atomic_load(&two->kind), WEIR__LINE_OPEN);
    ck_assert(weir__line_cover(two, false));
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    rig_close(two, stream);
}
END_TEST

/* Without a question to the driver, and only where that owner has freed on the stream before. */
START_TEST(frees_that_name_a_handle_are_counted_where_the_owner_has_freed_before)
{
    gpu_stream stream = rig_stream(0), unknown = rig_stream(0);
    struct weir__line *line = rig_name(stream), *due;
    struct weir__debts other;
    weir__debts_init(&other, rig.fences);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, NULL, MIB, &due));
    ck_assert_ptr_null(due);
    ck_assert_uint_eq(rig_pending_on(line), 2 * MIB);
    ck_assert(!weir__line_count_by_handle(rig.fences, stream, &other, NULL, MIB, &due));
    ck_assert(!weir__line_count_by_handle(rig.fences, unknown, &rig.debts, NULL, MIB, &due));
    ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, NULL, WEIR__PASSING_BYTES, &due));
    ck_assert_ptr_eq(due, line);
    ck_assert(weir__line_cover(due, true));
    weir__line_put(due);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_gone(line);
    weir__line_put(line);
    ck_assert(!weir__line_count_by_handle(rig.fences, stream, &rig.debts, NULL, MIB, &due));
    weir__debts_end(&other);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    ck_assert_int_eq(rig.gpu->stream_destroy(unknown), GPU_SUCCESS);
}
END_TEST

/* A stream that nobody opened, and that gets the same memory again and again, needs no event for each 32 MiB that it frees: as long as its
   step lasts, one event will be behind all of these frees. */
START_TEST(memory_that_is_freed_again_in_one_step_is_counted_once)
{
    char *memory = (char *)(uintptr_t)(UINT64_C(1) << 40);
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_name(stream), *due;
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    for (int i = 0; i < 100; i++) {
        ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, memory + 4 * MIB, 8 * MIB, &due));
        ck_assert_ptr_null(due);
        ck_assert_uint_eq(rig_pending_on(line), 9 * MIB);
    }
    ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, memory, 16 * MIB, &due));
    ck_assert_ptr_null(due);
    ck_assert_uint_eq(rig_pending_on(line), 17 * MIB);
    ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, memory + 64 * MIB, 16 * MIB, &due));
    ck_assert_ptr_eq(due, line);
    ck_assert(weir__line_cover(due, true));
    weir__line_put(due);
    ck_assert_uint_eq(rig_pending_on(line), 33 * MIB);
    ck_assert(weir__line_count_by_handle(rig.fences, stream, &rig.debts, memory + 64 * MIB, 16 * MIB, &due)); /* in the next step */
    ck_assert_uint_eq(rig_pending_on(line), 49 * MIB);
    sim_advance(10 * MILLISECOND);
    rig_look();
    ck_assert_uint_eq(rig_pending_on(line), 16 * MIB);
    weir__line_gone(line);
    ck_assert_uint_eq(rig_pending_on(line), 0);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

/* Another thread covers the device while weir__fences_order() has unlinked the block, and does not find its points. */
static struct weir__line *named_once;
static pthread_t coverer;

static void *cover_device(void *unused)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    (void)unused;
    sim_gpu->exchange_capture_mode(&mode);
    weir__fences_cover_device(rig.fences, false);
    return NULL;
}

static int wait_while_the_device_is_covered(gpu_stream stream, gpu_event event)
{
    hooked.stream_wait_event = sim_gpu->stream_wait_event;
    ck_assert_int_eq(pthread_create(&coverer, NULL, cover_device, NULL), 0);
    while (atomic_load(&named_once->uncovered))
        sched_yield();
    return sim_gpu->stream_wait_event(stream, event);
}

START_TEST(parked_block_that_is_put_back_waits_for_a_device_that_was_covered_meanwhile)
{
    begin_hooked("devices=2");
    gpu_stream streams[] = {rig_stream(0), rig_stream(0), rig_stream(0)};
    struct weir__line *opened = rig_open(streams[0]), *user = rig_open(streams[1]);
    named_once = rig_name(streams[2]);
    rig_delay(streams[0], 10);
    rig_delay(streams[2], 10);
    struct weir__parked *parked = weir__parked_new(2);
    struct weir__line *lines[] = {opened, named_once};
    weir__park(rig.fences, parked, lines, 2);
    hooked.stream_wait_event = wait_while_the_device_is_covered;
    ck_assert_ptr_null(weir__fences_order(rig.fences, NULL, user));
    ck_assert_int_eq(pthread_join(coverer, NULL), 0);
    weir__line_put(named_once);
    sim_advance(10 * MILLISECOND);
    const struct weir__scope scope = {.fences = rig.fences, .is_parked = true};
    weir__scope_cover(&scope, false);
    ck_assert(weir__scope_needs_devices(&scope));
    weir__scope_cover_devices(&scope, false);
    weir__scope_look(&scope);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, NULL), parked);
    free(parked);
    rig_close(opened, streams[0]);
    rig_close(user, streams[1]);
    ck_assert_int_eq(sim_gpu->stream_destroy(streams[2]), GPU_SUCCESS);
}
END_TEST

/* An owner that tracks the steps of its frees, each of a MiB or more. */
static uint64_t tracked[16];
static size_t tracked_count;

static void track(struct weir__debt *debt, const uint64_t *step)
{
    (void)debt;
    tracked[tracked_count++] = *step;
}

static bool has_tracked(struct weir__debt *debt, uint64_t after, uint64_t until)
{
    bool has = false;
    (void)debt;
    for (size_t i = 0; i < tracked_count; i++)
        has = has || (tracked[i] > after && tracked[i] <= until);
    return has;
}

static uint64_t pass_tracked(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step)
{
    size_t left = 0, before = tracked_count;
    (void)debt, (void)to, (void)step;
    for (size_t i = 0; i < before; i++)
        if (tracked[i] <= after || tracked[i] > until)
            tracked[left++] = tracked[i];
    tracked_count = left;
    return (before - left) * MIB;
}

/* Marks and parts merge by rules of their own, so a step may be complete whose part stands for a later one as well. */
START_TEST(what_an_owner_tracks_leaves_with_the_part_that_stands_for_its_step)
{
    static const struct weir__tracker tracker = {.freed = track, .has = has_tracked, .pass = pass_tracked};
    static const uint64_t sizes[] = {16, 10, 10, 16, 16, 16, 16, 8, 4, 16};
    gpu_stream stream = rig_stream(0), other = rig_stream(0);
    struct weir__line *line = rig_open(stream), *user = rig_open(other);
    struct weir__debts debts;
    weir__debts_init(&debts, rig.fences);
    debts.tracker = &tracker;
    tracked_count = 0;
    struct weir__debt *debt = weir__debt_of(&debts, line);
    for (size_t i = 0; i < 10; i++) {
        uint64_t step;
        rig_delay(stream, 1);
        ck_assert_int_eq(weir__line_free(debt, sizes[i] * MIB, NEVER, &step), GPU_SUCCESS);
        if (i < 9)
            ck_assert(weir__line_cover(line, true));
    }
    const struct weir__scope scope = {.fences = rig.fences, .debts = &debts};
    sim_advance(15 * MILLISECOND / 2);
    weir__scope_look(&scope);
    sim_advance(MILLISECOND);
    weir__scope_look(&scope);
    weir__scope_pending(&scope);
    weir__debts_order(&debts, user, 1024 * MIB);
    ck_assert_uint_eq(tracked_count, 0);
    sim_advance(10 * MILLISECOND);
    rig_close(line, stream);
    rig_close(user, other);
    weir__debts_end(&debts);
}
END_TEST

/* Nobody touches it, although another side has not heard of that yet. */
START_TEST(stream_that_one_side_knows_to_be_destroyed_is_touched_by_none)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *one = rig_open(stream), *two = rig_open(stream);
    rig_free(one, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS); /* the simulator ends at whoever touches it now */
    weir__line_gone(one);
    weir__line_put(one);
    struct weir__parked *parked = weir__parked_new(1);
    weir__park(rig.fences, parked, &two, 1);
    ck_assert(!weir__line_cover(two, false));
    weir__line_close(two);
    weir__line_put(two);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_look(rig.fences->whole);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, NULL), parked);
    free(parked);
}
END_TEST

/* What comes to a line that is gone is not forgotten by those who cover all lines meanwhile. */
START_TEST(stream_that_is_opened_again_is_covered_again)
{
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, MIB); /* which keeps the line */
    weir__line_close(line);
    struct weir__parked *parked = weir__parked_new(1);
    weir__park(rig.fences, parked, &line, 1);
    weir__scope_cover(&rig.scope, false);
    ck_assert_ptr_eq(rig_open(stream), line);
    sim_advance(10 * MILLISECOND);
    ck_assert(weir__line_cover(line, false));
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_look(line);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, NULL), parked);
    free(parked);
    weir__line_put(line);
    rig_close(line, stream);
}
END_TEST

/* Between two operations of the waist ----------------------------------------------------------------------------------------------------
 */

static bool was_free;

static int synchronize_and_try_the_lock(int device)
{
    was_free = pthread_mutex_trylock(&rig.fences->whole->lock) == 0;
    if (was_free)
        pthread_mutex_unlock(&rig.fences->whole->lock);
    return sim_gpu->device_synchronize(device);
}

/* A thread that waits without bound holds up nobody who looks. */
START_TEST(device_is_synchronised_with_no_lock_held)
{
    begin_hooked("devices=2,driver=12.0");
    hooked.device_synchronize = synchronize_and_try_the_lock;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    was_free = false;
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert(was_free);
    ck_assert_uint_eq(rig_pending(), 0);
}
END_TEST

static struct weir__line *late;
static unsigned synchronised;

/* The stream goes while the device is waited for, so that its last free is none of those that were waited for. */
static int synchronize_and_lose_a_stream(int device)
{
    int code = sim_gpu->device_synchronize(device);
    if (!synchronised++) {
        gpu_stream stream = late->handle;
        rig_delay(stream, 10);
        rig_free(late, 2 * MIB, NEVER);
        ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
        weir__line_gone(late);
        weir__line_put(late);
    }
    return code;
}

START_TEST(what_comes_while_the_device_is_waited_for_is_waited_for_next_time)
{
    begin_hooked("devices=2,driver=12.0");
    hooked.device_synchronize = synchronize_and_lose_a_stream;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    late = rig_open(rig_stream(0));
    synchronised = 0;
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_eq(rig_look(), 2 * MIB);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_eq(rig_look(), 0);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_eq(synchronised, 2); /* nothing was left to wait for */
}
END_TEST

static uint64_t done_inside;

/* Another thread waits for the device from a later moment on, and is the first to have seen it idle. */
static int synchronize_and_be_overtaken(int device)
{
    if (!synchronised++) {
        gpu_stream stream = late->handle;
        rig_free(late, 2 * MIB, NEVER);
        ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
        weir__line_gone(late);
        weir__line_put(late);
        ck_assert(weir__fences_cover_device(rig.fences, true));
        done_inside = atomic_load(&rig.fences->whole->done);
    }
    return sim_gpu->device_synchronize(device);
}

START_TEST(two_who_wait_for_the_device_never_take_back_what_is_complete)
{
    begin_hooked("devices=2,driver=12.0");
    hooked.device_synchronize = synchronize_and_be_overtaken;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    late = rig_open(rig_stream(0));
    synchronised = 0;
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert_uint_eq(synchronised, 2);
    ck_assert_uint_ge(atomic_load(&rig.fences->whole->done), done_inside);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

static void *context;

/* It is not ready; and at once the event's context is gone. */
static int query_and_destroy_the_context(gpu_event event)
{
    int code = sim_gpu->event_query(event);
    if (code == GPU_NOT_READY && context) {
        sim_context_destroy(context);
        sim_context_set_current(NULL);
        context = NULL;
    }
    return code;
}

START_TEST(context_destroyed_while_its_event_of_the_device_is_asked_completes_nothing)
{
    begin_hooked("devices=2");
    hooked.event_query = query_and_destroy_the_context;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    rig_delay(stream, 10);
    rig_free(line, MIB, NEVER);
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    weir__line_gone(line);
    weir__line_put(line);
    context = sim_context_create(0);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert(weir__fences_cover_device(rig.fences, false));
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

/* Between two steps of the tables --------------------------------------------------------------------------------------------------------
 */

static bool end_owner(struct weir__debts *debts)
{
    weir__debts_end(debts);
    memset(debts, 0xA5, sizeof *debts);
    free(debts);
    return true;
}

static void *sweep_often(void *is_over)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    rig.gpu->exchange_capture_mode(&mode);
    while (!atomic_load((atomic_bool *)is_over))
        weir__debts_sweep(rig.gpu);
    return NULL;
}

START_TEST(owner_that_retires_may_be_ended_by_the_sweep_of_another_thread)
{
    pthread_t sweeper;
    atomic_bool is_over = false;
    ck_assert_int_eq(pthread_create(&sweeper, NULL, sweep_often, &is_over), 0);
    for (unsigned i = 0; i < suite_rounds(20000, 200000); i++) {
        struct weir__debts *debts = malloc(sizeof *debts);
        ck_assert_ptr_nonnull(debts);
        weir__debts_init(debts, rig.fences);
        weir__debts_retire(debts, end_owner);
        weir__debts_sweep(rig.gpu);
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(sweeper, NULL), 0);
    weir__debts_sweep(rig.gpu); /* the last that the other thread had taken and put back */
    ck_assert_uint_eq(rig.fences->users, 1);
}
END_TEST

#define LINES 4

static struct weir__line *round_lines[LINES];

/* From line to line, and never off them. */
static void *pass_round(void *is_over)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    rig.gpu->exchange_capture_mode(&mode);
    for (unsigned i = 0; !atomic_load((atomic_bool *)is_over); i++)
        weir__debts_order(&rig.debts, round_lines[i % LINES], MIB);
    return NULL;
}

START_TEST(memory_that_is_passed_on_is_pending_at_any_moment)
{
    pthread_t passer;
    gpu_stream streams[LINES];
    atomic_bool is_over = false;
    for (unsigned i = 0; i < LINES; i++) {
        round_lines[i] = rig_open(streams[i] = rig_stream(0));
        rig_delay(streams[i], 10);
    }
    rig_free(round_lines[0], MIB, NEVER);
    ck_assert_int_eq(pthread_create(&passer, NULL, pass_round, &is_over), 0);
    for (unsigned i = 0; i < suite_rounds(20000, 200000); i++) {
        ck_assert_uint_eq(rig_pending(), MIB);
        ck_assert(!weir__debts_are_settled(&rig.debts));
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(passer, NULL), 0);
    for (unsigned i = 0; i < LINES; i++)
        rig_close(round_lines[i], streams[i]);
    ck_assert_uint_eq(rig_look(), 0);
}
END_TEST

/* The thread's current device is another one, and cannot be changed: no wait at all is better than one on the wrong device. */
START_TEST(legacy_stream_of_another_device_waits_or_gets_nothing)
{
    static const char *const calls[] = {"get_current_device", "set_current_device"};
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    const struct weir__caller legacy = {.handle = GPU_STREAM_LEGACY};
    struct weir__line *user = weir__line_of(rig.other, &legacy);
    rig_delay(stream, 10);
    rig_free(line, MIB, MIB);
    sim_fail(calls[_i], 1, GPU_UNKNOWN);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, MIB), 0);
    ck_assert_uint_eq(rig_pending_on(line), MIB);
    ck_assert_uint_eq(weir__debts_order(&rig.debts, user, MIB), MIB);
    ck_assert_uint_eq(rig_pending_on(user), MIB);
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(user);
    rig_close(line, stream);
}
END_TEST

/* That of the thread's device is idle, which says nothing. */
START_TEST(legacy_stream_of_another_device_is_asked_or_stays_pending)
{
    static const char *const calls[] = {"get_current_device", "set_current_device"};
    const struct weir__caller legacy = {.handle = GPU_STREAM_LEGACY};
    struct weir__line *line = weir__line_of(rig.other, &legacy);
    ck_assert_int_eq(rig.gpu->set_current_device(1), GPU_SUCCESS);
    rig_delay(GPU_STREAM_LEGACY, 10);
    ck_assert_int_eq(rig.gpu->set_current_device(0), GPU_SUCCESS);
    rig_free(line, MIB, NEVER);
    sim_fail(calls[_i], 1, GPU_UNKNOWN);
    ck_assert_uint_eq(rig_look(), MIB);
    ck_assert_uint_eq(rig_look(), MIB);
    sim_advance(10 * MILLISECOND);
    ck_assert_uint_eq(rig_look(), 0);
    weir__line_put(line);
}
END_TEST

void fence_add_between(Suite *suite)
{
    TCase *tcase = suite_case(suite, "between", 120);
    tcase_add_checked_fixture(tcase, rig_begin, rig_end);
    suite_add(tcase, stream_that_was_opened_twice_is_open_until_it_was_closed_twice,
              frees_that_name_a_handle_are_counted_where_the_owner_has_freed_before,
              memory_that_is_freed_again_in_one_step_is_counted_once,
              parked_block_that_is_put_back_waits_for_a_device_that_was_covered_meanwhile,
              what_an_owner_tracks_leaves_with_the_part_that_stands_for_its_step,
              stream_that_one_side_knows_to_be_destroyed_is_touched_by_none, stream_that_is_opened_again_is_covered_again,
              device_is_synchronised_with_no_lock_held, what_comes_while_the_device_is_waited_for_is_waited_for_next_time,
              two_who_wait_for_the_device_never_take_back_what_is_complete,
              context_destroyed_while_its_event_of_the_device_is_asked_completes_nothing,
              owner_that_retires_may_be_ended_by_the_sweep_of_another_thread, memory_that_is_passed_on_is_pending_at_any_moment);
    tcase_add_loop_test(tcase, legacy_stream_of_another_device_waits_or_gets_nothing, 0, 2);
    tcase_add_loop_test(tcase, legacy_stream_of_another_device_is_asked_or_stays_pending, 0, 2);
}
