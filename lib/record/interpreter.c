/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/interpreter.h"

#include <stdatomic.h>
#include <stddef.h>

#include "lib/base/fork.h"
#include "lib/base/spin.h"

#define GATES 16 /* a power of two. Threads that call at the same time mostly use different counters */

static const struct weir__interpreter *_Atomic current;

/* The number of threads that call the interpreter's functions now, in 16 counters on cache lines of their own. */
static struct {
    _Atomic uint64_t threads;
} __attribute__((aligned(64))) gates[GATES];

/* This thread is within the interpreter's functions. They may allocate memory, and so come back here. */
static __thread bool is_inside;

/* Chooses a counter by the address of a thread-local variable, which differs from thread to thread. */
static unsigned gate_of(void)
{
    return (unsigned)(((uint64_t)(uintptr_t)&is_inside * UINT64_C(0x9E3779B97F4A7C15)) >> 60);
}
_Static_assert(GATES == 16, "four bits of the hash choose the gate");

/* A calling thread first counts itself and then reads `current`. This function first clears `current` and then reads the counters. So a
   thread that still got the interpreter is counted, and this function waits for the thread. In the child of a fork the counted threads do
   not exist, so it does not wait. */
void weir__interpreter_set(const struct weir__interpreter *interpreter)
{
    atomic_store(&current, interpreter);
    if (interpreter)
        return;
    for (unsigned gate = 0; gate < GATES; gate++) {
        unsigned pauses = 0;
        while (!weir__is_forked() && atomic_load(&gates[gate].threads))
            weir__spin_back_off(&pauses);
    }
}

/* Returns the number of the frame at that place; 0 if the interpreter does not know the place, or the table of frames is full. */
static uint32_t frame_at(const struct weir__interpreter *interpreter, struct weir__stacks *stacks, const struct weir__place *place)
{
    struct weir__place_name name;
    uint32_t frame = weir__stacks_find_place(stacks, place->code, place->position);
    if (frame)
        return frame;
    bool keeps = weir__stacks_takes_places(stacks);
    if (!interpreter->name(place, keeps, &name))
        return 0;
    frame = weir__stacks_frame(stacks, name.function, name.file, name.line);
    if (keeps)
        weir__stacks_add_place(stacks, place->code, place->position, frame);
    return frame;
}

static unsigned append(const struct weir__interpreter *interpreter, struct weir__stacks *stacks, uint64_t *elements, unsigned count,
                       unsigned max)
{
    struct weir__place places[WEIR__STACK_MAX];
    unsigned found = interpreter->find(places, WEIR__STACK_MAX), native = 0;
    if (!found)
        return count;
    while (native < count && (uintptr_t)(elements[native] >> 1) - interpreter->low >= interpreter->high - interpreter->low)
        native++;
    count = native;
    for (unsigned i = 0; i < found && count < max; i++) {
        uint32_t frame = frame_at(interpreter, stacks, &places[i]);
        if (frame)
            elements[count++] = weir__stack_frame(frame);
    }
    return count;
}

unsigned weir__interpreter_append(struct weir__stacks *stacks, uint64_t *elements, unsigned count, unsigned max)
{
    if (is_inside || !atomic_load_explicit(&current, memory_order_relaxed))
        return count;
    _Atomic uint64_t *threads = &gates[gate_of()].threads;
    is_inside = true;
    atomic_fetch_add(threads, 1);
    const struct weir__interpreter *interpreter = atomic_load(&current);
    if (interpreter)
        count = append(interpreter, stacks, elements, count, max);
    atomic_fetch_sub(threads, 1);
    is_inside = false;
    return count;
}
