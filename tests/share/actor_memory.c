/* SPDX-License-Identifier: MIT */
/* actor_memory.c - what an actor does as a neighbour: it fills and empties pools, runs out, and tells its figures. */
#include "config.h"

#include "tests/share/actor.h"

#include <string.h>

#include "include/weir_reserve.h"

static weir_status pool(void)
{
    weir_stats *stats;
    weir_status status = weir_stats_take(actor.w, &actor.error, &stats);
    if (status != WEIR_OK)
        return status;
    status = WEIR_NOT_FOUND;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *figures = weir_stats_pool(stats, i);
        if (strcmp(figures->name, actor.words[1]) != 0 || figures->device != actor.device)
            continue;
        actor_say(" live=%llu cached=%llu idle=%llu reserved=%llu keep=%llu", (unsigned long long)figures->live,
                  (unsigned long long)figures->cached, (unsigned long long)figures->idle, (unsigned long long)figures->reserved,
                  (unsigned long long)figures->keep);
        status = WEIR_OK;
    }
    weir_stats_free(stats);
    return status == WEIR_OK ? status : actor_fail(status, "actor: no pool '%s'", actor.words[1]);
}

static weir_status asks(void)
{
    weir_stats *stats;
    weir_status status = weir_stats_take(actor.w, &actor.error, &stats);
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

static weir_status pool_malloc(void)
{
    weir_pool *from;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &from);
    return status == WEIR_OK ? actor_new_block(actor.words[2], actor_number(actor.words[3]), from) : status;
}

/* Requests that all have to fail for want of memory. */
static weir_status starve(void)
{
    unsigned long before = actor_messages();
    unsigned long long count = actor_number(actor.words[1]);
    for (unsigned long long i = 0; i < count; i++) {
        void *ptr;
        weir_status failure = weir_malloc(actor.w, &ptr, actor_number(actor.words[2]), actor.device, actor.stream);
        if (failure != WEIR_OUT_OF_MEMORY) {
            weir_last_error(&actor.error);
            return actor_fail(failure == WEIR_OK ? WEIR_INVALID : failure, "actor: request %llu ended with %s", i,
                              weir_status_name(failure));
        }
    }
    actor_say(" messages=%lu", actor_messages() - before);
    return WEIR_OK;
}

static weir_status stop_at(void)
{
    actor_stop_at(actor_number(actor.words[1]));
    return WEIR_OK;
}

static weir_status stop_at_give(void)
{
    actor_stop_at_give();
    return WEIR_OK;
}

static weir_reservation *claim;

static weir_status reserve(void)
{
    return weir_reserve(actor.w, actor.device, actor_number(actor.words[1]), (unsigned)actor_number(actor.words[2]), &actor.error, &claim);
}

static weir_status unreserve(void)
{
    weir_reservation_end(claim);
    claim = NULL;
    return WEIR_OK;
}

const struct command actor_memory_commands[] = {
    { "pool", "POOL: its figures", pool },
    { "asks", ": what neighbours asked of each other", asks },
    { "pool_malloc", "POOL NAME BYTES STREAM", pool_malloc },
    { "starve", "COUNT BYTES STREAM: so many requests, none of which can be served", starve },
    { "reserve", "BYTES MS: claims so much of the device, and waits so long for room", reserve },
    { "unreserve", ": ends the last claim", unreserve },
    { "stop_at", "N: stops itself at the N-th message point from now on", stop_at },
    { "stop_at_give", ": stops itself when it is asked to give", stop_at_give },
    { NULL, NULL, NULL },
};
