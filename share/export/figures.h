/* SPDX-License-Identifier: MIT */
/*
 * figures.h - figures of a ring and of an export: totals since it was opened, and its present state.
 *
 * A ring has its own figures. The export has those of named blocks and of rings that have ended. Guarded by export->lock.
 */
#ifndef WEIR_SHARE_FIGURES_H
#define WEIR_SHARE_FIGURES_H

#include "include/weir.h"

/* The fields are explained at weir_ring_info. */
struct share_figures {
    uint64_t pushed, bytes, dropped, refused, hangs, leases_given, lag_high;
};

/* Adds up figures; lag_high is the maximum. The caller holds export->lock, also for the next two functions. */
void share_figures_add(struct share_figures *sum, const struct share_figures *more);
/* The ring must not be closed. */
void share_ring_figures(const weir_ring *ring, weir_ring_info *info);
void share_export_figures(const weir_export *e, weir_export_info *info);

#endif
