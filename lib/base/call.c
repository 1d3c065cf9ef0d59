/* SPDX-License-Identifier: MIT */
#include "lib/base/call.h"

#include <stdlib.h>
#include <string.h>

struct weir__line {
    struct weir__line *next;
    weir_log_fn say;
    void *data;
    weir_log_level level;
    char text[];
};

__thread struct weir__calls weir__calls;

void weir__call_say(weir_log_fn say, void *data, weir_log_level level, const char *text)
{
    struct weir__calls *calls = &weir__calls;
    size_t size = strlen(text) + 1;
    struct weir__line *line = calls->depth ? malloc(sizeof *line + size) : NULL;
    if (!line) {
        say(data, level, text);
        return;
    }
    *line = (struct weir__line){ .say = say, .data = data, .level = level };
    memcpy(line->text, text, size);
    if (!calls->lines)
        calls->last = &calls->lines;
    *calls->last = line;
    calls->last = &line->next;
}

static void free_line(struct weir__line **line)
{
    free(*line);
}

/* Ends the call, as a clean-up. If a log function has thrown an exception or ended the thread, lines are left: they are dropped, because
   the weir whose log function should get them may be closed soon. */
static void end_delivery(struct weir__call **call)
{
    struct weir__calls *calls = (*call)->calls;
    while (calls->lines) {
        struct weir__line *line = calls->lines;
        calls->lines = line->next;
        free(line);
    }
    calls->depth--;
    pthread_setcancelstate((*call)->former, NULL);
}

void weir__call_deliver(struct weir__call *call)
{
    struct weir__call *ended __attribute__((cleanup(end_delivery), unused)) = call;
    /* A log function that calls Weir may add lines to the end of the list while the loop runs. */
    while (call->calls->lines) {
        struct weir__line *line __attribute__((cleanup(free_line))) = call->calls->lines;
        call->calls->lines = line->next;
        line->say(line->data, line->level, line->text);
    }
}
