/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - one thread at a time, in an order that a seed decides, on the simulator's virtual clock.
 *
 * The linker puts schedule_calls.c between the program, with all of Weir in it, and the calls of the C library by which a thread waits, looks
 * at a clock or makes another thread (local.mk has the list). Between schedule_begin() and schedule_end() only the thread that has the turn runs. It gives
 * the turn on where it waits, and now and then where it takes a lock or calls the GPU. Time passes only when every thread waits, or by
 * what a call of the GPU costs. Weir's service thread is a thread like any other. So a seed repeats exactly, as long as addresses do.
 *
 * Outside a schedule every call goes to the C library unchanged.
 */
#ifndef WEIR_TESTS_CHAOS_SCHEDULE_H
#define WEIR_TESTS_CHAOS_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_NEVER UINT64_MAX

/* The calling thread, the only one, becomes the first of the schedule. stuck: called where no thread can ever go on; does not return. */
void schedule_begin(uint64_t seed, void (*stuck)(const char *what));
/* All threads that were made meanwhile have been joined. */
void schedule_end(void);

/* Whether the calling thread is one of a schedule; the functions below are for such threads only. */
bool schedule_is_on(void);

/* Another thread may run. */
void schedule_yield(void);
/* Virtual time; `until` is not after the time of the return. */
uint64_t schedule_now(void);
void schedule_sleep_until(uint64_t until);
/* Waits until schedule_wake() on the same address, or until that time. false: the time has come. */
bool schedule_wait(const void *address, uint64_t until);
void schedule_wake(const void *address, bool all);
/* How long the calling thread could have run and did not, because others did. */
uint64_t schedule_delayed(void);

/* What happened, for the trace: a number for everything that may differ between two schedules. */
void schedule_note(uint64_t what);
uint64_t schedule_trace(void);
uint64_t schedule_steps(void);

/* For schedule_calls.c: threads that are made and joined. */
struct schedule_task;
struct schedule_task *schedule_task_add(void *(*run)(void *data), void *data);
void schedule_task_started(struct schedule_task *task, uintptr_t thread);
void schedule_task_drop(struct schedule_task *task);
/* What a new thread runs, with its task. */
void *schedule_task_run(void *task);
/* Waits for the end of a thread of the schedule; real_join is called while only that thread runs. */
int schedule_task_join(uintptr_t thread, int (*real_join)(uintptr_t thread, void **result), void **result);

#endif
