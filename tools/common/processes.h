/* SPDX-License-Identifier: MIT */
/*
 * processes.h - the live processes that can be asked here (those with `control: true`), and what they answered.
 *
 * processes_list() finds their sockets, processes_ask() fills in their figures, processes_free() ends both; everything that a list points
 * to belongs to it. A list may be asked again, which replaces the answers. A process with several weirs is several items. All are asked at
 * once, none waits for another, and no GPU is needed. One thread at a time; without host memory the command ends.
 */
#ifndef WEIR_PROCESSES_H
#define WEIR_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"
#include "tools/common/command.h"
#include "tools/common/figures.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/utf8.h"

/* One weir of a live process. */
struct process {
    char socket[SHARE_PATH_SIZE];
    unsigned number;   /* tells the weirs of one process apart, from 1: N of a socket PID.N */
    int pid;           /* in this PID namespace; if is_elsewhere, or nobody was reached, as the process itself sees it */
    bool is_elsewhere; /* it is in another PID namespace, one that cannot be seen from here */
    bool has_siblings; /* its process has other weirs, whether or not they are still on the list */
    uint32_t uid;

    /* How the latest question ended. Anything but WEIR_OK: there is no answer, for this reason. */
    weir_status status;
    char reason[WIRE_TEXT_SIZE];

    figures *figures;        /* processes_ask()'s; NULL: there is no answer */
    char program[SHOWN_LEN]; /* with them, as a terminal may get it; "-": it is not known */
    char *text;              /* the pieces of the answer, while they come */
    size_t text_len, text_room;
    struct tellers *tellers; /* while they come: those of all processes on the list */
    char why[FIGURES_WHY];   /* they cannot be read; empty: they can so far */

    uint64_t gave_bytes, gave_us; /* processes_send()'s, where the answer was GAVE */
};

struct processes {
    size_t count;
    struct process *items; /* in the order of their sockets' names */
};

/* Every control socket that may be asked. Nobody is asked yet: only socket and number are set. */
void processes_list(struct processes *processes);
/* Asks all of them for their figures. Those that are gone meanwhile leave the list: they are no live processes any more. */
void processes_ask(struct processes *processes, unsigned timeout_ms);
/* Asks those of them that answered the latest question something that is answered by READY or GAVE. The others stay as they are. */
void processes_send(struct processes *processes, const struct wire_message *question, unsigned timeout_ms);
/* Takes those off the list for which `is_out` holds. */
void processes_drop(struct processes *processes, bool (*is_out)(const struct process *process, const void *data), const void *data);
void processes_free(struct processes *processes);

/*
 * The same as list and ask, but only those that the operands mean: what process_name() shows of them (4711, 4711.2 for one of several weirs,
 * 4711* for one of another PID namespace, which 4711 never means), or the path of a socket. No operands: all. Returns
 * EXIT_GOOD, or after a complaint EXIT_FAILED (there is no such process), EXIT_TROUBLE (no such operand).
 * *processes is to be freed in each case, and holds what was found.
 */
int processes_find(const char *subcommand, int count, char *const *operands, unsigned timeout_ms, struct processes *processes);

/* Whether it can be such an operand. */
bool process_is_operand(const char *text);
/* The number of a process, as an operand has it that is nothing else. */
bool process_read_pid(const char *text, int *pid);

/* EXIT_GOOD, or EXIT_TROUBLE if some process did not answer the latest question. */
int processes_exit(const struct processes *processes);
/* The same of one process; EXIT_FAILED if it was reached and denies what it was asked, or is gone. */
int process_exit(const struct process *process);
/* Says on stderr which did not, and why. */
void processes_complain(const char *subcommand, const struct processes *processes);

/* "4711"; "4711.2" if it is not the first and only weir of its process; "4711*" if the number is not one of this PID namespace. */
const char *process_name(const struct process *process, struct text *text);
/* The name of a user, or the number where it has none. */
const char *process_user(uint32_t uid, struct text *text);
/* "12 s", "3 min", "5 h", "2 d". */
const char *process_age(uint64_t age_ms, struct text *text);
/* Begins an object with what tells the process apart, its program (null: not known), and how the question ended; the caller ends it. */
void process_json(struct json *json, const struct process *process);
/* Prints a JSON document: such an object for each process, with what `more` adds, then what `rest` adds (NULL: nothing), and the exit
   status. in_line: it is one line. */
void processes_json(const struct processes *processes, void (*more)(struct json *json, const struct process *process),
                    void (*rest)(struct json *json), int status, bool in_line);

/* For each of the texts the index of the first one that is the same: its own, where no earlier one is. The caller's to free(). Hostile
   processes tell of hundreds of thousands of names: they are sorted, as to compare each with all others would take hours. */
size_t *first_same(const char *const *texts, size_t count);

/* The option --timeout of the subcommands that ask processes, and what it means; 1 s if it is not given. */
#define PROCESSES_TIMEOUT_OPTION {"timeout", 0, OPTION_SECONDS, "SECONDS", "how long to wait for the processes (default: 1)", 0.01, 3600}
unsigned processes_timeout(const struct option_value *option);

#endif
