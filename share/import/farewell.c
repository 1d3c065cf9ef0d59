/* SPDX-License-Identifier: MIT */
/*
 * farewell.c - the end of sessions, and what is done meanwhile on the exporter's behalf: blocks that are withdrawn are unmapped.
 *
 * A session that nobody needs is first given back on the GPU. Then its farewell is said, and once the exporter has heard that,
 * which shows by the end of the connection, it is gone. Nobody waits for an exporter meanwhile: it may be stopped, and the service thread
 * has others to serve.
 */
#include "config.h"

#include <stdlib.h>

#include "share/import/import.h"

#define TIDY_AGAIN UINT64_C(100000000) /* nanoseconds between two looks whether work on what an exporter left has ended */
#define PATIENCE_MS 1000               /* for an exporter to hear a farewell */

/* Farewells, with the lock --------------------------------------------------------------------------------------------------------------- */

void share_session_free(struct share_session *session)
{
    share_session_close(session);
    if (session->exporter.pidfd >= 0)
        share_process_close(&session->exporter);
    free(session);
}

void share_session_say_farewell(struct share_session *session)
{
    struct wire_message message = { .type = (enum wire_type)session->farewell };
    unsigned patience = session->i->timeout_ms < PATIENCE_MS ? session->i->timeout_ms : PATIENCE_MS;
    if (session->farewell == WIRE_RETIRED)
        message.u.epoch.epoch = session->epoch;
    session->says_farewell = true;
    /* Whom the exporter has not let in yet it need not let out. */
    session->farewell_until = session->epoch ? share_deadline(patience) : 0;
    share_outbox_say(&session->outbox, session->fd, &message, SIZE_MAX);
    share_session_watch(session);
}

/* Whether the exporter has closed the connection, or time is up. */
static bool has_heard(struct share_session *session)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    enum share_io io;
    share_session_flush(session);
    do {
        size_t len;
        io = share_receive(session->fd, bytes, sizeof bytes, &len, NULL);
    } while (io == SHARE_DONE);
    return io != SHARE_AGAIN || weir__service_now() >= session->farewell_until;
}

/* Goes on with those that say farewell. Returns when the first of them is out of time. */
static uint64_t see_off(weir_import *i)
{
    uint64_t due = WEIR__SERVICE_NEVER;
    for (struct share_session **link = &i->sessions, *session; (session = *link);) {
        if (session->says_farewell && has_heard(session)) {
            *link = session->next;
            share_session_free(session);
            pthread_cond_broadcast(&i->changed);
            continue;
        }
        if (session->says_farewell)
            due = weir__service_earlier(due, session->farewell_until);
        link = &session->next;
    }
    return due;
}

/* What is withdrawn ---------------------------------------------------------------------------------------------------------------------- */

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

/* What is on the GPU, with mapping_lock -------------------------------------------------------------------------------------------------- */

/* The first session that is to be given back: it has ended, or the exporter wants its pool. With the lock: takes it from the list. */
static struct share_session *next_finished(weir_import *i)
{
    struct share_session **link = &i->sessions, *session;
    while ((session = *link) &&
           (session->says_farewell || session->leases || session->users || (session->fd >= 0 && !session->farewell)))
        link = &session->next;
    if (!session)
        return NULL;
    *link = session->next;
    share_readers_leave(session);
    if (session == i->session) {
        i->session = NULL;
        i->is_watched = false;
        share_session_watch(session);
    }
    return session;
}

/* Whether all that was released has ended; our own events, which no capture has. */
static bool is_quiet(const struct share_session *session)
{
    for (unsigned n = 0; n < WIRE_LEASES_MAX; n++)
        if (session->numbers[n].is_recorded && session->i->gpu->event_query(session->numbers[n].behind) == GPU_NOT_READY)
            return false;
    return true;
}

static struct share_session *put_back(struct share_session *list, struct share_session *session)
{
    session->next = list;
    return session;
}

/* Gives back what is finished and quiet. Returns whether some is not quiet. */
static bool give_back_finished(weir_import *i)
{
    struct share_session *finished, *busy = NULL;
    pthread_mutex_lock(&i->lock);
    while ((finished = next_finished(i))) {
        pthread_mutex_unlock(&i->lock);
        bool is_free = is_quiet(finished);
        if (is_free)
            share_session_unmap(finished);
        else
            busy = put_back(busy, finished);
        pthread_mutex_lock(&i->lock);
        if (is_free && finished->fd >= 0) {
            i->sessions = put_back(i->sessions, finished);
            share_session_say_farewell(finished);
        } else if (is_free) {
            share_session_free(finished);
        }
    }
    bool is_busy = busy;
    for (struct share_session *next; busy; busy = next) {
        next = busy->next;
        i->sessions = put_back(i->sessions, busy);
    }
    pthread_mutex_unlock(&i->lock);
    return is_busy;
}

/* Tidying up ----------------------------------------------------------------------------------------------------------------------------- */

uint64_t share_sessions_tidy(weir_import *i)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(i->gpu);
    pthread_mutex_lock(&i->mapping_lock);
    pthread_mutex_lock(&i->lock);
    struct share_session *session = i->session;
    pthread_mutex_unlock(&i->lock);
    if (session)
        unmap_withdrawn(session);
    bool is_busy = give_back_finished(i);
    pthread_mutex_lock(&i->lock);
    uint64_t due = see_off(i);
    pthread_mutex_unlock(&i->lock);
    pthread_mutex_unlock(&i->mapping_lock);
    weir__relaxed_end(i->gpu, mode);
    return is_busy ? weir__service_earlier(due, weir__service_now() + TIDY_AGAIN) : due;
}

void share_sessions_finish(weir_import *i, uint64_t deadline)
{
    while (share_sessions_tidy(i) != WEIR__SERVICE_NEVER && weir__service_now() < deadline)
        i->gpu->pause(SHARE_FINISH_PAUSE);
    pthread_mutex_lock(&i->lock);
    for (struct share_session *session = i->sessions; session; session = session->next)
        session->farewell_until = 0;
    see_off(i);
    pthread_mutex_unlock(&i->lock);
}
