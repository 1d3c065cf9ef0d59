/* SPDX-License-Identifier: MIT */
/*
 * sharing.c - an exporter or an importer that does what standard input says, line by line, and answers each line with the status of what it
 * did, by name. For tests of the command in which processes hold what the test wants them to hold.
 *
 *     sharing exporter    the pool 'frames' with a block 'weights' and a ring 'camera' of three slots: push MS, close-ring, quit
 *     sharing importer    acquire NAME, subscribe LEASES, next, busy, release, quit
 *
 * "busy" gives the importer's stream an hour of work. Kill it afterwards: to quit it would wait for that.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pool/weir_internal.h"

enum { SLOTS = 3, SLOT_SIZE = 64 << 10, WEIGHTS_SIZE = 1 << 20, LEASES_MAX = 16, PATIENCE = 60000 /* milliseconds */ };
#define HOUR UINT64_C(3600000000000)

struct side {
    weir *w;
    weir_stream *stream;
    /* Of the exporter. */
    weir_export *e;
    weir_ring *ring;
    /* Of the importer. */
    weir_import *i;
    weir_reader *reader;
    weir_lease *leases[LEASES_MAX]; /* leases[first] … leases[last - 1] */
    size_t first, last;
};

typedef weir_status command(struct side *side, const char *argument, weir_error *error);

static weir_status export(struct side *side, const char *argument, weir_error *error)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = SLOT_SIZE, .depth = SLOTS };
    weir_cuda_stream stream = weir_stream_handle(side->stream);
    weir_pool *pool;
    void *weights;
    (void)argument;
    weir_status status = weir_pool_get(side->w, "frames", 0, error, &pool);
    if (status || (status = weir_export_open(pool, error, &side->e)) || (status = weir_pool_malloc(pool, &weights, WEIGHTS_SIZE, stream)) ||
        (status = weir_export_publish(side->e, "weights", weights, 0, NULL, 0, stream, error)))
        return status;
    return weir_ring_open(side->e, "camera", &options, stream, error, &side->ring);
}

static weir_status push(struct side *side, const char *argument, weir_error *error)
{
    weir_cuda_stream stream = weir_stream_handle(side->stream);
    void *slot;
    weir_status status = weir_ring_take(side->ring, (unsigned)strtoul(argument, NULL, 10), stream, error, &slot);
    return status ? status : weir_ring_push(side->ring, slot, 0, NULL, 0, stream, error);
}

static weir_status close_ring(struct side *side, const char *argument, weir_error *error)
{
    (void)argument, (void)error;
    weir_ring_close(side->ring);
    side->ring = NULL;
    return WEIR_OK;
}

static weir_status import(struct side *side, const char *argument, weir_error *error)
{
    (void)argument;
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.timeout_ms = PATIENCE;
    return weir_import_open(side->w, "frames", &options, error, &side->i);
}

static weir_status acquire(struct side *side, const char *argument, weir_error *error)
{
    if (side->last == LEASES_MAX)
        return WEIR_BUSY;
    weir_status status = weir_import_acquire(side->i, argument, 0, weir_stream_handle(side->stream), error, &side->leases[side->last]);
    side->last += status == WEIR_OK;
    return status;
}

static weir_status subscribe(struct side *side, const char *argument, weir_error *error)
{
    return weir_reader_open(side->i, "camera", (unsigned)strtoul(argument, NULL, 10), error, &side->reader);
}

static weir_status next(struct side *side, const char *argument, weir_error *error)
{
    (void)argument;
    if (side->last == LEASES_MAX)
        return WEIR_BUSY;
    weir_status status = weir_reader_next(side->reader, PATIENCE, weir_stream_handle(side->stream), error, &side->leases[side->last]);
    side->last += status == WEIR_OK;
    return status;
}

static weir_status busy(struct side *side, const char *argument, weir_error *error)
{
    (void)argument, (void)error;
    return side->w->gpu->delay(weir_stream_handle(side->stream), HOUR) ? WEIR_CUDA_ERROR : WEIR_OK;
}

static weir_status release(struct side *side, const char *argument, weir_error *error)
{
    (void)argument;
    return side->first == side->last ? WEIR_NOT_FOUND
                                     : weir_lease_release(side->leases[side->first++], weir_stream_handle(side->stream), error);
}

static const struct {
    const char *name;
    command *run;
} commands[] = {
    { "exporter", export }, { "push", push }, { "close-ring", close_ring }, { "importer", import }, { "acquire", acquire },
    { "subscribe", subscribe }, { "next", next }, { "busy", busy }, { "release", release },
};

static weir_status obey(struct side *side, const char *name, const char *argument)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = WEIR_INVALID;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            status = commands[i].run(side, argument, &error);
    puts(weir_status_name(status));
    fflush(stdout);
    if (status != WEIR_OK)
        fprintf(stderr, "%s %s: %s\n", name, argument, error.text);
    return status;
}

int main(int argc, char **argv)
{
    struct side side = { 0 };
    weir_error error = WEIR_ERROR_INIT;
    char line[128], name[64], argument[64];
    if (argc < 2 || weir_open(NULL, &error, &side.w) != WEIR_OK || weir_stream_create(side.w, 0, NULL, &error, &side.stream) != WEIR_OK) {
        fprintf(stderr, "sharing: %s\n", argc < 2 ? "exporter or importer?" : error.text);
        return EXIT_FAILURE;
    }
    bool is_good = obey(&side, argv[1], "") == WEIR_OK;
    while (is_good && fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
        argument[0] = '\0';
        if (sscanf(line, "%63s %63s", name, argument) >= 1)
            obey(&side, name, argument);
    }
    weir_reader_close(side.reader);
    weir_import_close(side.i);
    weir_export_close(side.e, 5000);
    weir_stream_close(side.stream);
    weir_close(side.w);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
