/* SPDX-License-Identifier: MIT */
#include "tests/share/neighbourhood.h"

#include <stdio.h>

/* Entering ----------------------------------------------------------------------------------------------------------------------------- */

const char *policy_with(const char *top, const char *keys)
{
    static char policy[512];
    snprintf(policy, sizeof policy,
             "weir: 1\n%sdefaults: { pool: p }\n"
             "pools:\n  p: { devices: [0], %son_oom: { deadline: 100s } }\n  q: { devices: [0] }\n",
             top, keys);
    return policy;
}

struct player *enter_with(const char *name, const char *keys)
{
    return stage_enter((struct role){ .name = name, .policy = policy_with("control: true\n", keys) });
}

struct player *enter(const char *name)
{
    return enter_with(name, "");
}

struct player *enter_in_a_hurry(const char *name)
{
    return stage_enter((struct role){ .name = name,
                                      .policy = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 16s } }\n" });
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

void take(struct player *player, const char *block, unsigned mib)
{
    stage_say(player, "malloc %s %uMiB s", block, mib);
}

void take_in_the_end(struct player *player, const char *block, unsigned mib)
{
    stage_until(player, "ok", "malloc %s %uMiB s", block, mib);
}

void idle(struct player *player, unsigned mib)
{
    take(player, "idle", mib);
    stage_say(player, "free idle s; synchronize s");
}

struct player *enter_idle(const char *name, unsigned mib)
{
    struct player *player = enter(name);
    idle(player, mib);
    return player;
}

const char *run_out(struct player *player, unsigned mib)
{
    return stage_refuses(player, "WEIR_OUT_OF_MEMORY", "malloc none %uMiB s", mib);
}

void check_pool_holds(struct player *player, const char *pool, unsigned mib)
{
    ck_assert_uint_eq(stage_number(stage_say(player, "pool %s", pool), "reserved"), mib * MIB);
}

void check_holds(struct player *player, unsigned mib)
{
    check_pool_holds(player, "p", mib);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

void check_asked(struct player *player, unsigned times, unsigned mib)
{
    const char *asks = stage_say(player, "asks");
    ck_assert_msg(stage_number(asks, "received") == times && stage_number(asks, "given") == mib * MIB,
                  "asked %u times, gave %u MiB:%s", times, mib, asks);
}

void check_rescued(struct player *player, unsigned asks_sent, unsigned mib)
{
    const char *asks = stage_say(player, "asks");
    ck_assert_msg(stage_number(asks, "rescued") == 1 && stage_number(asks, "sent") == asks_sent && stage_number(asks, "got") == mib * MIB,
                  "rescued, %u asked, who gave %u MiB:%s", asks_sent, mib, asks);
}

void check_not_rescued(struct player *player)
{
    const char *asks = stage_say(player, "asks");
    ck_assert_msg(stage_number(asks, "rescued") == 0 && stage_number(asks, "sent") == 0 && stage_number(asks, "got") == 0,
                  "asked nobody:%s", asks);
}

void check_silent(struct player *player)
{
    ck_assert_uint_eq(stage_number(stage_say(player, "messages"), "messages"), 0);
}
