/* SPDX-License-Identifier: MIT */
/* conformance_context.c - contexts that the program makes and destroys beside that of the device. */
#include "tests/gpu/conformance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "lib/gpu/sim.h"

static bool is_sim(void)
{
    return strcmp(g->name, "sim") == 0;
}

/* The waist makes no contexts. */
static void *driver_function(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *function = library ? dlsym(library, name) : NULL;
    ck_assert_msg(function != NULL, "the driver has no %s", name);
    return function;
}

/* On device 0, and current. */
static void *create_context(void)
{
    int (*create)(void **context, unsigned flags, int device) = NULL;
    void *context = is_sim() ? sim_context_create(0) : NULL;
    if (!is_sim()) {
        void *found = driver_function("cuCtxCreate_v2");
        memcpy(&create, &found, sizeof create);
        ck_assert_gpu(create(&context, 0, 0));
    }
    ck_assert_ptr_nonnull(context);
    return context;
}

static void destroy_context(void *context)
{
    int (*destroy)(void *context) = NULL;
    if (is_sim()) {
        sim_context_destroy(context);
        return;
    }
    void *found = driver_function("cuCtxDestroy_v2");
    memcpy(&destroy, &found, sizeof destroy);
    ck_assert_gpu(destroy(context));
}

static struct gpu_context context_of(gpu_stream stream)
{
    struct gpu_context context = {.handle = NULL};
    ck_assert_gpu(g->stream_context(stream, &context));
    ck_assert_ptr_nonnull(context.handle);
    return context;
}

static void expect_same(struct gpu_context a, struct gpu_context b)
{
    ck_assert_ptr_eq(a.handle, b.handle);
    ck_assert_uint_eq(a.id, b.id);
}

START_TEST(streams_of_a_device_live_in_its_context)
{
    expect_same(context_of(rig.a), context_of(rig.b));
    expect_same(context_of(rig.a), context_of(GPU_STREAM_LEGACY));
    const struct gpu_context context = context_of(rig.a);
    ck_assert(g->context_is_alive(&context));
}
END_TEST

START_TEST(stream_that_captures_tells_its_context_and_captures_on)
{
    size_t nodes;
    const struct gpu_context before = context_of(rig.a);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    expect_same(context_of(rig.a), before);
    ck_assert(g->context_is_alive(&before));
    ck_assert_gpu(g->capture_end(rig.a, &nodes));
}
END_TEST

START_TEST(context_of_the_program_is_alive_until_it_is_destroyed)
{
    gpu_stream stream;
    const struct gpu_context own = context_of(rig.a);
    void *made = create_context();
    ck_assert_gpu(g->stream_create(0, &stream));
    const struct gpu_context context = context_of(stream);
    ck_assert_ptr_ne(context.handle, own.handle);
    expect_same(context_of(GPU_STREAM_LEGACY), context);
    expect_same(context_of(rig.a), own);
    ck_assert(g->context_is_alive(&context));
    destroy_context(made);
    ck_assert(!g->context_is_alive(&context));
    ck_assert(g->context_is_alive(&own));
    expect_same(context_of(GPU_STREAM_LEGACY), own);
}
END_TEST

START_TEST(next_context_is_not_taken_for_the_destroyed_one)
{
    void *made = create_context();
    const struct gpu_context former = context_of(GPU_STREAM_LEGACY);
    destroy_context(made);
    made = create_context();
    const struct gpu_context context = context_of(GPU_STREAM_LEGACY);
    ck_assert_uint_ne(context.id, former.id);
    ck_assert(g->context_is_alive(&context));
    ck_assert(!g->context_is_alive(&former));
    destroy_context(made);
}
END_TEST

/* So what was freed in it can serve others, and go back. */
START_TEST(destroying_a_context_waits_for_its_work)
{
    void *ptr, *made = create_context();
    gpu_stream stream;
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    ck_assert_gpu(g->stream_create(0, &stream));
    ck_assert_gpu(g->malloc_async(&ptr, 2 * STEP, rig.pool, stream));
    ck_assert_gpu(g->delay(stream, KERNEL_NS));
    ck_assert_gpu(g->free_async(ptr, stream));
    uint64_t begin = g->now();
    destroy_context(made);
    ck_assert_uint_ge(g->now() - begin, KERNEL_NS / 2);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 2 * STEP);
    ck_assert_gpu(g->pool_trim(rig.pool, 0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

/* The driver itself crashes at such an event, on some machines only when another context was made since (measured). */
START_TEST(events_of_a_destroyed_context_say_so)
{
    void *made = create_context();
    gpu_stream stream;
    gpu_event event;
    ck_assert_gpu(g->stream_create(0, &stream));
    ck_assert_gpu(g->event_create(0, &event));
    ck_assert_gpu(g->event_record(event, stream));
    destroy_context(made);
    for (int turn = 0; turn < 2; turn++) {
        ck_assert_gpu_code(g->event_query(event), GPU_CONTEXT_DESTROYED);
        ck_assert_gpu_code(g->event_synchronize(event), GPU_CONTEXT_DESTROYED);
        ck_assert_gpu_code(g->event_record(event, rig.a), GPU_CONTEXT_DESTROYED);
        ck_assert_gpu_code(g->stream_wait_event(rig.a, event), GPU_CONTEXT_DESTROYED);
        if (turn == 0)
            made = create_context();
    }
    destroy_context(made);
    ck_assert_gpu_code(g->event_destroy(event), GPU_CONTEXT_DESTROYED);
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    ck_assert_gpu(g->event_synchronize(rig.event));
}
END_TEST

void add_context_tests(Suite *suite, const struct probe *probe)
{
    TCase *tcase = rig_case(suite, "contexts");
    suite_add(tcase, streams_of_a_device_live_in_its_context, stream_that_captures_tells_its_context_and_captures_on,
              destroying_a_context_waits_for_its_work, events_of_a_destroyed_context_say_so);
    if (probe->supports[GPU_FEATURE_STREAM_ID]) /* which came with that of contexts */
        suite_add(tcase, context_of_the_program_is_alive_until_it_is_destroyed, next_context_is_not_taken_for_the_destroyed_one);
    else
        printf("# left out: %s\n", probe->why[GPU_FEATURE_STREAM_ID]);
}
