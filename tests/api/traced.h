/* SPDX-License-Identifier: MIT */
/*
 * traced.h - what the tests of the recorder share: a folder of their own, a scene whose policy writes a trace into it, and reading that.
 *
 * As with the scene, one at a time. Beside it stands a test program's scene_begin().
 */
#ifndef WEIR_TESTS_TRACED_H
#define WEIR_TESTS_TRACED_H

#include "tests/api/scene.h"
#include "trace/merge.h"

extern char traced_directory[256];
extern char traced_file[300]; /* in it */

/* Checked fixtures of a test case: an empty folder, which goes with all that is in it. */
void traced_begin(void);
void traced_end(void);

/* Opens a pool `main` with these keys, and a recorder with those ("level: all") that writes traced_file. */
void traced_open(const char *record, const char *keys);
/* The same without a file. */
void traced_open_plain(const char *record, const char *keys);

/* Closes the scene and plays traced_file, which has to be whole. Returns the events that it lacks. */
uint64_t traced_play(trace_event_fn *look, void *context);

#endif
