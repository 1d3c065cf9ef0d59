/* SPDX-License-Identifier: MIT */
/*
 * attach.h - what the folders above lib/ hang onto a weir, and what they may ask of its pools beyond weir.h. lib/ knows none of them.
 */
#ifndef WEIR_LIB_ATTACH_H
#define WEIR_LIB_ATTACH_H

#include "lib/weir_internal.h"

/* Something that belongs to a weir and has to go before it. Embedded in its owner. */
struct weir__attached {
    struct weir__attached *next, **link; /* guarded by weir.attached_lock */
    void (*close)(struct weir__attached *attached); /* weir_close() calls it, the latest first, after it was detached; no lock is held */
    /* NULL, or called whenever the policy may have changed, and once when it is attached; under weir.attached_lock, so one call at a time and none
       once it is detached. is_quick: on the service thread, or it was called a moment ago: nothing that may take long is to be done again. */
    void (*policy_changed)(struct weir__attached *attached, bool is_quick);
};
void weir__attach(weir *w, struct weir__attached *attached);
/* Waits for a call of policy_changed(). Does nothing if it is not attached any more. */
void weir__detach(weir *w, struct weir__attached *attached);
/* weir_close()'s: detaches and closes everything. */
void weir__attached_close(weir *w);
/* The policy may have changed: tells everything that is attached. No lock is held. */
void weir__attached_tell(weir *w, bool is_quick);

/*
 * Lends the live block at ptr, of this pool, to the caller: its user can no longer free it (WEIR_BUSY, "is published: withdraw it").
 * *size: its bytes. WEIR_NOT_A_BLOCK, WEIR_INVALID (another pool's, or a graph's; the pool is not exportable), WEIR_BUSY (lent already).
 */
weir_status weir__block_lend(weir_pool *pool, void *ptr, weir_error *error, size_t *size);
/* The block is its user's again. */
void weir__block_return(weir_pool *pool, void *ptr);

/* Bytes of the largest block that may be shared (ipc_max_block); requests above it are refused by weir_malloc() with the reason. */
uint64_t weir__pool_max_block(const weir_pool *pool);

/* Calls `use` with the pool's policy entry as it is now (a reload may change it), under weir.config. */
void weir__pool_with_entry(weir_pool *pool, void (*use)(const struct policy_pool *entry, void *data), void *data);

/*
 * Destroys the CUDA pool of an exportable pool and makes a new one in its place, with the same settings: so its memory goes back, once
 * every importer has destroyed its own. false: nothing was done, since something of it is live, has frees pending, or CUDA refused.
 * Requests meanwhile wait. *fd: a descriptor of the new pool, the caller's.
 */
bool weir__pool_renew(weir_pool *pool, int *fd);

/* Giving to neighbours and operators (give.c) -------------------------------------------------------------------------------------------- */

/*
 * One request to give memory back to the device, done in steps by one thread, so that none of them waits: caches are flushed, what is freed
 * and pending is noted by events, and once these are complete, or time is up, the idle memory of the pools is trimmed, one after the other, until
 * `wanted` bytes are given. Pools that serve a stream which captures are left alone. Counted in the device's figures if is_neighbour.
 */
struct weir__give;
struct weir__give_request {
    int device;          /* -1: every device */
    const char *pool;    /* of that name only; NULL: every pool */
    uint64_t keep;       /* bytes that stay reserved of each pool; UINT64_MAX - 1: what its policy says */
    uint64_t wanted;     /* bytes; UINT64_MAX: all that is idle. Never more than is reserved when it begins */
    uint64_t deadline;   /* weir__service_now(): what is pending longer is not waited for */
    bool is_neighbour;
};
#define WEIR__GIVE_POLICY_KEEP (UINT64_MAX - 1)
/* NULL: no host memory. */
struct weir__give *weir__give_begin(weir *w, const struct weir__give_request *request);
/* Goes on. Returns when it wants to be called next (weir__service_now()); WEIR__GIVE_DONE: it has ended. */
#define WEIR__GIVE_DONE UINT64_MAX
uint64_t weir__give_step(struct weir__give *give);
/* Bytes given so far. */
uint64_t weir__give_bytes(const struct weir__give *give);
void weir__give_end(struct weir__give *give);

/* What could be given of the device to a neighbour at most: what is reserved and not live, less what is to be kept. Calls CUDA, waits for
   nothing. */
uint64_t weir__give_offer(weir *w, int device);

/* Hosts: programs that put all of their allocations through Weir (plugin/) ---------------------------------------------------------------- */

/* weir_open(), but only this device gets pools and is touched: a host that uses one GPU of several must not begin to use the others.
   In share/open.c. */
weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w);

/*
 * Takes a live block from its user, who can name no stream that could take its free: that stream may be gone, or its work is in a graph that
 * is launched on any. It becomes an orphan (orphans.h), which a trim or the ladder frees once all present work of the process is done, on
 * whichever device.
 * WEIR_NOT_A_BLOCK, WEIR_BUSY (published), WEIR_INVALID (a graph's own), WEIR_NO_HOST_MEMORY. The block stays its user's then.
 */
weir_status weir__block_orphan(weir *w, void *ptr, weir_error *error);

/* Captures on streams that no weir was told of: while there are any, nothing is done that looks at a whole device, which would destroy them
   (quiet.h). A begin waits for the end of what it is too late for. */
void weir__captures_begin(void);
void weir__captures_end(void);

/* From now on requests on a stream that captures fail with WEIR_CAPTURING, instead of becoming nodes of its graph: the host has other memory
   for these. Before the first request. */
void weir__captures_refuse(weir *w);

/* `capture: relaxed`, whatever the policy says. Before the first request. */
void weir__captures_relax(weir *w);

/* The caller's options (NULL: all defaults) as this library knows them. WEIR_INVALID. */
weir_status weir__options_read(const weir_options *given, weir_options *options, weir_error *error);

/* Checks the policy and the name of the GPU side as weir_open() would, without touching CUDA. Statuses as there. */
weir_status weir__policy_check(const weir_options *options, weir_error *error);

/* A cap beside max_size, the lower one counts; 0: none. A reload leaves it as it is. */
void weir__pool_set_limit(weir_pool *pool, uint64_t bytes);

/* Calls `use` for each live block of the device that is not a graph's own, in no order, under a leaf lock: it must not call Weir. */
void weir__blocks_each(weir *w, int device, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

/* The policy from outside (weir.c, policy_override()) ------------------------------------------------------------------------------------ */

/* Applies assignments as in $WEIR_CONF on top of the policy as it is, live keys only, all or nothing; they hold until the next reload. */
weir_status weir__policy_set(weir *w, const char *assignments, weir_error *error);
/* weir_reload() from where weir_open() had the policy. WEIR_INVALID: that was weir_options.policy_text, which cannot change. */
weir_status weir__policy_again(weir *w, weir_error *error);

/* Only one export may make a pool anew. false: there is one. */
bool weir__pool_claim(weir_pool *pool);
void weir__pool_unclaim(weir_pool *pool);

/* A new descriptor of the pool (the caller's). */
int weir__pool_export(weir_pool *pool, int *fd);

#endif
