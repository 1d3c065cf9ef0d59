/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/list.h"
#include "share/import/ask.h"
#include "share/import/import.h"

/* The polled descriptor; the caller holds i->lock -------------------------------------------------------------------------------------- */

static bool has_news(void *data)
{
    const weir_reader *reader = data;
    return reader->frames || reader->end == SHARE_END_CLOSED || !reader->session;
}

/* If all leases of the reader are in use, event_fd is not readable, although weir_reader_next() would fail without waiting. Otherwise
   the application would be woken again and again until it releases a lease. */
void share_reader_show(weir_reader *reader)
{
    const struct share_session *session = reader->session;
    bool has_something = reader->frames || reader->end == SHARE_END_CLOSED || !session || session->farewell;
    eventfd_t value;
    if (reader->event_fd < 0 || reader->is_shown == has_something)
        return;
    if (has_something)
        eventfd_write(reader->event_fd, 1);
    else
        eventfd_read(reader->event_fd, &value);
    reader->is_shown = has_something;
}

void share_readers_show(struct share_session *session)
{
    for (weir_reader *reader = session->i->readers; reader; reader = reader->next)
        if (reader->session == session)
            share_reader_show(reader);
}

/* Frames; the caller holds i->lock ----------------------------------------------------------------------------------------------------- */

static weir_lease *pop_frame(weir_reader *reader)
{
    weir_lease *frame = reader->frames;
    reader->frames = frame->next;
    if (!reader->frames)
        reader->latest = &reader->frames;
    frame->next = NULL;
    share_reader_show(reader);
    return frame;
}

/* Takes back a frame that could not be delivered. If only the moment was wrong (a capturing stream, a time-out) it becomes the reader's
   next frame again; otherwise it is returned to the exporter. Takes i->lock. */
static void put_back(weir_lease *frame, weir_status status)
{
    weir_reader *reader = frame->reader;
    weir_import *i = frame->session->i;
    pthread_mutex_lock(&i->lock);
    if ((status == WEIR_CAPTURING || status == WEIR_TIMEOUT) && reader->session == frame->session) {
        frame->is_taken = false;
        reader->held--;
        frame->next = reader->frames;
        if (!reader->frames)
            reader->latest = &frame->next;
        reader->frames = frame;
        share_reader_show(reader);
        share_session_stir(i);
    } else {
        share_lease_return(frame);
    }
    pthread_mutex_unlock(&i->lock);
}

void share_readers_lose(struct share_session *session)
{
    for (weir_reader *reader = session->i->readers; reader; reader = reader->next)
        if (reader->session == session && reader->end == SHARE_END_NONE)
            reader->end = SHARE_END_LOST;
}

void share_readers_leave(struct share_session *session)
{
    for (weir_reader *reader = session->i->readers; reader; reader = reader->next) {
        if (reader->session != session)
            continue;
        reader->session = NULL;
        while (reader->frames)
            share_lease_forget(pop_frame(reader));
        share_reader_show(reader);
    }
}

/* Subscribing ---------------------------------------------------------------------------------------------------------------------------- */

static weir_status subscribe(weir_reader *reader, uint64_t deadline, weir_error *error)
{
    weir_import *i = reader->i;
    struct wire_message message = { .type = WIRE_SUBSCRIBE, .u.subscribe.leases = reader->wanted };
    struct share_request request = { .reader = reader };
    memcpy(message.u.subscribe.name, reader->name, sizeof reader->name);
    for (;;) {
        weir_status status = share_session_ensure(i, deadline, error);
        if (status != WEIR_OK)
            return status;
        pthread_mutex_lock(&i->lock);
        while (reader->is_subscribing)
            pthread_cond_wait(&i->changed, &i->lock);
        bool is_subscribed = reader->session;
        reader->is_subscribing = !is_subscribed;
        enum share_answer answer = is_subscribed ? SHARE_ANSWERED : share_ask(i, &message, &request, deadline, false);
        reader->is_subscribing = false;
        pthread_cond_broadcast(&i->changed);
        pthread_mutex_unlock(&i->lock);
        if (is_subscribed || (answer == SHARE_ANSWERED && request.answer.type == WIRE_SUBSCRIBED))
            return WEIR_OK;
        if (answer == SHARE_ANSWERED)
            return share_refusal(i, &request, error);
        if (answer == SHARE_UNANSWERED)
            return weir__fail(error, WEIR_TIMEOUT, "import '%s': the exporter does not answer", i->socket);
    }
}

weir_status weir_reader_open(weir_import *i, const char *ring, unsigned leases, weir_error *error, weir_reader **out)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!i || !ring || !out)
        return weir__fail(error, WEIR_INVALID, "weir_reader_open: i, ring and reader must not be NULL");
    if (!wire_is_name(ring))
        return weir__fail(error, WEIR_INVALID, "weir_reader_open: '%s' cannot be the name of a ring", ring);
    if (leases >= WIRE_LEASES_MAX)
        return weir__fail(error, WEIR_INVALID, "weir_reader_open: %u leases: at most %d", leases, WIRE_LEASES_MAX - 1);
    weir_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a reader");
    reader->i = i;
    reader->wanted = leases;
    reader->latest = &reader->frames;
    reader->event_fd = -1;
    snprintf(reader->name, sizeof reader->name, "%s", ring);
    pthread_mutex_lock(&i->lock);
    reader->next = i->readers;
    i->readers = reader;
    pthread_mutex_unlock(&i->lock);
    weir_status status = subscribe(reader, share_deadline(i->timeout_ms), error);
    if (status != WEIR_OK) {
        weir_reader_close(reader);
        return status;
    }
    *out = reader;
    return WEIR_OK;
}

/* Unsubscribes, and waits for the answer, after which no frame of the ring can come; then returns the frames that were not taken. The
   caller holds i->lock. */
static void unsubscribe(weir_reader *reader)
{
    struct wire_message message = { .type = WIRE_UNSUBSCRIBE, .u.unsubscribe.ring = reader->ring };
    struct share_request request = { .can_be_done = true };
    if (reader->end == SHARE_END_NONE)
        share_ask(reader->i, &message, &request, share_deadline(reader->i->timeout_ms), false);
    while (reader->frames)
        share_lease_return(pop_frame(reader));
}

void weir_reader_close(weir_reader *reader)
{
    WEIR__CALL;
    if (!reader || weir__is_forked())
        return;
    weir_import *i = reader->i;
    pthread_mutex_lock(&i->lock);
    if (reader->session)
        unsubscribe(reader);
    WEIR__UNLINK(i->readers, reader, next);
    reader->session = NULL;
    if (reader->event_fd >= 0) {
        close(reader->event_fd);
        reader->event_fd = -1;
        i->polled--;
    }
    reader->is_closed = true;
    bool is_unused = reader->held == 0;
    pthread_mutex_unlock(&i->lock);
    if (is_unused)
        free(reader);
}

/* Reading -------------------------------------------------------------------------------------------------------------------------------- */

static weir_status fail_ended(const weir_reader *reader, weir_error *error)
{
    return weir__fail(error, WEIR_ENDED, "ring '%s' was closed by its producer: a later call looks for the next one of that name", reader->name);
}

/* Subscribes to a ring of the reader's name. If there is none, and the last ring was closed by its producer, the result is WEIR_ENDED
   again. */
static weir_status subscribe_again(weir_reader *reader, uint64_t deadline, weir_error *error)
{
    weir_error why = WEIR_ERROR_INIT;
    weir_status status = subscribe(reader, deadline, &why);
    if (status == WEIR_OK)
        return WEIR_OK;
    pthread_mutex_lock(&reader->i->lock);
    bool has_ended = reader->end == SHARE_END_TOLD && (status == WEIR_GONE || status == WEIR_NOT_FOUND);
    pthread_mutex_unlock(&reader->i->lock);
    if (has_ended)
        return fail_ended(reader, error);
    if (error && error->status == WEIR_OK)
        *error = why;
    return status;
}

/* Takes the next frame, or sets the error. If the connection ends while it waits, *lease is NULL and the result WEIR_OK. The caller
   holds i->lock. */
static weir_status next_frame(weir_reader *reader, uint64_t deadline, weir_error *error, weir_lease **lease)
{
    struct share_session *session = reader->session;
    *lease = NULL;
    if (session && !has_news(reader) && reader->held >= reader->limit)
        return weir__fail(error, WEIR_BUSY, "ring '%s': all %u leases of this reader are in use: release one, or open the reader with more",
                          reader->name, reader->limit);
    if (session)
        share_session_wait(session, has_news, reader, deadline);
    if (reader->frames) {
        *lease = pop_frame(reader);
        (*lease)->is_taken = true;
        reader->held++;
        return WEIR_OK;
    }
    if (reader->end == SHARE_END_CLOSED) {
        reader->end = SHARE_END_TOLD;
        reader->session = NULL;
        share_reader_show(reader);
        return fail_ended(reader, error);
    }
    if (reader->end == SHARE_END_LOST) {
        reader->end = SHARE_END_NONE;
        return weir__fail(error, WEIR_GONE, "ring '%s': its exporter is gone: the next call looks for another one", reader->name);
    }
    if (reader->session && !reader->session->farewell)
        return weir__fail(error, WEIR_TIMEOUT, "ring '%s': no frame came in the time given", reader->name);
    return WEIR_OK;
}

weir_status(weir_reader_next)(weir_reader *reader, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error, weir_lease **lease)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!reader || !lease)
        return weir__fail(error, WEIR_INVALID, "weir_reader_next: reader and lease must not be NULL");
    weir_import *i = reader->i;
    uint64_t deadline = share_deadline(timeout_ms), answer_by = share_deadline(i->timeout_ms);
    weir_lease *frame = NULL;
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&i->lock);
    bool is_subscribed = reader->session || reader->end == SHARE_END_CLOSED || reader->end == SHARE_END_LOST;
    pthread_mutex_unlock(&i->lock);
    while (status == WEIR_OK && !frame) {
        if (!is_subscribed) {
            if (weir__service_now() < deadline) /* the lost connection may have lasted long, so the new one gets the whole time */
                answer_by = share_deadline(i->timeout_ms);
            status = subscribe_again(reader, answer_by, error);
        }
        is_subscribed = false;
        if (status != WEIR_OK)
            break;
        pthread_mutex_lock(&i->lock);
        status = next_frame(reader, deadline, error, &frame);
        pthread_mutex_unlock(&i->lock);
    }
    if (status != WEIR_OK)
        return status;
    status = share_lease_deliver(frame, stream, deadline > answer_by ? deadline : answer_by, error);
    if (status == WEIR_OK)
        *lease = frame;
    else
        put_back(frame, status);
    return status;
}

/* Polling -------------------------------------------------------------------------------------------------------------------------------- */

int weir_reader_fd(weir_reader *reader)
{
    WEIR__CALL;
    if (weir__check_fork(weir__last_error_reset()) != WEIR_OK)
        return -1;
    if (!reader) {
        weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_reader_fd: reader must not be NULL");
        return -1;
    }
    weir_import *i = reader->i;
    pthread_mutex_lock(&i->lock);
    if (reader->event_fd < 0) {
        reader->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (reader->event_fd >= 0) {
            i->polled++;
            share_reader_show(reader);
            share_session_hand_over(i);
        }
    }
    int fd = reader->event_fd, code = errno;
    pthread_mutex_unlock(&i->lock);
    if (fd < 0)
        weir__fail(weir__last_error_reset(), WEIR_NO_HOST_MEMORY,
                   "ring '%s': no descriptor to poll the reader by: %s", reader->name, strerror(code));
    return fd;
}
