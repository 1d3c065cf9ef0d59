/* SPDX-License-Identifier: MIT */
#include "tools/trace/packet_stacks.h"

#include "tools/common/complain.h"
#include "tools/trace/frame.h"

#include <stdlib.h>

/* Fields of perfetto.protos.InternedData and what is in it. A frame's names have its own id. */
enum {
    INTERNED_FUNCTION = 5,
    INTERNED_FRAME = 6,
    INTERNED_CALLSTACK = 7,
    INTERNED_FILE_PATH = 17,
    INTERNED_SOURCE_PATH = 18,
    INTERNED_FILE = 19,
    ANY_ID = 1,
    STRING_TEXT = 2,
    FILE_START = 4,
    FILE_END = 5,
    FILE_PATH = 7,
    FRAME_FUNCTION = 2,
    FRAME_FILE = 3,
    FRAME_PLACE = 4,
    FRAME_SOURCE = 5,
    FRAME_LINE = 6,
    CALLSTACK_FRAME = 2,
    FLAG_CLEARED = 1, /* nothing from before counts */
    FLAG_NEEDS = 2,
};

/* Keys of what stands for no module. */
#define NO_MODULE UINT64_MAX
#define INTERPRETER (UINT64_MAX - 1)

static void write_string(struct proto *proto, unsigned field, uint64_t id, const char *text)
{
    proto_begin(proto, field);
    proto_number(proto, ANY_ID, id);
    proto_text(proto, STRING_TEXT, text);
    proto_end(proto);
}

/* Viewers have no frame without a file. */
static uint32_t write_file(struct packet_stacks *stacks, struct proto *proto, const struct trace_frame *frame)
{
    const struct trace_module *module = frame->line ? NULL : frame->module;
    bool is_new;
    uint32_t *id = trace_map_add(&stacks->files, module ? module->number : frame->line ? INTERPRETER : NO_MODULE, 0, &is_new);
    if (!is_new)
        return *id;
    *id = ++stacks->file_count;
    write_string(proto, INTERNED_FILE_PATH, *id, module ? module->path : frame->line ? "(interpreter)" : "(unknown)");
    proto_begin(proto, INTERNED_FILE);
    proto_number(proto, ANY_ID, *id);
    if (module) {
        proto_number(proto, FILE_START, module->first);
        proto_number(proto, FILE_END, module->first + module->bytes);
    }
    proto_number(proto, FILE_PATH, *id);
    proto_end(proto);
    return *id;
}

/* What is said of a frame. */
struct said {
    const char *function, *source;
    uint64_t line, place; /* place: in its file */
};

static struct said say(struct symbols *symbols, const struct trace_frame *frame, uint32_t id, char buffer[FRAME_TEXT_LEN])
{
    const struct symbol *symbol = trace_frame_symbol(symbols, frame);
    if (frame->line)
        return (struct said){frame->line->function, frame->line->file, frame->line->line, id};
    const uint64_t place = frame->module ? frame->address - frame->module->first + frame->module->offset : frame->address;
    if (symbol && symbol->function[0])
        return (struct said){symbol->function, symbol->file, symbol->line, place};
    return (struct said){trace_frame_text(buffer, symbols, frame), "", 0, place};
}

static uint32_t write_frame(struct packet_stacks *stacks, struct proto *proto, struct symbols *symbols, const struct trace_frame *frame)
{
    char buffer[FRAME_TEXT_LEN];
    bool is_new;
    const uint64_t in = frame->line ? INTERPRETER : frame->module ? frame->module->number : NO_MODULE;
    uint32_t *id = trace_map_add(&stacks->frames, frame->line ? frame->line->number : frame->address, in, &is_new);
    if (!is_new)
        return *id;
    *id = ++stacks->frame_count;
    const struct said said = say(symbols, frame, *id, buffer);
    const uint32_t file = write_file(stacks, proto, frame);
    write_string(proto, INTERNED_FUNCTION, *id, said.function);
    if (said.source[0])
        write_string(proto, INTERNED_SOURCE_PATH, *id, said.source);
    proto_begin(proto, INTERNED_FRAME);
    proto_number(proto, ANY_ID, *id);
    proto_number(proto, FRAME_FUNCTION, *id);
    proto_number(proto, FRAME_FILE, file);
    proto_number(proto, FRAME_PLACE, said.place);
    if (said.source[0])
        proto_number(proto, FRAME_SOURCE, *id);
    if (said.source[0] && said.line && said.line <= UINT32_MAX)
        proto_number(proto, FRAME_LINE, said.line);
    proto_end(proto);
    return *id;
}

uint64_t packet_stacks_write(struct packet_stacks *stacks, struct proto *proto, struct symbols *symbols, const struct trace_stack *stack)
{
    bool is_new;
    uint32_t *id = trace_map_add(&stacks->stacks, stack->number, 0, &is_new);
    proto_number(proto, PACKET_FLAGS, stacks->stack_count ? FLAG_NEEDS : FLAG_CLEARED | FLAG_NEEDS);
    if (!is_new)
        return *id;
    *id = ++stacks->stack_count;
    uint32_t *frames = must(calloc(stack->count + 1, sizeof *frames));
    proto_begin(proto, PACKET_INTERNED);
    for (uint32_t i = 0; i < stack->count; i++)
        frames[i] = write_frame(stacks, proto, symbols, &stack->frames[i]);
    proto_begin(proto, INTERNED_CALLSTACK);
    proto_number(proto, ANY_ID, *id);
    /* The outermost first. */
    for (uint32_t i = stack->count; i--;)
        proto_number(proto, CALLSTACK_FRAME, frames[i]);
    proto_end(proto);
    proto_end(proto);
    free(frames);
    return *id;
}

void packet_stacks_free(struct packet_stacks *stacks)
{
    trace_map_free(&stacks->stacks);
    trace_map_free(&stacks->frames);
    trace_map_free(&stacks->files);
}
