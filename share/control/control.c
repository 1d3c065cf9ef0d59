/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/format.h"
#include "lib/base/user.h"
#include "share/control/control_answer.h"
#include "share/wire/directory.h"

#define EVENTS_MAX 32
#define SERVE_MAX 8   /* questions of one connection in one run, so that the others get a turn */
#define SWEEP_MS 100  /* time to remove sockets of killed processes */
#define WEIRS_MAX 9999 /* control sockets of one process */

void share_asker_send(struct share_asker *asker, const struct wire_message *message)
{
    asker->is_over = asker->is_over || share_connection_answer(&asker->connection, message, -1, SIZE_MAX) != SHARE_DONE;
}

/* Connections -------------------------------------------------------------------------------------------------------------------------- */

static bool add_asker(struct share_control *control, int fd, const struct ucred *peer, weir_error *error)
{
    struct share_asker *asker = calloc(1, sizeof *asker);
    if (asker) {
        *asker = (struct share_asker){ .next = control->askers, .control = control, .pid = peer->pid, .uid = peer->uid };
        asker->connection = (struct share_connection){ .fd = fd, .epoll_fd = control->server.epoll_fd, .data = asker, .deaf_to = EPOLLIN };
    }
    if (asker && share_connection_open(&asker->connection)) {
        control->askers = asker;
        return true;
    }
    free(asker);
    weir__fail(error, WEIR_NO_HOST_MEMORY, "this process has no host memory for another connection");
    return false;
}

/* Whether there is room for one more connection. Many processes of one user may run out of memory at once, hence the large limit for a
   user. */
static bool has_room(const struct share_control *control, const struct ucred *peer, weir_error *error)
{
    static const struct share_crowd_limits limits = { .process = 16, .user = 64 };
    struct share_crowd crowd = { .pid = peer->pid, .uid = peer->uid };
    for (const struct share_asker *asker = control->askers; asker; asker = asker->next)
        share_crowd_count(&crowd, asker->connection.fd, asker->pid, asker->uid);
    return share_crowd_has_room(&crowd, &limits, WEIR_BUSY, error);
}

static bool admit(struct share_server *server, int fd, weir_error *error)
{
    struct share_control *control = (struct share_control *)((char *)server - offsetof(struct share_control, server));
    struct ucred peer;
    if (!share_peer(fd, &peer))
        weir__fail(error, WEIR_REFUSED, "the process at the other end of the socket cannot be found out: %s", strerror(errno));
    else if (!weir__is_self_or_root(peer.uid))
        weir__fail(error, WEIR_REFUSED, "only user %u and root may ask this process, not user %u%s", (unsigned)geteuid(), (unsigned)peer.uid,
                   weir__user_note(peer.uid));
    else
        return has_room(control, &peer, error) && add_asker(control, fd, &peer, error);
    return false;
}

/* Handles the events of an asker. An asker whose socket is full of answers is not read until it has read them. */
static void serve(struct share_asker *asker, uint32_t events)
{
    struct share_connection *connection = &asker->connection;
    if (connection->is_blocked) {
        share_connection_unblock(connection);
        enum share_io io = share_connection_flush(connection);
        /* An asker that has disconnected never makes room, and is not read while it is blocked: end it here. */
        asker->is_over = asker->is_over || (io == SHARE_AGAIN ? events & (EPOLLHUP | EPOLLERR) : io != SHARE_DONE);
    }
    for (int served = 0; served < SERVE_MAX && !asker->is_over && !connection->is_blocked; served++) {
        unsigned char bytes[WIRE_SIZE_MAX];
        size_t len;
        int passed;
        enum share_io io = share_receive(connection->fd, bytes, sizeof bytes, &len, &passed);
        if (io == SHARE_AGAIN)
            return;
        connection->last = weir__service_now();
        if (io == SHARE_DONE)
            share_asker_answer(asker, bytes, len, passed);
        else
            asker->is_over = true;
    }
}

static void destroy_asker(struct share_asker *asker, struct share_asker **link)
{
    share_asker_stop(asker);
    share_recording_leave(asker->control, asker);
    share_forked_hold();
    *link = asker->next;
    share_connection_close(&asker->connection);
    share_forked_release();
    free(asker);
}

/* Closes the connections that are over, and those that were idle for too long. Returns when to look again. */
static uint64_t check_askers(struct share_control *control, uint64_t now)
{
    uint64_t next = WEIR__SERVICE_NEVER;
    for (struct share_asker **link = &control->askers, *asker; (asker = *link);) {
        /* An asker whose GIVE, TRIM or RECORD is in progress may be silent: a GIVE or TRIM has its own deadline. */
        bool is_busy = asker->give || control->recording.asker == asker;
        bool is_waited_for = is_busy && !asker->connection.is_blocked;
        uint64_t limit = is_waited_for ? WEIR__SERVICE_NEVER : asker->connection.last + SHARE_PATIENCE;
        if (asker->is_over || (!is_waited_for && share_connection_is_late(&asker->connection, now))) {
            destroy_asker(asker, link);
            continue;
        }
        next = limit < next ? limit : next;
        link = &asker->next;
    }
    return next;
}

/* Listening --------------------------------------------------------------------------------------------------------------------------- */

/* Listens at the first free name PID.N, or .PID.N if only pages are handed out, since other weirs of this process, and processes of other PID namespaces, may use the same pid. */
static weir_status listen_somewhere(void *data, struct share_listener *listener, weir_error *error)
{
    const struct share_control *control = data;
    char directory[SHARE_PATH_SIZE], path[2 * SHARE_PATH_SIZE];
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    weir_status status = share_control_directory(error, directory);
    if (status != WEIR_OK)
        return status;
    share_control_sockets(true, share_deadline(SWEEP_MS), &paths, &count);
    free(paths);
    for (unsigned n = 1; n <= WEIRS_MAX; n++) {
        weir_error refusal = WEIR_ERROR_INIT;
        snprintf(path, sizeof path, "%s/%s%ld.%u", directory, control->for_pages ? "." : "", (long)getpid(), n);
        status = share_listen_for_descriptors(path, &refusal, listener);
        if (status != WEIR_BUSY)
            return status == WEIR_OK ? status : weir__fail(error, status, "control: %s", refusal.text);
    }
    return weir__fail(error, status, "control: %d sockets of process %ld are in %s already", WEIRS_MAX, (long)getpid(), directory);
}

/* Notes the new path as weir.control_path, by which a request skips its own weir when it asks the neighbours. If host memory runs out
   the path is NULL, and the weir asks itself like any other. */
static void tell_path(struct share_control *control)
{
    struct share_control_path *path = malloc(sizeof *path);
    if (path) {
        path->next = control->paths;
        memcpy(path->path, control->server.listener.path, sizeof path->path);
        control->paths = path;
    }
    control->w->control_path = path ? path->path : NULL;
}

/* The socket's file was removed, for example by a logout: listens at a new one and logs this. */
static void listen_again(struct share_control *control)
{
    weir_error error = WEIR_ERROR_INIT;
    char former[SHARE_PATH_SIZE];
    weir_status status = share_server_listen_again(&control->server, listen_somewhere, control, former, &error);
    if (status == WEIR_OK)
        tell_path(control);
    weir__log_about(control->w, control, status == WEIR_OK ? WEIR_LOG_INFO : WEIR_LOG_WARNING, "%s was removed: %s", former,
                    status == WEIR_OK ? control->server.listener.path : error.text);
}

/* The service thread ------------------------------------------------------------------------------------------------------------------- */

/* Gives memory to the asker that has waited longest, one step of it, so that other jobs need not wait for many askers. Returns when the
   next step is due. */
static uint64_t give_step(struct share_control *control, uint64_t now)
{
    struct share_asker *first = NULL;
    for (struct share_asker *asker = control->askers; asker; asker = asker->next)
        if (!first || share_asker_due(asker) < share_asker_due(first))
            first = asker;
    if (first && share_asker_due(first) <= now)
        share_asker_go_on(first);
    uint64_t due = WEIR__SERVICE_NEVER;
    for (const struct share_asker *asker = control->askers; asker; asker = asker->next)
        due = weir__service_earlier(due, share_asker_due(asker));
    return due;
}

static void accept_askers(struct share_control *control)
{
    weir_error shortage = WEIR_ERROR_INIT;
    share_server_accept(&control->server, &shortage);
    if (shortage.status != WEIR_OK)
        weir__log_about(control->w, control, WEIR_LOG_WARNING, "%s: who asks is turned away: %s", control->server.listener.path,
                        shortage.text);
}

static uint64_t run(struct weir__job *job)
{
    struct share_control *control = (struct share_control *)((char *)job - offsetof(struct share_control, job));
    enum gpu_capture_mode mode = weir__relaxed_begin(control->w->gpu);
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(control->server.epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr == &control->server)
            accept_askers(control);
        else if (events[i].data.ptr == &control->server.gone_fd)
            share_server_suspect(&control->server);
        else
            serve(events[i].data.ptr, events[i].events);
    uint64_t now = weir__service_now(), due = share_server_resume(&control->server, now);
    if (share_server_is_lost(&control->server, now))
        listen_again(control);
    due = weir__service_earlier(due, control->server.look_at);
    due = weir__service_earlier(due, give_step(control, now));
    due = weir__service_earlier(due, check_askers(control, now));
    due = weir__service_earlier(due, share_recording_look(control));
    weir__relaxed_end(control->w->gpu, mode);
    return due;
}

/* Opening and closing ------------------------------------------------------------------------------------------------------------------ */

/* Runs in the child of a fork. Closes the child's copies of the sockets; with an open copy the askers would not notice the parent's end. */
static void close_in_child(struct share_forked *forked)
{
    struct share_control *control = (struct share_control *)((char *)forked - offsetof(struct share_control, forked));
    share_server_forget(&control->server);
    for (const struct share_asker *asker = control->askers; asker; asker = asker->next)
        close(asker->connection.fd);
}

static void close_with_weir(struct weir__attached *attached)
{
    struct share_control *control = (struct share_control *)((char *)attached - offsetof(struct share_control, attached));
    weir__service_remove(&control->job);
    control->w->control_path = NULL;
    enum gpu_capture_mode mode = weir__relaxed_begin(control->w->gpu);
    share_recording_close(control);
    for (struct share_asker *asker = control->askers; asker; asker = asker->next)
        asker->is_over = true;
    check_askers(control, 0);
    weir__relaxed_end(control->w->gpu, mode);
    share_forked_hold();
    share_forked_remove(&control->forked);
    share_server_close(&control->server);
    share_forked_release();
    for (struct share_control_path *path = control->paths, *next; path; path = next) {
        next = path->next;
        free(path);
    }
    free(control);
}

static weir_status start_serving(struct share_control *control, weir_error *error)
{
    if (!share_server_open(&control->server))
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "control: no epoll descriptor: %s",
                          WEIR__WHY(errno, "raise fs.epoll.max_user_watches"));
    control->job.run = run;
    return weir__service_add(&control->job, error);
}

static weir_status open_descriptors(struct share_control *control, weir_error *error)
{
    share_forked_hold();
    weir_status status = listen_somewhere(control, &control->server.listener, error);
    if (status == WEIR_OK)
        status = start_serving(control, error);
    if (status == WEIR_OK)
        share_forked_add(&control->forked, close_in_child);
    else
        share_server_close(&control->server);
    share_forked_release();
    return status;
}

weir_status share_control_open(weir *w, bool for_pages, weir_error *error)
{
    struct share_control *control = calloc(1, sizeof *control);
    if (!control)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a control socket");
    control->w = w;
    control->for_pages = for_pages;
    control->server = SHARE_SERVER_INIT(WIRE_DENIED, admit);
    weir_status status = open_descriptors(control, error);
    if (status != WEIR_OK) {
        free(control);
        return status;
    }
    tell_path(control);
    control->attached.close = close_with_weir;
    weir__attach(w, &control->attached);
    weir__service_watch(&control->job, control->server.epoll_fd);
    return WEIR_OK;
}
