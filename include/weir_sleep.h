/* SPDX-License-Identifier: MIT */
/*
 * weir_sleep.h - pools whose memory goes back to the device for a time while their blocks stay live at their addresses. The rules of weir.h
 * hold here too.
 */
#ifndef WEIR_SLEEP_H
#define WEIR_SLEEP_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags. Each says so whatever the policy says (sleep.contents, sleep.retain, sleep.on_wake), which holds for what they do not say. */
#define WEIR_SLEEP_DISCARD 1U /* the contents are given up */
#define WEIR_SLEEP_RETAIN 2U  /* the host memory for the contents stays for the next sleep, which is faster then */
#define WEIR_SLEEP_KEEP 4U    /* the contents are kept; not with WEIR_SLEEP_DISCARD */
#define WEIR_SLEEP_ZERO 8U    /* blocks whose contents were given up hold zeros after the wake */
#define WEIR_SLEEP_WHY_LEN 256
/*
 * Puts an arena (backing: arena) to sleep: waits for the present work of all devices, copies the contents of its blocks to page-locked memory
 * of the host, and gives all its memory back. The blocks stay live at their addresses, but no work may use them before weir_pool_wake() has
 * returned: it fails like work on freed memory. Requests fail with WEIR_BUSY meanwhile, frees work, and pages without a live block stay away.
 * flags: of the above, or 0. timeout_ms: how long to wait for work; with a driver before 12.5 until it ends. Work in contexts that the
 * program made itself is not waited for. *given (may be NULL): bytes that went back; 0 if the pool slept already, which is success.
 * Stream order: none, the call waits on the host. Threads: any; the calls of this header on one pool wait for each other.
 * WEIR_BUSY (a hook refuses, or PyTorch shares tensors: see the error; or a hook of the pool makes the call), WEIR_NOT_SUPPORTED (the memory
 * is a pool of CUDA's), WEIR_TIMEOUT,
 * WEIR_CAPTURING (a stream is being captured), WEIR_NO_HOST_MEMORY, WEIR_INVALID, WEIR_CUDA_ERROR, WEIR_FORKED: the pool is as before.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_sleep(weir_pool *pool, unsigned flags, unsigned timeout_ms, weir_error *error, uint64_t *given);
/* Takes the pool's memory from the device again, all or none, puts it at its addresses, and copies the contents back. Where the device has
   too little the recovery ladder runs (weir-policy(5), on_oom), for timeout_ms at most (0: on_oom.deadline). If the process has claimed memory
   (weir_reserve.h), first waits as long until the claim fits again beside those that others made meanwhile. *kept (may be NULL): 1 if the
   contents are as before, also if the pool was awake, which is success; 0 if blocks have new memory. Stream order and threads: as above.
   WEIR_OUT_OF_MEMORY (with the report, or who claims how much), WEIR_BUSY (a hook of the pool makes the call), WEIR_INVALID,
   WEIR_CUDA_ERROR, WEIR_FORKED: the pool sleeps on, and is whole. */
WEIR_API WEIR_CHECK weir_status weir_pool_wake(weir_pool *pool, unsigned timeout_ms, weir_error *error, int *kept);

/*
 * Promises that nothing uses the pool's memory before the next weir_pool_wake(), work that was launched earlier apart. This costs nothing: the
 * pool keeps its memory, and a wake takes a microsecond, until somebody needs it: a request or a wake of another pool of this weir that found
 * no memory anywhere else, a neighbour that found no idle memory (on_oom.steps: trim, neighbours), or an operator (weir sleep). Then the pool
 * goes to sleep as by weir_pool_sleep() with these flags, on the thread of that request or on Weir's own; where that is refused or fails it
 * stays yielded. A wake that comes meanwhile has the pool stay awake if no memory has gone yet, else it waits and wakes it. Requests fail with
 * WEIR_BUSY from now on, frees work. Success also if the pool sleeps already, which changes nothing.
 * Stream order: none. Threads: any. WEIR_BUSY (a hook of the pool makes the call), WEIR_NOT_SUPPORTED (as above), WEIR_INVALID, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_yield(weir_pool *pool, unsigned flags, weir_error *error);

typedef enum weir_sleep_moment {
    WEIR_SLEEP_BEFORE,   /* the pool is about to sleep: let go of what names its memory, such as registrations of NCCL or RDMA */
    WEIR_SLEEP_AFTER,    /* the pool is awake with its contents, or stayed so because something refused or failed after WEIR_SLEEP_BEFORE */
    WEIR_SLEEP_AFTER_NEW /* the pool is awake, and its blocks have new memory */
} weir_sleep_moment;
/* Called within weir_pool_sleep() and weir_pool_wake(), on their thread. Before a sleep it refuses by another number than 0, with the reason in
   why (len bytes). It may call Weir, and must not wait for another thread's call of this header on the pool. An exception before a sleep leaves
   the pool awake and reaches the caller. A yielded pool is put to sleep on the thread of the request that needs memory, or on Weir's own, where
   an exception ends the process; then the hook should be quick, since neighbours wait for it, and requests that it makes are not recovered. */
typedef int (*weir_sleep_fn)(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len);
/* Hooks of one pool run in the order of their registration. *id: to remove it; when that returns WEIR_OK the hook neither runs nor will run.
   Threads: any. WEIR_BUSY (a hook of the pool makes the call), WEIR_INVALID, WEIR_NO_HOST_MEMORY, WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_sleep_hook_add(weir_pool *pool, weir_sleep_fn fn, void *data, weir_error *error, unsigned *id);
WEIR_API weir_status weir_sleep_hook_remove(weir_pool *pool, unsigned id, weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
