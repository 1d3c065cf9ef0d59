/* SPDX-License-Identifier: MIT */
/* finding.h - explains a refused request by arithmetic on the figures: whether it could have been served at all, and what stood in the way.
   It writes only what is certain, and has no state. */
#ifndef WEIR_LIB_FINDING_H
#define WEIR_LIB_FINDING_H

#include "lib/pool/holders.h"
#include "lib/recover/report.h"

#define WEIR__FINDINGS_LEN 1536

/* Writes whole lines, each after a newline and two spaces, or "" if there is nothing to write. holders: the groups of live blocks on the
   device; count may be 0. */
void weir__findings_write(char text[static WEIR__FINDINGS_LEN], const struct weir__report *report, const struct weir__holder *holders,
                          size_t count);

#endif
