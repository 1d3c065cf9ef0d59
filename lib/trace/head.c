/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/trace/costs.h"
#include "policy/environment.h"

#define ROOM (WEIR__TRACE_HEAD_MAX - 16)

void weir__trace_head_put(struct weir__trace_head *head, const char *key, const char *value)
{
    weir__trace_put_string(&head->pairs, key, WEIR__TRACE_STRING_MAX);
    weir__trace_put_string(&head->pairs, value, ROOM / 2);
    head->count++;
}

void weir__trace_head_putf(struct weir__trace_head *head, const char *key, const char *format, ...)
{
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    weir__trace_head_put(head, key, value);
}

bool weir__trace_head_begin(struct weir__trace_head *head, const struct weir__recorder *recorder, const char *reason)
{
    *head = (struct weir__trace_head){.pairs = {.bytes = malloc(ROOM), .room = ROOM}};
    if (!head->pairs.bytes)
        return false;
    weir__trace_head_put(head, "weir", PACKAGE_VERSION);
    weir__trace_head_putf(head, "pid", "%ld", (long)getpid());
    weir__trace_head_put(head, "program", program_invocation_short_name);
    const char *rank = policy_environment("RANK");
    if (rank)
        weir__trace_head_putf(head, "rank", "%s", rank);
    weir__trace_head_putf(head, "started.monotonic", "%" PRIu64, recorder->started_monotonic);
    weir__trace_head_putf(head, "started.real", "%" PRIu64, recorder->started_real);
    weir__trace_head_put(head, "reason", reason);
    weir__trace_head_put(head, "level", weir__records(recorder, WEIR__LEVEL_ALL) ? "all" : "pool");
    weir__trace_head_put(head, "stacks", atomic_load(&recorder->has_stacks) ? "true" : "false");
    return true;
}

void weir__trace_head_device(struct weir__trace_head *head, unsigned device, const char *name, const char *uuid, uint64_t memory)
{
    char key[64];
    snprintf(key, sizeof key, "gpu.%u.name", device);
    weir__trace_head_put(head, key, name);
    snprintf(key, sizeof key, "gpu.%u.uuid", device);
    weir__trace_head_put(head, key, uuid);
    snprintf(key, sizeof key, "gpu.%u.memory", device);
    weir__trace_head_putf(head, key, "%" PRIu64, memory);
}

void weir__trace_head_costs(struct weir__trace_head *head, unsigned device, const char *name, int driver, const char *uuid)
{
    char key[64], *text = weir__costs_text(name, driver, uuid);
    snprintf(key, sizeof key, "gpu.%u.costs", device);
    if (text && strlen(text) + sizeof key + 16 < head->pairs.room - head->pairs.len)
        weir__trace_head_put(head, key, text);
    free(text);
}

bool weir__trace_head_end(struct weir__trace_head *head, struct weir__trace_bytes *content)
{
    *content = (struct weir__trace_bytes){.bytes = malloc(WEIR__TRACE_HEAD_MAX), .room = WEIR__TRACE_HEAD_MAX};
    content->is_full = !content->bytes || head->pairs.is_full;
    weir__trace_put_number(content, head->count);
    weir__trace_put(content, head->pairs.bytes, head->pairs.len);
    free(head->pairs.bytes);
    return !content->is_full;
}
