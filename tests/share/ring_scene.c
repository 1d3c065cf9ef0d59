/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/ring_scene.h"

void open_ring(struct player *exporter, unsigned depth, const char *overflow)
{
    stage_say(exporter, "ring r %d %u %s s", SLOT, depth, overflow);
}

void push(struct player *exporter, unsigned number)
{
    stage_say(exporter, "take r slot %d 10000 s; fill slot %u s; push r slot s", SLOT, number);
}

void take_next(struct player *reader, unsigned number)
{
    ck_assert_uint_eq(stage_number(stage_say(reader, "next q l 20000 s"), "sequence"), number);
    stage_say(reader, "check l %u s", number);
}

void read_next(struct player *reader, unsigned number)
{
    take_next(reader, number);
    stage_say(reader, "release l s");
}

struct player *enter_reader(const char *name, unsigned leases)
{
    struct player *reader = stage_importer(name);
    stage_say(reader, "reader i q r %u", leases);
    return reader;
}
