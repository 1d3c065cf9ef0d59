/* SPDX-License-Identifier: MIT */
#include "tools/trace/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Of a native frame whose module is known. */
static void native_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame)
{
    const struct trace_module *module = frame->module;
    const struct symbol *symbol = symbols_find(symbols, module, frame->address);
    if (symbol->function[0] && symbol->line)
        snprintf(buffer, FRAME_TEXT_LEN, "%s (%s:%u)", symbol->function, symbol->file, symbol->line);
    else if (symbol->function[0])
        snprintf(buffer, FRAME_TEXT_LEN, "%s (%s)", symbol->function, base_name(module->path));
    else
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s+0x%" PRIx64 "%s", base_name(module->path), frame->address - module->first + module->offset,
                 symbol->has_changed ? " (the file has changed)" : "");
}

const char *trace_frame_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame)
{
    if (frame->line && frame->line->file[0])
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s (%.200s:%" PRIu64 ")", frame->line->function, base_name(frame->line->file),
                 frame->line->line);
    else if (frame->line)
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s", frame->line->function);
    else if (frame->module)
        native_text(buffer, symbols, frame);
    else
        snprintf(buffer, FRAME_TEXT_LEN, "0x%" PRIx64, frame->address);
    return buffer;
}
