/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share/import/import.h"
#include "share/wire/closing.h"
#include "share/wire/query.h"

#define DRAIN_MAX 2048 /* messages read in one call, so that no exporter keeps a thread busy for ever */

/* Messages; the caller holds i->lock --------------------------------------------------------------------------------------------------- */

enum share_io share_session_send(struct share_session *session, const struct wire_message *message)
{
    if (session->fd < 0)
        return SHARE_CLOSED;
    enum share_io io = share_outbox_say(&session->outbox, session->fd, message, SHARE_SAID_MAX);
    if (io == SHARE_AGAIN) {
        /* The message was kept: the pump, or the service thread, sends it when the socket has room. */
        share_session_watch(session);
        if (session->i->is_pumping)
            eventfd_write(session->i->wake_fd, 1);
        return SHARE_DONE;
    }
    /* SHARE_BROKEN: the exporter has not read for so long that the outbox is full. */
    if (io == SHARE_BROKEN)
        share_session_give_up(session);
    else if (io != SHARE_DONE)
        share_session_end(session);
    return io;
}

void share_session_flush(struct share_session *session)
{
    enum share_io io = session->fd >= 0 ? share_outbox_flush(&session->outbox, session->fd) : SHARE_CLOSED;
    /* Messages that the exporter sent before it closed can still be read. */
    if (io != SHARE_DONE && io != SHARE_AGAIN)
        share_outbox_clear(&session->outbox);
    share_session_watch(session);
}

/* Decides which events the service thread watches for: messages, once it has taken over the socket, and room for kept messages, unless a
   thread pumps. */
void share_session_watch(struct share_session *session)
{
    weir_import *i = session->i;
    bool is_present = session == i->session, reads = is_present ? i->is_watched : session->says_farewell;
    bool sends = !share_outbox_is_empty(&session->outbox) && !(is_present && i->is_pumping);
    uint32_t events = session->fd < 0 ? 0 : (reads ? EPOLLIN : 0) | (sends ? EPOLLOUT : 0);
    struct epoll_event event = { .events = events };
    if (events == session->watched)
        return;
    epoll_ctl(i->epoll_fd, !events ? EPOLL_CTL_DEL : session->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, session->fd, &event);
    session->watched = events;
}

void share_session_hand_over(weir_import *i)
{
    if (!i->session || i->session->farewell || i->is_pumping || i->is_watched)
        return;
    i->is_watched = true;
    share_session_watch(i->session);
}

void share_session_stir(weir_import *i)
{
    if (i->is_pumping)
        eventfd_write(i->wake_fd, 1);
    pthread_cond_broadcast(&i->changed);
}

void share_session_close(struct share_session *session)
{
    if (session->fd < 0)
        return;
    /* A child made without fork() (vfork, clone) may have a copy of the socket, for which epoll would go on reporting events. */
    if (session->watched)
        epoll_ctl(session->i->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
    session->watched = 0;
    share_close_socket(session->fd);
    session->fd = -1;
    share_outbox_clear(&session->outbox);
}

void share_session_end(struct share_session *session)
{
    weir_import *i = session->i;
    if (session->fd < 0)
        return;
    share_session_close(session);
    if (i->session == session) {
        i->session = NULL;
        i->is_watched = false;
    }
    if (!session->farewell && !session->is_refused)
        share_readers_lose(session);
    share_readers_leave(session);
    share_session_stir(i);
    weir__service_wake(&i->job, 0);
}

/* A stopped exporter gets the GOODBYE once it runs again, and can then let this process connect again. */
void share_session_give_up(struct share_session *session)
{
    session->farewell = WIRE_GOODBYE;
    share_readers_leave(session);
    share_session_stir(session->i);
    weir__service_wake(&session->i->job, 0);
}

static enum share_io receive(struct share_session *session)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message;
    size_t len;
    enum share_io io = share_receive(session->fd, bytes, sizeof bytes, &len, session->is_guarded ? SHARE_GUARDED : NULL);
    if (io == SHARE_DONE && (wire_decode(bytes, len, &message, NULL) != WIRE_GOOD || wire_sender(message.type) != WIRE_EXPORTER_SENDS ||
                             !share_receive_message(session, &message)))
        io = SHARE_BROKEN;
    if (io == SHARE_BROKEN)
        share_news_add(&session->i->news, WEIR_LOG_ERROR, "import '%s': the exporter sent what the protocol does not allow",
                       session->i->socket);
    return io;
}

void share_session_drain(struct share_session *session)
{
    enum share_io io = SHARE_DONE;
    unsigned count = 0;
    share_session_flush(session);
    while (session->fd >= 0 && count++ < DRAIN_MAX && (io = receive(session)) == SHARE_DONE)
        pthread_cond_broadcast(&session->i->changed);
    if (session->fd >= 0 && io != SHARE_AGAIN && io != SHARE_DONE)
        share_session_end(session);
    share_session_watch(session);
}

/* Polls the descriptors until one is ready or the deadline has passed. Spins until `awake`, and only then sleeps. */
static void poll_until(struct pollfd *fds, nfds_t count, uint64_t awake, uint64_t deadline)
{
    int ready = 0;
    while ((ready = poll(fds, count, 0)) == 0 && weir__service_now() < weir__service_earlier(awake, deadline))
        sched_yield(); /* the exporter may need this CPU */
    const struct timespec left = share_time_left(deadline);
    if (ready == 0)
        ppoll(fds, count, &left, NULL);
}

/* Polls the socket for all waiting threads, then handles its messages. i->lock is released while it polls. */
static void pump(struct share_session *session, uint64_t deadline)
{
    weir_import *i = session->i;
    short events = share_outbox_is_empty(&session->outbox) ? POLLIN : POLLIN | POLLOUT;
    struct pollfd ready[] = { { .fd = session->fd, .events = events }, { .fd = i->wake_fd, .events = POLLIN } };
    i->is_watched = false;
    i->is_pumping = i->was_pumped = true;
    share_session_watch(session);
    pthread_mutex_unlock(&i->lock);
    poll_until(ready, 2, weir__service_now() + i->spin, deadline);
    pthread_mutex_lock(&i->lock);
    i->is_pumping = false;
    eventfd_t wakes;
    if (ready[1].revents)
        eventfd_read(i->wake_fd, &wakes);
    share_session_drain(session);
    pthread_cond_broadcast(&i->changed);
}

bool share_session_wait(struct share_session *session, bool (*is_done)(void *data), void *data, uint64_t deadline)
{
    weir_import *i = session->i;
    session->users++;
    if (!i->is_pumping)
        share_session_drain(session);
    while (!is_done(data) && session->fd >= 0 && !session->farewell && weir__service_now() < deadline) {
        if (!i->is_pumping)
            pump(session, deadline);
        else
            share_cond_wait(&i->changed, &i->lock, deadline);
    }
    /* The answer may be in the socket, if this process was stopped until after the deadline. Messages for other threads are read here
       too. */
    if (!is_done(data) && session->fd >= 0 && !session->farewell) {
        share_session_drain(session);
        share_session_stir(i);
    }
    /* The service thread takes over the socket SHARE_TAKE_OVER after the last wait, or immediately if the application polls a reader.
       This is also how it begins to watch the socket of a new session. */
    if (i->polled)
        share_session_hand_over(i);
    if (!i->is_watched && !i->is_handed_over) {
        i->is_handed_over = true;
        weir__service_wake(&i->job, weir__service_now() + SHARE_TAKE_OVER);
    }
    share_session_unuse(session);
    return is_done(data);
}

void share_session_unuse(struct share_session *session)
{
    if (--session->users > 0 || (session->fd >= 0 && !session->farewell))
        return;
    pthread_cond_broadcast(&session->i->changed);
    weir__service_wake(&session->i->job, 0);
}

/* Beginning ------------------------------------------------------------------------------------------------------------------------------ */

static weir_status find_device(const weir_import *i, const char *uuid, weir_error *error, int *device)
{
    for (size_t d = 0; d < i->w->device_count; d++)
        if (strcmp(i->w->devices[d].info.uuid, uuid) == 0) {
            *device = (int)d;
            return WEIR_OK;
        }
    return weir__fail(error, WEIR_NOT_FOUND,
                      "import '%s': the exporter's GPU %s is not visible in this process: see CUDA_VISIBLE_DEVICES, or the "
                      "devices of this container",
                      i->socket, uuid);
}

static bool take_welcome(struct share_query *query, const struct wire_message *welcome)
{
    *(struct wire_message *)query->data = *welcome;
    return query->pool_fd >= 0;
}

/* Connects, sends HELLO and takes WELCOME. *pool_fd gets the pool's descriptor, or -1. */
static weir_status say_hello(struct share_session *session, uint64_t deadline, weir_error *error, struct wire_message *welcome,
                             int *pool_fd)
{
    char path[SHARE_PATH_SIZE], called[SHARE_PATH_SIZE + 16];
    struct share_query query = { .path = path, .role = WIRE_ROLE_IMPORTER, .called = called, .take = take_welcome, .data = welcome };
    weir_status status = share_path(session->i->socket, false, false, error, path);
    if (status != WEIR_OK)
        return status;
    snprintf(called, sizeof called, "import '%s'", session->i->socket);
    query.question = (struct wire_message){ .type = WIRE_HELLO, .u.hello.role = WIRE_ROLE_IMPORTER };
    share_program_name(query.question.u.hello.name);
    share_queries_run(&query, 1, deadline);
    session->fd = query.fd;
    *pool_fd = query.pool_fd;
    if (query.status != WEIR_OK)
        return weir__fail(error, query.status, "%s", query.text);
    session->is_guarded = share_guard(session->fd); /* no later message has a descriptor */
    session->epoch = welcome->u.welcome.epoch;
    return share_process_of(session->fd, error, &session->exporter);
}

static weir_status import_pool(struct share_session *session, int pool_fd, weir_error *error)
{
    const struct gpu *gpu = session->i->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    int code = gpu->pool_import(session->device, pool_fd, &session->pool);
    weir__relaxed_end(gpu, mode);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    session->pool = NULL;
    if (strcmp(gpu->name, "sim") == 0)
        return weir__fail_gpu(error, gpu, code,
                              "importing the pool of '%s' (simulated processes share a machine by the same WEIR_SIM=name=...)",
                              session->i->socket);
    return weir__fail_gpu(error, gpu, code, "importing the pool of '%s'", session->i->socket);
}

static weir_status begin(struct share_session *session, uint64_t deadline, weir_error *error)
{
    struct wire_message welcome = { 0 };
    int pool_fd = -1;
    weir_status status = say_hello(session, deadline, error, &welcome, &pool_fd);
    if (status == WEIR_OK)
        status = find_device(session->i, welcome.u.welcome.uuid, error, &session->device);
    if (status == WEIR_OK)
        status = import_pool(session, pool_fd, error);
    /* The exporter chose which file the descriptor refers to, so the close may take long. */
    if (pool_fd >= 0)
        share_close_away(&pool_fd, 1, NULL);
    return status;
}

/* Ends a session that could not begin. If WELCOME may still come, a GOODBYE is sent, so that a slow exporter does not count this process
   as an importer. */
static void abandon(struct share_session *session)
{
    weir_import *i = session->i;
    session->farewell = WIRE_GOODBYE;
    if (session->fd < 0) {
        share_session_free(session);
        return;
    }
    pthread_mutex_lock(&i->lock);
    session->next = i->sessions;
    i->sessions = session;
    share_session_say_farewell(session);
    pthread_mutex_unlock(&i->lock);
    weir__service_wake(&i->job, 0);
}

static weir_status connect_anew(weir_import *i, uint64_t deadline, weir_error *error)
{
    struct share_session *session = calloc(1, sizeof *session);
    if (!session)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to import '%s'", i->socket);
    session->i = i;
    session->fd = session->exporter.pidfd = -1;
    weir_status status = begin(session, deadline, error);
    if (status != WEIR_OK) {
        abandon(session);
        return status;
    }
    pthread_mutex_lock(&i->lock);
    if (i->session)
        share_readers_leave(i->session);
    session->next = i->sessions;
    i->sessions = i->session = session;
    pthread_mutex_unlock(&i->lock);
    return WEIR_OK;
}

static bool is_dead(const struct share_session *session)
{
    struct pollfd death = { .fd = session->exporter.pidfd, .events = POLLIN };
    return poll(&death, 1, 0) == 1;
}

/* Whether ended sessions with a living exporter still have leases. Their blocks must not be imported again: CUDA counts two imports of
   one block as one. The caller holds i->lock. */
static bool has_old_leases(const weir_import *i)
{
    for (const struct share_session *session = i->sessions; session; session = session->next)
        if (session->leases && !is_dead(session))
            return true;
    return false;
}

static const struct share_session *find_farewell(const weir_import *i)
{
    const struct share_session *session = i->sessions;
    while (session && (session->fd < 0 || !session->farewell || session->leases))
        session = session->next;
    return session;
}

/* Before a new session begins, ends the old ones once no thread uses them: the exporter accepts one connection of a process at a time. */
static void give_back(weir_import *i, uint64_t deadline)
{
    bool is_left = true;
    while (is_left) {
        if (share_sessions_tidy(i) != WEIR__SERVICE_NEVER)
            i->gpu->pause(SHARE_FINISH_PAUSE);
        /* share_sessions_tidy() takes sessions off the list for a time, under mapping_lock: with mapping_lock the list is complete. */
        pthread_mutex_lock(&i->mapping_lock);
        pthread_mutex_lock(&i->lock);
        const struct share_session *session = find_farewell(i);
        pthread_mutex_unlock(&i->mapping_lock);
        is_left = session && weir__service_now() < deadline;
        if (is_left && session->users)
            share_cond_wait(&i->changed, &i->lock, deadline);
        pthread_mutex_unlock(&i->lock);
    }
}

weir_status share_session_ensure(weir_import *i, uint64_t deadline, weir_error *error)
{
    pthread_mutex_lock(&i->lock);
    while (i->is_connecting)
        pthread_cond_wait(&i->changed, &i->lock);
    bool is_connected = i->session && !i->session->farewell, is_barred = !is_connected && has_old_leases(i);
    i->is_connecting = !is_connected;
    pthread_mutex_unlock(&i->lock);
    if (is_connected)
        return WEIR_OK;
    if (!is_barred) {
        give_back(i, deadline);
        pthread_mutex_lock(&i->lock);
        is_barred = has_old_leases(i); /* a thread that still waited on the old session may have got a lease by now */
        pthread_mutex_unlock(&i->lock);
    }
    weir_status status = is_barred ? weir__fail(error, WEIR_BUSY,
                                                "import '%s': the connection has ended, and leases of it are still in use: release them "
                                                "first",
                                                i->socket)
                                   : connect_anew(i, deadline, error);
    pthread_mutex_lock(&i->lock);
    i->is_connecting = false;
    pthread_cond_broadcast(&i->changed);
    pthread_mutex_unlock(&i->lock);
    return status;
}
