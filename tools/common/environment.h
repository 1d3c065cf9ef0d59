/* SPDX-License-Identifier: MIT */
/* environment.h - variables of the environment, which say nothing to a set-user-ID program. */
#ifndef WEIR_ENVIRONMENT_H
#define WEIR_ENVIRONMENT_H

/* The value; NULL where there is none, also if it is empty. */
const char *variable(const char *name);

#endif
