/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/event.h"
#include "lib/base/list.h"
#include "lib/base/user.h"
#include "share/export/ring.h"

#define POLL_MAX 256   /* release events that are queried in one go */
#define POLL_ALL GPU_MILLISECOND /* nanoseconds between two rounds that query all release events */

/* Sending; the caller holds e->lock ---------------------------------------------------------------------------------------------------- */

void share_client_break(struct share_client *client)
{
    client->is_broken = true;
    weir__service_wake(&client->e->job, 0);
}

/* Marks the client as broken if sending failed, unless the other side has closed the connection: then its last messages, perhaps a
   farewell, are still in the socket, and the thread that reads them finds the end by itself. */
static enum share_io judge_sending(struct share_client *client, enum share_io io)
{
    if ((io == SHARE_CLOSED || io == SHARE_BROKEN) && client->connection.fd >= 0 && !share_has_hung_up(client->connection.fd))
        share_client_break(client);
    return io;
}

enum share_io share_client_send(struct share_client *client, const struct wire_message *message, int passed)
{
    return client->is_broken ? SHARE_CLOSED : judge_sending(client, share_connection_send(&client->connection, message, passed));
}

enum share_io share_client_answer(struct share_client *client, const struct wire_message *message, int passed)
{
    if (client->is_broken)
        return SHARE_CLOSED;
    return judge_sending(client, share_connection_answer(&client->connection, message, passed, SHARE_OUTBOX_MAX));
}

void share_client_flush(struct share_client *client)
{
    if (!client->is_broken)
        judge_sending(client, share_connection_flush(&client->connection));
}

static struct share_mapping *find_mapping(const struct share_client *client, const struct share_block *block)
{
    struct share_mapping *mapping = block->mappings;
    while (mapping && mapping->client != client)
        mapping = mapping->next_of_block;
    return mapping;
}

static void describe_lease(struct wire_message *message, const struct share_block *block, const struct share_lease *lease, bool knows_empty)
{
    message->u.lease.metadata_size = block->metadata_size;
    memcpy(message->u.lease.metadata, block->metadata, block->metadata_size);
    message->u.lease.sequence = block->sequence;
    message->u.lease.block = block->id;
    message->u.lease.size = block->size || knows_empty ? block->size : 1;
    if (message->u.lease.flags & WIRE_HAS_BLOCK) {
        message->u.lease.block_size = block->bytes;
        message->u.lease.shared = block->handle;
        message->u.lease.ready = block->ready_handle;
    }
    if (message->u.lease.flags & WIRE_HAS_RELEASE)
        message->u.lease.release = lease->handle;
}

enum share_io share_client_grant(struct share_client *client, struct share_block *block, struct share_lease *lease, uint32_t request)
{
    struct wire_message message = { .type = WIRE_LEASE, .request = request };
    struct share_mapping *mapping = find_mapping(client, block), *fresh = NULL;
    if (client->is_asked)
        return SHARE_CLOSED;
    if (!mapping && !(mapping = fresh = calloc(1, sizeof *fresh))) {
        share_client_break(client);
        return SHARE_BROKEN;
    }
    message.u.lease.flags = (fresh ? WIRE_HAS_BLOCK : 0) | (lease->is_told ? 0 : WIRE_HAS_RELEASE);
    message.u.lease.ring = lease->reader ? lease->reader->number : 0;
    while (client->leases[message.u.lease.lease] != lease)
        message.u.lease.lease++;
    describe_lease(&message, block, lease, client->greeting & WIRE_KNOWS_EMPTY);
    enum share_io io = share_client_send(client, &message, -1);
    if (io != SHARE_DONE) {
        free(fresh);
        return io;
    }
    if (fresh) {
        *fresh =
            (struct share_mapping){.next_of_block = block->mappings, .next_of_client = client->mappings, .block = block, .client = client};
        block->mappings = client->mappings = fresh;
    }
    mapping->leases++;
    block->leases++;
    (block->ring ? &block->ring->figures : &client->e->figures)->leases_given++;
    *lease = (struct share_lease){ .state = SHARE_LEASE_HELD, .is_told = true, .mapping = mapping, .reader = lease->reader,
                                   .since = weir__service_now(), .sequence = block->sequence, .event = lease->event, .handle = lease->handle };
    return SHARE_DONE;
}

void share_wait_end(struct share_client *client, struct share_wait *wait)
{
    if (WEIR__UNLINK(client->waits, wait, next))
        client->wait_count--;
    else if (WEIR__UNLINK(client->deferred, wait, next))
        client->deferred_count--;
    if (wait->lease && wait->lease->state == SHARE_LEASE_WANTED)
        wait->lease->state = SHARE_LEASE_IDLE;
    free(wait);
}

/* The block that this request was to get is no longer published: refuses the request. */
static void give_up(struct share_client *client, struct share_wait *wait)
{
    char text[WIRE_NAME_SIZE + 32];
    snprintf(text, sizeof text, "no block '%s' is published", wait->asked.name);
    struct wire_message message = share_refusal_of(WIRE_REFUSED, wait->asked.request, WEIR_NOT_FOUND, text);
    if (share_client_answer(client, &message, -1) == SHARE_BROKEN)
        share_client_break(client);
    share_wait_end(client, wait);
}

/* Serves the waiting requests of a client whose block is published by now. */
static void grant_waits(struct share_client *client)
{
    for (struct share_wait *wait = client->waits, *next; wait; wait = next) {
        next = wait->next;
        struct share_block *block = share_block_find(client->e, wait->asked.name);
        if (block && share_client_grant(client, block, wait->lease, wait->asked.request) != SHARE_AGAIN)
            share_wait_end(client, wait);
        else if (!block && !(wait->asked.argument & WIRE_WAIT))
            give_up(client, wait);
    }
}

void share_clients_offer(weir_export *e)
{
    for (struct share_client *client = e->clients; client; client = client->next)
        grant_waits(client);
}

void share_client_catch_up(struct share_client *client)
{
    struct share_reader *next;
    share_connection_unblock(&client->connection);
    share_client_flush(client);
    grant_waits(client);
    for (struct share_reader *reader = client->readers; reader; reader = next) {
        next = reader->next;
        if (reader->is_ended)
            share_reader_end(reader);
        else
            share_ring_feed(reader);
    }
    for (struct share_mapping *mapping = client->mappings; mapping; mapping = mapping->next_of_client)
        if (mapping->block->is_withdrawn && !mapping->leases && !mapping->is_told)
            share_block_released(client->e, mapping->block);
}

/* Leases --------------------------------------------------------------------------------------------------------------------------------- */

void share_mapping_end(struct share_client *client, struct share_mapping *mapping)
{
    struct share_block *block = mapping->block;
    WEIR__UNLINK(block->mappings, mapping, next_of_block);
    WEIR__UNLINK(client->mappings, mapping, next_of_client);
    free(mapping);
    share_block_released(client->e, block);
}

struct pending_release {
    struct share_client *client;
    struct share_lease *lease;
    int code;
};

/* Finds releases that this round has not queried yet, some of each client. */
static size_t find_releases(weir_export *e, struct pending_release releases[POLL_MAX])
{
    size_t count = 0, waiting = 0;
    pthread_mutex_lock(&e->lock);
    for (struct share_client *client = e->clients; client; client = client->next)
        waiting += client->releasing != NULL;
    size_t share = waiting ? POLL_MAX / waiting : 0; /* the policy allows at most 64 importers, so each gets at least 4 */
    for (struct share_client *client = e->clients; client; client = client->next) {
        size_t found = 0;
        for (struct share_lease *lease = client->releasing; lease && found < share; lease = lease->later) {
            if (lease->look == e->looks)
                continue;
            lease->look = e->looks;
            found++;
            releases[count++] = (struct pending_release){ client, lease, GPU_NOT_READY };
        }
    }
    pthread_mutex_unlock(&e->lock);
    return count;
}

/* Queries some release events and ends the leases whose event is complete. Returns whether there were any to query. */
static bool look_at_some(weir_export *e, bool all, bool *progress)
{
    struct pending_release releases[POLL_MAX];
    size_t count = find_releases(e, releases);
    for (size_t i = 0; i < count; i++) {
        /* Most clients release on one stream, in its order. A query costs a microsecond, too much for an event behind one that is not
           complete yet. */
        if (!all && i && releases[i].client == releases[i - 1].client && releases[i - 1].code != GPU_SUCCESS)
            continue;
        releases[i].code = e->gpu->event_query(releases[i].lease->event);
    }
    if (!count)
        return false;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < count; i++)
        if (releases[i].code == GPU_SUCCESS) {
            share_lease_end(releases[i].client, releases[i].lease);
            *progress = true;
        }
    pthread_mutex_unlock(&e->lock);
    return true;
}

void share_clients_poll(weir_export *e, bool everything)
{
    /* Leases are destroyed, and their releases ended, only under e->serving, which this thread holds. So the leases found stay valid
       without e->lock. */
    uint64_t now = weir__service_now();
    bool progress = false, is_left = false, all = everything || now >= e->poll_all;
    if (all)
        e->poll_all = now + POLL_ALL;
    e->looks++;
    while (look_at_some(e, all, &progress) && everything)
        continue;
    pthread_mutex_lock(&e->lock);
    for (const struct share_client *client = e->clients; client; client = client->next)
        is_left = is_left || client->releasing;
    if (!is_left)
        e->waits_since = 0;
    else if (progress || !e->waits_since)
        e->waits_since = now;
    e->served_at = now;
    pthread_mutex_unlock(&e->lock);
}

/* Connections ---------------------------------------------------------------------------------------------------------------------------- */

void share_reader_end(struct share_reader *reader)
{
    struct wire_message message = { .type = WIRE_ENDED, .u.ended.ring = reader->number };
    share_ring_leave(reader);
    reader->is_ended = share_client_send(reader->client, &message, -1) != SHARE_DONE;
    if (!reader->is_ended)
        share_reader_leave(reader->client, reader);
}

void share_reader_leave(struct share_client *client, struct share_reader *reader)
{
    WEIR__UNLINK(client->readers, reader, next);
    share_ring_leave(reader);
    share_leases_unassign(client, reader);
    free(reader);
}

/* Counts the eviction of a client, but only once: its connection may end before its process, or after. */
static void count_eviction(const struct share_client *client)
{
    client->e->evictions += client->has_pool && !client->said_farewell && client->state != SHARE_CLIENT_EVICTED;
}

void share_client_evict(struct share_client *client)
{
    count_eviction(client);
    share_connection_close(&client->connection);
    while (client->readers)
        share_reader_leave(client, client->readers);
    while (client->waits || client->deferred)
        share_wait_end(client, client->waits ? client->waits : client->deferred);
    client->state = client->has_pool ? SHARE_CLIENT_EVICTED : SHARE_CLIENT_GONE;
    if (client->state == SHARE_CLIENT_GONE) /* else epoll would report the death of the process for ever */
        epoll_ctl(client->e->epoll_fd, EPOLL_CTL_DEL, client->process.pidfd, NULL);
    weir__service_wake(&client->e->job, 0);
}

void share_client_forget(struct share_client *client)
{
    count_eviction(client);
    client->has_pool = false;
    share_client_evict(client);
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->mapping)
            share_lease_end(client, client->leases[i]);
    while (client->mappings)
        share_mapping_end(client, client->mappings);
    share_serve_stir(client->e);
}

/* Whether the client holds nothing: it has not sent HELLO yet, or is an observer. For importers the policy has a limit of its own. */
static bool is_guest(const struct share_client *client)
{
    return client->state == SHARE_CLIENT_GREETING || client->state == SHARE_CLIENT_OBSERVER;
}

static bool is_allowed(weir_export *e, const struct share_process *process, weir_error *error)
{
    pthread_mutex_lock(&e->lock);
    bool is_in = share_allowed_has(&e->allowed, process);
    pthread_mutex_unlock(&e->lock);
    const char *note = weir__user_note(process->uid);
    if (!is_in && *note)
        weir__fail(error, WEIR_REFUSED, "user %u may not connect%s", (unsigned)process->uid, note);
    else if (!is_in)
        weir__fail(error, WEIR_REFUSED, "user %u may not connect: add it to pools.%s.share.allow", (unsigned)process->uid, e->pool->name);
    return is_in;
}

static bool has_room(weir_export *e, const struct share_process *process, weir_error *error)
{
    static const struct share_crowd_limits limits = { .process = 8, .user = 32, .strangers = 48 };
    struct share_crowd crowd = { .pid = process->pid, .uid = process->uid };
    pthread_mutex_lock(&e->lock);
    for (const struct share_client *client = e->clients; client; client = client->next)
        if (is_guest(client))
            share_crowd_count(&crowd, client->connection.fd, client->process.pid, client->process.uid);
    pthread_mutex_unlock(&e->lock);
    return share_crowd_has_room(&crowd, &limits, WEIR_REFUSED, error);
}

static bool add_client(weir_export *e, int fd, const struct share_process *process)
{
    struct share_client *client = calloc(1, sizeof *client);
    if (!client)
        return false;
    client->e = e;
    client->process = *process;
    client->socket_watch = (struct share_watch){ .client = client };
    client->death_watch = (struct share_watch){ .client = client, .is_death = true };
    client->connection = (struct share_connection){ .fd = fd, .epoll_fd = e->epoll_fd, .data = &client->socket_watch };
    struct epoll_event death_event = { .events = EPOLLIN, .data.ptr = &client->death_watch };
    bool is_watched = false;
    /* The thread that serves may get the client's events as soon as epoll has its socket. */
    pthread_mutex_lock(&e->serving);
    if (share_connection_open(&client->connection)) {
        client->heard = client->connection.last;
        is_watched = epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, process->pidfd, &death_event) == 0;
        if (!is_watched)
            epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
    if (is_watched) {
        pthread_mutex_lock(&e->lock);
        client->next = e->clients;
        e->clients = client;
        pthread_mutex_unlock(&e->lock);
    } else {
        free(client);
    }
    pthread_mutex_unlock(&e->serving);
    return is_watched;
}

bool share_client_admit(struct share_server *server, int fd, weir_error *error)
{
    weir_export *e = (weir_export *)((char *)server - offsetof(weir_export, server));
    struct share_process process;
    if (share_process_of(fd, error, &process) != WEIR_OK)
        return false;
    if (has_room(e, &process, error) && is_allowed(e, &process, error)) {
        if (add_client(e, fd, &process))
            return true;
        weir__fail(error, WEIR_REFUSED, "the exporter has no host memory or descriptor for another connection");
    }
    share_process_close(&process);
    return false;
}

bool share_client_is_hung(const struct share_client *client)
{
    for (const struct share_reader *reader = client->readers; reader; reader = reader->next)
        if (reader->is_hung)
            return true;
    return false;
}

void share_client_count(const struct share_client *client, unsigned *leases, unsigned *mappings)
{
    for (const struct share_mapping *mapping = client->mappings; mapping; mapping = mapping->next_of_client) {
        ++*mappings;
        *leases += mapping->leases;
    }
}

bool share_clients_evict(weir_export *e, pid_t pid)
{
    bool found = false;
    for (struct share_client *client = e->clients; client; client = client->next)
        if (client->process.pid == pid && (client->state == SHARE_CLIENT_IMPORTER || client->state == SHARE_CLIENT_HELD)) {
            struct wire_message message = { .type = WIRE_REFUSED, .u.refused = { WEIR_REFUSED, "evicted: start this process anew" } };
            share_client_send(client, &message, -1);
            share_client_break(client);
            found = true;
        }
    return found;
}

uint64_t share_clients_check(weir_export *e, uint64_t now)
{
    uint64_t next = WEIR__SERVICE_NEVER;
    pthread_mutex_lock(&e->serving);
    pthread_mutex_lock(&e->lock);
    for (struct share_client *client = e->clients; client; client = client->next) {
        if (is_guest(client)) {
            client->is_broken = client->is_broken || share_connection_is_late(&client->connection, now);
            next = weir__service_earlier(next, client->connection.last + SHARE_PATIENCE);
        }
        if (client->is_broken && client->connection.fd >= 0)
            share_client_evict(client);
    }
    for (struct share_client **link = &e->clients, *client; (client = *link);)
        if (client->state == SHARE_CLIENT_GONE) {
            *link = client->next;
            client->next = e->gone;
            e->gone = client;
        } else {
            link = &client->next;
        }
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_unlock(&e->serving);
    return next;
}

static void destroy(struct share_client *client)
{
    const struct gpu *gpu = client->e->gpu;
    share_process_close(&client->process);
    for (unsigned i = 0; i < client->lease_count; i++) {
        weir__event_destroy(gpu, client->leases[i]->event);
        free(client->leases[i]);
    }
    free(client);
}

void share_clients_destroy_gone(weir_export *e)
{
    while (e->gone) {
        struct share_client *client = e->gone;
        e->gone = client->next;
        destroy(client);
    }
}

void share_clients_destroy(weir_export *e)
{
    pthread_mutex_lock(&e->lock);
    for (struct share_client *client = e->clients; client; client = client->next)
        share_client_forget(client);
    pthread_mutex_unlock(&e->lock);
    share_clients_check(e, 0);
    share_clients_destroy_gone(e);
}
