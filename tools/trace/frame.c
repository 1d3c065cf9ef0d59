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

/* The table may take the address for one of another module, which was there at another time. */
const struct symbol *trace_frame_symbol(struct symbols *symbols, const struct trace_frame *frame)
{
    const struct symbol *symbol = symbols && frame->module && !frame->line ? symbols_find(symbols, frame->address) : NULL;
    return symbol && strcmp(symbol->module, frame->module->path) == 0 ? symbol : NULL;
}

const char *trace_frame_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame)
{
    const struct symbol *symbol = trace_frame_symbol(symbols, frame);
    if (frame->line && frame->line->file[0])
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s (%.200s:%" PRIu64 ")", frame->line->function, base_name(frame->line->file),
                 frame->line->line);
    else if (frame->line)
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s", frame->line->function);
    else if (symbol)
        snprintf(buffer, FRAME_TEXT_LEN, "%.500s", symbol->text);
    else if (frame->module)
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s+0x%" PRIx64, base_name(frame->module->path),
                 frame->address - frame->module->first + frame->module->offset);
    else
        snprintf(buffer, FRAME_TEXT_LEN, "0x%" PRIx64, frame->address);
    return buffer;
}
