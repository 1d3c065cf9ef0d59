/* SPDX-License-Identifier: MIT */
/* fence_threads.c - lines, owners and fences that several threads use at a time. Best under the thread sanitizer. */
#include <stdlib.h>

#include "tests/unit/fence.h"

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
        weir__scope_cover(&rig.scope, false);
        ck_assert_uint_ge(rig_look(), MIB);
        weir__fences_cover_device(rig.fences, false);
        ck_assert(!weir__debts_are_settled(&rig.debts));
        ck_assert_ptr_null(weir__fences_settled(rig.fences, NULL, NULL));
        weir__debts_sweep(rig.gpu);
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
        weir__scope_cover(&rig.scope, false);
        ck_assert(weir__fences_cover_device(rig.fences, false));
        rig_look();
        weir__line_look(slow);
    }
    ck_assert_uint_eq(rig_pending(), 0);
    ck_assert_ptr_eq(weir__fences_settled(rig.fences, NULL, NULL), parked);
    free(parked);
    rig_close(slow, stream);
}
END_TEST

/* Shared streams ------------------------------------------------------------------------------------------------------------------------
 */

#define CROWD 8
#define STREAMS 5

static gpu_stream shared[STREAMS];
static atomic_uint settled_count, ended_count;

struct member {
    pthread_t thread;
    uint64_t state;
    struct weir__line *lines[STREAMS]; /* as this thread has opened them */
    unsigned parked, retired;
};

static unsigned below(struct member *member, unsigned bound)
{
    member->state = member->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(member->state >> 33) % bound;
}

static bool end_owner(struct weir__debts *debts)
{
    ck_assert(weir__debts_are_settled(debts));
    weir__debts_end(debts);
    free(debts);
    atomic_fetch_add(&ended_count, 1);
    return true;
}

/* An owner of the thread's own frees, and retires at once. */
static void retire_on(struct member *member, struct weir__line *line)
{
    struct weir__debts *debts = malloc(sizeof *debts);
    uint64_t step;
    ck_assert_ptr_nonnull(debts);
    weir__debts_init(debts, rig.fences);
    ck_assert_int_eq(weir__line_free(weir__debt_of(debts, line), MIB, below(member, 2) ? NEVER : 0, &step), GPU_SUCCESS);
    weir__debts_retire(debts, end_owner);
    member->retired++;
}

static void park_on(struct member *member)
{
    struct weir__line *lines[] = {member->lines[below(member, STREAMS)], rig.fences->whole, member->lines[below(member, STREAMS)]};
    struct weir__parked *parked = weir__parked_new(3);
    ck_assert_ptr_nonnull(parked);
    weir__park(rig.fences, parked, lines, 3);
    member->parked++;
}

static void settle(void)
{
    for (struct weir__parked *parked = weir__fences_settled(rig.fences, NULL, NULL), *next; parked; parked = next) {
        next = parked->next;
        free(parked);
        atomic_fetch_add(&settled_count, 1);
    }
}

/* The others may have it open meanwhile, or not. */
static void open_again(struct weir__line **line, gpu_stream stream)
{
    weir__line_close(*line);
    weir__line_put(*line);
    *line = rig_open(stream);
}

static void act(struct member *member)
{
    unsigned at = below(member, STREAMS);
    struct weir__line *line = member->lines[at], *named;
    switch (below(member, 12)) {
    case 0:
        open_again(&member->lines[at], shared[at]);
        break;
    case 1:
        weir__debts_order(&rig.debts, line, below(member, 8) * MIB);
        break;
    case 2:
        weir__scope_cover(&rig.scope, false);
        rig_look();
        break;
    case 3:
        ck_assert(weir__fences_cover_device(rig.fences, false));
        break;
    case 4:
        retire_on(member, line);
        break;
    case 5:
        park_on(member);
        settle();
        break;
    case 6:
        rig_wait(&rig.scope, MIB, 0);
        break;
    case 7:
        weir__fences_captures_over(rig.fences, NULL);
        weir__debts_sweep(rig.gpu);
        break;
    case 8:
        named = rig_name(shared[at]);
        rig_free(named, MIB, 0);
        weir__line_put(named);
        break;
    default:
        rig_free(line, MIB, below(member, 2) ? NEVER : 4 * MIB);
    }
    ck_assert(weir__line_is_valid(member->lines[at]));
}

static void *act_often(void *data)
{
    struct member *member = data;
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    rig.gpu->exchange_capture_mode(&mode);
    for (unsigned i = 0; i < STREAMS; i++)
        member->lines[i] = rig_open(shared[i]);
    for (unsigned i = 0; i < suite_rounds(500, 1000); i++)
        act(member);
    for (unsigned i = 0; i < STREAMS; i++) {
        weir__line_close(member->lines[i]);
        weir__line_put(member->lines[i]);
    }
    return NULL;
}

/* Each of them has opened each stream, closes it and opens it again. What the slow one freed stays pending, wherever it is passed to. */
START_TEST(crowd_of_threads_on_the_same_streams_completes_nothing_too_early_and_everything_in_the_end)
{
    struct member members[CROWD] = {{.state = 0}};
    const struct weir__scope device = {.fences = rig.fences};
    unsigned parked = 0, retired = 0;
    gpu_stream stream = rig_stream(0);
    struct weir__line *line = rig_open(stream);
    atomic_store(&settled_count, 0);
    atomic_store(&ended_count, 0);
    ck_assert_int_eq(rig.gpu->delay(stream, HOUR), GPU_SUCCESS);
    rig_free(line, MIB, 0);
    for (unsigned i = 0; i < STREAMS; i++)
        shared[i] = rig_stream(0);
    for (unsigned i = 0; i < CROWD; i++) {
        members[i].state = i;
        ck_assert_int_eq(pthread_create(&members[i].thread, NULL, act_often, &members[i]), 0);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
        parked += members[i].parked;
        retired += members[i].retired;
    }
    ck_assert_uint_ge(rig_look(), MIB);
    sim_advance(2 * HOUR);
    for (unsigned i = 0; i < 2; i++) {
        weir__scope_cover(&device, false);
        ck_assert(weir__fences_cover_device(rig.fences, false));
        weir__debts_sweep(rig.gpu);
    }
    settle();
    ck_assert_uint_eq(rig_pending(), 0);
    ck_assert_uint_eq(atomic_load(&settled_count), parked);
    ck_assert_uint_eq(atomic_load(&ended_count), retired);
    for (unsigned i = 0; i < STREAMS; i++)
        ck_assert_int_eq(rig.gpu->stream_destroy(shared[i]), GPU_SUCCESS);
    rig_close(line, stream);
}
END_TEST

/* Ends ----------------------------------------------------------------------------------------------------------------------------------
 */

/* Each time the last one leaves, the fences go with all lines. Two owners, and a stream that nobody has an id of. */
static void *come_and_go(void *data)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    gpu_stream stream = rig_stream(0);
    (void)data;
    rig.gpu->exchange_capture_mode(&mode);
    for (unsigned i = 0; i < suite_rounds(500, 1000); i++) {
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

void fence_add_threads(Suite *suite)
{
    TCase *threads = suite_case(suite, "threads", 120);
    tcase_add_checked_fixture(threads, rig_begin, rig_end);
    suite_add(threads, threads_free_wait_and_close_beside_each_other,
              crowd_of_threads_on_the_same_streams_completes_nothing_too_early_and_everything_in_the_end);
    TCase *ends = suite_case(suite, "ends", 120);
    suite_add(ends, fences_come_and_go_on_several_threads);
}
