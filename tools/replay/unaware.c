/* SPDX-License-Identifier: MIT */
#include "tools/replay/unaware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/replay/script.h"
#include "tools/trace/view.h"

#define GRANULE (UINT64_C(2) << 20)
#define WAIT_MOST (UINT64_C(1) << 40) /* ns: longer is none, in a trace that is a stranger's */

static const char *const left_names[UNAWARE_LEFT] = {[UNAWARE_HOST] = "host", [UNAWARE_MANAGED] = "managed", [UNAWARE_MAPPED] = "mapped"};

/* Which of the memories that are left out it is, whatever a pool of the host is called; UNAWARE_LEFT: none of them. */
static unsigned left_of(const struct trace_pool *pool)
{
    unsigned left = pool->flags & TRACE_POOL_UNAWARE ? 0 : UNAWARE_LEFT;
    while (left < UNAWARE_LEFT && !(pool->flags & TRACE_POOL_HOST) && strcmp(pool->name, left_names[left]) != 0)
        left++;
    return left;
}

bool unaware_is_malloc(const struct trace_pool *pool)
{
    return pool && pool->flags & TRACE_POOL_UNAWARE && strcmp(pool->name, "cudaMalloc") == 0;
}

bool unaware_is_replayed(const struct trace_pool *pool)
{
    return left_of(pool) == UNAWARE_LEFT;
}

/* Such a wait is no stall that a replay takes out of the thread's time: the GPU has its work to do whoever waits. */
static void look_at_held(struct script_unaware *unaware, const struct trace_event *event)
{
    const bool is_free = event->a == TRACE_CALL_FREE || event->a == TRACE_CALL_FREE_ASYNC, is_kept = !unaware_is_replayed(event->pool);
    const uint64_t time = event->b < WAIT_MOST ? event->b : WAIT_MOST;
    *(is_kept ? &unaware->kept_time : &unaware->stall) += time;
    unaware->kept += is_kept;
    unaware->frees += is_free && !is_kept;
    unaware->free_time += is_free && !is_kept ? time : 0;
}

bool unaware_look(struct script_unaware *unaware, const struct trace_event *event)
{
    const bool is_request = event->kind == TRACE_MALLOC || event->kind == TRACE_LIVE;
    const unsigned left = left_of(event->pool);
    unaware->is_so = unaware->is_so || event->pool->flags & TRACE_POOL_UNAWARE;
    unaware->homeless += is_request && !event->stream && unaware_is_malloc(event->pool);
    if (event->kind == TRACE_HELD)
        look_at_held(unaware, event);
    else if (left < UNAWARE_LEFT)
        unaware->left[left] += is_request;
    return event->kind != TRACE_HELD && left == UNAWARE_LEFT;
}

void unaware_count(struct script_unaware *unaware, const struct model *model, const struct trace_event *event, bool is_behind)
{
    const bool is_block = trace_kind_fields(event->kind) & TRACE_HAS_ADDRESS && unaware_is_malloc(event->pool);
    const struct model_block *block = is_block ? model_find(model, event->address, event->pool) : NULL;
    if (!block)
        return;
    uint64_t given = block->given < UINT64_MAX - GRANULE ? block->given : UINT64_MAX - GRANULE;
    uint64_t bytes = given < GRANULE ? given : (given + GRANULE - 1) / GRANULE * GRANULE;
    *(given < GRANULE ? &unaware->small : &unaware->large) += is_behind ? bytes : 0 - bytes;
}

uint64_t unaware_taken(const struct script_unaware *unaware)
{
    return unaware->large + (unaware->small + GRANULE - 1) / GRANULE * GRANULE;
}

void unaware_settle(struct script *script)
{
    for (size_t i = 0; i < script->pool_count; i++)
        script->unaware.is_so = script->unaware.is_so && script->pools[i]->flags & TRACE_POOL_UNAWARE;
    script->has_caches = script->has_caches || script->unaware.is_so;
    script->recorded.stall += script->unaware.stall;
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

char *unaware_gain(const struct script *script, const char *name, const struct outcome *outcome)
{
    const struct script_unaware *unaware = &script->unaware;
    char shown[SHOWN_LEN], waits[128] = "No free waited", peak[96] = "";
    if (!unaware->is_so || (outcome && !outcome->is_done))
        return must(strdup(""));
    if (unaware->frees)
        snprintf(waits, sizeof waits, "%s of %s free%s that waited: none", TIME_TEXT(unaware->free_time), COUNT_TEXT(unaware->frees),
                 weir__plural(unaware->frees));
    if (outcome && script->recorded.has_reserved)
        snprintf(peak, sizeof peak, "; peak reserved %s instead of %s", SIZE_TEXT(outcome->peak_reserved), SIZE_TEXT(script->recorded.peak_reserved));
    return format_text("%s under %s%s.", waits, utf8_shown(shown, name), peak);
}

static void write_left_out(FILE *out, const struct script_unaware *unaware, const char *indent)
{
    const char *before = "Not replayed, as no pool of a device serves them: requests of";
    for (unsigned i = 0; i < UNAWARE_LEFT; i++)
        if (unaware->left[i]) {
            fprintf(out, "%s%s %s memory (%s)", *before == ',' ? "" : indent, before, left_names[i], COUNT_TEXT(unaware->left[i]));
            before = ",";
        }
    if (*before == ',')
        fputs(".\n", out);
    if (unaware->kept)
        fprintf(out, "%s%s call%s for such memory waited %s, and would on Weir.\n", indent, COUNT_TEXT(unaware->kept),
                weir__plural(unaware->kept), TIME_TEXT(unaware->kept_time));
}

char *unaware_assumptions(const struct script *script, const char *indent)
{
    const struct script_unaware *unaware = &script->unaware;
    char *text = NULL;
    size_t len = 0;
    FILE *out = must(open_memstream(&text, &len));
    if (unaware->is_so)
        fprintf(out, "%sThe program called CUDA by itself: the default pool serves what it had of the device.\n", indent);
    if (unaware->is_so && unaware->homeless)
        fprintf(out, "%sWhich streams used blocks of cudaMalloc is not known: %s request%s replayed on one.\n", indent,
                COUNT_TEXT(unaware->homeless), unaware->homeless == 1 ? " is" : "s are");
    if (unaware->is_so && unaware->frees)
        fprintf(out,
                "%sThe GPU works as long as before: requests have the times of the recording, and the program may wait at its next "
                "synchronise for what frees no longer wait for.\n",
                indent);
    if (unaware->is_so)
        write_left_out(out, unaware, indent);
    if (unaware->is_so && view_has_segments(script->trace))
        fprintf(out, "%s" VIEW_SEGMENTS "\n", indent);
    if (fclose(out) != 0)
        must(NULL);
    return text;
}

void unaware_json(struct json *json, const struct script *script)
{
    static const struct json_member members[] = {
        JSON_MEMBER(struct script_unaware, frees), JSON_MEMBER(struct script_unaware, free_time), JSON_MEMBER(struct script_unaware, kept),
        JSON_MEMBER(struct script_unaware, kept_time), JSON_MEMBER(struct script_unaware, homeless),
    };
    if (!script->unaware.is_so) {
        json_null(json, "unaware");
        return;
    }
    json_object(json, "unaware");
    json_members(json, &script->unaware, members, sizeof members / sizeof members[0]);
    for (unsigned i = 0; i < UNAWARE_LEFT; i++)
        json_uint(json, left_names[i], script->unaware.left[i]);
    json_bool(json, "has_segments", view_has_segments(script->trace));
    json_end(json);
}
