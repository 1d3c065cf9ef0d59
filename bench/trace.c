/* SPDX-License-Identifier: MIT */
#include "bench/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEADING "op,id,bytes\n"

extern char **environ;

/* Files -------------------------------------------------------------------------------------------------------------------------------- */

struct input {
    FILE *stream;
    pid_t child; /* zstd; 0: none */
};

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Returns 0 or an error number. */
static int unpack(const char *path, struct input *input)
{
    char *const words[] = {(char *)"zstd", (char *)"-dcq", (char *)"--", (char *)path, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe(ends))
        return errno;
    int code = posix_spawn_file_actions_init(&actions);
    if (!code) {
        code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        if (!code)
            code = posix_spawn_file_actions_addclose(&actions, ends[0]);
        if (!code)
            code = posix_spawnp(&input->child, words[0], &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    input->stream = code ? NULL : fdopen(ends[0], "r");
    if (!input->stream)
        close(ends[0]);
    return code;
}

static int open_input(const char *path, struct input *input)
{
    *input = (struct input){.stream = NULL};
    if (ends_in(path, ".zst"))
        return unpack(path, input);
    input->stream = fopen(path, "re");
    return input->stream ? 0 : errno;
}

/* Whether all of it could be read. */
static bool close_input(struct input *input)
{
    int status = 0;
    bool is_good = !ferror(input->stream);
    fclose(input->stream);
    if (input->child && waitpid(input->child, &status, 0) < 0)
        return false;
    return is_good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
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
    struct input input;
    memset(trace, 0, sizeof(*trace));
    int code = open_input(path, &input);
    if (code) {
        snprintf(why, len, "%s: cannot be opened: %s", path, strerror(code));
        return false;
    }
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    snprintf(trace->name, sizeof(trace->name), "%.*s", (int)strcspn(name, "."), name);
    const char *wrong = read_steps(input.stream, trace);
    bool is_whole = close_input(&input);
    if (wrong)
        snprintf(why, len, "%s: line %zu %s", path, trace->step_count + 2, wrong);
    else if (!is_whole)
        snprintf(why, len, "%s: cannot be read to its end%s", path, ends_in(path, ".zst") ? " by zstd, which must be installed" : "");
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
