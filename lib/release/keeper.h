/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - the keeper (`keeper: true`): a job of the service thread that gives memory back which the program has stopped using.
 *
 * The weir owns it. Cached blocks go back when they have not been used for cache.idle, or at most a quarter of that time later. Idle memory
 * of a pool above its release threshold goes back even if the program never synchronises, because the job records events of its own. The
 * job runs again only while more may go back later. The first block in an empty cache, and a free that reaches a pool, wake it, so an idle
 * process has no wake-ups. Everything runs in relaxed capture mode. The job waits at most a millisecond for busy streams, and not at all
 * for a stream that captures.
 */
#ifndef WEIR_LIB_KEEPER_H
#define WEIR_LIB_KEEPER_H

#include "lib/pool/weir_internal.h"
/* Switches the keeper on or off: in weir_open() and weir_reload() as the policy says, and off in weir_close(). Only switching on can fail.
   The caller holds w->config, or no other thread uses the weir. */
weir_status weir__keeper_set(weir *w, bool on, weir_error *error);

#endif
