/* SPDX-License-Identifier: MIT */
#include "policy/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "policy/keys.h"

/* "pools.a.max_size=4GiB", with its place in the list. */
struct assignment {
    const char *key, *value;
    size_t key_len, value_len;
    struct policy_mark mark;
};

/* One reading of a list of assignments. */
struct overrides {
    struct policy_tree *tree;
    const char *label;
    const char *at;
    unsigned column; /* of at */
};

static void advance(struct overrides *overrides)
{
    /* Columns count characters: the bytes that continue one are not counted. */
    overrides->at++;
    overrides->column += ((unsigned char)*overrides->at & 0xc0) != 0x80;
}

static void trim(const char **text, size_t *len)
{
    for (; *len > 0 && isspace((unsigned char)(*text)[*len - 1]); --*len)
        ;
    for (; *len > 0 && isspace((unsigned char)**text); --*len)
        ++*text;
}

static void fail(const struct overrides *overrides, const struct assignment *assignment, const char *path, const char *message)
{
    policy_report_add(overrides->tree->report, assignment->mark, path, "%s", message);
}

/* Takes the next assignment off the list. A comma inside brackets or quotes belongs to the value. False, reported: not an assignment. */
static bool next_assignment(struct overrides *overrides, struct assignment *assignment)
{
    while (isspace((unsigned char)*overrides->at))
        advance(overrides);
    const char *start = overrides->at, *equals = NULL;
    *assignment = (struct assignment){.mark = {overrides->label, 1, overrides->column}};
    int open = 0;
    char quote = '\0';
    for (; *overrides->at && (*overrides->at != ',' || open > 0 || quote); advance(overrides)) {
        char c = *overrides->at;
        if (!equals && c == '=')
            equals = overrides->at;
        else if (quote)
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '[' || c == '{')
            open++;
        else if ((c == ']' || c == '}') && --open < 0)
            break;
    }
    if (open != 0 || quote) {
        fail(overrides, assignment, "",
             open < 0 ? "a bracket is closed that was not opened; write each list as [a, b]" : "a bracket or quote is left open; close it");
        overrides->at += strlen(overrides->at);
        return false;
    }
    if (!equals) {
        fail(overrides, assignment, "",
             overrides->at == start ? "an assignment is missing between commas; remove one comma"
                                    : "not an assignment; write key=value, as in pools.main.max_size=4GiB");
        return false;
    }
    assignment->key = start;
    assignment->key_len = (size_t)(equals - start);
    assignment->value = equals + 1;
    assignment->value_len = (size_t)(overrides->at - equals - 1);
    trim(&assignment->key, &assignment->key_len);
    trim(&assignment->value, &assignment->value_len);
    return true;
}

static struct policy_node *new_entry(const struct overrides *overrides, struct policy_node *parent, struct policy_mark mark,
                                     const char *name, size_t len)
{
    struct policy_node *entry = policy_arena_alloc(overrides->tree->arena, 1, sizeof(*entry));
    char *copy = policy_arena_text(overrides->tree->arena, name, len);
    if (!entry || !copy) {
        overrides->tree->report->no_memory = true;
        return NULL;
    }
    *entry = (struct policy_node){.mark = mark, .name_mark = mark, .name = copy, .parent = parent};
    return entry;
}

/* The pool or stream of a name, which overrides cannot create. NULL, reported, if there is none. */
static struct policy_node *find_object(const struct overrides *overrides, const struct assignment *assignment, struct policy_node *mapping,
                                       const struct policy_node *part, const char *what)
{
    struct policy_node *found = policy_node_find(mapping, part->name);
    if (found || overrides->tree->cut)
        return found;
    struct policy_guess guess = policy_guess_begin(part->name);
    for (const struct policy_node *node = mapping->first; node; node = node->next)
        policy_guess_try(&guess, node->name);
    char path[POLICY_PATH_MAX], message[256];
    policy_node_path(part, path, sizeof(path));
    snprintf(message, sizeof(message), "there is no %s of that name to change; put it into the policy first%s", what,
             policy_guess_text(&guess).text);
    fail(overrides, assignment, path, message);
    return NULL;
}

/* The node itself, or what is below it, if these assignments set it; NULL if all of it stood there before. */
static const struct policy_node *find_own(const struct overrides *overrides, const struct policy_node *node)
{
    const struct policy_node *found = node->mark.file == overrides->label ? node : NULL;
    for (const struct policy_node *child = node->first; child && !found; child = child->next)
        found = find_own(overrides, child);
    return found;
}

static void fail_second(const struct overrides *overrides, const struct policy_node *value, const struct policy_node *first)
{
    char path[POLICY_PATH_MAX];
    policy_node_path(value, path, sizeof(path));
    policy_report_add(overrides->tree->report, value->mark, path, "is set a second time (first in column %u); remove one of the two",
                      first->mark.column);
}

/* Puts a value in place of what the mapping has under its name. A mapping goes key by key, so that it leaves the others alone. */
static void replace(const struct overrides *overrides, struct policy_node *mapping, struct policy_node *value)
{
    struct policy_node *former = policy_node_find(mapping, value->name);
    if (former && former->kind == POLICY_NODE_MAPPING && value->kind == POLICY_NODE_MAPPING) {
        for (struct policy_node *child = value->first, *next; child; child = next) {
            next = child->next;
            replace(overrides, former, child);
        }
        return;
    }
    const struct policy_node *first = former ? find_own(overrides, former) : NULL;
    if (first) {
        fail_second(overrides, value, first);
        return;
    }
    if (former)
        policy_node_remove(mapping, former);
    policy_node_append(mapping, value);
}

/* Whether the node is a switch, as `cache: off`, where an override goes on to one of the keys below it. */
static bool is_switch(const struct policy_node *node, bool pool, unsigned depth)
{
    const struct policy_key *key = pool && depth == 2 ? policy_key_find(POLICY_SCOPE_POOL, node->name) : NULL;
    return key && key->type == POLICY_TYPE_SWITCH && node->kind == POLICY_NODE_SCALAR;
}

/* One part of a key below `at`, made if it is not there. NULL: there is no such place, which is reported here or by whoever reads the tree.
 */
static struct policy_node *descend(const struct overrides *overrides, const struct assignment *assignment, struct policy_node *at,
                                   const char *name, size_t len, unsigned depth, const char *scope)
{
    struct policy_node *part = new_entry(overrides, at, assignment->mark, name, len);
    if (!part)
        return NULL;
    bool pool = strcmp(scope, "pools") == 0, object = depth == 1 && (pool || strcmp(scope, "streams") == 0);
    if (object)
        return find_object(overrides, assignment, at, part, pool ? "pool" : "stream");
    struct policy_node *found = policy_node_find(at, part->name);
    part->kind = POLICY_NODE_MAPPING;
    if (found && !is_switch(found, pool, depth))
        return found;
    if (found && found->mark.file == overrides->label) {
        fail_second(overrides, part, found);
        return NULL;
    }
    if (found)
        policy_node_remove(at, found);
    policy_node_append(at, part);
    return part;
}

/* The key whose value stands at a path; NULL if none does, or one that has keys below it. */
static const struct policy_key *value_at(const char *path)
{
    enum policy_scope scope = strncmp(path, "pools.", 6) == 0     ? POLICY_SCOPE_POOL
                              : strncmp(path, "streams.", 8) == 0 ? POLICY_SCOPE_STREAM
                                                                  : POLICY_SCOPE_FILE;
    for (unsigned skip = scope == POLICY_SCOPE_FILE ? 0 : 2; skip > 0 && path; skip--) {
        path = strchr(path, '.');
        path = path ? path + 1 : NULL;
    }
    const struct policy_key *key = path ? policy_key_find(scope, path) : NULL;
    if (!key)
        return NULL;
    switch (key->type) {
    case POLICY_TYPE_POOLS:
    case POLICY_TYPE_STREAMS:
    case POLICY_TYPE_SWITCH:
        return NULL;
    default:
        return key;
    }
}

/* An assignment goes on below what is no mapping. Where a mapping belongs, reading the tree reports that; where a value belongs, reading it
   would find nothing wrong. */
static void fail_below(const struct overrides *overrides, const struct assignment *assignment, const struct policy_node *node)
{
    char path[POLICY_PATH_MAX], message[256];
    policy_node_path(node, path, sizeof(path));
    const struct policy_key *key = value_at(path);
    if (!key || node->kind == POLICY_NODE_REFUSED)
        return;
    snprintf(message, sizeof(message), "has no keys below it; write %s", key->write);
    fail(overrides, assignment, path, message);
}

static bool has_too_many_parts(const struct assignment *assignment)
{
    unsigned parts = 1;
    for (size_t i = 0; i < assignment->key_len; i++)
        parts += assignment->key[i] == '.';
    return parts > POLICY_DEPTH_MAX;
}

static void apply(const struct overrides *overrides, const struct assignment *assignment)
{
    struct policy_node *at = overrides->tree->root;
    const char *part = assignment->key, *end = part + assignment->key_len;
    char scope[16] = "";
    unsigned depth = 0;
    if (has_too_many_parts(assignment)) {
        fail(overrides, assignment, "", "no key has so many parts; weir-policy(5) lists all keys");
        return;
    }
    for (const char *dot; (dot = memchr(part, '.', (size_t)(end - part))); part = dot + 1, depth++) {
        if (depth == 0)
            snprintf(scope, sizeof(scope), "%.*s", (int)(dot - part), part);
        at = descend(overrides, assignment, at, part, (size_t)(dot - part), depth, scope);
        if (at && at->kind != POLICY_NODE_MAPPING)
            fail_below(overrides, assignment, at);
        if (!at || at->kind != POLICY_NODE_MAPPING)
            return;
    }
    struct policy_node *value = new_entry(overrides, at, assignment->mark, part, (size_t)(end - part));
    if (!value)
        return;
    char path[POLICY_PATH_MAX];
    policy_node_path(value, path, sizeof(path));
    bool whole = (depth == 0 && (strcmp(value->name, "pools") == 0 || strcmp(value->name, "streams") == 0)) ||
                 (depth == 1 && (strcmp(scope, "pools") == 0 || strcmp(scope, "streams") == 0));
    if (whole || value->name[0] == '\0')
        fail(overrides, assignment, path, "is not one key; write the whole path of a key, as in pools.main.max_size=4GiB");
    else if (policy_tree_read_value(overrides->tree, assignment->value, assignment->value_len, value))
        replace(overrides, at, value);
}

void policy_apply_overrides(struct policy_tree *tree, const char *label, const char *text)
{
    struct overrides overrides = {.tree = tree, .label = label, .at = text, .column = 1};
    while (isspace((unsigned char)*overrides.at))
        advance(&overrides);
    if (!*overrides.at || !tree->root || tree->root->kind != POLICY_NODE_MAPPING)
        return;
    for (;;) {
        struct assignment assignment;
        if (next_assignment(&overrides, &assignment))
            apply(&overrides, &assignment);
        if (!*overrides.at || tree->report->no_memory)
            return;
        advance(&overrides); /* the comma */
    }
}
