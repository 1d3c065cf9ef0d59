/* SPDX-License-Identifier: MIT */
/* conformance_events.c - events that two processes share, and what becomes of those of a process that was killed. */
#include "tests/gpu/conformance_lend.h"

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

/* An event of this process, which the peer has opened as its event 0. */
static gpu_event make_event_with(struct peer *peer)
{
    gpu_event event;
    struct peer_message message = { .what = PEER_OPEN_EVENT };
    ck_assert_gpu(g->event_create_shared(0, &event, &message.event));
    ck_assert_gpu(peer_ask(peer, &message, -1));
    return event;
}

START_TEST(event_orders_streams_of_two_processes)
{
    struct lent lent = lend(64 * MIB, 1);
    gpu_event event = make_event_with(&first);
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->set_async(lent.ptr, 48, 64 * MIB, rig.a));
    ck_assert_gpu(g->event_record(event, rig.a));
    ck_assert_peer(&first, .what = PEER_WAIT_EVENT);
    ck_assert_int_eq(read_at(&first, lent.there + 64 * MIB - 1), 48);
    ck_assert_gpu(g->event_query(event));
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

START_TEST(event_that_another_process_recorded_is_waited_for)
{
    struct lent lent = lend(MIB, 1);
    gpu_event event = make_event_with(&first);
    ck_assert_peer(&first, .what = PEER_DELAY, .value = KERNEL_NS);
    ck_assert_peer(&first, .what = PEER_FILL, .address = lent.there, .size = MIB, .value = 49);
    ck_assert_peer(&first, .what = PEER_RECORD);
    ck_assert_gpu(g->stream_wait_event(rig.b, event));
    ck_assert_int_eq(read_byte(lent.ptr), 49);
    ck_assert_gpu(g->event_query(event));
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

START_TEST(event_is_queried_to_the_end_by_another_process)
{
    gpu_event event = make_event_with(&first);
    int code = GPU_SUCCESS;
    for (uint64_t ns = 5 * KERNEL_NS; code == GPU_SUCCESS; ns *= 4) { /* until both processes get there before it ends */
        ck_assert_peer(&first, .what = PEER_DELAY, .value = ns);
        ck_assert_peer(&first, .what = PEER_RECORD);
        code = g->event_query(event);
    }
    ck_assert_gpu_code(code, GPU_NOT_READY);
    poll_until_done(event);
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

START_TEST(event_is_synchronised_by_another_process)
{
    gpu_event event = make_event_with(&first);
    ck_assert_peer(&first, .what = PEER_DELAY, .value = KERNEL_NS);
    ck_assert_peer(&first, .what = PEER_RECORD);
    ck_assert_gpu(g->event_synchronize(event));
    ck_assert_gpu(g->event_query(event));
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

START_TEST(opened_event_that_was_never_recorded_is_ready)
{
    gpu_event event = make_event_with(&first);
    ck_assert_peer(&first, .what = PEER_QUERY_EVENT);
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

START_TEST(event_cannot_be_opened_by_the_process_that_made_it)
{
    gpu_event event, opened;
    struct gpu_shared_event shared;
    ck_assert_gpu(g->event_create_shared(0, &event, &shared));
    int code = g->event_open_shared(0, &shared, &opened);
    ck_assert_gpu(g->event_destroy(event));
    ck_assert_int_ne(code, 0);
}
END_TEST

/* The peers' event 0, of which the one is the maker; the first records it behind a kernel and is killed. What the second does with it then
   may take for ever, so that the test does not do it itself. */
static struct peer *const makers[] = { &first, &second };

static void share_event_of(struct peer *maker)
{
    struct peer *opener = maker == &first ? &second : &first;
    struct peer_message message = { .what = PEER_MAKE_EVENT };
    ck_assert_gpu(peer_ask(maker, &message, -1));
    message.what = PEER_OPEN_EVENT;
    ck_assert_gpu(peer_ask(opener, &message, -1));
}

static void record_and_kill_first(struct peer *maker)
{
    share_event_of(maker);
    ck_assert_peer(&first, .what = PEER_DELAY, .value = LONG_NS);
    ck_assert_peer(&first, .what = PEER_RECORD);
    peer_kill(&first);
}

START_TEST(event_can_be_recorded_when_its_maker_was_killed)
{
    share_event_of(&first);
    peer_kill(&first);
    ck_assert_peer(&second, .what = PEER_RECORD);
    ck_assert_peer(&second, .what = PEER_SYNCHRONIZE);
    ck_assert_peer(&second, .what = PEER_QUERY_EVENT);
}
END_TEST

START_TEST(event_that_was_complete_stays_so_when_its_recorder_is_killed)
{
    gpu_event event = make_event_with(&first);
    ck_assert_peer(&first, .what = PEER_RECORD);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    peer_kill(&first);
    ck_assert_gpu(g->event_query(event));
    ck_assert_gpu(g->event_destroy(event));
}
END_TEST

/* For 300 ms. */
static void check_that_it_stays_unready(gpu_event event)
{
    for (int i = 0; i < 100; i++) {
        ck_assert_gpu_code(g->event_query(event), GPU_NOT_READY);
        g->pause(3000000);
    }
}

START_TEST(event_of_a_killed_recorder_never_completes)
{
    record_and_kill_first(makers[_i]);
    for (int i = 0; i < 100; i++) {
        ck_assert_peer_code(&second, GPU_NOT_READY, .what = PEER_QUERY_EVENT);
        g->pause(3000000);
    }
}
END_TEST

START_TEST(event_of_a_killed_recorder_can_be_destroyed)
{
    record_and_kill_first(makers[_i]);
    ck_assert_peer(&second, .what = PEER_DESTROY_EVENT);
}
END_TEST

START_TEST(process_that_destroyed_the_event_of_a_killed_recorder_goes_on)
{
    record_and_kill_first(makers[_i]);
    ck_assert_peer(&second, .what = PEER_DESTROY_EVENT);
    ck_assert_peer(&second, .what = PEER_DELAY, .value = 1000000);
    ck_assert_peer(&second, .what = PEER_SYNCHRONIZE);
    ck_assert_peer(&second, .what = PEER_MAKE_EVENT);
    ck_assert_peer(&second, .what = PEER_RECORD);
    ck_assert_peer(&second, .what = PEER_SYNCHRONIZE);
    ck_assert_peer(&second, .what = PEER_QUERY_EVENT);
}
END_TEST

/* The second peer's stream waits for what the first recorded before it was killed, and has its event 1 behind that, opened by the test. */
static gpu_event let_second_wait_for_a_killed_recorder(void)
{
    gpu_event behind;
    struct peer_message message = { .what = PEER_MAKE_EVENT, .object = 1 };
    share_event_of(&first);
    ck_assert_gpu(peer_ask(&second, &message, -1));
    ck_assert_gpu(g->event_open_shared(0, &message.event, &behind));
    ck_assert_peer(&first, .what = PEER_DELAY, .value = LONG_NS);
    ck_assert_peer(&first, .what = PEER_RECORD);
    ck_assert_peer(&second, .what = PEER_WAIT_EVENT);
    ck_assert_peer(&second, .what = PEER_RECORD, .object = 1);
    peer_kill(&first);
    return behind;
}

START_TEST(stream_that_waits_for_a_killed_recorder_hangs)
{
    gpu_event behind = let_second_wait_for_a_killed_recorder();
    check_that_it_stays_unready(behind);
    peer_kill(&second);
    ck_assert_gpu(g->event_destroy(behind));
}
END_TEST

/* Its first kernel ever is another matter: CUDA loads it then, and that waits for every stream (measured). */
START_TEST(other_streams_of_a_process_with_one_that_hangs_go_on)
{
    ck_assert_peer(&second, .what = PEER_DELAY, .value = 1);
    ck_assert_peer(&second, .what = PEER_SYNCHRONIZE);
    gpu_event behind = let_second_wait_for_a_killed_recorder();
    ck_assert_peer(&second, .what = PEER_OTHER_STREAM);
    ck_assert_peer(&second, .what = PEER_DELAY, .value = 1000000);
    ck_assert_peer(&second, .what = PEER_SYNCHRONIZE);
    ck_assert_gpu_code(g->event_query(behind), GPU_NOT_READY);
    peer_kill(&second);
    ck_assert_gpu(g->event_destroy(behind));
}
END_TEST

START_TEST(other_processes_go_on_beside_a_stream_that_hangs)
{
    gpu_event behind = let_second_wait_for_a_killed_recorder();
    ck_assert_gpu(g->delay(rig.a, 1000000));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu_code(g->event_query(behind), GPU_NOT_READY);
    peer_kill(&second);
    ck_assert_gpu(g->event_destroy(behind));
}
END_TEST

void add_shared_event_tests(Suite *suite)
{
    TCase *tcase = share_case(suite, "shared events");
    suite_add(tcase, event_orders_streams_of_two_processes, event_that_another_process_recorded_is_waited_for,
              event_is_queried_to_the_end_by_another_process, event_is_synchronised_by_another_process,
              opened_event_that_was_never_recorded_is_ready, event_cannot_be_opened_by_the_process_that_made_it,
              event_that_was_complete_stays_so_when_its_recorder_is_killed, event_can_be_recorded_when_its_maker_was_killed);
    tcase_add_loop_test(tcase, event_of_a_killed_recorder_never_completes, 0, 2);
    tcase_add_loop_test(tcase, event_of_a_killed_recorder_can_be_destroyed, 0, 2);
    tcase_add_loop_test(tcase, process_that_destroyed_the_event_of_a_killed_recorder_goes_on, 0, 2);
    suite_add(tcase, stream_that_waits_for_a_killed_recorder_hangs, other_streams_of_a_process_with_one_that_hangs_go_on,
              other_processes_go_on_beside_a_stream_that_hangs);
}
