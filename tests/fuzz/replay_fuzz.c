/* SPDX-License-Identifier: MIT */
/*
 * replay_fuzz.c - any bytes as a trace that is replayed: a script is made of it, and done by the library's own code on the simulator, with
 * the policy that the trace has. What comes of it adds up, and is the same each time.
 *
 * Without libFuzzer, which would need the whole library built for it: it replays the files that it is given, and `--mutate SEED COUNT`
 * so many traces that are made at random, of events that may follow each other, with numbers at their bounds and bytes that are wrong.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tests/fuzz/run_files.h"
#include "tests/unit/trace_data.h"
#include "tools/common/complain.h"
#include "tools/common/costs.h"
#include "tools/common/environment.h"
#include "tools/replay/machine.h"
#include "tools/replay/policy.h"
#include "tools/replay/report.h"
#include "tools/replay/run.h"
#include "tools/tune/division.h"

#define MEMORY_MAX (1 << 20) /* KiB of the host that all of them may take, with a sanitizer's */
#define DIED "the process of the replay"
#define SECONDS_MAX 60       /* of the processor for one trace, which takes a thousandth */

static uint64_t made; /* traces that were made at random */

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "replay_fuzz: %s, in trace %llu\n", what, (unsigned long long)made);
    abort();
}

/* Replays ------------------------------------------------------------------------------------------------------------------------------ */

static void check_sums(const struct outcome *outcome)
{
    uint64_t mean = outcome_mean_reserved(outcome), half = outcome_time(outcome, 0.5), most = outcome_time(outcome, 0.99), calls = 0;
    for (size_t i = 0; i < OUTCOME_TIMES; i++)
        calls += outcome->times[i];
    require(mean <= outcome->peak_reserved && outcome->end_reserved <= outcome->peak_reserved, "more than the peak");
    require(outcome->area >= 0, "an area that is none");
    require(outcome->worst <= outcome->stall && outcome->slow_stall <= outcome->stall, "a part that is more than all");
    require(half <= most && most <= outcome->worst, "times in no order");
    require(outcome->hits <= outcome->requests && outcome->refused <= outcome->requests, "more than there were");
    require(calls == outcome->calls, "calls without a time");
}

/* The parts of the policy's first pool are some of its blocks, and the best first. Returns the first tag among them; 0: none. */
static uint16_t check_parts(const struct script *script, const char *text)
{
    struct part parts[PARTS_MAX];
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    size_t count = 0;
    uint16_t tag = 0;
    if (policy_parse(text, strlen(text), "recorded", NULL, &errors, &policy) == POLICY_OK)
        count = parts_find(script, script->count, policy, policy->pools[policy->default_pool].name, parts);
    for (size_t i = 0; i < count; i++) {
        const struct part *part = &parts[i];
        uint64_t longer = part->own.life > part->rest.life ? part->own.life : part->rest.life;
        require(part->label && part->label <= script->label_count, "a part without a label");
        require(part->own.blocks && part->rest.blocks, "a part that is all or nothing");
        require(part->own.blocks + part->rest.blocks <= script->requests, "a part of more than there is");
        require(longer / 2 >= part->own.life || longer / 2 >= part->rest.life, "a part that mixes");
        tag = !tag && !part->is_stream ? part->label : tag;
    }
    policy_errors_clear(&errors);
    policy_free(policy);
    return tag;
}

static void replay(const struct script *script, const char *machine, const char *policy)
{
    const struct replay_part part = {.tag = check_parts(script, policy), .of = "main", .own = "other"};
    struct replay once = {.script = script, .policy = policy, .machine = machine};
    once.part = part.tag ? &part : NULL;
    const struct replay replays[2] = {once, once};
    struct outcome outcomes[2];
    /* In processes of their own, as an arena with frees that nobody saw complete outlives its weir, and the simulator's clock with it. */
    replay_run_all(replays, outcomes, 2, NULL);
    for (unsigned i = 0; i < 2; i++) {
        require(strncmp(outcomes[i].why, DIED, strlen(DIED)) != 0, outcomes[i].why);
        if (outcomes[i].is_done)
            check_sums(&outcomes[i]);
        else
            require(outcomes[i].why[0], "a failure without a reason");
    }
    require(memcmp(&outcomes[0], &outcomes[1], sizeof outcomes[0]) == 0, "two replays that differ");
    const struct verdict verdict = report_judge(script, &outcomes[0], NULL);
    require(verdict.can_judge == !verdict.why[0], "a verdict without a reason");
    char *gain = unaware_gain(script, "it", &outcomes[0]), *assumptions = unaware_assumptions(script, "");
    require(!*gain == !(script->unaware.is_so && outcomes[0].is_done) && !*assumptions == !script->unaware.is_so, "words of another program");
    free(gain);
    free(assumptions);
}

/* Beyond that the process ends by SIGPROF. However busy the machine is, a trace takes no more of the processor. 0: no limit. */
static void limit_seconds(time_t seconds)
{
    setitimer(ITIMER_PROF, &(const struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static void replay_trace(const void *data, size_t size)
{
    struct trace trace;
    limit_seconds(SECONDS_MAX);
    if (trace_data_open(&trace, data, size)) {
        struct script script;
        require(script_make(&script, &trace), "a trace that is too much");
        char *recorded = replay_policy_recorded(&trace);
        char *policy = replay_policy_by_index(recorded ? recorded : policy_builtin_text(), &trace);
        struct machine machine;
        require(machine_of(&script, NULL, &machine) == EXIT_GOOD, "a machine that cannot be had");
        replay(&script, machine.settings, policy);
        machine_free(&machine);
        free(policy);
        free(recorded);
        script_free(&script);
    }
    trace_close(&trace);
    limit_seconds(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    replay_trace(data, size);
    return 0;
}

/* Traces at random --------------------------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t below(uint64_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
}

#define ONE_OF(list) (list)[below(sizeof(list) / sizeof(list)[0])]

static const uint64_t bounds[] = {0, 1, UINT64_C(1) << 20, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX};
static const uint64_t sizes[] = {0, 1, 512, 4096, 1 << 20, 3 << 20, 32 << 20, 100 << 20};
static const uint64_t steps[] = {0, 1, 1000, 20000, 1000000, 50000000, UINT64_C(20000000000)};

static const char *const policies[] = {
    "pools.main.devices: all\n",
    "pools.main.devices: all\npools.main.release_threshold: none\npools.main.small_below: 0\n",
    "pools.main.devices: all\npools.main.backing: arena\npools.main.release_threshold: 32MiB\n",
    "pools.main.devices: all\npools.main.cache.largest: 8MiB\npools.main.max_size: 96MiB\npools.other.location: host\n",
    "pools.main.devices: all\npools.main.small_below: 0\npools.other.devices: [0]\npools.other.backing: default\n",
    "pools.main.devices: all\npools.main.release_threshold: auto\npools.other.cache: off\n",
    "pools.main.devices: all\npools.main.current: true\npools.other.ipc: posix_fd\npools.other.share.socket: none\n",
    "pools.main.devices: [GPU-1]\n",
};

/* The caller's to free(). */
static char *random_policy(void)
{
    const char *own = ONE_OF(policies);
    char *text = format_text("weir: 1\ndefaults.pool: main\nkeeper: %s\ncontrol: true\n%s", below(2) ? "true" : "false", own);
    for (uint64_t wrong = below(4) ? 0 : below(4); wrong > 0; wrong--)
        text[below(strlen(text))] = "0a.:-'\"\n{[&#% "[below(14)];
    return text;
}

/* The caller's to free(). Some are none. */
static char *random_costs(void)
{
    static const char *const times[] = {"0ns", "1ns", "300ns", "21us", "99ms", "100ms", "1000ms", "60000ms", "18446744073709551615ms"};
    static const char *const rates[] = {"0ns/GiB", "830us/GiB", "100ms/GiB", "60000ms/GiB"};
    char *text = format_text("weir_costs: 1\ngpu: NVIDIA H200\n");
    for (int i = 0; i < COST_COUNT; i++) {
        bool has_time = cost_rows[i].form != COST_RATE, is_wild = below(60) == 0;
        if (below(3))
            continue;
        const char *cost = has_time ? times[below(is_wild ? 9 : 6)] : rates[below(is_wild ? 4 : 3)];
        char *more = format_text("%s%s: %s\n", text, cost_rows[i].key, cost);
        free(text);
        text = more;
    }
    return text;
}

static void write_random_header(struct trace_writer *writer)
{
    static const char *const memories[] = {"268435456", "0", "-1", "1e9", "99999999999999999999999", ""};
    char *policy = random_policy(), *costs = random_costs();
    write_header(writer, (const char *[]){"level", below(4) ? "all" : "pool", "reason", below(2) ? "file" : "record", "gpu.0.memory",
                                         ONE_OF(memories), "gpu.0.uuid", below(2) ? "GPU-1" : "main", "gpu.0.costs", costs,
                                         "policy", policy, NULL});
    free(costs);
    free(policy);
}

/* Mostly what a recorder may have written; one number in some is not. */
static void write_random_event(struct trace_writer *writer, struct trace_row *row)
{
    static const unsigned often[] = {16, 16, 16, 17, 17, 18, 18, 18, 19, 19, 39};
    row->kind = below(3) ? ONE_OF(often) : (unsigned)below(TRACE_KIND_COUNT);
    if (!trace_kind_fields(row->kind))
        return;
    row->time += below(200) ? steps[below(4)] : ONE_OF(steps);
    row->order++;
    row->after = row->order;
    row->stream = 1 + below(6);
    row->pool = below(20) ? 1 + below(4) : 0;
    row->tag = below(3);
    row->address = 4096 * below(24);
    row->size = ONE_OF(sizes);
    row->given = row->size;
    row->a = ONE_OF(steps);
    row->b = below(2) ? row->a : ONE_OF(sizes);
    uint64_t *const any[] = {&row->time, &row->order, &row->stream, &row->pool, &row->address, &row->size, &row->a, &row->b};
    if (below(100) == 0)
        *ONE_OF(any) = ONE_OF(bounds);
    row->given = row->given < row->size ? row->size : row->given;
    write_event(writer, row);
}

static void write_random_trace(struct trace_writer *writer)
{
    struct trace_row row = {0};
    write_file(writer, 1);
    write_random_header(writer);
    write_thread(writer, 0, 0, 0);
    const bool is_unaware = below(4) == 0;
    write_pool(writer, 1, 0, is_unaware ? TRACE_POOL_UNAWARE : 0, is_unaware ? "cudaMalloc" : "main");
    write_pool(writer, 2, below(3), below(16), below(2) ? "other" : is_unaware ? "managed" : "main");
    write_pool(writer, 3, below(20) ? 0 : ONE_OF(bounds), 0, below(2) ? "no such: pool" : "other");
    write_block_end(writer, WRITE_PLAIN);
    for (uint64_t block = 1 + below(4); block > 0; block--) {
        write_thread(writer, 1 + below(3), row.time, 0);
        size_t begin = writer->len;
        for (uint64_t events = below(200); events > 0; events--)
            write_random_event(writer, &row);
        if (writer->len > begin && below(10) == 0)
            writer->bytes[begin + below(writer->len - begin)] ^= (uint8_t)(1 << below(8));
        write_block_end(writer, WRITE_PLAIN);
    }
    write_end(writer, 0);
}

static int mutate(uint64_t seed, uint64_t count)
{
    struct rusage usage;
    for (made = seed; made < seed + count; made++) {
        struct trace_writer writer = {0};
        state = made * 0x9e3779b97f4a7c15u;
        write_random_trace(&writer);
        replay_trace(writer.bytes, writer.len);
        writer_free(&writer);
    }
    require(getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_maxrss < MEMORY_MAX, "too much memory");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];
    if (argc == 4 && strcmp(argv[1], "--mutate") == 0)
        return mutate(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    return run_files(argc, argv, data, sizeof data);
}
