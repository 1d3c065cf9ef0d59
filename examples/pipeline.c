/* SPDX-License-Identifier: MIT */
/*
 * pipeline.c - two streams, two pools, and a callback that gives up what the program keeps when the GPU is full.
 *
 *     cc pipeline.c -o pipeline $(pkg-config --cflags --libs weir)
 *     WEIR_GPU=sim WEIR_POLICY=pipeline.yaml ./pipeline     (without WEIR_GPU=sim: on the GPU, which it fills on purpose)
 *
 * Frames are made on the stream "decode" and used on the stream "infer", which keeps its results for a while. Results are a tenth of the
 * device each, so sooner or later a request finds no memory. The recovery ladder then asks on_out_of_memory(), which drops the oldest
 * results, and the request succeeds: the loop itself knows nothing of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

enum { FRAMES = 16 };

struct result {
    void *ptr;
    uint64_t size;
};

struct pipeline {
    weir *w;
    weir_stream *decode, *infer;
    uint64_t device_memory;
    /* The results kept: results[oldest] … results[newest - 1]. Only the thread that runs the pipeline touches them, and the callback, which
       runs on the thread whose request failed. With several threads they would need a lock that no thread holds while it allocates. */
    struct result results[FRAMES];
    size_t oldest, newest;
};

/* A weir_oom_fn. Returns the bytes that it freed; Weir then tries the request again. */
static uint64_t on_out_of_memory(void *data, int device, uint64_t needed)
{
    struct pipeline *p = data;
    uint64_t freed = 0;

    if (device != weir_stream_device(p->infer))
        return 0;
    while (freed < needed && p->oldest < p->newest) {
        struct result *result = &p->results[p->oldest];
        if (weir_stream_free(p->infer, result->ptr) != WEIR_OK)
            break;
        freed += result->size;
        p->oldest++;
    }
    return freed;
}

static weir_status run_frame(struct pipeline *p, weir_error *error)
{
    void *frame, *result;
    uint64_t result_size = p->device_memory / 10;

    weir_status status = weir_stream_malloc(p->decode, &frame, p->device_memory / 100);
    if (status) {
        weir_last_error(error);
        return status;
    }
    /* Here: the decoder's kernels, on weir_stream_handle(p->decode). */

    /*
     * The hand-over. `infer` must not touch the frame before `decode` has made it, and before its allocation took effect, which is an event
     * of `decode` as well. Waiting on the host is the plain way. A program with CUDA's headers lets the stream wait instead, and the host
     * goes on: cudaEventRecord(made, decode); cudaStreamWaitEvent(infer, made, 0).
     */
    status = weir_stream_synchronize(p->decode, error);
    if (status)
        goto free_frame;
    status = weir_stream_malloc(p->infer, &result, result_size);
    if (status) {
        weir_last_error(error);
        goto free_frame;
    }
    p->results[p->newest++] = (struct result){ result, result_size };
    /* Here: the model's kernels, on weir_stream_handle(p->infer). They read the frame and write the result. */

free_frame:
    /* Freed on the stream that used it last, so the free stands behind that use and no second hand-over is needed. */
    if (weir_stream_free(p->infer, frame) != WEIR_OK && status == WEIR_OK) {
        weir_last_error(error);
        return error->status;
    }
    return status;
}

static weir_status print_figures(const struct pipeline *p, weir_error *error)
{
    weir_stats *stats;
    weir_status status = weir_stats_take(p->w, error, &stats);
    if (status)
        return status;
    printf("%d frames: %zu results kept, %zu dropped when the device was full\n", FRAMES, p->newest - p->oldest, p->oldest);
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        if (pool->device == weir_stream_device(p->infer))
            printf("pool '%s': %" PRIu64 " served, %" PRIu64 " freed, %" PRIu64 " live, %" PRIu64 " refused\n", pool->name, pool->mallocs,
                   pool->frees, pool->live_blocks, pool->failures);
    }
    const weir_device_stats *device = weir_stats_device(stats, 0);
    if (device)
        printf("rescued by the callback: %" PRIu64 "\n", device->rescues[WEIR_RUNG_CALLBACKS]);
    /* The same for a log that programs read: one line, as long as it has to be. */
    size_t size = weir_stats_json(stats, NULL, 0) + 1;
    char *json = malloc(size);
    if (json) {
        weir_stats_json(stats, json, size);
        puts(json);
    }
    free(json);
    weir_stats_free(stats);
    return WEIR_OK;
}

static weir_status run(struct pipeline *p, weir_error *error)
{
    weir_status status;
    weir_stats *stats;
    unsigned callback;

    if ((status = weir_open(NULL, error, &p->w)) || (status = weir_stream_create(p->w, 0, "decode", error, &p->decode)) ||
        (status = weir_stream_create(p->w, 0, "infer", error, &p->infer)) ||
        (status = weir_oom_add(p->w, on_out_of_memory, p, error, &callback)) || (status = weir_stats_take(p->w, error, &stats)))
        return status;
    p->device_memory = weir_stats_device(stats, 0)->memory;
    weir_stats_free(stats);

    for (int i = 0; i < FRAMES && status == WEIR_OK; i++)
        status = run_frame(p, error);
    if (status == WEIR_OK)
        status = print_figures(p, error);
    /* From here on the pipeline goes away; nobody may call into it any more. */
    weir_status removed = weir_oom_remove(p->w, callback, error);
    return status ? status : removed;
}

int main(void)
{
    struct pipeline p = { 0 };
    weir_error error = WEIR_ERROR_INIT;

    weir_status status = run(&p, &error);
    if (status)
        fprintf(stderr, "pipeline: %s\n%s\n", weir_status_text(status), error.text);

    for (; p.oldest < p.newest; p.oldest++)
        if (weir_stream_free(p.infer, p.results[p.oldest].ptr) != WEIR_OK && status == WEIR_OK)
            status = WEIR_CUDA_ERROR;
    weir_stream_close(p.infer);
    weir_stream_close(p.decode);
    weir_close(p.w);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
