/* SPDX-License-Identifier: MIT */
/* What a stack of 20 frames costs: found by each way that this process has, and found again in the table of stacks. Needs no GPU. */
#include "bench/section.h"
#include "lib/record/stack.h"

#define FRAMES 20
#define ASKED_NS 250
#define OTHERS 20000 /* stacks in the table */

enum { HERE, TABLE, LIBUNWIND, FRAME_POINTERS, BACKTRACE, SERIES };
static const char *const names[SERIES] = {"all", "table", "libunwind", "frame ptr", "backtrace"};

struct stack_run {
    struct weir__stacks *stacks;
    unsigned calls;
    unsigned frames; /* that were found */
    uint64_t elements[WEIR__STACK_MAX];
    struct bench_series series[SERIES];
};

static void measure(struct stack_run *run, unsigned series, enum weir__unwind_way way)
{
    uintptr_t pcs[WEIR__STACK_MAX];
    volatile unsigned found = 0;
    unsigned calls = way == WEIR__UNWIND_BACKTRACE ? run->calls / 20 : run->calls;
    uint64_t start = bench_now();
    for (unsigned i = 0; i < calls; i++) {
        if (way)
            found = weir__unwind_by(way, pcs, run->frames);
        else if (series == TABLE)
            found = weir__stacks_add(run->stacks, run->elements, run->frames);
        else
            found = weir__stacks_here(run->stacks);
    }
    bench_add(&run->series[series], (double)(bench_now() - start) / calls);
    if (!found)
        bench_die(__FILE__, __LINE__, names[series], "found no stack");
}

/* Calls itself until the stack has as many frames. */
static __attribute__((noinline)) void descend(struct stack_run *run)
{
    uintptr_t pcs[WEIR__STACK_MAX];
    unsigned count = weir__unwind(pcs, WEIR__STACK_MAX);
    if (count < FRAMES) {
        descend(run);
    } else {
        run->frames = count;
        for (unsigned i = 0; i < count; i++)
            run->elements[i] = weir__stack_address(pcs[i]);
        measure(run, HERE, WEIR__UNWIND_NONE);
        measure(run, TABLE, WEIR__UNWIND_NONE);
        if (weir__unwind_can(WEIR__UNWIND_LIBUNWIND))
            measure(run, LIBUNWIND, WEIR__UNWIND_LIBUNWIND);
        if (weir__unwind_can(WEIR__UNWIND_FRAME_POINTERS))
            measure(run, FRAME_POINTERS, WEIR__UNWIND_FRAME_POINTERS);
        measure(run, BACKTRACE, WEIR__UNWIND_BACKTRACE);
    }
    __asm__ volatile("" ::: "memory"); /* so that no call is the function's last deed, which would leave no frame */
}

void section_stacks(struct bench *bench)
{
    static struct stack_run run;
    char name[96];
    run = (struct stack_run){.calls = bench->quick ? 20000 : 200000};
    run.stacks = weir__stacks_new(WEIR__STACKS_BYTES, WEIR__STACKS_COUNT);
    if (!run.stacks)
        bench_die(__FILE__, __LINE__, "weir__stacks_new", "there is no memory");
    weir__unwind_prepare();
    /* So that what is looked for is not all that the table has. */
    for (uint64_t n = 1; n <= OTHERS; n++)
        weir__stacks_add(run.stacks, &n, 1);
    for (size_t i = 0; i < bench->repetitions; i++)
        descend(&run);
    snprintf(name, sizeof(name), "a stack of %u frames by %s", run.frames, weir__unwind_way());
    struct bench_figure *figure = bench_figure_new(&bench->report, "stacks", name);
    for (size_t i = 0; i < SERIES; i++) {
        run.series[i].name = names[i];
        if (run.series[i].count)
            *bench_series_new(figure, names[i]) = run.series[i];
    }
    bench_show(figure, bench_median(&run.series[HERE]), "ns", BENCH_AT_MOST, ASKED_NS);
    weir__stacks_destroy(run.stacks);
}
