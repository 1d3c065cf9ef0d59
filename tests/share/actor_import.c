/* SPDX-License-Identifier: MIT */
/* actor_import.c - what an actor does as an importer. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "tests/share/actor.h"

#define PATIENCE 60000 /* milliseconds */

static weir_status import_open(void)
{
    unsigned timeout = (unsigned)actor_number(actor.words[3]);
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.timeout_ms = timeout ? timeout : PATIENCE;
    options.host_waits = (int)actor_number(actor.words[3] ? actor.words[4] : NULL);
    options.wait_ms = (unsigned)actor_number(actor.words[3] && actor.words[4] ? actor.words[5] : NULL);
    weir_import *i;
    weir_status status = weir_import_open(actor.w, actor.words[2], &options, &actor.error, &i);
    if (status == WEIR_OK)
        actor_set(KIND_IMPORT, actor.words[1], i);
    return status;
}

static weir_status import_close(void)
{
    actor_set(KIND_IMPORT, actor.words[1], NULL);
    weir_import_close(actor.thing);
    return WEIR_OK;
}

static weir_status keep_lease(weir_status status, const char *name, weir_lease *lease)
{
    if (status != WEIR_OK)
        return status;
    const weir_lease_info *info = weir_lease_get_info(lease);
    actor_set(KIND_LEASE, name, lease);
    actor_say(" ptr=%p generation=%llu size=%zu sequence=%llu metadata=%.*s", info->ptr, (unsigned long long)info->generation,
              info->size, (unsigned long long)info->sequence, (int)info->metadata_size, (const char *)info->metadata);
    return WEIR_OK;
}

static weir_status acquire(void)
{
    unsigned timeout = (unsigned)actor_number(actor.words[4]);
    weir_lease *lease = NULL;
    weir_status status = weir_import_acquire(actor.thing, actor.words[2], timeout, actor.stream, &actor.error, &lease);
    return keep_lease(status, actor.words[3], lease);
}

static weir_status release(void)
{
    weir_status status = weir_lease_release(actor.thing, actor.stream, &actor.error);
    if (status == WEIR_OK) /* else it stays leased */
        actor_set(KIND_LEASE, actor.words[1], NULL);
    return status;
}

static weir_status reader_open(void)
{
    weir_reader *reader;
    weir_status status = weir_reader_open(actor.thing, actor.words[3], (unsigned)actor_number(actor.words[4]), &actor.error, &reader);
    if (status == WEIR_OK)
        actor_set(KIND_READER, actor.words[2], reader);
    return status;
}

static weir_status reader_close(void)
{
    actor_set(KIND_READER, actor.words[1], NULL);
    weir_reader_close(actor.thing);
    return WEIR_OK;
}

static weir_status next(void)
{
    unsigned timeout = (unsigned)actor_number(actor.words[3]);
    weir_lease *lease = NULL;
    weir_status status = weir_reader_next(actor.thing, timeout, actor.stream, &actor.error, &lease);
    return keep_lease(status, actor.words[2], lease);
}

/* Waits by the reader's descriptor alone. */
static weir_status poll_reader(void)
{
    struct pollfd ready = { .fd = weir_reader_fd(actor.thing), .events = POLLIN };
    if (ready.fd < 0 || poll(&ready, 1, (int)actor_number(actor.words[2])) < 0)
        return actor_fail(WEIR_INVALID, "actor: descriptor %d cannot be polled", ready.fd);
    actor_say(" readable=%d flags=%d,%d", ready.revents == POLLIN, fcntl(ready.fd, F_GETFD), fcntl(ready.fd, F_GETFL) & O_NONBLOCK);
    return WEIR_OK;
}

/* Reads frames, of which each has to be that of its sequence number, until the ring has ended. */
static weir_status follow(void)
{
    weir_lease *lease;
    unsigned long long frames = 0, last = 0;
    unsigned timeout = (unsigned)actor_number(actor.words[2]);
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && (status = weir_reader_next(actor.thing, timeout, actor.stream, &actor.error, &lease)) == WEIR_OK) {
        const weir_lease_info *info = weir_lease_get_info(lease);
        if (info->sequence <= last)
            return actor_fail(WEIR_INVALID, "actor: frame %llu behind %llu", (unsigned long long)info->sequence, last);
        last = info->sequence;
        frames++;
        status = actor_check(info->ptr, info->size, last, actor.stream);
        weir_status released = weir_lease_release(lease, actor.stream, &actor.error);
        status = status == WEIR_OK ? released : status;
    }
    actor_say(" frames=%llu last=%llu", frames, last);
    return status == WEIR_ENDED || status == WEIR_GONE ? WEIR_OK : status;
}

/* What pursue() has seen. */
struct pursuit {
    uint64_t generation, last;
    unsigned long long round, frames, missed;
    bool was_told; /* that the ring before has ended */
};

/* The metadata of a frame is the number of its ring, which rises from ring to ring, and its contents are of that number. */
static weir_status judge_frame(struct pursuit *seen, const weir_lease_info *info)
{
    unsigned long long round = strtoull(info->metadata, NULL, 10);
    bool is_another = info->generation != seen->generation;
    if (is_another ? round <= seen->round || !seen->was_told : round != seen->round || info->sequence <= seen->last)
        return actor_fail(WEIR_INVALID, "actor: frame %llu of ring %llu, behind %llu of %llu; told of the end: %d",
                          (unsigned long long)info->sequence, round, (unsigned long long)seen->last, seen->round, seen->was_told);
    seen->missed += is_another && seen->frames && round > seen->round + 1;
    seen->frames++;
    seen->generation = info->generation;
    seen->last = info->sequence;
    seen->round = round;
    seen->was_told = false;
    return actor_check(info->ptr, info->size, round, actor.stream);
}

static bool goes_on(weir_status status)
{
    return status == WEIR_TIMEOUT || status == WEIR_ENDED || status == WEIR_GONE || status == WEIR_NOT_FOUND;
}

/* Reads on, whatever becomes of the producer, until the first frame of that ring. */
static weir_status pursue(void)
{
    weir_lease *lease;
    struct pursuit seen = { .was_told = true };
    unsigned long long wanted = actor_number(actor.words[2]);
    weir_status status = WEIR_OK;
    while (seen.round < wanted && status == WEIR_OK) {
        weir_error_clear(&actor.error);
        status = weir_reader_next(actor.thing, 100, actor.stream, &actor.error, &lease);
        if (goes_on(status)) {
            seen.was_told = seen.was_told || status == WEIR_ENDED || status == WEIR_GONE;
            if (status != WEIR_TIMEOUT)
                actor.gpu->pause(1000000);
            status = WEIR_OK;
            continue;
        }
        if (status == WEIR_OK)
            status = judge_frame(&seen, weir_lease_get_info(lease));
        weir_status released = weir_lease_release(lease, actor.stream, &actor.error);
        status = status == WEIR_OK ? released : status;
    }
    actor_say(" frames=%llu missed=%llu", seen.frames, seen.missed);
    return status;
}

/* Acquires and releases so often. */
static weir_status cycles(void)
{
    weir_lease *lease;
    weir_status status = WEIR_OK;
    for (unsigned long long left = actor_number(actor.words[3]); left && status == WEIR_OK; left--) {
        status = weir_import_acquire(actor.thing, actor.words[2], 0, actor.stream, &actor.error, &lease);
        if (status == WEIR_OK)
            status = weir_lease_release(lease, actor.stream, &actor.error);
    }
    return status;
}

const struct command actor_import_commands[] = {
    { "import", "NAME SOCKET [TIMEOUT [HOST-WAITS [WAIT]]]: 0 is a minute", import_open },
    { "import_close", "IMPORT", import_close },
    { "acquire", "IMPORT NAME LEASE TIMEOUT STREAM", acquire },
    { "release", "LEASE STREAM", release },
    { "reader", "IMPORT READER RING LEASES", reader_open },
    { "reader_close", "READER", reader_close },
    { "next", "READER LEASE TIMEOUT STREAM", next },
    { "poll", "READER TIMEOUT: by its descriptor", poll_reader },
    { "follow", "READER TIMEOUT STREAM: reads and checks frames until the ring has ended", follow },
    { "pursue", "READER RING-NUMBER STREAM: reads and checks frames of rings one after the other", pursue },
    { "cycles", "IMPORT NAME COUNT STREAM: acquires and releases", cycles },
    { NULL, NULL, NULL },
};

void actor_import_end(bool release_leases)
{
    const char *name;
    while ((name = actor_next(KIND_LEASE))) {
        if (release_leases)
            weir_lease_release(actor_get(KIND_LEASE, name), NULL, NULL);
        actor_set(KIND_LEASE, name, NULL);
    }
    while ((name = actor_next(KIND_READER)))
        actor_set(KIND_READER, name, NULL);
    while ((name = actor_next(KIND_IMPORT)))
        actor_set(KIND_IMPORT, name, NULL);
}
