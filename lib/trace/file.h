/* SPDX-License-Identifier: MIT */
/*
 * file.h - writes the traces that a policy asks for: one of the weir's whole life (record.file), and a dump each time that a request finds
 * no memory (record.dump).
 *
 * The state belongs to the weir. `lock` is a leaf, and guards the directory of the dumps, their number, the last dump and the policy's
 * text.
 */
#ifndef WEIR_LIB_TRACE_FILE_H
#define WEIR_LIB_TRACE_FILE_H

#include "lib/trace/traced.h"

#define WEIR__TRACE_DUMPS_MAX 8 /* dumps that one weir writes */

/* Begins the trace of record.file and prepares for dumps to record.dump, as far as the policy asks for them. If the file cannot be made,
   logs an error and goes on. Returns false if host memory runs out. */
bool weir__trace_files_begin(weir *w, const struct policy *policy);
/* Takes record.dump, and the text of the policy for the headers of later traces, from a new policy. */
void weir__trace_files_set(weir *w, const struct policy *policy);
/* Returns the values of the policy in force, one on each line, as text that the caller frees. NULL if host memory runs out. */
char *weir__trace_files_policy(weir *w);
/* Opening the weir has failed: makes weir__trace_files_end() remove the file of record.file, so that the next attempt can use the name. */
void weir__trace_files_drop(weir *w);
/* The weir's pools are about to be destroyed and no request follows: waits for the end of a dump in progress, and stops the questions for
   the pools' figures. */
void weir__trace_files_settle(weir *w);
/* Ends the trace of record.file, and frees the state that weir__trace_files_begin() made. */
void weir__trace_files_end(weir *w);
/* Ends the trace of record.file when the process exits without closing the weir. Other threads may still be using the weir. */
void weir__trace_files_finish(weir *w);

/* Begins a dump, after a request found no memory. Another thread writes the dump, so the caller does not wait for the file. */
void weir__trace_files_dump(weir *w);

#endif
