/* SPDX-License-Identifier: MIT */
/* view_totals.c - `weir trace tags` and `stacks`: who asked for how much, over the whole trace. */
#include "tools/trace/view.h"
#include "tools/common/command.h"
#include "tools/common/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tag or stack: its sums at the end, and what it had when the process had the most. */
struct total {
    const char *tag;
    const struct trace_stack *stack;
    struct model_sum sum;
    uint64_t at_peak, blocks_at_peak;
};

static int by_peak(const void *left, const void *right)
{
    const struct total *a = left, *b = right;
    if (a->at_peak != b->at_peak)
        return a->at_peak > b->at_peak ? -1 : 1;
    if (a->sum.allocated != b->sum.allocated)
        return a->sum.allocated > b->sum.allocated ? -1 : 1;
    return a->sum.allocations > b->sum.allocations ? -1 : a->sum.allocations < b->sum.allocations;
}

struct totals {
    struct total *items;
    size_t count;
    uint64_t now; /* the time of the last event */
};

/* Plays the file twice: to its end, and to its highest moment. */
static struct totals find_totals(struct view_file *file, bool of_stacks)
{
    struct model whole, high;
    struct totals totals = {0};
    bool is_good = view_play(file, &whole, VIEW_ALL);
    if (!is_good || !view_play(file, &high, whole.peak.event))
        high = (struct model){0};
    size_t count = of_stacks ? whole.stack_count : whole.tag_count, high_count = of_stacks ? high.stack_count : high.tag_count;
    const struct model_sum *sums = of_stacks ? whole.stacks : whole.tags, *high_sums = of_stacks ? high.stacks : high.tags;
    totals.items = must(calloc(count + 1, sizeof totals.items[0]));
    for (size_t i = 0; i < count; i++) {
        struct total total = {.sum = sums[i]};
        if (of_stacks)
            total.stack = whole.stack_frames[i];
        else
            total.tag = whole.tag_names[i] ? whole.tag_names[i]->text : NULL;
        total.at_peak = i < high_count ? high_sums[i].size : 0;
        total.blocks_at_peak = i < high_count ? high_sums[i].blocks : 0;
        if (total.sum.peak_size || total.sum.allocations || total.sum.blocks)
            totals.items[totals.count++] = total;
    }
    if (totals.count)
        qsort(totals.items, totals.count, sizeof totals.items[0], by_peak);
    model_free(&whole);
    model_free(&high);
    return totals;
}

static void json_totals(const struct view *view, struct view_file *file, const struct totals *totals, bool of_stacks)
{
    struct json *json = view->json;
    json_array(json, of_stacks ? "stacks" : "tags");
    for (size_t i = 0; i < totals->count && i < view->limit; i++) {
        const struct total *total = &totals->items[i];
        json_object(json, NULL);
        if (of_stacks)
            view_json_stack(json, file, total->stack);
        else
            json_string(json, "tag", total->tag);
        json_uint(json, "at_peak", total->at_peak);
        json_uint(json, "blocks_at_peak", total->blocks_at_peak);
        json_uint(json, "allocations", total->sum.allocations);
        json_uint(json, "allocated", total->sum.allocated);
        json_uint(json, "live_peak", total->sum.peak_size);
        json_uint(json, "live", total->sum.size);
        json_uint(json, "live_blocks", total->sum.blocks);
        json_end(json);
    }
    json_end(json);
}

static void print_tags(const struct view *view, struct view_file *file, const struct totals *totals)
{
    struct table table = TABLE_INIT("lrrrrrr");
    (void)file;
    table_row(&table, "TAG", "AT PEAK", "OWN PEAK", "AT END", "BLOCKS", "ALLOCS", "ASKED");
    for (size_t i = 0; i < totals->count && i < view->limit; i++) {
        const struct total *total = &totals->items[i];
        table_row(&table, total->tag ? SHOWN(total->tag) : "-", SIZE_TEXT(total->at_peak), SIZE_TEXT(total->sum.peak_size),
                  SIZE_TEXT(total->sum.size), COUNT_TEXT(total->sum.blocks), COUNT_TEXT(total->sum.allocations),
                  SIZE_TEXT(total->sum.allocated));
    }
    table_print(&table, stdout);
    if (totals->count > view->limit)
        printf("  and %s more\n", COUNT_TEXT(totals->count - view->limit));
}

/* In their way, from the totals of tags or stacks. */
static int show_totals(const struct view *view, struct view_file *file, bool of_stacks,
                       void (*print)(const struct view *, struct view_file *, const struct totals *))
{
    struct totals totals = find_totals(file, of_stacks);
    if (view->json)
        json_totals(view, file, &totals, of_stacks);
    else
        print(view, file, &totals);
    free(totals.items);
    return EXIT_GOOD;
}

int view_tags(const struct view *view, struct view_file *file)
{
    return show_totals(view, file, false, print_tags);
}

static void print_stacks(const struct view *view, struct view_file *file, const struct totals *totals)
{
    if (totals->count == 0 || (totals->count == 1 && !totals->items[0].stack))
        puts("The trace has no stacks: record.stacks in the policy turns them on.");
    for (size_t i = 0; i < totals->count && i < view->limit; i++) {
        const struct total *total = &totals->items[i];
        printf("%s%s at the peak, %s at the end; %s allocation%s of %s%s\n", i ? "\n" : "", SIZE_TEXT(total->at_peak),
               SIZE_TEXT(total->sum.size), COUNT_TEXT(total->sum.allocations), weir__plural(total->sum.allocations),
               SIZE_TEXT(total->sum.allocated), total->stack ? "" : ", without a stack");
        view_print_stack(file, total->stack, "  ", 0);
    }
    if (totals->count > view->limit)
        printf("\nand %s more\n", COUNT_TEXT(totals->count - view->limit));
}

/* One line for each stack, the outermost frame first, with its bytes at the peak: what tools that draw flame graphs read. */
static void print_collapsed(const struct view *view, struct view_file *file, const struct totals *totals)
{
    (void)view;
    for (size_t i = 0; i < totals->count; i++) {
        const struct total *total = &totals->items[i];
        if (!total->at_peak)
            continue;
        if (!total->stack || !total->stack->count)
            fputs("(no stack)", stdout);
        for (uint32_t frame = total->stack ? total->stack->count : 0; frame-- > 0;) {
            char shown[SHOWN_LEN];
            view_frame(shown, file, &total->stack->frames[frame]);
            for (char *at = shown; *at; at++)
                *at = *at == ';' ? ',' : *at;
            printf("%s%s", shown, frame ? ";" : "");
        }
        printf(" %" PRIu64 "\n", total->at_peak);
    }
}

int view_stacks(const struct view *view, struct view_file *file)
{
    return show_totals(view, file, true, view->is_collapsed ? print_collapsed : print_stacks);
}
