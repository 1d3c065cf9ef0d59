/* SPDX-License-Identifier: MIT */
/*
 * rmm.h - RMM's resources as C calls them, on the current device: what bench/rmm/rmm.cpp exports, and `weir-bench --rmm FILE` loads.
 *
 * A resource is made, used and destroyed by one thread; threads share it as far as RMM says that they may.
 */
#ifndef WEIR_BENCH_RMM_H
#define WEIR_BENCH_RMM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rmm_resource;

#define RMM_SYMBOL "weir_bench_rmm"

struct rmm_calls {
    const char *version;
    /*
     * kind: "pool", "arena" or "binning", made as RMM's own benchmark RANDOM_ALLOCATIONS makes them; bytes: of it in all, from its
     * beginning to its end; 0: as large as there, and free to grow. NULL: it cannot be made, and why says so.
     */
    struct rmm_resource *(*make)(const char *kind, size_t bytes, char *why, size_t len);
    void (*destroy)(struct rmm_resource *resource);
    void *(*allocate)(struct rmm_resource *resource, size_t size, void *stream); /* NULL: there is no room */
    void (*deallocate)(struct rmm_resource *resource, void *block, size_t size, void *stream);
};

#ifdef __cplusplus
}
#endif

#endif
