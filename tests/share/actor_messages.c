/* SPDX-License-Identifier: MIT */
/*
 * actor_messages.c - stands between the library and its sockets: counts messages, and kills the process at one of them; and between it and
 * the user database, which it counts the questions to.
 *
 * $ACTOR_DIES_AT=N: at the N-th point that the process comes to. A message that is sent has two, before and after it; one that is received
 * has one, before it was looked at. The command stop_at stops it at one instead, stop_at_give when it has
 * received that message.
 */
#include "config.h"

#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "share/wire/socket.h"
#include "share/wire/wire.h"
#include "tests/share/actor.h"

enum share_io __real_share_send(int fd, const void *bytes, size_t len, int passed);
enum share_io __real_share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed);
enum share_io __wrap_share_send(int fd, const void *bytes, size_t len, int passed);
enum share_io __wrap_share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed);

static atomic_ulong messages;
/* Whoever is spared lives: no thread that came to its point before dies after that. */
static pthread_mutex_t point_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long points;
static bool is_spared;
static atomic_ullong until_stop; /* points; 0: it stops at none */
static atomic_bool stops_at_give;

unsigned long actor_messages(void)
{
    return atomic_load(&messages);
}

void actor_spare(void)
{
    pthread_mutex_lock(&point_lock);
    is_spared = true;
    pthread_mutex_unlock(&point_lock);
}

void actor_stop_at(unsigned long long n)
{
    atomic_store(&until_stop, n);
}

void actor_stop_at_give(void)
{
    atomic_store(&stops_at_give, true);
}

static bool is_give(const void *bytes, size_t len)
{
    struct wire_message message;
    return wire_decode(bytes, len, &message, NULL) == WIRE_GOOD && message.type == WIRE_GIVE;
}

static void stop_if_it_is_time(void)
{
    unsigned long long left = atomic_load(&until_stop);
    while (left && !atomic_compare_exchange_weak(&until_stop, &left, left - 1))
        continue;
    if (left == 1)
        raise(SIGSTOP);
}

static void come_to_point(void)
{
    stop_if_it_is_time();
    const char *dies_at = getenv("ACTOR_DIES_AT");
    if (!dies_at)
        return;
    pthread_mutex_lock(&point_lock);
    if (!is_spared && ++points == strtoul(dies_at, NULL, 10)) {
        kill(getpid(), SIGKILL);
        pause();
    }
    pthread_mutex_unlock(&point_lock);
}

enum share_io __wrap_share_send(int fd, const void *bytes, size_t len, int passed)
{
    come_to_point();
    enum share_io io = __real_share_send(fd, bytes, len, passed);
    if (io == SHARE_DONE) {
        atomic_fetch_add(&messages, 1);
        come_to_point();
    }
    return io;
}

enum share_io __wrap_share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed)
{
    enum share_io io = __real_share_receive(fd, bytes, capacity, len, passed);
    if (io == SHARE_DONE) {
        atomic_fetch_add(&messages, 1);
        if (atomic_load(&stops_at_give) && is_give(bytes, *len) && atomic_exchange(&stops_at_give, false))
            raise(SIGSTOP);
        come_to_point();
    }
    return io;
}

/* The user database ------------------------------------------------------------------------------------------------------------------- */

int __real_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size, struct passwd **found);
int __real_getgrnam_r(const char *name, struct group *group, char *buffer, size_t size, struct group **found);
int __wrap_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size, struct passwd **found);
int __wrap_getgrnam_r(const char *name, struct group *group, char *buffer, size_t size, struct group **found);

static atomic_ulong lookups;

unsigned long actor_lookups(void)
{
    return atomic_load(&lookups);
}

int __wrap_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size, struct passwd **found)
{
    atomic_fetch_add(&lookups, 1);
    return __real_getpwnam_r(name, user, buffer, size, found);
}

int __wrap_getgrnam_r(const char *name, struct group *group, char *buffer, size_t size, struct group **found)
{
    atomic_fetch_add(&lookups, 1);
    return __real_getgrnam_r(name, group, buffer, size, found);
}
