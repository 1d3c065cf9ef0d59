/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/interpreter.h"

#include <stdatomic.h>
#include <stddef.h>

#include "lib/base/fork.h"
#include "lib/base/spin.h"

#define GATES 16 /* a power of two: threads that ask at a time mostly go through different ones */

static const struct weir__interpreter *_Atomic current;

/* How many threads are with the interpreter, by gate. */
static struct {
    _Atomic uint64_t threads;
} __attribute__((aligned(64))) gates[GATES];

/* The interpreter may come back here by an allocation of its own. */
static __thread bool is_inside;

/* The address of a thread's own variable tells threads apart. */
static unsigned gate_of(void)
{
    return (unsigned)(((uint64_t)(uintptr_t)&is_inside * UINT64_C(0x9E3779B97F4A7C15)) >> 60);
}
_Static_assert(GATES == 16, "four bits of the hash choose the gate");

/* A thread is counted before it looks which interpreter there is, and here it is taken away before the count is looked at: either the
   thread does not see it any more, or it is waited for. In a child the threads that are counted are not there. */
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

/* The number of the frame at that place; 0: nobody knows, or the tables are full. */
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
