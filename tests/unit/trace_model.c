/* SPDX-License-Identifier: MIT */
/* trace_model.c - what `weir trace` takes a process to have had, from its events; also where these cannot be true. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "trace/model.h"

static struct model model;
static const struct trace_pool pools[2] = {{.number = 0, .id = 1, .name = "main"},
                                           {.number = 1, .id = 2, .name = "arena", .flags = TRACE_POOL_ARENA}};
static const struct trace_text tags[2] = {{.number = 0, .text = "weights"}, {.number = 1, .text = "cache"}};
static uint64_t order;

static void open_model(void)
{
    model = (struct model){0};
    order = 0;
}

static void close_model(void)
{
    model_free(&model);
}

static void apply(struct trace_event event)
{
    event.time = event.time ? event.time : 10 * order;
    event.order = event.order ? event.order : order;
    event.given = event.given ? event.given : event.size;
    order++;
    model_apply(&model, &event);
}

/* Of pool 0. */
static void block(enum trace_kind kind, uint64_t address, uint64_t size, uint64_t given)
{
    apply((struct trace_event){.kind = kind, .address = address, .size = size, .given = given, .pool = &pools[0], .tag = &tags[0]});
}

static const struct model_pool *pool(void)
{
    return &model.pools[1];
}

START_TEST(blocks_come_and_go)
{
    block(TRACE_MALLOC, 1, 1000, 1024);
    block(TRACE_MALLOC, 2, 500, 512);
    ck_assert_uint_eq(model.total.size, 1500);
    ck_assert_uint_eq(model.total.given, 1536);
    ck_assert_uint_eq(pool()->live.blocks, 2);
    block(TRACE_FREE, 1, 1000, 1024);
    ck_assert_uint_eq(pool()->live.size, 500);
    ck_assert_uint_eq(model.tags[1].size, 500);
    ck_assert_uint_eq(model.total.peak_size, 1500);
    ck_assert_uint_eq(model.total.allocations, 2);
    ck_assert_uint_eq(model.total.allocated, 1500);
    ck_assert_uint_eq(model.peak.event, 2);
    ck_assert_uint_eq(model.peak.time, 10);
}
END_TEST

START_TEST(kept_block_is_the_cache_s_until_it_is_served)
{
    block(TRACE_MALLOC, 1, 1000, 1024);
    block(TRACE_KEEP, 1, 1000, 1024);
    ck_assert_uint_eq(pool()->live.blocks, 0);
    ck_assert_uint_eq(pool()->cached, 1024);
    ck_assert_uint_eq(model_held(pool()), 1024);
    block(TRACE_SERVE, 1, 800, 1024);
    ck_assert_uint_eq(pool()->cached, 0);
    ck_assert_uint_eq(pool()->live.size, 800);
    block(TRACE_KEEP, 1, 800, 1024);
    block(TRACE_RETURN, 1, 0, 1024);
    ck_assert_uint_eq(model_held(pool()), 0);
    ck_assert_uint_eq(model.reused + model.unknown_ends + model.late_ends, 0);
}
END_TEST

START_TEST(block_of_another_pool_is_another_block)
{
    block(TRACE_MALLOC, 1, 1000, 0);
    apply((struct trace_event){.kind = TRACE_MALLOC, .address = 1, .size = 1, .pool = &pools[1]});
    ck_assert_uint_eq(model.total.blocks, 2);
    ck_assert_uint_eq(model_find(&model, 1, &pools[1])->size, 1);
    ck_assert_uint_eq(model_find(&model, 1, &pools[0])->size, 1000);
    ck_assert_ptr_null(model_find(&model, 1, NULL));
}
END_TEST

START_TEST(live_block_says_nothing_if_it_is_known)
{
    block(TRACE_LIVE, 1, 1000, 1024);
    block(TRACE_CACHED, 2, 0, 512);
    ck_assert_uint_eq(pool()->live.size, 1000);
    ck_assert_uint_eq(pool()->cached, 512);
    ck_assert_uint_eq(pool()->live.allocations, 0);
    block(TRACE_LIVE, 1, 7, 7);
    block(TRACE_LIVE, 2, 7, 7);
    ck_assert_uint_eq(model.total.size, 1000);
    ck_assert_uint_eq(pool()->cached, 512);
}
END_TEST

START_TEST(allocation_of_a_live_address_ends_the_earlier_block)
{
    block(TRACE_MALLOC, 1, 1000, 0);
    block(TRACE_MALLOC, 1, 300, 0);
    ck_assert_uint_eq(model.total.size, 300);
    ck_assert_uint_eq(model.total.blocks, 1);
    ck_assert_uint_eq(model.reused, 1);
}
END_TEST

START_TEST(late_free_of_the_earlier_block_leaves_the_later_one)
{
    block(TRACE_MALLOC, 1, 1000, 0);
    order = 6;
    block(TRACE_MALLOC, 1, 300, 0);
    apply((struct trace_event){.kind = TRACE_FREE, .order = 5, .address = 1, .size = 1000, .pool = &pools[0]});
    ck_assert_uint_eq(model.total.size, 300);
    ck_assert_uint_eq(model.late_ends, 1);
    block(TRACE_FREE, 1, 300, 0);
    ck_assert_uint_eq(model.total.size, 0);
    ck_assert_uint_eq(model.unknown_ends, 0);
}
END_TEST

START_TEST(free_of_what_was_never_seen_is_counted)
{
    block(TRACE_FREE, 1, 1000, 0);
    block(TRACE_RETURN, 1, 0, 1000);
    ck_assert_uint_eq(model.unknown_ends, 2);
    ck_assert_uint_eq(model.total.size, 0);
    block(TRACE_KEEP, 1, 1000, 0);
    ck_assert_uint_eq(pool()->cached, 1000);
}
END_TEST

START_TEST(held_is_what_the_trace_says_if_it_does)
{
    block(TRACE_MALLOC, 1, 1000, 1024);
    ck_assert_uint_eq(model.held, 1024);
    apply((struct trace_event){.kind = TRACE_FIGURES, .pool = &pools[0], .a = 1024, .b = 4096});
    ck_assert_uint_eq(model.held, 4096);
    apply((struct trace_event){.kind = TRACE_MAP, .pool = &pools[0], .a = 4096, .b = 60});
    apply((struct trace_event){.kind = TRACE_FIGURES, .pool = &pools[0], .a = 1024, .b = 8192});
    ck_assert_uint_eq(pool()->growth.count, 1);
    ck_assert_uint_eq(pool()->growth.bytes, 4096);
    ck_assert_uint_eq(pool()->growth.ns, 60);
    apply((struct trace_event){.kind = TRACE_TRIM, .pool = &pools[0], .a = 6144, .b = 50});
    ck_assert_uint_eq(model.held, 2048);
    ck_assert_uint_eq(pool()->held_peak, 8192);
    ck_assert_uint_eq(model.peak_held, 8192);
    ck_assert_uint_eq(pool()->trims.ns, 50);
}
END_TEST

START_TEST(arena_maps_and_unmaps)
{
    apply((struct trace_event){.kind = TRACE_MAP, .pool = &pools[1], .a = 4096, .b = 30});
    apply((struct trace_event){.kind = TRACE_MAP, .pool = &pools[1], .a = 4096, .b = 70});
    apply((struct trace_event){.kind = TRACE_TRIM, .pool = &pools[1], .a = 4096, .b = 1});
    apply((struct trace_event){.kind = TRACE_UNMAP, .pool = &pools[1], .a = 4096, .b = 1});
    const struct model_pool *arena = &model.pools[2];
    ck_assert_uint_eq(arena->reserved, 4096);
    ck_assert_uint_eq(arena->growth.bytes, 8192);
    ck_assert_uint_eq(arena->growth.ns, 100);
    ck_assert_uint_eq(arena->growth.longest_ns, 70);
    ck_assert_uint_eq(arena->growth.longest_at, 10);
}
END_TEST

START_TEST(calls_that_hold_the_host_up_are_summed_by_call_pool_and_stack)
{
    static const struct trace_stack stacks[] = {{.number = 0}, {.number = 1}};
    struct trace_event event = {.kind = TRACE_HELD, .pool = &pools[0], .stack = &stacks[0], .size = 100, .a = 1, .b = 20, .time = 5};
    apply(event);
    event.b = 30;
    apply(event);
    event.stack = &stacks[1];
    apply(event);
    event.a = UINT64_MAX;
    apply(event);
    ck_assert_uint_eq(model.stall_count, 3);
    ck_assert_uint_eq(model.stalls[0].span.count, 2);
    ck_assert_uint_eq(model.stalls[0].span.ns, 50);
    ck_assert_uint_eq(model.stalls[0].span.bytes, 200);
    ck_assert_uint_eq(model.stalls[0].span.longest_ns, 30);
    ck_assert_uint_eq(model.stalls[2].call, UINT32_MAX);
    ck_assert_uint_eq(model.total.blocks, 0);
    ck_assert_uint_eq(model.stack_count, 3);
    struct model_span sum = model.stalls[0].span;
    model_span_join(&sum, &model.stalls[1].span);
    ck_assert_uint_eq(sum.count, 3);
    ck_assert_uint_eq(sum.ns, 80);
    ck_assert_uint_eq(sum.longest_ns, 30);
}
END_TEST

START_TEST(moments_and_waits_are_kept)
{
    static const struct trace_text step = {.number = 0, .text = "step 1"};
    apply((struct trace_event){.kind = TRACE_MARK, .name = &step, .time = 7});
    apply((struct trace_event){.kind = TRACE_OUT_OF_MEMORY, .pool = &pools[0], .a = 100, .b = 1});
    apply((struct trace_event){.kind = TRACE_OUT_OF_MEMORY, .pool = &pools[0], .a = 100, .b = 0});
    apply((struct trace_event){.kind = TRACE_RUNG, .pool = &pools[0], .a = 2, .b = 9});
    apply((struct trace_event){.kind = TRACE_RUNG, .pool = &pools[0], .a = UINT64_MAX, .b = 9});
    apply((struct trace_event){.kind = TRACE_WAIT, .pool = &pools[0], .a = 11, .b = 5});
    apply((struct trace_event){.kind = TRACE_SYNCHRONISE, .pool = &pools[0], .a = 12});
    apply((struct trace_event){.kind = TRACE_ASKED, .a = 100, .b = 60});
    ck_assert_str_eq(model.marks[0].name->text, "step 1");
    ck_assert_uint_eq(model.marks[0].time, 7);
    ck_assert_uint_eq(pool()->ooms_at_cap, 1);
    ck_assert_uint_eq(pool()->ooms_at_device, 1);
    ck_assert_uint_eq(model.oom_count, 2);
    ck_assert_uint_eq(pool()->rungs[2].ns, 9);
    ck_assert_uint_eq(pool()->rungs[MODEL_RUNGS - 1].count, 1);
    ck_assert_uint_eq(pool()->waits.ns, 11);
    ck_assert_uint_eq(pool()->synchronises.ns, 12);
    ck_assert_uint_eq(model.asked.bytes, 100);
}
END_TEST

/* Whatever comes, all sums are those of the blocks. */
START_TEST(sums_are_those_of_the_blocks_whatever_comes)
{
    static const enum trace_kind kinds[] = {TRACE_MALLOC, TRACE_FREE, TRACE_SERVE, TRACE_KEEP, TRACE_RETURN, TRACE_LIVE, TRACE_CACHED};
    srand(1);
    for (int i = 0; i < 20000; i++) {
        int r = rand();
        apply((struct trace_event){.kind = kinds[rand() % 7],
                                   .address = (uint64_t)rand() % 50,
                                   .size = (uint64_t)rand() % 1000,
                                   .order = 1 + (uint64_t)rand() % 1000,
                                   .stream = (uint64_t)rand() % 3,
                                   .pool = r % 3 ? &pools[r % 2] : NULL,
                                   .tag = r % 5 ? &tags[r / 2 % 2] : NULL});
    }
    uint64_t size = 0, cached = 0, by_pool = 0, by_tag = 0, by_stream = 0, by_stack = 0, pools_cached = 0, blocks = 0;
    for (size_t i = 0; i < model.block_count; i++) {
        size += model.blocks[i].size;
        blocks += model.blocks[i].state == MODEL_LIVE;
        cached += model.blocks[i].state == MODEL_CACHED ? model.blocks[i].given : 0;
    }
    for (size_t i = 0; i < model.pool_count; i++) {
        by_pool += model.pools[i].live.size;
        pools_cached += model.pools[i].cached;
    }
    for (size_t i = 0; i < model.tag_count; i++)
        by_tag += model.tags[i].size;
    for (size_t i = 0; i < model.stack_count; i++)
        by_stack += model.stacks[i].size;
    for (size_t i = 0; i < model.stream_count; i++)
        by_stream += model.streams[i].live.size;
    ck_assert_uint_gt(size, 0);
    ck_assert_uint_eq(model.total.size, size);
    ck_assert_uint_eq(model.total.blocks, blocks);
    ck_assert_uint_eq(by_pool, size);
    ck_assert_uint_eq(by_tag, size);
    ck_assert_uint_eq(by_stack, size);
    ck_assert_uint_eq(by_stream, size);
    ck_assert_uint_eq(pools_cached, cached);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_model");
    TCase *tcase = suite_case(suite, "model", 0);
    tcase_add_checked_fixture(tcase, open_model, close_model);
    suite_add(tcase, blocks_come_and_go, kept_block_is_the_cache_s_until_it_is_served, block_of_another_pool_is_another_block,
              live_block_says_nothing_if_it_is_known, allocation_of_a_live_address_ends_the_earlier_block,
              late_free_of_the_earlier_block_leaves_the_later_one, free_of_what_was_never_seen_is_counted,
              held_is_what_the_trace_says_if_it_does, arena_maps_and_unmaps, calls_that_hold_the_host_up_are_summed_by_call_pool_and_stack,
              moments_and_waits_are_kept,
              sums_are_those_of_the_blocks_whatever_comes);
    return suite_run(suite);
}
