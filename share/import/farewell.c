/* SPDX-License-Identifier: MIT */
/*
 * farewell.c - ends sessions, and unmaps blocks that the exporter has withdrawn.
 *
 * A session that has ended, or got RETIRE, and has no leases left ends in three steps. First everything that it has on the GPU is given
 * back. Then its farewell, RETIRED or GOODBYE, is sent. When the exporter closes the connection, it has heard the farewell, and the session
 * is freed. No thread waits for this, since an exporter may be stopped and the service thread has other jobs.
 */
#include "config.h"

#include <stdlib.h>

#include "share/import/import.h"

/* Pause, in nanoseconds, between two checks whether the last uses of a session's blocks are complete. */
#define TIDY_AGAIN UINT64_C(100000000)
#define PATIENCE_MS 1000               /* time for an exporter to hear a farewell */

/* Farewells; the caller holds i->lock -------------------------------------------------------------------------------------------------- */

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
    /* Without a WELCOME the exporter knows no importer that could leave, so its close is not awaited. */
    session->farewell_until = session->epoch ? share_deadline(patience) : 0;
    share_outbox_say(&session->outbox, session->fd, &message, SIZE_MAX);
    share_session_watch(session);
}

/* Whether the exporter has closed the connection, or its time is up. Messages that still come are dropped. */
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

/* Frees the sessions whose farewell was heard or whose time is up. Returns when the time of the next one is up. */
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

/* Withdrawn blocks --------------------------------------------------------------------------------------------------------------------- */

/* Takes a withdrawn block without leases off the list and returns it, or NULL. The caller holds i->lock. */
static struct share_mapped *next_withdrawn(struct share_session *session)
{
    struct share_mapped **link = &session->mappings, *mapped;
    while ((mapped = *link) && (!mapped->is_withdrawn || mapped->leases))
        link = &mapped->next;
    if (mapped)
        *link = mapped->next;
    return mapped;
}

/* Unmaps the withdrawn blocks that have no leases, and answers UNMAPPED. The caller holds mapping_lock. */
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

/* Giving sessions back; the caller holds mapping_lock ---------------------------------------------------------------------------------- */

/* Takes the first session that can be given back off the list and returns it, or NULL: it has ended or has a farewell to send, and no
   lease or thread uses it. The caller holds i->lock too. */
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

/* Whether all uses of released blocks are complete. It queries this process's own events, which no stream capture can hold. */
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

/* Gives back the sessions that can be given back. Returns whether some have uses that are not complete, and stay listed. */
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
