/* SPDX-License-Identifier: MIT */
/* curves.h - what each policy of a replay had of the device over time, as one self-contained SVG. */
#ifndef WEIR_REPLAY_CURVES_H
#define WEIR_REPLAY_CURVES_H

#include <stdio.h>

#include "tools/replay/report.h"

/* What the program had is drawn of the first replay; replays that failed are named without a curve. */
void curves_write(const struct report *report, FILE *out);

#endif
