/* SPDX-License-Identifier: MIT */
/* memory_plan.c - what the seed decides of a program as a whole: the plan, and the text of its policies. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/chaos/memory.h"

static void add_extras(struct plan *plan, struct chaos_random *extra)
{
    plan->extras = (struct extras){
        .asks_in_vain = !plan->fault_once_in,
        .frees_anywhere = random_once_in(extra, 2),
        .has_other = random_once_in(extra, 2),
        .throws = random_once_in(extra, 3),
    };
    plan->arenas |= (unsigned)random_below(extra, 2) << OTHER;
    plan->other_cap = random_once_in(extra, 2) ? 0 : MODEL_STEP * (8 + random_below(extra, 40));
    /* So large that requests of several steps are made of the driver without a look at what there is. */
    plan->memory = random_once_in(extra, 3) ? 8192 * MIB : plan->memory;
    if (random_once_in(extra, 4)) {
        plan->lanes = LANES_MAX;
        plan->operations /= 3;
    }
    plan->extras.bounds = random_once_in(extra, 2) ? 0 : (unsigned)random_below(extra, 1U << 2 * NAMES * POLICIES);
}

struct plan plan_make(struct chaos_random *random, struct chaos_random *extra, bool is_virtual, bool is_plain)
{
    static const uint64_t delays[] = { 0, MILLISECOND / 10, 2 * MILLISECOND, 10000 * MILLISECOND };
    static const unsigned fills[] = { 40, 60, 85, 110, 140 };
    struct plan plan = {
        .is_virtual = is_virtual,
        .devices = random_once_in(random, 4) ? 2 : 1,
        .memory = 2048 * MIB,
        .has_twin = random_once_in(random, 3),
        .is_whole = !random_once_in(random, 3),
        .exact_peaks = random_once_in(random, 2),
        .keeper = random_once_in(random, 3),
        .reloads = random_once_in(random, 3),
        .lanes = 2 + (unsigned)random_below(random, LANES_FEW - 1),
        .operations = 40 + (unsigned)random_below(random, 100),
        .rounds = 2 + (unsigned)random_below(random, 3),
        .fill = fills[random_below(random, 5)],
        .longest_delay = delays[random_below(random, is_virtual ? 4 : 3)],
        .slow_refusals = random_once_in(random, 2),
        .fault_once_in = random_once_in(random, 5) ? 50 : 0,
    };
    for (size_t i = 0; i < NAMES; i++)
        plan.caps[i] = random_once_in(random, 3) ? 0 : MODEL_STEP * (8 + random_below(random, 40));
    if (is_virtual && random_once_in(random, 8))
        plan.crowd = 16 + (unsigned)random_below(random, CROWD_MAX - 15);
    for (size_t i = 0; i < POLICIES; i++)
        plan.deadlines[i] = is_virtual ? (20 + random_below(random, 400)) * MILLISECOND : 20000 * MILLISECOND;
    for (size_t i = 0; i < (plan.reloads ? POLICIES : 1); i++)
        plan.deadline = plan.deadlines[i] > plan.deadline ? plan.deadlines[i] : plan.deadline;
    plan.arenas = (unsigned)random_below(random, 1U << NAMES);
    if (!is_plain)
        add_extras(&plan, extra);
    return plan;
}

static void append(char text[POLICY_TEXT_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char text[POLICY_TEXT_SIZE], const char *format, ...)
{
    size_t len = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + len, POLICY_TEXT_SIZE - len, format, arguments);
    va_end(arguments);
}

/* Those that are reloaded differ in keys that can change while the weir is open. */
void plan_write_policy(const struct plan *plan, struct chaos_random *random, size_t which, char text[POLICY_TEXT_SIZE])
{
    static const char *const caches[] = { "off", "on", "{ per_stream: 1MiB }", "{ per_stream: 256MiB, per_device: 512MiB, largest: 128MiB }" };
    static const char *const thresholds[] = { "0", "64MiB", "all", "auto" }; /* the last with a keeper only */
    static const char *const names[NAMES] = { "first", "second" };
    static const char *const bounds[] = { "all", "auto", "64MiB", "0" };
    text[0] = '\0';
    append(text, "weir: 1\nkeeper: %s\nexact_peaks: %s\ndefaults: { pool: first }\npools:\n", plan->keeper ? "true" : "false",
           plan->exact_peaks ? "true" : "false");
    for (size_t i = 0; i < NAMES; i++) {
        append(text, "  %s: { release_threshold: %s, cache: %s, on_oom: { deadline: %llums }", names[i],
               thresholds[random_below(random, plan->keeper ? 4 : 3)], caches[random_below(random, 4)],
               (unsigned long long)(plan->deadlines[which] / MILLISECOND));
        if (plan->devices > 1)
            append(text, ", peer_access: all");
        if (plan->arenas >> i & 1)
            append(text, ", backing: arena");
        if (!plan->has_twin)
            append(text, ", small_below: 0");
        if (plan->caps[i])
            append(text, ", max_size: %lluMiB", (unsigned long long)(plan->caps[i] / MIB));
        append(text, ", reuse: { pending_max: %s } }\n", bounds[plan->extras.bounds >> 2 * (which * NAMES + i) & 3]);
    }
}

void plan_write_other(const struct plan *plan, struct chaos_random *random, char text[POLICY_TEXT_SIZE])
{
    static const char *const caches[] = { "off", "on", "{ per_stream: 256MiB, per_device: 512MiB, largest: 128MiB }" };
    static const char *const thresholds[] = { "0", "64MiB", "all" };
    text[0] = '\0';
    append(text, "weir: 1\nexact_peaks: %s\npools:\n  other: { release_threshold: %s, cache: %s, on_oom: { deadline: %llums }",
           plan->exact_peaks ? "true" : "false", thresholds[random_below(random, 3)], caches[random_below(random, 3)],
           (unsigned long long)(plan->deadlines[0] / MILLISECOND));
    append(text, "%s%s", plan->devices > 1 ? ", peer_access: all" : "", plan->has_twin ? "" : ", small_below: 0");
    append(text, "%s", plan->arenas >> OTHER & 1 ? ", backing: arena" : "");
    if (plan->other_cap)
        append(text, ", max_size: %lluMiB", (unsigned long long)(plan->other_cap / MIB));
    append(text, " }\n");
}

void plan_describe(const struct plan *plan)
{
    snprintf(chaos_plan, sizeof chaos_plan,
             "devices %d of %llu MiB, arenas %u, caps %llu and %llu MiB, twin %d, whole %d, exact peaks %d, keeper %d, reloads %d, lanes %u, operations %u, rounds %u, "
             "fill %u, deadline %.0f ms, delays %.1f ms, crowd %u, slow refusals %d, faults %u, in vain %d, frees anywhere %d, other %d (cap %llu MiB), throws %d, naps %d, bounds %x",
             plan->devices, (unsigned long long)(plan->memory / MIB), plan->arenas, (unsigned long long)(plan->caps[0] / MIB), (unsigned long long)(plan->caps[1] / MIB), plan->has_twin, plan->is_whole,
             plan->exact_peaks, plan->keeper, plan->reloads, plan->lanes, plan->operations, plan->rounds, plan->fill,
             (double)plan->deadline / 1e6, (double)plan->longest_delay / 1e6, plan->crowd, plan->slow_refusals, plan->fault_once_in,
             plan->extras.asks_in_vain, plan->extras.frees_anywhere, plan->extras.has_other, (unsigned long long)(plan->other_cap / MIB),
             plan->extras.throws, plan->extras.naps, plan->extras.bounds);
}
