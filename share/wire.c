/* SPDX-License-Identifier: MIT */
#include "share/wire.h"

#include <string.h>

#include "lib/weir.h"

/*
 * Each layout below lists what follows the header, in the order of the bytes. Encoding and decoding walk the same list, so that they cannot
 * disagree. doc/protocol.md has the same tables, with offsets.
 */
enum kind {
    KIND_END,
    KIND_NUMBER,   /* as wide as its member; between min and max */
    KIND_RESERVED, /* zeros */
    KIND_NAME,     /* `min` characters of a name at least, then zeros */
    KIND_TEXT,     /* for people: no control characters but newlines, then zeros */
    KIND_OPAQUE,   /* CUDA's own bytes */
    KIND_METADATA, /* u.lease.metadata_size bytes, then zeros up to a multiple of 8 */
};

struct field {
    enum kind kind;
    uint16_t width;
    uint16_t member;   /* its offset in struct wire_message */
    uint32_t with;     /* the bit of u.lease.flags that says it is there; 0: it always is */
    uint64_t min, max; /* max 0: what the width holds */
};

#define PLACE(name) .width = sizeof(((struct wire_message *)0)->u.name), .member = offsetof(struct wire_message, u.name)
#define NUMBER(name, ...) { KIND_NUMBER, PLACE(name), __VA_ARGS__ }
#define OPAQUE(name, ...) { KIND_OPAQUE, PLACE(name), __VA_ARGS__ }
#define NAME(name) { KIND_NAME, PLACE(name), .min = 1 }
#define NAME_OR_NONE(name) { KIND_NAME, PLACE(name) }
#define RESERVED(bytes) { KIND_RESERVED, .width = (bytes) }
#define END { .kind = KIND_END }

static const struct field hello[] = {
    NUMBER(hello.role, .min = WIRE_ROLE_IMPORTER, .max = WIRE_ROLE_OBSERVER),
    RESERVED(2),
    NAME_OR_NONE(hello.name),
    END,
};

static const struct field acquire[] = {
    NUMBER(acquire.flags, .max = WIRE_WAIT),
    NAME(acquire.name),
    END,
};

static const struct field subscribe[] = {
    NUMBER(subscribe.leases, .max = WIRE_LEASES_MAX - 1),
    NAME(subscribe.name),
    END,
};

static const struct field unsubscribe[] = {
    NUMBER(unsubscribe.ring, .min = 1),
    END,
};

static const struct field release[] = {
    NUMBER(release.lease, .max = WIRE_LEASES_MAX - 1),
    NUMBER(release.how, .min = WIRE_HOW_EVENT, .max = WIRE_HOW_DONE),
    RESERVED(2),
    END,
};

static const struct field block[] = {
    NUMBER(block.block, .min = 1),
    END,
};

static const struct field epoch[] = {
    NUMBER(epoch.epoch, .min = 1),
    END,
};

static const struct field none[] = {END};

static const struct field evict[] = {
    NUMBER(evict.pid, .min = 1, .max = INT32_MAX),
    END,
};

static const struct field welcome[] = {
    NUMBER(welcome.epoch, .min = 1),
    NUMBER(welcome.pid, .min = 1, .max = INT32_MAX),
    NAME(welcome.pool),
    NAME(welcome.uuid),
    END,
};

static const struct field refused[] = {
    NUMBER(refused.status, .min = WEIR_OK + 1, .max = WEIR_PROTOCOL),
    { KIND_TEXT, PLACE(refused.text) },
    END,
};

static const struct field lease[] = {
    NUMBER(lease.lease, .max = WIRE_LEASES_MAX - 1),
    NUMBER(lease.ring, .min = 0),
    NUMBER(lease.flags, .max = WIRE_HAS_BLOCK | WIRE_HAS_RELEASE),
    NUMBER(lease.metadata_size, .max = WIRE_METADATA_MAX),
    NUMBER(lease.sequence, .min = 0),
    NUMBER(lease.block, .min = 1),
    NUMBER(lease.size, .min = 1),
    { KIND_METADATA, PLACE(lease.metadata) },
    NUMBER(lease.block_size, .min = 1, .with = WIRE_HAS_BLOCK),
    OPAQUE(lease.shared, .with = WIRE_HAS_BLOCK),
    OPAQUE(lease.ready, .with = WIRE_HAS_BLOCK),
    OPAQUE(lease.release, .with = WIRE_HAS_RELEASE),
    END,
};

static const struct field subscribed[] = {
    NUMBER(subscribed.ring, .min = 1),
    NUMBER(subscribed.depth, .min = 2, .max = WIRE_LEASES_MAX),
    NUMBER(subscribed.leases, .min = 1, .max = WIRE_LEASES_MAX - 1),
    RESERVED(4),
    NUMBER(subscribed.slot_size, .min = 1),
    END,
};

static const struct field ended[] = {
    NUMBER(ended.ring, .min = 1),
    END,
};

static const struct field importer[] = {
    NUMBER(importer.pid, .min = 1, .max = INT32_MAX),
    NUMBER(importer.uid, .min = 0),
    NUMBER(importer.state, .min = WIRE_STATE_CONNECTED, .max = WIRE_STATE_EVICTED),
    RESERVED(2),
    NUMBER(importer.leases, .min = 0),
    NUMBER(importer.mappings, .min = 0),
    RESERVED(4),
    NUMBER(importer.idle_ms, .min = 0),
    NAME_OR_NONE(importer.name),
    END,
};

static const struct field holds[] = {
    NUMBER(holds.pid, .min = 1, .max = INT32_MAX),
    NUMBER(holds.hold, .min = WIRE_HOLD_LEASED, .max = WIRE_HOLD_MAPPED),
    RESERVED(2),
    NUMBER(holds.ring, .min = 0),
    RESERVED(4),
    NUMBER(holds.sequence, .min = 0),
    NUMBER(holds.block, .min = 1),
    NUMBER(holds.size, .min = 1),
    NUMBER(holds.held_ms, .min = 0),
    NAME(holds.name),
    END,
};

static const struct field offer[] = {
    NAME(offer.uuid),
    END,
};

static const struct field give[] = {
    NUMBER(give.bytes, .min = 1),
    NUMBER(give.deadline_ms, .max = WIRE_GIVE_MAX_MS),
    NAME(give.uuid),
    END,
};

static const struct field trim[] = {
    NUMBER(trim.keep, .min = 0),
    NUMBER(trim.deadline_ms, .max = WIRE_GIVE_MAX_MS),
    NAME_OR_NONE(trim.pool),
    END,
};

static const struct field set[] = {
    { KIND_TEXT, PLACE(set.text), .min = 1 },
    END,
};

static const struct field process[] = {
    NUMBER(process.pid, .min = 1, .max = INT32_MAX),
    NUMBER(process.devices, .min = 0),
    NUMBER(process.pools, .min = 0),
    RESERVED(4),
    NUMBER(process.age_ms, .min = 0),
    NAME_OR_NONE(process.program),
    NAME(process.version),
    { KIND_TEXT, PLACE(process.policy) },
    END,
};

static const struct field device[] = {
    NUMBER(device.index, .min = 0),
    RESERVED(4),
    NAME(device.uuid),
    NUMBER(device.memory, .min = 0),
    NUMBER(device.memory_free, .min = 0),
    NUMBER(device.recoveries, .min = 0),
    NUMBER(device.rescues[0], .min = 0),
    NUMBER(device.rescues[1], .min = 0),
    NUMBER(device.rescues[2], .min = 0),
    NUMBER(device.rescues[3], .min = 0),
    NUMBER(device.rescues[4], .min = 0),
    NUMBER(device.asks_sent, .min = 0),
    NUMBER(device.bytes_got, .min = 0),
    NUMBER(device.asks_received, .min = 0),
    NUMBER(device.bytes_given, .min = 0),
    END,
};

static const struct field pool[] = {
    NUMBER(pool.device, .min = 0),
    NUMBER(pool.flags, .max = WIRE_POOL_PRIVATE | WIRE_POOL_EXPORTABLE),
    NAME(pool.name),
    NUMBER(pool.live, .min = 0),
    NUMBER(pool.cached, .min = 0),
    NUMBER(pool.slack, .min = 0),
    NUMBER(pool.idle, .min = 0),
    NUMBER(pool.reserved, .min = 0),
    NUMBER(pool.live_high, .min = 0),
    NUMBER(pool.reserved_high, .min = 0),
    NUMBER(pool.max_size, .min = 0),
    NUMBER(pool.release_threshold, .min = 0),
    NUMBER(pool.keep, .min = 0),
    NUMBER(pool.live_blocks, .min = 0),
    NUMBER(pool.graph_blocks, .min = 0),
    NUMBER(pool.mallocs, .min = 0),
    NUMBER(pool.frees, .min = 0),
    NUMBER(pool.failures, .min = 0),
    NUMBER(pool.cache_hits, .min = 0),
    END,
};

static const struct field offered[] = {
    NUMBER(offered.bytes, .min = 0),
    END,
};

static const struct field gave[] = {
    NUMBER(gave.bytes, .min = 0),
    NUMBER(gave.took_us, .min = 0),
    END,
};

/* What one field alone cannot say. A block of a name is no frame, has no sequence, and is leased because somebody asked. */
static bool lease_agrees(const struct wire_message *message)
{
    bool frame = message->u.lease.ring != 0, has_block = message->u.lease.flags & WIRE_HAS_BLOCK;
    return frame == (message->u.lease.sequence != 0) && frame == (message->request == 0) &&
           (!has_block || message->u.lease.size <= message->u.lease.block_size);
}

static bool subscribed_agrees(const struct wire_message *message)
{
    return message->u.subscribed.leases < message->u.subscribed.depth;
}

static const struct type {
    const char *name;
    enum wire_sender sender;
    enum { REQUEST_zero, REQUEST_some, REQUEST_any } request;
    const struct field *fields;
} types[] = {
#define SENDER_importer WIRE_IMPORTER_SENDS
#define SENDER_exporter WIRE_EXPORTER_SENDS
#define SENDER_controller WIRE_CONTROLLER_SENDS
#define SENDER_process WIRE_PROCESS_SENDS
#define TYPE_ENTRY(name, number, member, sender, request) [number] = {#name, SENDER_##sender, REQUEST_##request, member},
    WIRE_TYPE_LIST(TYPE_ENTRY)
#undef TYPE_ENTRY
};

static const struct type *type_find(unsigned number)
{
    return number < sizeof(types) / sizeof(types[0]) && types[number].name ? &types[number] : NULL;
}

static bool agrees(const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_LEASE:
        return lease_agrees(message);
    case WIRE_SUBSCRIBED:
        return subscribed_agrees(message);
    default:
        return true;
    }
}

/* Bytes -------------------------------------------------------------------------------------------------------------------------------- */

static void put(unsigned char *bytes, size_t width, uint64_t value)
{
    for (size_t i = 0; i < width; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* The member as a number, whatever its type: the signed ones are pids, and positive. */
static uint64_t load(const void *member, size_t width)
{
    union { uint16_t u16; uint32_t u32; uint64_t u64; } value = {0};
    memcpy(&value, member, width);
    return width == sizeof(value.u16) ? value.u16 : width == sizeof(value.u32) ? value.u32 : value.u64;
}

static void store(void *member, size_t width, uint64_t number)
{
    union { uint16_t u16; uint32_t u32; uint64_t u64; } value;
    if (width == sizeof(value.u16))
        value.u16 = (uint16_t)number;
    else if (width == sizeof(value.u32))
        value.u32 = (uint32_t)number;
    else
        value.u64 = number;
    memcpy(member, &value, width);
}

static bool are_zeros(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static bool is_name_character(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

static bool is_text_character(unsigned char c)
{
    return c == '\n' || (c >= 0x20 && c != 0x7f);
}

/* At least one zero ends a string, and nothing follows it. */
static bool is_string(const unsigned char *bytes, size_t width, uint64_t min, bool (*is_good)(unsigned char c))
{
    size_t len = strnlen((const char *)bytes, width);
    if (len < min || len == width)
        return false;
    for (size_t i = 0; i < len; i++)
        /* U+0080 to U+009F in UTF-8 are control characters as well. */
        if (!is_good(bytes[i]) || (bytes[i] == 0xc2 && bytes[i + 1] >= 0x80 && bytes[i + 1] < 0xa0))
            return false;
    return are_zeros(bytes + len, width - len);
}

/* Fields ------------------------------------------------------------------------------------------------------------------------------- */

/* The bytes that a field takes in this message, whose fields before it are set. */
static size_t field_size(const struct field *field, const struct wire_message *message)
{
    if (field->with && !(message->u.lease.flags & field->with))
        return 0;
    if (field->kind == KIND_METADATA)
        return (message->u.lease.metadata_size + (size_t)7) & ~(size_t)7;
    return field->width;
}

/* How many of them the member fills: zeros follow. */
static size_t field_used(const struct field *field, const struct wire_message *message, const unsigned char *member, size_t size)
{
    switch (field->kind) {
    case KIND_RESERVED:
        return 0;
    case KIND_NAME:
    case KIND_TEXT:
        return strnlen((const char *)member, size - 1);
    case KIND_METADATA:
        return message->u.lease.metadata_size;
    default:
        return size;
    }
}

static void field_encode(const struct field *field, const struct wire_message *message, unsigned char *bytes, size_t size)
{
    const unsigned char *member = (const unsigned char *)message + field->member;
    if (field->kind == KIND_NUMBER) {
        put(bytes, size, load(member, size));
        return;
    }
    size_t used = field_used(field, message, member, size);
    memcpy(bytes, member, used);
    memset(bytes + used, 0, size - used);
}

static bool field_decode(const struct field *field, const unsigned char *bytes, size_t size, struct wire_message *message)
{
    unsigned char *member = (unsigned char *)message + field->member;
    size_t used = size;
    uint64_t value;
    switch (field->kind) {
    case KIND_NUMBER:
        value = get(bytes, size);
        if (value < field->min || (field->max && value > field->max))
            return false;
        store(member, size, value);
        return true;
    case KIND_RESERVED:
        return are_zeros(bytes, size);
    case KIND_NAME:
    case KIND_TEXT:
        if (!is_string(bytes, size, field->min, field->kind == KIND_NAME ? is_name_character : is_text_character))
            return false;
        break;
    case KIND_METADATA:
        used = message->u.lease.metadata_size;
        if (!are_zeros(bytes + used, size - used))
            return false;
        break;
    default:
        break;
    }
    memcpy(member, bytes, used);
    return true;
}

/* Messages ----------------------------------------------------------------------------------------------------------------------------- */

/* Where things are in the header. What comes before the length is there in every version. */
enum { AT_MAGIC = 0, AT_VERSION = 4, AT_TYPE = 6, AT_LENGTH = 8, AT_REQUEST = 12 };

size_t wire_encode(const struct wire_message *message, unsigned char bytes[WIRE_SIZE_MAX])
{
    const struct type *type = type_find(message->type);
    if (!type)
        return 0;
    size_t len = WIRE_HEADER_SIZE;
    for (const struct field *field = type->fields; field->kind != KIND_END; field++) {
        size_t size = field_size(field, message);
        if (size > 0)
            field_encode(field, message, bytes + len, size);
        len += size;
    }
    put(bytes + AT_MAGIC, 4, WIRE_MAGIC);
    put(bytes + AT_VERSION, 2, WIRE_VERSION);
    put(bytes + AT_TYPE, 2, message->type);
    put(bytes + AT_LENGTH, 4, len - WIRE_HEADER_SIZE);
    put(bytes + AT_REQUEST, 4, message->request);
    return len;
}

static bool request_fits(const struct type *type, uint32_t request)
{
    return type->request == REQUEST_any || (type->request == REQUEST_some) == (request != 0);
}

static bool fields_decode(const struct field *field, const unsigned char *bytes, size_t left, struct wire_message *message)
{
    for (; field->kind != KIND_END; field++) {
        size_t size = field_size(field, message);
        if (size > left || (size > 0 && !field_decode(field, bytes, size, message)))
            return false;
        bytes += size;
        left -= size;
    }
    return left == 0;
}

enum wire_fault wire_decode(const unsigned char *bytes, size_t len, struct wire_message *message, uint16_t *version)
{
    if (len < AT_LENGTH || get(bytes + AT_MAGIC, 4) != WIRE_MAGIC)
        return WIRE_NOT_WEIR;
    uint16_t theirs = (uint16_t)get(bytes + AT_VERSION, 2);
    if (theirs != WIRE_VERSION) {
        if (version)
            *version = theirs;
        return WIRE_OTHER_VERSION;
    }
    if (len < WIRE_HEADER_SIZE || get(bytes + AT_LENGTH, 4) != len - WIRE_HEADER_SIZE)
        return WIRE_MALFORMED;

    const struct type *type = type_find((unsigned)get(bytes + AT_TYPE, 2));
    struct wire_message read;
    memset(&read, 0, sizeof(read));
    read.type = (enum wire_type)get(bytes + AT_TYPE, 2);
    read.request = (uint32_t)get(bytes + AT_REQUEST, 4);
    if (!type || !request_fits(type, read.request) ||
        !fields_decode(type->fields, bytes + WIRE_HEADER_SIZE, len - WIRE_HEADER_SIZE, &read) || !agrees(&read))
        return WIRE_MALFORMED;
    memcpy(message, &read, sizeof(read));
    return WIRE_GOOD;
}

enum wire_sender wire_sender(enum wire_type type)
{
    const struct type *found = type_find(type);
    return found ? found->sender : WIRE_NOBODY;
}

const char *wire_type_name(enum wire_type type)
{
    const struct type *found = type_find(type);
    return found ? found->name : "unknown";
}

bool wire_is_name(const char *name)
{
    size_t len = strnlen(name, WIRE_NAME_SIZE);
    if (len == 0 || len == WIRE_NAME_SIZE)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_name_character((unsigned char)name[i]))
            return false;
    return true;
}
