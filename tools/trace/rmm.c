/* SPDX-License-Identifier: MIT */
#include "tools/trace/rmm.h"
#include "tools/common/complain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADING "Thread,Time,Action,Pointer,Size,Stream"

enum { COLUMNS = 6, LINE_MAX_LEN = 512, POOL_ID = 1 };

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

struct trace_log {
    FILE *file;
    struct trace_map threads; /* id: number */
};

/* Where a play stands. */
struct place {
    uint64_t line; /* its number, from 1 */
    uint64_t days; /* that began since the first line */
    uint64_t first, last;
    bool has_first;
};

bool trace_rmm_is(int fd)
{
    char head[sizeof HEADING - 1];
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
           memcmp(head, HEADING, sizeof head) == 0;
}

/* A number up to the end of the text, which may be no other. */
static bool read_number(const char *text, int base, uint64_t *value)
{
    char *end;
    if (strspn(text, "0123456789abcdefABCDEF") == 0)
        return false;
    *value = strtoull(text, &end, base);
    return *end == '\0';
}

/* Hexadecimal where it says 0x; "(nil)" is glibc's way to print no pointer. */
static bool read_pointer(const char *text, int base, uint64_t *value)
{
    *value = 0;
    return strcmp(text, "(nil)") == 0 || read_number(text, strncmp(text, "0x", 2) == 0 ? 16 : base, value);
}

/* HH:MM:SS.ffffff as nanoseconds of its day. */
static bool read_time(const char *text, uint64_t *time)
{
    unsigned hours, minutes, seconds;
    int len = 0;
    /* Two digits at most cannot be too large. NOLINTNEXTLINE(cert-err34-c) */
    if (strlen(text) > 24 || sscanf(text, "%2u:%2u:%2u%n", &hours, &minutes, &seconds, &len) != 3 || hours > 23 || minutes > 59 ||
        seconds > 60)
        return false;
    uint64_t fraction = 0, unit = SECOND;
    text += len;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 1; text++)
            fraction += (uint64_t)(*text - '0') * (unit /= 10);
    *time = ((uint64_t)hours * 3600 + minutes * 60 + seconds) * SECOND + fraction;
    return *text == '\0';
}

static bool read_action(const char *text, enum trace_kind *kind)
{
    static const struct {
        const char *action;
        enum trace_kind kind;
    } actions[] = {{"allocate", TRACE_MALLOC}, {"free", TRACE_FREE}, {"allocate failure", TRACE_OUT_OF_MEMORY}};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(text, actions[i].action) == 0) {
            *kind = actions[i].kind;
            return true;
        }
    }
    return false;
}

/* Splits the line, and reads its columns. time: of the day. */
static bool read_line(char *line, struct trace_event *event, uint64_t *time)
{
    char *columns[COLUMNS];
    size_t count = 0;
    for (char *at = line; at; count++) {
        if (count == COLUMNS)
            return false;
        columns[count] = at;
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        at = comma ? comma + 1 : NULL;
    }
    *event = (struct trace_event){0};
    if (count != COLUMNS || !read_number(columns[0], 10, &event->thread) || !read_time(columns[1], time) ||
        !read_action(columns[2], &event->kind) || !read_pointer(columns[3], 16, &event->address) ||
        !read_number(columns[4], 10, &event->size) || !read_pointer(columns[5], 10, &event->stream))
        return false;
    event->given = event->size;
    if (event->kind == TRACE_OUT_OF_MEMORY)
        event->a = event->size;
    return true;
}

/* Times of several threads may step back a little, but by half a day only at midnight. */
static void set_time(struct place *place, struct trace_event *event, uint64_t time)
{
    if (!place->has_first)
        place->first = place->last = time;
    place->has_first = true;
    if (time + DAY / 2 < place->last)
        place->days++;
    place->last = time;
    uint64_t whole = place->days * DAY + time;
    event->time = whole > place->first ? whole - place->first : 0;
}

/* Whether the line was there whole; what is longer is skipped. */
static bool get_line(struct trace_log *log, char line[LINE_MAX_LEN], bool *is_good)
{
    if (!fgets(line, LINE_MAX_LEN, log->file))
        return false;
    size_t len = strlen(line);
    *is_good = len > 0 && line[len - 1] == '\n';
    if (*is_good)
        line[len - 1] = '\0';
    for (int byte = 0; !*is_good && byte != '\n' && byte != EOF;)
        byte = fgetc(log->file);
    return true;
}

static void lose(struct trace *trace, uint64_t line)
{
    if (trace->losses.events++ == 0)
        snprintf(trace->losses.first, sizeof trace->losses.first, "line %" PRIu64 " is none of a log of RMM: it wants %s", line, HEADING);
}

static void census(struct trace *trace, struct trace_event *event)
{
    bool is_new;
    uint32_t *number = trace_map_add(&trace->log->threads, event->thread, 0, &is_new);
    if (is_new)
        *number = (uint32_t)trace->thread_count++;
    trace->events++;
    trace->kinds[event->kind]++;
    trace->last = event->time > trace->last ? event->time : trace->last;
}

/* All lines: to `look`, or, with NULL, to the census. */
static void walk(struct trace *trace, trace_event_fn *look, void *context)
{
    char line[LINE_MAX_LEN];
    struct place place = {0};
    bool is_good;
    rewind(trace->log->file);
    while (get_line(trace->log, line, &is_good)) {
        struct trace_event event;
        uint64_t time;
        place.line++;
        if (place.line == 1)
            continue;
        if (!is_good || !read_line(line, &event, &time)) {
            if (!look)
                lose(trace, place.line);
            continue;
        }
        set_time(&place, &event, time);
        event.order = place.line;
        event.pool = trace_definitions_find(&trace->definitions, TRACE_DEFINES_POOL, POOL_ID, 1);
        if (!look) {
            census(trace, &event);
            continue;
        }
        const uint32_t *number = trace_map_find(&trace->log->threads, event.thread, 0);
        event.thread_number = number ? *number : 0;
        if (!look(context, &event))
            return;
    }
}

bool trace_rmm_open(struct trace *trace, int fd)
{
    static const struct trace_definition pool = {.code = TRACE_DEFINES_POOL, .id = POOL_ID, .strings = {"rmm"}, .lengths = {3}};
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        snprintf(trace->error, sizeof trace->error, "it cannot be read");
        return false;
    }
    trace->is_rmm = true;
    trace->log = must(calloc(1, sizeof *trace->log));
    trace->log->file = file;
    trace_definitions_add(&trace->definitions, &pool, 0);
    trace_definitions_seal(&trace->definitions);
    trace->losses.is_closed = true;
    trace->header.reason = "file";
    walk(trace, NULL, NULL);
    return true;
}

bool trace_rmm_play(struct trace *trace, trace_event_fn *look, void *context)
{
    walk(trace, look, context);
    return true;
}

void trace_rmm_close(struct trace *trace)
{
    if (!trace->log)
        return;
    fclose(trace->log->file);
    trace_map_free(&trace->log->threads);
    free(trace->log);
}
