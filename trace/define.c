/* SPDX-License-Identifier: MIT */
#include "trace/define.h"
#include "trace/memory.h"
#include "trace/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 512 << 20, /* host memory for the definitions of a trace, at most */
    KEY_MAX = TRACE_FRAMES_MAX * sizeof(struct trace_frame) + 4 * TRACE_STRING_MAX,
    OVERLAPS_MAX = 64, /* modules that are compared for one address. Modules overlap only if one was loaded after another was unloaded */
};

/* The content of a definition as bytes. Definitions with the same key are one object. */
struct trace_key {
    size_t len;
    uint8_t bytes[KEY_MAX];
};

/* An object. Its key follows it in the same allocation; the object's strings and frames lie in the key. */
struct object {
    size_t key_len;
    uint64_t position; /* the place of its first definition in the file */
    const uint8_t *key;
    union {
        struct trace_pool pool;
        struct trace_text text;
        struct trace_stack stack;
        struct trace_module module;
        struct trace_line line;
    } as;
};

static void key_add(struct trace_key *key, const void *bytes, size_t len)
{
    memcpy(key->bytes + key->len, bytes, len);
    key->len += len;
}

static void key_add_number(struct trace_key *key, uint64_t number)
{
    key_add(key, &number, sizeof number);
}

static uint64_t hash_of(const struct trace_key *key)
{
    uint64_t hash = key->len;
    size_t at = 0;
    for (; at + 8 <= key->len; at += 8) {
        uint64_t word;
        memcpy(&word, key->bytes + at, 8);
        hash = trace_map_hash(hash, word);
    }
    uint64_t word = 0;
    memcpy(&word, key->bytes + at, key->len - at);
    return trace_map_hash(hash, word);
}

/* Marks a frame of an interpreter. The definition of such a frame may come later in the file than the stack, so until
   trace_definitions_seal() has resolved the frame, its `module` points here and its `address` is the frame's id. */
static const struct trace_module is_line;

/* Adds the frames of a stack to the key. A stack's key consists of its frames alone, and struct trace_stack points to them there. */
static void key_add_frames(struct trace_key *key, const struct trace_definition *definition)
{
    struct trace_bytes bytes = definition->frames;
    uint64_t coded, address = 0;
    while (trace_take_number(&bytes, &coded)) {
        struct trace_frame frame;
        memset(&frame, 0, sizeof frame);
        if (coded & 1)
            frame.module = &is_line;
        else
            address += trace_signed(coded >> 1);
        frame.address = coded & 1 ? coded >> 1 : address;
        key_add(key, &frame, sizeof frame);
    }
}

static void make_key(struct trace_key *key, const struct trace_definition *definition)
{
    static const char end = '\0';
    key->len = 0;
    if (definition->code == TRACE_DEFINES_STACK) {
        key_add_frames(key, definition);
        return;
    }
    if (definition->code == TRACE_DEFINES_POOL)
        key_add_number(key, definition->id);
    for (size_t i = 0; i < 3; i++)
        key_add_number(key, definition->numbers[i]);
    for (size_t i = 0; i < 2 && definition->strings[i]; i++) {
        /* Drop the rest of a string after a zero: programs that print the text would stop there, too. */
        key_add(key, definition->strings[i], strnlen(definition->strings[i], definition->lengths[i]));
        key_add(key, &end, 1);
    }
}

static void fill(struct object *object, const struct trace_definition *definition, uint32_t number)
{
    const uint64_t *numbers = definition->numbers;
    size_t fixed = (3 + (definition->code == TRACE_DEFINES_POOL)) * sizeof(uint64_t);
    const char *first = (const char *)object->key + fixed;
    switch (definition->code) {
    case TRACE_DEFINES_POOL:
        object->as.pool = (struct trace_pool){number, definition->id, numbers[0], numbers[1], first, true};
        break;
    case TRACE_DEFINES_STACK:
        object->as.stack = (struct trace_stack){number, definition->id, (uint32_t)numbers[0], (const struct trace_frame *)object->key};
        break;
    case TRACE_DEFINES_MODULE:
        object->as.module = (struct trace_module){number, numbers[0], numbers[1], numbers[2], first, first + strlen(first) + 1};
        break;
    case TRACE_DEFINES_LINE:
        object->as.line = (struct trace_line){number, numbers[0], first, first + strlen(first) + 1};
        break;
    default:
        object->as.text = (struct trace_text){.number = number, .text = first};
    }
}

static struct object *object_add(struct trace_definitions *definitions, enum trace_definition_code code, const void *key, size_t len)
{
    struct trace_sort *sort = &definitions->sorts[code];
    sort->objects = must_grow(sort->objects, sort->object_count, &sort->object_room, sizeof(void *));
    struct object *object = must(calloc(1, sizeof *object + len));
    if (len)
        memcpy(object + 1, key, len);
    object->key = (const uint8_t *)(object + 1);
    object->key_len = len;
    sort->objects[sort->object_count++] = object;
    definitions->bytes += sizeof *object + len + 3 * sizeof(void *);
    return object;
}

/* Returns the number of the object with that key, and adds the object if it is new. */
static uint32_t intern(struct trace_definitions *definitions, const struct trace_definition *definition, const struct trace_key *key,
                       uint64_t position)
{
    struct trace_sort *sort = &definitions->sorts[definition->code];
    uint64_t hash = hash_of(key);
    for (uint64_t same = 0;; same++) {
        bool is_new;
        uint32_t *number = trace_map_add(&sort->by_content, hash, same, &is_new);
        if (is_new) {
            *number = (uint32_t)sort->object_count;
            uint32_t made = *number;
            struct object *object = object_add(definitions, definition->code, key->bytes, key->len);
            object->position = position;
            fill(object, definition, made);
            return made;
        }
        const struct object *object = sort->objects[*number];
        if (object->key_len == key->len && memcmp(object->key, key->bytes, key->len) == 0)
            return *number;
    }
}

bool trace_definitions_add(struct trace_definitions *definitions, const struct trace_definition *definition, uint64_t position)
{
    struct trace_sort *sort = &definitions->sorts[definition->code];
    if (definitions->count >= TRACE_DEFINITIONS_MAX || definitions->bytes >= BYTES_MAX)
        return false;
    if (!definitions->key)
        definitions->key = must(malloc(sizeof *definitions->key));
    make_key(definitions->key, definition);
    uint32_t object = intern(definitions, definition, definitions->key, position);
    *MUST_ADD(sort->meanings, sort->meaning_count, sort->meaning_room) = (struct trace_meaning){definition->id, position, object};
    definitions->count++;
    definitions->bytes += 2 * sizeof(struct trace_meaning);
    return true;
}

static int by_id_and_position(const void *left, const void *right)
{
    const struct trace_meaning *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static int by_first_address(const void *left, const void *right)
{
    const struct trace_module *a = *(struct trace_module *const *)left, *b = *(struct trace_module *const *)right;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static void sort_modules(struct trace_definitions *definitions)
{
    const struct trace_sort *sort = &definitions->sorts[TRACE_DEFINES_MODULE];
    definitions->modules = must(calloc(sort->object_count + 1, sizeof definitions->modules[0]));
    definitions->module_ends = must(calloc(sort->object_count + 1, sizeof definitions->module_ends[0]));
    for (size_t i = 0; i < sort->object_count; i++)
        definitions->modules[i] = &((struct object *)sort->objects[i])->as.module;
    qsort(definitions->modules, sort->object_count, sizeof definitions->modules[0], by_first_address);
    for (size_t i = 0; i < sort->object_count; i++) {
        const struct trace_module *module = definitions->modules[i];
        uint64_t end = module->bytes > UINT64_MAX - module->first ? UINT64_MAX : module->first + module->bytes;
        definitions->module_ends[i] = i > 0 && definitions->module_ends[i - 1] > end ? definitions->module_ends[i - 1] : end;
    }
}

const struct trace_module *trace_definitions_module(const struct trace_definitions *definitions, uint64_t address, uint64_t position)
{
    const struct trace_sort *sort = &definitions->sorts[TRACE_DEFINES_MODULE];
    size_t low = 0, high = sort->object_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (definitions->modules[middle]->first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct object *best = NULL;
    for (size_t i = low, tries = 0; i-- > 0 && definitions->module_ends[i] > address && tries < OVERLAPS_MAX; tries++) {
        const struct trace_module *module = definitions->modules[i];
        const struct object *object = sort->objects[module->number];
        if (address - module->first >= module->bytes)
            continue;
        bool is_before = object->position <= position;
        if (!best || (is_before && (best->position > position || object->position > best->position)) ||
            (!is_before && object->position < best->position))
            best = object;
    }
    return best ? &best->as.module : NULL;
}

/* Makes an object, such as "pool 7?", for an id that has no definition. Returns its number. */
static uint32_t make_unknown(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id)
{
    static const char *const what[TRACE_DEFINES_COUNT] = {
        [TRACE_DEFINES_POOL] = "pool",   [TRACE_DEFINES_TAG] = "tag",       [TRACE_DEFINES_NAME] = "name",
        [TRACE_DEFINES_STACK] = "stack", [TRACE_DEFINES_MODULE] = "module", [TRACE_DEFINES_LINE] = "frame"};
    struct trace_sort *sort = &definitions->sorts[code];
    char text[64];
    int len = snprintf(text, sizeof text, "%s %" PRIu64 "?", what[code], id);
    uint32_t number = (uint32_t)sort->object_count;
    struct object *object = object_add(definitions, code, text, (size_t)len + 1);
    const char *name = (const char *)object->key;
    if (code == TRACE_DEFINES_POOL)
        object->as.pool = (struct trace_pool){.number = number, .id = id, .name = name};
    else if (code == TRACE_DEFINES_STACK)
        object->as.stack = (struct trace_stack){.number = number, .id = id};
    else if (code == TRACE_DEFINES_LINE)
        object->as.line = (struct trace_line){.number = number, .function = name, .file = ""};
    else
        object->as.text = (struct trace_text){.number = number, .text = name};
    return number;
}

/* Finds or makes the object for an id that has no definition. These objects share the map by_id with the meanings, under the key (id, 1).
   If the definitions take too much memory already, all further ids share one object. */
static struct object *find_unknown(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id)
{
    struct trace_sort *sort = &definitions->sorts[code];
    bool is_new;
    if (definitions->bytes >= BYTES_MAX)
        id = UINT64_MAX;
    uint32_t *number = trace_map_add(&sort->by_id, id, 1, &is_new);
    if (is_new)
        *number = make_unknown(definitions, code, id);
    return sort->objects[*number];
}

static struct object *find(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id, uint64_t position)
{
    struct trace_sort *sort = &definitions->sorts[code];
    const uint32_t *first = trace_map_find(&sort->by_id, id, 0);
    if (!first)
        return find_unknown(definitions, code, id);
    /* Find the last definition of the id at or before the position by a binary search. If there is none, take the first one after it. */
    size_t low = *first, high = sort->meaning_count;
    if (low + 1 < high && sort->meanings[low + 1].id != id)
        high = low + 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (sort->meanings[middle].id == id && sort->meanings[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    return sort->objects[sort->meanings[low].object];
}

const void *trace_definitions_find(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id, uint64_t position)
{
    return id == 0 ? NULL : (const void *)&find(definitions, code, id, position)->as;
}

void trace_definitions_open(struct trace_definitions *definitions, uint64_t name, uint64_t position, uint64_t handle)
{
    struct trace_text *text = &find(definitions, TRACE_DEFINES_NAME, name, position)->as.text;
    bool is_new;
    trace_map_add(&definitions->streams, text->number, handle, &is_new);
    text->streams += is_new;
}

const struct trace_text *trace_definitions_text(const struct trace_definitions *definitions, uint32_t number)
{
    return &((const struct object *)definitions->sorts[TRACE_DEFINES_NAME].objects[number])->as.text;
}

size_t trace_definitions_count(const struct trace_definitions *definitions, enum trace_definition_code code)
{
    return definitions->sorts[code].object_count;
}

const void *trace_definitions_get(const struct trace_definitions *definitions, enum trace_definition_code code, size_t number)
{
    const struct object *object = definitions->sorts[code].objects[number];
    return &object->as;
}

/* Resolves the frames of all stacks: native frames get their module, frames of an interpreter their line. */
static void resolve_frames(struct trace_definitions *definitions)
{
    const struct trace_sort *stacks = &definitions->sorts[TRACE_DEFINES_STACK];
    for (size_t i = 0; i < stacks->object_count; i++) {
        struct object *object = stacks->objects[i];
        struct trace_frame *frame = (struct trace_frame *)(object + 1), *end = frame + object->as.stack.count;
        for (; frame < end; frame++) {
            bool has_line = frame->module == &is_line;
            if (has_line)
                frame->line = trace_definitions_find(definitions, TRACE_DEFINES_LINE, frame->address, object->position);
            frame->module = has_line ? NULL : trace_definitions_module(definitions, frame->address, object->position);
            frame->address = has_line ? 0 : frame->address;
        }
    }
}

void trace_definitions_seal(struct trace_definitions *definitions)
{
    sort_modules(definitions);
    for (size_t code = 0; code < TRACE_DEFINES_COUNT; code++) {
        struct trace_sort *sort = &definitions->sorts[code];
        if (sort->meaning_count)
            qsort(sort->meanings, sort->meaning_count, sizeof sort->meanings[0], by_id_and_position);
        trace_map_free(&sort->by_content);
        for (size_t i = sort->meaning_count; i-- > 0;) {
            bool is_new;
            *trace_map_add(&sort->by_id, sort->meanings[i].id, 0, &is_new) = (uint32_t)i;
        }
    }
    resolve_frames(definitions);
}

void trace_definitions_free(struct trace_definitions *definitions)
{
    for (size_t code = 0; code < TRACE_DEFINES_COUNT; code++) {
        struct trace_sort *sort = &definitions->sorts[code];
        for (size_t i = 0; i < sort->object_count; i++)
            free(sort->objects[i]);
        free(sort->objects);
        free(sort->meanings);
        trace_map_free(&sort->by_content);
        trace_map_free(&sort->by_id);
    }
    trace_map_free(&definitions->streams);
    free(definitions->key);
    free(definitions->modules);
    free(definitions->module_ends);
    *definitions = (struct trace_definitions){0};
}
