/* SPDX-License-Identifier: MIT */
/* runtime_scene.h - a runtime directory of the test's own, in which control sockets lie. One thread. */
#ifndef WEIR_TESTS_SHARE_RUNTIME_SCENE_H
#define WEIR_TESTS_SHARE_RUNTIME_SCENE_H

#include "share/wire/directory.h"
#include "share/wire/socket.h"
#include "tests/share/connect.h"
#include "tests/support/suite.h"

extern char runtime[64];
extern char directory[SHARE_PATH_SIZE]; /* of control sockets in it */
extern uid_t stranger;     /* a user that nobody is, not even in another run of this test */
extern char strangers[64]; /* its directory in /tmp */

/* The fixture of a test case. */
void set_up(void);
void tear_down(void);

void make_directory(void);
struct share_listener listen_at(const char *name);
/* A socket of that name whose listener was killed. */
void leave_dead(const char *name);

#endif
