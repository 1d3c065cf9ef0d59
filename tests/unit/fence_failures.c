/* SPDX-License-Identifier: MIT */
/* fence_failures.c - one program of frees, in which each call of the GPU and each allocation fails once. */
#include "tests/unit/fence.h"

#include <stdlib.h>

#include "tests/support/fail_malloc.h"

static struct {
    gpu_stream open, user, passing;
    uint64_t freed; /* bytes that were counted */
    bool is_right;  /* nothing was seen that must not be. No assertion stands where an allocation may fail: it allocates itself */
} program;

/* Anything may fail: then nothing was freed. */
static void try_free(struct weir__line *line, uint64_t bytes, uint64_t due)
{
    uint64_t step;
    struct weir__debt *debt = line ? weir__debt_of(&rig.debts, line) : NULL;
    if (debt && weir__line_free(debt, bytes, due, &step) == GPU_SUCCESS)
        program.freed += bytes;
    program.is_right = program.is_right && (!line || weir__line_is_valid(line));
}

static struct weir__line *try_line(gpu_stream stream, uint64_t id, bool is_open)
{
    const struct weir__caller caller = {.handle = stream, .id = id};
    return is_open ? weir__line_open(rig.fences, &caller) : weir__line_of(rig.fences, &caller);
}

static struct weir__parked *try_park(struct weir__line *one, struct weir__line *other)
{
    struct weir__line *lines[] = {one, other};
    struct weir__parked *parked = one && other ? weir__parked_new(2) : NULL;
    if (parked)
        weir__park(rig.fences, parked, lines, 2);
    return parked;
}

/* Stream 0 of the other device takes over what is done first, while the thread is on this one. */
static void try_legacy(void)
{
    const struct weir__caller legacy = {.handle = GPU_STREAM_LEGACY};
    struct weir__line *line = weir__line_of(rig.other, &legacy);
    if (!line)
        return;
    weir__debts_order(&rig.debts, line, MIB);
    program.is_right = program.is_right && weir__line_is_valid(line);
    weir__line_put(line);
}

/* The streams work for 20 ms, so nothing is complete before. Returns what is parked. */
static struct weir__parked *play(const uint64_t ids[3])
{
    struct weir__line *open = try_line(program.open, ids[0], true), *user = try_line(program.user, ids[1], true);
    try_free(open, MIB, NEVER);
    if (open)
        weir__line_cover(open, false);
    try_free(open, 2 * MIB, NEVER);
    struct weir__line *passing = try_line(program.passing, ids[2], false);
    try_free(passing, 4 * MIB, 0);
    try_free(passing, 8 * MIB, 0);
    try_free(passing, 16 * MIB, NEVER);
    struct weir__parked *parked = try_park(open, passing);
    if (user)
        weir__debts_order(&rig.debts, user, 5 * MIB);
    try_legacy();
    program.is_right = program.is_right && rig_look() == program.freed;
    if (passing)
        weir__line_put(passing);
    rig.gpu->stream_destroy(program.passing);
    rig.gpu->stream_destroy(program.open);
    if (open) {
        weir__line_gone(open);
        weir__line_put(open);
    }
    if (user) {
        weir__line_close(user);
        weir__line_put(user);
    }
    weir__fences_cover_device(rig.fences, true);
    return parked;
}

/* With a call that is to fail, but not after everything is done. */
static void run(const char *failing)
{
    const struct weir__scope device = {.fences = rig.fences};
    const uint64_t begun = rig.gpu->now();
    uint64_t ids[3] = {0};
    gpu_stream *streams[] = {&program.open, &program.user, &program.passing};
    program.freed = 0;
    program.is_right = true;
    for (unsigned i = 0; i < 3; i++) {
        *streams[i] = rig_stream(0);
        ck_assert_int_eq(rig.gpu->stream_id(*streams[i], &ids[i]), GPU_SUCCESS);
        rig_delay(*streams[i], 20);
    }
    struct weir__parked *parked = play(ids), *settled;
    ck_assert(program.is_right);
    if (rig.gpu->now() - begun < 20 * MILLISECOND) {
        ck_assert_uint_eq(rig_look(), program.freed);
        ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, NULL));
    }
    sim_advance(20 * MILLISECOND);
    sim_fail(failing, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        weir__scope_cover(&rig.scope, false);
        ck_assert(weir__fences_cover_device(rig.fences, true));
        ck_assert(weir__fences_cover_device(rig.other, true));
        weir__scope_look(&device); /* what only a point waits for is on no line of the owner's */
    }
    ck_assert_uint_eq(rig_pending(), 0);
    settled = weir__fences_settled(rig.fences, NULL, NULL);
    ck_assert_ptr_eq(settled, parked);
    free(settled);
    ck_assert_int_eq(rig.gpu->stream_destroy(program.user), GPU_SUCCESS);
}

static const struct {
    const char *call, *machine;
} calls[] = {{"event_create", "devices=2"},
             {"event_record", "devices=2"},
             {"event_query", "devices=2"},
             {"event_synchronize", "devices=2"},
             {"event_record_device", "devices=2"},
             {"stream_capture_status", "devices=2"},
             {"stream_context", "devices=2"},
             {"stream_wait_event", "devices=2"},
             {"get_current_device", "devices=2"},
             {"set_current_device", "devices=2"},
             {"event_destroy", "devices=2"},
             {"device_synchronize", "devices=2,driver=12.0"}};

/* Each at its first, second, … use, until there are no more. */
START_TEST(call_that_fails_completes_nothing_and_loses_nothing)
{
    unsigned nth = 0;
    uint64_t used;
    do {
        rig_begin_with(calls[_i].machine);
        used = sim_calls(calls[_i].call);
        sim_fail(calls[_i].call, ++nth, _i % 2 ? GPU_UNKNOWN : GPU_ILLEGAL_ADDRESS);
        run(calls[_i].call);
        used = sim_calls(calls[_i].call) - used;
        rig_end();
    } while (nth <= used);
    ck_assert_uint_gt(nth, 1);
}
END_TEST

START_TEST(allocation_that_fails_completes_nothing_and_loses_nothing)
{
    unsigned nth = 0;
    while (fail_malloc_works()) {
        rig_begin();
        const uint64_t ids[3] = {1000, 1001, 1002};
        struct weir__parked *parked;
        const struct weir__scope device = {.fences = rig.fences};
        program.freed = 0;
        program.is_right = true;
        program.open = rig_stream(0);
        program.user = rig_stream(0);
        program.passing = rig_stream(0);
        rig_delay(program.open, 20);
        rig_delay(program.passing, 20);
        fail_malloc_at(++nth);
        parked = play(ids);
        fail_malloc_at(0);
        ck_assert(program.is_right);
        ck_assert_uint_eq(rig_look(), program.freed);
        sim_advance(20 * MILLISECOND);
        for (unsigned i = 0; i < 2; i++) {
            weir__fences_cover_device(rig.fences, true);
            weir__fences_cover_device(rig.other, true);
            weir__scope_look(&device);
        }
        ck_assert_uint_eq(rig_pending(), 0);
        ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, NULL), parked);
        free(parked);
        ck_assert_int_eq(rig.gpu->stream_destroy(program.user), GPU_SUCCESS);
        rig_end();
        if (!fail_malloc_happened())
            break;
    }
}
END_TEST

START_TEST(fences_without_host_memory_are_not_joined)
{
    struct weir__fences *fences;
    unsigned nth = 0;
    rig_begin();
    rig_end();
    while (fail_malloc_works()) {
        fail_malloc_at(++nth);
        fences = weir__fences_join(rig.gpu, 0);
        fail_malloc_at(0);
        if (fences) {
            weir__fences_leave(fences);
            break;
        }
    }
}
END_TEST

void fence_add_failures(Suite *suite)
{
    TCase *tcase = suite_case(suite, "failures", 60);
    tcase_add_loop_test(tcase, call_that_fails_completes_nothing_and_loses_nothing, 0, (int)(sizeof calls / sizeof calls[0]));
    suite_add(tcase, allocation_that_fails_completes_nothing_and_loses_nothing, fences_without_host_memory_are_not_joined);
}
