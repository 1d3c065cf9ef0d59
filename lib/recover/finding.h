/* SPDX-License-Identifier: MIT */
/*
 * finding.h - what arithmetic on figures says of a request that was refused: whether it could have been served at all, and what stood in
 * the way. Nothing is said that is not certain. Keeps nothing.
 */
#ifndef WEIR_LIB_FINDING_H
#define WEIR_LIB_FINDING_H

#include "lib/pool/holders.h"
#include "lib/recover/report.h"

#define WEIR__FINDINGS_LEN 1536

/* Writes whole lines, each behind a newline and two spaces; "": there is nothing to say. holders: of the device; may be none. */
void weir__findings_write(char text[static WEIR__FINDINGS_LEN], const struct weir__report *report, const struct weir__holder *holders,
                          size_t count);

#endif
