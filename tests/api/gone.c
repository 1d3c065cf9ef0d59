/* SPDX-License-Identifier: MIT */
/* Streams that are gone: they were destroyed while they were open, or their context was. The simulator aborts where one is touched. */
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/open.h"
#include "lib/release/give.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static gpu_stream new_stream(int device)
{
    gpu_stream stream = NULL;
    ck_assert_int_eq(fixture_gpu()->stream_create(device, &stream), GPU_SUCCESS);
    return stream;
}

/* What Weir does on its own account ------------------------------------------------------------------------------------------------------
 */

static void climb(weir *w)
{
    void *ptr;
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(900), 0, NULL), WEIR_OUT_OF_MEMORY);
}

static void give(weir *w)
{
    const struct weir__give_request request = {.device = 0, .wanted = UINT64_MAX, .deadline = weir__service_now() + MIB(1)};
    struct weir__give *begun = weir__give_begin(w, &request);
    while (weir__give_step(begun) != WEIR__GIVE_DONE)
        continue;
    weir__give_end(begun);
}

static void offer(weir *w)
{
    weir__give_offer(w, 0, NULL);
}

static void trim(weir *w)
{
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, NULL, NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, 0);
}

static void set(weir *w)
{
    ck_assert_int_eq(weir__policy_set(w, "pools.a.release_threshold=0,keeper=true", NULL), WEIR_OK);
    ck_assert_int_eq(weir__policy_set(w, "keeper=false", NULL), WEIR_OK);
}

static void wait_for_all(weir *w)
{
    ck_assert(weir__wait_for_frees(&w->devices[0], UINT64_MAX, true));
}

static void do_nothing(weir *w)
{
    (void)w;
}

static void (*const walkers[])(weir *w) = {climb, give, offer, trim, set, wait_for_all, do_nothing};
#define WALKERS ((int)(sizeof walkers / sizeof *walkers))

/* Its handle is another stream's
 * ----------------------------------------------------------------------------------------------------------- */

/* is_own: it was made by weir_stream_create(). */
static void leave_gone_stream(bool is_own, void (*walk)(weir *w))
{
    weir_stream *gone, *later;
    void *ptr;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 1ms } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, MIB(512));
    gpu_stream handle = is_own ? NULL : new_stream(0);
    ck_assert_int_eq(is_own ? weir_stream_create(w, 0, NULL, NULL, &gone) : weir_stream_open(w, 0, handle, NULL, NULL, &gone), WEIR_OK);
    handle = weir_stream_handle(gone);
    ptr = fixture_malloc(gone, KIB(64));
    ck_assert_int_eq(weir_stream_free(gone, fixture_malloc(gone, KIB(64))), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    ck_assert_ptr_eq(new_stream(0), handle);
    ck_assert_int_eq(weir_stream_open(w, 0, handle, NULL, NULL, &later), WEIR_OK);
    weir_stream_close(later);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    walk(w);
    ck_assert_int_eq(weir_stream_free(gone, ptr), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_synchronize(gone, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    if (is_own)
        weir_stream_close(gone);
    weir_close(w);
    fixture_sweep();
}

START_TEST(stream_whose_handle_is_another_one_is_touched_by_nobody)
{
    leave_gone_stream(_i % 2, walkers[_i / 2]);
}
END_TEST

START_TEST(stream_is_gone_when_its_handle_is_one_of_another_device)
{
    weir_stream *gone, *later;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: all } }\n");
    gpu_stream handle = new_stream(0);
    ck_assert_int_eq(weir_stream_open(w, 0, handle, NULL, NULL, &gone), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    ck_assert_ptr_eq(new_stream(1), handle);
    ck_assert_int_eq(weir_stream_open(w, 1, handle, NULL, NULL, &later), WEIR_OK);
    ck_assert_int_eq(weir_stream_synchronize(gone, NULL), WEIR_INVALID);
    weir_stream_close(later);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Its context was destroyed
 * ---------------------------------------------------------------------------------------------------------------- */

static const char *const backings[] = {
    "weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 1ms } } }\n",
    "weir: 1\npools: { a: { backing: arena, on_oom: { deadline: 1ms } } }\n",
};

static void *new_context(int device)
{
    void *context = sim_context_create(device);
    ck_assert_ptr_nonnull(context);
    return context;
}

/* A stream in a context of its own, with a live block, a cached one and one whose free is pending, and 512 MiB beside it. */
static void *beside;

static weir_stream *stream_in_context(weir *w, bool is_own, void **context, void **ptr)
{
    weir_stream *s;
    beside = fixture_malloc(fixture_stream(w, 0, NULL), MIB(512));
    *context = new_context(0);
    weir_status status = is_own ? weir_stream_create(w, 0, NULL, NULL, &s) : weir_stream_open(w, 0, new_stream(0), NULL, NULL, &s);
    ck_assert_int_eq(status, WEIR_OK);
    *ptr = fixture_malloc(s, KIB(64));
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, KIB(64))), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), 5000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(200))), WEIR_OK);
    return s;
}

/* Whether its context goes by itself, or a later one gets its handle and its streams' handles. */
START_TEST(stream_of_a_destroyed_context_is_touched_by_nobody)
{
    void *context, *ptr, *later = NULL;
    bool is_own = _i & 1, is_replaced = _i & 2;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open(backings[_i >> 2 & 1]);
    const struct weir__scope scope = {.fences = w->devices[0].fences};
    weir_stream *gone = stream_in_context(w, is_own, &context, &ptr);
    gpu_stream handle = weir_stream_handle(gone), other = NULL;
    sim_context_destroy(context);
    if (is_replaced) {
        ck_assert_ptr_eq(later = new_context(0), context);
        ck_assert_ptr_eq(other = new_stream(0), handle);
        ck_assert_int_eq(fixture_gpu()->delay(other, 5000000), GPU_SUCCESS);
    }
    walkers[_i >> 3](w);
    ck_assert_int_eq(weir_stream_synchronize(gone, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_free(gone, ptr), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_close(gone), WEIR_OK);
    if (is_replaced)
        ck_assert_int_eq(fixture_gpu()->stream_synchronize(other), GPU_SUCCESS); /* an event behind the device is behind this stream */
    weir__scope_look(&scope);
    ck_assert_uint_eq(weir__scope_marked(&scope), 0);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    trim(w);
    ck_assert_int_eq(weir_free(w, beside, NULL), WEIR_OK);
    weir_close(w);
    if (is_replaced)
        sim_context_destroy(later);
    fixture_expect_empty();
}
END_TEST

/* The first to ask is the end of the weir, or of the stream. */
START_TEST(stream_of_a_destroyed_context_can_be_closed)
{
    void *context, *ptr;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open(backings[_i >> 2]);
    weir_stream *gone = stream_in_context(w, _i & 1, &context, &ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, beside, NULL), WEIR_OK);
    sim_context_destroy(context);
    if (_i & 2)
        weir_stream_close(gone);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(cached_blocks_of_a_destroyed_context_come_back)
{
    void *context, *ptr;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open(backings[_i]);
    weir_stream *gone = stream_in_context(w, true, &context, &ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    sim_context_destroy(context);
    uint64_t released;
    ck_assert_uint_ge(fixture_figures(w, "a", 0).cached, KIB(64));
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, 0);
    ck_assert_uint_le(fixture_figures(w, "a", 0).reserved, MIB(512));
    ck_assert_int_eq(weir_free(w, beside, NULL), WEIR_OK);
    weir_stream_close(gone);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Without being opened: what Weir put behind the frees were events of that context. */
START_TEST(frees_in_a_destroyed_context_are_complete)
{
    void *large, *small;
    fixture_machine("memory=1GiB");
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools: { a: { on_oom: { deadline: 1s } }, b: { ipc: posix_fd } }\n");
    const struct weir__scope scope = {.fences = w->devices[0].fences};
    struct weir__wait wait;
    uint64_t bytes;
    void *context = new_context(0);
    gpu_stream stream = new_stream(0);
    ck_assert_int_eq(weir_malloc(w, &large, MIB(700), 0, stream), WEIR_OK);
    ck_assert_int_eq(weir_pool_malloc(fixture_pool(w, "b", 0), &small, MIB(1), stream), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->delay(stream, 5000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, large, stream), WEIR_OK);
    ck_assert_int_eq(weir_free(w, small, stream), WEIR_OK);
    ck_assert_uint_eq(weir__scope_marked(&scope), MIB(701));
    weir__wait_begin(&wait, &scope, false);
    sim_context_destroy(context);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, MIB(701));
    ck_assert_uint_eq(weir__scope_marked(&scope), 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(context_without_streams_of_weirs_may_go)
{
    fixture_machine(NULL);
    weir *w = fixture_open(backings[0]);
    void *context = new_context(0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    weir_stream_close(s); /* which Weir keeps */
    sim_context_destroy(context);
    s = fixture_stream(w, 0, NULL);
    ck_assert_uint_eq(sim_calls("stream_create"), 2);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, KIB(64))), WEIR_OK);
    weir_stream_close(s);
    ck_assert_ptr_eq(new_context(0), context);
    weir_stream *other = fixture_stream(w, 0, NULL); /* not that of the device's context */
    ck_assert_uint_eq(sim_calls("stream_create"), 3);
    weir_stream_close(other);
    ck_assert_ptr_eq(weir_stream_handle(fixture_stream(w, 0, NULL)), weir_stream_handle(other));
    weir_close(w);
    sim_context_destroy(context);
    fixture_expect_empty();
}
END_TEST

START_TEST(streams_of_many_contexts_leave_nothing)
{
    fixture_machine(NULL);
    weir *w = fixture_open(backings[_i]);
    for (int i = 0; i < 300; i++) {
        void *context = new_context(0);
        weir_stream *s = fixture_stream(w, 0, NULL), *closed = fixture_stream(w, 0, NULL);
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, KIB(64))), WEIR_OK);
        weir_stream_close(closed);
        sim_context_destroy(context);
        weir_stream_close(s);
    }
    ck_assert_uint_le(w->devices[0].spares.room, 4);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gone");
    TCase *tcase = suite_case(suite, "handle", 0);
    tcase_add_loop_test(tcase, stream_whose_handle_is_another_one_is_touched_by_nobody, 0, 2 * WALKERS);
    suite_add(tcase, stream_is_gone_when_its_handle_is_one_of_another_device);

    tcase = suite_case(suite, "context", 0);
    tcase_add_loop_test(tcase, stream_of_a_destroyed_context_is_touched_by_nobody, 0, 8 * WALKERS);
    tcase_add_loop_test(tcase, stream_of_a_destroyed_context_can_be_closed, 0, 8);
    tcase_add_loop_test(tcase, cached_blocks_of_a_destroyed_context_come_back, 0, 2);
    tcase_add_loop_test(tcase, streams_of_many_contexts_leave_nothing, 0, 2);
    suite_add(tcase, frees_in_a_destroyed_context_are_complete, context_without_streams_of_weirs_may_go);
    return suite_run(suite);
}
