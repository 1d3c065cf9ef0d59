/* SPDX-License-Identifier: MIT */
/* Frames of an interpreter in stacks: where they stand, how often it is asked what they are, and how it is taken away. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/record/interpreter.h"
#include "tests/support/suite.h"

#define NATIVE 5

/* What the interpreter says: so many frames, from that code on, each at position 7. */
static unsigned told;
static uint64_t first_code = 100;
static unsigned found, named, kept;

static unsigned find(struct weir__place *places, unsigned max)
{
    found++;
    for (unsigned i = 0; i < told && i < max; i++)
        places[i] = (struct weir__place){first_code + i, 7};
    return told < max ? told : max;
}

static bool name(const struct weir__place *place, bool keeps, struct weir__place_name *name)
{
    named++;
    kept += keeps;
    *name = (struct weir__place_name){.line = (uint32_t)place->position};
    snprintf(name->function, sizeof name->function, "f%u", (unsigned)place->code);
    snprintf(name->file, sizeof name->file, "file.py");
    return place->code != 13;
}

static struct weir__interpreter interpreter = {.find = find, .name = name};
static struct weir__stacks *stacks;

/* Its code is that of native elements `low` to `high` - 1. */
static void set_up(unsigned frames, unsigned low, unsigned high)
{
    told = frames;
    found = named = kept = 0;
    interpreter.low = low * 64;
    interpreter.high = high * 64;
    stacks = weir__stacks_new(WEIR__STACKS_BYTES, WEIR__STACKS_COUNT);
    ck_assert_ptr_nonnull(stacks);
    weir__interpreter_set(&interpreter);
}

static void tear_down(void)
{
    weir__interpreter_set(NULL);
    weir__stacks_destroy(stacks);
}

/* A stack of NATIVE frames, the native one i in [64 i, 64 i + 64), and the interpreter's. */
static unsigned append(uint64_t *elements)
{
    for (unsigned i = 0; i < NATIVE; i++)
        elements[i] = weir__stack_address(64 * i + 1);
    return weir__interpreter_append(stacks, elements, NATIVE, WEIR__STACK_MAX);
}

START_TEST(frames_take_the_place_of_the_interpreters_native_ones_and_of_those_outside)
{
    /* The interpreter's code, and how many native frames are inside of it. */
    static const struct {
        unsigned low, high, native;
    } rows[] = {{3, 4, 3}, {1, 3, 1}, {0, 1, 0}, {4, 9, 4}, {7, 9, NATIVE}};
    uint64_t elements[WEIR__STACK_MAX];
    struct weir__frame frame;
    set_up(2, rows[_i].low, rows[_i].high);
    ck_assert_uint_eq(append(elements), rows[_i].native + 2);
    for (unsigned i = 0; i < rows[_i].native; i++)
        ck_assert_uint_eq(elements[i], weir__stack_address(64 * i + 1));
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(elements[rows[_i].native + i] & 1, 1);
        ck_assert(weir__stacks_get_frame(stacks, (uint32_t)(elements[rows[_i].native + i] >> 1), &frame));
        ck_assert_str_eq(frame.function, i ? "f101" : "f100");
        ck_assert_str_eq(frame.file, "file.py");
        ck_assert_uint_eq(frame.line, 7);
    }
    tear_down();
}
END_TEST

START_TEST(stack_of_the_calling_thread_has_them)
{
    const uint64_t *elements;
    struct weir__frame frame;
    unsigned count;
    set_up(3, 0, 0);
    uint32_t id = weir__stacks_here(stacks);
    ck_assert(weir__stacks_get(stacks, id, &elements, &count));
    ck_assert_uint_ge(count, 4);
    ck_assert_uint_eq(elements[count - 4] & 1, 0);
    ck_assert(weir__stacks_get_frame(stacks, (uint32_t)(elements[count - 1] >> 1), &frame));
    ck_assert_str_eq(frame.function, "f102");
    tear_down();
}
END_TEST

START_TEST(thread_without_frames_keeps_its_native_ones)
{
    uint64_t elements[WEIR__STACK_MAX];
    set_up(0, 0, NATIVE);
    ck_assert_uint_eq(append(elements), NATIVE);
    ck_assert_uint_eq(found, 1);
    tear_down();
}
END_TEST

START_TEST(outermost_frames_of_more_than_a_stack_has_are_left_out)
{
    uint64_t elements[WEIR__STACK_MAX];
    struct weir__frame frame;
    set_up(WEIR__STACK_MAX, NATIVE, NATIVE);
    ck_assert_uint_eq(append(elements), WEIR__STACK_MAX);
    ck_assert(weir__stacks_get_frame(stacks, (uint32_t)(elements[NATIVE] >> 1), &frame));
    ck_assert_str_eq(frame.function, "f100");
    tear_down();
}
END_TEST

START_TEST(interpreter_is_asked_what_a_place_is_once_for_each_table)
{
    uint64_t elements[WEIR__STACK_MAX];
    set_up(4, 3, 4);
    for (unsigned i = 0; i < 10; i++)
        append(elements);
    ck_assert_uint_eq(found, 10);
    ck_assert_uint_eq(named, 4);
    ck_assert_uint_eq(kept, 4);
    struct weir__stacks *former = stacks;
    set_up(4, 3, 4);
    append(elements);
    ck_assert_uint_eq(named, 4);
    weir__stacks_destroy(former);
    tear_down();
}
END_TEST

START_TEST(place_that_nobody_knows_is_left_out)
{
    uint64_t elements[WEIR__STACK_MAX];
    first_code = 12;
    set_up(3, 3, 4);
    ck_assert_uint_eq(append(elements), 3 + 2);
    ck_assert_uint_eq(append(elements), 3 + 2);
    ck_assert_uint_eq(named, 4);
    tear_down();
}
END_TEST

START_TEST(code_of_places_beyond_the_bound_is_not_kept)
{
    uint64_t elements[WEIR__STACK_MAX];
    struct weir__frame frame;
    set_up(1, 3, 4);
    for (unsigned i = 0; i < WEIR__PLACES_COUNT + 10; i++) {
        first_code = 1000 + i;
        ck_assert_uint_eq(append(elements), 3 + 1);
    }
    ck_assert_uint_eq(named, WEIR__PLACES_COUNT + 10);
    ck_assert_uint_eq(kept, WEIR__PLACES_COUNT);
    ck_assert(weir__stacks_get_frame(stacks, (uint32_t)(elements[3] >> 1), &frame));
    ck_assert_str_eq(frame.function, "f66545");
    append(elements);
    ck_assert_uint_eq(named, WEIR__PLACES_COUNT + 11);
    ck_assert_uint_eq(weir__stacks_lost(stacks), 0);
    tear_down();
}
END_TEST

/* An allocation of the interpreter's own. */
static unsigned find_again(struct weir__place *places, unsigned max)
{
    uint64_t elements[WEIR__STACK_MAX];
    ck_assert_uint_eq(append(elements), NATIVE);
    return find(places, max);
}

START_TEST(call_from_within_the_interpreter_has_native_frames_alone)
{
    uint64_t elements[WEIR__STACK_MAX];
    interpreter.find = find_again;
    set_up(2, 3, 4);
    ck_assert_uint_eq(append(elements), 3 + 2);
    ck_assert_uint_eq(found, 1);
    tear_down();
}
END_TEST

/* Taking it away ----------------------------------------------------------------------------------------------------------------------- */

static atomic_uint inside, is_asked;

/* Stays for a while once somebody is about to take the interpreter away. */
static unsigned find_slowly(struct weir__place *places, unsigned max)
{
    atomic_store(&inside, 1);
    while (!atomic_load(&is_asked))
        sched_yield();
    for (unsigned i = 0; i < 200; i++)
        sched_yield();
    unsigned count = find(places, max);
    atomic_store(&inside, 0);
    return count;
}

static void *ask(void *unused)
{
    uint64_t elements[WEIR__STACK_MAX];
    (void)unused;
    append(elements);
    return NULL;
}

START_TEST(nobody_is_with_the_interpreter_that_was_taken_away)
{
    pthread_t thread;
    uint64_t elements[WEIR__STACK_MAX];
    interpreter.find = find_slowly;
    for (unsigned round = 0; round < 20; round++) {
        set_up(1, 3, 4);
        atomic_store(&is_asked, 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, ask, NULL), 0);
        while (!atomic_load(&inside))
            sched_yield();
        atomic_store(&is_asked, 1);
        weir__interpreter_set(NULL);
        ck_assert_uint_eq(atomic_load(&inside), 0);
        ck_assert_uint_eq(append(elements), NATIVE);
        ck_assert_uint_eq(found, 1);
        pthread_join(thread, NULL);
        weir__stacks_destroy(stacks);
    }
}
END_TEST

int main(void)
{
    weir__unwind_prepare(); /* its descriptors stay open */
    Suite *suite = suite_create("interpreter");
    TCase *tcase = suite_case(suite, "frames", 0);
    tcase_add_loop_test(tcase, frames_take_the_place_of_the_interpreters_native_ones_and_of_those_outside, 0, 5);
    suite_add(tcase, stack_of_the_calling_thread_has_them, thread_without_frames_keeps_its_native_ones,
              outermost_frames_of_more_than_a_stack_has_are_left_out, interpreter_is_asked_what_a_place_is_once_for_each_table,
              place_that_nobody_knows_is_left_out, code_of_places_beyond_the_bound_is_not_kept,
              call_from_within_the_interpreter_has_native_frames_alone, nobody_is_with_the_interpreter_that_was_taken_away);
    return suite_run(suite);
}
