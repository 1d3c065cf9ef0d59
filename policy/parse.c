/* SPDX-License-Identifier: MIT */
#include "policy/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/origin.h"
#include "policy/value.h"

/* One parse. Nodes live in the arena of the tree and end with it; what the policy keeps lives in the arena of the box. */
struct parse {
    struct policy_tree tree;
    struct policy_report report;
    struct policy_box *box;
    struct policy_reading reading;
    bool builtin;
};

/* The object that a mapping fills. */
struct target {
    enum policy_scope scope;
    char *values;
    struct policy_origin *origins;
};

/* Objects ------------------------------------------------------------------------------------------------------------------------------ */

static const char *keep_text(struct parse *parse, const char *text)
{
    return policy_arena_text(&parse->box->arena, text, strlen(text));
}

static void set_origin(struct parse *parse, struct policy_origin *origin, struct policy_mark mark)
{
    bool own = mark.file != parse->box->policy.file;
    origin->file = mark.file;
    if (!parse->builtin || own) {
        origin->line = mark.line;
        origin->column = mark.column;
    }
}

/* Defaults and paths for each key of a new object. prefix: "pools.a", or "". NULL: no memory. */
static struct policy_origin *new_object(struct parse *parse, enum policy_scope scope, void *values, const char *prefix)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count);
    struct policy_origin *origins = policy_arena_alloc(&parse->box->arena, count + 1, sizeof(*origins));
    if (!origins)
        return NULL;
    for (size_t i = 0; i <= count; i++) {
        char path[POLICY_PATH_MAX];
        const char *name = i < count ? keys[i].name : "";
        snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] && name[0] ? "." : "", name);
        origins[i].path = keep_text(parse, path);
        if (!origins[i].path)
            return NULL;
        if (i < count && !policy_value_default(&parse->reading, &keys[i], (char *)values + keys[i].offset))
            return NULL;
    }
    return origins;
}

/* The shape of a mapping of pools or streams. NULL, reported, if the node is none. */
static const struct policy_node *mapping_of(struct parse *parse, const struct policy_node *node, const char *write)
{
    if (node->kind == POLICY_NODE_MAPPING)
        return node;
    if (policy_node_is_null(node))
        policy_fail(&parse->reading, node, "has no value; write %s", write);
    else if (node->kind != POLICY_NODE_REFUSED)
        policy_fail(&parse->reading, node, "is a %s; write %s", node->kind == POLICY_NODE_LIST ? "list" : "value", write);
    return NULL;
}

static void check_name(struct parse *parse, const struct policy_node *node)
{
    if (!policy_name_is_valid(node->name))
        policy_fail_name(&parse->reading, node,
                         "'%s' cannot be a name; write a letter or _, then letters, digits, _ and -, at most %d characters",
                         policy_quote(node->name).text, POLICY_NAME_MAX);
}

static size_t count_entries(struct parse *parse, const struct policy_node *mapping, size_t max, const char *what)
{
    size_t count = 0;
    for (const struct policy_node *node = mapping->first; node; node = node->next) {
        check_name(parse, node);
        count++;
    }
    if (count <= max)
        return count;
    policy_fail_name(&parse->reading, mapping, "holds %zu %s; write at most %zu", count, what, max);
    return 0;
}

/* Reading mappings --------------------------------------------------------------------------------------------------------------------- */

static const char *const scope_places[POLICY_SCOPE_COUNT] = {
    [POLICY_SCOPE_FILE] = "at the top of the file",
    [POLICY_SCOPE_POOL] = "in a pool, pools.NAME",
    [POLICY_SCOPE_STREAM] = "in a stream, streams.NAME",
};

static void fail_unknown(struct parse *parse, enum policy_scope scope, const char *prefix, const struct policy_node *node)
{
    if (strcmp(node->name, "<<") == 0) {
        policy_fail_name(&parse->reading, node, "merge keys are refused; write the keys out");
        return;
    }
    if (strchr(node->name, '.')) {
        policy_fail_name(&parse->reading, node, "a key has no dots; write its parts as nested mappings");
        return;
    }
    /* The next part of each key that begins with the prefix, and that would not be refused in turn. */
    struct policy_guess guess = policy_guess_begin(node->name);
    char part[32], best[32];
    size_t count, skip = strlen(prefix);
    const struct policy_key *keys = policy_keys(scope, &count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(keys[i].name, prefix, skip) != 0)
            continue;
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(keys[i].name + skip, "."), keys[i].name + skip);
        policy_guess_try(&guess, part);
        if (guess.best == part)
            guess.best = memcpy(best, part, sizeof(best));
    }
    /* A key that is spelt right elsewhere is meant, but for one letter that is missing here. */
    for (unsigned other = 0; other < POLICY_SCOPE_COUNT && !(guess.best && guess.distance <= 1); other++) {
        if (other != scope && (policy_key_find(other, node->name) || policy_key_is_group(other, node->name))) {
            policy_fail_name(&parse->reading, node, "does not belong here; write it %s", scope_places[other]);
            return;
        }
    }
    policy_fail_name(&parse->reading, node, "unknown key%s%s", policy_guess_text(&guess).text,
                     guess.best ? "" : "; remove it, weir-policy(5) lists all keys");
}

static void read_keys(struct parse *parse, const struct target *target, const char *prefix, const struct policy_node *mapping);

static void read_streams(struct parse *parse, const struct policy_node *node, const struct policy_key *key)
{
    const struct policy_node *mapping = mapping_of(parse, node, key->write);
    struct policy *policy = &parse->box->policy;
    size_t count = mapping ? count_entries(parse, mapping, POLICY_STREAMS_MAX, "streams") : 0;
    policy->streams = policy_arena_alloc(&parse->box->arena, count, sizeof(*policy->streams));
    if (!policy->streams)
        return;
    const struct policy_node *entry = count > 0 ? mapping->first : NULL;
    for (; entry; entry = entry->next) {
        struct policy_stream *stream = &policy->streams[policy->stream_count];
        char path[POLICY_PATH_MAX];
        policy_node_path(entry, path, sizeof(path));
        stream->pool = SIZE_MAX; /* until it is known what defaults.pool is */
        stream->name = policy_arena_text(&parse->box->arena, entry->name, strlen(entry->name));
        stream->origins = new_object(parse, POLICY_SCOPE_STREAM, stream, path);
        if (!stream->name || !stream->origins)
            return;
        policy->stream_count++;
        size_t key_count;
        policy_keys(POLICY_SCOPE_STREAM, &key_count);
        set_origin(parse, &stream->origins[key_count], entry->name_mark);
        const struct target target = {POLICY_SCOPE_STREAM, (char *)stream, stream->origins};
        if (mapping_of(parse, entry, "{} for a stream with the defaults"))
            read_keys(parse, &target, "", entry);
    }
}

/* Gives each pool its name, before anything that can refer to one is read. */
static void name_pools(struct parse *parse, const struct policy_node *node)
{
    size_t count = node->kind == POLICY_NODE_MAPPING ? count_entries(parse, node, POLICY_POOLS_MAX, "pools") : 0;
    struct policy *policy = &parse->box->policy;
    policy->pools = policy_arena_alloc(&parse->box->arena, count, sizeof(*policy->pools));
    if (!policy->pools)
        return;
    for (const struct policy_node *entry = count > 0 ? node->first : NULL; entry; entry = entry->next) {
        struct policy_pool *pool = &policy->pools[policy->pool_count];
        char path[POLICY_PATH_MAX];
        policy_node_path(entry, path, sizeof(path));
        pool->name = policy_arena_text(&parse->box->arena, entry->name, strlen(entry->name));
        pool->origins = new_object(parse, POLICY_SCOPE_POOL, pool, path);
        if (!pool->name || !pool->origins)
            return;
        policy->pool_count++;
        size_t key_count;
        policy_keys(POLICY_SCOPE_POOL, &key_count);
        set_origin(parse, &pool->origins[key_count], entry->name_mark);
    }
}

static void read_pools(struct parse *parse, const struct policy_node *node, const struct policy_key *key)
{
    const struct policy_node *mapping = mapping_of(parse, node, key->write);
    struct policy *policy = &parse->box->policy;
    if (mapping && !mapping->first && !parse->tree.cut)
        policy_fail(&parse->reading, node, "holds no pool; write %s", key->write);
    size_t i = 0;
    for (const struct policy_node *entry = mapping ? mapping->first : NULL; entry && i < policy->pool_count; entry = entry->next, i++) {
        const struct target target = {POLICY_SCOPE_POOL, (char *)&policy->pools[i], policy->pools[i].origins};
        if (mapping_of(parse, entry, "{} for a pool with the defaults"))
            read_keys(parse, &target, "", entry);
    }
}

/* One key that the table has. */
static void read_value(struct parse *parse, const struct target *target, const struct policy_key *key, const struct policy_node *node)
{
    struct policy_origin *origin = (struct policy_origin *)policy_origin_of(target->scope, target->origins, key);
    set_origin(parse, origin, node->mark);
    switch (key->type) {
    case POLICY_TYPE_POOLS:
        read_pools(parse, node, key);
        break;
    case POLICY_TYPE_STREAMS:
        read_streams(parse, node, key);
        break;
    default:
        origin->refused = !policy_value_read(&parse->reading, key, node, target->values + key->offset);
        break;
    }
}

/* The mapping of the keys below a switch, which switches it on. */
static void read_switched(struct parse *parse, const struct target *target, const struct policy_key *key, const struct policy_node *node)
{
    struct policy_origin *origin = (struct policy_origin *)policy_origin_of(target->scope, target->origins, key);
    set_origin(parse, origin, node->mark);
    *(bool *)(target->values + key->offset) = true;
    char prefix[POLICY_PATH_MAX];
    snprintf(prefix, sizeof(prefix), "%s.", key->name);
    read_keys(parse, target, prefix, node);
}

/* Reads the entries of a mapping whose keys begin with prefix, "" or "on_oom.". */
static void read_keys(struct parse *parse, const struct target *target, const char *prefix, const struct policy_node *mapping)
{
    for (const struct policy_node *node = mapping->first; node; node = node->next) {
        char name[POLICY_PATH_MAX];
        snprintf(name, sizeof(name), "%s%s", prefix, node->name);
        bool dotted = strchr(node->name, '.') != NULL;
        const struct policy_key *key = dotted ? NULL : policy_key_find(target->scope, name);
        if (key && key->type == POLICY_TYPE_SWITCH && node->kind == POLICY_NODE_MAPPING) {
            read_switched(parse, target, key, node);
        } else if (key) {
            read_value(parse, target, key, node);
        } else if (!dotted && policy_key_is_group(target->scope, name)) {
            if (mapping_of(parse, node, "a mapping of its keys, or leave it out")) {
                snprintf(name, sizeof(name), "%s%s.", prefix, node->name);
                read_keys(parse, target, name, node);
            }
        } else {
            fail_unknown(parse, target->scope, prefix, node);
        }
    }
}

/* The whole file ----------------------------------------------------------------------------------------------------------------------- */

/* Reports a key that must be there and is not. */
static void check_required(struct parse *parse, const struct policy_node *root)
{
    if (parse->tree.cut)
        return;
    const struct policy *policy = &parse->box->policy;
    const struct policy_node *defaults = policy_node_find(root, "defaults"), *pools = policy_node_find(root, "pools");
    if (!policy_node_find(root, "weir"))
        policy_report_add(&parse->report, root->mark, "weir", "is missing; begin the file with weir: 1");
    if (!pools)
        policy_report_add(&parse->report, root->mark, "pools", "is missing; write pools: {main: {}} for one pool with the defaults");
    const struct policy_key *key = policy_key_find(POLICY_SCOPE_FILE, "defaults.pool");
    if (pools && policy->pool_count > 1 && !policy_origin_of(POLICY_SCOPE_FILE, policy->origins, key)->file)
        policy_report_add(&parse->report, defaults ? defaults->name_mark : pools->name_mark, "defaults.pool",
                          "is missing, and there are %zu pools to choose from; write defaults: {pool: %s}", policy->pool_count,
                          policy_quote(policy->pools[0].name).text);
}

/* What follows from other keys, once all were read. */
static void resolve(struct policy *policy)
{
    const struct policy_key *threshold = policy_key_find(POLICY_SCOPE_POOL, "release_threshold");
    const struct policy_key *small = policy_key_find(POLICY_SCOPE_POOL, "small_below");
    const struct policy_key *cache = policy_key_find(POLICY_SCOPE_POOL, "cache");
    for (size_t i = 0; i < policy->pool_count; i++) {
        struct policy_pool *pool = &policy->pools[i];
        if (pool->ipc == POLICY_IPC_NONE)
            continue;
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, threshold)->file)
            pool->release_threshold = (struct policy_size){POLICY_SIZE_NONE, 0};
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, small)->file)
            pool->small_below = 0;
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, cache)->file)
            pool->cache = false;
    }
    for (size_t i = 0; i < policy->stream_count; i++) {
        if (policy->streams[i].pool == SIZE_MAX)
            policy->streams[i].pool = policy->default_pool;
    }
}

/* A switch that is on shows as the keys below it, one that is off as itself alone: so it is written, and never both. What cannot be written
   beside the others is not shown either. */
static bool is_shown(const struct policy_object *object, const struct policy_key *key)
{
    if (object->scope == POLICY_SCOPE_POOL && !policy_key_is_served(object->values, key))
        return false;
    const struct policy_key *above = policy_key_switch(object->scope, key);
    if (above)
        return *(const bool *)((const char *)object->values + above->offset);
    return key->type != POLICY_TYPE_SWITCH || !*(const bool *)((const char *)object->values + key->offset);
}

/* Writes every value down as text, for policy_each_value() and policy_compare(). */
static void write_texts(struct parse *parse)
{
    struct policy_object object;
    for (size_t at = 0; policy_object_at(&parse->box->policy, at, &object); at++) {
        size_t count;
        const struct policy_key *keys = policy_keys(object.scope, &count);
        for (size_t i = 0; i < count; i++) {
            bool value = keys[i].type != POLICY_TYPE_POOLS && keys[i].type != POLICY_TYPE_STREAMS;
            struct policy_origin *origin = (struct policy_origin *)&object.origins[i];
            if (value && is_shown(&object, &keys[i]))
                origin->text = policy_value_text(&parse->reading, &keys[i], (const char *)object.values + keys[i].offset);
        }
    }
}

static void read_root(struct parse *parse)
{
    const struct policy_node *root = parse->tree.root;
    struct policy *policy = &parse->box->policy;
    if (!root) {
        if (!parse->tree.cut)
            policy_report_add(&parse->report, (struct policy_mark){policy->file, 1, 1}, "",
                              "the file is empty; write at least weir: 1 and pools: {main: {}}");
        return;
    }
    if (root->kind != POLICY_NODE_MAPPING) {
        if (root->kind != POLICY_NODE_REFUSED)
            policy_report_add(&parse->report, root->mark, "", "a policy is a mapping; begin the file with weir: 1");
        return;
    }
    policy->origins = new_object(parse, POLICY_SCOPE_FILE, policy, "");
    if (!policy->origins)
        return;
    const struct policy_node *pools = policy_node_find(root, "pools");
    if (pools)
        name_pools(parse, pools);
    if (parse->box->arena.exhausted)
        return;
    const struct target target = {POLICY_SCOPE_FILE, (char *)policy, policy->origins};
    read_keys(parse, &target, "", root);
    if (parse->box->arena.exhausted)
        return;
    check_required(parse, root);
    resolve(policy);
    policy_check(policy, &parse->report);
}

static void parse_text(struct parse *parse)
{
    struct policy_box *box = parse->box;
    if (box->len > POLICY_FILE_MAX) {
        policy_report_add(&parse->report, (struct policy_mark){parse->box->policy.file, 0, 0}, "",
                          "is larger than %d bytes, which no policy needs; check that this is the right file", POLICY_FILE_MAX);
        return;
    }
    parse->builtin = box->text == policy_builtin_text();
    parse->tree.report = &parse->report;
    policy_tree_read(&parse->tree, box->text, box->len, box->policy.file);
    for (size_t i = 0; i < box->layer_count && !parse->report.no_memory; i++)
        policy_apply_overrides(&parse->tree, &box->layers[i]);
    if (parse->tree.root)
        policy_mark_used(parse->tree.root, box->layers, box->layer_count);
    if (!parse->report.no_memory) {
        parse->reading = (struct policy_reading){&parse->box->arena, &parse->report, &parse->box->policy, parse->tree.cut};
        read_root(parse);
    }
    if (policy_report_status(&parse->report) == POLICY_OK && !parse->box->arena.exhausted)
        write_texts(parse);
}

/* Keeps what a policy is read from in its box, with room for one more layer, which goes behind the others. */
static bool keep_source(struct policy_box *box, const struct policy_box *source, const char *label, const char *assignments)
{
    box->policy.file = policy_arena_text(&box->arena, source->policy.file, strlen(source->policy.file));
    box->len = source->len;
    /* What is too long is refused without being read. */
    bool is_kept = source->text == policy_builtin_text() || source->len > POLICY_FILE_MAX;
    box->text = is_kept ? source->text : policy_arena_text(&box->arena, source->text, source->len);
    box->layers = policy_arena_alloc(&box->arena, source->layer_count + 1, sizeof(*box->layers));
    for (size_t i = 0; i < source->layer_count + 1 && box->layers; i++) {
        const struct policy_layer *layer = i < source->layer_count ? &source->layers[i] : NULL;
        const char *text = layer ? layer->text : assignments;
        /* One that is of no use any more is left behind, so that setting a key again and again takes no memory. */
        if (!text || (layer && !layer->is_used))
            continue;
        struct policy_layer *kept = &box->layers[box->layer_count++];
        snprintf(kept->label, sizeof(kept->label), "%s", layer ? layer->label : label);
        kept->text = policy_arena_text(&box->arena, text, strlen(text));
    }
    return !box->arena.exhausted;
}

/* Parses what `source` was read from, or is to be read from, with one more layer of assignments (NULL: none). */
static enum policy_status parse_source(const struct policy_box *source, const char *label, const char *assignments,
                                       struct policy_errors *errors, struct policy **policy)
{
    struct policy_arena nodes = {0};
    struct parse parse = {.tree = {.arena = &nodes}};
    policy_report_begin(&parse.report, errors);
    parse.box = calloc(1, sizeof(*parse.box));
    if (!parse.box)
        return POLICY_NO_MEMORY;
    if (keep_source(parse.box, source, label, assignments))
        parse_text(&parse);
    if (parse.box->arena.exhausted || nodes.exhausted)
        parse.report.no_memory = true;
    policy_arena_free(&nodes);
    policy_report_sort(&parse.report);
    enum policy_status status = policy_report_status(&parse.report);
    if (status == POLICY_OK)
        *policy = &parse.box->policy;
    else
        policy_free(&parse.box->policy);
    return status;
}

enum policy_status policy_parse(const char *text, size_t len, const char *file, const char *overrides, struct policy_errors *errors,
                                struct policy **policy)
{
    const struct policy_box source = {.policy.file = (char *)file, .text = text, .len = len};
    return parse_source(&source, POLICY_OVERRIDES, overrides, errors, policy);
}

enum policy_status policy_override(const struct policy *before, const char *assignments, struct policy_errors *errors,
                                   struct policy **policy)
{
    const struct policy_box *source = (const struct policy_box *)before; /* policy is its first member */
    size_t len = strlen(assignments);
    for (size_t i = 0; i < source->layer_count; i++)
        if (source->layers[i].is_used && strcmp(source->layers[i].label, POLICY_SET) == 0)
            len += strlen(source->layers[i].text);
    if (len <= POLICY_SET_MAX)
        return parse_source(source, POLICY_SET, assignments, errors, policy);
    struct policy_report report;
    policy_report_begin(&report, errors);
    policy_report_add(&report, (struct policy_mark){POLICY_SET, 0, 0}, "",
                      "all that was set since the policy was read is %zu bytes long, more than %d; write it into the policy and reload "
                      "that",
                      len, POLICY_SET_MAX);
    return policy_report_status(&report);
}

void policy_free(struct policy *policy)
{
    if (!policy)
        return;
    struct policy_box *box = (struct policy_box *)policy; /* policy is its first member */
    struct policy_arena arena = box->arena;
    free(box);
    policy_arena_free(&arena);
}
