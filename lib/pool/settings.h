/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the settings of a pool that come from the policy and that a reload may change: the release threshold, the cap, reuse, the
 * caches, the peers' access and the steps of recovery from lack of memory.
 *
 * They are members of the pool (pool.h). pool->lock guards them and is held over the CUDA calls that apply them.
 */
#ifndef WEIR_LIB_SETTINGS_H
#define WEIR_LIB_SETTINGS_H

#include "lib/pool/pool.h"

/* check returns an error if the entry cannot be applied, as far as that is known in advance, and notes the present threshold for undo.
   apply sets the pool as the entry says, and stops at the first failure; the caller then calls undo with the entry of the former policy.
   undo also restores a threshold that was set by weir_pool_set_release_threshold(), and always returns WEIR_OK. */
weir_status weir__settings_check(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);
weir_status weir__settings_apply(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);
weir_status weir__settings_undo(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error);

/* Sets how many bytes the pool keeps reserved when a stream is synchronised; UINT64_MAX: all. Returns CUDA's code. The caller holds
   pool->lock. */
int weir__settings_write_threshold(weir_pool *pool, uint64_t threshold);

/* Call this after the recorder began or ceased to record cached calls: sets cache.plain_classes of all pools. */
void weir__settings_note_all(weir *w);

/* Withdraws all peers' access before the pool is destroyed. Logs a warning for each peer whose access cannot be withdrawn, unless
   is_silent. No other thread may know the pool. */
void weir__settings_withdraw(weir_pool *pool, bool is_silent);

/* Applies the policy's caches anew: none while the pool is shut (sleep.c). Takes w->config and pool->lock. */
void weir__settings_recache(weir_pool *pool);

/* Calls `use` with the pool's entry of the present policy, under the lock w->config, so that no reload can change the entry meanwhile. */
void weir__pool_with_entry(weir_pool *pool, void (*use)(const struct policy_pool *entry, void *data), void *data);

/* Sets a second cap of the pool in addition to max_size of the policy; the lower one is in force. 0: no second cap. A reload does not
   change the second cap. Takes pool->lock. */
void weir__pool_set_limit(weir_pool *pool, uint64_t bytes);

#endif
