/* SPDX-License-Identifier: MIT */
/* record_hard.c - the recorder where several things come together: threads, ends, bounds, and weirs that close. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/pool/weir_internal.h"
#include "lib/record/unwind.h"
#include "tests/api/traced.h"
#include "trace/model.h"

#define THREADS 4

static void start(pthread_t *threads, size_t count, void *(*run)(void *data))
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, (void *)i), 0);
}

static void join(const pthread_t *threads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static weir_tag_stats tag_sum(void)
{
    weir_stats *stats;
    weir_tag_stats sum = { .name = NULL };
    ck_assert_int_eq(weir_stats_take(scene.w, NULL, &stats), WEIR_OK);
    for (size_t i = 0; i < weir_stats_tag_count(stats); i++) {
        sum.live += weir_stats_tag(stats, i)->live;
        sum.live_blocks += weir_stats_tag(stats, i)->live_blocks;
    }
    weir_stats_free(stats);
    return sum;
}

/* Weirs that come and go -------------------------------------------------------------------------------------------------------------- */

START_TEST(tags_of_closed_weirs_leave_room_for_others)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = "weir: 1\npools: { main: {} }\n";
    for (int i = 0; i < 100; i++) {
        weir *w;
        ck_assert_int_eq(weir_open(&options, NULL, &w), WEIR_OK);
        scene_ok(weir_tag_push(w, "never popped"), "weir_tag_push");
        weir_close(w);
    }
}
END_TEST

/* The trace of it takes far longer to write than the weir to close. */
static void run_out(void)
{
    weir_stream *s = scene_create(NULL);
    void *ptr;
    for (size_t i = 0; i < 100000; i++)
        ck_assert_int_eq(weir_mark(scene.w, "on the way"), WEIR_OK);
    for (size_t i = 0; i < 20; i++)
        scene_malloc(s, 512);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 4 * GIB), WEIR_OUT_OF_MEMORY);
}

struct live {
    size_t blocks, named;
};

static bool look_for_live(void *context, const struct trace_event *event)
{
    struct live *live = context;
    if (event->kind == TRACE_LIVE) {
        live->blocks++;
        live->named += event->pool && strcmp(event->pool->name, "main") == 0;
    }
    return true;
}

START_TEST(weir_that_closes_at_once_leaves_a_whole_trace_of_an_out_of_memory)
{
    struct live live = { .blocks = 0 };
    char record[512];
    snprintf(record, sizeof record, "weir: 1\nrecord: { ring: 16MiB, dump: '%s' }\npools: { main: { max_size: 1GiB, cache: off } }\n",
             traced_directory);
    scene_open(record);
    run_out();
    scene_close();
    snprintf(traced_file, sizeof traced_file, "%s/weir-%ld-1.weir", traced_directory, (long)getpid());
    traced_play(look_for_live, &live);
    ck_assert_uint_eq(live.blocks, 20);
    ck_assert_uint_eq(live.named, 20);
    scene_simulate("memory=8GiB"); /* the blocks are lost */
}
END_TEST

START_TEST(trace_does_not_take_the_place_of_a_closed_standard_stream)
{
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    close(STDIN_FILENO);
    traced_open("level: pool", "");
    ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
    scene_close();
    ck_assert_int_eq(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    ck_assert_int_eq(access(traced_file, R_OK), 0);
}
END_TEST

/* The name shall be free for the next attempt, unless somebody else has it. */
START_TEST(weir_that_cannot_be_opened_leaves_no_trace)
{
    static const char *const wrong[] = { "{ main: { initial_size: 64GiB } }", "{ main: { initial_size: 64GiB } }" };
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    char text[1024];
    bool is_there = _i == 1;
    if (is_there)
        close(open(traced_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    snprintf(text, sizeof text, "weir: 1\nrecord: { file: '%s' }\npools: %s\n", traced_file, wrong[_i]);
    options.policy_text = text;
    ck_assert_int_ne(weir_open(&options, NULL, &w), WEIR_OK);
    ck_assert_int_eq(access(traced_file, F_OK), is_there ? 0 : -1);
}
END_TEST

/* Definitions ------------------------------------------------------------------------------------------------------------------------- */

struct named {
    size_t events, good;
    char wanted[64];
};

static bool look_for_tag(void *context, const struct trace_event *event)
{
    struct named *named = context;
    if (event->kind == TRACE_MALLOC) {
        named->events++;
        named->good += event->tag && strcmp(event->tag->text, named->wanted) == 0;
    }
    return true;
}

START_TEST(trace_with_all_tags_that_there_can_be_is_whole)
{
    struct named named = { .events = 0 };
    traced_open("level: pool", "cache: off");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < 4095; i++) {
        snprintf(named.wanted, sizeof named.wanted, "%063d", i);
        ck_assert_int_eq(weir_tag_push(scene.w, named.wanted), WEIR_OK);
        ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    }
    ck_assert_int_eq(weir_tag_push(scene.w, named.wanted), WEIR_OK);
    scene_free(s, scene_malloc(s, MIB));
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    traced_play(look_for_tag, &named);
    ck_assert_uint_eq(named.events, 1);
    ck_assert_uint_eq(named.good, 1);
}
END_TEST

/* Marks ------------------------------------------------------------------------------------------------------------------------------- */

static const size_t mark_lengths[] = { 0, 1, 24, 25, 48, 71, 72, 73, 1000 };
#define MARK_LENGTHS (sizeof mark_lengths / sizeof mark_lengths[0])
#define MARKS 6000 /* of each thread */

static void name_mark(char name[static 1001], size_t thread, size_t i)
{
    size_t len = mark_lengths[i % MARK_LENGTHS];
    memset(name, 'a' + (int)thread, len);
    name[len] = '\0';
}

static void *make_marks(void *data)
{
    char name[1001];
    for (size_t i = 0; i < MARKS; i++) {
        name_mark(name, (size_t)data, i);
        ck_assert_int_eq(weir_mark(scene.w, name), WEIR_OK);
    }
    return NULL;
}

struct marks {
    uint64_t threads[THREADS];
    size_t counts[THREADS], thread_count, wrong;
    uint64_t times[THREADS];
    size_t backwards;
};

static size_t thread_of(struct marks *marks, uint64_t thread)
{
    size_t at = 0;
    while (at < marks->thread_count && marks->threads[at] != thread)
        at++;
    ck_assert_uint_lt(at, THREADS);
    if (at == marks->thread_count)
        marks->threads[marks->thread_count++] = thread;
    return at;
}

static bool look_at_mark(void *context, const struct trace_event *event)
{
    struct marks *marks = context;
    char name[1001];
    if (event->kind != TRACE_MARK)
        return true;
    size_t at = thread_of(marks, event->thread);
    size_t len = mark_lengths[marks->counts[at]++ % MARK_LENGTHS];
    size_t kept = len < 72 ? len : 72;
    snprintf(name, sizeof name, "%s", event->name ? event->name->text : "");
    marks->wrong += strlen(name) != kept || strspn(name, kept ? (char[]){ name[0], 0 } : "") != kept;
    return true;
}

START_TEST(names_of_marks_of_several_threads_are_whole)
{
    struct marks marks = { .thread_count = 0 };
    pthread_t threads[THREADS];
    traced_open("level: pool, ring: 8MiB", "");
    start(threads, THREADS, make_marks);
    join(threads, THREADS);
    ck_assert_uint_eq(traced_play(look_at_mark, &marks), 0);
    ck_assert_uint_eq(marks.thread_count, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_uint_eq(marks.counts[i], MARKS);
    ck_assert_uint_eq(marks.wrong, 0);
}
END_TEST

/* Losses ------------------------------------------------------------------------------------------------------------------------------ */

/* Marks without a name, as the parts of lost names would count as well. */
#define BURST 20000

static void *burst(void *data)
{
    (void)data;
    for (size_t i = 0; i < BURST; i++)
        ck_assert_int_eq(weir_mark(scene.w, ""), WEIR_OK);
    return NULL;
}

/* At level `pool` all events count in the weir, so the highest number is how many there were. */
struct counted {
    size_t events, marks;
    uint64_t highest;
};

static bool count(void *context, const struct trace_event *event)
{
    struct counted *counted = context;
    counted->events++;
    counted->marks += event->kind == TRACE_MARK;
    counted->highest = event->order > counted->highest ? event->order : counted->highest;
    return true;
}

START_TEST(what_is_in_the_file_and_what_is_lost_is_what_happened)
{
    pthread_t threads[THREADS];
    struct counted counted = { .events = 0 };
    traced_open("level: pool, ring: 64KiB", "");
    start(threads, THREADS, burst);
    join(threads, THREADS);
    uint64_t lost = traced_play(count, &counted);
    ck_assert_uint_gt(lost, 0);
    ck_assert_uint_gt(counted.highest, (size_t)THREADS * BURST * 2);
    ck_assert_uint_eq(counted.events + lost, counted.highest);
}
END_TEST

/* Figures under threads --------------------------------------------------------------------------------------------------------------- */

#define ROUNDS 24

static struct {
    pthread_barrier_t barrier;
    weir_stream *streams[THREADS];
    uint64_t wanted[ROUNDS];
    atomic_bool is_over;
} work;

/* Blocks of the thread's own stream, and of one that it shares with its neighbour. */
static void churn(size_t self, unsigned *random, void **blocks, size_t count, bool is_tagged)
{
    for (unsigned i = 0; i < suite_rounds(2000, 5000); i++) {
        *random = *random * 1103515245 + 12345;
        size_t at = (*random >> 16) % count;
        weir_stream *s = work.streams[(self + (at & 1)) % THREADS];
        char tag[8];
        snprintf(tag, sizeof tag, "t%zu", at % 7);
        if (is_tagged)
            scene_ok(weir_tag_push(scene.w, tag), "push");
        if (blocks[at])
            scene_free(s, blocks[at]);
        blocks[at] = blocks[at] ? NULL : scene_malloc(s, 1 + (*random >> 7) % (at & 2 ? MIB / 64 : MIB));
        if (is_tagged)
            scene_ok(weir_tag_pop(scene.w, tag), "pop");
    }
}

static void free_all(size_t self, void **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i])
            scene_free(work.streams[(self + (i & 1)) % THREADS], blocks[i]);
}

static void *work_and_wait(void *data)
{
    size_t self = (size_t)data;
    unsigned random = 7 + (unsigned)self;
    void *blocks[48] = { NULL };
    for (unsigned round = 0; round < ROUNDS; round++) {
        churn(self, &random, blocks, 48, round % 3 == 2);
        pthread_barrier_wait(&work.barrier);
        pthread_barrier_wait(&work.barrier);
    }
    free_all(self, blocks, 48);
    return NULL;
}

struct check {
    struct model model;
    size_t marks;
};

static bool look_at_figures(void *context, const struct trace_event *event)
{
    struct check *check = context;
    model_apply(&check->model, event);
    if (event->kind == TRACE_MARK)
        ck_assert_uint_eq(check->model.total.size, work.wanted[check->marks++]);
    return true;
}

static const struct {
    const char *record, *keys;
} threaded[] = {
    { "level: all", "" },
    { "level: all", "cache: off" },
    { "level: all", "backing: arena" },
    { "level: all, stacks: true", "" },
};

START_TEST(threads_leave_a_trace_that_has_the_figures_at_each_mark)
{
    struct check check = { .marks = 0 };
    pthread_t threads[THREADS];
    char record[128];
    snprintf(record, sizeof record, "%s, ring: 64MiB", threaded[_i].record);
    traced_open(record, threaded[_i].keys);
    pthread_barrier_init(&work.barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        work.streams[i] = scene_create(NULL);
    start(threads, THREADS, work_and_wait);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&work.barrier);
        work.wanted[round] = scene_pool_stats("main").live;
        ck_assert_int_eq(weir_mark(scene.w, "round"), WEIR_OK);
        pthread_barrier_wait(&work.barrier);
    }
    join(threads, THREADS);
    pthread_barrier_destroy(&work.barrier);
    ck_assert_uint_eq(tag_sum().live, 0);
    ck_assert_uint_eq(tag_sum().live_blocks, 0);
    ck_assert_uint_eq(traced_play(look_at_figures, &check), 0);
    ck_assert_uint_eq(check.marks, ROUNDS);
    ck_assert_uint_eq(check.model.total.blocks, 0);
    ck_assert_uint_eq(check.model.unknown_ends + check.model.reused + check.model.late_ends, 0);
    model_free(&check.model);
}
END_TEST

/* Whatever happens meanwhile --------------------------------------------------------------------------------------------------------- */

static void *work_until_over(void *data)
{
    size_t self = (size_t)data;
    unsigned random = 7 + (unsigned)self;
    void *blocks[48] = { NULL }, *ptr;
    while (!atomic_load(&work.is_over)) {
        churn(self, &random, blocks, 48, random & 1);
        ck_assert_int_eq(weir_stream_malloc(work.streams[self], &ptr, 64 * GIB), WEIR_OUT_OF_MEMORY);
    }
    free_all(self, blocks, 48);
    return NULL;
}

START_TEST(tags_add_up_whatever_a_policy_switches_on_and_off)
{
    static const char *const changes[] = {
        "level: off", "level: all", "level: all, stacks: true", "level: pool", "level: pool, stacks: true",
    };
    static const char *const keys[] = { "", "cache: off", "", "cache: { largest: 64KiB }" };
    pthread_t threads[THREADS];
    atomic_store(&work.is_over, false);
    traced_open("level: pool, ring: 64KiB", "");
    for (size_t i = 0; i < THREADS; i++)
        work.streams[i] = scene_create(NULL);
    start(threads, THREADS, work_until_over);
    for (unsigned i = 0; i < suite_rounds(40, 400); i++) {
        char text[1024];
        snprintf(text, sizeof text, "weir: 1\nrecord: { %s, ring: 64KiB, dump: '%s', file: '%s' }\npools: { main: { %s } }\n",
                 changes[i % 5], i % 7 ? traced_directory : "/nowhere", traced_file, keys[i % 4]);
        scene_reload(text);
        ck_assert_int_eq(weir_mark(scene.w, "reload"), WEIR_OK);
    }
    atomic_store(&work.is_over, true);
    join(threads, THREADS);
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
    ck_assert_uint_eq(tag_sum().live, 0);
    ck_assert_uint_eq(tag_sum().live_blocks, 0);
    scene_close();
    struct counted counted = { .events = 0 };
    traced_play(count, &counted);
    ck_assert_uint_gt(counted.marks, 0);
}
END_TEST

/* Who frees is the service thread, or who closes the export. */
START_TEST(blocks_that_were_published_count_for_their_tag_until_they_are_freed)
{
    const weir_ring_options ring_options = { .size = sizeof ring_options, .slot_size = MIB, .depth = 4 };
    struct check check = { .marks = 0 };
    weir_export *e;
    weir_ring *ring;
    char share[512];
    snprintf(share, sizeof share, "devices: [0], ipc: posix_fd, share: { socket: '%s/socket' }", traced_directory);
    traced_open("level: all", share);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = weir_stream_handle(s);
    scene_ok(weir_export_open(scene.pool, NULL, &e), "export");
    scene_ok(weir_tag_push(scene.w, "frames"), "push");
    void *first = scene_malloc(s, 4 * MIB), *second = scene_malloc(s, 2 * MIB);
    scene_ok(weir_ring_open(e, "ring", &ring_options, stream, NULL, &ring), "ring");
    scene_ok(weir_tag_pop(scene.w, NULL), "pop");
    scene_ok(weir_export_publish(e, "first", first, 0, NULL, 0, stream, NULL), "publish");
    scene_ok(weir_export_publish(e, "second", second, 0, NULL, 0, stream, NULL), "publish");
    ck_assert_uint_eq(tag_sum().live, 10 * MIB);
    scene_ok(weir_export_withdraw(e, "first", NULL), "withdraw");
    for (unsigned tries = 0; tag_sum().live != 6 * MIB && tries < 20000; tries++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ck_assert_uint_eq(tag_sum().live, 6 * MIB);
    weir_ring_close(ring);
    weir_export_close(e, 1000);
    ck_assert_uint_eq(tag_sum().live, 0);
    ck_assert_uint_eq(tag_sum().live_blocks, 0);
    ck_assert_uint_eq(traced_play(look_at_figures, &check), 0);
    ck_assert_uint_eq(check.model.total.blocks + check.model.unknown_ends + check.model.reused, 0);
    model_free(&check.model);
}
END_TEST

static pthread_key_t late_key;

/* Runs once the thread's ring may have been given away. */
static void allocate_late(void *data)
{
    weir_stream *s = data;
    scene_free(s, scene_malloc(s, 4096));
    ck_assert_int_eq(weir_mark(scene.w, "late"), WEIR_OK);
}

static void *end_at_once(void *data)
{
    (void)data;
    ck_assert_int_eq(weir_mark(scene.w, "early"), WEIR_OK);
    pthread_setspecific(late_key, work.streams[0]);
    return NULL;
}

struct ends {
    size_t early, late;
};

static bool look_at_ends(void *context, const struct trace_event *event)
{
    struct ends *ends = context;
    if (event->kind == TRACE_MARK) {
        ends->early += strcmp(event->name->text, "early") == 0;
        ends->late += strcmp(event->name->text, "late") == 0;
    }
    return true;
}

#define ENDING 400

START_TEST(threads_that_end_hand_on_their_rings_and_may_use_weir_to_the_last)
{
    struct ends ends = { 0, 0 };
    pthread_t threads[THREADS];
    size_t rings = 0;
    traced_open("level: all, ring: 1MiB", "");
    work.streams[0] = scene_create(NULL);
    ck_assert_int_eq(pthread_key_create(&late_key, allocate_late), 0);
    for (size_t i = 0; i < ENDING / THREADS; i++) {
        start(threads, THREADS, end_at_once);
        join(threads, THREADS);
    }
    for (struct weir__ring *ring = NULL; (ring = weir__recorder_next(&scene.w->recorder, ring));)
        rings++;
    pthread_key_delete(late_key);
    ck_assert_uint_le(rings, 2 * THREADS + 2);
    ck_assert_uint_eq(traced_play(look_at_ends, &ends), 0);
    ck_assert_uint_eq(ends.early, ENDING);
    ck_assert_uint_eq(ends.late, ENDING);
}
END_TEST

/* libcheck writes into a file of its own, which stays far below the limit as long as little is asserted. The program is told at once, and
   once. */
START_TEST(disk_without_room_costs_events_alone)
{
    struct rlimit limit, low;
    struct trace trace;
    weir_status status = WEIR_OK;
    traced_open("level: pool", "");
    getrlimit(RLIMIT_FSIZE, &limit);
    low = limit;
    low.rlim_cur = 32768;
    unsigned lines = atomic_load(&scene.log_lines), random = 1;
    setrlimit(RLIMIT_FSIZE, &low);
    for (size_t i = 0; i < BURST && status == WEIR_OK; i++) {
        char name[64];
        random = random * 1103515245 + 12345;
        snprintf(name, sizeof name, "%u %u", random, random * random);
        status = weir_mark(scene.w, name);
    }
    for (unsigned tries = 0; atomic_load(&scene.log_lines) == lines && tries < 20000; tries++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    unsigned told = atomic_load(&scene.log_lines);
    scene_close();
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(status, WEIR_OK);
    ck_assert_uint_eq(told, lines + 1);
    ck_assert_uint_eq(atomic_load(&scene.log_lines), lines + 1);
    ck_assert_msg(trace_open(&trace, traced_file), "%s", trace.error);
    ck_assert(!trace.losses.is_closed);
    trace_close(&trace);
}
END_TEST

/* As daemons do with descriptors that they know nothing of. */
static int find_descriptor(const char *path)
{
    struct stat wanted, found;
    ck_assert_int_eq(stat(path, &wanted), 0);
    for (int fd = 3; fd < 256; fd++)
        if (fstat(fd, &found) == 0 && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino)
            return fd;
    return -1;
}

START_TEST(program_that_takes_the_descriptor_for_a_file_of_its_own_keeps_that_as_it_is)
{
    struct stat found;
    char mine[300];
    traced_open("level: pool", "");
    /* Once the header is there, the next block is long to come. */
    for (bool is_there = false; !is_there;) {
        struct trace trace;
        is_there = trace_open(&trace, traced_file) && trace.header.pid;
        trace_close(&trace);
    }
    int fd = find_descriptor(traced_file);
    ck_assert_int_ge(fd, 0);
    snprintf(mine, sizeof mine, "%s/mine", traced_directory);
    close(fd);
    ck_assert_int_eq(open(mine, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), fd);
    ck_assert_int_eq(weir_mark(scene.w, "here"), WEIR_OK);
    unsigned lines = atomic_load(&scene.log_lines);
    scene_close();
    ck_assert_uint_eq(atomic_load(&scene.log_lines), lines + 1);
    ck_assert_int_eq(fstat(fd, &found), 0);
    ck_assert_int_eq(found.st_size, 0);
    close(fd);
}
END_TEST

/* Children of a fork that end in all ways. */
START_TEST(children_write_nothing_into_the_trace_of_their_parent)
{
    struct counted counted = { .events = 0 };
    traced_open("level: pool, ring: 16MiB", "");
    for (int i = 0; i < 40; i++) {
        for (size_t mark = 0; mark < BURST / 40; mark++)
            ck_assert_int_eq(weir_mark(scene.w, ""), WEIR_OK);
        pid_t child = fork();
        if (child == 0) {
            weir_mark(scene.w, "child");
            weir_close(scene.w);
            i % 2 ? _exit(0) : quick_exit(0);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(traced_play(count, &counted), 0);
    ck_assert_uint_eq(counted.marks, BURST);
    ck_assert_uint_eq(counted.events, counted.highest);
}
END_TEST

#define HANDLES 64

struct handles {
    uint64_t open[HANDLES];
    size_t count, opened, twice, unknown;
};

static bool look_at_handles(void *context, const struct trace_event *event)
{
    struct handles *handles = context;
    size_t at = 0;
    while (at < handles->count && handles->open[at] != event->stream)
        at++;
    if (event->kind == TRACE_STREAM_OPEN) {
        handles->opened++;
        handles->twice += at < handles->count;
        ck_assert_uint_lt(handles->count, HANDLES);
        handles->open[handles->count++] = event->stream;
    }
    if (event->kind == TRACE_STREAM_CLOSE) {
        handles->unknown += at == handles->count;
        if (at < handles->count) {
            handles->count--;
            handles->open[at] = handles->open[handles->count];
        }
    }
    return true;
}

static void *open_and_close(void *data)
{
    (void)data;
    for (int i = 0; i < 2000; i++)
        weir_stream_close(scene_create(NULL));
    return NULL;
}

START_TEST(handle_that_comes_again_was_closed_before)
{
    struct handles handles = { .count = 0 };
    pthread_t threads[THREADS];
    traced_open("level: pool, ring: 8MiB", "");
    start(threads, THREADS, open_and_close);
    join(threads, THREADS);
    ck_assert_uint_eq(traced_play(look_at_handles, &handles), 0);
    ck_assert_uint_eq(handles.opened, (size_t)THREADS * 2000);
    ck_assert_uint_eq(handles.twice + handles.unknown, 0);
}
END_TEST

#define WEIRS 9

static struct {
    weir *weirs[WEIRS];
    pthread_barrier_t barrier;
} many;

static void *mark_all(void *data)
{
    (void)data;
    for (size_t count = WEIRS; count; count--) {
        for (size_t i = 0; i < 100 * count; i++) {
            ck_assert_int_eq(weir_tag_push(many.weirs[i % count], "t"), WEIR_OK);
            ck_assert_int_eq(weir_mark(many.weirs[i % count], ""), WEIR_OK);
            ck_assert_int_eq(weir_tag_pop(many.weirs[i % count], "t"), WEIR_OK);
        }
        pthread_barrier_wait(&many.barrier);
        pthread_barrier_wait(&many.barrier);
    }
    return NULL;
}

START_TEST(weirs_of_one_process_have_each_their_own_events)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&many.barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < WEIRS; i++) {
        char text[1024];
        weir_options options = WEIR_OPTIONS_INIT;
        snprintf(text, sizeof text, "weir: 1\nrecord: { file: '%s/%zu.weir' }\npools: { main: {} }\n", traced_directory, i);
        options.policy_text = text;
        ck_assert_int_eq(weir_open(&options, NULL, &many.weirs[i]), WEIR_OK);
    }
    start(threads, THREADS, mark_all);
    for (size_t i = WEIRS; i--;) {
        pthread_barrier_wait(&many.barrier);
        weir_close(many.weirs[i]);
        pthread_barrier_wait(&many.barrier);
    }
    join(threads, THREADS);
    pthread_barrier_destroy(&many.barrier);
    for (size_t i = 0; i < WEIRS; i++) {
        struct counted counted = { .events = 0 };
        snprintf(traced_file, sizeof traced_file, "%s/%zu.weir", traced_directory, i);
        ck_assert_uint_eq(traced_play(count, &counted), 0);
        ck_assert_uint_eq(counted.marks, (size_t)THREADS * 100 * (WEIRS - i));
        ck_assert_uint_eq(counted.events, counted.highest);
    }
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    /* libunwind opens descriptors once, and keeps them. */
    weir__unwind_prepare();
    Suite *suite = suite_create("record_hard");
    TCase *tcase = suite_case(suite, "record_hard", 120);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, tags_of_closed_weirs_leave_room_for_others,
              trace_does_not_take_the_place_of_a_closed_standard_stream,
              weir_that_closes_at_once_leaves_a_whole_trace_of_an_out_of_memory, trace_with_all_tags_that_there_can_be_is_whole,
              names_of_marks_of_several_threads_are_whole, what_is_in_the_file_and_what_is_lost_is_what_happened);
    suite_add(tcase, blocks_that_were_published_count_for_their_tag_until_they_are_freed);
    suite_add(tcase, tags_add_up_whatever_a_policy_switches_on_and_off, threads_that_end_hand_on_their_rings_and_may_use_weir_to_the_last,
              disk_without_room_costs_events_alone, program_that_takes_the_descriptor_for_a_file_of_its_own_keeps_that_as_it_is,
              children_write_nothing_into_the_trace_of_their_parent,
              weirs_of_one_process_have_each_their_own_events, handle_that_comes_again_was_closed_before);
    tcase_add_loop_test(tcase, weir_that_cannot_be_opened_leaves_no_trace, 0, 2);
    tcase_add_loop_test(tcase, threads_leave_a_trace_that_has_the_figures_at_each_mark, 0, sizeof threaded / sizeof threaded[0]);
    return suite_run(suite);
}
