/* SPDX-License-Identifier: MIT */
/*
 * adapt_programs.c - `release_threshold: auto` against the best fixed threshold, and against an oracle that knows the future.
 *
 * A program is a list of steps: so many blocks are in use for so long, of one pool or the other; after each change the stream is
 * synchronised. The cost of a run is the time that calls and the keeper's work take, and what idle memory is worth, at the rate of
 * 0.44 ms for a GiB and second. The oracle keeps a block over each gap, or gives it back, whichever is cheaper.
 *
 * All on the simulator's clock, so that each run is the same. WEIR_TEST_COSTS=1 prints the costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "lib/pool/weir_internal.h"
#include "tests/api/scene.h"

#define SECOND (1000 * MILLISECOND)
#define BLOCK (128 * MIB)
#define MOST 12 /* blocks */
#define POOLS 2
#define STEPS_MAX 4000
#define RENT_NS 440000 /* for each GiB and second */

/* Where the memory comes from, and what a GiB costs in pieces of 64 MiB, in the simulator and on an H200 alike. */
static const struct backing {
    const char *name;
    uint64_t grow, trim; /* nanoseconds */
} backings[] = {{"new", 830000, 930000}, {"arena", 450000, 600000}};
#define BACKING_COUNT (sizeof backings / sizeof backings[0])

struct step {
    unsigned pool, blocks;
    uint64_t time;
};

static struct {
    struct step steps[STEPS_MAX];
    size_t count;
} program;

static void use_of(unsigned pool, unsigned blocks, uint64_t time)
{
    ck_assert_uint_lt(program.count, STEPS_MAX);
    ck_assert_uint_le(blocks, MOST);
    program.steps[program.count++] = (struct step){pool, blocks, time};
}

static void use(unsigned blocks, uint64_t time)
{
    use_of(0, blocks, time);
}

/* The programs ------------------------------------------------------------------------------------------------------------------------ */

static void swing(unsigned low, unsigned high, uint64_t half, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        use(high, half);
        use(low, half);
    }
}

static void be_periodic(void)
{
    swing(0, 8, 50 * MILLISECOND, 200);
}

static void be_slowly_periodic(void)
{
    swing(1, 8, 5 * SECOND, 20);
}

static void drift(void)
{
    for (unsigned base = 0; base <= 9; base++)
        swing(base, base + 3, 200 * MILLISECOND, 10);
    for (unsigned base = 9; base > 0; base--)
        swing(base, base + 3, 200 * MILLISECOND, 10);
}

static void burst(void)
{
    for (unsigned i = 0; i < 8; i++) {
        swing(1, 8, 20 * MILLISECOND, 20);
        use(1, 30 * SECOND);
    }
}

static void have_two_phases(void)
{
    swing(2, 12, 100 * MILLISECOND, 100);
    swing(1, 3, 100 * MILLISECOND, 300);
}

static void grow_a_cache(void)
{
    for (unsigned size = 0; size <= 10; size++)
        swing(size, size + 2, 250 * MILLISECOND, 4);
    use(0, 20 * SECOND);
}

static void take_turns(void)
{
    for (unsigned turn = 0; turn < 8; turn++) {
        for (unsigned i = 0; i < 100; i++) {
            use_of(turn % 2, 6, 75 * MILLISECOND);
            use_of(turn % 2, 1, 75 * MILLISECOND);
        }
        use_of(turn % 2, 0, 1);
    }
}

static void idle_long(void)
{
    for (unsigned i = 0; i < 3; i++) {
        swing(0, 6, 100 * MILLISECOND, 10);
        use(0, 120 * SECOND);
    }
}

static void spike(void)
{
    swing(1, 3, 100 * MILLISECOND, 100);
    swing(1, 12, 100 * MILLISECOND, 1);
    swing(1, 3, 100 * MILLISECOND, 300);
}

static void saw(void)
{
    for (unsigned i = 0; i < 12; i++)
        for (unsigned blocks = 0; blocks <= MOST; blocks++)
            use(blocks, 250 * MILLISECOND);
}

static void be_random(void)
{
    uint64_t state = 42;
    for (unsigned i = 0; i < 200; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        unsigned octave = (unsigned)(state >> 33) % 10;
        use((unsigned)(state >> 48) % (MOST + 1), (10 * MILLISECOND << octave) + (state >> 20) % MILLISECOND);
    }
}

static const struct {
    const char *name;
    void (*steps)(void);
} programs[] = {
    {"periodic", be_periodic},
    {"slowly periodic", be_slowly_periodic},
    {"drifting", drift},
    {"bursty", burst},
    {"two phases", have_two_phases},
    {"growing cache", grow_a_cache},
    {"neighbours taking turns", take_turns},
    {"idle long", idle_long},
    {"one huge spike", spike},
    {"saw tooth", saw},
    {"random", be_random},
};
#define PROGRAM_COUNT (sizeof programs / sizeof programs[0])

/* A run ------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t cost_of(uint64_t bytes, uint64_t for_a_gib)
{
    return (uint64_t)((unsigned __int128)bytes * for_a_gib / GIB);
}

static struct {
    weir_pool *pools[POOLS];
    weir_stream *streams[POOLS];
    void *blocks[POOLS][MOST];
    unsigned live[POOLS];
    uint64_t stalls, rent;
} run;

static uint64_t reserved_in_all(void)
{
    uint64_t reserved = 0;
    for (unsigned p = 0; p < POOLS; p++)
        reserved += weir__pool_figure(run.pools[p], GPU_POOL_RESERVED);
    return reserved;
}

static void pause_until(uint64_t until)
{
    uint64_t now = scene.gpu->now(), live = (uint64_t)(run.live[0] + run.live[1]) * BLOCK, reserved = reserved_in_all();
    if (until <= now)
        return;
    ck_assert_uint_le(live, reserved);
    run.rent += cost_of((uint64_t)((unsigned __int128)(reserved - live) * (until - now) / SECOND), RENT_NS);
    scene.gpu->pause(until - now);
}

/* Lets time pass. What the keeper does meanwhile stalls the program, at worst. */
static void pass(uint64_t time)
{
    uint64_t until = scene.gpu->now() + time, due;
    while ((due = weir__service_next()) <= until && due != WEIR__SERVICE_NEVER) {
        pause_until(due);
        uint64_t begun = scene.gpu->now();
        weir__service_run_due();
        run.stalls += scene.gpu->now() - begun;
        until += scene.gpu->now() - begun;
    }
    pause_until(until);
}

static void take_step(const struct step *step)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = run.streams[step->pool];
    unsigned *live = &run.live[step->pool];
    uint64_t begun = scene.gpu->now();
    while (*live > step->blocks)
        scene_free(s, run.blocks[step->pool][--*live]);
    for (; *live < step->blocks; ++*live)
        run.blocks[step->pool][*live] = scene_malloc(s, BLOCK);
    ck_assert_int_eq(weir_stream_synchronize(s, &error), WEIR_OK);
    run.stalls += scene.gpu->now() - begun;
    pass(step->time);
}

/* Returns the cost in nanoseconds. left: bytes that are reserved a minute after the last step, with nothing in use. */
static uint64_t run_with(const char *threshold, const char *backing, uint64_t *left)
{
    char text[512];
    snprintf(text, sizeof text,
             "weir: 1\nkeeper: true\ndefaults: { pool: a }\n"
             "pools:\n"
             "  a: { backing: %s, small_below: 0, cache: off, release_threshold: %s }\n"
             "  b: { backing: %s, small_below: 0, cache: off, release_threshold: %s }\n"
             "streams: { a: { pool: a }, b: { pool: b } }\n",
             backing, threshold, backing, threshold);
    weir_error error = WEIR_ERROR_INIT;
    scene_begin();
    scene_simulate("memory=2GiB,page_release=24500ns");
    memset(&run, 0, sizeof run);
    scene_open(text);
    static const char *const names[POOLS] = {"a", "b"};
    for (unsigned p = 0; p < POOLS; p++) {
        scene_ok(weir_pool_get(scene.w, names[p], 0, &error, &run.pools[p]), names[p]);
        run.streams[p] = scene_create(names[p]);
    }
    for (size_t i = 0; i < program.count; i++)
        take_step(&program.steps[i]);
    uint64_t cost = run.stalls + run.rent;
    for (unsigned p = 0; p < POOLS; p++)
        take_step(&(struct step){p, 0, 1});
    pass(60 * SECOND);
    *left = reserved_in_all();
    scene_end();
    return cost;
}

static uint64_t best_fixed(const char *backing, unsigned *blocks)
{
    uint64_t best = UINT64_MAX, left;
    for (unsigned b = 0; b <= MOST; b++) {
        char threshold[32];
        snprintf(threshold, sizeof threshold, "%lluMiB", (unsigned long long)(b * BLOCK / MIB));
        uint64_t cost = run_with(threshold, backing, &left);
        if (cost < best)
            *blocks = b;
        best = cost < best ? cost : best;
    }
    return best;
}

/* Each block over each gap for itself. At the end memory may stay or go back, whatever costs less. */
static uint64_t oracle(const struct backing *backing)
{
    uint64_t cost = 0;
    for (unsigned pool = 0; pool < POOLS; pool++)
        for (unsigned b = 0; b < MOST; b++) {
            uint64_t gap = 0;
            bool had = false;
            unsigned blocks = 0;
            for (size_t i = 0; i < program.count; i++) {
                const struct step *step = &program.steps[i];
                blocks = step->pool == pool ? step->blocks : blocks;
                uint64_t rent = cost_of((uint64_t)((unsigned __int128)BLOCK * gap / SECOND), RENT_NS);
                uint64_t again = cost_of(BLOCK, backing->grow + backing->trim);
                if (blocks > b) {
                    cost += !had ? cost_of(BLOCK, backing->grow) : rent < again ? rent : again;
                    had = true;
                    gap = 0;
                } else if (had) {
                    gap += step->time;
                }
            }
            uint64_t rent = cost_of((uint64_t)((unsigned __int128)BLOCK * gap / SECOND), RENT_NS), trim = cost_of(BLOCK, backing->trim);
            cost += rent < trim ? rent : trim;
        }
    return cost;
}

static void begin(void)
{
    const char *why = "";
    weir__service_by_hand(gpu_find(getenv("WEIR_GPU"), &why));
}

static void end(void)
{
    weir__service_by_hand(NULL);
}

START_TEST(auto_costs_at_most_twice_as_much_as_the_best_fixed_threshold_and_as_an_oracle)
{
    unsigned blocks = 0;
    uint64_t left;
    const char *name = programs[(size_t)_i % PROGRAM_COUNT].name;
    const struct backing *backing = &backings[(size_t)_i / PROGRAM_COUNT];
    program.count = 0;
    programs[(size_t)_i % PROGRAM_COUNT].steps();
    uint64_t cost = run_with("auto", backing->name, &left), fixed = best_fixed(backing->name, &blocks), known = oracle(backing);
    if (getenv("WEIR_TEST_COSTS"))
        printf("# %-5s %-24s auto %8.2f ms, best fixed %8.2f ms (%4u MiB) %.2f, oracle %8.2f ms %.2f\n", backing->name, name,
               (double)cost / 1e6, (double)fixed / 1e6, (unsigned)(blocks * BLOCK / MIB), (double)cost / (double)fixed, (double)known / 1e6,
               (double)cost / (double)known);
    ck_assert_msg(cost <= 2 * fixed, "%s: %llu ns, the best fixed one %llu", name, (unsigned long long)cost, (unsigned long long)fixed);
    ck_assert_msg(cost <= 2 * known, "%s: %llu ns, the oracle %llu", name, (unsigned long long)cost, (unsigned long long)known);
    ck_assert_uint_le(left, 32 * MIB);
}
END_TEST

/* A patience that is fixed is worst where the memory is wanted again just after it went back. */
START_TEST(gaps_of_any_length_cost_at_most_twice_as_much_as_an_oracle)
{
    const struct backing *backing = &backings[_i];
    for (uint64_t gap = 250 * MILLISECOND; gap <= 20 * SECOND; gap += gap / 8) {
        uint64_t left;
        program.count = 0;
        for (unsigned i = 0; i < 10; i++) {
            use(8, 100 * MILLISECOND);
            use(1, gap);
        }
        uint64_t cost = run_with("auto", backing->name, &left), known = oracle(backing);
        if (getenv("WEIR_TEST_COSTS"))
            printf("# %-5s gaps of %6llu ms, auto / oracle %.2f\n", backing->name, (unsigned long long)(gap / MILLISECOND),
                   (double)cost / (double)known);
        ck_assert_msg(cost <= 2 * known, "gaps of %llu ns: %llu ns, the oracle %llu", (unsigned long long)gap, (unsigned long long)cost,
                      (unsigned long long)known);
    }
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why || !scene_is_sim())
        return suite_skip(why ? why : "a GPU has its own clock; WEIR_TEST_GPU=sim runs on the simulator");
    Suite *suite = suite_create("automatic threshold of programs");
    TCase *all = suite_case(suite, "programs", 60);
    tcase_add_checked_fixture(all, begin, end);
    tcase_add_loop_test(all, auto_costs_at_most_twice_as_much_as_the_best_fixed_threshold_and_as_an_oracle, 0,
                        (int)(PROGRAM_COUNT * BACKING_COUNT));
    tcase_add_loop_test(all, gaps_of_any_length_cost_at_most_twice_as_much_as_an_oracle, 0, (int)BACKING_COUNT);
    return suite_run(suite);
}
