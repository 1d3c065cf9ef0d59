/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/format.h"
#include "share/control_answer.h"
#include "share/crowd.h"
#include "share/directory.h"

#define SECOND UINT64_C(1000000000)
#define PATIENCE (5 * SECOND) /* for who asks nothing, or reads no answers */
#define REST (SECOND / 10)    /* of the listener when connections cannot be had */
#define EVENTS_MAX 32
#define ACCEPT_MAX 16 /* connections in one go, */
#define SERVE_MAX 8   /* and questions of one connection, so that none keeps the others waiting */
#define WEIRS_MAX 9999 /* of one process */

static void watch(const struct share_control *control, int operation, int fd, uint32_t events, struct share_asker *asker)
{
    struct epoll_event event = { .events = events, .data.ptr = asker };
    epoll_ctl(control->epoll_fd, operation, fd, &event);
}

/* Answers ------------------------------------------------------------------------------------------------------------------------------ */

/* Sends what is to be sent. Who is sent more than its socket takes is asked nothing until it has read that. */
static void flush(struct share_asker *asker)
{
    const unsigned char *bytes;
    size_t len;
    bool was_blocked = asker->is_blocked;
    asker->is_blocked = false;
    while (!asker->is_over && !asker->is_blocked && (bytes = share_outbox_next(&asker->outbox, &len))) {
        enum share_io io = share_send(asker->fd, bytes, len, -1);
        asker->is_blocked = io == SHARE_AGAIN;
        asker->is_over = io == SHARE_CLOSED || io == SHARE_BROKEN;
        if (io == SHARE_DONE) {
            share_outbox_pop(&asker->outbox);
            asker->last = weir__service_now();
        }
    }
    if (asker->is_blocked != was_blocked && !asker->is_over)
        watch(asker->control, EPOLL_CTL_MOD, asker->fd, asker->is_blocked ? EPOLLOUT : EPOLLIN, asker);
}

void share_asker_send(struct share_asker *asker, const struct wire_message *message)
{
    if (!share_outbox_add(&asker->outbox, message))
        asker->is_over = true;
    else if (!asker->is_blocked)
        flush(asker);
}

/* Connections -------------------------------------------------------------------------------------------------------------------------- */

static void add_asker(struct share_control *control, int fd, const struct ucred *peer, weir_error *error)
{
    struct share_asker *asker = calloc(1, sizeof *asker);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = asker };
    if (!asker || epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(asker);
        weir__fail(error, WEIR_NO_HOST_MEMORY, "this process has no host memory for another connection");
        return;
    }
    *asker = (struct share_asker){ .next = control->askers, .control = control, .fd = fd, .pid = peer->pid, .uid = peer->uid };
    asker->last = weir__service_now();
    control->askers = asker;
}

/* Neighbours that run out at once are many processes of one user. */
static bool has_room(const struct share_control *control, const struct ucred *peer, weir_error *error)
{
    static const struct share_crowd_limits limits = { .process = 16, .user = 64 };
    struct share_crowd crowd = { .pid = peer->pid, .uid = peer->uid };
    for (const struct share_asker *asker = control->askers; asker; asker = asker->next)
        share_crowd_count(&crowd, asker->fd, asker->pid, asker->uid);
    return share_crowd_has_room(&crowd, &limits, WEIR_BUSY, error);
}

/* Takes the connection, or the error says why not. */
static void admit(struct share_control *control, int fd, weir_error *error)
{
    struct ucred peer;
    if (!share_peer(fd, &peer))
        weir__fail(error, WEIR_REFUSED, "who is at the other end of the socket cannot be known: %s", strerror(errno));
    else if (peer.uid != geteuid() && peer.uid != 0)
        weir__fail(error, WEIR_REFUSED, "only user %u and root may ask this process, not user %u", (unsigned)geteuid(), (unsigned)peer.uid);
    else if (has_room(control, &peer, error))
        add_asker(control, fd, &peer, error);
}

static void turn_away(int fd, const weir_error *error)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message;
    share_deny(&message, 0, error->status, error->text);
    share_send(fd, bytes, wire_encode(&message, bytes), -1);
    close(fd);
}

/* Without descriptors or memory a connection stays where it is, and would be told of for ever: the listener rests for a while. */
static void rest_if_short(struct share_control *control)
{
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    watch(control, EPOLL_CTL_MOD, control->listener.fd, 0, NULL);
    control->accept_again = weir__service_now() + REST;
}

static uint64_t resume(struct share_control *control, uint64_t now)
{
    if (!control->accept_again)
        return WEIR__SERVICE_NEVER;
    if (now < control->accept_again)
        return control->accept_again;
    control->accept_again = 0;
    watch(control, EPOLL_CTL_MOD, control->listener.fd, EPOLLIN, NULL);
    return 0;
}

static bool accept_one(struct share_control *control)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = share_accept(&control->listener);
    if (fd < 0) {
        rest_if_short(control);
        return false;
    }
    admit(control, fd, &error);
    if (error.status != WEIR_OK)
        turn_away(fd, &error);
    return true;
}

static void accept_some(struct share_control *control)
{
    bool accepted = true;
    for (int count = 0; accepted && count < ACCEPT_MAX; count++) {
        share_forked_hold();
        accepted = accept_one(control);
        share_forked_release();
    }
}

static void serve(struct share_asker *asker, uint32_t events)
{
    if (asker->is_blocked)
        flush(asker);
    /* Who has gone reads nothing more, and is not heard while it is blocked. */
    if (asker->is_blocked && (events & (EPOLLHUP | EPOLLERR)))
        asker->is_over = true;
    for (int served = 0; served < SERVE_MAX && !asker->is_over && !asker->is_blocked; served++) {
        unsigned char bytes[WIRE_SIZE_MAX];
        size_t len;
        int passed = -1;
        enum share_io io = share_receive(asker->fd, bytes, sizeof bytes, &len, &passed);
        if (io == SHARE_AGAIN)
            return;
        if (passed >= 0)
            close(passed);
        if (io != SHARE_DONE || passed >= 0) {
            asker->is_over = true;
            return;
        }
        asker->last = weir__service_now();
        share_asker_answer(asker, bytes, len);
    }
}

static void destroy_asker(struct share_asker *asker, struct share_asker **link)
{
    share_asker_stop(asker);
    share_outbox_clear(&asker->outbox);
    /* A child that was made without fork() may have a copy of the socket, and epoll would go on telling of that. */
    epoll_ctl(asker->control->epoll_fd, EPOLL_CTL_DEL, asker->fd, NULL);
    share_forked_hold();
    *link = asker->next;
    close(asker->fd);
    share_forked_release();
    free(asker);
}

/* Ends those that are over or out of time. Returns when to look again. */
static uint64_t check_askers(struct share_control *control, uint64_t now)
{
    uint64_t next = WEIR__SERVICE_NEVER;
    for (struct share_asker **link = &control->askers, *asker; (asker = *link);) {
        /* Who waits for memory is waited for; that has a deadline of its own. */
        uint64_t limit = asker->give && !asker->is_blocked ? WEIR__SERVICE_NEVER : asker->last + PATIENCE;
        if (asker->is_over || now >= limit) {
            destroy_asker(asker, link);
            continue;
        }
        next = limit < next ? limit : next;
        link = &asker->next;
    }
    return next;
}

/* The service thread ------------------------------------------------------------------------------------------------------------------- */

/* The one that has waited longest is given memory, a step of it: other jobs wait no longer where many ask at once. Returns when to go on. */
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

static uint64_t run(struct weir__job *job)
{
    struct share_control *control = (struct share_control *)((char *)job - offsetof(struct share_control, job));
    enum gpu_capture_mode mode = weir__relaxed_begin(control->w->gpu);
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(control->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr)
            serve(events[i].data.ptr, events[i].events);
        else
            accept_some(control);
    uint64_t now = weir__service_now(), due = resume(control, now);
    due = weir__service_earlier(due, give_step(control, now));
    due = weir__service_earlier(due, check_askers(control, now));
    weir__relaxed_end(control->w->gpu, mode);
    return due;
}

/* Opening and closing ------------------------------------------------------------------------------------------------------------------ */

/* In the child of a fork: the sockets are the parent's to close, or its askers would not see its end. */
static void close_in_child(struct share_forked *forked)
{
    struct share_control *control = (struct share_control *)((char *)forked - offsetof(struct share_control, forked));
    share_listener_forget(&control->listener);
    close(control->epoll_fd);
    for (const struct share_asker *asker = control->askers; asker; asker = asker->next)
        close(asker->fd);
}

static void close_descriptors(struct share_control *control)
{
    if (control->epoll_fd >= 0)
        close(control->epoll_fd);
    share_listener_close(&control->listener);
}

static void close_with_weir(struct weir__attached *attached)
{
    struct share_control *control = (struct share_control *)((char *)attached - offsetof(struct share_control, attached));
    weir__service_remove(&control->job);
    control->w->control_path = NULL;
    enum gpu_capture_mode mode = weir__relaxed_begin(control->w->gpu);
    check_askers(control, WEIR__SERVICE_NEVER);
    weir__relaxed_end(control->w->gpu, mode);
    share_forked_hold();
    share_forked_remove(&control->forked);
    close_descriptors(control);
    share_forked_release();
    free(control);
}

/* Several weirs of one process, and processes that are in other PID namespaces, may want the same name. */
static weir_status listen_somewhere(struct share_control *control, weir_error *error)
{
    char directory[SHARE_PATH_SIZE], path[2 * SHARE_PATH_SIZE];
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    weir_status status = share_control_directory(error, directory);
    if (status != WEIR_OK)
        return status;
    share_control_sockets(true, &paths, &count);
    free(paths);
    for (unsigned n = 1; n <= WEIRS_MAX; n++) {
        weir_error refusal = WEIR_ERROR_INIT;
        snprintf(path, sizeof path, "%s/%ld.%u", directory, (long)getpid(), n);
        status = share_listen(path, 0600, &refusal, &control->listener);
        if (status != WEIR_BUSY)
            return status == WEIR_OK ? status : weir__fail(error, status, "control: %s", refusal.text);
    }
    return weir__fail(error, status, "control: %d sockets of process %ld are in %s already", WEIRS_MAX, (long)getpid(), directory);
}

static weir_status start_serving(struct share_control *control, weir_error *error)
{
    struct epoll_event event = { .events = EPOLLIN };
    control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (control->epoll_fd < 0 || epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, control->listener.fd, &event) != 0)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "control: no epoll descriptor: %s",
                          WEIR__WHY(errno, "raise fs.epoll.max_user_watches"));
    control->job.run = run;
    return weir__service_add(&control->job, error);
}

static weir_status open_descriptors(struct share_control *control, weir_error *error)
{
    share_forked_hold();
    weir_status status = listen_somewhere(control, error);
    if (status == WEIR_OK)
        status = start_serving(control, error);
    if (status == WEIR_OK)
        share_forked_add(&control->forked, close_in_child);
    else
        close_descriptors(control);
    share_forked_release();
    return status;
}

weir_status share_control_open(weir *w, weir_error *error)
{
    struct share_control *control = calloc(1, sizeof *control);
    if (!control)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a control socket");
    control->w = w;
    control->opened_at = weir__service_now();
    control->epoll_fd = control->listener.fd = control->listener.lock_fd = -1;
    weir_status status = open_descriptors(control, error);
    if (status != WEIR_OK) {
        free(control);
        return status;
    }
    w->control_path = control->listener.path;
    control->attached.close = close_with_weir;
    weir__attach(w, &control->attached);
    weir__service_watch(&control->job, control->epoll_fd);
    return WEIR_OK;
}
