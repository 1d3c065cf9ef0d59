/* SPDX-License-Identifier: MIT */
/*
 * share-consumer.c - reads the frames of another process in place: checks each, and cuts its middle out. Start share-producer.c first; its
 * head says how to build and run both.
 *
 *     WEIR_POLICY=share.yaml ./share-consumer
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "frames.h"

enum { PATIENCE = 60000 /* milliseconds */ };

struct consumer {
    weir_stream *stream;
    void *cut; /* our own memory, where the frame's middle goes; the frame itself is not to be written to */
    size_t cut_size;
    unsigned long frames, wrong;
};

/* The transformation: grows `cut` if it has to, and fills it. */
static weir_status transform(struct consumer *c, const void *frame, const struct frame_info *info, weir_error *error)
{
    size_t size = (size_t)(info->width / 2) * (info->height / 2);
    if (size > c->cut_size) {
        weir_stream_free(c->stream, c->cut);
        c->cut = NULL;
        c->cut_size = 0;
        weir_status status = weir_stream_malloc(c->stream, &c->cut, size);
        if (status) {
            weir_last_error(error);
            return status;
        }
        c->cut_size = size;
    }
    return frame_cut(c->cut, frame, info, c->stream) ? WEIR_CUDA_ERROR : WEIR_OK;
}

static weir_status consume(struct consumer *c, weir_lease *lease, weir_error *error)
{
    /* Metadata and size can be read at once. The pointer is for work on `stream`: it runs behind what the producer's stream wrote. */
    const weir_lease_info *got = weir_lease_get_info(lease);
    struct frame_info info = { 0 };
    if (got->metadata_size == sizeof info)
        memcpy(&info, got->metadata, sizeof info);
    if ((uint64_t)info.width * info.height != got->size) {
        fprintf(stderr, "share-consumer: what comes is no frame of share-producer\n");
        weir_lease_release(lease, weir_stream_handle(c->stream), error);
        return WEIR_PROTOCOL;
    }
    weir_status status = transform(c, got->ptr, &info, error);
    /* The check reads pixels on the host, so it waits for the stream. Work on the GPU alone would need no wait at all. */
    long wrong = status ? 0 : frame_check(got->ptr, &info, c->stream);
    /* The producer may paint over the frame once `stream` has come to this point. */
    weir_status released = weir_lease_release(lease, weir_stream_handle(c->stream), error);
    if (!status && !wrong)
        wrong = frame_check_cut(c->cut, &info, c->stream);
    c->frames++;
    c->wrong += wrong != 0;
    return status ? status : wrong < 0 ? WEIR_CUDA_ERROR : released;
}

static weir_status run(struct consumer *c, weir *w, weir_error *error)
{
    weir_import *import;
    weir_reader *reader;
    weir_lease *lease;

    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.timeout_ms = PATIENCE;
    weir_status status = weir_import_open(w, "frames", &options, error, &import);
    if (status)
        return status;
    /* Two leases: the next frame comes while this one is looked at. */
    status = weir_reader_open(import, "camera", 2, error, &reader);
    if (status == WEIR_OK) {
        while ((status = weir_reader_next(reader, PATIENCE, weir_stream_handle(c->stream), error, &lease)) == WEIR_OK &&
               (status = consume(c, lease, error)) == WEIR_OK)
            continue;
        weir_reader_close(reader);
    }
    if (status == WEIR_ENDED) /* the producer closed the ring, which is how it ends */
        status = WEIR_OK;
    weir_import_close(import);
    return status;
}

int main(void)
{
    struct consumer c = { 0 };
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;

    weir_status status = weir_open(NULL, &error, &w);
    if (!status)
        status = weir_stream_create(w, 0, "viewer", &error, &c.stream);
    if (!status)
        status = run(&c, w, &error);
    if (status)
        fprintf(stderr, "share-consumer: %s\n%s\n", weir_status_text(status), error.text);
    else
        printf("%lu frames were consumed, %lu of them wrong\n", c.frames, c.wrong);

    if (c.stream)
        weir_stream_free(c.stream, c.cut);
    weir_stream_close(c.stream);
    weir_close(w);
    return status || c.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
