/* SPDX-License-Identifier: MIT */
/*
 * figures.h - what went through a ring, or through an export, since it was opened; and what of both an operator needs to see.
 *
 * A ring has those of its own; the export those of rings that have ended, and of blocks with names. Guarded by export->lock.
 */
#ifndef WEIR_SHARE_FIGURES_H
#define WEIR_SHARE_FIGURES_H

#include "include/weir.h"

/* As in weir_ring_info. */
struct share_figures {
    uint64_t pushed, bytes, dropped, refused, hangs, leases_given, lag_high;
};

/* With the lock. */
void share_figures_add(struct share_figures *sum, const struct share_figures *more);
/* The ring is not closed. */
void share_ring_figures(const weir_ring *ring, weir_ring_info *info);
void share_export_figures(const weir_export *e, weir_export_info *info);

#endif
