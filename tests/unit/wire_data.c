/* SPDX-License-Identifier: MIT */
#include "tests/unit/wire_data.h"

#include <stddef.h>
#include <string.h>

#define HEADER(number, length, request) 'W', 'E', 'I', 'R', (number) < 64 ? 1 : 2, 0, number, 0, (length) & 0xff, (length) >> 8, 0, 0, request, 0, 0, 0

const struct wire_golden wire_goldens[] = {
    {{WIRE_HELLO, 1, {.hello = {WIRE_ROLE_IMPORTER, "c"}}}, 84, {HEADER(1, 68, 1), [16] = 1, [20] = 'c'}},
    {{WIRE_HELLO, 2, {.hello = {WIRE_ROLE_OBSERVER, ""}}}, 84, {HEADER(1, 68, 2), [16] = 2}},
    {{WIRE_ACQUIRE, 2, {.acquire = {WIRE_WAIT, "weights"}}},
     84,
     {HEADER(2, 68, 2), [16] = 1, [20] = 'w', 'e', 'i', 'g', 'h', 't', 's'}},
    {{WIRE_SUBSCRIBE, 3, {.subscribe = {0x203, "r.0_-"}}},
     84,
     {HEADER(3, 68, 3), [16] = 3, 2, [20] = 'r', '.', '0', '_', '-'}},
    {{WIRE_UNSUBSCRIBE, 4, {.unsubscribe = {0x04030201}}}, 20, {HEADER(4, 4, 4), [16] = 1, 2, 3, 4}},
    {{WIRE_RELEASE, 0, {.release = {1023, WIRE_HOW_DONE}}}, 24, {HEADER(5, 8, 0), [16] = 0xff, 3, [20] = 2}},
    {{WIRE_RELEASE, 0, {.release = {0, WIRE_HOW_EVENT}}}, 24, {HEADER(5, 8, 0), [20] = 1}},
    {{WIRE_UNMAPPED, 0, {.block = {UINT64_C(0x0807060504030201)}}}, 24, {HEADER(6, 8, 0), [16] = 1, 2, 3, 4, 5, 6, 7, 8}},
    {{WIRE_RETIRED, 0, {.epoch = {3}}}, 24, {HEADER(7, 8, 0), [16] = 3}},
    {{WIRE_CANCEL, 8, {{0}}}, 16, {HEADER(8, 0, 8)}},
    {{WIRE_GOODBYE, 0, {{0}}}, 16, {HEADER(9, 0, 0)}},
    {{WIRE_LIST, 10, {{0}}}, 16, {HEADER(10, 0, 10)}},
    {{WIRE_EVICT, 11, {.evict = {INT32_MAX}}}, 20, {HEADER(11, 4, 11), [16] = 0xff, 0xff, 0xff, 0x7f}},
    {{WIRE_COUNT, 12, {{0}}}, 16, {HEADER(12, 0, 12)}},
    {{WIRE_WELCOME, 1, {.welcome = {1, 1234, "frames", "GPU-01"}}},
     140,
     {HEADER(32, 124, 1), [16] = 1, [24] = 0xd2, 4, [28] = 'f', 'r', 'a', 'm', 'e', 's', [92] = 'G', 'P', 'U', '-', '0', '1'}},
    {{WIRE_REFUSED, 0, {.refused = {16, "no\n\xc3\xa9"}}}, 276, {HEADER(33, 260, 0), [16] = 16, [20] = 'n', 'o', '\n', 0xc3, 0xa9}},
    {{WIRE_REFUSED, 9, {.refused = {17, ""}}}, 276, {HEADER(33, 260, 9), [16] = 17}},
    /* The answer to ACQUIRE of the document's example. */
    {{WIRE_LEASE,
      2,
      {.lease = {.flags = 3,
                 .block = 7,
                 .size = 256,
                 .block_size = 512,
                 .shared = {{1, [63] = 2}},
                 .ready = {{3, [63] = 4}},
                 .release = {{5, [63] = 6}}}}},
     256,
     {HEADER(34, 240, 2), [24] = 3, [40] = 7, [49] = 1, [57] = 2, [64] = 1, [127] = 2, [128] = 3, [191] = 4, [192] = 5, [255] = 6}},
    /* A frame of a block that is known, under a lease number that is known. */
    {{WIRE_LEASE,
      0,
      {.lease = {.lease = 1, .ring = 2, .metadata_size = 3, .sequence = 9, .block = 8, .size = 1, .metadata = {'a', 'b', 'c'}}}},
     64,
     {HEADER(34, 48, 0), [16] = 1, [20] = 2, [28] = 3, [32] = 9, [40] = 8, [48] = 1, [56] = 'a', 'b', 'c'}},
    /* Each optional part alone, behind metadata that need padding and metadata that need none. */
    {{WIRE_LEASE,
      0,
      {.lease = {.ring = 1,
                 .flags = 1,
                 .metadata_size = 9,
                 .sequence = 1,
                 .block = 1,
                 .size = 2,
                 .metadata = {[8] = 'm'},
                 .block_size = 2,
                 .shared = {{7}},
                 .ready = {{8}}}}},
     208,
     {HEADER(34, 192, 0), [20] = 1, [24] = 1, [28] = 9, [32] = 1, [40] = 1, [48] = 2, [64] = 'm', [72] = 2, [80] = 7, [144] = 8}},
    {{WIRE_LEASE,
      0,
      {.lease = {.ring = 1,
                 .flags = 2,
                 .metadata_size = 8,
                 .sequence = 1,
                 .block = 1,
                 .size = 2,
                 .metadata = {[7] = 'm'},
                 .release = {{9}}}}},
     128,
     {HEADER(34, 112, 0), [20] = 1, [24] = 2, [28] = 8, [32] = 1, [40] = 1, [48] = 2, [63] = 'm', [64] = 9}},
    {{WIRE_SUBSCRIBED, 3, {.subscribed = {5, 1024, 1023, 65536}}}, 40, {HEADER(35, 24, 3), [16] = 5, [21] = 4, [24] = 0xff, 3, [34] = 1}},
    {{WIRE_WITHDRAW, 0, {.block = {7}}}, 24, {HEADER(36, 8, 0), [16] = 7}},
    {{WIRE_RETIRE, 0, {.epoch = {256}}}, 24, {HEADER(37, 8, 0), [17] = 1}},
    {{WIRE_ENDED, 0, {.ended = {5}}}, 20, {HEADER(38, 4, 0), [16] = 5}},
    {{WIRE_DONE, 4, {{0}}}, 16, {HEADER(39, 0, 4)}},
    {{WIRE_IMPORTER, 10, {.importer = {77, 1000, WIRE_STATE_EVICTED, 1, 2, 3, "python3"}}},
     112,
     {HEADER(40, 96, 10), [16] = 77, [20] = 0xe8, 3, [24] = 3, [28] = 1, [32] = 2, [40] = 3, [48] = 'p', 'y', 't', 'h', 'o', 'n', '3'}},
    {{WIRE_HOLDS, 10, {.holds = {77, WIRE_HOLD_RELEASING, 1, 2, 3, 4, 5, "ring"}}},
     128,
     {HEADER(41, 112, 10), [16] = 77, [20] = 2, [24] = 1, [32] = 2, [40] = 3, [48] = 4, [56] = 5, [64] = 'r', 'i', 'n', 'g'}},
    {{WIRE_HOLDS, 10, {.holds = {77, WIRE_HOLD_MAPPED, 1, 0, 3, 4, 5, "ring"}}},
     128,
     {HEADER(41, 112, 10), [16] = 77, [20] = 3, [24] = 1, [40] = 3, [48] = 4, [56] = 5, [64] = 'r', 'i', 'n', 'g'}},
    {{WIRE_EXPORT, 12, {.export = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
     136,
     {HEADER(42, 120, 12), [16] = 1, [24] = 2, [32] = 3, [40] = 4, [48] = 5, [56] = 6, [64] = 7, [72] = 8, [80] = 9,
      [88] = 10, [96] = 11, [104] = 12, [112] = 13, [120] = 14, [128] = 15}},
    {{WIRE_RING, 12, {.ring = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "ring"}}},
     200,
     {HEADER(43, 184, 12), [16] = 1, [20] = 2, [24] = 3, [32] = 4, [40] = 5, [48] = 6, [56] = 7, [64] = 8, [72] = 9, [80] = 10,
      [88] = 11, [96] = 12, [104] = 13, [112] = 14, [120] = 15, [128] = 16, [136] = 'r', 'i', 'n', 'g'}},
    {{WIRE_OFFER, 65, {.offer = {"GPU-01"}}}, 64, {HEADER(65, 48, 65), [16] = 'G', 'P', 'U', '-', '0', '1'}},
    {{WIRE_GIVE, 66, {.give = {UINT64_C(1) << 32, 600000, WIRE_TAKE, "GPU-01"}}},
     80,
     {HEADER(66, 64, 66), [20] = 1, [24] = 0xc0, 0x27, 9, [28] = 1, [32] = 'G', 'P', 'U', '-', '0', '1'}},
    {{WIRE_TRIM, 67, {.trim = {UINT64_C(1) << 40, 256, "frames"}}},
     92,
     {HEADER(67, 76, 67), [21] = 1, [25] = 1, [28] = 'f', 'r', 'a', 'm', 'e', 's'}},
    {{WIRE_TRIM, 67, {.trim = {WIRE_POLICY_KEEP, 0, ""}}},
     92,
     {HEADER(67, 76, 67), [16] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    {{WIRE_SET, 68, {.set = {"pools.a.keep=1"}}},
     272,
     {HEADER(68, 256, 68), [16] = 'p', 'o', 'o', 'l', 's', '.', 'a', '.', 'k', 'e', 'e', 'p', '=', '1'}},
    {{WIRE_RELOAD, 69, {{0}}}, 16, {HEADER(69, 0, 69)}},
    {{WIRE_RECORD, 70, {.record = {WIRE_RECORD_ALL, WIRE_RECORD_STACKS}}}, 24, {HEADER(70, 8, 70), [16] = 2, [20] = 1}},
    {{WIRE_STOP, 71, {{0}}}, 16, {HEADER(71, 0, 71)}},
    {{WIRE_FIGURES, 76, {{0}}}, 16, {HEADER(76, 0, 76)}},
    {{WIRE_SLEEP, 77, {.sleep = {256, "weights"}}}, 84, {HEADER(77, 68, 77), [17] = 1, [20] = 'w', 'e', 'i', 'g', 'h', 't', 's'}},
    {{WIRE_WAKE, 78, {.sleep = {0, ""}}}, 84, {HEADER(78, 68, 78)}},
    {{WIRE_OFFERED, 65, {.offered = {UINT64_C(0x0807060504030201), 256}}}, 32, {HEADER(99, 16, 65), [16] = 1, 2, 3, 4, 5, 6, 7, 8, [25] = 1}},
    {{WIRE_GAVE, 66, {.gave = {256, 65536}}}, 32, {HEADER(100, 16, 66), [17] = 1, [26] = 1}},
    {{WIRE_READY, 68, {{0}}}, 16, {HEADER(101, 0, 68)}},
    {{WIRE_DENIED, 66, {.refused = {11, "no"}}}, 276, {HEADER(102, 260, 66), [16] = 11, [20] = 'n', 'o'}},
    {{WIRE_DENIED, 0, {.refused = {16, ""}}}, 276, {HEADER(102, 260, 0), [16] = 16}},
    {{WIRE_RECORDED, 70, {.recorded = {1, 2, 3, 4}}}, 48, {HEADER(103, 32, 70), [16] = 1, [24] = 2, [32] = 3, [40] = 4}},
    {{WIRE_TEXT, 76, {.piece = {"{\"a\": \"\xc3\xa9"}}},
     1024,
     {HEADER(108, 1008, 76), [16] = '{', '"', 'a', '"', ':', ' ', '"', 0xc3, 0xa9}},
    {{WIRE_PAGE, 80, {.page = {UINT64_C(1) << 40, 256, UINT64_MAX, 65536}}},
     48,
     {HEADER(80, 32, 80), [21] = 1, [25] = 1, [32] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [42] = 1}},
    {{WIRE_PAGED, 80, {.paged = {256}}}, 24, {HEADER(112, 8, 80), [17] = 1}},
};
const size_t wire_golden_count = sizeof(wire_goldens) / sizeof(wire_goldens[0]);

const struct wire_golden *wire_golden_of(enum wire_type type)
{
    for (size_t i = 0; i < wire_golden_count; i++)
        if (wire_goldens[i].message.type == type)
            return &wire_goldens[i];
    return NULL;
}

/* Random messages -------------------------------------------------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From min to max, and either of them as often as all between. */
static uint64_t between(uint64_t *seed, uint64_t min, uint64_t max)
{
    uint64_t choice = next(seed) % 4;
    return choice == 0 ? min : choice == 1 ? max : max - min == UINT64_MAX ? next(seed) : min + next(seed) % (max - min + 1);
}

static void random_bytes(uint64_t *seed, void *bytes, size_t len)
{
    unsigned char *to = bytes;
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)next(seed);
}

static void random_string(uint64_t *seed, const char *letters, size_t min, char *string, size_t size)
{
    size_t len = between(seed, min, size - 1);
    for (size_t i = 0; i < len; i++)
        string[i] = letters[next(seed) % strlen(letters)];
}

/* What a part of a message may be. */
enum kind {
    NUMBER, /* from `min` to `max` */
    COUNTS, /* `max` numbers of eight bytes in a row, any at all */
    NAME,   /* at least `min` characters */
    TEXT,
};

static const struct part {
    enum wire_type type;
    enum kind kind;
    size_t offset, size;
    uint64_t min, max;
} parts[] = {
#define PART(type, kind, member, min, max) \
    { WIRE_##type, kind, offsetof(struct wire_message, u.member), sizeof(((struct wire_message *)0)->u.member), min, max }
    PART(HELLO, NUMBER, hello.role, WIRE_ROLE_IMPORTER, WIRE_ROLE_OBSERVER),
    PART(HELLO, NAME, hello.name, 0, 0),
    PART(ACQUIRE, NUMBER, acquire.flags, 0, WIRE_WAIT),
    PART(ACQUIRE, NAME, acquire.name, 1, 0),
    PART(SUBSCRIBE, NUMBER, subscribe.leases, 0, WIRE_LEASES_MAX - 1),
    PART(SUBSCRIBE, NAME, subscribe.name, 1, 0),
    PART(UNSUBSCRIBE, NUMBER, unsubscribe.ring, 1, UINT32_MAX),
    PART(ENDED, NUMBER, ended.ring, 1, UINT32_MAX),
    PART(RELEASE, NUMBER, release.lease, 0, WIRE_LEASES_MAX - 1),
    PART(RELEASE, NUMBER, release.how, WIRE_HOW_EVENT, WIRE_HOW_DONE),
    PART(UNMAPPED, NUMBER, block.block, 1, UINT64_MAX),
    PART(WITHDRAW, NUMBER, block.block, 1, UINT64_MAX),
    PART(RETIRED, NUMBER, epoch.epoch, 1, UINT64_MAX),
    PART(RETIRE, NUMBER, epoch.epoch, 1, UINT64_MAX),
    PART(EVICT, NUMBER, evict.pid, 1, INT32_MAX),
    PART(WELCOME, NUMBER, welcome.epoch, 1, UINT64_MAX),
    PART(WELCOME, NUMBER, welcome.pid, 1, INT32_MAX),
    PART(WELCOME, NAME, welcome.pool, 1, 0),
    PART(WELCOME, NAME, welcome.uuid, 1, 0),
    PART(REFUSED, NUMBER, refused.status, 1, 17),
    PART(REFUSED, TEXT, refused.text, 0, 0),
    PART(DENIED, NUMBER, refused.status, 1, 17),
    PART(DENIED, TEXT, refused.text, 0, 0),
    PART(IMPORTER, NUMBER, importer.pid, 1, INT32_MAX),
    PART(IMPORTER, NUMBER, importer.uid, 0, UINT32_MAX),
    PART(IMPORTER, NUMBER, importer.state, WIRE_STATE_CONNECTED, WIRE_STATE_EVICTED),
    PART(IMPORTER, NUMBER, importer.leases, 0, UINT32_MAX),
    PART(IMPORTER, NUMBER, importer.mappings, 0, UINT32_MAX),
    PART(IMPORTER, NUMBER, importer.idle_ms, 0, UINT64_MAX),
    PART(IMPORTER, NAME, importer.name, 0, 0),
    PART(HOLDS, NUMBER, holds.pid, 1, INT32_MAX),
    PART(HOLDS, NUMBER, holds.hold, WIRE_HOLD_LEASED, WIRE_HOLD_MAPPED),
    PART(HOLDS, NUMBER, holds.ring, 0, UINT32_MAX),
    PART(HOLDS, NUMBER, holds.sequence, 0, UINT64_MAX),
    PART(HOLDS, NUMBER, holds.block, 1, UINT64_MAX),
    PART(HOLDS, NUMBER, holds.size, 1, UINT64_MAX),
    PART(HOLDS, NUMBER, holds.held_ms, 0, UINT64_MAX),
    PART(HOLDS, NAME, holds.name, 1, 0),
    PART(EXPORT, COUNTS, export.importers, 0, 15),
    PART(RING, NUMBER, ring.ring, 1, UINT32_MAX),
    PART(RING, NUMBER, ring.overflow, 0, 2),
    PART(RING, COUNTS, ring.slot_size, 0, 14),
    PART(RING, NAME, ring.name, 1, 0),
    PART(OFFER, NAME, offer.uuid, 1, 0),
    PART(GIVE, NUMBER, give.bytes, 1, UINT64_MAX),
    PART(GIVE, NUMBER, give.deadline_ms, 0, WIRE_GIVE_MAX_MS),
    PART(GIVE, NUMBER, give.flags, 0, 1),
    PART(GIVE, NAME, give.uuid, 1, 0),
    PART(TRIM, NUMBER, trim.keep, 0, UINT64_MAX),
    PART(TRIM, NUMBER, trim.deadline_ms, 0, WIRE_GIVE_MAX_MS),
    PART(TRIM, NAME, trim.pool, 0, 0),
    PART(SLEEP, NUMBER, sleep.deadline_ms, 0, WIRE_GIVE_MAX_MS),
    PART(SLEEP, NAME, sleep.pool, 0, 0),
    PART(WAKE, NUMBER, sleep.deadline_ms, 0, WIRE_GIVE_MAX_MS),
    PART(WAKE, NAME, sleep.pool, 0, 0),
    PART(SET, TEXT, set.text, 1, 0),
    PART(OFFERED, COUNTS, offered.bytes, 0, 2),
    PART(PAGE, NUMBER, page.address, 1, UINT64_MAX),
    PART(PAGE, NUMBER, page.bytes, 1, UINT64_MAX),
    PART(PAGE, NUMBER, page.number, 1, UINT64_MAX),
    PART(PAGE, NUMBER, page.offset, 0, UINT64_MAX),
    PART(PAGED, NUMBER, paged.bytes, 1, UINT64_MAX),
    PART(RECORD, NUMBER, record.level, 1, 2),
    PART(RECORD, NUMBER, record.flags, 0, 1),
    PART(RECORDED, COUNTS, recorded.bytes, 0, 3),
    PART(RECORDED, NUMBER, recorded.error, 0, UINT32_MAX),
    PART(TEXT, TEXT, piece.text, 1, 0),
    PART(GAVE, COUNTS, gave.bytes, 0, 2),
#undef PART
};

static void random_number(uint64_t *seed, const struct part *part, unsigned char *to)
{
    uint64_t number = between(seed, part->min, part->max);
    if (part->size == sizeof(uint16_t))
        memcpy(to, &(uint16_t){ (uint16_t)number }, sizeof(uint16_t));
    else if (part->size == sizeof(uint32_t))
        memcpy(to, &(uint32_t){ (uint32_t)number }, sizeof(uint32_t));
    else
        memcpy(to, &number, sizeof(number));
}

static void random_part(uint64_t *seed, const struct part *part, unsigned char *to)
{
    switch (part->kind) {
    case NUMBER:
        random_number(seed, part, to);
        break;
    case COUNTS:
        for (size_t i = 0; i < part->max; i++)
            memcpy(to + i * sizeof(uint64_t), &(uint64_t){ between(seed, 0, UINT64_MAX) }, sizeof(uint64_t));
        break;
    case NAME:
        random_string(seed, "abcxyzABCXYZ0189_-.", part->min, (char *)to, part->size);
        break;
    case TEXT:
        random_string(seed, "ab ~\n\xc3\xa9", part->min, (char *)to, part->size);
        break;
    }
}

/* Those of which one part says what another may be. */

static void random_lease(uint64_t *seed, struct wire_message *message)
{
    bool frame = next(seed) % 2;
    message->request = frame ? 0 : (uint32_t)between(seed, 1, UINT32_MAX);
    message->u.lease.lease = (uint32_t)between(seed, 0, WIRE_LEASES_MAX - 1);
    message->u.lease.ring = frame ? (uint32_t)between(seed, 1, UINT32_MAX) : 0;
    message->u.lease.flags = (uint32_t)between(seed, 0, WIRE_HAS_BLOCK | WIRE_HAS_RELEASE);
    message->u.lease.metadata_size = (uint32_t)between(seed, 0, WIRE_METADATA_MAX);
    message->u.lease.sequence = frame ? between(seed, 1, UINT64_MAX) : 0;
    message->u.lease.block = between(seed, 1, UINT64_MAX);
    message->u.lease.size = between(seed, 0, UINT64_MAX);
    random_bytes(seed, message->u.lease.metadata, message->u.lease.metadata_size);
    if (message->u.lease.flags & WIRE_HAS_BLOCK) {
        message->u.lease.block_size = between(seed, message->u.lease.size ? message->u.lease.size : 1, UINT64_MAX);
        random_bytes(seed, &message->u.lease.shared, sizeof(message->u.lease.shared));
        random_bytes(seed, &message->u.lease.ready, sizeof(message->u.lease.ready));
    }
    if (message->u.lease.flags & WIRE_HAS_RELEASE)
        random_bytes(seed, &message->u.lease.release, sizeof(message->u.lease.release));
}

static void random_subscribed(uint64_t *seed, struct wire_message *message)
{
    message->u.subscribed.ring = (uint32_t)between(seed, 1, UINT32_MAX);
    message->u.subscribed.depth = (uint32_t)between(seed, 2, WIRE_LEASES_MAX);
    message->u.subscribed.leases = (uint32_t)between(seed, 1, message->u.subscribed.depth - 1);
    message->u.subscribed.slot_size = between(seed, 1, UINT64_MAX);
}

void wire_random(uint64_t *seed, struct wire_message *message)
{
    memset(message, 0, sizeof(*message));
    const struct wire_golden *like = &wire_goldens[next(seed) % wire_golden_count];
    message->type = like->message.type;
    message->request = like->message.request ? (uint32_t)between(seed, 1, UINT32_MAX) : 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].type == message->type)
            random_part(seed, &parts[i], (unsigned char *)message + parts[i].offset);
    if (message->type == WIRE_LEASE)
        random_lease(seed, message);
    if (message->type == WIRE_SUBSCRIBED)
        random_subscribed(seed, message);
}
