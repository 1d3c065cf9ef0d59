/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/pool/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/table.h"
#include "lib/gpu/clock.h"
#include "lib/pool/weir_internal.h"
#include "policy/environment.h"
#include "policy/report.h"

#define LINE_SIZE sizeof(((weir_error *)NULL)->text)
#define MORE_SIZE 64 /* bytes for the end of a line, which says how many others were left out */

/* $WEIR_LOG ------------------------------------------------------------------------------------------------------------------------------ */

static const char *const levels[] = { [WEIR_LOG_ERROR] = "error", [WEIR_LOG_WARNING] = "warning", [WEIR_LOG_INFO] = "info" };
#define LEVELS (sizeof levels / sizeof *levels)

weir_status weir__log_open(struct weir__log *log, weir_error *error)
{
    const char *value = policy_environment("WEIR_LOG"), *file = value ? strchr(value, ':') : NULL;
    size_t len = file ? (size_t)(file - value) : value ? strlen(value) : 0, level = 0;
    if (!value || !*value)
        return WEIR_OK;
    while (level < LEVELS && (strlen(levels[level]) != len || strncmp(levels[level], value, len) != 0))
        level++;
    if (level == LEVELS || (file && !file[1]))
        return weir__fail(error, WEIR_INVALID,
                          "WEIR_LOG is '%s': write error, warning or info, and a file behind it if not on standard error, as in "
                          "WEIR_LOG=info:/tmp/weir.log",
                          policy_quote(value).text);
    log->most = (weir_log_level)level;
    /* The descriptor is a copy, so closing or redirecting standard error later does not touch it. O_NONBLOCK: a pipe without a reader
       blocks nobody. */
    log->fd = file ? open(file + 1, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0600)
                   : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (log->fd >= 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID, "WEIR_LOG is '%s', and %s cannot be written: %s", policy_quote(value).text,
                      file ? "that file" : "standard error", WEIR__WHY(errno, "name another file"));
}

void weir__log_close(struct weir__log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}

bool weir__log_is_heard(const struct weir__log *log)
{
    return log->say || log->fd >= 0;
}

/* Writes the line. SIGPIPE (the reader has gone) and SIGXFSZ (the file is at its limit) are blocked and consumed, so that they do not end
   the program. */
static void write_quietly(int fd, const char *line, size_t len)
{
    sigset_t both, former, pending;
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &both, &former);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ);
    if (write(fd, line, len) < 0 && (errno == EPIPE || errno == EFBIG) && !was_pending)
        sigtimedwait(&both, NULL, &(struct timespec){ 0 });
    pthread_sigmask(SIG_SETMASK, &former, NULL);
}

static void put(const struct weir__log *log, weir_log_level level, const char *text)
{
    char line[LINE_SIZE + MORE_SIZE + 64];
    if (log->fd >= 0 && level <= log->most) {
        int len = snprintf(line, sizeof line, "weir[%d]: %s: %s\n", (int)getpid(), levels[level], text);
        for (int i = 0; i < len - 1; i++)
            line[i] = (unsigned char)line[i] < ' ' || line[i] == 0x7f ? '?' : line[i];
        write_quietly(log->fd, line, (size_t)len);
    }
    if (log->say)
        weir__call_say(log->say, log->data, level, text);
}

/* Lines of one kind ---------------------------------------------------------------------------------------------------------------------- */

/* Copies the line, or as many of its sentences as fit into `room` bytes, with "..." where the text is cut. say() has put ';' where lines of
   the text ended; sentences are cut there. */
static void copy_sentences(char *to, size_t room, const char *line)
{
    static const char more[] = " ...";
    size_t end = strlen(line);
    bool is_whole = end < room;
    if (!is_whole) {
        for (end = room - 1; end && !(line[end] == ';' && line[end + 1] == ' ');)
            end--;
        for (size_t at = room - sizeof more; !end && at; at--)
            end = line[at] == ' ' ? at : 0;
        is_whole = line[end] == ';';
    }
    snprintf(to, room, "%.*s%s", (int)end, line, is_whole ? "" : more);
}

/* Returns the entry of the kind; if the kind has none, a free entry or that of the kind logged least recently. Called with the lock, as are
   admit() and take_rest(). */
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

/* Returns whether the line is to be logged now, and sets *more to the number of lines of its kind left out since the last one. Otherwise
   counts and copies the line. */
static bool admit(struct weir__log_kind *kind, uint64_t now, const char *line, uint64_t *more)
{
    if (kind->was_said && now < kind->said + GPU_SECOND) {
        kind->silent++;
        copy_sentences(kind->latest, sizeof kind->latest, line);
        return false;
    }
    *more = kind->silent;
    kind->was_said = true;
    kind->said = now;
    kind->silent = 0;
    return true;
}

/* Moves the lines left out of a kind to `rest`. */
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
    put(log, rest->level, line);
}

__attribute__((format(printf, 4, 0))) static void say(weir *w, const void *about, weir_log_level level, const char *format,
                                                      va_list arguments)
{
    struct weir__log *log = &w->log;
    struct weir__log_kind rest = {.silent = 0};
    char line[LINE_SIZE + MORE_SIZE];
    uint64_t more = 0;
    vsnprintf(line, LINE_SIZE, format, arguments);
    for (char *newline = line; (newline = strchr(newline, '\n'));)
        *newline = ';';
    uint64_t now = w->gpu ? w->gpu->now() : 0;
    pthread_mutex_lock(&w->leaf);
    struct weir__log_kind *kind = find(log, format, about);
    if (kind->format != format || kind->about != about) {
        take_rest(kind, &rest);
        *kind = (struct weir__log_kind){.format = format, .about = about, .level = level};
    }
    bool is_said = admit(kind, now, line, &more);
    pthread_mutex_unlock(&w->leaf);
    if (rest.silent)
        say_rest(log, &rest);
    if (more)
        snprintf(line + strlen(line), MORE_SIZE, " (and %llu more like it before)", (unsigned long long)more);
    if (is_said)
        put(log, level, line);
}

void weir__log(weir *w, weir_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (weir__log_is_heard(&w->log))
        say(w, NULL, level, format, arguments);
    va_end(arguments);
}

void weir__log_about(weir *w, const void *about, weir_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (weir__log_is_heard(&w->log))
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
    log->fd = -1;
}

void weir__log_rest(weir *w)
{
    struct weir__log *log = &w->log;
    struct weir__log_kind rest;
    for (size_t i = 0; i < WEIR__LOG_KINDS && weir__log_is_heard(log); i++) {
        pthread_mutex_lock(&w->leaf);
        take_rest(&log->kinds[i], &rest);
        pthread_mutex_unlock(&w->leaf);
        if (rest.silent)
            say_rest(log, &rest);
    }
}
