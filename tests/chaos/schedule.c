/* SPDX-License-Identifier: MIT */
#include "tests/chaos/schedule.h"

#include <pthread.h>
#include <stdlib.h>

#include "lib/gpu/sim_internal.h"
#include "tests/chaos/random.h"

#define TASKS_MAX 64
#define YIELD_ONCE_IN 2

/* The real calls: everything else here is on this side of them. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);

struct schedule_task {
    bool is_used;
    bool is_waiting; /* for `address`, or for the time */
    bool was_woken;  /* and not by the time */
    bool is_finished, may_end;
    const void *address;
    uint64_t until;
    uint64_t ready_since, delayed;
    pthread_cond_t turn;
    uintptr_t thread;
    void *(*run)(void *data);
    void *data;
};

/* All but `lock` and `current` belong to the thread that has the turn; these two hand it over. */
static struct {
    pthread_mutex_t lock;
    struct schedule_task *current; /* NULL: no schedule */
    struct schedule_task tasks[TASKS_MAX];
    struct chaos_random random;
    uint64_t trace, steps;
    void (*stuck)(const char *what);
} schedule = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local struct schedule_task *self;

bool schedule_is_on(void)
{
    return self != NULL;
}

uint64_t schedule_now(void)
{
    return sim.now;
}

void schedule_note(uint64_t what)
{
    schedule.trace = (schedule.trace ^ what) * UINT64_C(0x100000001B3);
    schedule.trace ^= schedule.trace >> 29;
}

uint64_t schedule_trace(void)
{
    return schedule.trace;
}

uint64_t schedule_steps(void)
{
    return schedule.steps;
}

uint64_t schedule_delayed(void)
{
    return self->delayed;
}

/* Whose turn it is --------------------------------------------------------------------------------------------------------------------- */

static void make_ready(struct schedule_task *task, bool woken)
{
    task->is_waiting = false;
    task->was_woken = woken;
    task->ready_since = sim.now;
}

static size_t find_ready(struct schedule_task *ready[TASKS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct schedule_task *task = &schedule.tasks[i];
        if (task->is_used && task->is_waiting && task->until <= sim.now)
            make_ready(task, false);
        if (task->is_used && !task->is_waiting && !task->is_finished)
            ready[count++] = task;
    }
    return count;
}

static uint64_t next_time(void)
{
    uint64_t next = SCHEDULE_NEVER;
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (schedule.tasks[i].is_used && schedule.tasks[i].is_waiting && schedule.tasks[i].until < next)
            next = schedule.tasks[i].until;
    return next;
}

/* Lets time pass where nobody can run. */
static struct schedule_task *choose(void)
{
    struct schedule_task *ready[TASKS_MAX];
    size_t count;
    while (!(count = find_ready(ready))) {
        uint64_t next = next_time();
        if (next == SCHEDULE_NEVER)
            schedule.stuck("every thread waits for another one");
        sim_advance(next - sim.now);
    }
    struct schedule_task *chosen = ready[random_below(&schedule.random, count)];
    schedule.steps++;
    schedule_note((uint64_t)(chosen - schedule.tasks));
    return chosen;
}

/* Returns when it is this thread's turn again. */
static void give_turn_to(struct schedule_task *next)
{
    if (next == self)
        return;
    __real_pthread_mutex_lock(&schedule.lock);
    schedule.current = next;
    __real_pthread_cond_signal(&next->turn);
    while (schedule.current != self)
        __real_pthread_cond_wait(&self->turn, &schedule.lock);
    __real_pthread_mutex_unlock(&schedule.lock);
}

static void give_turn(void)
{
    give_turn_to(choose());
    self->delayed += sim.now - self->ready_since;
}

void schedule_yield(void)
{
    if (!random_once_in(&schedule.random, YIELD_ONCE_IN))
        return;
    self->ready_since = sim.now;
    give_turn();
}

bool schedule_wait(const void *address, uint64_t until)
{
    self->address = address;
    self->until = until;
    self->is_waiting = true;
    give_turn();
    return self->was_woken;
}

void schedule_sleep_until(uint64_t until)
{
    if (until > sim.now)
        schedule_wait(NULL, until);
}

void schedule_wake(const void *address, bool all)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct schedule_task *task = &schedule.tasks[i];
        if (!task->is_used || !task->is_waiting || task->address != address)
            continue;
        make_ready(task, true);
        if (!all)
            return;
    }
}

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

struct schedule_task *schedule_task_add(void *(*run)(void *data), void *data)
{
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct schedule_task *task = &schedule.tasks[i];
        if (task->is_used)
            continue;
        *task = (struct schedule_task){ .is_used = true, .run = run, .data = data, .ready_since = sim.now };
        pthread_cond_init(&task->turn, NULL);
        return task;
    }
    return NULL;
}

void schedule_task_started(struct schedule_task *task, uintptr_t thread)
{
    task->thread = thread;
}

void schedule_task_drop(struct schedule_task *task)
{
    task->is_used = false;
    pthread_cond_destroy(&task->turn);
}

static void wait_for_first_turn(struct schedule_task *task)
{
    __real_pthread_mutex_lock(&schedule.lock);
    while (schedule.current != task)
        __real_pthread_cond_wait(&task->turn, &schedule.lock);
    __real_pthread_mutex_unlock(&schedule.lock);
}

/* The end of a thread, in which its destructors run, belongs to the turn of whoever joins it. */
void *schedule_task_run(void *data)
{
    self = data;
    wait_for_first_turn(self);
    void *result = self->run(self->data);
    self->is_finished = true;
    schedule_wake(self, true);
    if (!self->may_end)
        give_turn_to(choose());
    self = NULL;
    return result;
}

static struct schedule_task *task_of(uintptr_t thread)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (schedule.tasks[i].is_used && schedule.tasks[i].thread == thread)
            return &schedule.tasks[i];
    return NULL;
}

int schedule_task_join(uintptr_t thread, int (*real_join)(uintptr_t thread, void **result), void **result)
{
    struct schedule_task *task = task_of(thread);
    while (task && !task->is_finished)
        schedule_wait(task, SCHEDULE_NEVER);
    if (task) {
        __real_pthread_mutex_lock(&schedule.lock);
        schedule.current = task;
        __real_pthread_cond_signal(&task->turn);
        __real_pthread_mutex_unlock(&schedule.lock);
    }
    int code = real_join(thread, result);
    if (task) {
        __real_pthread_mutex_lock(&schedule.lock);
        schedule.current = self;
        __real_pthread_mutex_unlock(&schedule.lock);
        schedule_task_drop(task);
    }
    return code;
}

/* Beginning and end -------------------------------------------------------------------------------------------------------------------- */

void schedule_begin(uint64_t seed, void (*stuck)(const char *what))
{
    schedule.random.state = seed;
    schedule.trace = UINT64_C(0xCBF29CE484222325);
    schedule.steps = 0;
    schedule.stuck = stuck;
    struct schedule_task *task = schedule_task_add(NULL, NULL);
    schedule.current = self = task;
}

void schedule_end(void)
{
    schedule_task_drop(self);
    schedule.current = self = NULL;
}
