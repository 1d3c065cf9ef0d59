/* SPDX-License-Identifier: MIT */
/*
 * arena_rest.c - arenas come to rest: where a program does again what it did before, its requests need next to no calls of the driver on
 * pages. The programs are those of RMM's benchmark RANDOM_ALLOCATIONS (bench/sequence.h).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/sequence.h"
#include "tests/api/fixture.h"
#include "tests/api/hook.h"
#include "tests/support/suite.h"

#define SEED 73
#define PAGE_CALLS 2 /* a page is created and mapped, or unmapped and mapped elsewhere */

/* The calls of the driver on pages since start_counting(). */
static struct {
    struct gpu gpu;
    _Atomic unsigned calls;
} counted;

static int count_create(int device, uint64_t size, gpu_page *page)
{
    counted.calls++;
    return hook_base()->page_create(device, size, page);
}

static int count_release(gpu_page page)
{
    counted.calls++;
    return hook_base()->page_release(page);
}

static int count_map(void *address, uint64_t size, gpu_page page)
{
    counted.calls++;
    return hook_base()->page_map(address, size, page);
}

static int count_unmap(void *address, uint64_t size)
{
    counted.calls++;
    return hook_base()->page_unmap(address, size);
}

static void start_counting(void)
{
    counted.gpu = *hook_base();
    counted.gpu.page_create = count_create;
    counted.gpu.page_release = count_release;
    counted.gpu.page_map = count_map;
    counted.gpu.page_unmap = count_unmap;
    counted.calls = 0;
    hook_set(&counted.gpu);
}

/* Plays the sequence once, and frees what is live at its end. Returns the number of its requests. */
static unsigned play(const struct sequence *sequence, weir_stream *stream)
{
    void **blocks = calloc(sequence->slot_count, sizeof *blocks);
    unsigned requests = 0;
    ck_assert_ptr_nonnull(blocks);
    for (size_t i = 0; i < sequence->step_count; i++) {
        const struct sequence_step *step = &sequence->steps[i];
        if (step->size) {
            blocks[step->slot] = fixture_malloc(stream, step->size);
            requests++;
            continue;
        }
        ck_assert_int_eq(weir_stream_free(stream, blocks[step->slot]), WEIR_OK);
        blocks[step->slot] = NULL;
    }
    for (size_t i = 0; i < sequence->slot_count; i++)
        if (blocks[i])
            ck_assert_int_eq(weir_stream_free(stream, blocks[i]), WEIR_OK);
    free(blocks);
    fixture_synchronize(stream);
    return requests;
}

static const struct {
    const char *label;
    size_t count;
    uint64_t largest;
} rows[] = {
    {"1,000 up to 1 MiB", 1000, MIB(1)},     {"1,000 up to 4 MiB", 1000, MIB(4)},     {"1,000 up to 64 MiB", 1000, MIB(64)},
    {"1,000 up to 256 MiB", 1000, MIB(256)}, {"1,000 up to 1 GiB", 1000, GIB(1)},     {"10,000 up to 1 MiB", 10000, MIB(1)},
    {"10,000 up to 4 MiB", 10000, MIB(4)},   {"10,000 up to 64 MiB", 10000, MIB(64)}, {"10,000 up to 256 MiB", 10000, MIB(256)},
    {"10,000 up to 1 GiB", 10000, GIB(1)},
};

/* A pass of 1,000 requests may find one page of 2 MiB missing for its small blocks. The third pass finds none. */
START_TEST(random_sizes_that_come_again_need_a_call_for_one_request_of_a_thousand)
{
    struct sequence sequence;
    fixture_machine("memory=80GiB");
    ck_assert(sequence_record(&sequence, rows[_i].count, rows[_i].largest, SEED));
    weir *w = fixture_open("weir: 1\npools: { p: { backing: arena, release_threshold: all } }\n");
    weir_stream *stream = fixture_stream(w, 0, NULL);
    play(&sequence, stream);
    for (unsigned pass = 2; pass <= 3; pass++) {
        start_counting();
        unsigned requests = play(&sequence, stream), most = requests / 1000;
        if (pass == 2 && most < PAGE_CALLS)
            most = PAGE_CALLS;
        ck_assert_msg(counted.calls <= most, "%s, pass %u: %u calls for %u requests", rows[_i].label, pass, counted.calls, requests);
    }
    ck_assert_uint_lt(fixture_figures(w, "p", 0).reserved_high, GIB(28)); /* of 16,000 MiB live; RMM's pool takes half of the device */
    sequence_clear(&sequence);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* An arena that may not grow by what moves cost goes on moving: no request fails, and the cap holds. */
START_TEST(a_restless_arena_at_its_cap_moves_pages)
{
    struct sequence sequence;
    fixture_machine("memory=80GiB");
    ck_assert(sequence_record(&sequence, 1000, MIB(256), SEED));
    weir *w = fixture_open("weir: 1\npools: { p: { backing: arena, release_threshold: all, max_size: 18500MiB } }\n");
    weir_stream *stream = fixture_stream(w, 0, NULL);
    play(&sequence, stream);
    start_counting();
    unsigned requests = play(&sequence, stream);
    ck_assert_uint_gt(counted.calls, requests / 100);
    ck_assert_uint_le(fixture_figures(w, "p", 0).reserved_high, MIB(18500));
    sequence_clear(&sequence);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena_rest");
    TCase *random = suite_case(suite, "random", 120);
    tcase_add_loop_test(random, random_sizes_that_come_again_need_a_call_for_one_request_of_a_thousand, 0,
                        (int)(sizeof rows / sizeof *rows));
    tcase_add_test(random, a_restless_arena_at_its_cap_moves_pages);
    return suite_run(suite);
}
