/* SPDX-License-Identifier: MIT */
/*
 * stage.h - where actors play (actor.h): starts them as processes of a simulated machine of their own, or of the GPU's, tells them what to
 * do, and sees at the end that nothing is left of what they had.
 *
 * For one test at a time, on one thread. Every expectation that is not met fails the test, with what the actor has logged. Waiting is for a
 * condition, with a deadline that no working program comes near.
 */
#ifndef WEIR_TESTS_STAGE_H
#define WEIR_TESTS_STAGE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/gpu/gpu.h"
#include "tests/support/suite.h"

/* Checked fixture of every test: a directory of its own for sockets, and a machine; and at the end a look at all actors that are left. */
void stage_open(void);
void stage_open_small(void);
void stage_close(void);
/* A test case with that fixture. Simulated devices have 1 GiB, or 256 MiB for tests that really copy what is on them. */
TCase *stage_case(Suite *suite, const char *name);
TCase *stage_small_case(Suite *suite, const char *name);

/* An actor; the stage owns it. */
struct player;

struct role {
    const char *name;   /* several may have it */
    const char *policy; /* YAML; NULL: none is opened */
    unsigned dies_at;   /* see actor_messages.c; 0: never */
    const char *sim;    /* $WEIR_SIM, where it is not that of the others */
};
struct player *stage_enter(struct role role);
/* With the weir open, a stream `s`, and pool `frames` exported at the socket `frames`. share: further keys of `share:`, as in
   ", max_importers: 1"; may be NULL. */
struct player *stage_exporter(const char *name, const char *share);
/* With the weir open, and a stream `s`. */
struct player *stage_guest(const char *name);
/* The same, and the import `i` of the socket `frames`. */
struct player *stage_importer(const char *name);
/* What the two open. The text is good until the next call. */
const char *stage_exporter_policy(const char *share);
const char *stage_importer_policy(void);
/* Writes a policy; returns its path, good until the next call. */
const char *stage_policy_file(const char *name, const char *policy);
const char *stage_directory(void);

/* Says a line, of one command or several with semicolons between them, and returns what is answered behind "ok". Good until the player's
   next answer. */
__attribute__((format(printf, 2, 3))) const char *stage_say(struct player *player, const char *format, ...);
/* The same, where the answer has to be a failure of this status. Returns the text. */
__attribute__((format(printf, 3, 4))) const char *stage_refuses(struct player *player, const char *status, const char *format, ...);
/* Says the line until the answer has `wanted` in it. */
__attribute__((format(printf, 3, 4))) const char *stage_until(struct player *player, const char *wanted, const char *format, ...);
/* Says the line, and nothing more: stage_hear() or stage_hears() get the answer. */
__attribute__((format(printf, 2, 3))) void stage_tell(struct player *player, const char *format, ...);
const char *stage_hear(struct player *player);
const char *stage_hears(struct player *player, const char *status);
/* The whole answer, whatever it is; NULL: the player is dead. */
__attribute__((format(printf, 2, 3))) const char *stage_try(struct player *player, const char *format, ...);
/* The answer to what it was told, whatever it is; NULL: the player is dead. */
const char *stage_listen(struct player *player);
/* Whether the answer is there already. */
bool stage_has_answer(struct player *player);
/* The number behind "key=". */
unsigned long long stage_number(const char *answer, const char *key);

pid_t stage_pid(const struct player *player);
/* Sends a signal, and waits until it has stopped, continued or killed the player. */
void stage_signal(struct player *player, int signal);
/* Waits until it has stopped itself (stop_at and stop_at_give of actor_memory.c). */
void stage_await_stop(const struct player *player);
/* Whether it is dead; only what kills itself needs to be asked. */
bool stage_is_dead(struct player *player);
/* Closes what the player has, checks that nothing is left of it, and ends it. */
void stage_leave(struct player *player);

/* Milliseconds of work after which nothing that does not wait for it is still to come. */
unsigned stage_long(void);
/* Whether the first device has it, of the GPU or the simulator that the tests run on. */
bool stage_supports(enum gpu_feature feature);
/* Whether all this is simulated, so that every byte can be counted. */
bool stage_is_simulated(void);
/* Calls `is_done` until it is true. */
void stage_wait(bool (*is_done)(void *data), void *data, const char *what);
/* The test's own process as a client that says what it likes: a connection to the socket `frames`. */
int stage_connect(void);

#endif
