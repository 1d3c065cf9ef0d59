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

/* Sets out as the policy says: begins record.file, and from now on dumps go to record.dump. What cannot be done is logged. false: no host
   memory. */
bool weir__trace_files_begin(weir *w, const struct policy *policy);
/* Another policy is in force. */
void weir__trace_files_set(weir *w, const struct policy *policy);
/* The policy in force, its values a line each, to be freed; NULL: no host memory. */
char *weir__trace_files_policy(weir *w);
/* The weir cannot be opened after all: record.file goes once it is ended, as its name shall be free for the next attempt. */
void weir__trace_files_drop(weir *w);
/* Waits for the trace of an out-of-memory that is being written, which looks at pools. No request follows. */
void weir__trace_files_settle(weir *w);
/* Ends what is being written. */
void weir__trace_files_end(weir *w);
/* Ends record.file of a weir that is never closed, when its process ends; other threads may be using it. */
void weir__trace_files_finish(weir *w);

/* A request found no memory: writes down what is known, beside everything else. */
void weir__trace_files_dump(weir *w);

#endif
