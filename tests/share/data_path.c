/* SPDX-License-Identifier: MIT */
/* data_path.c - what frames do not cost: on neither side does the host wait for the GPU. Two processes, counted by the simulator. */
#include "config.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "include/weir.h"
#include "tests/share/stage.h"

#define FRAMES 10000
#define WARM 64 /* frames before those that count, in which slots are mapped */
#define BYTES 4096
#define PATIENCE 20000

/* What a process did, up to now. */
struct calls {
    uint64_t stream_synchronize, event_synchronize, device_synchronize;
    uint64_t event_query, copies, sequence;
};

static struct calls count_calls(void)
{
    return (struct calls){ .stream_synchronize = sim_calls("stream_synchronize"),
                           .event_synchronize = sim_calls("event_synchronize"),
                           .device_synchronize = sim_calls("device_synchronize"),
                           .event_query = sim_calls("event_query"),
                           .copies = sim_calls("copy_async") };
}

static struct calls since(struct calls before)
{
    struct calls now = count_calls();
    return (struct calls){ now.stream_synchronize - before.stream_synchronize, now.event_synchronize - before.event_synchronize,
                           now.device_synchronize - before.device_synchronize, now.event_query - before.event_query,
                           now.copies - before.copies, 0 };
}

static weir *open_weir(const char *policy, weir_stream **s)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    options.policy_text = policy;
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_stream_create(w, 0, NULL, &error, s) == WEIR_OK, "%s", error.text);
    return w;
}

static const struct gpu *the_gpu(void)
{
    const char *why;
    return gpu_find("sim", &why);
}

static void say(int fd, const struct calls *calls)
{
    ck_assert_int_eq(write(fd, calls, sizeof *calls), sizeof *calls);
}

static struct calls hear(int fd)
{
    struct calls calls;
    ck_assert_int_eq(read(fd, &calls, sizeof calls), sizeof calls);
    return calls;
}

/* The importer: a process of its own, which says what it did in the frames behind the first ones ------------------------------------------ */

/* false: a call failed, or the frame is another one than that. */
static bool read_frame(weir_reader *reader, weir_stream *s, void *copy, uint64_t sequence)
{
    weir_lease *lease;
    if (weir_reader_next(reader, PATIENCE, weir_stream_handle(s), NULL, &lease) != WEIR_OK)
        return false;
    const weir_lease_info *info = weir_lease_get_info(lease);
    bool is_next = info->sequence == sequence;
    int code = the_gpu()->copy_async(copy, info->ptr, BYTES, weir_stream_handle(s));
    return weir_lease_release(lease, weir_stream_handle(s), NULL) == WEIR_OK && code == GPU_SUCCESS && is_next;
}

static int import(int fd)
{
    weir_stream *s;
    weir_import *i;
    weir_reader *reader;
    struct calls before = { 0 };
    void *copy;
    weir *w = open_weir(stage_importer_policy(), &s);
    if (weir_stream_malloc(s, &copy, BYTES) != WEIR_OK || weir_import_open(w, "frames", NULL, NULL, &i) != WEIR_OK ||
        weir_reader_open(i, "r", 0, NULL, &reader) != WEIR_OK)
        return 1;
    say(fd, &before);
    for (uint64_t frame = 1; frame <= WARM + FRAMES; frame++) {
        if (!read_frame(reader, s, copy, frame))
            return 2;
        if (frame == WARM)
            before = count_calls();
    }
    struct calls calls = since(before);
    say(fd, &calls);
    hear(fd); /* what closing does is not of the data path */
    weir_reader_close(reader);
    weir_stream_free(s, copy);
    weir_close(w);
    return 0;
}

/* The exporter ---------------------------------------------------------------------------------------------------------------------------- */

static void write_frame(weir_ring *ring, weir_stream *s)
{
    weir_error error = WEIR_ERROR_INIT;
    void *ptr = NULL;
    ck_assert_msg(weir_ring_take(ring, PATIENCE, weir_stream_handle(s), &error, &ptr) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(the_gpu()->set_async(ptr, 1, BYTES, weir_stream_handle(s)), GPU_SUCCESS);
    ck_assert_msg(weir_ring_push(ring, ptr, 0, NULL, 0, weir_stream_handle(s), &error) == WEIR_OK, "%s", error.text);
}

static struct calls export(int fd, pid_t importer)
{
    weir_stream *s;
    weir_pool *pool;
    weir_export *e;
    weir_ring *ring;
    weir_ring_options options = { .size = sizeof options, .slot_size = BYTES, .depth = 4, .overflow = WEIR_OVERFLOW_BLOCK };
    struct calls before = { 0 };
    int status;
    weir *w = open_weir(stage_exporter_policy(NULL), &s);
    ck_assert_int_eq(weir_pool_get(w, "frames", 0, NULL, &pool), WEIR_OK);
    ck_assert_int_eq(weir_export_open(pool, NULL, &e), WEIR_OK);
    ck_assert_int_eq(weir_ring_open(e, "r", &options, weir_stream_handle(s), NULL, &ring), WEIR_OK);
    say(fd, &before);
    hear(fd);
    for (unsigned frame = 0; frame < WARM; frame++)
        write_frame(ring, s);
    before = count_calls();
    for (unsigned frame = 0; frame < FRAMES; frame++)
        write_frame(ring, s);
    struct calls theirs = hear(fd), ours = since(before);
    ck_assert_uint_eq(ours.stream_synchronize + ours.event_synchronize + ours.device_synchronize, 0);
    say(fd, &before);
    ck_assert_int_eq(waitpid(importer, &status, 0), importer);
    ck_assert_int_eq(status, 0);
    weir_export_close(e, PATIENCE);
    weir_close(w);
    return theirs;
}

/* Forks before anybody has used the simulator. */
static struct calls exchange_frames(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t importer = fork();
    if (importer == 0) {
        close(pair[0]);
        hear(pair[1]);
        _exit(import(pair[1]));
    }
    close(pair[1]);
    struct calls theirs = export(pair[0], importer);
    close(pair[0]);
    /* Leaves the machine that both were on, and its file. */
    char why[256];
    ck_assert_msg(sim_configure("", why, sizeof why) == 0, "%s", why);
    return theirs;
}

START_TEST(ten_thousand_frames_take_no_synchronisation_on_either_side)
{
    struct calls theirs = exchange_frames();
    ck_assert_uint_eq(theirs.stream_synchronize + theirs.event_synchronize + theirs.device_synchronize, 0);
    ck_assert_uint_eq(theirs.copies, FRAMES);
}
END_TEST

START_TEST(importer_never_asks_an_event)
{
    ck_assert_uint_eq(exchange_frames().event_query, 0);
}
END_TEST

int main(void)
{
    if (!stage_is_simulated())
        return suite_skip("counts calls of the simulator");
    Suite *suite = suite_create("data path");
    TCase *tcase = stage_case(suite, "frames");
    suite_add(tcase, ten_thousand_frames_take_no_synchronisation_on_either_side, importer_never_asks_an_event);
    return suite_run(suite);
}
