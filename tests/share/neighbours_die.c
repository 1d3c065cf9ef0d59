/* SPDX-License-Identifier: MIT */
/*
 * neighbours_die.c - who asks, or who is asked, killed at every message: nobody else suffers, and the next request is served.
 *
 * Each play is played again and again, and the victim dies each time one point later (actor_messages.c), until it lives to the end.
 */
#include "config.h"


#include "tests/share/stage.h"

#define POLICY "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 100s } }\n"

#define POINTS 3 /* of whoever is asked, at the least: it hears the question, and is before and behind its answer */

enum victim { ASKER, LARGEST, SMALLER };

/* The cast of one play. The victim may be dead at any time. */
static struct player *players[3];

static struct player *enter(const char *name, enum victim who, enum victim victim, unsigned point)
{
    return stage_enter((struct role){ .name = name, .policy = POLICY, .dies_at = who == victim ? point : 0 });
}

/* Idle before it can be killed: points are messages, and there is none yet. */
static void idle(struct player *player, unsigned mib)
{
    stage_say(player, "malloc idle %uMiB s; free idle s; synchronize s", mib);
}

static const char *ask(unsigned mib)
{
    return stage_try(players[ASKER], "malloc a %uMiB s", mib);
}

/* Plays -------------------------------------------------------------------------------------------------------------------------------- */

static void play_rescue(void)
{
    ask(512);
}

static void play_two_rescues(void)
{
    ask(896);
}

static void play_in_vain(void)
{
    stage_try(players[LARGEST], "malloc live 512MiB s");
    ask(768);
    ask(640);
}

static void play_one_after_another(void)
{
    for (unsigned i = 0; i < 2; i++) {
        ask(512);
        stage_try(players[ASKER], "free a s");
        stage_try(players[ASKER], "synchronize s");
        stage_try(players[LARGEST], "malloc more 448MiB s");
        stage_try(players[LARGEST], "free more s");
        stage_try(players[LARGEST], "synchronize s");
    }
}

static const struct scenario {
    const char *name;
    void (*play)(void);
    bool needs_all; /* else either of those who are asked is enough, and nobody waits for the slower one */
} scenarios[] = {
    { "rescue", play_rescue, false },
    { "two_rescues", play_two_rescues, true },
    { "in_vain", play_in_vain, true },
    { "one_after_another", play_one_after_another, false },
};
#define SCENARIOS (int)(sizeof scenarios / sizeof scenarios[0])

/* Going on ----------------------------------------------------------------------------------------------------------------------------- */

/* Whoever lives is still served by whoever lives: what the one frees the other gets. */
static void go_on(void)
{
    struct player *fresh = stage_enter((struct role){ .name = "fresh", .policy = POLICY });
    for (int i = 0; i < 3; i++) {
        if (stage_is_dead(players[i]))
            continue;
        stage_try(players[i], "free a s");
        stage_try(players[i], "free live s");
        stage_say(players[i], "synchronize s");
    }
    stage_until(fresh, "ok", "malloc a 1024MiB s");
    stage_say(fresh, "free a s; synchronize s");
    for (int i = 0; i < 3; i++) {
        if (stage_is_dead(players[i]))
            continue;
        stage_until(players[i], "ok", "malloc a 1024MiB s");
        stage_say(players[i], "free a s; synchronize s");
    }
}

/* Returns whether the victim died. */
static bool play(const struct scenario *scenario, enum victim victim, unsigned point)
{
    stage_open();
    players[LARGEST] = enter("largest", LARGEST, victim, point);
    players[SMALLER] = enter("smaller", SMALLER, victim, point);
    players[ASKER] = enter("asker", ASKER, victim, point);
    idle(players[LARGEST], 480);
    idle(players[SMALLER], 416);
    scenario->play();
    bool died = !stage_try(players[victim], "spare");
    go_on();
    stage_close();
    return died;
}

START_TEST(whoever_is_killed_at_whatever_message_takes_nothing_along)
{
    const struct scenario *scenario = &scenarios[_i / 3];
    enum victim victim = (enum victim)(_i % 3);
    unsigned step = suite_stride(), killed = 0;
    bool died = true;
    for (unsigned point = 1; died || point <= POINTS; point += step) {
        ck_assert_msg(point < 200, "%s: player %d dies for ever", scenario->name, (int)victim);
        died = play(scenario, victim, point);
        killed += died ? step : 0;
    }
    bool may_be_late = victim != ASKER && !scenario->needs_all;
    ck_assert_msg(killed >= POINTS || may_be_late, "%s: player %d was killed at %u points only", scenario->name, (int)victim, killed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("neighbours that die");
    for (int i = 0; i < SCENARIOS; i++) {
        TCase *tcase = suite_case(suite, scenarios[i].name, 120);
        tcase_add_loop_test(tcase, whoever_is_killed_at_whatever_message_takes_nothing_along, 3 * i, 3 * i + 3);
    }
    return suite_run(suite);
}
