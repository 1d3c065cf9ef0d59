/* SPDX-License-Identifier: MIT */
/*
 * fence_random.c - random programs beside what the GPU really has done, which events of the test's own tell; and threads.
 *
 * What holds at every instant: at least so many bytes are pending as were freed behind work that goes on, whoever they were passed to. And
 * at the end: once all work is done and all that may be covered is, nothing is pending.
 */
#include "tests/unit/fence.h"

#include <stdlib.h>

#define SLOTS 6
#define FREES 512
#define STEPS 300

static uint64_t state;

static unsigned below(unsigned bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % bound;
}

static struct slot {
    gpu_stream stream;       /* NULL: none */
    struct weir__line *line; /* open; NULL: its calls name it */
    bool captures;
} slots[SLOTS];

static struct {
    gpu_event event; /* behind the work before the free */
    uint64_t bytes;
} frees[FREES];
static unsigned count;

static uint64_t really_pending(void)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count;) {
        if (rig.gpu->event_query(frees[i].event) == GPU_NOT_READY) {
            bytes += frees[i++].bytes;
            continue;
        }
        ck_assert_int_eq(rig.gpu->event_destroy(frees[i].event), GPU_SUCCESS);
        frees[i] = frees[--count];
    }
    return bytes;
}

static int device_of(const struct slot *slot)
{
    int device = 0;
    ck_assert_int_eq(rig.gpu->stream_device(slot->stream, &device), GPU_SUCCESS);
    return device;
}

static void free_on(struct slot *slot)
{
    uint64_t bytes = (1 + below(64)) * MIB, step, dues[] = {0, NEVER, 16 * MIB, 64 * MIB};
    struct weir__line *line = slot->line ? slot->line : rig_name(slot->stream);
    struct weir__debt *debt = weir__debt_of(&rig.debts, line);
    ck_assert_ptr_nonnull(debt);
    if (count < FREES) {
        ck_assert_int_eq(rig.gpu->event_create(device_of(slot), &frees[count].event), GPU_SUCCESS);
        ck_assert_int_eq(rig.gpu->event_record(frees[count].event, slot->stream), GPU_SUCCESS);
        frees[count++].bytes = bytes;
        ck_assert_int_eq(weir__line_free(debt, bytes, dues[below(4)], &step), GPU_SUCCESS);
    }
    ck_assert(weir__line_is_valid(line));
    if (!slot->line)
        weir__line_put(line);
}

static void borrow_for(struct slot *slot)
{
    struct weir__line *line = slot->line ? slot->line : rig_name(slot->stream);
    weir__debts_order(&rig.debts, line, (1 + below(128)) * MIB);
    ck_assert(weir__line_is_valid(line));
    if (!slot->line)
        weir__line_put(line);
}

static void make(struct slot *slot)
{
    slot->stream = rig_stream((int)below(2));
    slot->line = below(2) ? rig_open(slot->stream) : NULL;
}

static void end_capture(struct slot *slot)
{
    size_t nodes;
    ck_assert_int_eq(rig.gpu->capture_end(slot->stream, &nodes), GPU_SUCCESS); /* nobody has spoilt it */
    slot->captures = false;
}

/* Closed first, or destroyed while it is open. */
static void end(struct slot *slot)
{
    struct weir__line *line = slot->line;
    bool is_closed = line && below(2);
    if (is_closed)
        weir__line_close(line);
    if (slot->captures)
        end_capture(slot);
    ck_assert_int_eq(rig.gpu->stream_destroy(slot->stream), GPU_SUCCESS);
    if (line && !is_closed)
        weir__line_gone(line);
    if (line)
        weir__line_put(line);
    *slot = (struct slot){.stream = NULL};
}

static bool any_captures(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].captures)
            return true;
    return false;
}

/* Nothing captures then. */
static void cover_devices(void)
{
    weir__fences_captures_over(rig.fences);
    weir__fences_captures_over(rig.other);
    ck_assert(weir__fences_cover_device(rig.fences, true));
    ck_assert(weir__fences_cover_device(rig.other, true));
}

static void use(struct slot *slot)
{
    switch (below(6)) {
    case 0:
        rig_delay(slot->stream, 1 + below(20));
        break;
    case 1:
        borrow_for(slot);
        break;
    case 2:
        ck_assert_int_eq(rig.gpu->capture_begin(slot->stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
        slot->captures = true;
        break;
    default:
        free_on(slot);
    }
}

static void step(void)
{
    struct slot *slot = &slots[below(SLOTS)];
    switch (below(12)) {
    case 0:
        if (slot->stream)
            end(slot);
        break;
    case 1:
        weir__scope_cover(&rig.scope);
        break;
    case 2:
    case 3:
        rig_look();
        break;
    case 4:
        sim_advance(below(10) * MILLISECOND);
        break;
    case 5:
        if (!any_captures())
            cover_devices();
        break;
    case 6:
        weir__scope_wait(&rig.scope, below(64) * MIB, rig.gpu->now() + below(3) * MILLISECOND);
        break;
    default:
        if (!slot->stream)
            make(slot);
        else if (slot->captures)
            end_capture(slot);
        else
            use(slot);
    }
}

static const char *const machines[] = {"devices=2", "devices=2,driver=12.0", "devices=2,driver=11.8"};

START_TEST(nothing_is_complete_before_the_gpu_says_so_and_everything_in_the_end)
{
    for (unsigned round = 0, rounds = suite_rounds(100, 1000); round < rounds; round++) {
        const uint64_t seed = (uint64_t)_i * 100000 + round;
        rig_begin_with(machines[_i]);
        state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
        for (unsigned i = 0; i < STEPS; i++) {
            step();
            uint64_t really = really_pending(), pending = rig_pending();
            ck_assert_msg(pending >= really, "seed %llu, step %u: %llu bytes are pending, but %llu as far as is known",
                          (unsigned long long)seed, i, (unsigned long long)really, (unsigned long long)pending);
        }
        for (unsigned i = 0; i < SLOTS; i++)
            if (slots[i].stream)
                end(&slots[i]);
        sim_advance(100000 * MILLISECOND);
        ck_assert_uint_eq(really_pending(), 0);
        for (unsigned i = 0; i < 2; i++) {
            cover_devices();
            rig_look();
        }
        ck_assert_msg(rig_pending() == 0, "seed %llu: %llu bytes are pending for ever", (unsigned long long)seed,
                      (unsigned long long)rig_pending());
        rig_end();
    }
}
END_TEST

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

#define WORKERS 3
#define HOUR (3600 * 1000 * MILLISECOND)

static atomic_bool is_over;
static struct weir__line *slow; /* of a stream that works on beyond the end */

static void *free_often(void *data)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    (void)data;
    rig.gpu->exchange_capture_mode(&mode);
    for (unsigned i = 0; i < suite_rounds(300, 3000); i++) {
        gpu_stream stream = rig_stream(0);
        struct weir__line *line = i % 2 ? rig_open(stream) : rig_name(stream);
        for (unsigned n = 0; n < 8; n++)
            rig_free(line, MIB, n % 3 ? 4 * MIB : 0);
        rig_free(slow, MIB, 64 * MIB);
        weir__debts_order(&rig.debts, line, MIB);
        if (i % 2)
            weir__line_close(line);
        weir__line_put(line);
        ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    }
    return NULL;
}

static void *look_often(void *data)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    (void)data;
    rig.gpu->exchange_capture_mode(&mode);
    while (!atomic_load(&is_over)) {
        weir__scope_cover(&rig.scope);
        ck_assert_uint_ge(rig_look(), MIB);
        weir__fences_cover_device(rig.fences, false);
        ck_assert(!weir__debts_are_settled(&rig.debts));
        ck_assert_ptr_null(weir__fences_settled(rig.fences));
        weir__fences_sweep(rig.fences);
    }
    return NULL;
}

/* Whatever the others took over from the slow stream waits for it, too. */
START_TEST(threads_free_wait_and_close_beside_each_other)
{
    pthread_t workers[WORKERS], looker;
    gpu_stream stream = rig_stream(0);
    struct weir__parked *parked = weir__parked_new(1);
    ck_assert_int_eq(rig.gpu->delay(stream, HOUR), GPU_SUCCESS);
    slow = rig_open(stream);
    rig_free(slow, MIB, 0);
    weir__park(rig.fences, parked, &slow, 1);
    atomic_store(&is_over, false);
    ck_assert_int_eq(pthread_create(&looker, NULL, look_often, NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i], NULL, free_often, NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_join(workers[i], NULL), 0);
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(looker, NULL), 0);
    rig_look();
    ck_assert_uint_ge(rig_pending(), (1 + WORKERS * (uint64_t)suite_rounds(300, 3000)) * MIB);
    sim_advance(2 * HOUR);
    for (unsigned i = 0; i < 2; i++) {
        weir__scope_cover(&rig.scope);
        ck_assert(weir__fences_cover_device(rig.fences, false));
        rig_look();
        weir__line_look(slow);
    }
    ck_assert_uint_eq(rig_pending(), 0);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences), parked);
    free(parked);
    rig_close(slow, stream);
}
END_TEST

/* Each time the last one leaves, the fences go with all lines. Two owners, and a stream that nobody has an id of. */
static void *come_and_go(void *data)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    gpu_stream stream = rig_stream(0);
    (void)data;
    rig.gpu->exchange_capture_mode(&mode);
    for (unsigned i = 0; i < suite_rounds(500, 5000); i++) {
        struct weir__debts debts;
        struct weir__caller caller = {.handle = stream};
        uint64_t step;
        if (i % 2)
            ck_assert_int_eq(rig.gpu->stream_id(stream, &caller.id), GPU_SUCCESS);
        struct weir__fences *fences = weir__fences_join(rig.gpu, 0);
        weir__debts_init(&debts, fences);
        struct weir__line *line = i % 3 ? weir__line_of(fences, &caller) : weir__line_open(fences, &caller);
        ck_assert_int_eq(weir__line_free(weir__debt_of(&debts, line), MIB, i % 5 ? MIB : NEVER, &step), GPU_SUCCESS);
        if (i % 3 == 0)
            weir__line_close(line);
        weir__line_put(line);
        weir__debts_end(&debts);
        weir__fences_leave(fences);
    }
    ck_assert_int_eq(rig.gpu->stream_destroy(stream), GPU_SUCCESS);
    return NULL;
}

START_TEST(fences_come_and_go_on_several_threads)
{
    pthread_t threads[WORKERS];
    rig_begin();
    rig_end();
    for (unsigned i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.events, 0);
}
END_TEST

void fence_add_random(Suite *suite)
{
    TCase *tcase = suite_case(suite, "random programs", 300);
    tcase_add_loop_test(tcase, nothing_is_complete_before_the_gpu_says_so_and_everything_in_the_end, 0,
                        (int)(sizeof machines / sizeof machines[0]));
    TCase *threads = suite_case(suite, "threads", 120);
    tcase_add_checked_fixture(threads, rig_begin, rig_end);
    suite_add(threads, threads_free_wait_and_close_beside_each_other);
    TCase *ends = suite_case(suite, "ends", 120);
    suite_add(ends, fences_come_and_go_on_several_threads);
}
