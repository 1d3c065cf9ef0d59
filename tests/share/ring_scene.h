/* SPDX-License-Identifier: MIT */
/* ring_scene.h - a ring r of an exporter, and readers q of importers. One thread. */
#ifndef WEIR_TESTS_SHARE_RING_SCENE_H
#define WEIR_TESTS_SHARE_RING_SCENE_H

#include "tests/share/stage.h"

#define SLOT 262144 /* bytes */

void open_ring(struct player *exporter, unsigned depth, const char *overflow);
/* Writes and pushes a frame of that number. */
void push(struct player *exporter, unsigned number);
/* Leases the next frame, which is of that number, as l. */
void take_next(struct player *reader, unsigned number);
void read_next(struct player *reader, unsigned number);
struct player *enter_reader(const char *name, unsigned leases);

#endif
