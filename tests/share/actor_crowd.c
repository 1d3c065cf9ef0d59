/* SPDX-License-Identifier: MIT */
/* actor_crowd.c - an actor as several threads, which all want something of the same import or export at once. */
#include "config.h"

#include "tests/share/actor.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS_MAX 8
#define BYTES 65536

struct member {
    pthread_t thread;
    unsigned number;
    unsigned long long count; /* rounds */
    const char *name;
    weir_import *i;
    weir_reader *reader;
    weir_stream *s;
    unsigned long long served;
    weir_status status;
    weir_error error;
};

/* Every third waits for a name that never comes, so that some wait while others are answered. */
static void *acquire_often(void *data)
{
    struct member *member = data;
    weir_cuda_stream stream = weir_stream_handle(member->s);
    while (member->count-- && member->status == WEIR_OK) {
        weir_lease *lease;
        bool in_vain = member->number % 3 == 2;
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = weir_import_acquire(member->i, in_vain ? "nothing" : member->name, in_vain ? 1 : 0, stream, &error, &lease);
        if (status == WEIR_OK) {
            member->served++;
            status = weir_lease_release(lease, stream, &error);
        }
        /* WEIR_BUSY: the exporter is gone, and another thread still has a lease of it, which it is about to release. */
        if (status == (in_vain ? WEIR_TIMEOUT : WEIR_NOT_FOUND) || status == WEIR_BUSY)
            status = WEIR_OK;
        member->status = status;
        member->error = error;
    }
    return NULL;
}

static void *publish_often(void *data)
{
    struct member *member = data;
    weir_cuda_stream stream = weir_stream_handle(member->s);
    char name[64];
    snprintf(name, sizeof name, "%s%u", member->name, member->number);
    while (member->count-- && member->status == WEIR_OK) {
        void *ptr;
        member->status = weir_stream_malloc(member->s, &ptr, BYTES);
        if (member->status == WEIR_OK)
            member->status = weir_export_publish(actor.e, name, ptr, 0, NULL, 0, stream, &member->error);
        if (member->status == WEIR_OK)
            member->status = weir_export_withdraw(actor.e, name, &member->error);
        member->served += member->status == WEIR_OK;
    }
    return NULL;
}

/* The first has no time for what is not ready; the others have all. */
static void *read_one(void *data)
{
    struct member *member = data;
    weir_cuda_stream stream = weir_stream_handle(member->s);
    weir_lease *lease;
    member->status = weir_reader_next(member->reader, member->number ? 600000 : (unsigned)member->count, stream, &member->error, &lease);
    if (member->status == WEIR_OK)
        member->status = weir_lease_release(lease, stream, &member->error);
    member->served += member->status == WEIR_OK;
    if (member->number == 0 && member->status == WEIR_TIMEOUT)
        member->status = WEIR_OK;
    return NULL;
}

/* Each writes to a ring of its own: NAME0, NAME1, … */
static void *write_often(void *data)
{
    struct member *member = data;
    char name[64];
    snprintf(name, sizeof name, "%s%u", member->name, member->number);
    weir_ring *ring = actor_get(KIND_RING, name);
    for (unsigned long long n = 1; n <= member->count && ring && member->status == WEIR_OK; n++) {
        member->status = actor_write_frame(ring, n, BYTES, 0, weir_stream_handle(member->s));
        member->served += member->status == WEIR_OK;
    }
    return NULL;
}

/* Runs so many of them, each with its own stream, to their end; fails as the first of them did. */
static weir_status run(void *(*live)(void *data), const struct member *pattern, unsigned count)
{
    struct member members[THREADS_MAX];
    unsigned started = 0;
    unsigned long long served = 0;
    weir_status status = WEIR_OK;
    for (; started < count && started < THREADS_MAX && status == WEIR_OK; started++) {
        struct member *member = &members[started];
        *member = *pattern;
        member->number = started;
        status = weir_stream_create(actor.w, actor.device, NULL, &actor.error, &member->s);
        if (status != WEIR_OK)
            break;
        if (pthread_create(&member->thread, NULL, live, member) != 0) {
            weir_stream_close(member->s);
            status = actor_fail(WEIR_NO_HOST_MEMORY, "actor: no thread");
            break;
        }
    }
    for (unsigned t = 0; t < started; t++) {
        pthread_join(members[t].thread, NULL);
        weir_stream_close(members[t].s);
        served += members[t].served;
        if (status == WEIR_OK && members[t].status != WEIR_OK)
            status = actor_fail(members[t].status, "%s", members[t].error.text);
    }
    actor_say(" served=%llu", served);
    return status;
}

static weir_status acquirers(void)
{
    struct member pattern = { .name = actor.words[2], .count = actor_number(actor.words[4]), .i = actor.thing };
    return run(acquire_often, &pattern, (unsigned)actor_number(actor.words[3]));
}

static weir_status readers(void)
{
    struct member pattern = { .count = actor_number(actor.words[2]), .reader = actor.thing };
    return run(read_one, &pattern, 2);
}

static weir_status publishers(void)
{
    struct member pattern = { .name = actor.words[1], .count = actor_number(actor.words[3]) };
    return run(publish_often, &pattern, (unsigned)actor_number(actor.words[2]));
}

static weir_status writers(void)
{
    struct member pattern = { .name = actor.words[1], .count = actor_number(actor.words[3]) };
    return run(write_often, &pattern, (unsigned)actor_number(actor.words[2]));
}

const struct command actor_crowd_commands[] = {
    { "acquirers", "IMPORT NAME THREADS ROUNDS: lease and release, or wait in vain", acquirers },
    { "readers_of", "READER TIMEOUT: two threads want a frame, one of them not for long", readers },
    { "publishers", "NAME THREADS ROUNDS: publish and withdraw NAME0, NAME1, …", publishers },
    { "writers", "NAME THREADS FRAMES: write frames to the rings NAME0, NAME1, …", writers },
    { NULL, NULL, NULL },
};
