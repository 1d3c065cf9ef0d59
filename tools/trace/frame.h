/* SPDX-License-Identifier: MIT */
/* frame.h - one frame of a stack as a text. */
#ifndef WEIR_TRACE_FRAME_H
#define WEIR_TRACE_FRAME_H

#include "trace/event.h"
#include "trace/symbols.h"

enum { FRAME_TEXT_LEN = 512 };

/*
 * "forward (model.py:42)", "launch (kernels.cu:7)", "libexample.so.1+0x1234", or "0x7f0000001234" where no module is known. May have any
 * byte but 0.
 */
const char *trace_frame_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame);

#endif
