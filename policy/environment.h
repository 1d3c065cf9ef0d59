/* SPDX-License-Identifier: MIT */
/*
 * environment.h - the one place that reads the environment, but for the simulator's own variable.
 *
 * setenv() in one thread moves what getenv() in another is reading. So the library reads all variables at once, on the thread that opens a
 * weir or calls weir_reload(), and everything else looks at what was read then: requests that run out of memory, the service thread, a
 * reload that another process asked for. It is the process's: a weir that is opened later reads anew for all. Commands, which have opened
 * no weir and have one thread, see the environment as it is.
 *
 * Programs with changed user or group ids read none of it. Any thread may call these functions. Values stay for as long as the process.
 */
#ifndef WEIR_POLICY_ENVIRONMENT_H
#define WEIR_POLICY_ENVIRONMENT_H

#include <stdbool.h>

/* Reads all variables. false: no memory, and some of them are as they were. */
bool policy_environment_read(void);

/* The value of a variable of the table, as it was read last; NULL: it was not set. */
const char *policy_environment(const char *name);

/* The value of any other variable, as it is now. Only while a weir is opened. */
const char *policy_environment_now(const char *name);

#endif
