/* SPDX-License-Identifier: MIT */
/*
 * share-producer.c - fills frames on the GPU, and hands them to other processes without copying them. The other side is share-consumer.c.
 *
 *     cc share-producer.c frames.c -o share-producer $(pkg-config --cflags --libs weir) -DWITH_CUDA -lcudart   (and CUDA's -I and -L)
 *     WEIR_POLICY=share.yaml ./share-producer 100           on the GPU, or without one, in this and the consumers' terminals:
 *     export WEIR_GPU=sim WEIR_SIM=name=demo
 *
 * The first argument is the number of frames; the second, 1 by default, is the number of readers to wait for before the first frame. No host
 * waits for the GPU: a frame is ready once the producer's stream reaches its push, and the consumers' streams wait for that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weir.h>

#include "frames.h"

enum { WIDTH = 640, HEIGHT = 480, SLOTS = 4, PATIENCE = 60000 /* milliseconds */ };

/* A frame without a reader is lost: readers get the frames that are pushed after they have opened the ring. */
static int wait_for_readers(weir_ring *ring, unsigned wanted)
{
    for (int ms = 0; weir_ring_readers(ring) < wanted; ms++) {
        if (ms == PATIENCE) {
            fprintf(stderr, "share-producer: %u of %u readers came within %d s\n", weir_ring_readers(ring), wanted, PATIENCE / 1000);
            return -1;
        }
        usleep(1000);
    }
    return 0;
}

static weir_status produce(weir_ring *ring, weir_stream *stream, uint64_t number, weir_error *error)
{
    struct frame_info info = { WIDTH, HEIGHT, number };
    weir_cuda_stream handle = weir_stream_handle(stream);
    void *frame;

    /* A slot that every reader has let go of. Each time its bytes are those of an older frame. */
    weir_status status = weir_ring_take(ring, PATIENCE, handle, error, &frame);
    if (status)
        return status;
    if (frame_paint(frame, &info, stream)) {
        weir_ring_drop(ring, frame, handle, error);
        return WEIR_CUDA_ERROR;
    }
    /* From here on the frame belongs to its readers; `stream` may still be painting it. */
    return weir_ring_push(ring, frame, (size_t)WIDTH * HEIGHT, &info, sizeof info, handle, error);
}

static weir_status run(weir *w, weir_stream *stream, unsigned long frames, unsigned readers, weir_error *error)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = (size_t)WIDTH * HEIGHT, .depth = SLOTS };
    weir_export *shared;
    weir_pool *pool;
    weir_ring *ring;

    weir_status status = weir_pool_get(w, "frames", 0, error, &pool);
    if (status || (status = weir_export_open(pool, error, &shared)))
        return status;
    status = weir_ring_open(shared, "camera", &options, weir_stream_handle(stream), error, &ring);
    if (!status) {
        puts("the ring 'camera' is open");
        fflush(stdout);
        if (wait_for_readers(ring, readers))
            status = WEIR_TIMEOUT;
    }
    for (unsigned long number = 1; number <= frames && !status; number++)
        status = produce(ring, stream, number, error);
    if (!status)
        printf("%lu frames were produced\n", frames);
    /* Closes the ring as well. Readers have some time to get what is queued, and to let go of its memory. */
    weir_export_close(shared, PATIENCE);
    return status;
}

int main(int argc, char **argv)
{
    unsigned long frames = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    unsigned readers = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *stream = NULL;
    weir *w = NULL;

    weir_status status = weir_open(NULL, &error, &w);
    if (!status)
        status = weir_stream_create(w, 0, "camera", &error, &stream);
    if (!status)
        status = run(w, stream, frames, readers, &error);
    if (status)
        fprintf(stderr, "share-producer: %s\n%s\n", weir_status_text(status), error.text);

    weir_stream_close(stream);
    weir_close(w);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
