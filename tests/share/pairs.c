/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - two calls of sharing by two threads at the same moment, many times. What both want one of them gets, and the other one is told
 * why not; afterwards all is as if one had come behind the other. Best under the thread sanitizer.
 */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "lib/gpu/sim.h"
#include "include/weir.h"
#include "tests/share/stage.h"

#define SLOT 4096
#define PATIENCE 20000 /* milliseconds */

/* What the calls of a round work on. Filled before it, by the thread of the test. */
static struct scene {
    weir *w;
    weir_stream *s;
    weir_cuda_stream stream;
    weir_pool *pool;
    weir_export *e;
    weir_ring *ring, *other, *opened;
    void *slot, *taken[2], *blocks[2];
    weir_import *i;
    weir_reader *reader, *fresh;
    weir_lease *lease, *leased[2];
} scene;

struct call {
    const char *name;
    weir_status (*run)(unsigned thread, weir_error *error);
};

struct pair {
    struct call calls[2];
    unsigned served;   /* how many of the two; 0: one or both */
    weir_status loses; /* what the other one is told */
};

/* Two threads, each with a call in every round ------------------------------------------------------------------------------------------- */

static struct {
    pthread_barrier_t barrier;
    const struct pair *pair; /* NULL: the end */
    weir_status got[2];
    weir_error errors[2];
} duet;

static void *play(void *data)
{
    unsigned thread = *(unsigned *)data;
    for (;;) {
        pthread_barrier_wait(&duet.barrier);
        if (!duet.pair)
            return NULL;
        weir_error_clear(&duet.errors[thread]);
        duet.got[thread] = duet.pair->calls[thread].run(thread, &duet.errors[thread]);
        pthread_barrier_wait(&duet.barrier);
    }
}

static void play_round(const struct pair *pair, unsigned round)
{
    duet.pair = pair;
    pthread_barrier_wait(&duet.barrier);
    pthread_barrier_wait(&duet.barrier);
    unsigned served = 0;
    for (int t = 0; t < 2; t++) {
        served += duet.got[t] == WEIR_OK;
        ck_assert_msg(duet.got[t] == WEIR_OK || duet.got[t] == pair->loses, "%s beside %s, round %u: %s, %s", pair->calls[t].name,
                      pair->calls[!t].name, round, weir_status_name(duet.got[t]), duet.errors[t].text);
    }
    ck_assert_msg(pair->served ? served == pair->served : served > 0, "%s beside %s, round %u: %u were served", pair->calls[0].name,
                  pair->calls[1].name, round, served);
}

static void play_all(const struct pair *pairs, size_t count, void (*prepare)(void), void (*tidy)(void))
{
    pthread_t threads[2];
    static unsigned numbers[] = { 0, 1 };
    pthread_barrier_init(&duet.barrier, NULL, 3);
    for (int t = 0; t < 2; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, play, &numbers[t]), 0);
    for (size_t p = 0; p < count; p++)
        for (unsigned round = 0; round < suite_rounds(50, 2000); round++) {
            prepare();
            play_round(&pairs[p], round);
            tidy();
        }
    duet.pair = NULL;
    pthread_barrier_wait(&duet.barrier);
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&duet.barrier);
}

static void open_weir(const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    options.policy_text = policy;
    ck_assert_msg(weir_open(&options, &error, &scene.w) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_stream_create(scene.w, 0, NULL, &error, &scene.s) == WEIR_OK, "%s", error.text);
    scene.stream = weir_stream_handle(scene.s);
}

/* Leaves the simulated machine, too, which has a descriptor of its own. */
static void close_weir(void)
{
    char why[256];
    weir_close(scene.w);
    ck_assert_msg(sim_configure("", why, sizeof why) == 0, "%s", why);
}

/* The exporter's calls ------------------------------------------------------------------------------------------------------------------- */

static weir_status take(unsigned thread, weir_error *error)
{
    return weir_ring_take(scene.ring, PATIENCE, scene.stream, error, &scene.taken[thread]);
}

static weir_status push(unsigned thread, weir_error *error)
{
    return weir_ring_push(scene.ring, scene.slot, thread ? WEIR_EMPTY : 16, &thread, sizeof thread, scene.stream, error);
}

static weir_status drop(unsigned thread, weir_error *error)
{
    (void)thread;
    return weir_ring_drop(scene.ring, scene.slot, scene.stream, error);
}

static weir_status publish(unsigned thread, weir_error *error)
{
    return weir_export_publish(scene.e, "name", scene.blocks[thread], 0, NULL, 0, scene.stream, error);
}

static weir_status publish_one(unsigned thread, weir_error *error)
{
    return weir_export_publish(scene.e, thread ? "one" : "name", scene.blocks[0], 0, NULL, 0, scene.stream, error);
}

static weir_status withdraw(unsigned thread, weir_error *error)
{
    (void)thread;
    return weir_export_withdraw(scene.e, "standing", error);
}

static weir_status open_ring(unsigned thread, weir_error *error)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = SLOT, .depth = 2 };
    (void)thread;
    return weir_ring_open(scene.e, "name", &options, scene.stream, error, &scene.opened);
}

static weir_status close_ring(unsigned thread, weir_error *error)
{
    (void)thread;
    (void)error;
    weir_ring_close(scene.other);
    scene.other = NULL;
    return WEIR_OK;
}

static weir_status count(unsigned thread, weir_error *error)
{
    weir_ring_info ring = { .size = sizeof ring };
    weir_export_info info = { .size = sizeof info };
    (void)thread;
    (void)error;
    weir_status status = weir_ring_get_info(scene.ring, &ring);
    return status == WEIR_OK ? weir_export_get_info(scene.e, &info) : status;
}

static const struct pair exporter_pairs[] = {
    { { { "push", push }, { "push", push } }, 1, WEIR_INVALID },
    { { { "push", push }, { "drop", drop } }, 1, WEIR_INVALID },
    { { { "drop", drop }, { "drop", drop } }, 1, WEIR_INVALID },
    { { { "take", take }, { "take", take } }, 2, WEIR_OK },
    { { { "take", take }, { "push", push } }, 2, WEIR_OK },
    { { { "take", take }, { "drop", drop } }, 2, WEIR_OK },
    { { { "publish", publish }, { "publish", publish } }, 1, WEIR_BUSY },
    { { { "publish one", publish_one }, { "publish one", publish_one } }, 1, WEIR_BUSY },
    { { { "open", open_ring }, { "publish", publish } }, 1, WEIR_BUSY },
    { { { "withdraw", withdraw }, { "withdraw", withdraw } }, 1, WEIR_NOT_FOUND },
    { { { "withdraw", withdraw }, { "publish", publish } }, 2, WEIR_OK },
    { { { "close", close_ring }, { "push", push } }, 2, WEIR_OK },
    { { { "close", close_ring }, { "take", take } }, 2, WEIR_OK },
    { { { "close", close_ring }, { "withdraw", withdraw } }, 2, WEIR_OK },
    { { { "count", count }, { "push", push } }, 2, WEIR_OK },
    { { { "count", count }, { "take", take } }, 2, WEIR_OK },
    { { { "count", count }, { "withdraw", withdraw } }, 2, WEIR_OK },
};

static weir_ring *new_ring(const char *name, unsigned depth)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = SLOT, .depth = depth, .overflow = WEIR_OVERFLOW_DROP_OLDEST };
    weir_error error = WEIR_ERROR_INIT;
    weir_ring *ring = NULL;
    ck_assert_msg(weir_ring_open(scene.e, name, &options, scene.stream, &error, &ring) == WEIR_OK, "%s", error.text);
    return ring;
}

static void *new_block(void)
{
    void *ptr = NULL;
    ck_assert_int_eq(weir_pool_malloc(scene.pool, &ptr, SLOT, scene.stream), WEIR_OK);
    return ptr;
}

static void prepare_export(void)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(take(0, &error) == WEIR_OK, "%s", error.text);
    scene.slot = scene.taken[0];
    scene.taken[0] = scene.taken[1] = NULL;
    for (int t = 0; t < 2; t++)
        scene.blocks[t] = new_block();
    ck_assert_int_eq(weir_export_publish(scene.e, "standing", new_block(), 0, NULL, 0, scene.stream, NULL), WEIR_OK);
    scene.other = new_ring("other", 2);
}

/* Ends whatever the calls have left, and looks whether that is all. */
static void tidy_export(void)
{
    weir_ring_info info = { .size = sizeof info };
    weir_error error = WEIR_ERROR_INIT;
    weir_ring_drop(scene.ring, scene.slot, scene.stream, NULL);
    for (int t = 0; t < 2; t++)
        if (scene.taken[t] && scene.taken[t] != scene.slot)
            ck_assert_msg(weir_ring_drop(scene.ring, scene.taken[t], scene.stream, &error) == WEIR_OK, "%s", error.text);
    weir_ring_close(scene.other);
    weir_ring_close(scene.opened);
    scene.other = scene.opened = NULL;
    static const char *const names[] = { "standing", "name", "one" };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        weir_export_withdraw(scene.e, names[n], NULL);
    for (int t = 0; t < 2; t++)
        weir_free(scene.w, scene.blocks[t], scene.stream); /* what was published is the export's, or freed */
    ck_assert_int_eq(weir_ring_get_info(scene.ring, &info), WEIR_OK);
    ck_assert_uint_eq(info.taken, 0);
}

/* A reader that reads nothing keeps frames queued. */
START_TEST(of_two_calls_of_a_producer_each_is_served_or_told_why_not)
{
    weir_error error = WEIR_ERROR_INIT;
    struct player *reader = stage_guest("reader");
    open_weir(stage_exporter_policy(NULL));
    ck_assert_int_eq(weir_pool_get(scene.w, "frames", 0, NULL, &scene.pool), WEIR_OK);
    ck_assert_msg(weir_export_open(scene.pool, &error, &scene.e) == WEIR_OK, "%s", error.text);
    scene.ring = new_ring("r", 8);
    stage_say(reader, "import i frames; reader i q r 2");
    play_all(exporter_pairs, sizeof exporter_pairs / sizeof exporter_pairs[0], prepare_export, tidy_export);
    stage_say(reader, "reader_close q; import_close i");
    weir_export_close(scene.e, PATIENCE);
    close_weir();
}
END_TEST

/* The importer's calls ------------------------------------------------------------------------------------------------------------------- */

static struct player *producer;

static weir_status next(unsigned thread, weir_error *error)
{
    return weir_reader_next(scene.reader, PATIENCE, scene.stream, error, &scene.leased[thread]);
}

static weir_status acquire(unsigned thread, weir_error *error)
{
    return weir_import_acquire(scene.i, "a", PATIENCE, scene.stream, error, &scene.leased[thread]);
}

static weir_status release(unsigned thread, weir_error *error)
{
    (void)thread;
    weir_lease *lease = scene.lease;
    scene.lease = NULL;
    return weir_lease_release(lease, scene.stream, error);
}

static weir_status open_reader(unsigned thread, weir_error *error)
{
    (void)thread;
    return weir_reader_open(scene.i, "r", 1, error, &scene.fresh);
}

static weir_status close_reader(unsigned thread, weir_error *error)
{
    (void)thread;
    (void)error;
    weir_reader_close(scene.reader);
    scene.reader = NULL;
    return WEIR_OK;
}

static const struct pair importer_pairs[] = {
    { { { "next", next }, { "next", next } }, 2, WEIR_OK },
    { { { "next", next }, { "release", release } }, 2, WEIR_OK },
    { { { "next", next }, { "acquire", acquire } }, 2, WEIR_OK },
    { { { "acquire", acquire }, { "acquire", acquire } }, 2, WEIR_OK },
    { { { "acquire", acquire }, { "release", release } }, 2, WEIR_OK },
    { { { "close", close_reader }, { "release", release } }, 2, WEIR_OK },
    { { { "close", close_reader }, { "acquire", acquire } }, 2, WEIR_OK },
    { { { "close", close_reader }, { "open", open_reader } }, 2, WEIR_OK },
    { { { "open", open_reader }, { "next", next } }, 2, WEIR_OK },
};

static void prepare_import(void)
{
    weir_error error = WEIR_ERROR_INIT;
    memset(scene.leased, 0, sizeof scene.leased);
    ck_assert_msg(weir_reader_open(scene.i, "r", 3, &error, &scene.reader) == WEIR_OK, "%s", error.text);
    for (int frame = 0; frame < 3; frame++)
        stage_say(producer, "take r slot %d 0 s; push r slot s", SLOT);
    ck_assert_msg(next(0, &error) == WEIR_OK, "%s", error.text);
    scene.lease = scene.leased[0];
    scene.leased[0] = NULL;
}

static void tidy_import(void)
{
    for (int t = 0; t < 2; t++)
        ck_assert_int_eq(weir_lease_release(scene.leased[t], scene.stream, NULL), WEIR_OK);
    ck_assert_int_eq(weir_lease_release(scene.lease, scene.stream, NULL), WEIR_OK);
    weir_reader_close(scene.reader);
    weir_reader_close(scene.fresh);
    scene.reader = scene.fresh = NULL;
    scene.lease = NULL;
}

START_TEST(two_calls_of_a_consumer_are_both_served)
{
    weir_error error = WEIR_ERROR_INIT;
    producer = stage_exporter("exporter", NULL);
    stage_say(producer, "ring r %d 6 block s; share a 3 s", SLOT);
    open_weir(stage_importer_policy());
    ck_assert_msg(weir_import_open(scene.w, "frames", NULL, &error, &scene.i) == WEIR_OK, "%s", error.text);
    play_all(importer_pairs, sizeof importer_pairs / sizeof importer_pairs[0], prepare_import, tidy_import);
    weir_import_close(scene.i);
    close_weir();
    stage_until(producer, " importers=0 ", "info");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairs");
    suite_add(stage_case(suite, "pairs"), of_two_calls_of_a_producer_each_is_served_or_told_why_not, two_calls_of_a_consumer_are_both_served);
    return suite_run(suite);
}
