/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/ring_scene.h"

struct player *exporter, *reader;

void open_ring(unsigned depth, const char *overflow)
{
    stage_say(exporter, "ring r %d %u %s s", SLOT, depth, overflow);
}

void enter_exporter(unsigned depth, const char *overflow)
{
    exporter = stage_exporter("exporter", NULL);
    open_ring(depth, overflow);
}

void enter_both(unsigned depth, const char *overflow, unsigned leases)
{
    enter_exporter(depth, overflow);
    reader = enter_reader("reader", leases);
}

void push(unsigned number)
{
    stage_say(exporter, "take r slot %d 60000 s; fill slot %u s; push r slot s", SLOT, number);
}

void take_next(struct player *player, unsigned number)
{
    ck_assert_uint_eq(stage_number(stage_say(player, "next q l 20000 s"), "sequence"), number);
    stage_say(player, "check l %u s", number);
}

void read_next(struct player *player, unsigned number)
{
    take_next(player, number);
    stage_say(player, "release l s");
}

struct player *enter_reader(const char *name, unsigned leases)
{
    struct player *player = stage_importer(name);
    stage_say(player, "reader i q r %u", leases);
    return player;
}
