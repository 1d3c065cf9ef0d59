/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/format.h"
#include "lib/base/sized.h"
#include "share/import/ask.h"

#define TIMEOUT_MS 5000 /* time-out for the exporter's answers, unless the application sets one */
/* Pauses, in nanoseconds, between attempts to connect to an exporter that does not listen yet. */
#define WAIT_PAUSE_MIN GPU_MILLISECOND
#define WAIT_PAUSE_MAX (50 * GPU_MILLISECOND)

/* The service thread --------------------------------------------------------------------------------------------------------------------- */

/* Lets the service thread watch the socket, and reads it, unless a thread has waited lately. Returns when to call it again. */
static uint64_t take_over(weir_import *i)
{
    uint64_t due = WEIR__SERVICE_NEVER;
    pthread_mutex_lock(&i->lock);
    i->is_handed_over = i->was_pumped && !i->is_pumping && !i->polled; /* if a thread pumps, it wakes the job when it stops */
    i->was_pumped = false;
    if (i->session)
        share_session_flush(i->session);
    if (i->is_handed_over) {
        due = weir__service_now() + SHARE_TAKE_OVER;
    } else if (!i->is_pumping) {
        if (i->session)
            share_session_drain(i->session);
        i->is_watched = i->session && !i->session->farewell;
        if (i->session)
            share_session_watch(i->session);
    }
    pthread_mutex_unlock(&i->lock);
    return due;
}

static uint64_t run(struct weir__job *job)
{
    weir_import *i = (weir_import *)((char *)job - offsetof(weir_import, job));
    uint64_t due = weir__service_earlier(take_over(i), share_sessions_tidy(i));
    share_news_tell(&i->news, &i->lock, i->w);
    return due;
}

/* Opening and closing -------------------------------------------------------------------------------------------------------------------- */

static void close_in_child(struct share_forked *forked)
{
    weir_import *i = (weir_import *)((char *)forked - offsetof(weir_import, forked));
    close(i->epoll_fd);
    for (struct share_session *session = i->sessions; session; session = session->next) {
        if (session->fd >= 0)
            close(session->fd);
        close(session->exporter.pidfd);
    }
}

static void destroy(weir_import *i)
{
    if (i->wake_fd >= 0)
        close(i->wake_fd);
    if (i->epoll_fd >= 0)
        close(i->epoll_fd);
    pthread_cond_destroy(&i->changed);
    pthread_mutex_destroy(&i->mapping_lock);
    pthread_mutex_destroy(&i->lock);
    free(i);
}

/* Closes the readers, gives back every session that has no leases, and frees the import if none is left. Sessions with leases stay:
   their blocks may be in use on any stream, which nobody can tell. */
static void end(weir_import *i)
{
    share_forked_hold();
    share_forked_remove(&i->forked);
    share_forked_release();
    weir__service_remove(&i->job);
    while (i->readers)
        weir_reader_close(i->readers);
    pthread_mutex_lock(&i->lock);
    if (i->session)
        i->session->farewell = WIRE_GOODBYE;
    pthread_mutex_unlock(&i->lock);
    share_sessions_finish(i, share_deadline(i->timeout_ms));
    share_news_tell(&i->news, &i->lock, i->w);
    unsigned leases = 0;
    for (struct share_session *session = i->sessions; session; session = session->next) {
        leases += session->leases;
        share_session_close(session);
    }
    if (i->sessions)
        weir__log_about(i->w, i, WEIR_LOG_WARNING,
                        "import '%s' is closed with %u lease%s not released, or with work that has not ended: such blocks stay "
                        "mapped until this process ends",
                        i->socket, leases, weir__plural(leases));
    else
        destroy(i);
}

static void close_with_weir(struct weir__attached *attached)
{
    end((weir_import *)((char *)attached - offsetof(weir_import, attached)));
}

static weir_import *new_import(weir *w, const char *socket, const weir_import_options *options)
{
    weir_import *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    share_cond_init(&i->changed);
    share_mutex_init(&i->mapping_lock);
    share_mutex_init(&i->lock);
    i->spin = share_spin_time();
    i->w = w;
    i->gpu = w->gpu;
    i->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    i->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    snprintf(i->socket, sizeof i->socket, "%s", socket);
    i->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
    i->host_waits = options->host_waits;
    i->job.run = run;
    i->attached.close = close_with_weir;
    return i;
}

/* Connects. If nobody listens it tries again until wait_ms have passed, since the exporter may not even have made the directory of its
   socket yet. */
static weir_status connect_first(weir_import *i, unsigned wait_ms, weir_error *error)
{
    const uint64_t until = share_deadline(wait_ms);
    bool is_news = error && error->status == WEIR_OK;
    for (uint64_t pause = WAIT_PAUSE_MIN;; pause = pause < WAIT_PAUSE_MAX ? 2 * pause : pause) {
        weir_status status = share_session_ensure(i, share_deadline(i->timeout_ms), error);
        if (status != WEIR_GONE || !share_pause(until, pause))
            return status;
        if (is_news)
            weir_error_clear(error);
    }
}

weir_status weir_import_open(weir *w, const char *socket, const weir_import_options *given, weir_error *error, weir_import **out)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !socket || !out)
        return weir__fail(error, WEIR_INVALID, "weir_import_open: w, socket and i must not be NULL");
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    if (given && weir__sized_read(given, "weir_import_options", &options, sizeof options, error) != WEIR_OK)
        return WEIR_INVALID;
    if (options.reserved)
        return weir__fail(error, WEIR_INVALID, "weir_import_open: `reserved` is %u: set it to 0", options.reserved);
    if (strlen(socket) >= SHARE_PATH_SIZE)
        return weir__fail(error, WEIR_INVALID, "weir_import_open: the socket's name has %zu bytes: at most %zu", strlen(socket),
                          SHARE_PATH_SIZE - 1);
    weir_import *i = new_import(w, socket, &options);
    if (!i)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to import '%s'", socket);
    weir_status status = i->wake_fd >= 0 && i->epoll_fd >= 0
                             ? connect_first(i, options.wait_ms, error)
                             : weir__fail(error, WEIR_NO_HOST_MEMORY, "import '%s': no eventfd or epoll: raise ulimit -n", socket);
    /* The service thread is started after the first CUDA call of this import, so that at exit it ends before CUDA does. */
    if (status == WEIR_OK)
        status = weir__service_add(&i->job, error);
    if (status != WEIR_OK) {
        if (i->session)
            i->session->farewell = WIRE_GOODBYE;
        share_sessions_finish(i, share_deadline(i->timeout_ms));
        destroy(i);
        return status;
    }
    weir__service_watch(&i->job, i->epoll_fd);
    weir__attach(w, &i->attached);
    share_forked_hold();
    share_forked_add(&i->forked, close_in_child);
    share_forked_release();
    weir__service_wake(&i->job, 0);
    *out = i;
    return WEIR_OK;
}

void weir_import_close(weir_import *i)
{
    WEIR__CALL;
    if (!i || weir__is_forked())
        return;
    weir__detach(i->w, &i->attached);
    end(i);
}

/* Blocks with a name --------------------------------------------------------------------------------------------------------------------- */

static weir_status ask_for_block(weir_import *i, const char *name, unsigned timeout_ms, weir_error *error, weir_lease **lease)
{
    struct wire_message message = { .type = WIRE_ACQUIRE, .u.acquire.flags = timeout_ms ? WIRE_WAIT : 0 };
    struct share_request request = { .can_be_leased = true };
    uint64_t patience = share_deadline(timeout_ms), answer_by = share_deadline(i->timeout_ms);
    snprintf(message.u.acquire.name, sizeof message.u.acquire.name, "%s", name);
    for (;;) {
        weir_status status = share_session_ensure(i, answer_by, error);
        if (status != WEIR_OK)
            return status;
        pthread_mutex_lock(&i->lock);
        enum share_answer answer = share_ask(i, &message, &request, timeout_ms ? patience : answer_by, timeout_ms);
        pthread_mutex_unlock(&i->lock);
        *lease = request.lease;
        if (answer == SHARE_ANSWERED)
            return request.lease ? WEIR_OK : share_refusal(i, &request, error);
        uint64_t now = weir__service_now();
        if (answer == SHARE_UNANSWERED || (now >= patience && now >= answer_by))
            return weir__fail(error, WEIR_TIMEOUT, "import '%s': the exporter does not answer", i->socket);
        if (now < patience) /* the lost connection may have lasted long, so the new one gets the whole time */
            answer_by = share_deadline(i->timeout_ms);
    }
}

weir_status(weir_import_acquire)(weir_import *i, const char *name, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                 weir_lease **lease)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!i || !name || !lease)
        return weir__fail(error, WEIR_INVALID, "weir_import_acquire: i, name and lease must not be NULL");
    if (!wire_is_name(name))
        return weir__fail(error, WEIR_INVALID, "weir_import_acquire: '%s' cannot be the name of a block", name);
    weir_lease *fresh;
    weir_status status = ask_for_block(i, name, timeout_ms, error, &fresh);
    if (status != WEIR_OK)
        return status;
    status = share_lease_deliver(fresh, stream, share_deadline(timeout_ms > i->timeout_ms ? timeout_ms : i->timeout_ms), error);
    if (status == WEIR_OK) {
        *lease = fresh;
        return WEIR_OK;
    }
    pthread_mutex_lock(&i->lock);
    share_lease_return(fresh);
    pthread_mutex_unlock(&i->lock);
    return status;
}
