/* SPDX-License-Identifier: MIT */
/* picture.h - what `weir tune` tried as a picture: peak memory against stall time, the front, the choice, and what it is compared with. */
#ifndef WEIR_TUNE_PICTURE_H
#define WEIR_TUNE_PICTURE_H

#include <stdio.h>

#include "tools/tune/tune.h"

/* As one self-contained SVG, with a panel for each pool. */
void picture_write(const struct tune *tune, FILE *out);

#endif
