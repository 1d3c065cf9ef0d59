/* SPDX-License-Identifier: MIT */
#include "bench/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING "op,id,bytes\n"

/* Files -------------------------------------------------------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* NULL, with errno: it cannot be opened. */
static FILE *open_input(const char *path, bool is_packed)
{
    if (!is_packed)
        return fopen(path, "re");
    /* The shell gets the path as it is, whatever is in it. */
    return setenv("WEIR_BENCH_TRACE", path, 1) == 0 ? popen("exec zstd -dcq -- \"$WEIR_BENCH_TRACE\"", "re") : NULL;
}

/* Whether all of it could be read. */
static bool close_input(FILE *input, bool is_packed)
{
    bool is_good = !ferror(input);
    return (is_packed ? pclose(input) : fclose(input)) == 0 && is_good;
}

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

/* Which blocks live, and how large they are; 0: not live. */
struct blocks {
    uint64_t *bytes;
    size_t room;
};

static void *grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 4096;
    void *larger = realloc(array, more * size);
    if (larger)
        *room = more;
    return larger;
}

/* One line into a step; NULL, or what is wrong with it. */
static const char *read_step(const char *line, struct trace *trace, struct blocks *blocks, struct trace_step *step)
{
    char op, newline;
    if (sscanf(line, "%c,%" SCNu32 ",%" SCNu64 "%c", &op, &step->id, &step->bytes, &newline) != 4 || newline != '\n')
        return "is not op,id,bytes";
    step->is_free = op == 'f';
    if (op == 'f') {
        if (step->id >= trace->block_count || !blocks->bytes[step->id] || blocks->bytes[step->id] != step->bytes)
            return "frees what is not live";
        blocks->bytes[step->id] = 0;
        return NULL;
    }
    if (op != 'a' || step->id != trace->block_count || step->bytes == 0)
        return "asks for no bytes, or with an id that is not the next";
    uint64_t *larger = grow(blocks->bytes, trace->block_count, &blocks->room, sizeof(*larger));
    if (!larger)
        return "finds no memory";
    blocks->bytes = larger;
    blocks->bytes[trace->block_count++] = step->bytes;
    return NULL;
}

static const char *read_steps(FILE *stream, struct trace *trace)
{
    struct blocks blocks = {NULL, 0};
    char line[96];
    size_t room = 0;
    const char *wrong = fgets(line, sizeof(line), stream) && strcmp(line, HEADING) == 0 ? NULL : "is not op,id,bytes";
    while (!wrong && fgets(line, sizeof(line), stream)) {
        struct trace_step *larger = grow(trace->steps, trace->step_count, &room, sizeof(*larger));
        wrong = larger ? NULL : "finds no memory";
        if (wrong)
            break;
        trace->steps = larger;
        wrong = read_step(line, trace, &blocks, &trace->steps[trace->step_count]);
        trace->step_count += !wrong;
    }
    free(blocks.bytes);
    return wrong;
}

bool trace_read(struct trace *trace, const char *path, char *why, size_t len)
{
    bool is_packed = ends_in(path, ".zst");
    FILE *input = open_input(path, is_packed);
    memset(trace, 0, sizeof(*trace));
    if (!input) {
        snprintf(why, len, "%s: cannot be opened: %s", path, strerror(errno));
        return false;
    }
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    snprintf(trace->name, sizeof(trace->name), "%.*s", (int)strcspn(name, "."), name);
    const char *wrong = read_steps(input, trace);
    bool is_whole = close_input(input, is_packed);
    if (wrong)
        snprintf(why, len, "%s: line %zu %s", path, trace->step_count + 2, wrong);
    else if (!is_whole)
        snprintf(why, len, "%s: cannot be read to its end%s", path, is_packed ? " by zstd, which must be installed" : "");
    if (!wrong && is_whole)
        return true;
    trace_clear(trace);
    return false;
}

void trace_clear(struct trace *trace)
{
    free(trace->steps);
    memset(trace, 0, sizeof(*trace));
}
