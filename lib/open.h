/* SPDX-License-Identifier: MIT */
/*
 * open.h - functions of weir.c for the folders above lib/: to open and close a weir without the objects that these folders attach, and to
 * change the policy and the recorder of a weir on behalf of another process (the control socket).
 */
#ifndef WEIR_LIB_OPEN_H
#define WEIR_LIB_OPEN_H

#include "lib/pool/weir_internal.h"

/* weir_open() without the objects that the folders above lib/ attach. device: the only device that gets pools, or WEIR__EVERY_DEVICE. */
weir_status weir__open(const weir_options *options, int device, weir_error *error, weir **w);

/* weir_close() without its checks for NULL and for a call from a callback. w must not be NULL. */
void weir__close(weir *w);

/* Copies the caller's options (NULL: all defaults) into a struct of this library's version. Returns WEIR_OK or WEIR_INVALID. */
weir_status weir__options_read(const weir_options *given, weir_options *options, weir_error *error);

/* Checks the policy and the name of the GPU, as weir_open() would, without calling CUDA. Returns the statuses of weir_open(). */
weir_status weir__policy_check(const weir_options *options, weir_error *error);

/* Changes the policy in force by assignments "KEY=VALUE,…", as in $WEIR_CONF: all of them or none. Only live keys, which may change while
   the weir is open, are allowed. The changes last until the next reload. */
weir_status weir__policy_set(weir *w, const char *assignments, weir_error *error);
/* Makes the recorder record at least this level, and stacks if wanted, whatever the policy says. WEIR__LEVEL_OFF and false end that. */
void weir__record_at_least(weir *w, enum weir__level level, bool stacks);
/* weir_reload() from the source of weir_open(), for the service thread. The environment is used as the program's last call of weir_open()
   or weir_reload() has read it, since only the program's own threads may read the environment. */
weir_status weir__policy_again(weir *w, weir_error *error);

#endif
