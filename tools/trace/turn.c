/* SPDX-License-Identifier: MIT */
#include "tools/trace/turn.h"

/* Whether such an event makes an allocation of the program, whatever was known of the block. */
static bool is_allocation(enum trace_kind kind)
{
    return kind == TRACE_MALLOC || kind == TRACE_SERVE;
}

bool turn_apply(struct model *model, const struct trace_event *event, struct turn *turn)
{
    *turn = (struct turn){0};
    if (event->kind > TRACE_CACHED || (event->pool && event->pool->flags & TRACE_POOL_HOST)) {
        model_apply(model, event);
        return false;
    }
    const struct model_block *block = model_find(model, event->address, event->pool);
    if (block)
        turn->before = *block;
    model_apply(model, event);
    block = model_find(model, event->address, event->pool);
    if (block)
        turn->after = *block;
    enum model_state before = turn->before.state, after = turn->after.state;
    bool is_anew = is_allocation(event->kind) || before != after;
    /* The block of a cache is the same memory, unless the trace has lost what went between. */
    bool is_same_memory =
        before != MODEL_GONE && after != MODEL_GONE && turn->before.given == turn->after.given && event->kind != TRACE_MALLOC;
    turn->is_ended = before == MODEL_LIVE && is_anew;
    turn->is_begun = after == MODEL_LIVE && is_anew;
    turn->is_given = before != MODEL_GONE && !is_same_memory;
    turn->is_taken = after != MODEL_GONE && !is_same_memory;
    return turn->is_ended || turn->is_begun || turn->is_given || turn->is_taken;
}
