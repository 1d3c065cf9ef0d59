/* SPDX-License-Identifier: MIT */
/* actor_memory.c - what an actor does as a neighbour: it fills and empties pools, runs out, and tells its figures. */
#include "config.h"

#include "tests/share/actor.h"

#include <stdlib.h>
#include <string.h>

static weir_status take_stats(weir_stats **stats)
{
    return weir_stats_take(actor.w, &actor.error, stats);
}

static weir_status pool(char **words)
{
    weir_stats *stats;
    weir_status status = take_stats(&stats);
    if (status != WEIR_OK)
        return status;
    status = WEIR_NOT_FOUND;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *figures = weir_stats_pool(stats, i);
        if (strcmp(figures->name, words[1]) != 0 || figures->device != actor.device)
            continue;
        actor_say(" live=%llu cached=%llu idle=%llu reserved=%llu keep=%llu", (unsigned long long)figures->live,
                  (unsigned long long)figures->cached, (unsigned long long)figures->idle, (unsigned long long)figures->reserved,
                  (unsigned long long)figures->keep);
        status = WEIR_OK;
    }
    weir_stats_free(stats);
    return status == WEIR_OK ? status : actor_fail(status, "actor: no pool '%s'", words[1]);
}

static weir_status asks(char **words)
{
    (void)words;
    weir_stats *stats;
    weir_status status = take_stats(&stats);
    if (status != WEIR_OK)
        return status;
    for (size_t i = 0; i < weir_stats_device_count(stats); i++) {
        const weir_device_stats *figures = weir_stats_device(stats, i);
        if (figures->device == actor.device)
            actor_say(" rescued=%llu sent=%llu got=%llu received=%llu given=%llu",
                      (unsigned long long)figures->rescues[WEIR_RUNG_NEIGHBOURS], (unsigned long long)figures->asks_sent,
                      (unsigned long long)figures->bytes_got, (unsigned long long)figures->asks_received,
                      (unsigned long long)figures->bytes_given);
    }
    weir_stats_free(stats);
    return WEIR_OK;
}

static weir_status pool_malloc(char **words)
{
    struct block *block = calloc(1, sizeof *block);
    weir_pool *from;
    weir_cuda_stream stream;
    weir_status status = actor_stream(words[4], &stream);
    if (status == WEIR_OK)
        status = weir_pool_get(actor.w, words[1], actor.device, &actor.error, &from);
    if (!block || status != WEIR_OK) {
        free(block);
        return status;
    }
    block->size = actor_number(words[3]);
    status = weir_pool_malloc(from, &block->ptr, block->size, stream);
    if (status != WEIR_OK) {
        weir_last_error(&actor.error);
        free(block);
        return status;
    }
    actor_set(KIND_BLOCK, words[2], block);
    return WEIR_OK;
}

/* Requests that all have to fail for want of memory. */
static weir_status starve(char **words)
{
    weir_cuda_stream stream;
    unsigned long before = actor_messages();
    unsigned long long count = actor_number(words[1]);
    weir_status status = actor_stream(words[3], &stream);
    for (unsigned long long i = 0; i < count && status == WEIR_OK; i++) {
        void *ptr;
        weir_status failure = weir_malloc(actor.w, &ptr, actor_number(words[2]), actor.device, stream);
        if (failure != WEIR_OUT_OF_MEMORY) {
            weir_last_error(&actor.error);
            return actor_fail(failure == WEIR_OK ? WEIR_INVALID : failure, "actor: request %llu ended with %s", i,
                              weir_status_name(failure));
        }
    }
    actor_say(" messages=%lu", actor_messages() - before);
    return status;
}

static weir_status stop_at(char **words)
{
    actor_stop_at(actor_number(words[1]));
    return WEIR_OK;
}

static weir_status stop_at_give(char **words)
{
    (void)words;
    actor_stop_at_give();
    return WEIR_OK;
}

const struct command actor_memory_commands[] = {
    { "pool", 1, "POOL: its figures", pool },
    { "asks", 0, "what neighbours asked of each other", asks },
    { "pool_malloc", 4, "POOL BLOCK BYTES STREAM", pool_malloc },
    { "starve", 3, "COUNT BYTES STREAM: so many requests, none of which can be served", starve },
    { "stop_at", 1, "N: stops itself at the N-th message point from now on", stop_at },
    { "stop_at_give", 0, "stops itself when it is asked to give", stop_at_give },
    { NULL, 0, NULL, NULL },
};
