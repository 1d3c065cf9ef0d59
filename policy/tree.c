/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "policy/tree.h"

#include <search.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* One reading of one text. */
struct reader {
    struct policy_tree *tree;
    yaml_parser_t parser;
    const char *file;
    const unsigned char *text;
    const struct policy_node *fixed; /* every place is this node's, if there is one */
    unsigned depth;
};

/* Nodes -------------------------------------------------------------------------------------------------------------------------------- */

void policy_node_append(struct policy_node *parent, struct policy_node *node)
{
    node->parent = parent;
    node->next = NULL;
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
}

void policy_node_remove(struct policy_node *parent, struct policy_node *node)
{
    struct policy_node *before = NULL;
    for (struct policy_node *at = parent->first; at != node; at = at->next)
        before = at;
    if (before)
        before->next = node->next;
    else
        parent->first = node->next;
    if (parent->last == node)
        parent->last = before;
}

struct policy_node *policy_node_find(const struct policy_node *mapping, const char *name)
{
    struct policy_node *node = mapping->first;
    while (node && strcmp(node->name, name) != 0)
        node = node->next;
    return node;
}

void policy_node_path(const struct policy_node *node, char *path, size_t len)
{
    path[0] = '\0';
    if (!node)
        return;
    policy_node_path(node->parent, path, len);
    if (!node->name || !node->name[0])
        return;
    size_t used = strlen(path);
    snprintf(path + used, len - used, "%s%s", used ? "." : "", policy_quote(node->name).text);
}

bool policy_node_report(struct policy_report *report, struct policy_mark mark, const struct policy_node *node, const char *format, ...)
{
    char path[POLICY_PATH_MAX];
    va_list arguments;
    policy_node_path(node, path, sizeof(path));
    va_start(arguments, format);
    policy_report_addv(report, mark, path, format, arguments);
    va_end(arguments);
    return false;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static struct policy_mark mark_of(const struct reader *reader, yaml_mark_t mark)
{
    if (reader->fixed)
        return reader->fixed->mark;
    return (struct policy_mark){reader->file, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

/* Reports a byte that libyaml refuses, of which it tells only the offset. What stands before it is valid UTF-8. */
static void report_byte(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const unsigned char *byte = reader->text, *refused = byte + parser->problem_offset;
    yaml_mark_t mark = {0, 0, 0};
    for (;;) {
        size_t character = *byte < 0x80 ? 1 : *byte < 0xe0 ? 2 : *byte < 0xf0 ? 3 : 4;
        if ((size_t)(refused - byte) < character)
            break;
        bool line_end = *byte == '\n' || (*byte == '\r' && byte[1] != '\n');
        mark.line += line_end;
        mark.column = line_end ? 0 : mark.column + 1;
        byte += character;
    }
    bool is_character = strncmp(parser->problem, "control", strlen("control")) == 0;
    policy_report_add(reader->tree->report, mark_of(reader, mark), "", "byte 0x%02x is %s; save the file as UTF-8 text", *byte,
                      !is_character ? "not valid UTF-8"
                      : *byte == 0  ? "a NUL"
                                    : "a control character");
}

/* False at the end of what can be read: a syntax error, which is reported, or no memory. */
static bool next_event(struct reader *reader, yaml_event_t *event)
{
    if (yaml_parser_parse(&reader->parser, event))
        return true;
    const yaml_parser_t *parser = &reader->parser;
    reader->tree->cut = true;
    if (parser->error == YAML_MEMORY_ERROR) {
        reader->tree->arena->exhausted = true;
        return false;
    }
    if (parser->error == YAML_READER_ERROR) {
        report_byte(reader);
        return false;
    }
    struct policy_mark mark = mark_of(reader, parser->problem_mark);
    policy_report_add(
        reader->tree->report, mark, "", "this is not YAML: %s%s%s; look for a wrong indentation, a tab, or a missing quote or bracket",
        parser->problem ? parser->problem : "unreadable text", parser->context ? " " : "", parser->context ? parser->context : "");
    return false;
}

static struct policy_node *new_node(struct reader *reader, struct policy_node *parent)
{
    struct policy_node *node = policy_arena_alloc(reader->tree->arena, 1, sizeof(*node));
    if (node)
        node->parent = parent;
    return node;
}

/* A scalar's text in the arena; NULL, reported, if it holds a NUL or there is no memory. */
static char *copy_scalar(struct reader *reader, const yaml_event_t *event, const struct policy_node *node)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    if (memchr(text, '\0', len)) {
        policy_node_report(reader->tree->report, mark_of(reader, event->start_mark), node,
                           "holds a NUL character, which no name or value may; take \\0 out");
        return NULL;
    }
    return policy_arena_text(reader->tree->arena, text, len);
}

/* What a policy may not use, though YAML has it. The start of a list or mapping begins as a scalar does: with the anchor and the tag. */
static void check_properties(struct reader *reader, const yaml_event_t *event, const struct policy_node *node)
{
    if (event->data.scalar.anchor)
        policy_node_report(reader->tree->report, mark_of(reader, event->start_mark), node,
                           "anchors (&name) are refused; take it out, and write a value out wherever it is needed");
    if (event->data.scalar.tag)
        policy_node_report(reader->tree->report, mark_of(reader, event->start_mark), node,
                           "tags (!name) are refused; take it out, each key knows its type");
}

/* Passes over the rest of a list or mapping whose start was read. Ends the reading where nesting has no end in sight, since each level
   makes every later character dearer to libyaml. */
static bool skip_rest(struct reader *reader)
{
    for (unsigned open = 1; open > 0;) {
        yaml_event_t event;
        if (open > 4 * POLICY_DEPTH_MAX)
            reader->tree->cut = true;
        if (reader->tree->cut || !next_event(reader, &event))
            return false;
        if (event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT)
            open++;
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT)
            open--;
        yaml_event_delete(&event);
    }
    return true;
}

/* Building ----------------------------------------------------------------------------------------------------------------------------- */

static bool read_node(struct reader *reader, const yaml_event_t *start, struct policy_node *node);

static bool read_list(struct reader *reader, struct policy_node *list)
{
    for (;;) {
        yaml_event_t event;
        if (!next_event(reader, &event))
            return false;
        bool end = event.type == YAML_SEQUENCE_END_EVENT, good = true;
        if (!end) {
            struct policy_node *item = new_node(reader, list);
            good = item && read_node(reader, &event, item);
            if (item)
                policy_node_append(list, item);
        }
        yaml_event_delete(&event);
        if (!good)
            return false;
        if (end)
            break;
    }
    list->kind = POLICY_NODE_LIST;
    return true;
}

/* The name of a new entry of a mapping. *named: whether it can be one. False: cannot go on. */
static bool read_name(struct reader *reader, const yaml_event_t *event, struct policy_node *entry, bool *named)
{
    struct policy_mark mark = mark_of(reader, event->start_mark);
    entry->name_mark = mark;
    *named = false;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        entry->name = copy_scalar(reader, event, entry);
        *named = entry->name;
        check_properties(reader, event, entry);
        return !reader->tree->arena->exhausted;
    case YAML_ALIAS_EVENT:
        policy_node_report(reader->tree->report, mark, entry, "aliases (*name) are refused; write the key out");
        return true;
    default:
        policy_node_report(reader->tree->report, mark, entry, "a key must be a name, not a list or mapping");
        return skip_rest(reader);
    }
}

static int by_name(const void *left, const void *right)
{
    const struct policy_node *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Reports an entry whose key stood there before, and leaves it out. */
static void add_entry(struct reader *reader, struct policy_node *mapping, struct policy_node *entry, void **names)
{
    struct policy_node **first = tsearch(entry, names, by_name);
    if (!first)
        reader->tree->arena->exhausted = true;
    else if (*first == entry)
        policy_node_append(mapping, entry);
    else
        policy_node_report(reader->tree->report, entry->name_mark, entry, "is set a second time (first in line %u); remove one of the two",
                           (*first)->name_mark.line);
}

/* names: the entries so far, for tsearch(). */
static bool read_entries(struct reader *reader, struct policy_node *mapping, void **names)
{
    for (;;) {
        yaml_event_t event;
        if (!next_event(reader, &event))
            return false;
        bool end = event.type == YAML_MAPPING_END_EVENT, named = false;
        struct policy_node *entry = end ? NULL : new_node(reader, mapping);
        bool good = entry && read_name(reader, &event, entry, &named);
        yaml_event_delete(&event);
        if (end)
            return true;
        if (!good || !next_event(reader, &event))
            return false;
        if (named)
            add_entry(reader, mapping, entry, names);
        good = read_node(reader, &event, entry);
        yaml_event_delete(&event);
        if (!good)
            return false;
    }
}

static void keep(void *entry)
{
    (void)entry;
}

static bool read_mapping(struct reader *reader, struct policy_node *mapping)
{
    void *names = NULL;
    mapping->kind = POLICY_NODE_MAPPING;
    bool good = read_entries(reader, mapping, &names);
    tdestroy(names, keep);
    return good;
}

/* Makes *node from the event that begins it. False: cannot go on; the node is then refused, or a mapping of what could be read. */
static bool read_node(struct reader *reader, const yaml_event_t *start, struct policy_node *node)
{
    node->mark = mark_of(reader, start->start_mark);
    if (start->type == YAML_ALIAS_EVENT) {
        policy_node_report(reader->tree->report, node->mark, node, "aliases (*name) are refused; write the value out");
        return true;
    }
    check_properties(reader, start, node);
    if (start->type == YAML_SCALAR_EVENT) {
        node->plain = start->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->text = copy_scalar(reader, start, node);
        node->kind = node->text ? POLICY_NODE_SCALAR : POLICY_NODE_REFUSED;
        return !reader->tree->arena->exhausted;
    }
    if (reader->depth == POLICY_DEPTH_MAX) {
        policy_node_report(reader->tree->report, node->mark, node, "is nested deeper than %d levels; no key needs that", POLICY_DEPTH_MAX);
        return skip_rest(reader);
    }
    reader->depth++;
    bool good = start->type == YAML_SEQUENCE_START_EVENT ? read_list(reader, node) : read_mapping(reader, node);
    reader->depth--;
    return good;
}

/* Texts -------------------------------------------------------------------------------------------------------------------------------- */

/* Passes the events in front of the first node. False: there is no node, or an error. */
static bool find_root(struct reader *reader, yaml_event_t *event)
{
    for (;;) {
        if (!next_event(reader, event))
            return false;
        if (event->type == YAML_STREAM_START_EVENT || event->type == YAML_DOCUMENT_START_EVENT) {
            yaml_event_delete(event);
            continue;
        }
        if (event->type != YAML_STREAM_END_EVENT)
            return true;
        yaml_event_delete(event);
        return false;
    }
}

/* Past the root: its document's end, and then nothing more. */
static void check_end(struct reader *reader)
{
    yaml_event_t event;
    if (!next_event(reader, &event))
        return;
    yaml_event_delete(&event);
    if (!next_event(reader, &event))
        return;
    if (event.type == YAML_DOCUMENT_START_EVENT)
        policy_report_add(reader->tree->report, mark_of(reader, event.start_mark), "",
                          "a second document begins here; one file is one policy, so remove it and the line '---'");
    yaml_event_delete(&event);
}

/* The bytes of the line break at a place; 0: there is none. libyaml knows five. */
static size_t line_break(const char *text, size_t len)
{
    static const char *const breaks[] = { "\r\n", "\n", "\r", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9" };
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++)
        if (len >= strlen(breaks[i]) && memcmp(text, breaks[i], strlen(breaks[i])) == 0)
            return strlen(breaks[i]);
    return 0;
}

/* libyaml compares each tag directive with all before it. As no policy needs one, and no text in a policy has such a line, a line that begins
   as one is refused before libyaml sees it. */
static bool refuse_tag_directives(struct reader *reader, const char *text, size_t len)
{
    static const char directive[] = "%TAG";
    yaml_mark_t mark = { 0, 0, 0 };
    bool begins = true;
    for (size_t at = 0, width; at < len; at += width) {
        if (begins && len - at >= strlen(directive) && memcmp(text + at, directive, strlen(directive)) == 0) {
            policy_report_add(reader->tree->report, mark_of(reader, mark), "",
                              "%%TAG directives are refused; take the line out, each key knows its type");
            reader->tree->cut = true;
            return true;
        }
        width = line_break(text + at, len - at);
        begins = width;
        mark.line += begins;
        width += !width;
    }
    return false;
}

/* Reads a text whose root will stand below that parent. NULL: there is nothing that could be read. */
static struct policy_node *read_text(struct reader *reader, const char *text, size_t len, struct policy_node *parent, char *name)
{
    struct policy_node *root = NULL;
    if (refuse_tag_directives(reader, text, len))
        return NULL;
    if (!yaml_parser_initialize(&reader->parser)) {
        reader->tree->arena->exhausted = true;
        return NULL;
    }
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    reader->text = (const unsigned char *)text;
    yaml_parser_set_input_string(&reader->parser, reader->text, len);
    yaml_event_t event;
    if (find_root(reader, &event)) {
        root = new_node(reader, parent);
        if (root)
            root->name = name;
        if (root && read_node(reader, &event, root))
            check_end(reader);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&reader->parser);
    return root;
}

void policy_tree_read(struct policy_tree *tree, const char *text, size_t len, const char *file)
{
    struct reader reader = {.tree = tree, .file = file};
    bool marked = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; /* a byte order mark, which some editors write */
    size_t skip = marked ? 3 : 0;
    tree->cut = false;
    tree->root = read_text(&reader, text + skip, len - skip, NULL, NULL);
}

bool policy_tree_read_value(struct policy_tree *tree, const char *text, size_t len, struct policy_node *node)
{
    struct policy_tree own = {.arena = tree->arena, .report = tree->report};
    struct reader reader = {.tree = &own, .file = node->mark.file, .fixed = node};
    size_t errors = tree->report->errors->count;
    char *list = policy_arena_alloc(tree->arena, len + 4, 1);
    if (!list)
        return false;
    /* The line end keeps a comment in the value from hiding the bracket. */
    list[0] = '[';
    memcpy(list + 1, text, len);
    memcpy(list + 1 + len, "\n]", 3);
    const struct policy_node *holder = read_text(&reader, list, len + 3, node->parent, node->name);
    if (own.cut || tree->arena->exhausted)
        return false;
    const struct policy_node *item = holder ? holder->first : NULL;
    if (!item || item->next) {
        if (tree->report->errors->count == errors)
            policy_node_report(tree->report, node->mark, node,
                               item ? "is more than one value; put a list into [ ]" : "has no value; write one behind '='");
        return false;
    }
    node->kind = item->kind;
    node->first = item->first;
    node->last = item->last;
    node->text = item->text;
    node->plain = item->plain;
    for (struct policy_node *child = node->first; child; child = child->next)
        child->parent = node;
    return true;
}
