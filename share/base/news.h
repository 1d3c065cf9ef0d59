/* SPDX-License-Identifier: MIT */
/*
 * news.h - log lines that a thread writes while it holds a lock. The application's log function may wait for anything, so the lines are
 * kept and passed to this function later, without the lock.
 *
 * Guarded by the lock of the struct that contains the news.
 */
#ifndef WEIR_SHARE_NEWS_H
#define WEIR_SHARE_NEWS_H

#include <pthread.h>

#include "include/weir.h"

#define SHARE_NEWS_MAX 8

struct share_news {
    unsigned count; /* further lines are dropped while SHARE_NEWS_MAX lines are kept */
    struct {
        weir_log_level level;
        char text[320];
    } lines[SHARE_NEWS_MAX];
};

/* Keeps one line. The caller holds the lock, and makes sure that share_news_tell() is called soon. */
__attribute__((format(printf, 3, 4))) void share_news_add(struct share_news *news, weir_log_level level, const char *format, ...);

/* Logs the kept lines and forgets them. Takes `lock` to copy the lines; no lock is held while they are logged. */
void share_news_tell(struct share_news *news, pthread_mutex_t *lock, weir *w);

#endif
