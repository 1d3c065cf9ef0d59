/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - what `keeper: true` does: a job of the service thread gives back what a program that has gone quiet no longer uses.
 *
 * Owned by its weir. Cached blocks go back when they were not used for cache.idle, at the latest a quarter of it later. Pool memory that is
 * idle and above the release threshold goes back although the program never synchronises: the job does that with events of its own. It
 * looks again only while there is something that may go back later; whoever leaves something new (the first block in an empty cache, a free
 * that reaches a pool) wakes it, so an idle process has no wake-ups. Everything runs in relaxed capture mode, and it waits a millisecond
 * for a busy stream and not at all for one that captures.
 */
#ifndef WEIR_LIB_KEEPER_H
#define WEIR_LIB_KEEPER_H

#include "lib/pool/weir_internal.h"
/* As the policy says, at open and at reload. Only switching on can fail. Called with w->config, or as above. */
weir_status weir__keeper_set(weir *w, bool on, weir_error *error);

#endif
