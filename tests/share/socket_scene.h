/* SPDX-License-Identifier: MIT */
/* socket_scene.h - a directory of the test's own, in which real sockets lie. One thread. */
#ifndef WEIR_TESTS_SHARE_SOCKET_SCENE_H
#define WEIR_TESTS_SHARE_SOCKET_SCENE_H

#include "share/wire/directory.h"
#include "share/wire/socket.h"
#include "tests/share/connect.h"
#include "tests/support/suite.h"

#define OTHER_USER 54321

extern char directory[64]; /* 0700 */
extern char path[SHARE_PATH_SIZE]; /* in it */

struct share_listener listen_at(const char *at);
int connect_to(const char *at);
/* A status that must come with a text that has both words. */
void expect(weir_status status, weir_status wanted, const weir_error *error, const char *first, const char *second);
/* A test case whose tests each have a directory of their own. */
TCase *scene_case(Suite *suite, const char *name);

#endif
