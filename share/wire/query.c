/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/base/forked.h"
#include "share/base/wait.h"
#include "share/wire/query.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/service.h"
#include "share/wire/closing.h"

#define REQUEST 1 /* the request number of every question, except the HELLO of an importer */
#define KNOCK_AGAIN UINT64_C(2000000) /* nanoseconds between two attempts at a listener whose queue is full */
#define DRAIN_MAX 64                  /* answers read from one process before the others get a turn */

void share_program_name(char name[WIRE_NAME_SIZE])
{
    snprintf(name, WIRE_NAME_SIZE, "%s", program_invocation_short_name);
    for (char *at = name; *at; at++)
        if (!wire_is_name((const char[]){ *at, '\0' }))
            *at = '_';
}

/* Ending ------------------------------------------------------------------------------------------------------------------------------- */

static void hang_up(struct share_query *query)
{
    if (query->fd >= 0)
        share_close_socket(query->fd);
    query->fd = -1;
}

static void end(struct share_query *query, weir_status status)
{
    if (query->role != WIRE_ROLE_IMPORTER)
        hang_up(query);
    query->status = status;
    query->is_over = true;
}

__attribute__((format(printf, 3, 4))) static void fail(struct share_query *query, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(query->text, sizeof query->text, format, arguments);
    va_end(arguments);
    end(query, status);
}

/* The kind of process that is asked, for error texts. */
static const char *noun(const struct share_query *query)
{
    return query->role ? "exporter" : "process";
}

static const char *called(const struct share_query *query)
{
    return query->called ? query->called : query->path;
}

static void fail_in_time(struct share_query *query)
{
    fail(query, WEIR_TIMEOUT, "%s: the %s %s in time: is it stopped%s?", called(query), noun(query),
         query->fd >= 0 ? "did not answer" : "took no connection", query->role == WIRE_ROLE_IMPORTER ? ", or retiring its pool" : "");
}

/* Answers ------------------------------------------------------------------------------------------------------------------------------ */

/* The type of the answer that ends the question. */
static enum wire_type final_of(enum wire_type question)
{
    switch (question) {
    case WIRE_OFFER:
        return WIRE_OFFERED;
    case WIRE_GIVE:
    case WIRE_TRIM:
    case WIRE_SLEEP:
        return WIRE_GAVE;
    case WIRE_PAGE:
        return WIRE_PAGED;
    case WIRE_HELLO:
        return WIRE_WELCOME;
    case WIRE_LIST:
    case WIRE_COUNT:
    case WIRE_EVICT:
        return WIRE_DONE;
    default:
        return WIRE_READY;
    }
}

static bool is_part_of(enum wire_type question, enum wire_type answer)
{
    return (question == WIRE_FIGURES && answer == WIRE_TEXT) ||
           (question == WIRE_LIST && (answer == WIRE_IMPORTER || answer == WIRE_HOLDS)) ||
           (question == WIRE_COUNT && (answer == WIRE_EXPORT || answer == WIRE_RING));
}

static void send_question(struct share_query *query, const struct wire_message *question);

static void take(struct share_query *query, const struct wire_message *answer)
{
    enum wire_type asked = query->role && !query->is_welcome ? WIRE_HELLO : query->question.type;
    bool is_final = answer->type == final_of(asked);
    if (answer->type == WIRE_DENIED) {
        snprintf(query->text, sizeof query->text, "%s", answer->u.refused.text);
        end(query, (weir_status)answer->u.refused.status);
    } else if (answer->type == WIRE_REFUSED) {
        fail(query, (weir_status)answer->u.refused.status, "%s: %s", called(query), answer->u.refused.text);
    } else if (answer->request != query->question.request || (!is_final && !is_part_of(asked, answer->type)) ||
               (query->take && !query->take(query, answer))) {
        fail(query, WEIR_PROTOCOL, "%s: the %s answered %s with %s, which does not belong there", called(query), noun(query),
             wire_type_name(asked), wire_type_name(answer->type));
    } else if (asked == WIRE_HELLO && query->role == WIRE_ROLE_OBSERVER) {
        query->is_welcome = true;
        send_question(query, &query->question);
    } else if (is_final) {
        end(query, WEIR_OK);
    }
}

static void take_packet(struct share_query *query, const unsigned char *bytes, size_t len)
{
    struct wire_message answer;
    uint16_t version = 0;
    enum wire_fault fault = wire_decode(bytes, len, &answer, &version);
    if (fault == WIRE_OTHER_VERSION)
        fail(query, WEIR_REFUSED, "%s: the %s speaks version %u of the protocol, this one version %d: use the same release of Weir",
             called(query), noun(query), version, query->role ? WIRE_SHARE_VERSION : WIRE_CONTROL_VERSION);
    else if (fault != WIRE_GOOD || wire_sender(answer.type) != (query->role ? WIRE_EXPORTER_SENDS : WIRE_PROCESS_SENDS))
        fail(query, WEIR_PROTOCOL, "%s: what listens there does not keep to the protocol of Weir", called(query));
    else
        take(query, &answer);
}

static void drain(struct share_query *query)
{
    /* For an importer the pool's descriptor comes with WELCOME, and that of a page with PAGED. */
    bool gets_one = query->role == WIRE_ROLE_IMPORTER || query->question.type == WIRE_PAGE;
    int *passed = gets_one && query->pool_fd < 0 ? &query->pool_fd : NULL;
    for (int taken = 0; taken < DRAIN_MAX && !query->is_over && query->fd >= 0; taken++) {
        unsigned char bytes[WIRE_SIZE_MAX];
        size_t len;
        if (passed) /* a child of a fork finds the descriptor either in the socket or in the query */
            share_forked_hold();
        enum share_io io = share_receive(query->fd, bytes, sizeof bytes, &len, passed);
        if (passed)
            share_forked_release();
        if (io == SHARE_AGAIN)
            return;
        if (io == SHARE_DONE)
            take_packet(query, bytes, len);
        else if (io == SHARE_CLOSED)
            fail(query, WEIR_GONE, "%s: the %s closed the connection before it had answered", called(query), noun(query));
        else
            fail(query, WEIR_PROTOCOL, "%s: what listens there sends what is no message of Weir", called(query));
    }
}

/* Asking ------------------------------------------------------------------------------------------------------------------------------- */

static void send_question(struct share_query *query, const struct wire_message *question)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    enum share_io io = share_send(query->fd, bytes, wire_encode(question, bytes), -1);
    if (io == SHARE_AGAIN) { /* the socket has room, but the kernel has no memory just now: connect again later */
        hang_up(query);
    } else if (io == SHARE_BROKEN) {
        fail(query, WEIR_PROTOCOL, "%s: what listens there cannot be sent a message", query->path);
    } /* SHARE_CLOSED: the other side may have sent the reason before it closed */
}

static void say(struct share_query *query)
{
    static const struct wire_message hello = { .type = WIRE_HELLO, .request = REQUEST, .u.hello = { WIRE_ROLE_OBSERVER, "weir" } };
    query->is_welcome = false;
    send_question(query, query->role == WIRE_ROLE_OBSERVER ? &hello : &query->question);
}

static weir_status fail_to_connect(weir_error *error, const char *path, unsigned role, int code)
{
    weir_status status = share_errno_status(code);
    switch (status) {
    case WEIR_GONE:
        return weir__fail(error, status, "nobody listens at %s (%s)%s", path, strerror(code),
                          role ? ": start the exporter, or check its share.socket" : "");
    case WEIR_REFUSED:
        return weir__fail(error, status, "%s may not be connected to (%s): %s", path, strerror(code),
                          role == WIRE_ROLE_IMPORTER ? "have share.allow of the exporter name this user or a group of it"
                                                     : "only its user and root may");
    case WEIR_PROTOCOL:
        return weir__fail(error, status, "%s is a socket of another type, so it is none of Weir", path);
    case WEIR_TIMEOUT:
        return weir__fail(error, status, "the listener at %s takes no connection: is it stopped?", path);
    default:
        return weir__fail(error, status, "%s cannot be connected to: %s", path, WEIR__WHY(code, "check share.socket"));
    }
}

weir_status share_connect(const char *path, unsigned role, weir_error *error, int *fd, struct ucred *server)
{
    int connected, code = share_connect_now(path, &connected);
    if (code != 0)
        return fail_to_connect(error, path, role, code);
    weir_status status = share_check_server(connected, path, error, server);
    if (status == WEIR_OK)
        *fd = connected;
    else
        share_close_socket(connected);
    return status;
}

/* Connects and sends the question. Returns false if the queue of the listener is full, so that the caller tries again. */
static bool connect_and_say(struct share_query *query)
{
    weir_error error = WEIR_ERROR_INIT;
    struct ucred server = { 0 };
    weir_status status = share_connect(query->path, query->role, &error, &query->fd, &server);
    query->pid = server.pid;
    query->uid = server.uid;
    if (status == WEIR_OK)
        say(query);
    else if (status != WEIR_TIMEOUT)
        fail(query, status, "%s", error.text);
    return query->is_over || query->fd >= 0;
}

/* Running queries --------------------------------------------------------------------------------------------------------------------- */

/* Connects the questions that have no connection yet. Returns whether some are left without one. */
static bool connect_all(struct share_query *queries, size_t count, uint64_t deadline)
{
    bool is_left = false;
    for (size_t i = 0; i < count; i++)
        if (!queries[i].is_over && queries[i].fd < 0)
            is_left = (i && weir__service_now() >= deadline) || !connect_and_say(&queries[i]) || is_left;
    return is_left;
}

/* Waits for answers, or until the deadline, and reads them. `polled` has an entry for each query. With `knock_again` it waits no longer
   than KNOCK_AGAIN, since some listener's queue was full. */
static void wait_for_answers(struct share_query *queries, size_t count, struct pollfd *polled, uint64_t deadline, bool knock_again)
{
    if (knock_again)
        deadline = weir__service_earlier(deadline, weir__service_now() + KNOCK_AGAIN);
    const struct timespec left = share_time_left(deadline);
    for (size_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){ .fd = queries[i].is_over ? -1 : queries[i].fd, .events = POLLIN };
    if (ppoll(polled, count, &left, NULL) <= 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (polled[i].revents)
            drain(&queries[i]);
}

static bool are_over(const struct share_query *queries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!queries[i].is_over)
            return false;
    return true;
}

static void prepare(struct share_query *query)
{
    query->question.request = query->role == WIRE_ROLE_IMPORTER ? WIRE_KNOWS_EMPTY : REQUEST;
    query->fd = query->pool_fd = -1;
    query->is_over = false;
    query->status = WEIR_OK;
    query->text[0] = '\0';
    query->pid = 0;
    query->uid = 0;
}

void share_query_send(struct share_query *query)
{
    prepare(query);
    connect_and_say(query);
    query->is_sent = true;
}

void share_queries_run(struct share_query *queries, size_t count, uint64_t deadline)
{
    struct pollfd *polled = calloc(count ? count : 1, sizeof *polled);
    for (size_t i = 0; i < count; i++) {
        if (!queries[i].is_sent)
            prepare(&queries[i]);
        queries[i].is_sent = false;
        if (!polled && !queries[i].is_over)
            fail(&queries[i], WEIR_NO_HOST_MEMORY, "%s cannot be asked: no host memory", queries[i].path);
    }
    if (!polled)
        return;
    /* At least one round, so that answers that have arrived are read even after the deadline. */
    do {
        bool is_left = connect_all(queries, count, deadline);
        if (!are_over(queries, count))
            wait_for_answers(queries, count, polled, deadline, is_left);
    } while (!are_over(queries, count) && weir__service_now() < deadline);
    for (size_t i = 0; i < count; i++)
        if (!queries[i].is_over)
            fail_in_time(&queries[i]);
    free(polled);
}
