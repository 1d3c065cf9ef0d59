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

static void fail(const struct overrides *overrides, const struct assignment *assignment, const char *message)
{
    policy_report_add(overrides->tree->report, assignment->mark, "", "%s", message);
}

/* Whether a quote is one to YAML there, which takes it for a letter within a word, as in it's. before: the last character that is no blank. */
static bool opens_quote(char before)
{
    return before == '\0' || strchr("=,[{:", before);
}

/* Whether the character at hand escapes the next one: '' within single quotes, a backslash within double ones. */
static bool escapes(const char *at, char quote)
{
    return at[1] && (quote == '"' ? at[0] == '\\' : at[0] == quote && at[1] == quote);
}

/* Takes the next assignment off the list. A comma inside brackets or quotes belongs to the value. False, reported: not an assignment. */
static bool next_assignment(struct overrides *overrides, struct assignment *assignment)
{
    while (isspace((unsigned char)*overrides->at))
        advance(overrides);
    const char *start = overrides->at, *equals = NULL;
    *assignment = (struct assignment){.mark = {overrides->label, 1, overrides->column}};
    int open = 0;
    char quote = '\0', before = '\0';
    for (; *overrides->at && (*overrides->at != ',' || open > 0 || quote); advance(overrides)) {
        char c = *overrides->at;
        if (!equals && c == '=')
            equals = overrides->at;
        else if (quote && escapes(overrides->at, quote))
            advance(overrides);
        else if (quote)
            quote = c == quote ? '\0' : quote;
        else if ((c == '"' || c == '\'') && opens_quote(before))
            quote = c;
        else if (c == '[' || c == '{')
            open++;
        else if ((c == ']' || c == '}') && --open < 0)
            break;
        before = isspace((unsigned char)c) ? before : c;
    }
    if (open != 0 || quote) {
        fail(overrides, assignment,
             open < 0 ? "a bracket is closed that was not opened; write each list as [a, b]" : "a bracket or quote is left open; close it");
        overrides->at += strlen(overrides->at);
        return false;
    }
    if (!equals) {
        fail(overrides, assignment,
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
    if (!entry || !copy)
        return NULL;
    *entry = (struct policy_node){.mark = mark, .name_mark = mark, .name = copy, .parent = parent};
    return entry;
}

/* The pool or stream of a name, which overrides cannot create. NULL, reported, if there is none. */
static struct policy_node *find_object(const struct overrides *overrides, const struct policy_node *mapping,
                                       const struct policy_node *part, const char *what)
{
    struct policy_node *found = policy_node_find(mapping, part->name);
    if (found || overrides->tree->cut)
        return found;
    struct policy_guess guess = policy_guess_begin(part->name);
    for (const struct policy_node *node = mapping->first; node; node = node->next)
        policy_guess_try(&guess, node->name);
    policy_node_report(overrides->tree->report, part->mark, part, "there is no %s of that name to change; put it into the policy first%s",
                       what, policy_guess_text(&guess).text);
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

/* Puts a value in place of what the mapping has under its name. A mapping goes key by key, so that it leaves the others alone. False,
   reported: these assignments have set it already. */
static bool replace(const struct overrides *overrides, struct policy_node *mapping, struct policy_node *value)
{
    struct policy_node *former = policy_node_find(mapping, value->name);
    if (former && former->kind == POLICY_NODE_MAPPING && value->kind == POLICY_NODE_MAPPING) {
        bool good = true;
        for (struct policy_node *child = value->first, *next; child; child = next) {
            next = child->next;
            good = replace(overrides, former, child) && good;
        }
        return good;
    }
    const struct policy_node *first = former ? find_own(overrides, former) : NULL;
    if (first)
        return policy_node_report(overrides->tree->report, value->mark, value,
                                  "is set a second time (first in column %u); remove one of the two", first->mark.column);
    if (former)
        policy_node_remove(mapping, former);
    policy_node_append(mapping, value);
    return true;
}

/* The key whose path, below the file, a pool or a stream, begins and ends there; NULL if there is none. */
static const struct policy_key *find_key(enum policy_scope scope, const char *begin, const char *end)
{
    char path[POLICY_PATH_MAX];
    snprintf(path, sizeof(path), "%.*s", (int)(end - begin), begin);
    return policy_key_find(scope, path);
}

/* What the mapping has under the name of a part of a key, made if it has nothing; an override goes on below a switch, as `cache: off`. NULL:
   there is no such place, which is reported here or by whoever reads the tree. key: the one whose path ends with that part, or NULL. */
static struct policy_node *descend(const struct overrides *overrides, struct policy_node *mapping, struct policy_node *part,
                                   const struct policy_key *key)
{
    struct policy_node *found = policy_node_find(mapping, part->name);
    bool has_keys = !key || key->type == POLICY_TYPE_POOLS || key->type == POLICY_TYPE_STREAMS || key->type == POLICY_TYPE_SWITCH;
    if (found && found->kind == POLICY_NODE_MAPPING)
        return found;
    if (!found || (key && key->type == POLICY_TYPE_SWITCH && found->kind == POLICY_NODE_SCALAR)) {
        part->kind = POLICY_NODE_MAPPING;
        return replace(overrides, mapping, part) ? part : NULL;
    }
    /* Where a mapping belongs, reading the tree reports that; where a value belongs, reading it would find nothing wrong. */
    if (!has_keys && found->kind != POLICY_NODE_REFUSED)
        policy_node_report(overrides->tree->report, part->mark, found, "has no keys below it; write %s", key->write);
    return NULL;
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
    const char *part = assignment->key, *end = part + assignment->key_len, *key = part;
    enum policy_scope scope = POLICY_SCOPE_FILE;
    if (has_too_many_parts(assignment)) {
        fail(overrides, assignment, "no key has so many parts; weir-policy(5) lists all keys");
        return;
    }
    for (unsigned depth = 0; at && at->kind == POLICY_NODE_MAPPING; depth++) {
        const char *dot = memchr(part, '.', (size_t)(end - part)), *part_end = dot ? dot : end;
        struct policy_node *entry = new_entry(overrides, at, assignment->mark, part, (size_t)(part_end - part));
        if (!entry)
            return;
        if (depth == 0 && strcmp(entry->name, "pools") == 0)
            scope = POLICY_SCOPE_POOL;
        if (depth == 0 && strcmp(entry->name, "streams") == 0)
            scope = POLICY_SCOPE_STREAM;
        bool is_object = scope != POLICY_SCOPE_FILE && depth < 2; /* not a key: "pools", or "pools.a" */
        if (!dot) {
            if (is_object || entry->name[0] == '\0')
                policy_node_report(overrides->tree->report, entry->mark, entry,
                                   "is not one key; write the whole path of a key, as in pools.main.max_size=4GiB");
            else if (policy_tree_read_value(overrides->tree, assignment->value, assignment->value_len, entry))
                replace(overrides, at, entry);
            return;
        }
        if (is_object)
            key = dot + 1;
        if (is_object && depth == 1)
            at = find_object(overrides, at, entry, scope == POLICY_SCOPE_POOL ? "pool" : "stream");
        else
            at = descend(overrides, at, entry, is_object ? NULL : find_key(scope, key, part_end));
        part = dot + 1;
    }
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
        if (!*overrides.at || tree->arena->exhausted)
            return;
        advance(&overrides); /* the comma */
    }
}

/* Whether one of them is what the other one has in it: "record" and "record.file". */
static bool overlap(const struct assignment *assignment, const char *key)
{
    size_t len = strlen(key), less = len < assignment->key_len ? len : assignment->key_len;
    const char *longer = len < assignment->key_len ? assignment->key : key;
    return strncmp(assignment->key, key, less) == 0 && (len == assignment->key_len || longer[less] == '.');
}

bool policy_sets(const char *assignments, const char *key)
{
    struct policy_errors errors = {0};
    struct policy_report report;
    struct policy_tree tree = {.report = &report};
    struct overrides overrides = {.tree = &tree, .label = POLICY_OVERRIDES, .at = assignments, .column = 1};
    bool is_set = false;
    policy_report_begin(&report, &errors);
    while (*overrides.at && !is_set) {
        struct assignment assignment;
        is_set = next_assignment(&overrides, &assignment) && overlap(&assignment, key);
        if (*overrides.at)
            advance(&overrides); /* the comma */
    }
    policy_errors_clear(&errors);
    return is_set;
}
