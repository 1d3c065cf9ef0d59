/* SPDX-License-Identifier: MIT */
/*
 * stranger_scene.h - an exporter with a block, an importer that has been let in before, and the test's own process, which says what it likes on
 * sockets of its own. One thread.
 */
#ifndef WEIR_TESTS_SHARE_STRANGER_SCENE_H
#define WEIR_TESTS_SHARE_STRANGER_SCENE_H

#include "share/wire/socket.h"
#include "share/wire/wire.h"
#include "tests/share/connect.h"
#include "tests/share/stage.h"

extern struct player *exporter, *friend;

/* A test case around each of whose tests the friend is served, and everybody else is gone at the end. */
TCase *stranger_case(Suite *suite, const char *name);
void serve_friend(void);

const struct wire_message *hello(enum wire_role role);
int connect_as(enum wire_role role);
/* The connection ends, and the exporter no longer counts it. */
void leave(int fd);

#endif
