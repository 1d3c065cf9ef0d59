/* SPDX-License-Identifier: MIT */
/*
 * file.h - the traces that a policy asks for: one from open to close (record.file), and one at each out-of-memory (record.dump).
 *
 * Owned by the weir. `lock` is a leaf and guards the directory of dumps and their number.
 */
#ifndef WEIR_LIB_TRACE_FILE_H
#define WEIR_LIB_TRACE_FILE_H

#include "lib/trace/traced.h"

#define WEIR__TRACE_DUMPS_MAX 8 /* of a weir */

/* Begins record.file, and from now on writes dumps to record.dump, as the policy says. Logs what cannot be done. Returns false if there is
   no host memory. */
bool weir__trace_files_begin(weir *w, const struct policy *policy);
/* Takes record.dump, and the text for heads of traces, from a new policy. */
void weir__trace_files_set(weir *w, const struct policy *policy);
/* The policy in force, with a line for each value. The caller frees the text. NULL: no host memory. */
char *weir__trace_files_policy(weir *w);
/* Called if opening the weir failed: ends record.file and removes it, so that the next attempt can have the name. */
void weir__trace_files_drop(weir *w);
/* Waits for a dump in progress, which looks at pools. No request follows. */
void weir__trace_files_settle(weir *w);
/* Ends record.file, and frees what weir__trace_files_begin() made. */
void weir__trace_files_end(weir *w);
/* Ends record.file of a weir that is never closed, when its process ends; other threads may be using it. */
void weir__trace_files_finish(weir *w);

/* Writes a dump, after a request found no memory. Other threads go on meanwhile. */
void weir__trace_files_dump(weir *w);

#endif
