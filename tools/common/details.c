/* SPDX-License-Identifier: MIT */
/* details.c - what live processes tell beside their figures: of tags, automatic thresholds, labels and quotas. */
#include <stdlib.h>
#include <string.h>

#include "share/wire/query.h"
#include "tools/common/processes.h"

#define TRUST_MAX 4096 /* of each: more than this no process has */
#define PARTS 5 /* The time that each question has is such a part of that for the figures: a command asks up to four, of processes that have just
                   answered, and they shall not take longer all together than that. */

static void forget_tags(struct process *process)
{
    free(process->tags);
    process->tags = NULL;
    process->tag_count = process->tag_room = 0;
}

static void forget_audits(struct process *process)
{
    free(process->audits);
    process->audits = NULL;
    process->audit_count = process->audit_room = 0;
}

/* What cannot be told apart here, as it has characters that may not be sent, is one tag. */
static bool take_tag(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_TAG)
        return answer->type == WIRE_READY;
    for (size_t i = 0; i < process->tag_count; i++) {
        process_tag *tag = &process->tags[i];
        if (strcmp(tag->name, answer->u.tag.name) != 0)
            continue;
#define ADD_FIGURE(figure) tag->figure += answer->u.tag.figure;
        WIRE_TAG_FIGURES(ADD_FIGURE)
#undef ADD_FIGURE
        return true;
    }
    if (process->tag_count == TRUST_MAX)
        return false;
    process->tags = must_grow(process->tags, process->tag_count, &process->tag_room, sizeof process->tags[0]);
    process->tags[process->tag_count++] = answer->u.tag;
    return true;
}

static void end_tags(const struct share_query *query)
{
    if (query->status != WEIR_OK)
        forget_tags(query->data);
}

static bool is_same_pool(const process_audit *a, const process_audit *b)
{
    return a->device == b->device && ((a->flags ^ b->flags) & WIRE_POOL_PRIVATE) == 0 && strcmp(a->name, b->name) == 0;
}

static bool take_audit(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_AUDIT)
        return answer->type == WIRE_READY;
    for (size_t i = 0; i < process->audit_count; i++) {
        process_audit *audit = &process->audits[i];
        if (!is_same_pool(audit, &answer->u.audit))
            continue;
#define ADD_FIGURE(figure) audit->figure += answer->u.audit.figure;
        WIRE_AUDIT_FIGURES(ADD_FIGURE)
#undef ADD_FIGURE
        audit->flags |= answer->u.audit.flags;
        return true;
    }
    if (process->audit_count == TRUST_MAX)
        return false;
    process->audits = must_grow(process->audits, process->audit_count, &process->audit_room, sizeof process->audits[0]);
    process->audits[process->audit_count++] = answer->u.audit;
    return true;
}

static void end_audits(const struct share_query *query)
{
    if (query->status != WEIR_OK)
        forget_audits(query->data);
}

/* What is not known here is passed over, and what comes twice is the first. The process chose the text. */
static bool take_label(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_LABEL)
        return answer->type == WIRE_READY;
    for (unsigned label = 0; label < SHARE_LABELS; label++)
        if (strcmp(share_label_name(label), answer->u.label.name) == 0 && !*process->labels.values[label])
            share_label_copy(process->labels.values[label], answer->u.label.value);
    return ++process->labels_told <= TRUST_MAX;
}

static void forget_labels(struct process *process)
{
    process->labels = (struct share_labels){{{0}}};
    process->labels_told = 0;
}

static void end_labels(const struct share_query *query)
{
    if (query->status != WEIR_OK)
        forget_labels(query->data);
}

static bool take_quota(struct share_query *query, const struct wire_message *answer)
{
    struct process *process = query->data;
    if (answer->type != WIRE_QUOTA)
        return answer->type == WIRE_READY;
    if (process->quota_count == process->devices_told)
        return false;
    process->quotas[process->quota_count++] = answer->u.quota;
    return true;
}

static void end_quotas(const struct share_query *query)
{
    struct process *process = query->data;
    if (query->status != WEIR_OK)
        process->quota_count = 0;
}

void processes_ask_quotas(struct processes *processes, unsigned timeout_ms)
{
    static const struct wire_message quotas = {.type = WIRE_QUOTAS};
    for (size_t i = 0; i < processes->count; i++)
        processes->items[i].quota_count = 0;
    processes_question(processes, &quotas, timeout_ms / PARTS, take_quota, end_quotas);
}

const process_quota *process_quota_of(const struct process *process, const process_device *device)
{
    for (size_t i = 0; i < process->quota_count; i++)
        if (process->quotas[i].device == device->index)
            return &process->quotas[i];
    return NULL;
}

void processes_ask_labels(struct processes *processes, unsigned timeout_ms)
{
    static const struct wire_message labels = {.type = WIRE_LABELS};
    for (size_t i = 0; i < processes->count; i++)
        forget_labels(&processes->items[i]);
    processes_question(processes, &labels, timeout_ms / PARTS, take_label, end_labels);
}

void processes_ask_details(struct processes *processes, unsigned timeout_ms)
{
    static const struct wire_message tags = {.type = WIRE_TAGS}, audits = {.type = WIRE_AUDITS};
    for (size_t i = 0; i < processes->count; i++) {
        forget_tags(&processes->items[i]);
        forget_audits(&processes->items[i]);
    }
    processes_question(processes, &tags, timeout_ms / PARTS, take_tag, end_tags);
    processes_question(processes, &audits, timeout_ms / PARTS, take_audit, end_audits);
}
