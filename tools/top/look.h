/* SPDX-License-Identifier: MIT */
/*
 * look.h - looks at all live processes on a thread of its own, so that the keyboard is served while a process keeps it waiting.
 *
 * One look at a time: between top_look_begin() and the answer the thread alone uses what it gathers, and then the main thread alone.
 * The thread ends with the command, wherever it waits.
 */
#ifndef WEIR_TOP_LOOK_H
#define WEIR_TOP_LOOK_H

#include "tools/common/processes.h"

/* Starts the thread. *fd can be read once a look is done. false, with errno: it cannot be started. */
bool top_look_start(unsigned timeout_ms, int *fd);
/* Begins a look; none is under way. */
void top_look_begin(void);
/* Ends the look, after fd could be read. *processes: processes_free() it. */
void top_look_end(struct processes *processes);

#endif
