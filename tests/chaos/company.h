/* SPDX-License-Identifier: MIT */
/*
 * company.h - the processes of one program: members, which are started, stopped, continued, killed and started again, and the one that does so.
 *
 * The conductor has no thread and never touches the simulator, so that its children may; all of them are on one simulated machine, whose clock is
 * the real one. A member that finds something ends with status 1.
 */
#ifndef WEIR_TESTS_CHAOS_COMPANY_H
#define WEIR_TESTS_CHAOS_COMPANY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/chaos/random.h"

#define COMPANY_MAX 10
#define SECOND UINT64_C(1000000000)

/* In memory that all of them share. */
struct member {
    unsigned number;
    void (*run)(struct member *member);
    uint64_t seed;     /* another one each time that it is started */
    pid_t pid;         /* the conductor's: 0: it does not run */
    bool is_stopped;   /* the conductor's */
    bool is_steady;    /* never killed */
    atomic_bool ready; /* it has opened what it needs */
};

struct company {
    char directory[64];
    char machine[64]; /* of the simulator: the value of $WEIR_SIM */
    struct chaos_random random;
    unsigned count;
    atomic_bool over; /* members shall come to their end */
    struct member members[COMPANY_MAX];
};

/* For the process that conducts, once. machine: its settings. */
struct company *company_gather(uint64_t seed, const char *machine);
/* More memory that all of them share, zeroed. */
void *company_share(size_t size);
struct member *company_add(struct company *company, void (*run)(struct member *member), bool is_steady);
struct company *company_of(const struct member *member);

void company_start(struct company *company, struct member *member);
void company_stop(struct member *member);
void company_continue(struct member *member);
/* Returns when it is dead. */
void company_kill(struct member *member);
/* One that runs and may be stopped, or NULL. */
struct member *company_some(struct company *company);
void company_sleep(uint64_t nanoseconds);
uint64_t company_now(void);
/* Tells all to end, waits for them, and looks whether the machine has all of its memory back. */
void company_dismiss(struct company *company);
/* Takes away the files that a program leaves, of which this process was the conductor, or the only one. */
void company_forget(pid_t conductor);

#endif
