/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/request.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "lib/base/user.h"
#include "share/export/ring.h"

#define CLIENT_READERS_MAX 64
#define DEFERRED_MAX (WIRE_LEASES_MAX + CLIENT_READERS_MAX)
#define MAKE_MAX 8 /* leases made in one run, so that other jobs get a turn */

/* Answers -------------------------------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static enum share_io refuse(struct share_client *client, uint32_t request, weir_status status,
                                                                  const char *format, ...)
{
    char text[2 * WIRE_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct wire_message message = share_refusal_of(WIRE_REFUSED, request, status, text);
    return share_client_answer(client, &message, -1);
}

static enum share_io done(struct share_client *client, uint32_t request)
{
    struct wire_message message = { .type = WIRE_DONE, .request = request };
    return share_client_answer(client, &message, -1);
}

enum share_io share_request_welcome(struct share_client *client)
{
    weir_export *e = client->e;
    struct wire_message message = { .type = WIRE_WELCOME, .request = client->greeting };
    message.u.welcome.epoch = e->epoch;
    message.u.welcome.pid = getpid();
    snprintf(message.u.welcome.pool, sizeof message.u.welcome.pool, "%s", e->pool->name);
    snprintf(message.u.welcome.uuid, sizeof message.u.welcome.uuid, "%s", e->pool->device->info.uuid);
    bool is_importer = client->state == SHARE_CLIENT_IMPORTER;
    enum share_io io = share_client_answer(client, &message, is_importer ? e->pool_fd : -1);
    if (io == SHARE_DONE && is_importer)
        client->has_pool = true;
    return io;
}

/* The requests, one function each; the caller holds e->lock ---------------------------------------------------------------------------- */

/* Forgets the former client of a process that has called exec() and connects again. The exec() closed its descriptors, those of the GPU
   too, so the process maps nothing of the export any more. */
static void forget_former_program(weir_export *e, const struct share_process *process)
{
    for (struct share_client *client = e->clients; client; client = client->next)
        if (client->has_pool && client->process.pid == process->pid && share_process_lost_memory(&client->process))
            share_client_forget(client);
}

/* Counts the importers. *same gets the importer that belongs to `process`, if it is alive, or NULL. Evicted importers count, since they
   may still have the pool. */
static unsigned count_importers(const weir_export *e, const struct share_process *process, const struct share_client **same)
{
    unsigned count = 0;
    *same = NULL;
    for (const struct share_client *client = e->clients; client; client = client->next) {
        struct pollfd death = { .fd = client->process.pidfd, .events = POLLIN };
        if (!client->has_pool && client->state != SHARE_CLIENT_HELD)
            continue;
        count++;
        if (client->process.pid == process->pid && poll(&death, 1, 0) == 0)
            *same = client;
    }
    return count;
}

static void check_importer(const struct share_client *client, weir_error *error)
{
    weir_export *e = client->e;
    const struct share_client *same;
    forget_former_program(e, &client->process);
    unsigned count = count_importers(e, &client->process, &same);
    if (e->is_closing)
        weir__fail(error, WEIR_GONE, "pool '%s' is shared no more", e->pool->name);
    else if (client->process.pid == getpid())
        weir__fail(error, WEIR_INVALID, "this process exports the pool itself: use the blocks at their own addresses");
    else if (same)
        weir__fail(error, WEIR_BUSY, "process %d imports this pool already, or was evicted: one import for each process, as a block must not be "
                   "imported twice%s",
                   (int)client->process.pid,
                   same->process.memory_fd >= 0 ? "" : "; an exec by it could not be seen from here: end it, and start it as a new process");
    else if (count >= e->max_importers)
        weir__fail(error, WEIR_REFUSED, "the pool has %llu importers, as many as are allowed: raise pools.%s.share.max_importers",
                   (unsigned long long)e->max_importers, e->pool->name);
}

static enum share_io hello(struct share_client *client, const struct wire_message *message)
{
    bool is_observer = message->u.hello.role == WIRE_ROLE_OBSERVER;
    weir_error error = WEIR_ERROR_INIT;
    snprintf(client->name, sizeof client->name, "%s", message->u.hello.name);
    if (!is_observer)
        check_importer(client, &error);
    else if (!weir__is_self_or_root(client->process.uid))
        weir__fail(&error, WEIR_REFUSED, "only root and the exporter's user may look, and evict, not user %u%s", (unsigned)client->process.uid,
                   weir__user_note(client->process.uid));
    if (error.status != WEIR_OK) {
        client->said_farewell = true; /* the connection is closed after this answer */
        return refuse(client, message->request, error.status, "%s", error.text);
    }
    if (!is_observer)
        share_process_watch_memory(&client->process);
    client->state = is_observer ? SHARE_CLIENT_OBSERVER : client->e->retire_until ? SHARE_CLIENT_HELD : SHARE_CLIENT_IMPORTER;
    client->greeting = message->request;
    return client->state == SHARE_CLIENT_HELD ? SHARE_DONE : share_request_welcome(client);
}

/* Whether the client can get more leases: the service thread can make some, or releases are about to complete. */
static bool can_have_more(const struct share_client *client)
{
    return client->lease_count < WIRE_LEASES_MAX || client->releasing;
}

/* How many leases the client lacks for the request; 0: it can be served. */
static unsigned missing(const struct share_client *client, const struct share_asked *asked)
{
    const weir_ring *ring = asked->type == WIRE_SUBSCRIBE ? share_ring_find(client->e, asked->name) : NULL;
    unsigned wanted = asked->type == WIRE_ACQUIRE, spare = share_leases_spare(client);
    if (ring)
        wanted = share_reader_leases(ring, share_reader_limit(ring, asked->argument));
    return wanted > spare ? wanted - spare : 0;
}

static bool defer(struct share_client *client, const struct share_asked *asked)
{
    struct share_wait *wait = client->deferred_count < DEFERRED_MAX ? calloc(1, sizeof *wait) : NULL;
    if (!wait)
        return false;
    wait->asked = *asked;
    WEIR__APPEND(client->deferred, wait, next);
    client->deferred_count++;
    weir__service_wake(&client->e->job, 0);
    return true;
}

static enum share_io wait_for_name(struct share_client *client, const struct share_asked *asked, struct share_lease *lease)
{
    struct share_wait *wait = client->wait_count < SHARE_WAITS_MAX ? calloc(1, sizeof *wait) : NULL;
    if (!wait)
        return refuse(client, asked->request, WEIR_BUSY, "%u requests wait already: at most %d can", client->wait_count, SHARE_WAITS_MAX);
    *wait = (struct share_wait){ .next = client->waits, .asked = *asked, .lease = lease };
    client->waits = wait;
    client->wait_count++;
    lease->state = SHARE_LEASE_WANTED;
    return SHARE_DONE;
}

static enum share_io acquire_now(struct share_client *client, const struct share_asked *asked)
{
    struct share_block *block = share_block_find(client->e, asked->name);
    struct share_lease *lease = share_lease_spare(client);
    if (client->is_asked)
        return SHARE_DONE; /* the request crossed RETIRE: the importer asks again on its next connection */
    if (!lease)
        return refuse(client, asked->request, WEIR_BUSY,
                      "all %d leases that a process may have of one pool are in use: release some, lay what belongs together into one block, or "
                      "publish a part of the blocks from a second pool with a share.socket of its own",
                      WIRE_LEASES_MAX);
    /* If the socket is full of frames, the request waits although its block is published. */
    if (block ? client->connection.is_blocked : asked->argument & WIRE_WAIT)
        return wait_for_name(client, asked, lease);
    if (!block)
        return refuse(client, asked->request, WEIR_NOT_FOUND, "no block '%s' is published", asked->name);
    enum share_io io = share_client_grant(client, block, lease, asked->request);
    return io == SHARE_AGAIN ? wait_for_name(client, asked, lease) : io;
}

static enum share_io subscribe_now(struct share_client *client, const struct share_asked *asked)
{
    weir_ring *ring = share_ring_find(client->e, asked->name);
    unsigned readers = 0;
    for (const struct share_reader *reader = client->readers; reader; reader = reader->next)
        readers++;
    if (client->is_asked)
        return SHARE_DONE;
    if (!ring)
        return refuse(client, asked->request, WEIR_NOT_FOUND, "no ring '%s' is published", asked->name);
    unsigned limit = share_reader_limit(ring, asked->argument);
    struct share_reader *reader = readers < CLIENT_READERS_MAX ? calloc(1, sizeof *reader) : NULL;
    if (reader)
        reader->limit = limit;
    if (!reader || share_leases_assign(client, reader, share_reader_leases(ring, limit)) < limit || !share_ring_join(ring, reader)) {
        share_leases_unassign(client, reader);
        free(reader);
        return refuse(client, asked->request, WEIR_BUSY, "ring '%s' takes no more readers, or this importer can have no more leases",
                      ring->name);
    }
    reader->client = client;
    reader->number = ++client->last_reader;
    reader->next = client->readers;
    client->readers = reader;
    struct wire_message subscribed = { .type = WIRE_SUBSCRIBED, .request = asked->request };
    subscribed.u.subscribed.ring = reader->number;
    subscribed.u.subscribed.depth = ring->depth;
    subscribed.u.subscribed.leases = limit;
    subscribed.u.subscribed.slot_size = ring->slot_size;
    enum share_io io = share_client_answer(client, &subscribed, -1);
    if (io == SHARE_DONE)
        share_ring_feed(reader); /* if the ring has a newest frame, its LEASE follows the answer */
    return io;
}

static enum share_io serve_now(struct share_client *client, const struct share_asked *asked)
{
    return asked->type == WIRE_ACQUIRE ? acquire_now(client, asked) : subscribe_now(client, asked);
}

static enum share_io ask_for_leases(struct share_client *client, const struct wire_message *message)
{
    bool is_acquire = message->type == WIRE_ACQUIRE;
    struct share_asked asked = { .type = message->type, .request = message->request };
    asked.argument = is_acquire ? message->u.acquire.flags : message->u.subscribe.leases;
    memcpy(asked.name, is_acquire ? message->u.acquire.name : message->u.subscribe.name, sizeof asked.name);
    bool waits = !client->is_asked && missing(client, &asked) && can_have_more(client);
    return waits && defer(client, &asked) ? SHARE_DONE : serve_now(client, &asked);
}

static enum share_io unsubscribe(struct share_client *client, const struct wire_message *message)
{
    struct share_reader *reader = client->readers;
    while (reader && reader->number != message->u.unsubscribe.ring)
        reader = reader->next;
    if (reader)
        share_reader_leave(client, reader);
    return done(client, message->request);
}

static enum share_io release(struct share_client *client, const struct wire_message *message)
{
    struct share_lease *lease =
        message->u.release.lease < client->lease_count ? client->leases[message->u.release.lease] : NULL;
    if (!lease || lease->state != SHARE_LEASE_HELD)
        return SHARE_BROKEN;
    if (message->u.release.how == WIRE_HOW_DONE)
        share_lease_end(client, lease);
    else
        share_lease_await(client, lease);
    return SHARE_DONE;
}

static enum share_io unmapped(struct share_client *client, const struct wire_message *message)
{
    struct share_mapping *mapping = client->mappings;
    while (mapping && mapping->block->id != message->u.block.block)
        mapping = mapping->next_of_client;
    /* If a LEASE crossed this message, the importer maps the block again: it will release the lease, and unmap the block once more. */
    if (mapping && !mapping->leases)
        share_mapping_end(client, mapping);
    return SHARE_DONE;
}

static enum share_io retired(struct share_client *client, const struct wire_message *message)
{
    if (message->u.epoch.epoch != client->e->epoch)
        return SHARE_BROKEN;
    client->said_farewell = true;
    return SHARE_DONE;
}

static enum share_io goodbye(struct share_client *client, const struct wire_message *message)
{
    (void)message;
    client->said_farewell = true;
    return SHARE_DONE;
}

static enum share_io cancel(struct share_client *client, const struct wire_message *message)
{
    struct share_wait *wait = client->waits;
    while (wait && wait->asked.request != message->request)
        wait = wait->next;
    if (!wait)
        wait = client->deferred;
    while (wait && (wait->asked.request != message->request || wait->asked.type != WIRE_ACQUIRE))
        wait = wait->next;
    if (!wait)
        return SHARE_DONE; /* the ACQUIRE was answered already */
    share_wait_end(client, wait);
    return refuse(client, message->request, WEIR_TIMEOUT, "it was not published in time");
}

static enum share_io list(struct share_client *client, const struct wire_message *message)
{
    if (client->connection.outbox.len || !share_census_take(client, message))
        return SHARE_BROKEN;
    share_client_flush(client);
    return SHARE_DONE;
}

static enum share_io evict(struct share_client *client, const struct wire_message *message)
{
    if (!share_clients_evict(client->e, message->u.evict.pid))
        return refuse(client, message->request, WEIR_NOT_FOUND, "process %d is no importer of this pool", (int)message->u.evict.pid);
    return done(client, message->request);
}

/* The states that allow a request ----------------------------------------------------------------------------------------------------- */

#define IN(state) (1u << (state))

static const struct {
    unsigned states; /* states of the client in which it may send this request */
    enum share_io (*serve)(struct share_client *client, const struct wire_message *message);
} requests[] = {
    [WIRE_HELLO] = { IN(SHARE_CLIENT_GREETING), hello },
    [WIRE_ACQUIRE] = { IN(SHARE_CLIENT_IMPORTER), ask_for_leases },
    [WIRE_SUBSCRIBE] = { IN(SHARE_CLIENT_IMPORTER), ask_for_leases },
    [WIRE_UNSUBSCRIBE] = { IN(SHARE_CLIENT_IMPORTER), unsubscribe },
    [WIRE_RELEASE] = { IN(SHARE_CLIENT_IMPORTER), release },
    [WIRE_UNMAPPED] = { IN(SHARE_CLIENT_IMPORTER), unmapped },
    [WIRE_RETIRED] = { IN(SHARE_CLIENT_IMPORTER), retired },
    [WIRE_CANCEL] = { IN(SHARE_CLIENT_IMPORTER), cancel },
    [WIRE_GOODBYE] = { IN(SHARE_CLIENT_HELD) | IN(SHARE_CLIENT_IMPORTER) | IN(SHARE_CLIENT_OBSERVER), goodbye },
    [WIRE_LIST] = { IN(SHARE_CLIENT_OBSERVER), list },
    [WIRE_COUNT] = { IN(SHARE_CLIENT_OBSERVER), list },
    [WIRE_EVICT] = { IN(SHARE_CLIENT_OBSERVER), evict },
};

static enum share_io answer_fault(struct share_client *client, enum wire_fault fault, uint16_t version)
{
    if (fault != WIRE_OTHER_VERSION)
        return SHARE_BROKEN;
    refuse(client, 0, WEIR_REFUSED, "version %u of the protocol is not spoken here, only %d: use the same release of Weir on both sides",
           version, WIRE_SHARE_VERSION);
    return SHARE_BROKEN;
}

enum share_io share_request_answer(struct share_client *client, const unsigned char *bytes, size_t len)
{
    weir_export *e = client->e;
    struct wire_message message;
    uint16_t version = 0;
    enum wire_fault fault = wire_decode(bytes, len, &message, &version);
    bool is_known = fault == WIRE_GOOD && wire_sender(message.type) == WIRE_IMPORTER_SENDS;
    pthread_mutex_lock(&e->lock);
    enum share_io io = SHARE_BROKEN;
    client->heard = client->connection.last = weir__service_now();
    if (fault != WIRE_GOOD)
        io = answer_fault(client, fault, version);
    else if (is_known && requests[message.type].states & IN(client->state))
        io = requests[message.type].serve(client, &message);
    for (struct share_reader *reader = client->readers; reader; reader = reader->next)
        reader->is_hung = false;
    if (io == SHARE_BROKEN) {
        share_news_add(&e->news, WEIR_LOG_WARNING, "pool '%s': process %d (%s) is evicted: what it sent, %s of %zu bytes, is not allowed now",
                       e->pool->name, (int)client->process.pid, client->name[0] ? client->name : "no name yet",
                       fault == WIRE_GOOD ? wire_type_name(message.type) : "a message", len);
        weir__service_wake(&e->job, 0);
    }
    pthread_mutex_unlock(&e->lock);
    return io;
}

/* Requests that wait for leases ---------------------------------------------------------------------------------------------------------- */

/* Serves the request, which is refused if leases are still missing. The caller holds e->lock. */
static void serve_deferred(struct share_client *client, struct share_wait *wait)
{
    struct share_asked asked = wait->asked;
    share_wait_end(client, wait);
    if (serve_now(client, &asked) == SHARE_BROKEN)
        share_client_break(client);
}

/* Makes leases for the client's first deferred request and serves it. Returns false if the limit MAKE_MAX was reached first. *made
   counts the leases made in this run. */
static bool go_on(struct share_client *client, unsigned *made)
{
    pthread_mutex_lock(&client->e->lock);
    unsigned left = client->deferred ? missing(client, &client->deferred->asked) : 0;
    pthread_mutex_unlock(&client->e->lock);
    bool can_make = true;
    while (left && *made < MAKE_MAX && (can_make = share_lease_make(client))) {
        left--;
        ++*made;
    }
    if (left && can_make)
        return false;
    pthread_mutex_lock(&client->e->lock);
    if (client->deferred && (!can_make || !missing(client, &client->deferred->asked)))
        serve_deferred(client, client->deferred);
    pthread_mutex_unlock(&client->e->lock);
    return true;
}

bool share_requests_go_on(weir_export *e)
{
    unsigned made = 0;
    bool is_left = false;
    /* Only this thread changes the list of clients. Another thread may serve or cancel a client's request while this loop runs. */
    for (struct share_client *client = e->clients; client; client = client->next) {
        bool waits = true;
        while (waits && go_on(client, &made)) {
            pthread_mutex_lock(&e->lock);
            waits = client->deferred;
            pthread_mutex_unlock(&e->lock);
        }
        is_left = is_left || waits;
    }
    return is_left;
}
