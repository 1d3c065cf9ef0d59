/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/processes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "share/wire/directory.h"
#include "share/wire/query.h"

#define TIMEOUT_DEFAULT_MS 1000
#define MEMORY_MAX (2 * FIGURES_MEMORY_MAX) /* bytes that the figures of all processes of one user take */

/* Sockets ------------------------------------------------------------------------------------------------------------------------------ */

/* A whole number of decimal digits; *end is behind it. false: there is none. */
static bool read_number(const char *text, unsigned long max, unsigned long *number, const char **end)
{
    char *behind;
    errno = 0;
    *number = strtoul(text, &behind, 10);
    *end = behind;
    return text[0] >= '0' && text[0] <= '9' && !errno && *number <= max;
}

/* "4711", "4711.1", with a '*' behind it if it is of another PID namespace; without the second part *number stays as it is. */
static bool read_name(const char *text, int *pid, unsigned *number, bool *is_elsewhere)
{
    unsigned long value;
    const char *at;
    if (!read_number(text, INT_MAX, &value, &at) || value == 0)
        return false;
    *pid = (int)value;
    if (*at == '.') {
        if (!read_number(at + 1, UINT_MAX - 1, &value, &at))
            return false;
        *number = (unsigned)value;
    }
    *is_elsewhere = *at == '*';
    return !at[*is_elsewhere];
}

bool process_read_pid(const char *text, int *pid)
{
    unsigned number = 0;
    bool is_elsewhere;
    return read_name(text, pid, &number, &is_elsewhere) && !strpbrk(text, ".*");
}

bool process_is_operand(const char *text)
{
    struct stat info;
    unsigned number = 0;
    bool is_elsewhere;
    int pid;
    return read_name(text, &pid, &number, &is_elsewhere) || (text[0] == '/' && stat(text, &info) == 0 && S_ISSOCK(info.st_mode));
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One user's sockets must not use up what is needed for another's. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void processes_list(struct processes *processes)
{
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    bool is_elsewhere;
    raise_descriptors();
    share_control_sockets(true, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    *processes = (struct processes){.items = must(calloc(count + 1, sizeof(struct process)))};
    for (size_t i = 0; i < count; i++) {
        struct process *process = &processes->items[processes->count];
        /* Whatever has another name is none of ours, or what the process calls itself is not known yet. */
        if (!read_name(name_of(paths[i]), &process->pid, &process->number, &is_elsewhere) || is_elsewhere)
            continue;
        memcpy(process->socket, paths[i], sizeof process->socket);
        processes->count++;
    }
    free(paths);
}

static void forget_answers(struct process *process)
{
    figures_free(process->figures);
    free(process->text);
    process->figures = NULL;
    process->text = NULL;
    process->text_len = process->text_room = 0;
    process->why[0] = '\0';
    snprintf(process->program, sizeof process->program, "-");
}

void processes_free(struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        forget_answers(&processes->items[i]);
    free(processes->items);
    *processes = (struct processes){0};
}

/* Questions ---------------------------------------------------------------------------------------------------------------------------- */

/* The users whose processes tell their figures, and the bytes that these take here: a user's many processes must not take all memory. */
struct tellers {
    size_t count, room;
    struct teller {
        uint32_t uid;
        size_t bytes;
    } *users;
};

static struct teller *teller_of(struct tellers *tellers, uint32_t uid)
{
    size_t user = 0;
    while (user < tellers->count && tellers->users[user].uid != uid)
        user++;
    if (user == tellers->count) {
        *MUST_ADD(tellers->users, tellers->count, tellers->room) = (struct teller){.uid = uid};
    }
    return &tellers->users[user];
}

/* Whether so many bytes of a process are too many for its user. */
static bool is_too_much(struct process *process, const struct teller *teller, size_t bytes)
{
    if (teller->bytes + bytes > MEMORY_MAX)
        snprintf(process->why, sizeof process->why, "processes of user %u tell more than %s", (unsigned)teller->uid, SIZE_TEXT(MEMORY_MAX));
    return process->why[0];
}

/* What was taken for it is given back. */
static void forget_text(struct process *process, struct teller *teller)
{
    teller->bytes -= process->text_len;
    free(process->text);
    process->text = NULL;
    process->text_len = process->text_room = 0;
}

/* One message of the answer to FIGURES. */
static bool take_piece(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_TEXT)
        return answer->type == WIRE_READY;
    struct teller *teller = teller_of(process->tellers, query->uid);
    size_t at = process->text_len, len = strlen(answer->u.piece.text);
    if (at + len > FIGURES_SIZE_MAX)
        snprintf(process->why, sizeof process->why, "they are longer than %s", SIZE_TEXT(FIGURES_SIZE_MAX));
    if (is_too_much(process, teller, len)) {
        forget_text(process, teller);
        return false;
    }
    process->text_len += len;
    teller->bytes += len;
    while (process->text_room < process->text_len)
        process->text = must_grow(process->text, process->text_room, &process->text_room, 1);
    memcpy(process->text + at, answer->u.piece.text, len);
    return true;
}

/* The answer to TRIM, or to what has no figures. */
static bool take_outcome(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_GAVE)
        return answer->type == WIRE_READY;
    process->gave_bytes = answer->u.gave.bytes;
    process->gave_us = answer->u.gave.took_us;
    return true;
}

static void end_query(const struct share_query *query)
{
    struct process *process = query->data;
    process->status = query->status;
    snprintf(process->reason, sizeof process->reason, "%.*s", (int)sizeof process->reason - 1, query->text);
    process->uid = query->uid;
    /* The kernel knows better than the process what its number is here, if it has one here. */
    process->is_elsewhere = query->status == WEIR_OK && !query->pid;
    if (query->pid)
        process->pid = query->pid;
}

/* Its figures are what has come. */
static void read_figures(struct process *process)
{
    struct teller *teller = teller_of(process->tellers, process->uid);
    bool has_answered = process->status == WEIR_OK;
    size_t memory = has_answered ? figures_memory(process->text, process->text_len) : 0;
    if (has_answered && !is_too_much(process, teller, memory))
        process->figures = figures_read(process->text, process->text_len, process->why);
    forget_text(process, teller);
    process->tellers = NULL;
    if (process->figures) {
        teller->bytes += memory;
    } else if (has_answered || process->why[0]) {
        process->status = WEIR_PROTOCOL;
        snprintf(process->reason, sizeof process->reason, "%.*s: its figures cannot be read: %s", (int)(sizeof process->reason / 2),
                 process->socket, process->why);
    }
    const char *program = figure_text(process->figures, "program");
    if (program && *program)
        utf8_shown(process->program, program);
}

/* Asks those that answered the latest question, all at once. `take` gets each answer; data: the process. */
static void ask_all(struct processes *processes, const struct wire_message *question, unsigned timeout_ms,
                    bool (*take)(struct share_query *query, const struct wire_message *answer))
{
    struct share_query *queries = must(calloc(processes->count + 1, sizeof *queries));
    size_t count = 0;
    for (size_t i = 0; i < processes->count; i++) {
        struct process *process = &processes->items[i];
        if (process->status != WEIR_OK)
            continue;
        queries[count++] = (struct share_query){.path = process->socket, .question = *question, .take = take, .data = process};
    }
    share_queries_run(queries, count, weir__service_now() + timeout_ms * GPU_MILLISECOND);
    for (size_t i = 0; i < count; i++)
        end_query(&queries[i]);
    free(queries);
}

void processes_drop(struct processes *processes, bool (*is_out)(const struct process *process, const void *data), const void *data)
{
    size_t kept = 0;
    for (size_t i = 0; i < processes->count; i++) {
        if (is_out(&processes->items[i], data))
            forget_answers(&processes->items[i]);
        else
            processes->items[kept++] = processes->items[i];
    }
    processes->count = kept;
}

static bool is_gone(const struct process *process, const void *data)
{
    (void)data;
    return process->status == WEIR_GONE;
}

static bool are_siblings(const struct process *a, const struct process *b)
{
    return a != b && a->pid == b->pid && a->is_elsewhere == b->is_elsewhere;
}

static void find_siblings(struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++) {
        struct process *process = &processes->items[i];
        process->has_siblings = false;
        for (size_t j = 0; j < processes->count && !process->has_siblings; j++)
            process->has_siblings = are_siblings(process, &processes->items[j]);
    }
}

void processes_ask(struct processes *processes, unsigned timeout_ms)
{
    static const struct wire_message question = {.type = WIRE_FIGURES};
    struct tellers tellers = {0};
    for (size_t i = 0; i < processes->count; i++) {
        forget_answers(&processes->items[i]);
        processes->items[i].status = WEIR_OK;
        processes->items[i].tellers = &tellers;
    }
    ask_all(processes, &question, timeout_ms, take_piece);
    for (size_t i = 0; i < processes->count; i++)
        read_figures(&processes->items[i]);
    free(tellers.users);
    processes_drop(processes, is_gone, NULL);
    find_siblings(processes);
}

void processes_send(struct processes *processes, const struct wire_message *question, unsigned timeout_ms)
{
    for (size_t i = 0; i < processes->count; i++)
        processes->items[i].gave_bytes = processes->items[i].gave_us = 0;
    ask_all(processes, question, timeout_ms, take_outcome);
}

/* Which ones --------------------------------------------------------------------------------------------------------------------------- */

/* What one operand means. */
struct wanted {
    const char *socket; /* NULL: the process */
    int pid;
    unsigned number;
    bool is_elsewhere; /* "1*": process 1 of another PID namespace; "1" is none of those */
};
#define ANY_NUMBER UINT_MAX

static bool is_wanted(const struct wanted *wanted, const struct process *process)
{
    if (wanted->socket)
        return strcmp(wanted->socket, process->socket) == 0;
    return wanted->pid == process->pid && wanted->is_elsewhere == process->is_elsewhere &&
           (wanted->number == ANY_NUMBER || wanted->number == process->number);
}

/* All operands. */
struct selection {
    size_t count;
    struct wanted *items;
    bool has_siblings; /* with all weirs of the processes that are meant */
};

static bool is_unwanted(const struct process *process, const void *data)
{
    const struct selection *selection = data;
    for (size_t i = 0; i < selection->count; i++)
        if (selection->has_siblings ? selection->items[i].pid == process->pid : is_wanted(&selection->items[i], process))
            return false;
    return true;
}

static bool is_found(const struct processes *processes, const struct wanted *wanted)
{
    for (size_t i = 0; i < processes->count; i++)
        if (is_wanted(wanted, &processes->items[i]))
            return true;
    return false;
}

static bool are_found(const struct processes *processes, const struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++)
        if (!is_found(processes, &selection->items[i]))
            return false;
    return true;
}

/*
 * Sockets are named by what processes call themselves, which is what operands mean unless PID namespaces come into it. So those are asked
 * first, with their siblings: a process that hangs keeps nobody waiting who did not mean it. All are asked where that does not find every
 * operand.
 */
static void find(struct selection *selection, unsigned timeout_ms, struct processes *processes)
{
    processes_list(processes);
    selection->has_siblings = true;
    processes_drop(processes, is_unwanted, selection);
    selection->has_siblings = false;
    processes_ask(processes, timeout_ms);
    if (are_found(processes, selection))
        return;
    processes_free(processes);
    processes_list(processes);
    processes_ask(processes, timeout_ms);
}

/* There is no such process. One of that number elsewhere is another one. */
static void complain_of_none(const char *subcommand, const struct processes *processes, struct wanted wanted, const char *operand)
{
    wanted.is_elsewhere = !wanted.is_elsewhere;
    if (!wanted.socket && is_found(processes, &wanted))
        complain("%s: there is no process %s; that of another PID namespace is '%.*s%s', as 'weir ps' shows it", subcommand, operand,
                 (int)strcspn(operand, "*"), operand, wanted.is_elsewhere ? "*" : "");
    else
        complain("%s: there is no process %s that can be asked: 'weir ps' lists those that can, others want control: true in their policy",
                 subcommand, operand);
}

int processes_find(const char *subcommand, int count, char *const *operands, unsigned timeout_ms, struct processes *processes)
{
    *processes = (struct processes){0};
    if (count == 0) {
        processes_list(processes);
        processes_ask(processes, timeout_ms);
        return EXIT_GOOD;
    }
    struct selection selection = {.items = must(calloc((size_t)count, sizeof(struct wanted)))};
    int status = EXIT_GOOD;
    for (int i = 0; i < count; i++) {
        struct wanted wanted = {.socket = operands[i][0] == '/' ? operands[i] : NULL, .number = ANY_NUMBER};
        if (read_name(wanted.socket ? name_of(wanted.socket) : operands[i], &wanted.pid, &wanted.number, &wanted.is_elsewhere) ||
            wanted.socket) {
            selection.items[selection.count++] = wanted;
            continue;
        }
        complain("%s: '%s' is no process: write its number, as 'weir ps' shows it", subcommand, operands[i]);
        status = EXIT_TROUBLE;
    }
    if (status == EXIT_GOOD)
        find(&selection, timeout_ms, processes);
    for (size_t i = 0; i < selection.count && status != EXIT_TROUBLE; i++) {
        if (is_found(processes, &selection.items[i]))
            continue;
        complain_of_none(subcommand, processes, selection.items[i], operands[i]);
        status = EXIT_FAILED;
    }
    processes_drop(processes, is_unwanted, &selection);
    free(selection.items);
    return status;
}

/* What became of them ------------------------------------------------------------------------------------------------------------------ */

int processes_exit(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].status != WEIR_OK)
            return EXIT_TROUBLE;
    return EXIT_GOOD;
}

int process_exit(const struct process *process)
{
    switch (process->status) {
    case WEIR_OK:
        return EXIT_GOOD;
    case WEIR_TIMEOUT:
    case WEIR_REFUSED:
    case WEIR_PROTOCOL:
    case WEIR_NO_HOST_MEMORY:
        return EXIT_TROUBLE;
    default:
        return EXIT_FAILED;
    }
}

void processes_complain(const char *subcommand, const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].status != WEIR_OK)
            complain("%s: process %s: %s", subcommand, process_name(&processes->items[i], &(struct text){{0}}), processes->items[i].reason);
}

/* Names that are the same -------------------------------------------------------------------------------------------------------------- */

/* By what is there, then by where. */
static int compare_texts(const void *one, const void *other)
{
    const char *const *a = *(const char *const *const *)one, *const *b = *(const char *const *const *)other;
    int order = strcmp(*a, *b);
    return order ? order : (a > b) - (a < b);
}

size_t *first_same(const char *const *texts, size_t count)
{
    size_t *first = must(calloc(count + 1, sizeof *first));
    const char *const **sorted = must(calloc(count + 1, sizeof *sorted));
    for (size_t i = 0; i < count; i++)
        sorted[i] = &texts[i];
    qsort(sorted, count, sizeof *sorted, compare_texts);
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || strcmp(*sorted[i], *sorted[i - 1]) != 0;
        first[sorted[i] - texts] = is_first ? (size_t)(sorted[i] - texts) : first[sorted[i - 1] - texts];
    }
    free(sorted);
    return first;
}

unsigned processes_timeout(const struct option_value *option)
{
    return option->given ? (unsigned)(option->seconds * 1000) : TIMEOUT_DEFAULT_MS;
}
