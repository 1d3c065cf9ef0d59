/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/serve.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "share/base/wait.h"
#include "share/export/request.h"

#define EVENTS_MAX 32
#define SERVE_MAX 64 /* messages read from one client before the others get a turn */
#define ROUNDS_MAX 64 /* rounds of reading: more than a socket's queue needs */
#define TIMER_SLACK 1000UL /* nanoseconds, for short sleeps */
#define HAND_BACK UINT64_C(250000) /* nanoseconds after the last take until the service thread serves again */
/* Pause between two queries of releases that are not complete: the time since the last one arrived or completed, divided by POLL_PART,
   within bounds (nanoseconds). */
#define POLL_PART 16
#define POLL_SHORTEST UINT64_C(20000)
#define POLL_LONGEST GPU_MILLISECOND

/* Descriptors ---------------------------------------------------------------------------------------------------------------------------- */

bool share_serve_open(weir_export *e)
{
    struct epoll_event sockets = { .events = EPOLLIN };
    e->spin = share_spin_time();
    e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return e->epoll_fd >= 0 && e->wake_fd >= 0 && share_server_open(&e->server) &&
           epoll_ctl(e->server.epoll_fd, EPOLL_CTL_ADD, e->epoll_fd, &sockets) == 0;
}

void share_serve_close(weir_export *e)
{
    int *const fds[] = { &e->epoll_fd, &e->wake_fd };
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* Opens or closes the gate. The caller holds e->lock. This costs a system call. An open gate wakes the service thread only when a socket
   is readable. */
static void set_gate(weir_export *e, bool is_closed)
{
    struct epoll_event event = { .events = is_closed ? 0 : EPOLLIN };
    e->is_gate_closed = is_closed;
    epoll_ctl(e->server.epoll_fd, EPOLL_CTL_MOD, e->epoll_fd, &event);
}

static void close_gate(weir_export *e)
{
    if (e->is_gate_closed)
        return;
    set_gate(e, true);
    e->turn_at = WEIR__SERVICE_NEVER;
}

/* Serving -------------------------------------------------------------------------------------------------------------------------------- */

static void serve_client(struct share_client *client, uint32_t events)
{
    weir_export *e = client->e;
    if (events & EPOLLOUT) {
        pthread_mutex_lock(&e->lock);
        if (client->connection.fd >= 0)
            share_client_catch_up(client);
        pthread_mutex_unlock(&e->lock);
    }
    /* If the client has disconnected, all its messages are read, since its process may be connecting again. */
    for (int served = 0; (served < SERVE_MAX || (events & EPOLLHUP)) && client->connection.fd >= 0; served++) {
        unsigned char bytes[WIRE_SIZE_MAX];
        size_t len;
        enum share_io io = share_receive(client->connection.fd, bytes, sizeof bytes, &len, e->server.listener.is_guarded ? SHARE_GUARDED : NULL);
        if (io == SHARE_AGAIN)
            return;
        if (io == SHARE_DONE && (io = share_request_answer(client, bytes, len)) == SHARE_CLOSED)
            io = SHARE_DONE; /* the answer cannot be sent, but the client's next messages may be a farewell */
        pthread_mutex_lock(&e->lock);
        if (io != SHARE_DONE)
            share_client_evict(client);
        else if (client->said_farewell)
            share_client_forget(client);
        pthread_mutex_unlock(&e->lock);
    }
}

/* Handles the events of the clients' sockets and pidfds. Returns whether there were any. */
static bool serve_round(weir_export *e)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(e->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        const struct share_watch *watch = events[i].data.ptr;
        if (!watch->is_death) {
            serve_client(watch->client, events[i].events);
            continue;
        }
        pthread_mutex_lock(&e->lock);
        if (watch->client->state != SHARE_CLIENT_GONE)
            share_client_forget(watch->client);
        pthread_mutex_unlock(&e->lock);
    }
    return count > 0;
}

static void serve(weir_export *e, bool everything)
{
    pthread_mutex_lock(&e->serving);
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    for (int round = 0; round < (everything ? ROUNDS_MAX : 1) && serve_round(e); round++)
        continue;
    share_clients_poll(e, everything);
    weir__relaxed_end(e->gpu, mode);
    pthread_mutex_unlock(&e->serving);
}

/* When to query the releases again. The longer none has completed, the longer the pause, so that a wait is never much longer than it has
   to be. The caller holds e->lock. */
static uint64_t next_look(const weir_export *e, uint64_t now)
{
    uint64_t after = (now - e->waits_since) / POLL_PART;
    if (!e->waits_since)
        return WEIR__SERVICE_NEVER;
    return now + (after < POLL_SHORTEST ? POLL_SHORTEST : after < POLL_LONGEST ? after : POLL_LONGEST);
}

/* Wakes the producer that sleeps at the sockets. The caller holds e->lock. */
static void wake_sleeper(weir_export *e)
{
    if (e->is_asleep && !e->is_woken)
        e->is_woken = eventfd_write(e->wake_fd, 1) == 0;
}

/* A producer may be sleeping at the sockets, and has not seen the messages that this thread reads. It is woken if a release must be
   queried earlier than it planned when it fell asleep. */
void share_serve(weir_export *e, bool everything)
{
    serve(e, everything);
    pthread_mutex_lock(&e->lock);
    if (next_look(e, weir__service_now()) < e->asleep_until)
        wake_sleeper(e);
    pthread_mutex_unlock(&e->lock);
}

uint64_t share_serve_turn(weir_export *e)
{
    pthread_mutex_lock(&e->lock);
    uint64_t now = weir__service_now(), idle = now - e->taken_at;
    bool is_elsewhere = e->is_gate_closed && (e->has_waiter || idle < HAND_BACK);
    if (!is_elsewhere && e->is_gate_closed)
        set_gate(e, false);
    /* The longer a producer waits, the more rarely the service thread checks on it. The producer tells when it is done. */
    e->turn_at = now + (idle < HAND_BACK ? HAND_BACK - idle : idle);
    uint64_t due = e->turn_at;
    pthread_mutex_unlock(&e->lock);
    if (is_elsewhere)
        return due;
    share_serve(e, false);
    pthread_mutex_lock(&e->lock);
    due = next_look(e, weir__service_now());
    pthread_mutex_unlock(&e->lock);
    return due;
}

/* Producers; the caller holds e->lock -------------------------------------------------------------------------------------------------- */

/* Makes sure that the service thread checks soon whether it must serve again. */
static void expect_turn(weir_export *e, uint64_t now)
{
    if (e->turn_at <= now + 2 * HAND_BACK)
        return;
    e->turn_at = now + HAND_BACK;
    weir__service_wake(&e->job, e->turn_at);
}

bool share_serve_begin(weir_export *e)
{
    uint64_t now = weir__service_now();
    e->taken_at = now;
    close_gate(e);
    expect_turn(e, now);
    return now - e->served_at >= SHARE_SERVE_AGAIN;
}

void share_serve_stir(weir_export *e)
{
    wake_sleeper(e);
    pthread_cond_broadcast(&e->changed);
}

/* Sleeps at the sockets until the time `until`. The kernel may prolong a sleep by its timer slack of 50 us, in which a release often
   completes, so the slack is lowered for short sleeps. */
static void sleep_until(weir_export *e, uint64_t until)
{
    struct pollfd ready[] = { { .fd = e->epoll_fd, .events = POLLIN }, { .fd = e->wake_fd, .events = POLLIN } };
    const struct timespec limit = share_time_left(until);
    int slack = until < weir__service_now() + POLL_LONGEST ? prctl(PR_GET_TIMERSLACK) : -1;
    if (slack > 0)
        prctl(PR_SET_TIMERSLACK, TIMER_SLACK);
    ppoll(ready, 2, &limit, NULL);
    if (slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
}

void share_serve_wait(weir_export *e, uint64_t since, uint64_t deadline)
{
    uint64_t now = weir__service_now();
    if (e->has_waiter) {
        share_cond_wait(&e->changed, &e->lock, deadline);
        return;
    }
    e->taken_at = now;
    close_gate(e);
    e->has_waiter = true;
    e->is_asleep = now - since >= e->spin;
    uint64_t until = e->asleep_until = weir__service_earlier(deadline, next_look(e, now));
    bool sleeps = e->is_asleep;
    pthread_mutex_unlock(&e->lock);
    if (sleeps)
        sleep_until(e, until);
    else
        sched_yield(); /* a reader may need this CPU */
    serve(e, false);
    pthread_mutex_lock(&e->lock);
    eventfd_t wakes;
    if (e->is_woken)
        eventfd_read(e->wake_fd, &wakes);
    e->is_asleep = e->is_woken = e->has_waiter = false;
    e->taken_at = weir__service_now();
    expect_turn(e, e->taken_at);
    pthread_cond_broadcast(&e->changed); /* another waiting producer may be the next to serve */
}
