/* SPDX-License-Identifier: MIT */
#ifndef WEIR_LIB_KEEPER_H
#define WEIR_LIB_KEEPER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/weir.h"
struct weir__keeper {
    atomic_bool is_on;
    _Atomic uint32_t tick;
};
static inline void weir__keeper_wake(weir *w) { (void)w; }
#define weir__keeper_is_on(w) atomic_load_explicit(&(w)->keeper.is_on, memory_order_relaxed)
#endif
