/* SPDX-License-Identifier: MIT */
#include "tests/unit/wire_data.h"

#include <string.h>

#define HEADER(number, length, request) 'W', 'E', 'I', 'R', 1, 0, number, 0, (length) & 0xff, (length) >> 8, 0, 0, request, 0, 0, 0

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
    {{WIRE_STATS, 64, {{0}}}, 16, {HEADER(64, 0, 64)}},
    {{WIRE_OFFER, 65, {.offer = {"GPU-01"}}}, 64, {HEADER(65, 48, 65), [16] = 'G', 'P', 'U', '-', '0', '1'}},
    {{WIRE_GIVE, 66, {.give = {UINT64_C(1) << 32, 600000, "GPU-01"}}},
     76,
     {HEADER(66, 60, 66), [20] = 1, [24] = 0xc0, 0x27, 9, [28] = 'G', 'P', 'U', '-', '0', '1'}},
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
    {{WIRE_TAGS, 72, {{0}}}, 16, {HEADER(72, 0, 72)}},
    {{WIRE_AUDITS, 73, {{0}}}, 16, {HEADER(73, 0, 73)}},
    {{WIRE_PROCESS, 64, {.process = {1234, 1, 2, 0x10000, "trainer", "1.0", "/a b\xc3\xa9"}}},
     424,
     {HEADER(96, 408, 64), [16] = 0xd2, 4, [20] = 1, [24] = 2, [34] = 1, [40] = 't', 'r', 'a', 'i', 'n', 'e', 'r',
      [104] = '1', '.', '0', [168] = '/', 'a', ' ', 'b', 0xc3, 0xa9}},
    {{WIRE_DEVICE, 64, {.device = {1, "GPU-01", 2, 3, 4, {5, 6, 7, 8, 9}, 10, 11, 12, 13}}},
     168,
     {HEADER(97, 152, 64), [16] = 1, [24] = 'G', 'P', 'U', '-', '0', '1', [72] = 2, [80] = 3, [88] = 4, [96] = 5, [104] = 6,
      [112] = 7, [120] = 8, [128] = 9, [136] = 10, [144] = 11, [152] = 12, [160] = 13}},
    {{WIRE_POOL, 64, {.pool = {1, 3, "frames", 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}}},
     216,
     {HEADER(98, 200, 64), [16] = 1, [20] = 3, [24] = 'f', 'r', 'a', 'm', 'e', 's', [88] = 4, [96] = 5, [104] = 6, [112] = 7, [120] = 8,
      [128] = 9, [136] = 10, [144] = 11, [152] = 12, [160] = 13, [168] = 14, [176] = 15, [184] = 16, [192] = 17, [200] = 18, [208] = 19}},
    {{WIRE_OFFERED, 65, {.offered = {UINT64_C(0x0807060504030201)}}}, 24, {HEADER(99, 8, 65), [16] = 1, 2, 3, 4, 5, 6, 7, 8}},
    {{WIRE_GAVE, 66, {.gave = {256, 65536}}}, 32, {HEADER(100, 16, 66), [17] = 1, [26] = 1}},
    {{WIRE_READY, 68, {{0}}}, 16, {HEADER(101, 0, 68)}},
    {{WIRE_DENIED, 66, {.refused = {11, "no"}}}, 276, {HEADER(102, 260, 66), [16] = 11, [20] = 'n', 'o'}},
    {{WIRE_DENIED, 0, {.refused = {16, ""}}}, 276, {HEADER(102, 260, 0), [16] = 16}},
    {{WIRE_RECORDED, 70, {.recorded = {1, 2, 3, 4}}}, 48, {HEADER(103, 32, 70), [16] = 1, [24] = 2, [32] = 3, [40] = 4}},
    {{WIRE_TAG, 72, {.tag = {"a b", 1, 2, 3}}},
     104,
     {HEADER(104, 88, 72), [16] = 'a', ' ', 'b', [80] = 1, [88] = 2, [96] = 3}},
    {{WIRE_AUDIT, 73, {.audit = {1, 3, "frames", 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}},
     168,
     {HEADER(105, 152, 73), [16] = 1, [20] = 3, [24] = 'f', 'r', 'a', 'm', 'e', 's', [88] = 4, [96] = 5, [104] = 6, [112] = 7, [120] = 8,
      [128] = 9, [136] = 10, [144] = 11, [152] = 12, [160] = 13}},
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

static void random_name(uint64_t *seed, size_t min, char *name, size_t size)
{
    random_string(seed, "abcxyzABCXYZ0189_-.", min, name, size);
}

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
    message->u.lease.size = between(seed, 1, UINT64_MAX);
    random_bytes(seed, message->u.lease.metadata, message->u.lease.metadata_size);
    if (message->u.lease.flags & WIRE_HAS_BLOCK) {
        message->u.lease.block_size = between(seed, message->u.lease.size, UINT64_MAX);
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

static void random_importer(uint64_t *seed, struct wire_message *message)
{
    message->u.importer.pid = (int32_t)between(seed, 1, INT32_MAX);
    message->u.importer.uid = (uint32_t)next(seed);
    message->u.importer.state = (uint16_t)between(seed, WIRE_STATE_CONNECTED, WIRE_STATE_EVICTED);
    message->u.importer.leases = (uint32_t)next(seed);
    message->u.importer.mappings = (uint32_t)next(seed);
    message->u.importer.idle_ms = between(seed, 0, UINT64_MAX);
    random_name(seed, 0, message->u.importer.name, WIRE_NAME_SIZE);
}

static void random_holds(uint64_t *seed, struct wire_message *message)
{
    message->u.holds.pid = (int32_t)between(seed, 1, INT32_MAX);
    message->u.holds.hold = (uint16_t)between(seed, WIRE_HOLD_LEASED, WIRE_HOLD_MAPPED);
    message->u.holds.ring = (uint32_t)between(seed, 0, UINT32_MAX);
    message->u.holds.sequence = between(seed, 0, UINT64_MAX);
    message->u.holds.block = between(seed, 1, UINT64_MAX);
    message->u.holds.size = between(seed, 1, UINT64_MAX);
    message->u.holds.held_ms = between(seed, 0, UINT64_MAX);
    random_name(seed, 1, message->u.holds.name, WIRE_NAME_SIZE);
}

static void random_welcome(uint64_t *seed, struct wire_message *message)
{
    message->u.welcome.epoch = between(seed, 1, UINT64_MAX);
    message->u.welcome.pid = (int32_t)between(seed, 1, INT32_MAX);
    random_name(seed, 1, message->u.welcome.pool, WIRE_NAME_SIZE);
    random_name(seed, 1, message->u.welcome.uuid, WIRE_UUID_SIZE);
}

static void random_text(uint64_t *seed, size_t min, char *text)
{
    random_string(seed, "ab ~\n\xc3\xa9", min, text, WIRE_TEXT_SIZE);
}

static void random_numbers(uint64_t *seed, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = between(seed, 0, UINT64_MAX);
}

static void random_give(uint64_t *seed, struct wire_message *message)
{
    message->u.give.bytes = between(seed, 1, UINT64_MAX);
    message->u.give.deadline_ms = (uint32_t)between(seed, 0, WIRE_GIVE_MAX_MS);
    random_name(seed, 1, message->u.give.uuid, WIRE_UUID_SIZE);
}

static void random_trim(uint64_t *seed, struct wire_message *message)
{
    message->u.trim.keep = between(seed, 0, UINT64_MAX);
    message->u.trim.deadline_ms = (uint32_t)between(seed, 0, WIRE_GIVE_MAX_MS);
    random_name(seed, 0, message->u.trim.pool, WIRE_NAME_SIZE);
}

static void random_process(uint64_t *seed, struct wire_message *message)
{
    message->u.process.pid = (int32_t)between(seed, 1, INT32_MAX);
    message->u.process.devices = (uint32_t)next(seed);
    message->u.process.pools = (uint32_t)next(seed);
    message->u.process.age_ms = between(seed, 0, UINT64_MAX);
    random_name(seed, 0, message->u.process.program, WIRE_NAME_SIZE);
    random_name(seed, 1, message->u.process.version, WIRE_NAME_SIZE);
    random_text(seed, 0, message->u.process.policy);
}

/* The members that are all of one type stand in a row. */
static void random_device(uint64_t *seed, struct wire_message *message)
{
    message->u.device.index = (uint32_t)next(seed);
    random_name(seed, 1, message->u.device.uuid, WIRE_UUID_SIZE);
    random_numbers(seed, &message->u.device.memory, 3);
    random_numbers(seed, message->u.device.rescues, WIRE_RUNGS);
    random_numbers(seed, &message->u.device.asks_sent, 4);
}

static void random_pool(uint64_t *seed, struct wire_message *message)
{
    message->u.pool.device = (uint32_t)next(seed);
    message->u.pool.flags = (uint32_t)between(seed, 0, WIRE_POOL_PRIVATE | WIRE_POOL_EXPORTABLE);
    random_name(seed, 1, message->u.pool.name, WIRE_NAME_SIZE);
    random_numbers(seed, &message->u.pool.live, 16);
}

static void random_ring(uint64_t *seed, struct wire_message *message)
{
    message->u.ring.ring = (uint32_t)between(seed, 1, UINT32_MAX);
    message->u.ring.overflow = (uint32_t)between(seed, 0, 2);
    random_numbers(seed, &message->u.ring.slot_size, 14);
    random_name(seed, 1, message->u.ring.name, WIRE_NAME_SIZE);
}

void wire_random(uint64_t *seed, struct wire_message *message)
{
    memset(message, 0, sizeof(*message));
    const struct wire_golden *like = &wire_goldens[next(seed) % wire_golden_count];
    message->type = like->message.type;
    message->request = like->message.request ? (uint32_t)between(seed, 1, UINT32_MAX) : 0;
    switch (message->type) {
    case WIRE_HELLO:
        message->u.hello.role = (uint16_t)between(seed, WIRE_ROLE_IMPORTER, WIRE_ROLE_OBSERVER);
        random_name(seed, 0, message->u.hello.name, WIRE_NAME_SIZE);
        break;
    case WIRE_ACQUIRE:
        message->u.acquire.flags = (uint32_t)between(seed, 0, WIRE_WAIT);
        random_name(seed, 1, message->u.acquire.name, WIRE_NAME_SIZE);
        break;
    case WIRE_SUBSCRIBE:
        message->u.subscribe.leases = (uint32_t)between(seed, 0, WIRE_LEASES_MAX - 1);
        random_name(seed, 1, message->u.subscribe.name, WIRE_NAME_SIZE);
        break;
    case WIRE_UNSUBSCRIBE:
    case WIRE_ENDED:
        message->u.ended.ring = (uint32_t)between(seed, 1, UINT32_MAX);
        break;
    case WIRE_RELEASE:
        message->u.release.lease = (uint32_t)between(seed, 0, WIRE_LEASES_MAX - 1);
        message->u.release.how = (uint16_t)between(seed, WIRE_HOW_EVENT, WIRE_HOW_DONE);
        break;
    case WIRE_UNMAPPED:
    case WIRE_WITHDRAW:
        message->u.block.block = between(seed, 1, UINT64_MAX);
        break;
    case WIRE_RETIRED:
    case WIRE_RETIRE:
        message->u.epoch.epoch = between(seed, 1, UINT64_MAX);
        break;
    case WIRE_EVICT:
        message->u.evict.pid = (int32_t)between(seed, 1, INT32_MAX);
        break;
    case WIRE_WELCOME:
        random_welcome(seed, message);
        break;
    case WIRE_REFUSED:
    case WIRE_DENIED:
        message->u.refused.status = (uint32_t)between(seed, 1, 17);
        random_text(seed, 0, message->u.refused.text);
        break;
    case WIRE_LEASE:
        random_lease(seed, message);
        break;
    case WIRE_SUBSCRIBED:
        random_subscribed(seed, message);
        break;
    case WIRE_IMPORTER:
        random_importer(seed, message);
        break;
    case WIRE_HOLDS:
        random_holds(seed, message);
        break;
    case WIRE_EXPORT:
        random_numbers(seed, &message->u.export.importers, 15);
        break;
    case WIRE_RING:
        random_ring(seed, message);
        break;
    case WIRE_OFFER:
        random_name(seed, 1, message->u.offer.uuid, WIRE_UUID_SIZE);
        break;
    case WIRE_GIVE:
        random_give(seed, message);
        break;
    case WIRE_TRIM:
        random_trim(seed, message);
        break;
    case WIRE_SET:
        random_text(seed, 1, message->u.set.text);
        break;
    case WIRE_PROCESS:
        random_process(seed, message);
        break;
    case WIRE_DEVICE:
        random_device(seed, message);
        break;
    case WIRE_POOL:
        random_pool(seed, message);
        break;
    case WIRE_OFFERED:
        message->u.offered.bytes = between(seed, 0, UINT64_MAX);
        break;
    case WIRE_RECORD:
        message->u.record.level = (uint32_t)between(seed, 1, 2);
        message->u.record.flags = (uint32_t)between(seed, 0, 1);
        break;
    case WIRE_RECORDED:
        random_numbers(seed, &message->u.recorded.bytes, 3);
        message->u.recorded.error = (uint32_t)between(seed, 0, UINT32_MAX);
        break;
    case WIRE_TAG:
        random_name(seed, 1, message->u.tag.name, WIRE_NAME_SIZE);
        random_numbers(seed, &message->u.tag.live, 3);
        break;
    case WIRE_AUDIT:
        message->u.audit.device = (uint32_t)between(seed, 0, UINT32_MAX);
        message->u.audit.flags = (uint32_t)between(seed, 0, 3);
        random_name(seed, 1, message->u.audit.name, WIRE_NAME_SIZE);
        random_numbers(seed, &message->u.audit.kept_used, 10);
        break;
    case WIRE_GAVE:
        random_numbers(seed, &message->u.gave.bytes, 2);
        break;
    case WIRE_CANCEL:
    case WIRE_GOODBYE:
    case WIRE_LIST:
    case WIRE_COUNT:
    case WIRE_DONE:
    case WIRE_STATS:
    case WIRE_RELOAD:
    case WIRE_STOP:
    case WIRE_TAGS:
    case WIRE_AUDITS:
    case WIRE_READY:
        break;
    }
}
