/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/base/news.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/pool/weir_internal.h"

void share_news_add(struct share_news *news, weir_log_level level, const char *format, ...)
{
    if (news->count == SHARE_NEWS_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(news->lines[news->count].text, sizeof news->lines[0].text, format, arguments);
    va_end(arguments);
    news->lines[news->count++].level = level;
}

void share_news_tell(struct share_news *news, pthread_mutex_t *lock, weir *w)
{
    pthread_mutex_lock(lock);
    struct share_news told = *news;
    news->count = 0;
    pthread_mutex_unlock(lock);
    for (unsigned n = 0; n < told.count; n++)
        weir__log_about(w, weir__log_words(told.lines[n].text), told.lines[n].level, "%s", told.lines[n].text);
}
