/* SPDX-License-Identifier: MIT */
/*
 * mapped_pages.h - the pages of an arena by the driver: made, mapped, unmapped and released, and those that the driver did not take back.
 *
 * Called with mapped->growing, and but for the last function with mapped->lock, which is let go of during the driver's calls.
 */
#ifndef WEIR_LIB_MAPPED_PAGES_H
#define WEIR_LIB_MAPPED_PAGES_H

#include "lib/pool/mapped.h"

extern const struct weir__page_driver weir__mapped_pages __attribute__((visibility("hidden")));

/* Releases again what the driver did not take back. */
void weir__mapped_release_left(struct weir__mapped *mapped);

#endif
