/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what a policy sets on a pool and a reload may change: threshold, cap, reuse, peers, ladder.
 *
 * They live in the pool; pool->lock guards them and is held over the CUDA calls that apply them.
 */
#ifndef WEIR_LIB_SETTINGS_H
#define WEIR_LIB_SETTINGS_H

#include "lib/pool/pool.h"

/* check says whether apply could, as far as that can be known before. apply stops at the first failure: the caller then undoes, with the
   former policy's entry; that also brings back a threshold that was set at run time. undo always returns WEIR_OK. */
weir_status weir__settings_check(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);
weir_status weir__settings_apply(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);
weir_status weir__settings_undo(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);

/* How many bytes stay reserved when a stream is synchronised; UINT64_MAX: all. Called with pool->lock held. */
int weir__settings_write_threshold(weir_pool *pool, uint64_t threshold);

/* Whether cached calls are noted has changed: in all pools, which of them are served in the ordinary way. */
void weir__settings_note_all(weir *w);

/* Takes all peers' access back, before the pool is destroyed, and logs what cannot be taken back unless is_silent. Whoever calls it alone
   knows the pool. */
void weir__settings_withdraw(weir_pool *pool, bool is_silent);

/* Calls `use` with the pool's policy entry as it is now (a reload may change it), under weir.config. */
void weir__pool_with_entry(weir_pool *pool, void (*use)(const struct policy_pool *entry, void *data), void *data);

/* A cap beside max_size, the lower one counts; 0: none. A reload leaves it as it is. */
void weir__pool_set_limit(weir_pool *pool, uint64_t bytes);

#endif
