/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/actor.h"

#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/gpu/sim.h"
#include "lib/pool/weir_internal.h"

#define LINE_MAX_SIZE 8192
#define WORDS_MAX 12
#define NAMES_MAX 2048

struct actor actor;

/* Answers ------------------------------------------------------------------------------------------------------------------------------ */

void actor_say(const char *format, ...)
{
    size_t len = strlen(actor.said);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(actor.said + len, sizeof actor.said - len, format, arguments);
    va_end(arguments);
}

weir_status actor_fail(weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(actor.error.text, sizeof actor.error.text, format, arguments);
    va_end(arguments);
    actor.error.status = status;
    return status;
}

weir_status actor_gpu(int code, const char *what)
{
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return actor_fail(WEIR_CUDA_ERROR, "%s: %s", what, actor.gpu->code_text(code));
}

unsigned long long actor_number(const char *word)
{
    char *unit;
    unsigned long long number = word ? strtoull(word, &unit, 0) : 0;
    return number << (!word ? 0 : unit[0] == 'K' ? 10 : unit[0] == 'M' ? 20 : 0);
}

static void print_answer(weir_status status)
{
    if (status == WEIR_OK) {
        printf("ok%s\n", actor.said);
        return;
    }
    for (char *at = actor.error.text; *at; at++)
        if (*at == '\n')
            *at = ' ';
    printf("fail %s %s\n", weir_status_name(status), actor.error.text);
}

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

static struct {
    enum kind kind;
    char name[32];
    void *thing; /* NULL: the place is free */
} names[NAMES_MAX];

void *actor_get(enum kind kind, const char *name)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (names[i].thing && names[i].kind == kind && strcmp(names[i].name, name) == 0)
            return names[i].thing;
    return NULL;
}

void actor_set(enum kind kind, const char *name, void *thing)
{
    int place = -1;
    for (int i = 0; i < NAMES_MAX; i++) {
        bool is_it = names[i].thing && names[i].kind == kind && strcmp(names[i].name, name) == 0;
        if (is_it || (place < 0 && !names[i].thing))
            place = i;
        if (is_it)
            break;
    }
    if (place < 0)
        abort();
    names[place].kind = kind;
    snprintf(names[place].name, sizeof names[place].name, "%s", name);
    names[place].thing = thing;
}

const char *actor_next(enum kind kind)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (names[i].thing && names[i].kind == kind)
            return names[i].name;
    return NULL;
}

/* The weir ----------------------------------------------------------------------------------------------------------------------------- */

static void log_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

static weir_status open_weir(void)
{
    weir_options options = { sizeof options, actor.words[1], NULL, NULL, log_line, NULL };
    weir_status status = weir_open(&options, &actor.error, &actor.w);
    if (status == WEIR_OK)
        actor.gpu = actor.w->gpu;
    return status;
}

static weir_status reload(void)
{
    return weir_reload(actor.w, actor.words[1], &actor.error);
}

/* As a program does that ends: leases, blocks and streams it gives back; exports, rings, imports and readers are closed with the weir. */
static weir_status close_weir(void)
{
    if (!actor.w)
        return WEIR_OK;
    actor_import_end(true);
    actor_gpu_end();
    weir_close(actor.w);
    actor.w = NULL;
    actor.e = NULL;
    return WEIR_OK;
}

/* As one that does not: leases are still held. */
static weir_status close_bare(void)
{
    actor_gpu_end();
    weir_close(actor.w);
    actor_import_end(false);
    actor.w = NULL;
    actor.e = NULL;
    return WEIR_OK;
}

/* What is there ------------------------------------------------------------------------------------------------------------------------ */

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = -1; /* its own */
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 2; /* . and .. */
}

static weir_status counts(void)
{
    struct sim_census census = { 0 };
    const char *gpu = getenv("WEIR_GPU");
    if (gpu && strcmp(gpu, "sim") == 0)
        sim_census(&census);
    actor_say(" blocks=%zu pools=%zu streams=%zu events=%zu fds=%d", census.blocks, census.pools, census.streams, census.events,
              count_fds());
    return WEIR_OK;
}

/* Bytes of malloc that are in use. */
static weir_status heap(void)
{
    actor_say(" heap=%zu", mallinfo2().uordblks);
    return WEIR_OK;
}

static weir_status memory(void)
{
    uint64_t free_bytes, total;
    const char *why;
    const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
    int code = gpu ? gpu->device_memory(actor.device, &free_bytes, &total) : GPU_NO_DEVICE;
    if (code != GPU_SUCCESS)
        return actor_fail(WEIR_CUDA_ERROR, "device memory");
    actor_say(" free=%llu total=%llu", (unsigned long long)free_bytes, (unsigned long long)total);
    return WEIR_OK;
}

static weir_status messages(void)
{
    actor_say(" messages=%lu", actor_messages());
    return WEIR_OK;
}

static weir_status lookups(void)
{
    actor_say(" lookups=%lu", actor_lookups());
    return WEIR_OK;
}

static weir_status spare(void)
{
    actor_spare();
    return WEIR_OK;
}

/* Arms the simulator: the N-th call of the operation from now on fails. */
static weir_status fail_call(void)
{
    sim_fail(strcmp(actor.words[1], "-") == 0 ? NULL : actor.words[1], (unsigned)actor_number(actor.words[2]), GPU_UNKNOWN);
    return WEIR_OK;
}

static weir_status calls(void)
{
    actor_say(" calls=%llu", (unsigned long long)sim_calls(actor.words[1]));
    return WEIR_OK;
}

/* Runs the rest of the line in a child, which answers in its place by its exit status. Every call has to fail there with WEIR_FORKED. */
static weir_status run_line(char *line);
static weir_status in_child(void)
{
    char line[256];
    int status;
    snprintf(line, sizeof line, "%s", actor.words[1]);
    for (char **word = actor.words + 2; *word; word++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", *word);
    pid_t child = fork();
    if (child == 0)
        _exit((int)run_line(line));
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return actor_fail(WEIR_INVALID, "the child was lost");
    return WEXITSTATUS(status) == WEIR_OK ? WEIR_OK : actor_fail((weir_status)WEXITSTATUS(status), "in the child");
}

/* A child that only lives, with whatever it got from its parent, until it is killed. */
static weir_status leave_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        alarm(300);
        pause();
        _exit(0);
    }
    actor_say(" pid=%d", (int)child);
    return child > 0 ? WEIR_OK : actor_fail(WEIR_INVALID, "no child");
}

static const struct command commands[] = {
    { "open", "POLICY-FILE: opens the weir", open_weir },
    { "reload", "POLICY-FILE", reload },
    { "close", ": releases and frees what it made, and closes the weir", close_weir },
    { "close_bare", ": the same, but releases nothing", close_bare },
    { "counts", ": what there is on the simulator, and descriptors", counts },
    { "heap", ": bytes of malloc in use", heap },
    { "memory", ": of the device", memory },
    { "messages", ": sent and received so far", messages },
    { "lookups", ": of names in the user database so far", lookups },
    { "fail_call", "OPERATION N: the N-th call of the GPU's operation fails; 0: none", fail_call },
    { "calls", "OPERATION: how often it was called", calls },
    { "spare", ": lives on, whatever ACTOR_DIES_AT says", spare },
    { "in_child", "COMMAND…: does it in the child of a fork", in_child },
    { "leave_child", ": forks a child that does nothing", leave_child },
    { NULL, NULL, NULL },
};

/* Obeying ------------------------------------------------------------------------------------------------------------------------------ */

static const struct command *find_command(const char *name)
{
    const struct command *const tables[] = { commands, actor_gpu_commands, actor_export_commands, actor_import_commands,
                                            actor_crowd_commands,   actor_late_commands, actor_memory_commands };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct command *command = tables[i]; command->name; command++)
            if (strcmp(command->name, name) == 0)
                return command;
    return NULL;
}

/* Finds what the next word stands for, if it is to stand for a thing that is there already. */
static weir_status understand(const char *meaning, size_t len, int place)
{
    static const char *const kinds[KINDS] = { [KIND_STREAM] = "STREAM", [KIND_BLOCK] = "BLOCK", [KIND_MARK] = "MARK", [KIND_RING] = "RING",
                                              [KIND_IMPORT] = "IMPORT", [KIND_READER] = "READER", [KIND_LEASE] = "LEASE" };
    size_t kind = 0;
    while (kind < KINDS && (strlen(kinds[kind]) != len || strncmp(meaning, kinds[kind], len) != 0))
        kind++;
    if (kind == KIND_STREAM)
        return actor_stream(actor.words[place], &actor.stream);
    if (kind == KINDS || place > 1)
        return WEIR_OK;
    actor.thing = actor_get((enum kind)kind, actor.words[place]);
    return actor.thing ? WEIR_OK : actor_fail(WEIR_NOT_FOUND, "actor: no %s '%s'", kinds[kind], actor.words[place]);
}

static weir_status run_command(char *text)
{
    char *words[WORDS_MAX + 1] = { NULL }, *rest = NULL;
    int count = 0;
    weir_status status = WEIR_OK;
    for (char *word = strtok_r(text, " ", &rest); word && count < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    actor.words = words;
    const struct command *command = count ? find_command(words[0]) : NULL;
    if (!command)
        return actor_fail(WEIR_INVALID, "actor: no command '%s'", count ? words[0] : "");
    const char *meaning = command->words;
    for (int place = 1; status == WEIR_OK && meaning[0] && meaning[0] != ':' && meaning[0] != '['; place++) {
        size_t len = strcspn(meaning, " :");
        if (place >= count)
            return actor_fail(WEIR_INVALID, "actor: '%s' needs more words: %s", words[0], command->words);
        status = understand(meaning, len, place);
        meaning += len + strspn(meaning + len, " ");
    }
    if (status == WEIR_OK)
        status = command->run();
    if (status != WEIR_OK)
        fprintf(stderr, "%s %s: %s\n", words[0], words[1] ? words[1] : "", actor.error.text);
    return status;
}

/* Its commands, one after the other, until one fails. */
static weir_status run_line(char *line)
{
    char *rest = NULL;
    weir_status status = WEIR_OK;
    actor.error = (weir_error)WEIR_ERROR_INIT;
    actor.said[0] = '\0';
    for (char *text = strtok_r(line, ";\n", &rest); text && status == WEIR_OK; text = strtok_r(NULL, ";\n", &rest))
        status = run_command(text);
    return status;
}

int main(void)
{
    static char line[LINE_MAX_SIZE];
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "quit\n") == 0)
            return EXIT_SUCCESS;
        print_answer(run_line(line));
    }
    _exit(EXIT_FAILURE); /* the test is gone */
}
