/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - every process killed at every message, and many messages.
 *
 * Each scenario is played again and again, and the victim, the exporter or the importer, dies each time one point later (actor_messages.c),
 * until it lives to the end. Each time the other one goes on with a fresh partner, and when all have closed nothing is lost.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/share/stage.h"

/* The cast of one play. Any of the two may be dead at any time. */
static struct player *exporter, *importer, *victim;

static bool is_over(void)
{
    return stage_is_dead(victim);
}

/* Asks until the answer has `wanted` in it, or the victim is dead. */
static void await(struct player *player, const char *wanted, const char *line)
{
    const char *answer;
    while ((answer = stage_try(player, "%s", line)) && !strstr(answer, wanted) && !is_over())
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static void publish(const char *name, unsigned number)
{
    stage_try(exporter, "malloc %s 1MiB s", name);
    stage_try(exporter, "fill %s %u s", name, number);
    stage_try(exporter, "publish %s %s s", name, name);
    stage_try(exporter, "forget %s", name);
}

static void import(void)
{
    stage_try(importer, "import i frames 5000 1");
}

/* Plays -------------------------------------------------------------------------------------------------------------------------------- */

static void play_hand_over(void)
{
    publish("a", 3);
    import();
    stage_try(importer, "acquire i a l 0 s");
    stage_try(importer, "acquire i a m 0 s");
    stage_try(importer, "release l s");
    stage_try(importer, "release m s");
    stage_try(exporter, "withdraw a");
    await(exporter, " blocks=0 leases=0 mappings=0", "info");
}

static void play_waiting(void)
{
    import();
    stage_try(importer, "acquire i a l 10 s");
    stage_tell(importer, "acquire i a l 20000 s");
    await(exporter, " messages=6", "messages"); /* HELLO, WELCOME, ACQUIRE, CANCEL, REFUSED, ACQUIRE */
    publish("a", 3);
    stage_listen(importer);
    stage_try(importer, "release l s");
}

static void play_withdrawing(void)
{
    publish("a", 3);
    publish("b", 4);
    import();
    stage_try(importer, "acquire i a l 0 s");
    stage_try(importer, "acquire i b m 0 s");
    stage_try(exporter, "withdraw a");
    stage_try(exporter, "withdraw b");
    publish("a", 5);
    stage_try(importer, "acquire i a n 0 s");
    stage_try(importer, "release l s");
    stage_try(importer, "release m s");
    stage_try(importer, "release n s");
    await(exporter, " blocks=1 leases=0 mappings=1", "info");
}

static void play_ring(void)
{
    stage_try(exporter, "ring r 1MiB 3 block s");
    import();
    stage_try(importer, "reader i q r 2");
    for (unsigned frame = 1; frame <= 4; frame++) {
        stage_try(exporter, "take r slot 1MiB 1000 s");
        stage_try(exporter, "push r slot s");
        stage_try(importer, "next q l 1000 s");
        stage_try(importer, "release l s");
    }
    stage_try(exporter, "take r slot 1MiB 1000 s");
    stage_try(exporter, "push r slot s");
    stage_try(importer, "reader_close q");
    stage_try(importer, "reader i q r 1");
    stage_try(exporter, "ring_close r");
    stage_try(importer, "next q l 1000 s");
    stage_try(importer, "reader_close q");
    await(exporter, " blocks=0 leases=0 mappings=0", "info");
}

static void play_retiring(void)
{
    publish("a", 3);
    import();
    for (unsigned epoch = 2; epoch <= 3; epoch++) {
        char wanted[32];
        stage_try(importer, "acquire i a l 0 s");
        stage_try(importer, "release l s");
        stage_try(exporter, "withdraw a");
        snprintf(wanted, sizeof wanted, " epoch=%u ", epoch);
        await(exporter, wanted, "info");
        publish("a", 4);
    }
}

static void play_closing_the_import(void)
{
    publish("a", 3);
    import();
    stage_try(importer, "acquire i a l 0 s");
    stage_try(importer, "release l s");
    stage_try(importer, "import_close i");
    import();
    stage_try(importer, "acquire i a l 0 s");
    stage_try(importer, "release l s");
    stage_try(importer, "import_close i");
}

static void play_closing_the_export(void)
{
    publish("a", 3);
    stage_try(exporter, "ring r 1MiB 3 block s");
    import();
    stage_try(importer, "reader i q r 1");
    stage_try(importer, "acquire i a l 0 s");
    stage_tell(exporter, "export_close 20000");
    stage_try(importer, "release l s");
    stage_try(importer, "next q m 1000 s");
    stage_listen(exporter);
}

static void play_evicting(void)
{
    publish("a", 3);
    import();
    stage_try(importer, "acquire i a l 0 s");
    stage_try(exporter, "evict %d", (int)stage_pid(importer));
    await(exporter, " evicted=1 ", "info");
    stage_try(importer, "acquire i a m 0 s");
    stage_try(importer, "release l s");
    stage_try(importer, "acquire i a m 0 s");
}

static const struct scenario {
    const char *name;
    void (*play)(void);
    const char *share;
    bool is_barred; /* in the end the importer is not let in any more as long as the exporter lives */
} scenarios[] = {
    { "hand_over", play_hand_over, NULL, false },
    { "waiting", play_waiting, NULL, false },
    { "withdrawing", play_withdrawing, NULL, false },
    { "ring", play_ring, NULL, false },
    { "retiring", play_retiring, ", retire_after: 10ms", false },
    { "closing_the_import", play_closing_the_import, NULL, false },
    { "closing_the_export", play_closing_the_export, NULL, false },
    { "evicting", play_evicting, NULL, true },
};
#define SCENARIOS (int)(sizeof scenarios / sizeof scenarios[0])

/* Going on ----------------------------------------------------------------------------------------------------------------------------- */

/* The two, both alive, do what they are for. */
static void work(struct player *from, struct player *to)
{
    stage_say(from, "share again 6 s 1MiB");
    const char *answer = stage_try(to, "acquire i again again 0 s");
    if (!answer || strncmp(answer, "ok", 2) != 0) {
        stage_try(to, "import i frames 5000 1"); /* it has none yet, or closed it */
        stage_say(to, "acquire i again again 0 s");
    }
    stage_say(to, "check again 6 s; release again s");
    stage_say(from, "withdraw again");
}

static void go_on_as_exporter(const struct scenario *scenario)
{
    (void)scenario;
    stage_try(exporter, "export frames");
    stage_try(exporter, "withdraw a");
    stage_try(exporter, "withdraw b");
    stage_try(exporter, "ring_close r");
    work(exporter, stage_importer("fresh"));
    stage_until(exporter, " hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}

static void go_on_as_importer(const struct scenario *scenario)
{
    stage_try(importer, "release l s");
    stage_try(importer, "release m s");
    stage_try(importer, "release n s");
    stage_try(importer, "reader_close q");
    struct player *fresh = stage_exporter("fresh", scenario->share);
    work(fresh, importer);
    stage_until(fresh, " hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}

/* Returns whether the victim died. */
static bool play(const struct scenario *scenario, bool kills_exporter, unsigned point)
{
    stage_open();
    char policy[512];
    snprintf(policy, sizeof policy, "%s", stage_exporter_policy(scenario->share));
    exporter = stage_enter((struct role){ .name = "exporter", .policy = policy, .dies_at = kills_exporter ? point : 0 });
    importer = stage_enter((struct role){ .name = "importer", .policy = stage_importer_policy(), .dies_at = kills_exporter ? 0 : point });
    victim = kills_exporter ? exporter : importer;
    stage_try(exporter, "export frames");
    scenario->play();
    bool died = !stage_try(victim, "spare");
    if (!stage_is_dead(exporter) && (died || !scenario->is_barred))
        go_on_as_exporter(scenario);
    else if (!stage_is_dead(importer) && stage_is_dead(exporter))
        go_on_as_importer(scenario);
    stage_close();
    return died;
}

START_TEST(whoever_is_killed_at_whatever_message_takes_nothing_along)
{
    const struct scenario *scenario = &scenarios[_i / 2];
    bool kills_exporter = _i % 2;
    unsigned point = 1;
    while (play(scenario, kills_exporter, point))
        ck_assert_msg((point += suite_stride()) < 200, "%s: the %s dies for ever", scenario->name,
                      kills_exporter ? "exporter" : "importer");
    ck_assert_msg(point > 4, "%s: the %s was killed at %u points only", scenario->name, kills_exporter ? "exporter" : "importer",
                  point - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep");
    for (int i = 0; i < SCENARIOS; i++) {
        TCase *tcase = suite_case(suite, scenarios[i].name, 120);
        tcase_add_loop_test(tcase, whoever_is_killed_at_whatever_message_takes_nothing_along, 2 * i, 2 * i + 2);
    }
    return suite_run(suite);
}
