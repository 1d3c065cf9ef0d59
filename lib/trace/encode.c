/* SPDX-License-Identifier: MIT */
#include "lib/trace/encode.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/class.h"

#define STACKS (UINT32_C(1) << 20) /* the number of different stacks that an origin (ring.h) can name */

/* Begins a block of definitions. In such a block the thread, the base time and the number of lost events are 0. */
static void begin_definitions(struct weir__trace_bytes *definitions)
{
    static const uint8_t begin[WEIR__TRACE_DEFINITIONS_BEGIN] = {0};
    definitions->len = 0;
    weir__trace_put(definitions, begin, sizeof begin);
}

bool weir__trace_encoder_init(struct weir__trace_encoder *encoder, struct weir__recorder *recorder,
                              void (*write)(void *data, const struct weir__trace_bytes *content), void *data)
{
    *encoder = (struct weir__trace_encoder){
        .recorder = recorder,
        .definitions = {.bytes = malloc(WEIR__TRACE_SOURCE_ROOM), .room = WEIR__TRACE_SOURCE_ROOM},
        .write = write,
        .data = data,
        .stacks = calloc(STACKS / 8, 1),
    };
    if (!encoder->stacks || !encoder->definitions.bytes)
        return false;
    begin_definitions(&encoder->definitions);
    return true;
}

void weir__trace_definitions_flush(struct weir__trace_encoder *encoder)
{
    if (encoder->definitions.len == WEIR__TRACE_DEFINITIONS_BEGIN)
        return;
    encoder->write(encoder->data, &encoder->definitions);
    begin_definitions(&encoder->definitions);
}

void weir__trace_encoder_destroy(struct weir__trace_encoder *encoder)
{
    weir__modules_clear(&encoder->modules);
    free(encoder->definitions.bytes);
    free(encoder->stacks);
}

bool weir__trace_source_init(struct weir__trace_source *source)
{
    *source = (struct weir__trace_source){.coder.content = {.bytes = malloc(WEIR__TRACE_SOURCE_ROOM), .room = WEIR__TRACE_SOURCE_ROOM}};
    return source->coder.content.bytes;
}

void weir__trace_source_destroy(struct weir__trace_source *source)
{
    free(source->coder.content.bytes);
}

/* Definitions -------------------------------------------------------------------------------------------------------------------------- */

/* Begins a definition, after writing the block of definitions if it is full. Any definition fits into a block that is not full. */
static struct weir__trace_bytes *define(struct weir__trace_encoder *encoder, enum weir__trace_definition code)
{
    if (encoder->definitions.len >= WEIR__TRACE_SOURCE_FULL)
        weir__trace_definitions_flush(encoder);
    weir__trace_put_code(&encoder->definitions, code);
    return &encoder->definitions;
}

/* If objects were loaded or unloaded since the last time, defines all modules of the process again. The modules are defined before the
   stacks whose addresses lie in them. */
static void define_modules(struct weir__trace_encoder *encoder)
{
    if (!weir__modules_read(&encoder->modules))
        return;
    for (size_t i = 0; i < encoder->modules.count; i++) {
        const struct weir__module *module = &encoder->modules.list[i];
        struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_MODULE);
        weir__trace_put_number(out, ++encoder->module_id);
        weir__trace_put_number(out, module->start);
        weir__trace_put_number(out, module->length);
        weir__trace_put_number(out, module->offset);
        weir__trace_put_string(out, module->build_id, WEIR__TRACE_STRING_MAX);
        weir__trace_put_string(out, module->path, WEIR__TRACE_STRING_MAX);
    }
}

static void define_pools(struct weir__trace_encoder *encoder, unsigned wanted)
{
    struct weir__recorded_pool pool;
    while (encoder->pools < wanted && weir__recorder_pools(encoder->recorder, encoder->pools, &pool, 1)) {
        struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_POOL);
        weir__trace_put_number(out, ++encoder->pools);
        weir__trace_put_number(out, (uint64_t)pool.device);
        weir__trace_put_number(out, pool.flags);
        weir__trace_put_string(out, pool.name, WEIR__TRACE_STRING_MAX);
        /* A reader finds out from the loaded modules what allocated the memory of an unaware program (doc/trace.md), for example torch. */
        if (pool.flags & WEIR__POOL_IS_UNAWARE)
            define_modules(encoder);
    }
}

static void define_tags(struct weir__trace_encoder *encoder, unsigned wanted)
{
    const struct weir__tag *tag;
    while (encoder->tags < wanted && (tag = weir__tags_get(&encoder->recorder->tags, encoder->tags + 1))) {
        struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_TAG);
        weir__trace_put_number(out, ++encoder->tags);
        weir__trace_put_string(out, tag->name, WEIR__TRACE_STRING_MAX);
    }
}

static void define_frames(struct weir__trace_encoder *encoder, const struct weir__stacks *stacks)
{
    struct weir__frame frame;
    while (weir__stacks_get_frame(stacks, encoder->frames + 1, &frame)) {
        struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_FRAME);
        weir__trace_put_number(out, ++encoder->frames);
        weir__trace_put_number(out, frame.line);
        weir__trace_put_string(out, frame.function, WEIR__TRACE_STRING_MAX);
        weir__trace_put_string(out, frame.file, WEIR__TRACE_STRING_MAX);
    }
}

/* Defines the stack, unless it is defined already. Returns its number, or 0 if the recorder does not have the stack. */
static uint32_t define_stack(struct weir__trace_encoder *encoder, uint32_t number)
{
    const struct weir__stacks *stacks = atomic_load_explicit(&encoder->recorder->stacks, memory_order_acquire);
    const uint64_t *elements;
    unsigned count;
    uint64_t before = 0;
    if (!number || encoder->stacks[number / 8] & 1U << number % 8)
        return number;
    if (!stacks || !weir__stacks_get(stacks, number, &elements, &count))
        return 0;
    define_modules(encoder);
    define_frames(encoder, stacks);
    struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_STACK);
    weir__trace_put_number(out, number);
    weir__trace_put_number(out, count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t pc = elements[i] >> 1, difference = pc - before;
        if (elements[i] & 1) {
            weir__trace_put_number(out, elements[i]);
            continue;
        }
        weir__trace_put_number(out, (difference << 1 ^ (0 - (difference >> 63))) << 1);
        before = pc;
    }
    encoder->stacks[number / 8] |= (uint8_t)(1U << number % 8);
    return number;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t since_start(const struct weir__trace_encoder *encoder, uint64_t time)
{
    uint64_t started = encoder->recorder->started_monotonic;
    return time > started ? time - started : 0;
}

void weir__trace_source_begin(struct weir__trace_source *source, const struct weir__trace_encoder *encoder,
                              const struct weir__event *first, uint64_t lost)
{
    uint64_t time = since_start(encoder, first->time);
    /* The event's time may come from the coarse clock, and be a little earlier than the exact time with which the thread's last block
       ended. */
    bool is_before = weir__event_thread(first) == source->thread && time < source->coder.time;
    source->thread = weir__event_thread(first);
    source->events = 0;
    weir__trace_coder_begin(&source->coder, source->thread, is_before ? source->coder.time : time, lost);
}

static void put_event(struct weir__trace_source *source, struct weir__trace_encoder *encoder, const struct weir__event *event)
{
    enum weir__kind kind = weir__event_kind(event);
    uint32_t origin = weir__event_origin(event);
    bool is_held = kind == WEIR__KIND_HELD, is_block = kind <= WEIR__KIND_GRAPH_FREE || is_held;
    bool is_users = kind != WEIR__KIND_RETURN && kind != WEIR__KIND_CACHED;
    define_pools(encoder, weir__event_pool(event));
    define_tags(encoder, weir__origin_tag(origin));
    struct weir__trace_record record = {
        .kind = kind,
        .time = since_start(encoder, event->time),
        .order = weir__event_order(event),
        .after = event->after,
        .stream = event->stream,
        .pool = weir__event_pool(event),
        .address = event->address,
        .size = is_users ? event->size : 0,
        .given = is_held ? event->size : weir__class_given(weir__event_class(event), event->size),
        .tag = weir__origin_tag(origin),
        .stack = is_block ? define_stack(encoder, weir__origin_stack(origin)) : 0,
        .a = is_held ? weir__event_class(event) : event->address,
        .b = is_held ? event->after : event->size,
    };
    source->events += weir__trace_coder_put(&source->coder, &record);
}

/* Events with a name ------------------------------------------------------------------------------------------------------------------- */

/* Defines the name that the source has collected, if any, and puts the event that bears the name. If parts of the name were overwritten in
   the ring, the name is shorter. */
static void put_named(struct weir__trace_source *source, struct weir__trace_encoder *encoder)
{
    if (!source->named.want)
        return;
    source->named.name[source->named.len] = '\0';
    struct weir__trace_bytes *out = define(encoder, WEIR__TRACE_NAME);
    weir__trace_put_number(out, ++encoder->names);
    weir__trace_put_string(out, source->named.name, WEIR__TRACE_STRING_MAX);
    source->named.event.address = encoder->names;
    source->named.want = 0;
    put_event(source, encoder, &source->named.event);
}

/* Appends the part of the name that the event holds. */
static void take_part(struct weir__trace_source *source, const struct weir__event *event)
{
    const uint64_t words[WEIR__NAME_PART / sizeof(uint64_t)] = {event->address, event->size, event->stream};
    size_t wanted = source->named.want - source->named.len, bytes = wanted < WEIR__NAME_PART ? wanted : WEIR__NAME_PART;
    memcpy(source->named.name + source->named.len, words, bytes);
    source->named.len += bytes;
}

void weir__trace_source_add(struct weir__trace_source *source, struct weir__trace_encoder *encoder, const struct weir__event *event)
{
    enum weir__kind kind = weir__event_kind(event);
    size_t len = weir__event_class(event);
    if (kind == WEIR__KIND_MORE) {
        if (source->named.want)
            take_part(source, event);
        return;
    }
    put_named(source, encoder);
    if ((kind == WEIR__KIND_MARK || kind == WEIR__KIND_STREAM_OPEN) && len && len <= WEIR__NAME_MAX) {
        source->named.event = *event;
        source->named.len = 0;
        source->named.want = len;
    } else {
        put_event(source, encoder, event);
    }
}

void weir__trace_source_end(struct weir__trace_source *source, struct weir__trace_encoder *encoder)
{
    put_named(source, encoder);
}
