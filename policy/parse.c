/* SPDX-License-Identifier: MIT */
#include "policy/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/form.h"
#include "policy/origin.h"
#include "policy/value.h"

/* What nodes have for a file name that are not of the file: pointers of their own, by which they are told apart. */
static const char of_environment[] = POLICY_OVERRIDES, set_before[] = POLICY_SET, set_now[] = POLICY_SET;

/* One parse. Everything lives in the arena of the box. */
struct parse {
    struct policy_tree tree;
    struct policy_report report;
    struct policy_box *box;
    struct policy_reading reading;
};

/* Objects ------------------------------------------------------------------------------------------------------------------------------ */

static char *keep_text(struct parse *parse, const char *text)
{
    return policy_arena_text(&parse->box->arena, text, strlen(text));
}

static void set_origin(struct parse *parse, struct policy_origin *origin, struct policy_mark mark)
{
    bool own = mark.file != parse->box->policy.file;
    origin->mark = !parse->box->is_builtin || own ? mark : (struct policy_mark){mark.file, 0, 0};
}

/* Defaults, paths and the place of a new object, which is its name: the root has none. NULL: no memory. */
static struct policy_origin *new_object(struct parse *parse, enum policy_scope scope, const struct policy_node *entry, void *values)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count);
    struct policy_origin *origins = policy_arena_alloc(&parse->box->arena, count + 1, sizeof(*origins));
    char path[POLICY_PATH_MAX];
    policy_node_path(entry, path, sizeof(path));
    size_t len = strlen(path);
    for (size_t i = 0; origins && i < count; i++) {
        snprintf(path + len, sizeof(path) - len, "%s%s", len ? "." : "", keys[i].name);
        origins[i].path = keep_text(parse, path);
        policy_value_default(&parse->reading, &keys[i], (char *)values + keys[i].offset);
    }
    path[len] = '\0';
    if (!origins)
        return NULL;
    origins[count].path = keep_text(parse, path);
    set_origin(parse, &origins[count], entry->name_mark);
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
        policy_node_report(&parse->report, node->name_mark, node,
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
    policy_node_report(&parse->report, mapping->name_mark, mapping, "holds %zu %s; write at most %zu", count, what, max);
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
        policy_node_report(&parse->report, node->name_mark, node, "merge keys are refused; write the keys out");
        return;
    }
    if (strchr(node->name, '.')) {
        policy_node_report(&parse->report, node->name_mark, node, "a key has no dots; write its parts as nested mappings");
        return;
    }
    const char *foreign = policy_foreign_key(node->name);
    if (foreign) {
        policy_node_report(&parse->report, node->name_mark, node, "%s", foreign);
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
            policy_node_report(&parse->report, node->name_mark, node, "does not belong here; write it %s", scope_places[other]);
            return;
        }
    }
    policy_node_report(&parse->report, node->name_mark, node, "unknown key%s%s", policy_guess_text(&guess).text,
                       guess.best ? "" : "; remove it, weir-policy(5) lists all keys");
}

static void read_keys(struct parse *parse, const struct policy_object *object, const char *prefix, const struct policy_node *mapping);

/* Gives each pool or stream its name, before anything that can refer to one is read. */
static void name_objects(struct parse *parse, enum policy_scope scope, const struct policy_node *mapping)
{
    struct policy *policy = &parse->box->policy;
    bool pools = scope == POLICY_SCOPE_POOL;
    if (!mapping || mapping->kind != POLICY_NODE_MAPPING)
        return;
    size_t count = count_entries(parse, mapping, pools ? POLICY_POOLS_MAX : POLICY_STREAMS_MAX, pools ? "pools" : "streams");
    if (pools)
        policy->pools = policy_arena_alloc(&parse->box->arena, count, sizeof(*policy->pools));
    else
        policy->streams = policy_arena_alloc(&parse->box->arena, count, sizeof(*policy->streams));
    for (const struct policy_node *entry = count > 0 ? mapping->first : NULL; entry && !parse->box->arena.exhausted; entry = entry->next) {
        if (pools) {
            struct policy_pool *pool = &policy->pools[policy->pool_count++];
            pool->name = keep_text(parse, entry->name);
            pool->origins = new_object(parse, scope, entry, pool);
        } else {
            struct policy_stream *stream = &policy->streams[policy->stream_count++];
            stream->pool = SIZE_MAX; /* until it is known what defaults.pool is */
            stream->name = keep_text(parse, entry->name);
            stream->origins = new_object(parse, scope, entry, stream);
        }
    }
}

static void read_objects(struct parse *parse, enum policy_scope scope, const struct policy_node *node, const struct policy_key *key)
{
    const struct policy *policy = &parse->box->policy;
    const struct policy_node *mapping = mapping_of(parse, node, key->write);
    bool pools = scope == POLICY_SCOPE_POOL;
    if (pools && mapping && !mapping->first && !parse->tree.cut)
        policy_fail(&parse->reading, node, "holds no pool; write %s", key->write);
    size_t at = pools ? 1 : 1 + policy->pool_count, end = at + (pools ? policy->pool_count : policy->stream_count);
    struct policy_object object;
    for (const struct policy_node *entry = mapping ? mapping->first : NULL; entry && at < end; entry = entry->next) {
        policy_object_at(policy, at++, &object);
        if (mapping_of(parse, entry, pools ? "{} for a pool with the defaults" : "{} for a stream with the defaults"))
            read_keys(parse, &object, "", entry);
    }
}

/* One key that the table has. The mapping of the keys below a switch switches it on. */
static void read_value(struct parse *parse, const struct policy_object *object, const struct policy_key *key, const struct policy_node *node)
{
    struct policy_origin *origin = policy_origin_of(object->scope, object->origins, key->name);
    void *value = (char *)object->values + key->offset;
    set_origin(parse, origin, node->mark);
    if (key->type == POLICY_TYPE_POOLS) {
        read_objects(parse, POLICY_SCOPE_POOL, node, key);
    } else if (key->type == POLICY_TYPE_STREAMS) {
        read_objects(parse, POLICY_SCOPE_STREAM, node, key);
    } else if (key->type == POLICY_TYPE_SWITCH && node->kind == POLICY_NODE_MAPPING) {
        char prefix[POLICY_PATH_MAX];
        snprintf(prefix, sizeof(prefix), "%s.", key->name);
        *(bool *)value = true;
        read_keys(parse, object, prefix, node);
    } else {
        origin->refused = !policy_value_read(&parse->reading, key, node, value);
    }
}

/* Reads the entries of a mapping whose keys begin with prefix, "" or "on_oom.". */
static void read_keys(struct parse *parse, const struct policy_object *object, const char *prefix, const struct policy_node *mapping)
{
    for (const struct policy_node *node = mapping->first; node; node = node->next) {
        char name[POLICY_PATH_MAX];
        snprintf(name, sizeof(name), "%s%s", prefix, node->name);
        bool dotted = strchr(node->name, '.') != NULL;
        const struct policy_key *key = dotted ? NULL : policy_key_find(object->scope, name);
        if (key) {
            read_value(parse, object, key, node);
        } else if (!dotted && policy_key_is_group(object->scope, name)) {
            if (mapping_of(parse, node, "a mapping of its keys, or leave it out")) {
                snprintf(name, sizeof(name), "%s%s.", prefix, node->name);
                read_keys(parse, object, name, node);
            }
        } else {
            fail_unknown(parse, object->scope, prefix, node);
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
    if (pools && policy->pool_count > 1 && !policy_origin_of(POLICY_SCOPE_FILE, policy->origins, "defaults.pool")->mark.file)
        policy_report_add(&parse->report, defaults ? defaults->name_mark : pools->name_mark, "defaults.pool",
                          "is missing, and there are %zu pools to choose from; write defaults: {pool: %s}", policy->pool_count,
                          policy_quote(policy->pools[0].name).text);
}

/* What follows from other keys, once all were read. */
static void resolve(struct policy *policy)
{
    for (size_t i = 0; i < policy->pool_count; i++) {
        struct policy_pool *pool = &policy->pools[i];
        if (pool->ipc == POLICY_IPC_NONE)
            continue;
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, "release_threshold")->mark.file)
            pool->release_threshold = (struct policy_size){POLICY_SIZE_NONE, 0};
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, "small_below")->mark.file)
            pool->small_below = 0;
        if (!policy_origin_of(POLICY_SCOPE_POOL, pool->origins, "cache")->mark.file)
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
            if (value && is_shown(&object, &keys[i]))
                object.origins[i].text = policy_value_text(&parse->reading, &keys[i], (const char *)object.values + keys[i].offset);
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
    policy->origins = new_object(parse, POLICY_SCOPE_FILE, root, policy);
    name_objects(parse, POLICY_SCOPE_POOL, policy_node_find(root, "pools"));
    name_objects(parse, POLICY_SCOPE_STREAM, policy_node_find(root, "streams"));
    if (parse->box->arena.exhausted)
        return;
    struct policy_object object;
    policy_object_at(policy, 0, &object);
    read_keys(parse, &object, "", root);
    if (parse->box->arena.exhausted)
        return;
    check_required(parse, root);
    resolve(policy);
    policy_check(policy, &parse->report);
}

/* The policy of the tree, with these assignments on top of it (NULL: none). */
static void parse_tree(struct parse *parse, const char *label, const char *assignments)
{
    if (assignments && !parse->box->arena.exhausted)
        policy_apply_overrides(&parse->tree, label, assignments);
    if (!parse->box->arena.exhausted) {
        parse->reading = (struct policy_reading){&parse->box->arena, &parse->report, &parse->box->policy, parse->tree.cut};
        read_root(parse);
    }
    if (policy_report_status(&parse->report) == POLICY_OK && !parse->box->arena.exhausted)
        write_texts(parse);
    parse->box->root = parse->tree.root;
}

/* False: no memory, and nothing to end. */
static bool begin(struct parse *parse, const char *file, struct policy_errors *errors)
{
    *parse = (struct parse){.box = calloc(1, sizeof(*parse->box))};
    policy_report_begin(&parse->report, errors);
    if (!parse->box)
        return false;
    parse->tree.arena = &parse->box->arena;
    parse->tree.report = &parse->report;
    parse->box->policy.file = policy_arena_text(&parse->box->arena, file, strlen(file));
    return true;
}

static enum policy_status end(struct parse *parse, struct policy **policy)
{
    if (!parse->box->arena.exhausted)
        policy_sort(parse->box);
    if (parse->box->arena.exhausted)
        parse->report.no_memory = true;
    policy_report_sort(&parse->report);
    enum policy_status status = policy_report_status(&parse->report);
    if (status == POLICY_OK)
        *policy = &parse->box->policy;
    else
        policy_free(&parse->box->policy);
    return status;
}

static bool is_too_long(struct parse *parse, const char *file, size_t len, size_t max, const char *remedy)
{
    if (len > max)
        policy_report_add(&parse->report, (struct policy_mark){file, 0, 0}, "", "is larger than %zu bytes%s", max, remedy);
    return len > max;
}

enum policy_status policy_parse(const char *text, size_t len, const char *file, const char *overrides, struct policy_errors *errors,
                                struct policy **policy)
{
    struct parse parse;
    if (!begin(&parse, file, errors))
        return POLICY_NO_MEMORY;
    parse.box->is_builtin = text == policy_builtin_text();
    if (parse.box->policy.file &&
        !is_too_long(&parse, file, len, POLICY_FILE_MAX, ", which no policy needs; check that this is the right file")) {
        policy_tree_read(&parse.tree, text, len, parse.box->policy.file);
        parse_tree(&parse, of_environment, overrides);
    }
    return end(&parse, policy);
}

/* A copy of the node and of all below it, for another policy. NULL: no memory. */
static struct policy_node *copy_node(struct policy_box *box, const struct policy_box *before, const struct policy_node *node)
{
    struct policy_node *copy = policy_arena_alloc(&box->arena, 1, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *node;
    copy->first = copy->last = NULL;
    copy->name = node->name ? policy_arena_text(&box->arena, node->name, strlen(node->name)) : NULL;
    copy->text = node->text ? policy_arena_text(&box->arena, node->text, strlen(node->text)) : NULL;
    copy->mark.file = node->mark.file == before->policy.file ? box->policy.file : node->mark.file == set_now ? set_before : node->mark.file;
    copy->name_mark.file = copy->mark.file;
    for (const struct policy_node *child = node->first; child; child = child->next) {
        struct policy_node *of_child = copy_node(box, before, child);
        if (!of_child)
            return NULL;
        policy_node_append(copy, of_child);
    }
    return copy;
}

enum policy_status policy_override(const struct policy *before, const char *assignments, struct policy_errors *errors,
                                   struct policy **policy)
{
    const struct policy_box *source = (const struct policy_box *)before; /* policy is its first member */
    struct parse parse;
    if (!begin(&parse, before->file, errors))
        return POLICY_NO_MEMORY;
    parse.box->is_builtin = source->is_builtin;
    if (!is_too_long(&parse, set_now, strlen(assignments), POLICY_SET_MAX, "; write it into the policy and reload that"))
        parse.tree.root = copy_node(parse.box, source, source->root);
    if (parse.tree.root && !parse.box->arena.exhausted)
        parse_tree(&parse, set_now, assignments);
    return end(&parse, policy);
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
