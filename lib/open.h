/* SPDX-License-Identifier: MIT */
/*
 * open.h - what weir.c does for the folders above lib/: opening without their ties, and the policy and the recorder as they are set from
 * outside.
 */
#ifndef WEIR_LIB_OPEN_H
#define WEIR_LIB_OPEN_H

#include "lib/pool/weir_internal.h"

/* weir_open() but for what the folders above lib/ add. device: the only one to get pools, or WEIR__EVERY_DEVICE. */
weir_status weir__open(const weir_options *options, int device, weir_error *error, weir **w);

/* weir_close() of what is not NULL, from wherever. */
void weir__close(weir *w);

/* The caller's options (NULL: all defaults) as this library knows them. WEIR_INVALID. */
weir_status weir__options_read(const weir_options *given, weir_options *options, weir_error *error);

/* Checks the policy and the name of the GPU side as weir_open() would, without touching CUDA. Statuses as there. */
weir_status weir__policy_check(const weir_options *options, weir_error *error);

/* Applies assignments as in $WEIR_CONF on top of the policy as it is, live keys only, all or nothing; they hold until the next reload. */
weir_status weir__policy_set(weir *w, const char *assignments, weir_error *error);
/* The recorder notes so much at least from now on, whatever policy is in force; WEIR__LEVEL_OFF and false: as the policy says. */
void weir__record_at_least(weir *w, enum weir__level level, bool stacks);
/* weir_reload() of what was opened, on the service thread: with the environment as the program's last call of weir_open() or weir_reload()
   has read it. */
weir_status weir__policy_again(weir *w, weir_error *error);

#endif
