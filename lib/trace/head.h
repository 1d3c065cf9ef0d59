/* SPDX-License-Identifier: MIT */
/* head.h - the first block of a trace: which process, devices and policy it is of (doc/trace.md, Header). */
#ifndef WEIR_LIB_TRACE_HEAD_H
#define WEIR_LIB_TRACE_HEAD_H

#include "lib/pool/weir_internal.h"
#include "lib/trace/block.h"

#define WEIR__TRACE_HEAD_MAX ((UINT32_C(1) << 20) + 16) /* bytes of its content */

/* head->bytes is the caller's to free(), also after a failure. false: no host memory, or too much to say. */
bool weir__trace_head_make(weir *w, const char *reason, struct weir__trace_bytes *head);

#endif
