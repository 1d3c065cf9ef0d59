/* SPDX-License-Identifier: MIT */
#include "share/wire/wire.h"

#include <string.h>

#include "include/weir.h"

/*
 * Each layout below lists the fields that follow the header, in the order of the bytes. Encoding and decoding walk the same list, so that
 * they cannot disagree. doc/protocol.md has the same tables, with offsets.
 */
enum kind {
    KIND_END,
    KIND_NUMBER,   /* an integer as wide as its member, between min and max */
    KIND_RESERVED, /* reserved bytes, which are zeros */
    KIND_NAME,     /* a name of at least `min` characters, then zeros */
    KIND_TEXT,     /* a text for people, without control characters other than newlines, then zeros */
    KIND_OPAQUE,   /* bytes that only CUDA understands */
    KIND_METADATA, /* metadata: u.lease.metadata_size bytes, then zeros up to a multiple of 8 */
};

struct field {
    enum kind kind;
    uint16_t width;
    uint16_t member;   /* offset of the member in struct wire_message */
    uint32_t with;     /* the field exists only if u.lease.flags has this bit; 0: the field always exists */
    uint64_t min, max; /* max 0: any number that fits */
};

#define PLACE(name) .width = sizeof(((struct wire_message *)0)->u.name), .member = offsetof(struct wire_message, u.name)
#define RANGE(name, least, most) { KIND_NUMBER, PLACE(name), .min = (least), .max = (most) }
#define NUMBER(name) RANGE(name, 0, 0)
#define SOME(name) RANGE(name, 1, 0) /* any number but 0 */
#define PID(name) RANGE(name, 1, INT32_MAX)
#define OPAQUE(name, flag) { KIND_OPAQUE, PLACE(name), .with = (flag) }
#define NAME(name) { KIND_NAME, PLACE(name), .min = 1 }
#define NAME_OR_NONE(name) { KIND_NAME, PLACE(name) }
#define RESERVED(bytes) { KIND_RESERVED, .width = (bytes) }
#define LAYOUT(type, ...) static const struct field type[] = { __VA_ARGS__, { .kind = KIND_END } }

static const struct field none[] = { { .kind = KIND_END } };
LAYOUT(hello, RANGE(hello.role, WIRE_ROLE_IMPORTER, WIRE_ROLE_OBSERVER), RESERVED(2), NAME_OR_NONE(hello.name));
LAYOUT(acquire, RANGE(acquire.flags, 0, WIRE_WAIT), NAME(acquire.name));
LAYOUT(subscribe, RANGE(subscribe.leases, 0, WIRE_LEASES_MAX - 1), NAME(subscribe.name));
LAYOUT(unsubscribe, SOME(unsubscribe.ring));
LAYOUT(release, RANGE(release.lease, 0, WIRE_LEASES_MAX - 1), RANGE(release.how, WIRE_HOW_EVENT, WIRE_HOW_DONE), RESERVED(2));
LAYOUT(block, SOME(block.block));
LAYOUT(epoch, SOME(epoch.epoch));
LAYOUT(evict, PID(evict.pid));
LAYOUT(welcome, SOME(welcome.epoch), PID(welcome.pid), NAME(welcome.pool), NAME(welcome.uuid));
LAYOUT(refused, RANGE(refused.status, WEIR_OK + 1, WEIR_PROTOCOL), { KIND_TEXT, PLACE(refused.text) });
LAYOUT(lease, RANGE(lease.lease, 0, WIRE_LEASES_MAX - 1), NUMBER(lease.ring), RANGE(lease.flags, 0, WIRE_HAS_BLOCK | WIRE_HAS_RELEASE),
       RANGE(lease.metadata_size, 0, WIRE_METADATA_MAX), NUMBER(lease.sequence), SOME(lease.block), NUMBER(lease.size),
       { KIND_METADATA, PLACE(lease.metadata) }, { KIND_NUMBER, PLACE(lease.block_size), .with = WIRE_HAS_BLOCK, .min = 1 },
       OPAQUE(lease.shared, WIRE_HAS_BLOCK), OPAQUE(lease.ready, WIRE_HAS_BLOCK), OPAQUE(lease.release, WIRE_HAS_RELEASE));
LAYOUT(subscribed, SOME(subscribed.ring), RANGE(subscribed.depth, 2, WIRE_LEASES_MAX), RANGE(subscribed.leases, 1, WIRE_LEASES_MAX - 1),
       RESERVED(4), SOME(subscribed.slot_size));
LAYOUT(ended, SOME(ended.ring));
LAYOUT(importer, PID(importer.pid), NUMBER(importer.uid), RANGE(importer.state, WIRE_STATE_CONNECTED, WIRE_STATE_EVICTED), RESERVED(2),
       NUMBER(importer.leases), NUMBER(importer.mappings), RESERVED(4), NUMBER(importer.idle_ms), NAME_OR_NONE(importer.name));
LAYOUT(holds, PID(holds.pid), RANGE(holds.hold, WIRE_HOLD_LEASED, WIRE_HOLD_MAPPED), RESERVED(2), NUMBER(holds.ring), RESERVED(4),
       NUMBER(holds.sequence), SOME(holds.block), SOME(holds.size), NUMBER(holds.held_ms), NAME(holds.name));
#define EXPORT_FIGURE(name) NUMBER(export.name),
#define RING_FIGURE(name) , NUMBER(ring.name)
static const struct field export[] = { WIRE_EXPORT_FIGURES(EXPORT_FIGURE) { .kind = KIND_END } };
LAYOUT(ring, SOME(ring.ring),
       RANGE(ring.overflow, WEIR_OVERFLOW_BLOCK, WEIR_OVERFLOW_FAIL) WIRE_RING_FIGURES(RING_FIGURE), NAME(ring.name));
LAYOUT(offer, NAME(offer.uuid));
LAYOUT(give, SOME(give.bytes), RANGE(give.deadline_ms, 0, WIRE_GIVE_MAX_MS), RANGE(give.flags, 0, WIRE_TAKE), NAME(give.uuid));
LAYOUT(trim, NUMBER(trim.keep), RANGE(trim.deadline_ms, 0, WIRE_GIVE_MAX_MS), NAME_OR_NONE(trim.pool));
LAYOUT(sleep, RANGE(sleep.deadline_ms, 0, WIRE_GIVE_MAX_MS), NAME_OR_NONE(sleep.pool));
LAYOUT(set, { KIND_TEXT, PLACE(set.text), .min = 1 });
LAYOUT(offered, NUMBER(offered.bytes), NUMBER(offered.yielded));
LAYOUT(gave, NUMBER(gave.bytes), NUMBER(gave.took_us));
LAYOUT(record, RANGE(record.level, WIRE_RECORD_POOL, WIRE_RECORD_ALL), RANGE(record.flags, 0, WIRE_RECORD_STACKS));
LAYOUT(recorded, NUMBER(recorded.bytes), NUMBER(recorded.events), NUMBER(recorded.lost), NUMBER(recorded.error), RESERVED(4));
LAYOUT(piece, { KIND_TEXT, PLACE(piece.text), .min = 1 });
LAYOUT(page, SOME(page.address), SOME(page.bytes), SOME(page.number), NUMBER(page.offset));
LAYOUT(paged, SOME(paged.bytes));

/* Checks the rules that concern several fields. A LEASE on a named block has neither ring nor sequence, and answers a request; a frame has
   a ring and a sequence, and answers none. */
static bool agrees(const struct wire_message *message)
{
    bool is_frame = message->u.lease.ring != 0, has_block = message->u.lease.flags & WIRE_HAS_BLOCK;
    switch (message->type) {
    case WIRE_LEASE:
        return is_frame == (message->u.lease.sequence != 0) && is_frame == (message->request == 0) &&
               (!has_block || message->u.lease.size <= message->u.lease.block_size);
    case WIRE_SUBSCRIBED:
        return message->u.subscribed.leases < message->u.subscribed.depth;
    default:
        return true;
    }
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

/* Reads the member as a number, whatever its type. The signed members are pids, which are positive. */
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

/* Whether the bytes are a string of at least `min` good characters, ended by a zero and followed by zeros only. */
static bool is_string(const unsigned char *bytes, size_t width, uint64_t min, bool (*is_good)(unsigned char c))
{
    size_t len = strnlen((const char *)bytes, width);
    if (len < min || len == width)
        return false;
    for (size_t i = 0; i < len; i++)
        /* 0xc2 0x80 to 0xc2 0x9f is U+0080 to U+009F in UTF-8: control characters as well. */
        if (!is_good(bytes[i]) || (bytes[i] == 0xc2 && bytes[i + 1] >= 0x80 && bytes[i + 1] < 0xa0))
            return false;
    return are_zeros(bytes + len, width - len);
}

/* Fields ------------------------------------------------------------------------------------------------------------------------------- */

/* How many bytes the field takes in this message. The fields before it must be set already. */
static size_t field_size(const struct field *field, const struct wire_message *message)
{
    if (field->with && !(message->u.lease.flags & field->with))
        return 0;
    if (field->kind == KIND_METADATA)
        return (message->u.lease.metadata_size + (size_t)7) & ~(size_t)7;
    return field->width;
}

/* How many of these bytes come from the member; the rest are zeros. */
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

/* Offsets in the header. The fields before the length are the same in every version. */
enum { AT_MAGIC = 0, AT_VERSION = 4, AT_TYPE = 6, AT_LENGTH = 8, AT_REQUEST = 12 };

/* The version of the protocol on the kind of socket that uses this type. */
static uint16_t version_of(unsigned type)
{
    return type < WIRE_CONTROL_TYPE ? WIRE_SHARE_VERSION : WIRE_CONTROL_VERSION;
}

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
    put(bytes + AT_VERSION, 2, version_of(message->type));
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
    if (theirs != version_of((unsigned)get(bytes + AT_TYPE, 2))) {
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
    return len < WIRE_NAME_SIZE && is_string((const unsigned char *)name, len + 1, 1, is_name_character);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void wire_copy_text(char to[WIRE_TEXT_SIZE], const char *from)
{
    size_t len = 0;
    memset(to, 0, WIRE_TEXT_SIZE);
    for (; *from && len < WIRE_TEXT_SIZE - 1; from++) {
        unsigned char c = (unsigned char)*from, second = (unsigned char)from[1];
        if (c == 0xc2 && second >= 0x80 && second < 0xa0)
            from++; /* skip a control character, U+0080 to U+009F */
        else if (c == '\n' || (c >= 0x20 && c != 0x7f))
            to[len++] = (char)c;
    }
    if (!is_continuation(*from))
        return;
    while (len && is_continuation(to[len - 1]))
        to[--len] = '\0';
    if (len)
        to[len - 1] = '\0';
}
