/* SPDX-License-Identifier: MIT */
#include "lib/trace/record.h"

/* The fields that each kind of event has, as in the table of doc/trace.md. All kinds have time and order as well. */
enum fields { HAS_STREAM = 1, HAS_POOL = 2, HAS_BLOCK = 4, HAS_A = 8, HAS_B = 16 };

static const uint8_t fields_of[64] = {
    [WEIR__KIND_MALLOC] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_FREE] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_SERVE] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_KEEP] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_RETURN] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_LIVE] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_CACHED] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_GRAPH_MALLOC] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_GRAPH_FREE] = HAS_STREAM | HAS_POOL | HAS_BLOCK,
    [WEIR__KIND_MAP] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_UNMAP] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_TRIM] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_FIGURES] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_SETTINGS] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_STREAM_OPEN] = HAS_STREAM | HAS_POOL | HAS_A,
    [WEIR__KIND_STREAM_CLOSE] = HAS_STREAM | HAS_POOL,
    [WEIR__KIND_SYNCHRONISE] = HAS_STREAM | HAS_POOL | HAS_A,
    [WEIR__KIND_WAIT] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_RUNG] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_OUT_OF_MEMORY] = HAS_STREAM | HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_MARK] = HAS_A,
    [WEIR__KIND_ASKED] = HAS_A | HAS_B,
    [WEIR__KIND_HELD] = HAS_STREAM | HAS_POOL | HAS_BLOCK | HAS_A | HAS_B,
    [WEIR__KIND_YIELD] = HAS_POOL,
    [WEIR__KIND_SLEEP] = HAS_POOL | HAS_A | HAS_B,
    [WEIR__KIND_WAKE] = HAS_POOL | HAS_A | HAS_B,
};

void weir__trace_put_code(struct weir__trace_bytes *out, unsigned code)
{
    weir__trace_put(out, &(uint8_t){(uint8_t)code}, 1);
}

void weir__trace_coder_begin(struct weir__trace_coder *coder, uint64_t thread, uint64_t time, uint64_t lost)
{
    coder->content.len = 0;
    coder->content.is_full = false;
    coder->time = time;
    coder->stream = coder->address = 0;
    coder->orders[0] = coder->orders[1] = 0;
    weir__trace_put_number(&coder->content, thread);
    weir__trace_put_number(&coder->content, time);
    weir__trace_put_number(&coder->content, lost);
}

static void put_difference(struct weir__trace_bytes *out, uint64_t value, uint64_t *before)
{
    weir__trace_put_signed(out, value - *before);
    *before = value;
}

static void put_block(struct weir__trace_coder *coder, const struct weir__trace_record *record)
{
    put_difference(&coder->content, record->address, &coder->address);
    weir__trace_put_number(&coder->content, record->size);
    weir__trace_put_number(&coder->content, record->given - record->size);
    weir__trace_put_number(&coder->content, record->tag);
    weir__trace_put_number(&coder->content, record->stack);
}

bool weir__trace_coder_put(struct weir__trace_coder *coder, const struct weir__trace_record *record)
{
    struct weir__trace_bytes *out = &coder->content;
    unsigned has = (unsigned)record->kind < sizeof fields_of ? fields_of[record->kind] : 0;
    bool is_cached = record->kind == WEIR__KIND_SERVE || record->kind == WEIR__KIND_KEEP;
    uint64_t *order = &coder->orders[is_cached];
    if (!has)
        return false;
    weir__trace_put_code(out, record->kind);
    weir__trace_put_number(out, record->time > coder->time ? record->time - coder->time : 0);
    coder->time = record->time > coder->time ? record->time : coder->time;
    weir__trace_put_signed(out, record->order - *order);
    *order = record->order + 1;
    if (is_cached)
        weir__trace_put_signed(out, record->after - (coder->orders[0] ? coder->orders[0] - 1 : 0));
    if (has & HAS_STREAM)
        put_difference(out, record->stream, &coder->stream);
    if (has & HAS_POOL)
        weir__trace_put_number(out, record->pool);
    if (has & HAS_BLOCK)
        put_block(coder, record);
    if (has & HAS_A)
        weir__trace_put_number(out, record->a);
    if (has & HAS_B)
        weir__trace_put_number(out, record->b);
    return true;
}
