/* SPDX-License-Identifier: MIT */
/* record.c - marks, tags and leaks, and the traces that a policy asks for, read back. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/record/unwind.h"
#include "lib/trace/traced.h"
#include "tests/api/traced.h"
#include "trace/model.h"

static weir_tag_stats tag_stats(const char *name)
{
    weir_stats *stats;
    weir_tag_stats found = { .name = NULL };
    ck_assert_int_eq(weir_stats_take(scene.w, NULL, &stats), WEIR_OK);
    for (size_t i = 0; i < weir_stats_tag_count(stats); i++)
        if (strcmp(weir_stats_tag(stats, i)->name, name) == 0)
            found = *weir_stats_tag(stats, i);
    found.name = found.name ? name : NULL;
    weir_stats_free(stats);
    return found;
}

/* Tags -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(blocks_count_for_the_tag_of_their_thread_until_they_are_freed)
{
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    void *before = scene_malloc(s, 4096);
    ck_assert_int_eq(weir_tag_push(scene.w, "weights"), WEIR_OK);
    void *outer = scene_malloc(s, 3 * MIB);
    ck_assert_int_eq(weir_tag_push(scene.w, "kv"), WEIR_OK);
    void *inner = scene_malloc(s, 1000);
    ck_assert_int_eq(weir_tag_pop(scene.w, "kv"), WEIR_OK);
    void *again = scene_malloc(s, 100);
    ck_assert_uint_eq(tag_stats("weights").live, 3 * MIB + 100);
    ck_assert_uint_eq(tag_stats("weights").live_blocks, 2);
    ck_assert_uint_eq(tag_stats("kv").live, 1000);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    void *after = scene_malloc(s, 4096);
    scene_free(s, outer);
    scene_free(s, inner);
    scene_free(s, again);
    ck_assert_uint_eq(tag_stats("weights").live, 0);
    ck_assert_uint_eq(tag_stats("weights").live_blocks, 0);
    ck_assert_uint_eq(tag_stats("weights").live_high, 3 * MIB + 100);
    ck_assert_uint_eq(tag_stats("kv").live, 0);
    scene_free(s, before);
    scene_free(s, after);
}
END_TEST

START_TEST(cached_blocks_belong_to_the_tag_of_whoever_gets_them_next)
{
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 4096);
    scene_free(s, ptr);
    ck_assert_int_eq(weir_tag_push(scene.w, "a"), WEIR_OK);
    ck_assert_ptr_eq(scene_malloc(s, 4000), ptr);
    ck_assert_uint_eq(tag_stats("a").live, 4000);
    scene_free(s, ptr);
    ck_assert_uint_eq(tag_stats("a").live, 0);
    ck_assert_int_eq(weir_tag_push(scene.w, "b"), WEIR_OK);
    ck_assert_ptr_eq(scene_malloc_on(weir_stream_handle(s), 4096), ptr);
    ck_assert_uint_eq(tag_stats("a").live, 0);
    ck_assert_uint_eq(tag_stats("b").live, 4096);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert_uint_eq(tag_stats("b").live_blocks, 0);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
}
END_TEST

START_TEST(wrong_pops_and_pushes_are_refused_and_change_nothing)
{
    char name[65] = "";
    scene_open("weir: 1\npools: { main: {} }\n");
    memset(name, 'x', 64);
    ck_assert_int_eq(weir_tag_push(scene.w, ""), WEIR_INVALID);
    ck_assert_int_eq(weir_tag_push(scene.w, name), WEIR_INVALID);
    ck_assert_int_eq(weir_tag_push(NULL, "a"), WEIR_INVALID);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_tag_push(scene.w, name + 1), WEIR_OK);
    ck_assert_int_eq(weir_tag_pop(scene.w, "other"), WEIR_NOT_FOUND);
    for (int i = 1; i < 32; i++)
        ck_assert_int_eq(weir_tag_push(scene.w, "deep"), WEIR_OK);
    ck_assert_int_eq(weir_tag_push(scene.w, "deeper"), WEIR_INVALID);
    for (int i = 1; i < 32; i++)
        ck_assert_int_eq(weir_tag_pop(scene.w, "deep"), WEIR_OK);
    ck_assert_int_eq(weir_tag_pop(scene.w, name + 1), WEIR_OK);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_NOT_FOUND);
}
END_TEST

static void *push_too_many(void *data)
{
    char name[16];
    (void)data;
    for (int i = 0; i < 4095; i++) {
        snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(weir_tag_push(scene.w, name), WEIR_OK);
        ck_assert_int_eq(weir_tag_pop(scene.w, name), WEIR_OK);
    }
    ck_assert_int_eq(weir_tag_push(scene.w, "one more"), WEIR_NO_HOST_MEMORY);
    ck_assert_int_eq(weir_tag_push(scene.w, "t17"), WEIR_OK);
    return NULL;
}

START_TEST(names_of_tags_are_bounded_and_tags_end_with_their_thread)
{
    pthread_t thread;
    scene_open("weir: 1\npools: { main: {} }\n");
    ck_assert_int_eq(pthread_create(&thread, NULL, push_too_many, NULL), 0);
    pthread_join(thread, NULL);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 4096);
    ck_assert_uint_eq(tag_stats("t17").live, 0);
    scene_free(s, ptr);
}
END_TEST

/* Leaks ------------------------------------------------------------------------------------------------------------------------------- */

struct seen {
    size_t count;
    struct {
        uint64_t size, blocks;
        char tag[64];
        size_t frames;
    } leaks[8];
};

static void see(void *data, const weir_leak *leak)
{
    struct seen *seen = data;
    ck_assert_str_eq(leak->pool, "main");
    ck_assert_ptr_nonnull(leak->ptr);
    if (seen->count < 8) {
        seen->leaks[seen->count].size = leak->size;
        seen->leaks[seen->count].blocks = leak->blocks;
        seen->leaks[seen->count].frames = leak->frame_count;
        snprintf(seen->leaks[seen->count].tag, 64, "%s", leak->tag ? leak->tag : "");
    }
    seen->count++;
}

START_TEST(live_blocks_are_told_by_tag_and_size_those_with_the_most_bytes_first)
{
    struct seen seen = { .count = 0 };
    void *small[3];
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(weir_tag_push(scene.w, "many"), WEIR_OK);
    for (int i = 0; i < 3; i++)
        small[i] = scene_malloc(s, MIB);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    void *other = scene_malloc(s, MIB), *large = scene_malloc(s, 2 * MIB + 1), *gone = scene_malloc(s, 8 * MIB);
    scene_free(s, gone);
    ck_assert_int_eq(weir_leaks(scene.w, -1, see, &seen, NULL), WEIR_OK);
    ck_assert_uint_eq(seen.count, 3);
    ck_assert_uint_eq(seen.leaks[0].blocks, 3);
    ck_assert_uint_eq(seen.leaks[0].size, MIB);
    ck_assert_str_eq(seen.leaks[0].tag, "many");
    ck_assert_uint_eq(seen.leaks[1].size, 2 * MIB + 1);
    ck_assert_uint_eq(seen.leaks[2].size, MIB);
    ck_assert_str_eq(seen.leaks[2].tag, "");
    ck_assert_uint_eq(seen.leaks[0].frames, 0);
    ck_assert_int_eq(weir_leaks(scene.w, 77, see, &seen, NULL), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_leaks(scene.w, -1, NULL, &seen, NULL), WEIR_INVALID);
    for (int i = 0; i < 3; i++)
        scene_free(s, small[i]);
    scene_free(s, other);
    scene_free(s, large);
}
END_TEST

START_TEST(leak_has_the_stack_of_whoever_asked)
{
    struct seen seen = { .count = 0 };
    traced_open_plain("stacks: true", "");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, MIB);
    ck_assert_int_eq(weir_leaks(scene.w, -1, see, &seen, NULL), WEIR_OK);
    ck_assert_uint_eq(seen.count, 1);
    ck_assert_uint_gt(seen.leaks[0].frames, 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(out_of_memory_names_the_largest_holders)
{
    weir_error error;
    void *ptr;
    scene_open("weir: 1\npools: { main: { max_size: 128MiB, on_oom: { steps: [] } } }\n");
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(weir_tag_push(scene.w, "frames"), WEIR_OK);
    void *a = scene_malloc(s, 20 * MIB), *b = scene_malloc(s, 20 * MIB);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    ck_assert_int_eq(weir_tag_push(scene.w, "as large"), WEIR_OK);
    void *c = scene_malloc(s, 40 * MIB);
    ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 120 * MIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_ptr_nonnull(strstr(error.text, "live by tag: frames 40 MiB, as large 40 MiB"));
    ck_assert_ptr_nonnull(strstr(error.text, "40 MiB = 2 blocks of 20 MiB in pool 'main', tag frames"));
    scene_free(s, a);
    scene_free(s, b);
    scene_free(s, c);
}
END_TEST

/* Traces ------------------------------------------------------------------------------------------------------------------------------ */

struct check {
    struct model model;
    size_t marks;
    uint64_t wanted[64]; /* live bytes at each mark */
    unsigned kinds[64];
};

static bool look(void *context, const struct trace_event *event)
{
    struct check *check = context;
    model_apply(&check->model, event);
    check->kinds[event->kind]++;
    ck_assert(!event->pool || event->pool->is_defined);
    if (event->kind == TRACE_STREAM_OPEN)
        ck_assert_ptr_null(event->name);
    if (event->kind == TRACE_MARK) {
        char name[32];
        snprintf(name, sizeof name, "step %zu", check->marks);
        ck_assert_str_eq(event->name->text, name);
        ck_assert_uint_eq(check->model.total.size, check->wanted[check->marks]);
        check->marks++;
    }
    return true;
}

static void read_trace(struct check *check)
{
    ck_assert_uint_eq(traced_play(look, check), 0);
    ck_assert_uint_eq(check->model.reused, 0);
}

/* Random requests and frees, and marks between with what is live by Weir's own figures. */
static void churn(struct check *check, unsigned seed)
{
    void *blocks[64] = { NULL };
    weir_stream *streams[2] = { scene_create(NULL), scene_create(NULL) };
    unsigned random = seed;
    for (unsigned i = 0; i < 4000; i++) {
        random = random * 1103515245 + 12345;
        unsigned at = random >> 16 & 63;
        weir_stream *s = streams[at & 1];
        if (blocks[at])
            scene_free(s, blocks[at]);
        blocks[at] = blocks[at] ? NULL : scene_malloc(s, 1 + (random >> 7) % (at & 2 ? MIB / 8 : 3 * MIB));
        if (i % 100 == 50) {
            char name[32];
            snprintf(name, sizeof name, "step %zu", check->marks);
            check->wanted[check->marks++] = scene_pool_stats("main").live;
            ck_assert_int_eq(weir_mark(scene.w, name), WEIR_OK);
        }
    }
    for (unsigned i = 0; i < 64; i++)
        if (blocks[i])
            scene_free(streams[i & 1], blocks[i]);
    check->marks = 0;
}

static const struct {
    const char *name, *record, *keys;
} recorded[] = {
    { "all with caches", "level: all", "" },
    { "all without", "level: all", "cache: off" },
    { "pool without caches", "level: pool", "cache: off" },
    { "all in an arena", "level: all", "backing: arena" },
    { "all with stacks", "level: all, stacks: true", "" },
};

START_TEST(trace_has_what_the_figures_had_at_each_mark)
{
    struct check check = { .marks = 0 };
    traced_open(recorded[_i].record, recorded[_i].keys);
    churn(&check, 7 + (unsigned)_i);
    scene_close();
    struct stat status;
    ck_assert_int_eq(stat(traced_file, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    read_trace(&check);
    ck_assert_uint_eq(check.marks, 40);
    ck_assert_uint_eq(check.model.total.blocks, 0);
    ck_assert_uint_eq(check.model.unknown_ends, 0);
    ck_assert_uint_eq(check.kinds[TRACE_STREAM_OPEN], 2);
    ck_assert_uint_gt(check.kinds[TRACE_MALLOC], 0);
    ck_assert(strstr(recorded[_i].keys, "off") || check.kinds[TRACE_SERVE]);
    ck_assert(!strstr(recorded[_i].keys, "arena") || check.kinds[TRACE_MAP]);
    model_free(&check.model);
}
END_TEST

struct moments {
    uint64_t marks[4];
    unsigned count;
};

static bool look_at_marks(void *context, const struct trace_event *event)
{
    struct moments *moments = context;
    if (event->kind == TRACE_MARK)
        moments->marks[moments->count++] = event->time;
    return true;
}

START_TEST(marks_between_requests_that_a_cache_serves_have_times_of_their_own)
{
    struct moments moments = { .count = 0 };
    traced_open("level: pool", "");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, MIB));
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(weir_mark(scene.w, "step"), WEIR_OK);
        for (unsigned j = 0; j < 8; j++)
            scene_free(s, scene_malloc(s, MIB));
    }
    ck_assert_uint_eq(traced_play(look_at_marks, &moments), 0);
    ck_assert_uint_eq(moments.count, 4);
    for (unsigned i = 1; i < 4; i++)
        ck_assert_uint_gt(moments.marks[i], moments.marks[i - 1]);
}
END_TEST

struct names {
    unsigned count;
    char texts[8][128];
};

static bool look_at_names(void *context, const struct trace_event *event)
{
    struct names *names = context;
    if (event->kind == TRACE_STREAM_OPEN || event->kind == TRACE_MARK)
        snprintf(names->texts[names->count++], sizeof names->texts[0], "%s", event->name ? event->name->text : "none");
    return true;
}

START_TEST(names_of_marks_and_streams_are_whole_up_to_their_bound)
{
    static const size_t lens[] = { 0, 1, 24, 25, 72, 73, 126 };
    struct names names = { .count = 0 };
    char text[128];
    traced_open("level: pool", "");
    weir_stream_close(scene_create("decode"));
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        memset(text, 'a' + (int)i, sizeof text);
        text[lens[i]] = '\0';
        ck_assert_int_eq(weir_mark(scene.w, text), WEIR_OK);
    }
    ck_assert_int_eq(weir_mark(scene.w, NULL), WEIR_INVALID);
    ck_assert_uint_eq(traced_play(look_at_names, &names), 0);
    ck_assert_uint_eq(names.count, 8);
    ck_assert_str_eq(names.texts[0], "decode");
    ck_assert_str_eq(names.texts[1], "none");
    for (size_t i = 1; i < sizeof lens / sizeof lens[0]; i++) {
        memset(text, 'a' + (int)i, sizeof text);
        text[lens[i] < 72 ? lens[i] : 72] = '\0';
        ck_assert_str_eq(names.texts[1 + i], text);
    }
}
END_TEST

START_TEST(out_of_memory_leaves_a_trace_with_who_holds_memory)
{
    struct check check = { .marks = 0 };
    char record[512];
    void *ptr;
    snprintf(record, sizeof record, "dump: '%s'", traced_directory);
    traced_open_plain(record, "max_size: 128MiB, on_oom: { steps: [] }, cache: off");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 50 * MIB);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 100 * MIB), WEIR_OUT_OF_MEMORY);
    scene_free(s, held);
    scene_close();
    snprintf(traced_file, sizeof traced_file, "%s/weir-%ld-1.weir", traced_directory, (long)getpid());
    read_trace(&check);
    ck_assert_uint_eq(check.kinds[TRACE_OUT_OF_MEMORY], 1);
    /* The file is written by a thread of its own, before the block is freed or after that. */
    ck_assert_uint_ge(check.kinds[TRACE_LIVE] + check.kinds[TRACE_FREE], 1);
    model_free(&check.model);
}
END_TEST

/* By which names the streams of requests and of refusals are known. */
struct known {
    unsigned requests, refusals, openings, unknown;
    const char *name;
};

static bool look_at_streams(void *context, const struct trace_event *event)
{
    struct known *known = context;
    bool is_request = event->kind == TRACE_MALLOC || event->kind == TRACE_SERVE;
    known->openings += event->kind == TRACE_STREAM_OPEN && event->name;
    if (!is_request && event->kind != TRACE_OUT_OF_MEMORY)
        return true;
    known->requests += is_request;
    known->refusals += !is_request;
    known->unknown += !event->stream_name || strcmp(event->stream_name->text, known->name) != 0;
    return true;
}

START_TEST(recording_that_begins_later_knows_the_names_of_open_streams)
{
    struct known known = { .name = "decode" };
    struct weir__trace *trace;
    weir_error error = WEIR_ERROR_INIT;
    traced_open_plain("level: all", "");
    weir_stream *closed = scene_create("closed"), *s = scene_create("decode");
    weir_stream_close(closed);
    int fd = open(traced_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_msg(weir__trace_start(scene.w, fd, WEIR__TRACE_FROM_NOW, "record", &error, &trace) == WEIR_OK, "%s", error.text);
    scene_free(s, scene_malloc(s, MIB));
    scene_free(s, scene_malloc(s, MIB));
    weir__trace_end(trace);
    weir_stream_close(s);
    ck_assert_uint_eq(traced_play(look_at_streams, &known), 0);
    ck_assert_uint_eq(known.requests, 2);
    ck_assert_uint_eq(known.openings, 1);
    ck_assert_uint_eq(known.unknown, 0);
}
END_TEST

START_TEST(trace_of_an_out_of_memory_knows_streams_that_the_rings_have_forgotten)
{
    struct known known = { .name = "decode" };
    char record[512];
    void *ptr;
    snprintf(record, sizeof record, "level: all, ring: 64KiB, dump: '%s'", traced_directory);
    traced_open_plain(record, "max_size: 128MiB, on_oom: { steps: [] }");
    weir_stream *s = scene_create("decode");
    for (unsigned i = 0; i < 4000; i++)
        scene_free(s, scene_malloc(s, MIB));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 256 * MIB), WEIR_OUT_OF_MEMORY);
    weir_stream_close(s);
    scene_close();
    snprintf(traced_file, sizeof traced_file, "%s/weir-%ld-1.weir", traced_directory, (long)getpid());
    ck_assert_uint_gt(traced_play(look_at_streams, &known), 0);
    ck_assert_uint_gt(known.requests, 100);
    ck_assert_uint_eq(known.refusals, 1);
    ck_assert_uint_eq(known.openings, 1);
    ck_assert_uint_eq(known.unknown, 0);
}
END_TEST

static void *use_a_stream(void *data)
{
    weir_stream *s = data;
    for (unsigned i = 0; i < 2000; i++) {
        void *first = scene_malloc(s, 1 + i * 37 % 5000), *second = scene_malloc(s, MIB + i);
        scene_free(s, first);
        scene_free(s, second);
    }
    return NULL;
}

START_TEST(threads_share_definitions_whosever_block_comes_first)
{
    struct check check = { .marks = 0 };
    pthread_t threads[4];
    traced_open("level: all, stacks: true", "");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_a_stream, scene_create(NULL)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    read_trace(&check);
    ck_assert_uint_eq(check.model.unknown_ends, 0);
    ck_assert_uint_eq(check.model.total.blocks, 0);
    ck_assert_uint_eq(check.kinds[TRACE_MALLOC] + check.kinds[TRACE_SERVE], 16000);
    ck_assert_uint_eq(check.kinds[TRACE_FREE] + check.kinds[TRACE_KEEP], 16000);
    model_free(&check.model);
}
END_TEST

/* Threads that hand blocks to each other, and write down what they do. */
#define WORKERS 4
#define STEPS 3000

struct step {
    bool is_request;
    uint64_t address, size;
};

static struct worker {
    uint64_t thread; /* the operating system's number */
    unsigned random;
    size_t count, seen;
    struct step steps[STEPS];
} workers[WORKERS + 1]; /* the last one is the test */
static weir_stream *shared[2];
static struct {
    pthread_mutex_t lock;
    void *ptr;
    uint64_t size;
} slots[32];

static unsigned next(struct worker *worker, unsigned below)
{
    worker->random = worker->random * 1103515245 + 12345;
    return (worker->random >> 8) % below;
}

static void *work(void *data)
{
    struct worker *worker = data;
    worker->thread = (uint64_t)syscall(SYS_gettid);
    while (worker->count < STEPS) {
        unsigned at = next(worker, 32);
        weir_stream *s = shared[at & 1];
        struct step *step = &worker->steps[worker->count++];
        /* Under the lock of the slot, so that its blocks follow each other in one order. */
        pthread_mutex_lock(&slots[at].lock);
        if (slots[at].ptr) {
            *step = (struct step){ false, (uintptr_t)slots[at].ptr, slots[at].size };
            if (at & 2)
                scene_free(s, slots[at].ptr);
            else
                scene_free_on(weir_stream_handle(s), slots[at].ptr);
            slots[at].ptr = NULL;
        } else {
            slots[at].size = 1 + next(worker, at & 4 ? 4096 : 3 << 20);
            slots[at].ptr = scene_malloc(s, slots[at].size);
            *step = (struct step){ true, (uintptr_t)slots[at].ptr, slots[at].size };
        }
        pthread_mutex_unlock(&slots[at].lock);
    }
    return NULL;
}

static uint64_t live_at_mark;

static bool compare(void *context, const struct trace_event *event)
{
    struct model *model = context;
    if (event->kind == TRACE_MARK)
        ck_assert_uint_eq(model->total.size, live_at_mark);
    bool is_request = event->kind == TRACE_MALLOC || event->kind == TRACE_SERVE;
    model_apply(model, event);
    if (!is_request && event->kind != TRACE_FREE && event->kind != TRACE_KEEP)
        return true;
    struct worker *worker = workers;
    while (worker < workers + WORKERS && worker->thread != event->thread)
        worker++;
    ck_assert_uint_lt(worker->seen, worker->count);
    const struct step *step = &worker->steps[worker->seen++];
    ck_assert_int_eq(step->is_request, is_request);
    ck_assert_uint_eq(step->address, event->address);
    ck_assert_uint_eq(step->size, event->size);
    return true;
}

START_TEST(trace_is_what_threads_wrote_down_event_for_event_in_an_order_that_can_be)
{
    static const char *const keys[] = { "", "cache: off", "backing: arena" };
    pthread_t threads[WORKERS];
    struct model model = { .now = 0 };
    traced_open("level: all", keys[_i]);
    for (int i = 0; i < 2; i++)
        shared[i] = scene_create(NULL);
    for (int i = 0; i < 32; i++)
        pthread_mutex_init(&slots[i].lock, NULL);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].random = (unsigned)(i + 1) * 7919;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    live_at_mark = scene_pool_stats("main").live;
    ck_assert_int_eq(weir_mark(scene.w, "end"), WEIR_OK);
    struct worker *last = &workers[WORKERS];
    for (int i = 0; i < 32; i++) {
        if (!slots[i].ptr)
            continue;
        last->steps[last->count++] = (struct step){ false, (uintptr_t)slots[i].ptr, slots[i].size };
        scene_free(shared[1], slots[i].ptr);
    }
    ck_assert_uint_eq(traced_play(compare, &model), 0);
    for (int i = 0; i <= WORKERS; i++)
        ck_assert_uint_eq(workers[i].seen, workers[i].count);
    ck_assert_uint_eq(model.total.size, 0);
    ck_assert_uint_eq(model.reused, 0);
    ck_assert_uint_eq(model.unknown_ends, 0);
    model_free(&model);
}
END_TEST

START_TEST(file_that_is_there_stays_as_it_is)
{
    char text[8] = "";
    int fd = open(traced_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(write(fd, "mine", 4), 4);
    close(fd);
    traced_open("level: pool", "");
    scene_close();
    fd = open(traced_file, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, text, sizeof text), 4);
    ck_assert_str_eq(text, "mine");
    close(fd);
}
END_TEST

/* Nobody marks anything here, and CUDA grows its pools by itself. */
START_TEST(trace_says_what_pools_of_cuda_reserve)
{
    struct check check = { .marks = 0 };
    struct timespec pause = { .tv_nsec = 1000000 };
    traced_open("level: pool", "release_threshold: all");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 100 * MIB);
    /* Until the file says so, which it does some time after an event. */
    for (unsigned tries = 0; !check.kinds[TRACE_FIGURES] && tries < 20000; tries++) {
        struct trace trace;
        nanosleep(&pause, NULL);
        scene_free(s, scene_malloc(s, 2 * MIB));
        if (trace_open(&trace, traced_file))
            check.kinds[TRACE_FIGURES] = (unsigned)trace.kinds[TRACE_FIGURES];
        trace_close(&trace);
    }
    ck_assert_uint_gt(check.kinds[TRACE_FIGURES], 0);
    scene_free(s, ptr);
    scene_close();
    check = (struct check){ .marks = 0 };
    read_trace(&check);
    ck_assert_uint_ge(check.model.pools[1].reserved_peak, 100 * MIB);
    model_free(&check.model);
}
END_TEST

START_TEST(growth_of_a_pool_of_cuda_is_in_the_trace_once_with_its_time)
{
    struct check check = { .marks = 0 };
    traced_open("level: pool", "release_threshold: all");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 100 * MIB);
    scene_free(s, ptr);
    scene_free(s, scene_malloc(s, 90 * MIB));
    scene_close();
    read_trace(&check);
    const struct model_span *growth = &check.model.pools[1].growth;
    ck_assert_uint_eq(check.kinds[TRACE_MAP], 1);
    ck_assert_uint_eq(growth->count, 1);
    ck_assert_uint_ge(growth->bytes, 100 * MIB);
    ck_assert_uint_gt(growth->ns, 0);
    ck_assert_uint_eq(check.model.pools[1].reserved_peak, growth->bytes);
    model_free(&check.model);
}
END_TEST

START_TEST(level_changes_with_the_policy)
{
    struct check check = { .marks = 0 };
    char text[512];
    traced_open("level: off", "");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 4096));
    snprintf(text, sizeof text, "weir: 1\nrecord: { level: all, file: '%s' }\npools: { main: {} }\n", traced_file);
    scene_reload(text);
    scene_free(s, scene_malloc(s, 4096));
    scene_free(s, scene_malloc(s, 4096));
    snprintf(text, sizeof text, "weir: 1\nrecord: { level: off, file: '%s' }\npools: { main: {} }\n", traced_file);
    scene_reload(text);
    scene_free(s, scene_malloc(s, 4096));
    read_trace(&check);
    ck_assert_uint_eq(check.kinds[TRACE_MALLOC], 1);
    ck_assert_uint_eq(check.kinds[TRACE_SERVE], 1);
    ck_assert_uint_eq(check.kinds[TRACE_KEEP], 2);
    model_free(&check.model);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    /* libunwind opens descriptors once, and keeps them. */
    weir__unwind_prepare();
    Suite *suite = suite_create("record");
    TCase *tcase = suite_case(suite, "record", 60);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, blocks_count_for_the_tag_of_their_thread_until_they_are_freed,
              cached_blocks_belong_to_the_tag_of_whoever_gets_them_next, wrong_pops_and_pushes_are_refused_and_change_nothing,
              names_of_tags_are_bounded_and_tags_end_with_their_thread,
              live_blocks_are_told_by_tag_and_size_those_with_the_most_bytes_first, leak_has_the_stack_of_whoever_asked,
              out_of_memory_names_the_largest_holders, recording_that_begins_later_knows_the_names_of_open_streams,
              trace_of_an_out_of_memory_knows_streams_that_the_rings_have_forgotten, out_of_memory_leaves_a_trace_with_who_holds_memory,
              threads_share_definitions_whosever_block_comes_first, names_of_marks_and_streams_are_whole_up_to_their_bound,
              marks_between_requests_that_a_cache_serves_have_times_of_their_own,
              file_that_is_there_stays_as_it_is, trace_says_what_pools_of_cuda_reserve,
              growth_of_a_pool_of_cuda_is_in_the_trace_once_with_its_time,
              level_changes_with_the_policy);
    tcase_add_loop_test(tcase, trace_is_what_threads_wrote_down_event_for_event_in_an_order_that_can_be, 0, 3);
    tcase_add_loop_test(tcase, trace_has_what_the_figures_had_at_each_mark, 0, sizeof recorded / sizeof recorded[0]);
    return suite_run(suite);
}
