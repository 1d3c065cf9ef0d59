/* SPDX-License-Identifier: MIT */
/* sim_named_clock.c - time, events and waiting on a machine with a name; and what is shared on one without. */
#include <unistd.h>

#include "lib/gpu/sim_machine.h"
#include "tests/gpu/sim_named.h"

/* Clock and events --------------------------------------------------------------------------------------------------------------------- */

START_TEST(processes_see_one_clock)
{
    struct peer_message message = { .what = PEER_NOW };
    uint64_t before = g->now();
    ck_assert_int_eq(peer_ask(&peers[0], &message, -1), 0);
    uint64_t after = g->now();
    ck_assert_uint_le(before, message.value);
    ck_assert_uint_le(message.value, after);
}
END_TEST

START_TEST(pause_lets_that_clock_pass)
{
    uint64_t before = g->now();
    g->pause(2 * MILLISECOND);
    ck_assert_uint_ge(g->now() - before, 2 * MILLISECOND);
}
END_TEST

START_TEST(synchronise_waits_as_long_as_the_work)
{
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 5 * MILLISECOND), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_ge(g->now() - before, 5 * MILLISECOND);
}
END_TEST

/* What another process recorded ends before the stream's own work, which a wait for it must not cut short. */
START_TEST(wait_for_another_process_does_not_shorten_own_work)
{
    gpu_event theirs = open_event_of(&peers[0], 0), mine, behind;
    ck_assert_int_eq(g->event_create(0, &mine), 0);
    ck_assert_int_eq(g->event_create(0, &behind), 0);
    record_behind(&peers[0], 5 * MILLISECOND);
    ck_assert_int_eq(g->delay(a, 50 * MILLISECOND), 0);
    ck_assert_int_eq(g->event_record(mine, a), 0);
    ck_assert_int_eq(g->stream_wait_event(a, theirs), 0);
    ck_assert_int_eq(g->event_record(behind, a), 0);
    ck_assert_int_eq(g->event_synchronize(behind), 0);
    ck_assert_int_eq(g->event_query(mine), 0);
    ck_assert_int_eq(g->event_query(theirs), 0);
}
END_TEST

START_TEST(stream_waits_for_two_other_processes)
{
    gpu_event one = open_event_of(&peers[0], 0), two = open_event_of(&peers[1], 0);
    uint64_t before = g->now();
    record_behind(&peers[0], 30 * MILLISECOND);
    record_behind(&peers[1], 10 * MILLISECOND);
    ck_assert_int_eq(g->stream_wait_event(a, one), 0);
    ck_assert_int_eq(g->delay(a, 7 * MILLISECOND), 0);
    ck_assert_int_eq(g->stream_wait_event(a, two), 0);
    ck_assert_int_eq(g->delay(a, 7 * MILLISECOND), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_ge(g->now() - before, 44 * MILLISECOND);
    ck_assert_int_eq(g->event_query(one) + g->event_query(two), 0);
}
END_TEST

/* This process's stream waits for the first peer's, and the second peer's for this one's, by their events 0 and 1. */
START_TEST(wait_goes_through_a_chain_of_processes)
{
    gpu_event one = open_event_of(&peers[0], 0), mine;
    struct peer_message message = { .what = PEER_OPEN_EVENT, .object = 1 };
    ck_assert_int_eq(g->event_create_shared(0, &mine, &message.event), 0);
    ck_assert_int_eq(peer_ask(&peers[1], &message, -1), 0);
    record_behind(&peers[0], 30 * MILLISECOND);
    ck_assert_int_eq(g->stream_wait_event(a, one), 0);
    ck_assert_int_eq(g->event_record(mine, a), 0);
    ask(&peers[1], .what = PEER_WAIT_EVENT, .object = 1);
    ask(&peers[1], .what = PEER_SYNCHRONIZE);
    ck_assert_int_eq(g->event_query(one), 0);
    ck_assert_int_eq(g->event_query(mine), 0);
}
END_TEST

START_TEST(copy_behind_another_process_gets_what_that_wrote)
{
    struct peer_message message = { .what = PEER_TAKE, .size = MIB };
    unsigned char bytes[2] = { 0 };
    int fd;
    gpu_pool imported;
    void *ptr;
    gpu_event event = open_event_of(&peers[0], 0);
    ck_assert_int_eq(peer_ask_fd(&peers[0], &(struct peer_message){ .what = PEER_MAKE_POOL }, &fd), 0);
    ck_assert_int_eq(peer_ask(&peers[0], &message, -1), 0);
    ck_assert_int_eq(g->pool_import(0, fd, &imported), 0);
    close(fd);
    ck_assert_int_eq(g->block_import(imported, &message.block, &ptr), 0);
    ask(&peers[0], .what = PEER_DELAY, .value = 10 * MILLISECOND);
    ask(&peers[0], .what = PEER_FILL, .address = message.address, .size = MIB, .value = 5);
    ask(&peers[0], .what = PEER_RECORD);
    ck_assert_int_eq(g->stream_wait_event(a, event), 0);
    unsigned char *own = take(MIB, a);
    ck_assert_int_eq(g->copy_async(own, ptr, MIB, a), 0);
    ck_assert_int_eq(g->set_async(own, 6, 1, a), 0);
    ck_assert_int_eq(g->copy_async(bytes, own, 2, a), 0);
    ck_assert_int_eq(bytes[0], 6);
    ck_assert_int_eq(bytes[1], 5);
}
END_TEST

START_TEST(memory_freed_behind_another_process_is_not_free_before)
{
    gpu_event event = open_event_of(&peers[0], 0);
    record_behind(&peers[0], 20 * MILLISECOND);
    void *ptr = take(GIB, a);
    ck_assert_int_eq(g->stream_wait_event(a, event), 0);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    ck_assert_int_eq(g->pool_trim(pool, 0), 0);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), GIB);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_int_eq(g->event_query(event), 0);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 0);
}
END_TEST

/* Far more often than there are places in the tables. */
START_TEST(records_and_waits_use_nothing_up)
{
    gpu_event theirs = open_event_of(&peers[0], 0), mine;
    struct gpu_shared_event shared;
    ck_assert_int_eq(g->event_create_shared(0, &mine, &shared), 0);
    for (int i = 0; i < 3 * SIM_FENCES_MAX; i++) {
        ck_assert_int_eq(g->event_record(mine, a), 0);
        ck_assert_int_eq(g->stream_wait_event(b, mine), 0);
    }
    for (int i = 0; i < 300; i++) {
        ask(&peers[0], .what = PEER_RECORD);
        ck_assert_int_eq(g->stream_wait_event(b, theirs), 0);
    }
    ck_assert_int_eq(g->stream_synchronize(b), 0);
}
END_TEST

/* Without a name ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(shared_event_of_a_machine_without_a_name_keeps_virtual_time)
{
    gpu_event event;
    struct gpu_shared_event shared;
    ck_assert_int_eq(g->event_create_shared(0, &event, &shared), 0);
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, MILLISECOND), 0);
    ck_assert_int_eq(g->event_record(event, a), 0);
    ck_assert_int_eq(g->stream_wait_event(b, event), 0);
    ck_assert_uint_eq(g->now(), before);
    ck_assert_int_eq(g->stream_synchronize(b), 0);
    ck_assert_uint_eq(g->now() - before, MILLISECOND);
    ck_assert_int_eq(g->event_query(event), 0);
    ck_assert_int_eq(g->event_destroy(event), 0);
}
END_TEST

START_TEST(shared_event_of_a_machine_without_a_name_is_not_ready_before_its_time)
{
    gpu_event event;
    struct gpu_shared_event shared;
    ck_assert_int_eq(g->event_create_shared(0, &event, &shared), 0);
    ck_assert_int_eq(g->delay(a, MILLISECOND), 0);
    ck_assert_int_eq(g->event_record(event, a), 0);
    ck_assert_int_eq(g->event_query(event), GPU_NOT_READY);
    g->pause(MILLISECOND);
    ck_assert_int_eq(g->event_query(event), 0);
}
END_TEST

/* What the figures of the pool say, and what its segments do. */
static void check_figures(const struct sim_pool *checked)
{
    uint64_t held = 0, reserved = 0, exported = 0;
    for (const struct sim_segment *segment = checked->segments; segment; segment = segment->next) {
        if (segment->state == SIM_SEGMENT_ABSENT)
            continue;
        held += segment->size;
        reserved += segment->hidden ? 0 : segment->size;
        exported += segment->exported ? segment->size : 0;
    }
    ck_assert_uint_eq(checked->held, held);
    ck_assert_uint_eq(checked->reserved, reserved);
    ck_assert_uint_eq(checked->exported, exported);
    ck_assert_uint_eq(free_bytes(), 8 * GIB - held);
}

START_TEST(figures_of_an_exportable_pool_add_up)
{
    void *blocks[16] = { NULL };
    gpu_pool made;
    struct gpu_shared_block shared;
    int fd;
    unsigned random = 1;
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true }, &made), 0);
    ck_assert_int_eq(g->pool_export(made, &fd), 0);
    close(fd);
    for (int i = 0; i < 3000; i++) {
        random = random * 1103515245 + 12345;
        unsigned slot = random >> 16 & 15, what = random >> 20 & 7;
        if (blocks[slot]) {
            ck_assert_int_eq(g->free_async(blocks[slot], a), 0);
            blocks[slot] = NULL;
        } else {
            ck_assert_int_eq(g->malloc_async(&blocks[slot], (random >> 8 & 0xff) * 1024 + 1, made, a), 0);
            if (what < 3)
                ck_assert_int_eq(g->block_export(blocks[slot], &shared), 0);
        }
        if (what == 3)
            ck_assert_int_eq(g->stream_synchronize(a), 0);
        check_figures((const struct sim_pool *)(void *)made);
    }
}
END_TEST

void add_named_clock_tests(Suite *suite)
{
    TCase *tcase = named_case(suite, "clock of processes");
    suite_add(tcase, processes_see_one_clock, pause_lets_that_clock_pass, synchronise_waits_as_long_as_the_work,
              wait_for_another_process_does_not_shorten_own_work, stream_waits_for_two_other_processes,
              wait_goes_through_a_chain_of_processes, copy_behind_another_process_gets_what_that_wrote,
              memory_freed_behind_another_process_is_not_free_before, records_and_waits_use_nothing_up);

    tcase = sim_case(suite, "sharing without a name");
    suite_add(tcase, shared_event_of_a_machine_without_a_name_keeps_virtual_time,
              shared_event_of_a_machine_without_a_name_is_not_ready_before_its_time, figures_of_an_exportable_pool_add_up);
}
