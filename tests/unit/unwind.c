/* SPDX-License-Identifier: MIT */
/* Return addresses: three ways that find the same callers, frame pointers that lead astray, and calls from within. */
#include "config.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record/unwind.h"
#include "tests/support/suite.h"
#include "tests/unit/unwind_module.h"

static const enum weir__unwind_way ways[] = {WEIR__UNWIND_LIBUNWIND, WEIR__UNWIND_FRAME_POINTERS, WEIR__UNWIND_BACKTRACE};

/* A chain of calls, each of which notes where it will return to. */
struct chain {
    enum weir__unwind_way way;
    unsigned max, depth, count, noted;
    uintptr_t pcs[2 * WEIR__UNWIND_MAX], returns[2 * WEIR__UNWIND_MAX];
    bool can;
};

/* On aarch64 each signs its return address, where the processor can, as distributions build their code. */
#if defined(__aarch64__)
#define SIGNED __attribute__((target("branch-protection=pac-ret")))
#define LIBUNWIND_IS_SAFE false
#else
#define SIGNED
#define LIBUNWIND_IS_SAFE true
#endif

static SIGNED __attribute__((noinline)) void call_chain(struct chain *chain)
{
    chain->returns[chain->noted++] = (uintptr_t)__builtin_return_address(0);
    if (chain->noted < chain->depth)
        call_chain(chain);
    else
        chain->count = weir__unwind_by(chain->way, chain->pcs, chain->max);
    __asm__ volatile("" ::: "memory"); /* so that no call is the function's last deed, which would leave no frame */
}

/* In a thread of its own, below which there is nothing that was built without frame pointers but the C library's start. */
static void *run_chain(void *data)
{
    struct chain *chain = data;
    chain->can = weir__unwind_can(chain->way);
    if (chain->can || chain->way != WEIR__UNWIND_LIBUNWIND)
        call_chain(chain);
    return NULL;
}

/* False: this way is not there. */
static bool run(struct chain *chain)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_chain, chain), 0);
    pthread_join(thread, NULL);
    return chain->noted != 0;
}

/* It runs threads in functions of its own. */
static bool is_thread_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__tsan_init");
}

/* The innermost address is within call_chain(), then come the noted ones from the last to the first. */
static void check_chain(const struct chain *chain, unsigned frames)
{
    ck_assert_uint_ge(chain->count, frames);
    for (unsigned i = 1; i < frames; i++)
        ck_assert_msg(chain->pcs[i] == chain->returns[chain->noted - i], "frame %u of %u", i, chain->count);
}

START_TEST(callers_are_found_from_the_innermost_out)
{
    struct chain chain = {.way = ways[_i], .max = WEIR__UNWIND_MAX, .depth = 9};
    if (run(&chain))
        check_chain(&chain, 10);
}
END_TEST

START_TEST(innermost_callers_are_kept_where_there_is_no_room_for_all)
{
    struct chain chain = {.way = ways[_i], .max = 3, .depth = 9};
    if (!run(&chain))
        return;
    check_chain(&chain, 3);
    ck_assert_uint_eq(chain.count, 3);
    ck_assert_uint_eq(chain.pcs[3], 0);
}
END_TEST

START_TEST(stack_has_64_frames_at_most)
{
    struct chain chain = {.way = ways[_i], .max = 2 * WEIR__UNWIND_MAX, .depth = 100};
    if (!run(&chain))
        return;
    check_chain(&chain, WEIR__UNWIND_MAX);
    ck_assert_uint_eq(chain.count, WEIR__UNWIND_MAX);
}
END_TEST

START_TEST(frame_pointers_will_do_in_a_stack_that_has_them)
{
    struct chain chain = {.way = WEIR__UNWIND_FRAME_POINTERS, .max = WEIR__UNWIND_MAX, .depth = 1};
    run(&chain);
    ck_assert(chain.can || is_thread_sanitizer());
}
END_TEST

START_TEST(no_room_gives_no_frames)
{
    uintptr_t pc = 1;
    ck_assert_uint_eq(weir__unwind_by(WEIR__UNWIND_BACKTRACE, &pc, 0), 0);
    ck_assert_uint_eq(pc, 1);
}
END_TEST

START_TEST(nothing_is_found_before_a_way_is_chosen)
{
    uintptr_t pcs[8];
    ck_assert_uint_eq(weir__unwind(pcs, 8), 0);
    ck_assert_str_eq(weir__unwind_way(), "none");
}
END_TEST

START_TEST(libunwind_is_chosen_where_it_is_and_safe)
{
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    weir__unwind_prepare();
    ck_assert_int_eq(strcmp(weir__unwind_way(), "libunwind") == 0, library && LIBUNWIND_IS_SAFE && !is_thread_sanitizer());
    ck_assert_str_ne(weir__unwind_way(), "none");
}
END_TEST

START_TEST(hosts_backtrace_stays_the_hosts)
{
    void *before = dlsym(RTLD_DEFAULT, "backtrace"), *unwinder = dlsym(RTLD_DEFAULT, "_Unwind_Backtrace");
    weir__unwind_prepare();
    ck_assert_ptr_eq(dlsym(RTLD_DEFAULT, "backtrace"), before);
    ck_assert_ptr_eq(dlsym(RTLD_DEFAULT, "_Unwind_Backtrace"), unwinder);
    ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "unw_backtrace"));
}
END_TEST

START_TEST(chosen_way_finds_the_callers)
{
    uintptr_t pcs[WEIR__UNWIND_MAX], here[WEIR__UNWIND_MAX];
    weir__unwind_prepare();
    unsigned count = weir__unwind(pcs, WEIR__UNWIND_MAX), all = weir__unwind_by(WEIR__UNWIND_BACKTRACE, here, WEIR__UNWIND_MAX);
    ck_assert_uint_ge(count, 4);
    ck_assert_uint_eq(count, all);
    /* The first lies in this function both times, at two calls. */
    ck_assert_int_eq(memcmp(pcs + 1, here + 1, (count - 1) * sizeof(*pcs)), 0);
}
END_TEST

/* A backtrace() of ours in the place of the C library's, as of a host that hooks something which is called on the way. */
static struct {
    bool is_on;
    unsigned calls, frames;
} hook;

__attribute__((visibility("default"))) int backtrace(void **buffer, int size)
{
    int (*next)(void **, int);
    *(void **)&next = dlsym(RTLD_NEXT, "backtrace");
    if (hook.is_on) {
        uintptr_t pcs[8];
        hook.calls++;
        hook.frames += weir__unwind_by(WEIR__UNWIND_BACKTRACE, pcs, 8) + weir__unwind_by(WEIR__UNWIND_FRAME_POINTERS, pcs, 8);
    }
    return next(buffer, size);
}

START_TEST(call_from_within_finds_nothing_and_the_outer_one_all)
{
    struct chain chain = {.way = WEIR__UNWIND_BACKTRACE, .max = WEIR__UNWIND_MAX, .depth = 5};
    hook.is_on = true;
    call_chain(&chain);
    hook.is_on = false;
    ck_assert_uint_eq(hook.calls, 1);
    ck_assert_uint_eq(hook.frames, 0);
    check_chain(&chain, 6);
    chain.noted = 0;
    call_chain(&chain);
    check_chain(&chain, 6);
}
END_TEST

/* Frame pointers -------------------------------------------------------------------------------------------------------------------------
 */

#define WORDS 16

/* Words of a stack in which a value below 100 stands for the address of the word of that number. */
static const struct layout {
    const char *name;
    unsigned from, low, high; /* words; `from` in halves of one */
    uintptr_t words[WORDS];
    unsigned count;
    uintptr_t pcs[4];
} layouts[] = {
    {"three frames, the last leads to nothing", 0, 0, 16, {2, 1001, 6, 1002, 0, 0, 0, 1003}, 3, {1001, 1002, 1003}},
    {"a frame below the one before", 8, 0, 16, {9, 1001, 0, 0, 0, 1002}, 1, {1002}},
    {"a frame that is its own caller", 4, 0, 16, {0, 0, 2, 1001}, 1, {1001}},
    {"a frame between two words", 1, 0, 16, {2, 1001, 3, 1002}, 0, {0}},
    {"a frame above the stack", 0, 0, 8, {8, 1001, 0, 0, 0, 0, 0, 0, 0, 1002}, 1, {1001}},
    {"a frame of which half is above the stack", 0, 0, 8, {7, 1001, 0, 0, 0, 0, 0, 10, 1002}, 1, {1001}},
    {"a frame below the stack", 0, 2, 8, {4, 1001, 0, 0, 0, 1002}, 0, {0}},
    {"no return address", 0, 0, 16, {4, 1001, 0, 0, 6, 0, 0, 1003}, 1, {1001}},
    {"no stack", 0, 0, 0, {2, 1001}, 0, {0}},
    {"more frames than room", 0, 0, 16, {2, 1001, 4, 1002, 6, 1003, 8, 1004, 10, 1005}, 4, {1001, 1002, 1003, 1004}},
};

START_TEST(frames_are_followed_only_upwards_within_the_stack)
{
    const struct layout *layout = &layouts[_i];
    uintptr_t words[WORDS];
    void *pcs[4] = {NULL};
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = layout->words[i] && layout->words[i] < 100 ? (uintptr_t)&words[layout->words[i]] : layout->words[i];
    unsigned count = weir__unwind_follow((uintptr_t)words + layout->from * sizeof(*words) / 2, (uintptr_t)&words[layout->low],
                                         (uintptr_t)words + layout->high * sizeof(*words), pcs, 4);
    ck_assert_msg(count == layout->count, "%s: %u", layout->name, count);
    for (unsigned i = 0; i < count; i++)
        ck_assert_msg((uintptr_t)pcs[i] == layout->pcs[i], "%s: frame %u", layout->name, i);
}
END_TEST

#define PC(n) ((void *)(uintptr_t)(n))

static const struct agreement {
    const char *name;
    unsigned frame_count, all_count;
    void *frames[8], *all[8];
    bool agrees;
} agreements[] = {
    {"the same", 3, 3, {PC(1), PC(2), PC(3)}, {PC(1), PC(2), PC(3)}, true},
    {"but for the C library's", 2, 5, {PC(1), PC(2)}, {PC(1), PC(2), PC(3), PC(4), PC(5)}, true},
    {"more are missing", 2, 6, {PC(1), PC(2)}, {PC(1), PC(2), PC(3), PC(4), PC(5), PC(6)}, false},
    {"one is left out", 2, 3, {PC(1), PC(3)}, {PC(1), PC(2), PC(3)}, false},
    {"one too many", 3, 2, {PC(1), PC(2), PC(3)}, {PC(1), PC(2)}, false},
    {"the first alone", 1, 3, {PC(1)}, {PC(1), PC(2), PC(3)}, false},
    {"none", 0, 0, {NULL}, {NULL}, false},
};

START_TEST(frame_pointers_count_only_where_they_give_the_whole_stack)
{
    const struct agreement *row = &agreements[_i];
    ck_assert_msg(weir__unwind_agree(row->frames, row->frame_count, row->all, row->all_count) == row->agrees, "%s", row->name);
}
END_TEST

START_TEST(no_frame_of_a_shared_library_that_weir_is_in)
{
    uintptr_t pcs[WEIR__UNWIND_MAX];
    Dl_info first, program;
    unsigned count = unwind_module_call(pcs, WEIR__UNWIND_MAX);
    ck_assert_uint_ge(count, 2);
    ck_assert_int_ne(dladdr((void *)pcs[0], &first), 0);
    ck_assert_int_ne(dladdr((void *)call_chain, &program), 0);
    ck_assert_str_eq(first.dli_fname, program.dli_fname);
}
END_TEST

int main(void)
{
    /* libunwind keeps a pipe open for good, from its first stack on. It is opened here, so that no test seems to leak it. */
    weir__unwind_can(WEIR__UNWIND_LIBUNWIND);
    Suite *suite = suite_create("unwind");
    TCase *tcase = suite_case(suite, "ways", 0);
    tcase_add_loop_test(tcase, callers_are_found_from_the_innermost_out, 0, 3);
    tcase_add_loop_test(tcase, innermost_callers_are_kept_where_there_is_no_room_for_all, 0, 3);
    tcase_add_loop_test(tcase, stack_has_64_frames_at_most, 0, 3);
    tcase_add_loop_test(tcase, frames_are_followed_only_upwards_within_the_stack, 0, (int)(sizeof(layouts) / sizeof(layouts[0])));
    tcase_add_loop_test(tcase, frame_pointers_count_only_where_they_give_the_whole_stack, 0,
                        (int)(sizeof(agreements) / sizeof(agreements[0])));
    suite_add(tcase, frame_pointers_will_do_in_a_stack_that_has_them, no_room_gives_no_frames, nothing_is_found_before_a_way_is_chosen,
              libunwind_is_chosen_where_it_is_and_safe, hosts_backtrace_stays_the_hosts, chosen_way_finds_the_callers,
              call_from_within_finds_nothing_and_the_outer_one_all, no_frame_of_a_shared_library_that_weir_is_in);
    return suite_run(suite);
}
