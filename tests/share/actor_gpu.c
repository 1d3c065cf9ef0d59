/* SPDX-License-Identifier: MIT */
/* actor_gpu.c - what an actor does on the GPU: streams, blocks, their contents, and work that takes time. */
#include "config.h"

#include "tests/share/actor.h"

#include <stdlib.h>
#include <string.h>

/* Contents: bands of one byte each, so that a block of another number, or one that was written in part, is known. */
#define BAND (64 * 1024)
#define BANDS 8

static unsigned char band_byte(unsigned long long number, size_t band)
{
    return (unsigned char)(number * BANDS + band % BANDS);
}

weir_status actor_stream(const char *name, weir_cuda_stream *stream)
{
    *stream = NULL;
    if (!name || strcmp(name, "-") == 0 || strcmp(name, "0") == 0)
        return WEIR_OK;
    const weir_stream *s = actor_get(KIND_STREAM, name);
    if (!s)
        return actor_fail(WEIR_NOT_FOUND, "actor: no stream '%s'", name);
    *stream = weir_stream_handle(s);
    return WEIR_OK;
}

weir_status actor_memory(const char *name, void **ptr, size_t *size)
{
    const struct block *block = actor_get(KIND_BLOCK, name);
    const weir_lease *lease = actor_get(KIND_LEASE, name);
    if (!block && !lease)
        return actor_fail(WEIR_NOT_FOUND, "actor: no block or lease '%s'", name);
    *ptr = lease ? weir_lease_get_info(lease)->ptr : block->ptr;
    *size = lease ? weir_lease_get_info(lease)->size : block->size;
    return WEIR_OK;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

static weir_status stream_create(void)
{
    weir_stream *s;
    weir_status status = weir_stream_create(actor.w, actor.device, NULL, &actor.error, &s);
    if (status == WEIR_OK)
        actor_set(KIND_STREAM, actor.words[1], s);
    return status;
}

static weir_status synchronize(void)
{
    return actor_gpu(actor.gpu->stream_synchronize(actor.stream), "synchronise");
}

static weir_status delay(void)
{
    return actor_gpu(actor.gpu->delay(actor.stream, actor_number(actor.words[1]) * 1000000), "delay");
}

static weir_status mark(void)
{
    gpu_event event = actor_get(KIND_MARK, actor.words[1]);
    weir_status status = event ? WEIR_OK : actor_gpu(actor.gpu->event_create(actor.device, &event), "an event");
    if (status != WEIR_OK)
        return status;
    actor_set(KIND_MARK, actor.words[1], event);
    return actor_gpu(actor.gpu->event_record(event, actor.stream), "recording");
}

static weir_status reached(void)
{
    int code = actor.gpu->event_query(actor.thing);
    actor_say(" reached=%d", code == GPU_SUCCESS);
    return code == GPU_NOT_READY ? WEIR_OK : actor_gpu(code, "asking an event");
}

static weir_status capture(void)
{
    return actor_gpu(actor.gpu->capture_begin(actor.stream, GPU_CAPTURE_MODE_RELAXED), "beginning a capture");
}

static weir_status capture_globally(void)
{
    return actor_gpu(actor.gpu->capture_begin(actor.stream, GPU_CAPTURE_MODE_GLOBAL), "beginning a capture");
}

static weir_status capture_end(void)
{
    size_t nodes;
    return actor_gpu(actor.gpu->capture_end(actor.stream, &nodes), "ending a capture");
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

weir_status actor_new_block(const char *name, size_t size, weir_pool *pool)
{
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return actor_fail(WEIR_NO_HOST_MEMORY, "actor: no memory for a block");
    block->size = size;
    weir_status status = pool ? weir_pool_malloc(pool, &block->ptr, size, actor.stream)
                              : weir_malloc(actor.w, &block->ptr, size, actor.device, actor.stream);
    if (status == WEIR_OK) {
        actor_set(KIND_BLOCK, name, block);
        return WEIR_OK;
    }
    weir_last_error(&actor.error);
    free(block);
    return status;
}

static weir_status allocate(void)
{
    return actor_new_block(actor.words[1], actor_number(actor.words[2]), NULL);
}

static weir_status give_back(void)
{
    struct block *block = actor.thing;
    weir_status status = weir_free(actor.w, block->ptr, actor.stream);
    if (status != WEIR_OK) {
        weir_last_error(&actor.error);
        return status;
    }
    actor_set(KIND_BLOCK, actor.words[1], NULL);
    free(block);
    return WEIR_OK;
}

weir_status actor_fill(void *ptr, size_t size, unsigned long long number, weir_cuda_stream stream)
{
    weir_status status = WEIR_OK;
    for (size_t band = 0; status == WEIR_OK && band * BAND < size; band++) {
        size_t len = size - band * BAND < BAND ? size - band * BAND : BAND;
        status = actor_gpu(actor.gpu->set_async((char *)ptr + band * BAND, band_byte(number, band), len, stream), "filling");
    }
    return status;
}

static weir_status fill(void)
{
    void *ptr;
    size_t size;
    weir_status status = actor_memory(actor.words[1], &ptr, &size);
    return status == WEIR_OK ? actor_fill(ptr, size, actor_number(actor.words[2]), actor.stream) : status;
}

/* On the stream, without a wait. Both have to have room. */
static weir_status copy(void)
{
    void *from, *to;
    size_t size, room;
    weir_status status = actor_memory(actor.words[1], &from, &size);
    if (status == WEIR_OK)
        status = actor_memory(actor.words[2], &to, &room);
    if (status != WEIR_OK)
        return status;
    return actor_gpu(actor.gpu->copy_async(to, from, size < room ? size : room, actor.stream), "copying");
}

/* Band by band, each beside itself one byte on: these are megabytes, and a loop over bytes is slow where each access is watched. */
static weir_status compare(const unsigned char *bytes, size_t size, unsigned long long number)
{
    for (size_t at = 0; at < size; at += BAND) {
        unsigned char wanted = band_byte(number, at / BAND);
        size_t len = size - at < BAND ? size - at : BAND, i = 0;
        if (bytes[at] == wanted && memcmp(bytes + at, bytes + at + 1, len - 1) == 0)
            continue;
        while (bytes[at + i] == wanted)
            i++;
        return actor_fail(WEIR_INVALID, "actor: byte %zu of %zu is %u, not %u as of %llu", at + i, size, bytes[at + i], wanted, number);
    }
    return WEIR_OK;
}

weir_status actor_check(const void *ptr, size_t size, unsigned long long number, weir_cuda_stream stream)
{
    unsigned char *bytes = malloc(size);
    if (!bytes)
        return actor_fail(WEIR_NO_HOST_MEMORY, "actor: no memory to check %zu bytes", size);
    weir_status status = actor_gpu(actor.gpu->copy_async(bytes, ptr, size, stream), "copying to the host");
    if (status == WEIR_OK)
        status = actor_gpu(actor.gpu->stream_synchronize(stream), "synchronise");
    if (status == WEIR_OK)
        status = compare(bytes, size, number);
    free(bytes);
    return status;
}

static weir_status check(void)
{
    void *ptr;
    size_t size;
    weir_status status = actor_memory(actor.words[1], &ptr, &size);
    if (status != WEIR_OK)
        return status;
    actor_say(" bytes=%zu", size);
    return actor_check(ptr, size, actor_number(actor.words[2]), actor.stream);
}

const struct command actor_gpu_commands[] = {
    { "stream", "NAME: creates one", stream_create },
    { "synchronize", "STREAM", synchronize },
    { "delay", "MILLISECONDS STREAM: keeps it busy", delay },
    { "mark", "NAME STREAM: records an event", mark },
    { "reached", "MARK: whether the stream has come to it", reached },
    { "capture", "STREAM: begins to", capture },
    { "capture_globally", "STREAM: the same, in a mode in which others can spoil it", capture_globally },
    { "capture_end", "STREAM: fails if something spoilt it", capture_end },
    { "malloc", "NAME BYTES STREAM: from the default pool", allocate },
    { "free", "BLOCK STREAM", give_back },
    { "fill", "BLOCK-OR-LEASE NUMBER STREAM: with bytes that the number gives", fill },
    { "copy", "FROM TO STREAM: of blocks or leases", copy },
    { "check", "BLOCK-OR-LEASE NUMBER STREAM: compares every byte", check },
    { NULL, NULL, NULL },
};

void actor_gpu_end(void)
{
    const char *name, *stream = actor_next(KIND_STREAM);
    weir_cuda_stream handle = stream ? weir_stream_handle(actor_get(KIND_STREAM, stream)) : NULL;
    while ((name = actor_next(KIND_BLOCK))) {
        struct block *block = actor_get(KIND_BLOCK, name);
        weir_free(actor.w, block->ptr, handle);
        free(block);
        actor_set(KIND_BLOCK, name, NULL);
    }
    while ((name = actor_next(KIND_MARK))) {
        actor.gpu->event_destroy(actor_get(KIND_MARK, name));
        actor_set(KIND_MARK, name, NULL);
    }
    while ((name = actor_next(KIND_STREAM))) {
        weir_stream_close(actor_get(KIND_STREAM, name));
        actor_set(KIND_STREAM, name, NULL);
    }
}
