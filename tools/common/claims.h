/* SPDX-License-Identifier: MIT */
/* claims.h - who claims how much of which GPU: what the files say that processes claim by (share/control/ledger.h), for people and as JSON. No
   process is asked, so those without a control socket are there as well. */
#ifndef WEIR_TOOLS_CLAIMS_H
#define WEIR_TOOLS_CLAIMS_H

#include <stdio.h>

#include "tools/common/json.h"

/* Prints a table of all claims of this user, for root of all users, behind an empty line; nothing if there are none. */
void claims_print(FILE *out);
/* Adds them as an array "claims". */
void claims_json(struct json *json);

#endif
