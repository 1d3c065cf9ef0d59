/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/base/forked.h"

#include "lib/base/list.h"

#include <pthread.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct share_forked *first; /* guarded by `lock` */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void share_forked_release(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (struct share_forked *forked = first; forked; forked = forked->next)
        forked->close(forked);
    first = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, share_forked_release, in_child);
}

void share_forked_hold(void)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

void share_forked_add(struct share_forked *forked, void (*close)(struct share_forked *forked))
{
    forked->close = close;
    forked->next = first;
    first = forked;
}

void share_forked_remove(struct share_forked *forked)
{
    WEIR__UNLINK(first, forked, next);
}
