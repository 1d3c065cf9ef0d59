/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - what an allocation and its free ask of CUDA. A call of CUDA costs as much as all that Weir does for a cached request, so this
 * table keeps the path of a request cheap: a row that grows is to have a reason. No pair reads the clock more than twice.
 */
#include <stdio.h>
#include <string.h>

#include "tests/api/fixture.h"
#include "tests/api/hook.h"
#include "tests/support/suite.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define PAIRS 64

#define STREAMS "weir: 1\ndefaults: { pool: p }\nstreams: { s: { pool: p } }\n"
/* Like config/default.yaml: with a cap that Weir watches, and a twin. */
#define CAPPED STREAMS "pools: { p: { release_threshold: 25%, max_size: 90%, small_below: 1MiB } }\n"
#define UNCHECKED STREAMS "pools: { p: { cache: { capture_check: false } } }\n"
/* A synchronise gives back what is idle, and no large block is kept. */
#define NOTHING_KEPT STREAMS "pools: { p: { release_threshold: 0 } }\n"
#define CACHE_OFF STREAMS "pools: { p: { cache: off } }\n"
#define ARENA STREAMS "pools: { p: { backing: arena, release_threshold: all } }\n"
/* The opened stream has another pool than those that were not opened. */
#define ROUTED "weir: 1\ndefaults: { pool: d }\nstreams: { s: { pool: p } }\npools: { d: {}, p: {} }\n"

/* Small enough for the caches and the twin; for neither, but a large block that a stream keeps; so large a part of the machine, 1 GiB, that
   CUDA is not asked in vain, and that each free on a stream that was not opened is noted for recovery. */
#define SMALL KIB(64)
#define MEDIUM MIB(8)
#define LARGE MIB(128)

/* By which the program names the stream. */
enum way {
    OPENED, /* weir_stream_malloc() */
    HANDLE, /* weir_malloc() with the handle of an opened stream */
    OTHER,  /* weir_malloc() with that of a stream that was not opened, where none is: handles are known by their hash */
    LEGACY, /* weir_malloc() with the null stream, the same */
};

/* asked: the calls of PAIRS pairs, in the order of `operations`. */
static const struct row {
    const char *policy;
    uint64_t size; /* of sizes that never repeat, that of the first pair */
    enum way way;
    const char *asked;
    uint64_t step; /* bytes by which each pair is larger than the one before; 0: all have the same size */
} rows[] = {
    { CAPPED, SMALL, OPENED, "status 128", 0 },
    { CAPPED, SMALL, HANDLE, "status 128, id 128", 0 },
    { CAPPED, SMALL, OTHER, "malloc 64, status 64, figure 4", 0 },
    { CAPPED, SMALL, LEGACY, "malloc 64, status 64, figure 4", 0 },
    { CAPPED, MEDIUM, OPENED, "status 128", 0 },
    { CAPPED, MEDIUM, HANDLE, "status 128, id 128", 0 },
    { CAPPED, MEDIUM, OTHER, "malloc 64, status 64, figure 4", 0 },
    { CAPPED, MEDIUM, LEGACY, "malloc 64, status 64, figure 4", 0 },
    { CAPPED, LARGE, OPENED, "malloc 64, status 64, figure 146", 0 },
    { CAPPED, LARGE, HANDLE, "malloc 64, status 64, id 64, figure 146", 0 },
    { CAPPED, LARGE, OTHER, "malloc 64, status 192, id 64, record 64, figure 146", 0 },
    { CAPPED, LARGE, LEGACY, "malloc 64, status 128, current 64, record 64, figure 146", 0 },
    { CAPPED, MEDIUM, OPENED, "malloc 64, status 64, figure 4", KIB(4) },
    { CAPPED, MEDIUM, HANDLE, "malloc 64, status 64, id 64, figure 4", KIB(4) },
    { CAPPED, MIB(66), OPENED, "malloc 64, status 64, figure 142", KIB(4) },
    { UNCHECKED, MEDIUM, OPENED, "malloc 64", KIB(4) },
    { UNCHECKED, SMALL, OPENED, "", 0 },
    { UNCHECKED, SMALL, HANDLE, "status 128, id 128", 0 },
    { UNCHECKED, SMALL, OTHER, "malloc 64", 0 },
    { UNCHECKED, SMALL, LEGACY, "malloc 64", 0 },
    { UNCHECKED, MEDIUM, OPENED, "", 0 },
    { UNCHECKED, MEDIUM, HANDLE, "status 128, id 128", 0 },
    { UNCHECKED, MEDIUM, OTHER, "malloc 64", 0 },
    { UNCHECKED, MEDIUM, LEGACY, "malloc 64", 0 },
    { UNCHECKED, LARGE, OPENED, "malloc 64, figure 128", 0 },
    { UNCHECKED, LARGE, HANDLE, "malloc 64, status 64, id 64, figure 128", 0 },
    { UNCHECKED, LARGE, OTHER, "malloc 64, status 128, id 64, record 64, figure 128", 0 },
    { UNCHECKED, LARGE, LEGACY, "malloc 64, status 64, current 64, record 64, figure 128", 0 },
    { ROUTED, MEDIUM, HANDLE, "status 128, id 128", 0 },
    { NOTHING_KEPT, MEDIUM, OPENED, "malloc 64, status 64", 0 },
    { NOTHING_KEPT, MEDIUM, HANDLE, "malloc 64, status 64", 0 },
    { CACHE_OFF, SMALL, OPENED, "malloc 64, status 64", 0 },
    { CACHE_OFF, SMALL, HANDLE, "malloc 64, status 64", 0 },
    { CACHE_OFF, SMALL, OTHER, "malloc 64, status 64", 0 },
    { CACHE_OFF, SMALL, LEGACY, "malloc 64, status 64", 0 },
    { CACHE_OFF, MEDIUM, OPENED, "malloc 64, status 64", 0 },
    { CACHE_OFF, MEDIUM, HANDLE, "malloc 64, status 64", 0 },
    { CACHE_OFF, MEDIUM, OTHER, "malloc 64, status 64", 0 },
    { CACHE_OFF, MEDIUM, LEGACY, "malloc 64, status 64", 0 },
    { CACHE_OFF, LARGE, OPENED, "malloc 64, status 64, figure 128", 0 },
    { CACHE_OFF, LARGE, HANDLE, "malloc 64, status 64, figure 128", 0 },
    { CACHE_OFF, LARGE, OTHER, "malloc 64, status 192, id 64, record 64, figure 128", 0 },
    { CACHE_OFF, LARGE, LEGACY, "malloc 64, status 128, current 64, record 64, figure 128", 0 },
    { ARENA, MEDIUM, OPENED, "status 128", 0 },
    { ARENA, MEDIUM, OPENED, "status 200, record 8, mode 136", KIB(4) },
};

static const struct {
    const char *name, *short_name;
} operations[] = {
    { "malloc_async", "malloc" },
    { "stream_capture_status", "status" },
    { "stream_id", "id" },
    { "get_current_device", "current" },
    { "event_record", "record" },
    { "stream_device", "device" },
    { "pool_get", "figure" },
    { "exchange_capture_mode", "mode" },
};

/* Runs PAIRS pairs of the row. round: how often that was done before. */
static void run_pairs(weir *w, weir_stream *opened, gpu_stream handle, const struct row *row, unsigned round)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t size = row->size + (PAIRS * round + i) * row->step;
        void *ptr;
        if (opened) {
            ck_assert_int_eq(weir_stream_malloc(opened, &ptr, size), WEIR_OK);
            ck_assert_int_eq(weir_stream_free(opened, ptr), WEIR_OK);
        } else {
            ck_assert_int_eq(weir_malloc(w, &ptr, size, 0, handle), WEIR_OK);
            ck_assert_int_eq(weir_free(w, ptr, handle), WEIR_OK);
        }
    }
}

static void expect_asked(const char *expected, const uint64_t *before)
{
    char text[256] = "";
    uint64_t left = sim_calls(NULL) - before[COUNT(operations)];
    for (int i = 0; i < COUNT(operations); i++) {
        uint64_t calls = sim_calls(operations[i].name) - before[i];
        left -= i == 0 ? 2 * calls : calls; /* as many frees */
        if (calls)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %u", text[0] ? ", " : "", operations[i].short_name,
                     (unsigned)calls);
    }
    ck_assert_str_eq(text, expected);
    ck_assert_uint_eq(left, 0);
}

START_TEST(pairs_ask_cuda_for_no_more_than_this)
{
    const struct row *row = &rows[_i];
    uint64_t before[COUNT(operations) + 1];
    gpu_stream other;
    fixture_machine(NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &other), GPU_SUCCESS);
    weir *w = fixture_open(row->policy);
    weir_stream *s = row->way == OPENED || row->way == HANDLE ? fixture_stream(w, 0, "s") : NULL;
    gpu_stream handle = row->way == HANDLE ? weir_stream_handle(s) : row->way == OTHER ? other : NULL;
    run_pairs(w, row->way == OPENED ? s : NULL, handle, row, 0);
    for (int i = 0; i < COUNT(operations); i++)
        before[i] = sim_calls(operations[i].name);
    before[COUNT(operations)] = sim_calls(NULL);
    run_pairs(w, row->way == OPENED ? s : NULL, handle, row, 1);
    expect_asked(row->asked, before);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(other), GPU_SUCCESS);
    fixture_sweep();
    fixture_expect_empty();
}
END_TEST

/* Readings of the clock. The time of the system's last tick (now_coarse()) is none: the kernel has stored it, and a reader loads it. */
static unsigned readings;

static uint64_t count_now(void)
{
    readings++;
    return hook_base()->now();
}

static uint64_t count_ticks(void)
{
    readings++;
    return hook_base()->ticks();
}

START_TEST(pair_reads_the_clock_twice_at_most)
{
    const struct row *row = &rows[_i];
    gpu_stream other;
    fixture_machine(NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &other), GPU_SUCCESS);
    weir *w = fixture_open(row->policy);
    struct gpu counting = *hook_base();
    counting.now = count_now;
    counting.ticks = count_ticks;
    weir_stream *s = row->way == OPENED || row->way == HANDLE ? fixture_stream(w, 0, "s") : NULL;
    gpu_stream handle = row->way == HANDLE ? weir_stream_handle(s) : row->way == OTHER ? other : NULL;
    run_pairs(w, row->way == OPENED ? s : NULL, handle, row, 0);
    readings = 0;
    hook_set(&counting);
    run_pairs(w, row->way == OPENED ? s : NULL, handle, row, 1);
    hook_set(NULL);
    ck_assert_uint_le(readings, 2 * PAIRS);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(other), GPU_SUCCESS);
    fixture_sweep();
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairs");
    TCase *tcase = suite_case(suite, "pairs", 0);
    tcase_add_loop_test(tcase, pairs_ask_cuda_for_no_more_than_this, 0, COUNT(rows));
    tcase_add_loop_test(tcase, pair_reads_the_clock_twice_at_most, 0, COUNT(rows));
    return suite_run(suite);
}
