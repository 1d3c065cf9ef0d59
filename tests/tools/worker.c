/* SPDX-License-Identifier: MIT */
/*
 * worker.c - a program with pools that does what standard input says, line by line, and answers each line with the status of what it did,
 * by name. For tests of the command in which a process holds what the test wants it to hold.
 *
 *     worker group COMMAND [ARGUMENT...]
 *     worker    malloc MIB, free, private, tag NAME, untag, open, close, json FILE, yield, sleep, wake, quit
 *
 * "malloc" takes a block of the default pool, "free" gives all of them back, "private" opens one more stream with a pool of its own, "tag"
 * names what is taken from then on until "untag", "open" opens a second weir and "close" closes it. "json" writes
 * what weir_stats_json() says of the first one. "yield", "sleep" and "wake" do that with the pool of the first stream. "group" becomes the command, in a process group of its own: shells make one with `set -m`, for
 * which some want a terminal.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/weir_sleep.h"

enum { BLOCKS_MAX = 16, STREAMS_MAX = 16 };

struct worker {
    weir *w, *second;
    weir_stream *streams[STREAMS_MAX]; /* the first one is that of the blocks */
    size_t stream_count;
    void *blocks[BLOCKS_MAX];
    size_t block_count;
};

typedef weir_status command(struct worker *worker, const char *argument, weir_error *error);

static weir_status take(struct worker *worker, const char *argument, weir_error *error)
{
    (void)error;
    if (worker->block_count == BLOCKS_MAX)
        return WEIR_BUSY;
    weir_status status = weir_stream_malloc(worker->streams[0], &worker->blocks[worker->block_count], strtoul(argument, NULL, 10) << 20);
    worker->block_count += status == WEIR_OK;
    return status;
}

static weir_status give_back(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument, (void)error;
    weir_status status = WEIR_OK;
    while (worker->block_count > 0 && status == WEIR_OK)
        status = weir_stream_free(worker->streams[0], worker->blocks[--worker->block_count]);
    return status;
}

static weir_status open_stream(struct worker *worker, const char *name, weir_error *error)
{
    if (worker->stream_count == STREAMS_MAX)
        return WEIR_BUSY;
    weir_status status = weir_stream_create(worker->w, 0, name, error, &worker->streams[worker->stream_count]);
    worker->stream_count += status == WEIR_OK;
    return status;
}

static weir_status open_private(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument;
    return open_stream(worker, "own", error);
}

static weir_status push_tag(struct worker *worker, const char *argument, weir_error *error)
{
    (void)error;
    return weir_tag_push(worker->w, argument);
}

static weir_status pop_tag(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument, (void)error;
    return weir_tag_pop(worker->w, NULL);
}

static weir_status open_second(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument;
    return weir_open(NULL, error, &worker->second);
}

static weir_status close_second(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument, (void)error;
    weir_close(worker->second);
    worker->second = NULL;
    return WEIR_OK;
}

static weir_status write_json(struct worker *worker, const char *file, weir_error *error)
{
    weir_stats *stats;
    weir_status status = weir_stats_take(worker->w, error, &stats);
    if (status != WEIR_OK)
        return status;
    size_t size = weir_stats_json(stats, NULL, 0) + 1;
    char *json = malloc(size);
    FILE *out = fopen(file, "w");
    bool good = json && out && weir_stats_json(stats, json, size) == size - 1 && fputs(json, out) >= 0;
    good = out && fclose(out) == 0 && good;
    free(json);
    weir_stats_free(stats);
    return good ? WEIR_OK : WEIR_UNREADABLE;
}

static weir_status yield(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument;
    return weir_pool_yield(weir_stream_pool(worker->streams[0]), 0, error);
}

static weir_status put_to_sleep(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument;
    return weir_pool_sleep(weir_stream_pool(worker->streams[0]), 0, 10000, error, NULL);
}

static weir_status wake(struct worker *worker, const char *argument, weir_error *error)
{
    (void)argument;
    return weir_pool_wake(weir_stream_pool(worker->streams[0]), 0, error, NULL);
}

static const struct {
    const char *name;
    command *run;
} commands[] = {
    { "malloc", take },   { "free", give_back },   { "private", open_private }, { "tag", push_tag },
    { "untag", pop_tag }, { "open", open_second }, { "close", close_second }, { "json", write_json },
    { "yield", yield },   { "sleep", put_to_sleep }, { "wake", wake },
};

static void answer(weir_status status, const weir_error *error)
{
    puts(weir_status_name(status));
    fflush(stdout);
    if (status != WEIR_OK)
        fprintf(stderr, "%s\n", error->text);
}

static void obey(struct worker *worker, const char *name, const char *argument)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = WEIR_INVALID;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            status = commands[i].run(worker, argument, &error);
    answer(status, &error);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "group") == 0)
        return setpgid(0, 0) == 0 && execvp(argv[2], argv + 2) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    struct worker worker = { 0 };
    weir_error error = WEIR_ERROR_INIT;
    char line[128], name[64], argument[64];
    weir_status status = weir_open(NULL, &error, &worker.w);
    if (status == WEIR_OK)
        status = open_stream(&worker, NULL, &error);
    answer(status, &error);
    while (status == WEIR_OK && fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
        argument[0] = '\0';
        if (sscanf(line, "%63s %63s", name, argument) >= 1)
            obey(&worker, name, argument);
    }
    weir_close(worker.second);
    while (worker.stream_count > 0)
        weir_stream_close(worker.streams[--worker.stream_count]);
    weir_close(worker.w);
    return status == WEIR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
