/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "share/crowd.h"
#include "share/request.h"
#include "share/ring.h"
#include "share/serve.h"

#define POLL_MAX 256   /* releases that are looked at in one go */
#define POLL_ALL UINT64_C(1000000) /* nanoseconds between two looks at all of them */
#define SERVE_MAX 64   /* messages of one client in one go, so that none keeps the others waiting */
#define ACCEPT_MAX 16 /* connections in one go */

/* Sending, with the lock ----------------------------------------------------------------------------------------------------------------- */

static void watch_socket(struct share_client *client, int operation, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = &client->socket_watch };
    epoll_ctl(client->e->epoll_fd, operation, client->fd, &event);
}

void share_client_break(struct share_client *client)
{
    client->is_broken = true;
    weir__service_wake(&client->e->job, 0);
}

/* Whether the other side has closed the socket. What it said before is still there to be read. */
static bool has_hung_up(const struct share_client *client)
{
    struct pollfd socket = { .fd = client->fd };
    return poll(&socket, 1, 0) == 1 && (socket.revents & POLLHUP);
}

static enum share_io send_bytes(struct share_client *client, const unsigned char *bytes, size_t len, int passed)
{
    if (client->fd < 0 || client->is_broken)
        return SHARE_CLOSED;
    if (client->is_blocked)
        return SHARE_AGAIN;
    enum share_io io = share_send(client->fd, bytes, len, passed);
    if (io == SHARE_AGAIN) {
        client->is_blocked = true;
        watch_socket(client, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    } else if (io != SHARE_DONE && !has_hung_up(client)) {
        share_client_break(client); /* where it has, its last words may be a farewell: who reads them gets to the end by himself */
    }
    return io;
}

enum share_io share_client_send(struct share_client *client, const struct wire_message *message, int passed)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    if (client->outbox.len)
        return SHARE_AGAIN;
    return send_bytes(client, bytes, wire_encode(message, bytes), passed);
}

void share_client_flush(struct share_client *client)
{
    const unsigned char *bytes;
    size_t len;
    while ((bytes = share_outbox_next(&client->outbox, &len)) && send_bytes(client, bytes, len, -1) == SHARE_DONE) {
        share_outbox_pop(&client->outbox);
        client->guest_until = weir__service_now() + SHARE_GUEST_TIME;
    }
}

static struct share_mapping *find_mapping(const struct share_client *client, const struct share_block *block)
{
    struct share_mapping *mapping = block->mappings;
    while (mapping && mapping->client != client)
        mapping = mapping->next_of_block;
    return mapping;
}

static void describe_lease(struct wire_message *message, const struct share_block *block, const struct share_lease *lease)
{
    message->u.lease.metadata_size = block->metadata_size;
    memcpy(message->u.lease.metadata, block->metadata, block->metadata_size);
    message->u.lease.sequence = block->sequence;
    message->u.lease.block = block->id;
    message->u.lease.size = block->size;
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
    describe_lease(&message, block, lease);
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
    *lease = (struct share_lease){ .state = SHARE_LEASE_HELD, .is_told = true, .mapping = mapping, .reader = lease->reader,
                                   .since = weir__service_now(), .sequence = block->sequence, .event = lease->event, .handle = lease->handle };
    return SHARE_DONE;
}

void share_wait_end(struct share_client *client, struct share_wait *wait)
{
    struct share_wait **link = &client->waits;
    while (*link != wait)
        link = &(*link)->next;
    *link = wait->next;
    client->wait_count--;
    if (wait->lease->state == SHARE_LEASE_WANTED)
        wait->lease->state = SHARE_LEASE_IDLE;
    free(wait);
}

/* Grants what a client waits for that is there by now. */
static void grant_waits(struct share_client *client)
{
    for (struct share_wait *wait = client->waits, *next; wait; wait = next) {
        next = wait->next;
        struct share_block *block = share_block_find(client->e, wait->name);
        if (block && share_client_grant(client, block, wait->lease, wait->request) != SHARE_AGAIN)
            share_wait_end(client, wait);
        else if (!block && !wait->is_patient)
            share_request_give_up(client, wait);
    }
}

void share_clients_offer(weir_export *e)
{
    for (struct share_client *client = e->clients; client; client = client->next)
        grant_waits(client);
}

/* What the client's full socket kept back: ends of rings, frames, and what is withdrawn. */
static void catch_up(struct share_client *client)
{
    struct share_reader *next;
    client->is_blocked = false;
    watch_socket(client, EPOLL_CTL_MOD, EPOLLIN);
    share_client_flush(client);
    grant_waits(client);
    for (struct share_reader *reader = client->readers; reader; reader = next) {
        next = reader->next;
        struct wire_message message = { .type = WIRE_ENDED, .u.ended.ring = reader->number };
        if (reader->is_ended) {
            if (share_client_send(client, &message, -1) == SHARE_DONE)
                share_reader_leave(reader);
            continue;
        }
        share_ring_feed(reader);
    }
    for (struct share_mapping *mapping = client->mappings; mapping; mapping = mapping->next_of_client)
        if (mapping->block->is_withdrawn && !mapping->leases && !mapping->is_told)
            share_block_settle(client->e, mapping->block);
}

/* Leases --------------------------------------------------------------------------------------------------------------------------------- */

void share_mapping_end(struct share_mapping *mapping)
{
    struct share_block *block = mapping->block;
    struct share_mapping **link = &block->mappings;
    while (*link != mapping)
        link = &(*link)->next_of_block;
    *link = mapping->next_of_block;
    link = &mapping->client->mappings;
    while (*link != mapping)
        link = &(*link)->next_of_client;
    *link = mapping->next_of_client;
    weir_export *e = mapping->client->e;
    free(mapping);
    share_block_settle(e, block);
}

struct pending_release {
    struct share_client *client;
    struct share_lease *lease;
    int code;
};

/* Those that this look has not found yet, some of each client. */
static size_t find_releases(weir_export *e, struct pending_release releases[POLL_MAX])
{
    size_t count = 0, waiting = 0;
    pthread_mutex_lock(&e->lock);
    for (struct share_client *client = e->clients; client; client = client->next)
        waiting += client->releasing != NULL;
    size_t share = waiting ? POLL_MAX / waiting : 0; /* at most 64 importers, so at least 4 for each */
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

/* Returns whether there were any. */
static bool look_at_some(weir_export *e, bool all, bool *progress)
{
    struct pending_release releases[POLL_MAX];
    size_t count = find_releases(e, releases);
    for (size_t i = 0; i < count; i++) {
        /* Most clients release on one stream, in its order: a question costs a microsecond, too much behind one that still waits. */
        if (!all && i && releases[i].client == releases[i - 1].client && releases[i - 1].code != GPU_SUCCESS)
            continue;
        releases[i].code = e->gpu->event_query(releases[i].lease->event);
        e->gpu->forget_error(releases[i].code);
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
    /* Whoever serves alone destroys leases, or ends the release of one. */
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

void share_reader_leave(struct share_reader *reader)
{
    struct share_client *client = reader->client;
    struct share_reader **link = &client->readers;
    while (*link != reader)
        link = &(*link)->next;
    *link = reader->next;
    share_ring_leave(reader);
    share_leases_unassign(client, reader);
    free(reader);
}

/* Its connection has ended, or is ended. Returns with what its process still maps. */
static void cut(struct share_client *client)
{
    if (client->fd >= 0) {
        int fd = client->fd;
        epoll_ctl(client->e->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        client->fd = -1;
        shutdown(fd, SHUT_RDWR); /* should a child be forked now, its copy keeps nothing open */
        close(fd);
    }
    for (struct share_reader *reader = client->readers, *next; reader; reader = next) {
        next = reader->next;
        share_reader_leave(reader);
    }
    for (struct share_wait *wait = client->waits, *next; wait; wait = next) {
        next = wait->next;
        share_wait_end(client, wait);
    }
    while (client->deferred)
        share_deferred_end(client, client->deferred);
    share_outbox_clear(&client->outbox);
    client->state = client->has_pool ? SHARE_CLIENT_CUT : SHARE_CLIENT_GONE;
    if (client->state == SHARE_CLIENT_GONE) /* its death would be told of for ever */
        epoll_ctl(client->e->epoll_fd, EPOLL_CTL_DEL, client->process.pidfd, NULL);
    weir__service_wake(&client->e->job, 0);
}

/* Its process maps nothing any more. */
static void drop(struct share_client *client)
{
    client->has_pool = false;
    cut(client);
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->mapping)
            share_lease_end(client, client->leases[i]);
    for (struct share_mapping *mapping = client->mappings, *next; mapping; mapping = next) {
        next = mapping->next_of_client;
        share_mapping_end(mapping);
    }
    share_serve_stir(client->e);
}

void share_client_died(struct share_client *client)
{
    pthread_mutex_lock(&client->e->lock);
    if (client->state != SHARE_CLIENT_GONE)
        drop(client);
    pthread_mutex_unlock(&client->e->lock);
}

/* Who holds nothing: its connection has said no HELLO yet, or is an observer's. Importers are counted by the policy. */
static bool is_guest(const struct share_client *client)
{
    return client->state == SHARE_CLIENT_GREETING || client->state == SHARE_CLIENT_OBSERVER;
}

static bool has_room(weir_export *e, const struct share_process *process, weir_error *error)
{
    static const struct share_crowd_limits limits = { .process = 8, .user = 32, .strangers = 48 };
    struct share_crowd crowd = { .pid = process->pid, .uid = process->uid };
    pthread_mutex_lock(&e->lock);
    for (const struct share_client *client = e->clients; client; client = client->next)
        if (is_guest(client))
            share_crowd_count(&crowd, client->fd, client->process.pid, client->process.uid);
    pthread_mutex_unlock(&e->lock);
    return share_crowd_has_room(&crowd, &limits, WEIR_REFUSED, error);
}

static bool add_client(weir_export *e, int fd, const struct share_process *process)
{
    struct share_client *client = calloc(1, sizeof *client);
    if (!client)
        return false;
    client->e = e;
    client->fd = fd;
    client->process = *process;
    client->last = weir__service_now();
    client->guest_until = client->last + SHARE_GUEST_TIME;
    client->socket_watch = (struct share_watch){ .client = client };
    client->death_watch = (struct share_watch){ .client = client, .is_death = true };
    struct epoll_event socket_event = { .events = EPOLLIN, .data.ptr = &client->socket_watch };
    struct epoll_event death_event = { .events = EPOLLIN, .data.ptr = &client->death_watch };
    if (epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &socket_event) != 0) {
        free(client);
        return false;
    }
    if (epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, process->pidfd, &death_event) != 0) {
        epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        free(client);
        return false;
    }
    pthread_mutex_lock(&e->lock);
    client->next = e->clients;
    e->clients = client;
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* An answer to who has not even become a client. */
static void turn_away(int fd, weir_status status, const char *text)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message = { .type = WIRE_REFUSED, .u.refused.status = (uint32_t)status };
    snprintf(message.u.refused.text, sizeof message.u.refused.text, "%.*s", (int)sizeof message.u.refused.text - 1, text);
    share_send(fd, bytes, wire_encode(&message, bytes), -1);
    close(fd);
}

/* Without descriptors or memory a connection stays where it is, and would be told of for ever: the listener rests for a while. */
static void rest_if_short(weir_export *e)
{
    struct epoll_event event = { .events = 0, .data.ptr = &e->listener_watch };
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    epoll_ctl(e->gate_fd, EPOLL_CTL_MOD, e->listener.fd, &event);
    e->accept_again = weir__service_now() + SHARE_SECOND / 10;
}

uint64_t share_clients_resume(weir_export *e, uint64_t now)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &e->listener_watch };
    if (!e->accept_again)
        return WEIR__SERVICE_NEVER;
    if (now < e->accept_again)
        return e->accept_again;
    e->accept_again = 0;
    epoll_ctl(e->gate_fd, EPOLL_CTL_MOD, e->listener.fd, &event);
    return 0;
}

static bool admit(weir_export *e, int fd, weir_error *error)
{
    struct share_process process;
    if (share_process_of(fd, error, &process) != WEIR_OK)
        return false;
    if (has_room(e, &process, error) && share_client_is_allowed(e, &process, error)) {
        if (add_client(e, fd, &process))
            return true;
        weir__fail(error, WEIR_REFUSED, "the exporter has no host memory or descriptor for another connection");
    }
    share_process_close(&process);
    return false;
}

/* Takes a connection into fresh_fd, where a forked child closes it: the process may fork while it is found out who it is from. */
static bool accept_fresh(weir_export *e)
{
    share_forked_hold();
    int fd = e->fresh_fd = share_accept(&e->listener);
    if (fd < 0)
        rest_if_short(e);
    share_forked_release();
    return fd >= 0;
}

static void turn_away_fresh(weir_export *e, const weir_error *error)
{
    share_forked_hold();
    turn_away(e->fresh_fd, error->status, error->text);
    e->fresh_fd = -1;
    share_forked_release();
}

void share_clients_accept(weir_export *e)
{
    for (int count = 0; count < ACCEPT_MAX && accept_fresh(e); count++) {
        weir_error error = WEIR_ERROR_INIT;
        if (admit(e, e->fresh_fd, &error))
            e->fresh_fd = -1;
        else
            turn_away_fresh(e, &error);
    }
}

/* With the lock. */
static void judge(struct share_client *client, enum share_io io)
{
    if (io == SHARE_CLOSED || io == SHARE_BROKEN)
        cut(client);
}

void share_client_serve(struct share_client *client, uint32_t events)
{
    weir_export *e = client->e;
    if (events & EPOLLOUT) {
        pthread_mutex_lock(&e->lock);
        if (client->fd >= 0)
            catch_up(client);
        pthread_mutex_unlock(&e->lock);
    }
    /* Of one that has gone all is read, since the same process may be at the door again. */
    for (int served = 0; (served < SERVE_MAX || (events & EPOLLHUP)) && client->fd >= 0; served++) {
        unsigned char bytes[WIRE_SIZE_MAX];
        size_t len;
        int passed = -1;
        enum share_io io = share_receive(client->fd, bytes, sizeof bytes, &len, &passed);
        if (io == SHARE_AGAIN)
            return;
        if (io == SHARE_DONE && passed >= 0) {
            close(passed);
            io = SHARE_BROKEN;
        }
        if (io == SHARE_DONE && (io = share_request_answer(client, bytes, len)) == SHARE_CLOSED)
            io = SHARE_DONE; /* it hears no answer, but what it said before it went may be a farewell */
        pthread_mutex_lock(&e->lock);
        if (io == SHARE_DONE && client->has_left)
            drop(client);
        else
            judge(client, io);
        pthread_mutex_unlock(&e->lock);
    }
}

bool share_client_is_hung(const struct share_client *client)
{
    for (const struct share_reader *reader = client->readers; reader; reader = reader->next)
        if (reader->is_hung)
            return true;
    return false;
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
            client->is_broken = client->is_broken || now >= client->guest_until;
            next = weir__service_earlier(next, client->guest_until);
        }
        if (client->is_broken && client->fd >= 0)
            cut(client);
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
        gpu->forget_error(gpu->event_destroy(client->leases[i]->event));
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
        drop(client);
    pthread_mutex_unlock(&e->lock);
    share_clients_check(e, 0);
    share_clients_destroy_gone(e);
}
