/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/pool/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/call.h"
#include "lib/base/table.h"
#include "lib/gpu/clock.h"
#include "lib/pool/weir_internal.h"

#define LINE_SIZE sizeof(((weir_error *)NULL)->text)
#define MORE_SIZE 64 /* of a line's end that says how many others there were */

/* Called with the lock, as are the next two. The kind's own place; else a free one, or that of the kind that was quiet for longest. */
static struct weir__log_kind *find(struct weir__log *log, const char *format, const void *about)
{
    struct weir__log_kind *oldest = &log->kinds[0];
    for (struct weir__log_kind *kind = log->kinds; kind < log->kinds + WEIR__LOG_KINDS; kind++) {
        if (kind->format == format && kind->about == about)
            return kind;
        if (oldest->format && (!kind->format || kind->said < oldest->said))
            oldest = kind;
    }
    return oldest;
}

/* Whether the line is to be logged now; *more: how many of its kind were not since the last that was. */
static bool admit(struct weir__log_kind *kind, uint64_t now, const char *line, uint64_t *more)
{
    if (kind->was_said && now < kind->said + GPU_SECOND) {
        kind->silent++;
        snprintf(kind->latest, sizeof kind->latest, "%.*s", (int)sizeof kind->latest - 1, line);
        return false;
    }
    *more = kind->silent;
    kind->was_said = true;
    kind->said = now;
    kind->silent = 0;
    return true;
}

/* Takes what was not said of a kind. */
static void take_rest(struct weir__log_kind *kind, struct weir__log_kind *rest)
{
    *rest = *kind;
    kind->silent = 0;
}

static void say_rest(const struct weir__log *log, const struct weir__log_kind *rest)
{
    char line[sizeof rest->latest + MORE_SIZE];
    if (rest->silent == 1)
        snprintf(line, sizeof line, "%s", rest->latest);
    else
        snprintf(line, sizeof line, "%s (and %llu more like it before)", rest->latest, (unsigned long long)rest->silent - 1);
    weir__call_say(log->say, log->data, rest->level, line);
}

__attribute__((format(printf, 4, 0))) static void say(weir *w, const void *about, weir_log_level level, const char *format,
                                                      va_list arguments)
{
    struct weir__log *log = &w->log;
    struct weir__log_kind rest = {.silent = 0};
    char line[LINE_SIZE];
    uint64_t more = 0;
    vsnprintf(line, sizeof line - MORE_SIZE, format, arguments);
    for (char *newline = line; (newline = strchr(newline, '\n'));)
        *newline = ';';
    uint64_t now = w->gpu ? w->gpu->now() : 0;
    weir__spin_lock(&log->lock);
    struct weir__log_kind *kind = find(log, format, about);
    if (kind->format != format || kind->about != about) {
        take_rest(kind, &rest);
        *kind = (struct weir__log_kind){.format = format, .about = about, .level = level};
    }
    bool is_said = admit(kind, now, line, &more);
    weir__spin_unlock(&log->lock);
    if (rest.silent)
        say_rest(log, &rest);
    if (more)
        snprintf(line + strlen(line), MORE_SIZE, " (and %llu more like it before)", (unsigned long long)more);
    if (is_said)
        weir__call_say(log->say, log->data, level, line);
}

void weir__log(weir *w, weir_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (w->log.say)
        say(w, NULL, level, format, arguments);
    va_end(arguments);
}

void weir__log_about(weir *w, const void *about, weir_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (w->log.say)
        say(w, about, level, format, arguments);
    va_end(arguments);
}

const void *weir__log_words(const char *text)
{
    return (const void *)(uintptr_t)weir__hash_name(text);
}

void weir__log_init(struct weir__log *log, weir_log_fn say_line, void *data)
{
    log->say = say_line;
    log->data = data;
    weir__spin_init(&log->lock);
}

void weir__log_rest(struct weir__log *log)
{
    struct weir__log_kind rest;
    for (size_t i = 0; i < WEIR__LOG_KINDS && log->say; i++) {
        weir__spin_lock(&log->lock);
        take_rest(&log->kinds[i], &rest);
        weir__spin_unlock(&log->lock);
        if (rest.silent)
            say_rest(log, &rest);
    }
}
