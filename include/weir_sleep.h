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

#define WEIR_SLEEP_DISCARD 1U /* the contents are given up */
#define WEIR_SLEEP_RETAIN 2U  /* the host memory for the contents stays for the next sleep, which is faster then */
#define WEIR_SLEEP_WHY_LEN 256
/*
 * Puts an arena (backing: arena) to sleep: waits for the present work of all devices, copies the contents of its blocks to page-locked memory
 * of the host, and gives all its memory back. The blocks stay live at their addresses, but no work may use them before weir_pool_wake() has
 * returned: it fails like work on freed memory. Requests fail with WEIR_BUSY meanwhile, frees work, and pages without a live block stay away.
 * flags: of the above, or 0. timeout_ms: how long to wait for work; with a driver before 12.5 until it ends. Work in contexts that the
 * program made itself is not waited for. *given (may be NULL): bytes that went back; 0 if the pool slept already, which is success.
 * Stream order: none, the call waits on the host. Threads: any; while a pool is put to sleep or woken other such calls return WEIR_BUSY.
 * WEIR_BUSY (that, or a hook refuses: the error has its words), WEIR_NOT_SUPPORTED (the memory is a pool of CUDA's), WEIR_TIMEOUT,
 * WEIR_CAPTURING (a stream is being captured), WEIR_NO_HOST_MEMORY, WEIR_INVALID, WEIR_CUDA_ERROR, WEIR_FORKED: the pool is as before.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_sleep(weir_pool *pool, unsigned flags, unsigned timeout_ms, weir_error *error, uint64_t *given);
/* Takes the pool's memory from the device again, all or none, puts it at its addresses, and copies the contents back. Where the device has
   too little the recovery ladder runs (weir-policy(5), on_oom), for timeout_ms at most (0: on_oom.deadline). *kept (may be NULL): 1 if the
   contents are as before, also if the pool was awake, which is success; 0 if blocks have new memory. Stream order and threads: as above.
   WEIR_OUT_OF_MEMORY (with the report), WEIR_BUSY, WEIR_INVALID, WEIR_CUDA_ERROR, WEIR_FORKED: the pool sleeps on, and is whole. */
WEIR_API WEIR_CHECK weir_status weir_pool_wake(weir_pool *pool, unsigned timeout_ms, weir_error *error, int *kept);

typedef enum weir_sleep_moment {
    WEIR_SLEEP_BEFORE,   /* the pool is about to sleep: let go of what names its memory, such as registrations of NCCL or RDMA */
    WEIR_SLEEP_AFTER,    /* the pool is awake with its contents, or stayed so because something refused or failed after WEIR_SLEEP_BEFORE */
    WEIR_SLEEP_AFTER_NEW /* the pool is awake, and its blocks have new memory */
} weir_sleep_moment;
/* Called within the two above, on their thread. Before a sleep it refuses by another number than 0, with the reason in why (len bytes). It
   may call Weir. An exception before a sleep leaves the pool awake and reaches the caller. */
typedef int (*weir_sleep_fn)(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len);
/* Hooks of one pool run in the order of their registration. *id: to remove it; when that returns WEIR_OK the hook neither runs nor will run.
   Threads: any. WEIR_BUSY (the pool is being put to sleep or woken), WEIR_INVALID, WEIR_NO_HOST_MEMORY, WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_sleep_hook_add(weir_pool *pool, weir_sleep_fn fn, void *data, weir_error *error, unsigned *id);
WEIR_API weir_status weir_sleep_hook_remove(weir_pool *pool, unsigned id, weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
