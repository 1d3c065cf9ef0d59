/* SPDX-License-Identifier: MIT */
/* stats_json.c - writes a snapshot of statistics, and the policy in force, as JSON. One table for each struct lists the members to write;
   tests/api/stats_json.c finds members that are missing there. */
#include "config.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/stats.h"

/* Text that is being written. The first pass, with `at` NULL, only counts its length; the second one writes it. */
struct output {
    char *at;
    size_t room, len;
};

static void put(struct output *out, const char *text, size_t len)
{
    if (out->at && out->len + len <= out->room)
        memcpy(out->at + out->len, text, len);
    out->len += len;
}

static void put_text(struct output *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_string(struct output *out, const char *value)
{
    char escaped[WEIR__JSON_CHARACTER];
    put_text(out, "\"");
    for (size_t len; (len = weir__json_character(&value, escaped)) > 0;)
        put(out, escaped, len);
    put_text(out, "\"");
}

static void put_uint(struct output *out, uint64_t value)
{
    char digits[24];
    put(out, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, value));
}

/* Members ------------------------------------------------------------------------------------------------------------------------------ */

struct member {
    const char *name;
    size_t offset;
    enum kind { UINT, INT, BOOL, NAME, RUNGS } kind; /* a NAME is a string or NULL */
};

#define DEVICE(member) #member, offsetof(weir_device_stats, member)
#define POOL(member) #member, offsetof(weir_pool_stats, member)
#define TAG(member) #member, offsetof(weir_tag_stats, member)
#define END { NULL, 0, UINT }

static const struct member device_members[] = {
    { "index", offsetof(weir_device_stats, device), INT },
    { DEVICE(uuid), NAME },
    { DEVICE(memory), UINT },
    { DEVICE(memory_free), UINT },
    { DEVICE(obtainable), UINT },
    { DEVICE(quota), UINT },
    { DEVICE(quota_from), NAME },
    { DEVICE(recoveries), UINT },
    { DEVICE(asks_sent), UINT },
    { DEVICE(bytes_got), UINT },
    { DEVICE(asks_received), UINT },
    { DEVICE(bytes_given), UINT },
    { DEVICE(rescues), RUNGS },
    END,
};

static const struct member pool_members[] = {
    { POOL(device), INT },
    { POOL(name), NAME },
    { POOL(is_private), BOOL },
    { POOL(is_exportable), BOOL },
    { POOL(is_arena), BOOL },
    { POOL(is_auto), BOOL },
    { POOL(live), UINT },
    { POOL(cached), UINT },
    { POOL(slack), UINT },
    { POOL(used), UINT },
    { POOL(idle), UINT },
    { POOL(reserved), UINT },
    { POOL(live_high), UINT },
    { POOL(reserved_high), UINT },
    { POOL(max_size), UINT },
    { POOL(release_threshold), UINT },
    { POOL(keep), UINT },
    { POOL(obtainable), UINT },
    { POOL(leave_free), UINT },
    { POOL(asleep), UINT },
    { POOL(yielded), UINT },
    { POOL(held_elsewhere), UINT },
    { POOL(sleeps), UINT },
    { POOL(wakes), UINT },
    { POOL(align), UINT },
    { POOL(live_blocks), UINT },
    { POOL(graph_blocks), UINT },
    { POOL(mallocs), UINT },
    { POOL(frees), UINT },
    { POOL(failures), UINT },
    { POOL(cache_hits), UINT },
    { POOL(kept_used), UINT },
    { POOL(kept_used_ms), UINT },
    { POOL(kept_unused), UINT },
    { POOL(kept_unused_ms), UINT },
    { POOL(given_missed), UINT },
    { POOL(given_missed_ms), UINT },
    END,
};

static const struct member tag_members[] = {
    { TAG(name), NAME }, { TAG(live), UINT }, { TAG(live_high), UINT }, { TAG(live_blocks), UINT }, END,
};

static void put_rungs(struct output *out, const uint64_t *rescues)
{
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        put_text(out, rung ? ", " : "{");
        put_string(out, weir_rung_name((weir_rung)rung));
        put_text(out, ": ");
        put_uint(out, rescues[rung]);
    }
    put_text(out, "}");
}

static void put_value(struct output *out, const void *at, enum kind kind)
{
    const char *name;
    switch (kind) {
    case UINT:
        put_uint(out, *(const uint64_t *)at);
        break;
    case INT:
        put_uint(out, (uint64_t)*(const int *)at);
        break;
    case BOOL:
        put_text(out, *(const int *)at ? "true" : "false");
        break;
    case NAME:
        memcpy(&name, at, sizeof name);
        if (name)
            put_string(out, name);
        else
            put_text(out, "null");
        break;
    case RUNGS:
        put_rungs(out, at);
        break;
    }
}

static void put_object(struct output *out, const void *object, const struct member *members)
{
    for (const struct member *member = members; member->name; member++) {
        put_text(out, member == members ? "{" : ", ");
        put_string(out, member->name);
        put_text(out, ": ");
        put_value(out, (const char *)object + member->offset, member->kind);
    }
    put_text(out, "}");
}

/* The policy in force ------------------------------------------------------------------------------------------------------------------ */

/* The state of policy_each_value() while the policy's values are written. */
struct values {
    struct output *out;
    const weir *w;
    const struct policy *policy;
    size_t count;
};

static void put_policy_value(const struct policy_value *given, void *data)
{
    struct values *values = data;
    struct output *out = values->out;
    int device;
    struct policy_value value = *given;
    const struct policy_pool *pool = weir__quota_pool(values->policy, given, &device);
    if (pool && (size_t)device < values->w->device_count)
        value = weir__quota_value(&values->w->devices[device].quota, pool, given);
    put_text(out, values->count++ ? ", {\"key\": " : "{\"key\": ");
    put_string(out, value.path);
    put_text(out, ", \"value\": ");
    put_string(out, value.text);
    put_text(out, value.live ? ", \"live\": true, \"file\": " : ", \"live\": false, \"file\": ");
    put_value(out, &value.file, NAME);
    if (value.file && value.line) {
        put_text(out, ", \"line\": ");
        put_uint(out, value.line);
        put_text(out, ", \"column\": ");
        put_uint(out, value.column);
    }
    put_text(out, "}");
}

static void put_policy(struct output *out, const weir *w, const struct policy *policy)
{
    put_text(out, "\"policy\": ");
    put_string(out, policy->file);
    put_text(out, ", \"values\": [");
    policy_each_value(policy, put_policy_value, &(struct values){ .out = out, .w = w, .policy = policy });
    put_text(out, "]");
}

struct weir__in_force *weir__in_force_new(weir *w, const struct policy *policy)
{
    struct output out = { 0 };
    put_policy(&out, w, policy);
    struct weir__in_force *shown = malloc(sizeof *shown + out.len + 1);
    if (!shown)
        return NULL;
    out = (struct output){ .at = shown->json, .room = out.len };
    put_policy(&out, w, policy);
    shown->json[out.len] = '\0';
    atomic_init(&shown->users, 1);
    return shown;
}

/* The snapshot ------------------------------------------------------------------------------------------------------------------------- */

static const void *device_at(const weir_stats *stats, size_t index)
{
    return weir_stats_device(stats, index);
}

static const void *pool_at(const weir_stats *stats, size_t index)
{
    return weir_stats_pool(stats, index);
}

static const void *tag_at(const weir_stats *stats, size_t index)
{
    return weir_stats_tag(stats, index);
}

/* Writes the members that describe the process: version, process number, program, age, labels and policy. */
static void put_process(struct output *out, const weir_stats *stats)
{
    put_text(out, "{\"version\": ");
    put_string(out, weir_version());
    put_text(out, ", \"pid\": ");
    put_uint(out, (uint64_t)stats->pid);
    put_text(out, ", \"program\": ");
    put_string(out, stats->program);
    put_text(out, ", \"age_ms\": ");
    put_uint(out, stats->age_ms);
    for (unsigned label = 0; label < WEIR__LABELS; label++) {
        const char *value = stats->labels.values[label];
        put_text(out, label ? ", " : ", \"labels\": {");
        put_string(out, weir__label_name(label));
        put_text(out, ": ");
        put_value(out, &(const char *){ *value ? value : NULL }, NAME);
    }
    put_text(out, "}, ");
    put_text(out, stats->policy->json);
}

static void put_snapshot(struct output *out, const weir_stats *stats)
{
    static const struct {
        const char *name;
        const void *(*at)(const weir_stats *stats, size_t index);
        const struct member *members;
    } arrays[] = { { "devices", device_at, device_members }, { "pools", pool_at, pool_members }, { "tags", tag_at, tag_members } };
    put_process(out, stats);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        const void *object;
        put_text(out, ", ");
        put_string(out, arrays[i].name);
        put_text(out, ": [");
        for (size_t n = 0; (object = arrays[i].at(stats, n)); n++) {
            put_text(out, n ? ", " : "");
            put_object(out, object, arrays[i].members);
        }
        put_text(out, "]");
    }
    put_text(out, "}");
}

size_t weir_stats_json(const weir_stats *stats, char *json, size_t size)
{
    struct output out = { 0 };
    if (!stats)
        return 0;
    put_snapshot(&out, stats);
    size_t len = out.len;
    if (!json || len >= size)
        return len;
    out = (struct output){ .at = json, .room = len };
    put_snapshot(&out, stats);
    json[len] = '\0';
    return len;
}
