/* SPDX-License-Identifier: MIT */
/* actor_import.c - what an actor does as an importer. */
#include "config.h"

#include "tests/share/actor.h"

#include <string.h>

#define PATIENCE 60000 /* milliseconds */

static weir_status find(enum kind kind, const char *name, void *thing)
{
    void *found = actor_get(kind, name);
    memcpy(thing, &found, sizeof found);
    return found ? WEIR_OK : actor_fail(WEIR_NOT_FOUND, "actor: no import, reader or lease '%s'", name);
}

static weir_status import_open(char **words)
{
    unsigned timeout = (unsigned)actor_number(words[3]);
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.timeout_ms = timeout ? timeout : PATIENCE;
    options.host_waits = (int)actor_number(words[3] ? words[4] : NULL);
    options.wait_ms = (unsigned)actor_number(words[3] && words[4] ? words[5] : NULL);
    weir_import *i;
    weir_status status = weir_import_open(actor.w, words[2], &options, &actor.error, &i);
    if (status == WEIR_OK)
        actor_set(KIND_IMPORT, words[1], i);
    return status;
}

static weir_status import_close(char **words)
{
    weir_import *i;
    weir_status status = find(KIND_IMPORT, words[1], &i);
    if (status == WEIR_OK) {
        actor_set(KIND_IMPORT, words[1], NULL);
        weir_import_close(i);
    }
    return status;
}

static void describe(const weir_lease *lease)
{
    const weir_lease_info *info = weir_lease_get_info(lease);
    actor_say(" ptr=%p size=%zu sequence=%llu metadata=%.*s", info->ptr, info->size, (unsigned long long)info->sequence,
              (int)info->metadata_size, (const char *)info->metadata);
}

static weir_status acquire(char **words)
{
    weir_import *i;
    weir_lease *lease;
    weir_cuda_stream stream;
    weir_status status = find(KIND_IMPORT, words[1], &i);
    if (status == WEIR_OK)
        status = actor_stream(words[5], &stream);
    if (status == WEIR_OK)
        status = weir_import_acquire(i, words[2], (unsigned)actor_number(words[4]), stream, &actor.error, &lease);
    if (status == WEIR_OK) {
        actor_set(KIND_LEASE, words[3], lease);
        describe(lease);
    }
    return status;
}

static weir_status release(char **words)
{
    weir_lease *lease;
    weir_cuda_stream stream;
    weir_status status = find(KIND_LEASE, words[1], &lease);
    if (status == WEIR_OK)
        status = actor_stream(words[2], &stream);
    if (status != WEIR_OK)
        return status;
    status = weir_lease_release(lease, stream, &actor.error);
    if (status == WEIR_OK) /* else it stays leased */
        actor_set(KIND_LEASE, words[1], NULL);
    return status;
}

static weir_status reader_open(char **words)
{
    weir_import *i;
    weir_reader *reader;
    weir_status status = find(KIND_IMPORT, words[1], &i);
    if (status == WEIR_OK)
        status = weir_reader_open(i, words[3], (unsigned)actor_number(words[4]), &actor.error, &reader);
    if (status == WEIR_OK)
        actor_set(KIND_READER, words[2], reader);
    return status;
}

static weir_status reader_close(char **words)
{
    weir_reader *reader;
    weir_status status = find(KIND_READER, words[1], &reader);
    if (status == WEIR_OK) {
        actor_set(KIND_READER, words[1], NULL);
        weir_reader_close(reader);
    }
    return status;
}

static weir_status next(char **words)
{
    weir_reader *reader;
    weir_lease *lease;
    weir_cuda_stream stream;
    weir_status status = find(KIND_READER, words[1], &reader);
    if (status == WEIR_OK)
        status = actor_stream(words[4], &stream);
    if (status == WEIR_OK)
        status = weir_reader_next(reader, (unsigned)actor_number(words[3]), stream, &actor.error, &lease);
    if (status == WEIR_OK) {
        actor_set(KIND_LEASE, words[2], lease);
        describe(lease);
    }
    return status;
}

/* Reads frames, of which each has to be that of its sequence number, until the ring is closed. */
static weir_status follow(char **words)
{
    weir_reader *reader;
    weir_lease *lease;
    weir_cuda_stream stream;
    unsigned long long frames = 0, last = 0;
    weir_status status = find(KIND_READER, words[1], &reader);
    if (status == WEIR_OK)
        status = actor_stream(words[3], &stream);
    unsigned timeout = (unsigned)actor_number(words[2]);
    while (status == WEIR_OK && (status = weir_reader_next(reader, timeout, stream, &actor.error, &lease)) == WEIR_OK) {
        const weir_lease_info *info = weir_lease_get_info(lease);
        if (info->sequence <= last)
            return actor_fail(WEIR_INVALID, "actor: frame %llu behind %llu", (unsigned long long)info->sequence, last);
        last = info->sequence;
        frames++;
        status = actor_check(info->ptr, info->size, last, stream);
        weir_status released = weir_lease_release(lease, stream, &actor.error);
        status = status == WEIR_OK ? released : status;
    }
    actor_say(" frames=%llu last=%llu", frames, last);
    return status == WEIR_GONE ? WEIR_OK : status;
}

/* Acquires and releases so often. */
static weir_status cycles(char **words)
{
    weir_import *i;
    weir_lease *lease;
    weir_cuda_stream stream;
    weir_status status = find(KIND_IMPORT, words[1], &i);
    if (status == WEIR_OK)
        status = actor_stream(words[4], &stream);
    for (unsigned long long left = actor_number(words[3]); left && status == WEIR_OK; left--) {
        status = weir_import_acquire(i, words[2], 0, stream, &actor.error, &lease);
        if (status == WEIR_OK)
            status = weir_lease_release(lease, stream, &actor.error);
    }
    return status;
}

const struct command actor_import_commands[] = {
    { "import", 2, "IMPORT SOCKET [TIMEOUT [HOST-WAITS]]: 0 is a minute", import_open },
    { "import_close", 1, "IMPORT", import_close },
    { "acquire", 5, "IMPORT NAME LEASE TIMEOUT STREAM", acquire },
    { "release", 2, "LEASE STREAM", release },
    { "reader", 4, "IMPORT READER RING LEASES", reader_open },
    { "reader_close", 1, "READER", reader_close },
    { "next", 4, "READER LEASE TIMEOUT STREAM", next },
    { "follow", 3, "READER TIMEOUT STREAM: reads and checks frames until the ring is closed", follow },
    { "cycles", 4, "IMPORT NAME COUNT STREAM: acquires and releases", cycles },
    { NULL, 0, NULL, NULL },
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
