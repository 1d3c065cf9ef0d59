/* SPDX-License-Identifier: MIT */
/*
 * Nobody holds a lock of Weir's who asks an interpreter for frames: it takes the GIL, whose holder may be in any call. Here the interpreter
 * has another thread make such calls, and waits for it.
 */
#include <pthread.h>

#include "lib/record/interpreter.h"
#include "tests/plugin/plug.h"

static gpu_stream a, b, external;
static __thread bool is_other; /* the thread that makes the calls, whose own allocations have no frames */
static unsigned asked;
static bool is_capturing;

static void set_up(const char *policy)
{
    plug_set_up("devices=2,memory=1GiB", policy);
    a = plug_stream(0);
    b = plug_stream(0);
    external = plug_external(0);
    asked = 0;
}

static void ignore(void *data, const weir_leak *leak)
{
    (void)data;
    (void)leak;
}

/* What takes each lock that a request could have. */
static void *make_calls(void *unused)
{
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    weir_pool *pool;
    weir_stats *stats;
    (void)unused;
    is_other = true;
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    ck_assert_int_eq(weir_torch_get(1, &error, &w), WEIR_OK);
    for (int device = 0; device < 2; device++) {
        gpu_stream streams[] = { device ? NULL : a, device ? NULL : b, NULL };
        for (unsigned i = 0; i < 3 && !is_capturing; i++) {
            weir_torch_free(plug_malloc(1000, device, streams[i]), 1000, device, streams[i]);
            weir_torch_free(plug_malloc(20 * MIB, device, streams[i]), 20 * MIB, device, streams[i]);
        }
        ck_assert_int_eq(weir_torch_get(device, &error, &w), WEIR_OK);
        ck_assert_int_eq(weir_stats_take(w, &error, &stats), WEIR_OK);
        weir_stats_free(stats);
        ck_assert_int_eq(weir_mark(w, "a mark"), WEIR_OK);
        ck_assert_int_eq(weir_tag_push(w, "a tag"), WEIR_OK);
        weir_tag_pop(w, "a tag");
        ck_assert_int_eq(weir_pool_get(w, "p", device, &error, &pool), WEIR_OK);
        ck_assert_int_eq(weir_pool_set_release_threshold(pool, 64 * MIB, &error), WEIR_OK);
        ck_assert_int_eq(weir_leaks(w, -1, ignore, NULL, &error), WEIR_OK);
        plug_stats(device);
    }
    weir_torch_begin_allocate_to_pool(0, plug_id(7));
    weir_torch_end_allocate_to_pool(0, plug_id(7));
    weir_torch_release_pool(0, plug_id(7));
    weir_torch_memory_fraction(0.9, 0);
    weir_torch_reset();
    return NULL;
}

static unsigned find(struct weir__place *places, unsigned max)
{
    pthread_t thread;
    (void)places;
    (void)max;
    if (is_other)
        return 0;
    asked++;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_calls, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return 0;
}

static bool name(const struct weir__place *place, bool keeps, struct weir__place_name *name)
{
    (void)place;
    (void)keeps;
    (void)name;
    return false;
}

static const struct weir__interpreter interpreter = { .find = find, .name = name };

#define ALL "weir: 1\npools: { p: {} }\nrecord: { level: all, stacks: true }\n"
#define POOL "weir: 1\npools: { p: {} }\nrecord: { stacks: true }\n"
#define NO_CACHE "weir: 1\npools: { p: { cache: off } }\nrecord: { level: all, stacks: true }\n"
#define ARENA "weir: 1\npools: { p: { backing: arena } }\nrecord: { level: all, stacks: true }\n"

START_TEST(request_asks_for_frames_before_it_takes_a_lock)
{
    static const struct {
        const char *policy;
        bool is_external, is_default;
    } rows[] = { { ALL, false, false }, { ALL, true, false }, { ALL, false, true }, { POOL, false, false }, { NO_CACHE, false, false },
                 { ARENA, false, false } };
    set_up(rows[_i].policy);
    gpu_stream stream = rows[_i].is_default ? NULL : rows[_i].is_external ? external : a;
    weir__interpreter_set(&interpreter);
    void *first = plug_malloc(3000, 0, stream);
    ck_assert_uint_ge(asked, 1);
    weir_torch_free(first, 3000, 0, stream);
    /* Whatever serves it now: the cache, CUDA or the arena. */
    unsigned before = asked;
    void *again = plug_malloc(3000, 0, stream), *large = plug_malloc(40 * MIB, 0, stream);
    ck_assert_uint_gt(asked, before);
    weir_torch_free(again, 3000, 0, stream);
    weir_torch_free(large, 40 * MIB, 0, stream);
    weir__interpreter_set(NULL);
    weir_torch_reset();
}
END_TEST

START_TEST(request_of_a_graph_asks_for_frames_before_it_takes_a_lock)
{
    set_up(ALL);
    weir_torch_free(plug_malloc(1000, 0, a), 1000, 0, a);
    plug_capture_begin(0, 1, a);
    weir__interpreter_set(&interpreter);
    is_capturing = true;
    void *ptr = plug_malloc(1000, 0, a);
    ck_assert_uint_ge(asked, 1);
    weir__interpreter_set(NULL);
    weir_torch_free(ptr, 1000, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
}
END_TEST

START_TEST(request_that_fails_asks_for_frames_before_it_takes_a_lock)
{
    set_up(ALL);
    weir__interpreter_set(&interpreter);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(4 * GIB), 0, a));
    ck_assert_uint_ge(asked, 1);
    weir__interpreter_set(NULL);
}
END_TEST

int main(void)
{
    weir__unwind_prepare(); /* its descriptors stay open */
    Suite *suite = suite_create("frames");
    TCase *tcase = suite_case(suite, "locks", 0);
    tcase_add_loop_test(tcase, request_asks_for_frames_before_it_takes_a_lock, 0, 6);
    suite_add(tcase, request_of_a_graph_asks_for_frames_before_it_takes_a_lock,
              request_that_fails_asks_for_frames_before_it_takes_a_lock);
    return suite_run(suite);
}
