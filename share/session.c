/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "share/import.h"

#define MILLISECOND UINT64_C(1000000)
#define PATIENCE_MS 1000
#define DRAIN_MAX 2048 /* messages in one go, so that no exporter keeps a thread for ever */

void share_program_name(char name[WIRE_NAME_SIZE])
{
    snprintf(name, WIRE_NAME_SIZE, "%s", program_invocation_short_name);
    for (char *at = name; *at; at++)
        if (!wire_is_name((const char[]){ *at, '\0' }))
            *at = '_';
}

static int milliseconds_until(uint64_t deadline)
{
    uint64_t now = weir__service_now();
    return deadline > now ? (int)((deadline - now + MILLISECOND - 1) / MILLISECOND) : 0;
}

/* Messages, with the lock ---------------------------------------------------------------------------------------------------------------- */

enum share_io share_session_send(struct share_session *session, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    if (session->fd < 0)
        return SHARE_CLOSED;
    enum share_io io = share_send(session->fd, bytes, wire_encode(message, bytes), -1);
    /* What was not said cannot be said later; an exporter that does not read is taken leave of. */
    if (io == SHARE_AGAIN)
        share_session_leave(session);
    else if (io != SHARE_DONE)
        share_session_end(session);
    return io;
}

void share_session_stir(weir_import *i)
{
    if (i->is_pumping)
        eventfd_write(i->wake_fd, 1);
    pthread_cond_broadcast(&i->changed);
}

void share_session_close(struct share_session *session)
{
    if (session->fd >= 0) {
        shutdown(session->fd, SHUT_RDWR);
        close(session->fd);
    }
    session->fd = -1;
}

void share_session_end(struct share_session *session)
{
    weir_import *i = session->i;
    if (session->fd < 0)
        return;
    if (i->is_watched)
        weir__service_watch(&i->job, -1);
    i->is_watched = false;
    share_session_close(session);
    if (i->session == session)
        i->session = NULL;
    share_readers_leave(session);
    share_session_stir(i);
    share_session_wake(i);
}

/* The exporter hears a farewell once it listens again, and lets this process in then. */
void share_session_leave(struct share_session *session)
{
    session->farewell = WIRE_GOODBYE;
    share_readers_leave(session);
    share_session_stir(session->i);
    share_session_wake(session->i);
}

static enum share_io receive(struct share_session *session)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message;
    size_t len;
    int passed = -1;
    enum share_io io = share_receive(session->fd, bytes, sizeof bytes, &len, &passed);
    if (io == SHARE_DONE && passed >= 0) {
        close(passed);
        io = SHARE_BROKEN;
    }
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
    while (session->fd >= 0 && count++ < DRAIN_MAX && (io = receive(session)) == SHARE_DONE)
        pthread_cond_broadcast(&session->i->changed);
    if (session->fd >= 0 && io != SHARE_AGAIN && io != SHARE_DONE)
        share_session_end(session);
}

/* Waits for the socket, for all who wait. The lock is let go meanwhile. */
static void pump(struct share_session *session, uint64_t deadline)
{
    weir_import *i = session->i;
    struct pollfd readable[] = { { .fd = session->fd, .events = POLLIN }, { .fd = i->wake_fd, .events = POLLIN } };
    if (i->is_watched) {
        i->is_watched = false;
        weir__service_watch(&i->job, -1);
    }
    i->is_pumping = true;
    i->pumps++;
    pthread_mutex_unlock(&i->lock);
    poll(readable, 2, milliseconds_until(deadline));
    pthread_mutex_lock(&i->lock);
    i->is_pumping = false;
    eventfd_t wakes;
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
    /* It may lie in the socket, where this process has slept through the deadline. What others wait for is read here, too. */
    if (!is_done(data) && session->fd >= 0 && !session->farewell) {
        share_session_drain(session);
        share_session_stir(i);
    }
    /* The service thread takes over the socket some time after the last wait; that of a new session has never been watched. */
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
    share_session_wake(session->i);
}

void share_session_wake(weir_import *i)
{
    weir__service_wake(&i->job, 0);
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

static weir_status say_hello(struct share_session *session, uint64_t deadline, weir_error *error, struct wire_message *welcome,
                             int *pool_fd)
{
    struct wire_message hello = { .type = WIRE_HELLO, .request = 1, .u.hello.role = WIRE_ROLE_IMPORTER };
    unsigned char bytes[WIRE_SIZE_MAX];
    const weir_import *i = session->i;
    size_t len;
    share_program_name(hello.u.hello.name);
    enum share_io io = share_send(session->fd, bytes, wire_encode(&hello, bytes), -1);
    /* Who is turned away before it said HELLO is told why. */
    if (io == SHARE_CLOSED)
        io = SHARE_DONE;
    struct pollfd readable = { .fd = session->fd, .events = POLLIN };
    while (io == SHARE_DONE && (io = share_receive(session->fd, bytes, sizeof bytes, &len, pool_fd)) == SHARE_AGAIN) {
        int left = milliseconds_until(deadline);
        if (left == 0 || (poll(&readable, 1, left) == 0))
            return weir__fail(error, WEIR_TIMEOUT, "import '%s': the exporter does not answer: is it stopped, or retiring its pool",
                              i->socket);
        io = SHARE_DONE;
    }
    if (io == SHARE_CLOSED)
        return weir__fail(error, WEIR_GONE, "import '%s': the exporter closed the connection", i->socket);
    uint16_t version = 0;
    enum wire_fault fault = io == SHARE_DONE ? wire_decode(bytes, len, welcome, &version) : WIRE_NOT_WEIR;
    if (fault == WIRE_OTHER_VERSION)
        return weir__fail(error, WEIR_REFUSED,
                          "import '%s': the exporter speaks version %u of the protocol, this library version %d: use the "
                          "same release on both sides",
                          i->socket, version, WIRE_VERSION);
    if (fault == WIRE_GOOD && welcome->type == WIRE_REFUSED)
        return weir__fail(error, (weir_status)welcome->u.refused.status, "import '%s': %s", i->socket, welcome->u.refused.text);
    if (fault != WIRE_GOOD || welcome->type != WIRE_WELCOME || *pool_fd < 0)
        return weir__fail(error, WEIR_PROTOCOL, "import '%s': what listens there is no exporter of Weir", i->socket);
    return WEIR_OK;
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
    gpu->forget_error(code);
    if (strcmp(gpu->name, "sim") == 0)
        return weir__fail_gpu(error, gpu, code,
                              "importing the pool of '%s' (simulated processes share a machine by the same WEIR_SIM=name=...)",
                              session->i->socket);
    return weir__fail_gpu(error, gpu, code, "importing the pool of '%s'", session->i->socket);
}

static weir_status begin(struct share_session *session, uint64_t deadline, weir_error *error)
{
    weir_import *i = session->i;
    struct wire_message welcome = { 0 };
    int pool_fd = -1;
    char path[SHARE_PATH_SIZE];
    weir_status status = share_path(i->socket, false, false, error, path);
    if (status == WEIR_OK)
        status = share_connect(path, (unsigned)milliseconds_until(deadline), error, &session->fd);
    if (status == WEIR_OK)
        status = share_process_of(session->fd, error, &session->exporter);
    if (status == WEIR_OK)
        status = say_hello(session, deadline, error, &welcome, &pool_fd);
    if (status == WEIR_OK) {
        session->epoch = welcome.u.welcome.epoch;
        status = find_device(i, welcome.u.welcome.uuid, error, &session->device);
    }
    if (status == WEIR_OK)
        status = import_pool(session, pool_fd, error);
    if (pool_fd >= 0)
        close(pool_fd);
    return status;
}

static enum share_io say_farewell(const struct share_session *session)
{
    struct wire_message message = { .type = (enum wire_type)session->farewell };
    unsigned char bytes[WIRE_SIZE_MAX];
    if (session->farewell == WIRE_RETIRED)
        message.u.epoch.epoch = session->epoch;
    return share_send(session->fd, bytes, wire_encode(&message, bytes), -1);
}

/* Says farewell, and waits until the exporter has heard it, so that it lets this process in again. */
static void take_leave(struct share_session *session)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct pollfd readable = { .fd = session->fd, .events = POLLIN };
    /* The service thread has others to serve: a stopped exporter is not waited for long. */
    uint64_t deadline = share_deadline(session->i->timeout_ms < PATIENCE_MS ? session->i->timeout_ms : PATIENCE_MS);
    enum share_io io;
    while ((io = say_farewell(session)) == SHARE_AGAIN && milliseconds_until(deadline))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    while (io == SHARE_DONE || io == SHARE_AGAIN) {
        int passed = -1;
        size_t len;
        int left = milliseconds_until(deadline);
        if (left == 0 || poll(&readable, 1, left) == 0)
            return;
        io = share_receive(session->fd, bytes, sizeof bytes, &len, &passed);
        if (passed >= 0)
            close(passed);
    }
}

static void free_session(struct share_session *session)
{
    share_session_close(session);
    if (session->exporter.pidfd >= 0)
        share_process_close(&session->exporter);
    free(session);
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
        session->farewell = WIRE_GOODBYE;
        if (session->epoch)
            take_leave(session);
        else if (session->exporter.pidfd >= 0)
            say_farewell(session); /* HELLO may be answered yet: an exporter that is slow must not take this process for an importer */
        free_session(session);
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

/* Blocks that are still mapped from a living exporter must not be imported again: CUDA would count the two as one. With the lock. */
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

/* What is to end ends first, once other threads have seen that it does: the exporter lets a process in once at a time. */
static void give_back(weir_import *i, uint64_t deadline)
{
    bool is_left = true;
    while (is_left) {
        if (!share_sessions_tidy(i))
            i->gpu->pause(100000);
        /* Who tidies up keeps what takes its leave off the list, with mapping_lock. */
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

static weir_status refuse_for_leases(const weir_import *i, weir_error *error)
{
    return weir__fail(error, WEIR_GONE, "import '%s': the connection has ended, and leases of it are still in use: release them first",
                      i->socket);
}

weir_status share_session_ensure(weir_import *i, uint64_t deadline, weir_error *error)
{
    pthread_mutex_lock(&i->lock);
    while (i->is_connecting)
        pthread_cond_wait(&i->changed, &i->lock);
    bool is_connected = i->session && !i->session->farewell;
    bool is_barred = !is_connected && has_old_leases(i);
    i->is_connecting = !is_connected && !is_barred;
    pthread_mutex_unlock(&i->lock);
    if (is_barred)
        return refuse_for_leases(i, error);
    if (is_connected)
        return WEIR_OK;
    give_back(i, deadline);
    pthread_mutex_lock(&i->lock);
    is_barred = has_old_leases(i); /* who still waited for what is to end may have got one meanwhile */
    pthread_mutex_unlock(&i->lock);
    weir_status status = is_barred ? refuse_for_leases(i, error) : connect_anew(i, deadline, error);
    pthread_mutex_lock(&i->lock);
    i->is_connecting = false;
    pthread_cond_broadcast(&i->changed);
    pthread_mutex_unlock(&i->lock);
    return status;
}

/* Tidying up ----------------------------------------------------------------------------------------------------------------------------- */

/* A block that is to be unmapped, and that nobody uses. With the lock. */
static struct share_mapped *next_withdrawn(struct share_session *session)
{
    struct share_mapped **link = &session->mappings, *mapped;
    while ((mapped = *link) && (!mapped->is_withdrawn || mapped->leases))
        link = &mapped->next;
    if (mapped)
        *link = mapped->next;
    return mapped;
}

/* With mapping_lock. */
static void unmap_withdrawn(struct share_session *session)
{
    weir_import *i = session->i;
    for (;;) {
        pthread_mutex_lock(&i->lock);
        struct share_mapped *mapped = next_withdrawn(session);
        pthread_mutex_unlock(&i->lock);
        if (!mapped)
            return;
        struct wire_message message = { .type = WIRE_UNMAPPED, .u.block.block = mapped->id };
        share_mapped_free(session, mapped);
        pthread_mutex_lock(&i->lock);
        share_session_send(session, &message);
        pthread_mutex_unlock(&i->lock);
    }
}

/* The first session that is to be given back: it has ended, or the exporter wants its pool. With the lock: takes it from the list. */
static struct share_session *next_finished(weir_import *i)
{
    struct share_session **link = &i->sessions, *session;
    while ((session = *link) && (session->leases || session->users || (session->fd >= 0 && !session->farewell)))
        link = &session->next;
    if (!session)
        return NULL;
    *link = session->next;
    share_readers_leave(session);
    if (session == i->session) {
        i->session = NULL;
        if (i->is_watched)
            weir__service_watch(&i->job, -1);
        i->is_watched = false;
    }
    return session;
}

/* With mapping_lock: what is on the GPU of a session that nobody needs; and it. */
static void finish(struct share_session *session)
{
    share_session_unmap(session);
    if (session->fd >= 0)
        take_leave(session);
    free_session(session);
}

/* Whether all that was released has ended; our own events, which no capture has. With mapping_lock. */
static bool is_quiet(const struct share_session *session)
{
    for (unsigned n = 0; n < WIRE_LEASES_MAX; n++)
        if (session->numbers[n].is_recorded) {
            int code = session->i->gpu->event_query(session->numbers[n].behind);
            session->i->gpu->forget_error(code);
            if (code == GPU_NOT_READY)
                return false;
        }
    return true;
}

bool share_sessions_tidy(weir_import *i)
{
    struct share_session *finished, *busy = NULL, *next;
    enum gpu_capture_mode mode = weir__relaxed_begin(i->gpu);
    pthread_mutex_lock(&i->mapping_lock);
    pthread_mutex_lock(&i->lock);
    struct share_session *session = i->session;
    pthread_mutex_unlock(&i->lock);
    if (session)
        unmap_withdrawn(session);
    do {
        pthread_mutex_lock(&i->lock);
        finished = next_finished(i);
        pthread_mutex_unlock(&i->lock);
        if (finished && is_quiet(finished)) {
            finish(finished);
        } else if (finished) {
            finished->next = busy;
            busy = finished;
        }
    } while (finished);
    bool is_tidy = !busy;
    pthread_mutex_lock(&i->lock);
    for (; busy; busy = next) {
        next = busy->next;
        busy->next = i->sessions;
        i->sessions = busy;
    }
    pthread_mutex_unlock(&i->lock);
    pthread_mutex_unlock(&i->mapping_lock);
    weir__relaxed_end(i->gpu, mode);
    return is_tidy;
}
