/* SPDX-License-Identifier: MIT */
/*
 * news.h - lines for the log that come up while a lock is held, to be told once it is not: the application's log function may wait for
 * anything.
 *
 * Guarded by its owner's lock.
 */
#ifndef WEIR_SHARE_NEWS_H
#define WEIR_SHARE_NEWS_H

#include <pthread.h>

#include "include/weir.h"

#define SHARE_NEWS_MAX 8

struct share_news {
    unsigned count; /* beyond SHARE_NEWS_MAX they are dropped */
    struct {
        weir_log_level level;
        char text[320];
    } lines[SHARE_NEWS_MAX];
};

/* With the lock. Somebody is to call share_news_tell() soon. */
__attribute__((format(printf, 3, 4))) void share_news_add(struct share_news *news, weir_log_level level, const char *format, ...);

/* Logs them, without the lock. */
void share_news_tell(struct share_news *news, pthread_mutex_t *lock, weir *w);

#endif
