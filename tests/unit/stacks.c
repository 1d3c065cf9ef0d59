/* SPDX-License-Identifier: MIT */
/* The table of stacks: one number for one stack, in any order and from any thread, until it is full. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/record/stack.h"
#include "tests/support/suite.h"

static struct weir__stacks *make(void)
{
    struct weir__stacks *stacks = weir__stacks_new(WEIR__STACKS_BYTES, WEIR__STACKS_COUNT);
    ck_assert_ptr_nonnull(stacks);
    return stacks;
}

/* Stack n: of 1 to 40 elements that depend on n and on their place. */
static unsigned fill(uint64_t n, uint64_t *elements)
{
    unsigned count = 1 + (unsigned)(n % 40);
    for (unsigned i = 0; i < count; i++)
        elements[i] = weir__stack_address((uintptr_t)(0x7f0000000000 + n / 40 * 64 + i * 16));
    return count;
}

static uint32_t add(struct weir__stacks *stacks, uint64_t n)
{
    uint64_t elements[WEIR__STACK_MAX];
    unsigned count = fill(n, elements);
    return weir__stacks_add(stacks, elements, count);
}

static bool has(const struct weir__stacks *stacks, uint32_t id, uint64_t n)
{
    uint64_t wanted[WEIR__STACK_MAX];
    const uint64_t *elements;
    unsigned count, wanted_count = fill(n, wanted);
    return weir__stacks_get(stacks, id, &elements, &count) && count == wanted_count &&
           memcmp(elements, wanted, count * sizeof(*elements)) == 0;
}

START_TEST(same_stack_has_the_same_number_and_another_stack_another)
{
    enum { COUNT = 5000 }; /* through several tables */
    static uint32_t ids[COUNT];
    struct weir__stacks *stacks = make();
    for (unsigned n = 0; n < COUNT; n++) {
        ids[n] = add(stacks, n);
        ck_assert_uint_eq(ids[n], n + 1);
    }
    for (unsigned n = 0; n < COUNT; n++) {
        ck_assert_uint_eq(add(stacks, n), ids[n]);
        ck_assert(has(stacks, ids[n], n));
    }
    ck_assert_uint_eq(weir__stacks_count(stacks), COUNT);
    ck_assert_uint_eq(weir__stacks_lost(stacks), 0);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(elements_stay_where_they_are)
{
    struct weir__stacks *stacks = make();
    const uint64_t *before, *after;
    unsigned count;
    uint32_t id = add(stacks, 7);
    ck_assert(weir__stacks_get(stacks, id, &before, &count));
    for (unsigned n = 100; n < 3000; n++)
        add(stacks, n);
    ck_assert(weir__stacks_get(stacks, id, &after, &count));
    ck_assert_ptr_eq(before, after);
    ck_assert(has(stacks, id, 7));
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(stack_that_another_one_begins_with_is_another_stack)
{
    struct weir__stacks *stacks = make();
    const uint64_t elements[4] = {2, 4, 0, 0};
    uint32_t ids[4];
    for (unsigned count = 1; count <= 4; count++)
        ids[count - 1] = weir__stacks_add(stacks, elements, count);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(ids[i], i + 1);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(outermost_of_more_than_128_elements_are_left_out)
{
    struct weir__stacks *stacks = make();
    uint64_t elements[WEIR__STACK_MAX + 2];
    const uint64_t *found;
    unsigned count;
    for (unsigned i = 0; i < WEIR__STACK_MAX + 2; i++)
        elements[i] = 2 * i + 2;
    uint32_t id = weir__stacks_add(stacks, elements, WEIR__STACK_MAX + 2);
    ck_assert_uint_eq(weir__stacks_add(stacks, elements, WEIR__STACK_MAX), id);
    ck_assert(weir__stacks_get(stacks, id, &found, &count));
    ck_assert_uint_eq(count, WEIR__STACK_MAX);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(nothing_has_no_number_and_no_number_has_nothing)
{
    struct weir__stacks *stacks = make();
    const uint64_t *elements = NULL;
    struct weir__frame frame;
    unsigned count;
    ck_assert_uint_eq(weir__stacks_add(stacks, NULL, 0), 0);
    ck_assert(!weir__stacks_get(stacks, 0, &elements, &count));
    ck_assert(!weir__stacks_get(stacks, 1, &elements, &count));
    ck_assert(!weir__stacks_get(stacks, UINT32_MAX, &elements, &count));
    ck_assert(!weir__stacks_get_frame(stacks, 0, &frame));
    ck_assert(!weir__stacks_get_frame(stacks, 1, &frame));
    ck_assert_uint_eq(weir__stacks_lost(stacks), 0);
    weir__stacks_destroy(stacks);
    weir__stacks_destroy(NULL);
}
END_TEST

struct hashed {
    uint32_t hash, n;
};

static int compare_hashes(const void *a, const void *b)
{
    const struct hashed *one = a, *other = b;
    return one->hash != other->hash ? (one->hash < other->hash ? -1 : 1) : (one->n > other->n) - (one->n < other->n);
}

START_TEST(stacks_with_one_hash_have_two_numbers)
{
    enum { COUNT = 400000 }; /* about 19 pairs of which have one hash */
    struct hashed *hashed = calloc(COUNT, sizeof(*hashed));
    struct weir__stacks *stacks = make();
    uint64_t elements[WEIR__STACK_MAX];
    unsigned pairs = 0;
    ck_assert_ptr_nonnull(hashed);
    for (uint32_t n = 0; n < COUNT; n++) {
        unsigned count = fill(n, elements);
        hashed[n] = (struct hashed){weir__stacks_hash(elements, count), n};
    }
    qsort(hashed, COUNT, sizeof(*hashed), compare_hashes);
    for (uint32_t i = 0; i + 1 < COUNT; i++) {
        if (hashed[i].hash != hashed[i + 1].hash)
            continue;
        pairs++;
        uint32_t one = add(stacks, hashed[i].n), other = add(stacks, hashed[i + 1].n);
        ck_assert_uint_ne(one, other);
        ck_assert(has(stacks, one, hashed[i].n) && has(stacks, other, hashed[i + 1].n));
        ck_assert_uint_eq(add(stacks, hashed[i].n), one);
        ck_assert_uint_eq(add(stacks, hashed[i + 1].n), other);
    }
    ck_assert_uint_gt(pairs, 0);
    ck_assert_msg(pairs < 100, "the hash is poor: %u pairs", pairs);
    weir__stacks_destroy(stacks);
    free(hashed);
}
END_TEST

START_TEST(full_table_counts_what_it_has_no_number_for)
{
    /* Bounded by the number of stacks, and by their elements: 16 KiB are 2,048 words, in which a stack takes one more than it has. */
    static const struct {
        size_t bytes;
        uint32_t count, fits;
        unsigned elements;
    } rows[] = {{WEIR__STACKS_BYTES, 600, 600, 3}, {16384, 600, 2048 / 4, 3}, {16384, 600, 2048 / 65, 64}};
    struct weir__stacks *stacks = weir__stacks_new(rows[_i].bytes, rows[_i].count);
    uint64_t elements[WEIR__STACK_MAX] = {0};
    ck_assert_ptr_nonnull(stacks);
    for (uint32_t n = 1; n <= rows[_i].fits + 10; n++) {
        elements[0] = 2 * n;
        ck_assert_uint_eq(weir__stacks_add(stacks, elements, rows[_i].elements), n <= rows[_i].fits ? n : 0);
    }
    ck_assert_uint_eq(weir__stacks_lost(stacks), 10);
    ck_assert_uint_eq(weir__stacks_count(stacks), rows[_i].fits);
    elements[0] = 2 * rows[_i].fits;
    ck_assert_uint_eq(weir__stacks_add(stacks, elements, rows[_i].elements), rows[_i].fits);
    ck_assert_uint_eq(weir__stacks_lost(stacks), 10);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(narrow_address_space_makes_it_smaller)
{
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * 4096 + (40u << 20);
    if (pages * 4096 > UINT64_C(1) << 40)
        return; /* a sanitizer's */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    struct weir__stacks *stacks = make();
    ck_assert_uint_eq(add(stacks, 1), 1);
    weir__stacks_destroy(stacks);
}
END_TEST

/* Threads --------------------------------------------------------------------------------------------------------------------------------
 */

#define THREADS 4
#define EACH 3000
#define OVERLAP 1500 /* stacks of each that the next one has as well */
#define ALL ((THREADS - 1) * (EACH - OVERLAP) + EACH)

struct adder {
    struct weir__stacks *stacks;
    pthread_barrier_t *start;
    unsigned first;
    uint32_t ids[EACH];
    unsigned wrong;
};

static void *run_adder(void *data)
{
    struct adder *adder = data;
    pthread_barrier_wait(adder->start);
    for (unsigned i = 0; i < EACH; i++) {
        adder->ids[i] = add(adder->stacks, adder->first + i);
        adder->wrong += !has(adder->stacks, adder->ids[i], adder->first + i);
        adder->wrong += add(adder->stacks, adder->first + i / 2) != adder->ids[i / 2];
    }
    return NULL;
}

START_TEST(threads_that_add_the_same_stacks_get_the_same_numbers)
{
    static struct adder adders[THREADS];
    static uint32_t ids[ALL];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    struct weir__stacks *stacks = make();
    pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++) {
        adders[t] = (struct adder){.stacks = stacks, .start = &start, .first = t * (EACH - OVERLAP)};
        ck_assert_int_eq(pthread_create(&threads[t], NULL, run_adder, &adders[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        ck_assert_uint_eq(adders[t].wrong, 0);
        for (unsigned i = 0; i < EACH; i++) {
            uint32_t *id = &ids[adders[t].first + i];
            ck_assert(*id == 0 || *id == adders[t].ids[i]);
            *id = adders[t].ids[i];
        }
    }
    ck_assert_uint_eq(weir__stacks_count(stacks), ALL);
    ck_assert_uint_eq(weir__stacks_lost(stacks), 0);
    pthread_barrier_destroy(&start);
    weir__stacks_destroy(stacks);
}
END_TEST

/* Stacks of this thread, and frames of interpreters
 * ---------------------------------------------------------------------------------------- */

static __attribute__((noinline)) uint32_t here(struct weir__stacks *stacks)
{
    volatile uint32_t id = weir__stacks_here(stacks);
    return id;
}

START_TEST(own_stack_is_found_again_at_the_same_call)
{
    struct weir__stacks *stacks = make();
    uint32_t ids[3];
    const uint64_t *elements;
    volatile unsigned times = 2; /* in a loop that stays one */
    unsigned count;
    weir__unwind_prepare();
    for (unsigned i = 0; i < times; i++)
        ids[i] = here(stacks);
    ids[2] = here(stacks);
    ck_assert_uint_ne(ids[0], 0);
    ck_assert_uint_eq(ids[0], ids[1]);
    ck_assert_uint_ne(ids[0], ids[2]);
    ck_assert(weir__stacks_get(stacks, ids[0], &elements, &count));
    ck_assert_uint_ge(count, 3);
    /* The first is within weir__stacks_here()'s caller, or within itself. */
    bool is_found = false;
    for (unsigned i = 0; i < 2; i++)
        is_found = is_found || (elements[i] >> 1) - (uintptr_t)here < 256;
    ck_assert(is_found);
    weir__stacks_destroy(stacks);
}
END_TEST

static const struct named {
    const char *function, *file;
    uint32_t line;
} named[] = {
    {"forward", "/srv/model.py", 12},
    {"forward", "/srv/model.py", 13},
    {"forward", "/srv/models.py", 12},
    {"forwar", "d/srv/model.py", 12},
    {"<module>", "/srv/model.py", UINT32_MAX},
    {"", "/srv/model.py", 0},
    {"forward", "", 0},
    {"", "", 0},
};
#define NAMED (sizeof(named) / sizeof(named[0]))

START_TEST(same_frame_has_the_same_number_and_another_frame_another)
{
    struct weir__stacks *stacks = make();
    struct weir__frame frame;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < NAMED; i++)
            ck_assert_uint_eq(weir__stacks_frame(stacks, named[i].function, named[i].file, named[i].line), i + 1);
    }
    for (unsigned i = 0; i < NAMED; i++) {
        ck_assert(weir__stacks_get_frame(stacks, i + 1, &frame));
        ck_assert_str_eq(frame.function, named[i].function);
        ck_assert_str_eq(frame.file, named[i].file);
        ck_assert_uint_eq(frame.line, named[i].line);
    }
    ck_assert_uint_eq(weir__stacks_frame(stacks, NULL, NULL, 0), NAMED);
    ck_assert_uint_eq(weir__stacks_frame_count(stacks), NAMED);
    ck_assert_uint_eq(weir__stacks_count(stacks), 0);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(long_names_of_a_frame_are_cut)
{
    struct weir__stacks *stacks = make();
    struct weir__frame frame;
    char function[1001], file[1001];
    for (unsigned i = 0; i < 1000; i++)
        function[i] = file[i] = (char)('a' + i % 26);
    function[1000] = file[1000] = '\0';
    ck_assert(weir__stacks_get_frame(stacks, weir__stacks_frame(stacks, function, file, 3), &frame));
    ck_assert_uint_eq(strlen(frame.function), WEIR__FRAME_FUNCTION_MAX);
    ck_assert_int_eq(strncmp(frame.function, function, WEIR__FRAME_FUNCTION_MAX), 0);
    ck_assert_str_eq(frame.file, file + 1000 - WEIR__FRAME_FILE_MAX);
    weir__stacks_destroy(stacks);
}
END_TEST

START_TEST(stack_may_have_addresses_and_frames)
{
    struct weir__stacks *stacks = make();
    const uint64_t *found;
    unsigned count;
    uint32_t frame = weir__stacks_frame(stacks, "f", "f.py", 1);
    const uint64_t mixed[] = {weir__stack_address(0x7f1234567890), weir__stack_frame(frame)};
    const uint64_t plain[] = {weir__stack_address(0x7f1234567890), weir__stack_address(frame)};
    uint32_t id = weir__stacks_add(stacks, mixed, 2);
    ck_assert_uint_ne(weir__stacks_add(stacks, plain, 2), id);
    ck_assert(weir__stacks_get(stacks, id, &found, &count));
    ck_assert_uint_eq(found[0] >> 1, 0x7f1234567890);
    ck_assert_uint_eq(found[0] & 1, 0);
    ck_assert_uint_eq(found[1] >> 1, frame);
    ck_assert_uint_eq(found[1] & 1, 1);
    weir__stacks_destroy(stacks);
}
END_TEST

int main(void)
{
    /* libunwind keeps a pipe open for good, from its first stack on. It is opened here, so that no test seems to leak it. */
    weir__unwind_prepare();
    Suite *suite = suite_create("stacks");
    TCase *tcase = suite_case(suite, "stacks", 0);
    tcase_add_loop_test(tcase, full_table_counts_what_it_has_no_number_for, 0, 3);
    suite_add(tcase, same_stack_has_the_same_number_and_another_stack_another, elements_stay_where_they_are,
              stack_that_another_one_begins_with_is_another_stack, outermost_of_more_than_128_elements_are_left_out,
              nothing_has_no_number_and_no_number_has_nothing, stacks_with_one_hash_have_two_numbers, narrow_address_space_makes_it_smaller,
              threads_that_add_the_same_stacks_get_the_same_numbers, own_stack_is_found_again_at_the_same_call,
              same_frame_has_the_same_number_and_another_frame_another, long_names_of_a_frame_are_cut, stack_may_have_addresses_and_frames);
    return suite_run(suite);
}
