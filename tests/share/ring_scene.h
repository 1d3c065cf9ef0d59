/* SPDX-License-Identifier: MIT */
/* ring_scene.h - a ring r of an exporter, and readers q of importers. One thread. */
#ifndef WEIR_TESTS_SHARE_RING_SCENE_H
#define WEIR_TESTS_SHARE_RING_SCENE_H

#include "tests/share/stage.h"

#define SLOT 262144 /* bytes */

/* Those of the test, from when they have entered. */
extern struct player *exporter, *reader;
/* The exporter, with a ring; and the reader, who may have so many leases. */
void enter_exporter(unsigned depth, const char *overflow);
void enter_both(unsigned depth, const char *overflow, unsigned leases);

void open_ring(unsigned depth, const char *overflow);
/* Writes and pushes a frame of that number. */
void push(unsigned number);
/* Leases the next frame, which is of that number, as l. */
void take_next(struct player *player, unsigned number);
void read_next(struct player *player, unsigned number);
struct player *enter_reader(const char *name, unsigned leases);

#endif
