/* SPDX-License-Identifier: MIT */
/* The messages of shared pools and control sockets as bytes: what doc/protocol.md says, both ways, and all that it does not allow. */
#include "share/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/wire_data.h"

#define RANDOM_MESSAGES 20000

static enum wire_fault decode(const unsigned char *bytes, size_t len, struct wire_message *message)
{
    return wire_decode(bytes, len, message, NULL);
}

/* The packet in memory of its own size, so that a sanitizer sees a read behind it. */
static enum wire_fault decode_exactly(const unsigned char *bytes, size_t len)
{
    unsigned char *copy = malloc(len > 0 ? len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, len);
    struct wire_message message;
    enum wire_fault fault = decode(copy, len, &message);
    free(copy);
    return fault;
}

static struct wire_golden copy_of(enum wire_type type)
{
    return *wire_golden_of(type);
}

/* Both ways ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(message_is_encoded_as_documented)
{
    const struct wire_golden *golden = &wire_goldens[_i];
    unsigned char bytes[WIRE_SIZE_MAX];
    memset(bytes, 0xa5, sizeof(bytes));
    ck_assert_uint_eq(wire_encode(&golden->message, bytes), golden->len);
    ck_assert_mem_eq(bytes, golden->bytes, golden->len);
}
END_TEST

/* Padding between the members is zero on both sides: the golden ones are static, and the decoder starts from zeros. */
START_TEST(documented_bytes_are_decoded)
{
    const struct wire_golden *golden = &wire_goldens[_i];
    struct wire_message message;
    memset(&message, 0xa5, sizeof(message));
    ck_assert_int_eq(decode(golden->bytes, golden->len, &message), WIRE_GOOD);
    ck_assert_mem_eq(&message, &golden->message, sizeof(message));
}
END_TEST

START_TEST(every_type_has_documented_bytes)
{
#define EXPECT_GOLDEN(name, number, member, sender, request) ck_assert_msg(wire_golden_of(WIRE_##name), "%s has none", #name);
    WIRE_TYPE_LIST(EXPECT_GOLDEN)
#undef EXPECT_GOLDEN
}
END_TEST

START_TEST(random_messages_come_back_as_they_were)
{
    uint64_t seed = 1;
    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        struct wire_message message, back;
        unsigned char bytes[WIRE_SIZE_MAX];
        wire_random(&seed, &message);
        size_t len = wire_encode(&message, bytes);
        ck_assert_int_eq(decode(bytes, len, &back), WIRE_GOOD);
        if (memcmp(&message, &back, sizeof(message)) != 0)
            ck_abort_msg("message %d, a %s, came back another", i, wire_type_name(message.type));
    }
}
END_TEST

START_TEST(changed_bytes_are_refused_or_come_back_as_they_are)
{
    uint64_t seed = 2;
    unsigned accepted = 0;
    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        struct wire_message message;
        unsigned char bytes[WIRE_SIZE_MAX], again[WIRE_SIZE_MAX];
        wire_random(&seed, &message);
        size_t len = wire_encode(&message, bytes);
        bytes[(seed >> 8) % len] ^= (unsigned char)(1u << (seed & 7));
        if (decode(bytes, len, &message) != WIRE_GOOD)
            continue;
        accepted++;
        ck_assert_uint_eq(wire_encode(&message, again), len);
        ck_assert_mem_eq(again, bytes, len);
    }
    ck_assert_uint_gt(accepted, 0);
}
END_TEST

START_TEST(bytes_behind_the_end_of_a_string_are_not_sent)
{
    struct wire_golden golden = copy_of(WIRE_ACQUIRE);
    unsigned char bytes[WIRE_SIZE_MAX];
    memset(golden.message.u.acquire.name + strlen("weights") + 1, 'x', WIRE_NAME_SIZE - strlen("weights") - 1);
    ck_assert_uint_eq(wire_encode(&golden.message, bytes), golden.len);
    ck_assert_mem_eq(bytes, golden.bytes, golden.len);
}
END_TEST

START_TEST(message_of_no_type_has_no_bytes)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    static const unsigned gaps[][2] = {{13, 31}, {44, 64}, {72, 75}, {79, 79}, {81, 98}, {104, 107}, {109, 111}, {113, 300}};
    for (size_t gap = 0; gap < sizeof(gaps) / sizeof(gaps[0]); gap++)
        for (unsigned type = gaps[gap][0]; type <= gaps[gap][1]; type++)
            ck_assert_uint_eq(wire_encode(&(struct wire_message){.type = (enum wire_type)type}, bytes), 0);
}
END_TEST

START_TEST(largest_message_fits)
{
    struct wire_message message = wire_golden_of(WIRE_LEASE)->message;
    unsigned char bytes[WIRE_SIZE_MAX];
    message.u.lease.metadata_size = WIRE_METADATA_MAX;
    ck_assert_uint_eq(wire_encode(&message, bytes), 512);
    ck_assert_int_eq(decode(bytes, 512, &message), WIRE_GOOD);
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(every_shorter_packet_is_refused)
{
    const struct wire_golden *golden = &wire_goldens[_i];
    for (size_t len = 0; len < golden->len; len++)
        ck_assert_int_eq(decode_exactly(golden->bytes, len), len < 8 ? WIRE_NOT_WEIR : WIRE_MALFORMED);
}
END_TEST

/* Also where the header agrees that it is shorter, or longer. */
START_TEST(every_other_length_is_refused)
{
    struct wire_golden golden = wire_goldens[_i];
    for (size_t len = WIRE_HEADER_SIZE; len <= WIRE_SIZE_MAX; len++) {
        golden.bytes[8] = (unsigned char)((len - WIRE_HEADER_SIZE) & 0xff);
        golden.bytes[9] = (unsigned char)((len - WIRE_HEADER_SIZE) >> 8);
        ck_assert_int_eq(decode_exactly(golden.bytes, len), len == golden.len ? WIRE_GOOD : WIRE_MALFORMED);
    }
}
END_TEST

START_TEST(length_that_is_not_the_packets_is_refused)
{
    struct wire_golden golden = wire_goldens[_i];
    for (size_t at = 8; at < 12; at++) {
        golden.bytes[at]++;
        ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_MALFORMED);
        golden.bytes[at]--;
    }
}
END_TEST

START_TEST(packet_over_the_limit_is_refused)
{
    static unsigned char bytes[WIRE_SIZE_MAX + 1];
    memcpy(bytes, wire_golden_of(WIRE_DONE)->bytes, WIRE_HEADER_SIZE);
    bytes[8] = (sizeof(bytes) - WIRE_HEADER_SIZE) & 0xff;
    bytes[9] = (sizeof(bytes) - WIRE_HEADER_SIZE) >> 8;
    ck_assert_int_eq(decode_exactly(bytes, sizeof(bytes)), WIRE_MALFORMED);
}
END_TEST

START_TEST(request_number_is_there_exactly_where_it_has_a_meaning)
{
    struct wire_golden golden = wire_goldens[_i];
    bool is_set = golden.message.request != 0;
    bool either = golden.message.type == WIRE_REFUSED || golden.message.type == WIRE_DENIED;
    memset(golden.bytes + 12, is_set ? 0 : 1, 4);
    ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), either ? WIRE_GOOD : WIRE_MALFORMED);
}
END_TEST

START_TEST(other_magic_is_not_weirs)
{
    struct wire_golden golden = wire_goldens[_i];
    for (size_t at = 0; at < 4; at++) {
        golden.bytes[at] ^= 0x20;
        ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_NOT_WEIR);
        golden.bytes[at] ^= 0x20;
    }
}
END_TEST

START_TEST(other_version_is_told_from_the_first_eight_bytes)
{
    struct wire_golden golden = copy_of(WIRE_HELLO);
    struct wire_message message;
    for (unsigned version = 0; version <= UINT16_MAX; version++) {
        if (version == WIRE_SHARE_VERSION)
            continue;
        uint16_t theirs = WIRE_SHARE_VERSION;
        golden.bytes[4] = version & 0xff;
        golden.bytes[5] = (unsigned char)(version >> 8);
        ck_assert_int_eq(wire_decode(golden.bytes, version % 2 ? 8 : golden.len, &message, &theirs), WIRE_OTHER_VERSION);
        ck_assert_uint_eq(theirs, version);
    }
}
END_TEST

START_TEST(version_of_the_other_kind_of_socket_is_another_one)
{
    struct wire_golden golden = wire_goldens[_i];
    uint16_t version = 0;
    struct wire_message message;
    golden.bytes[4] ^= WIRE_SHARE_VERSION ^ WIRE_CONTROL_VERSION;
    ck_assert_int_eq(wire_decode(golden.bytes, golden.len, &message, &version), WIRE_OTHER_VERSION);
    ck_assert_uint_eq(version, golden.bytes[4]);
    ck_assert_int_ne(version, golden.message.type < WIRE_CONTROL_TYPE ? WIRE_SHARE_VERSION : WIRE_CONTROL_VERSION);
}
END_TEST

START_TEST(version_may_be_asked_by_nobody)
{
    struct wire_golden golden = copy_of(WIRE_HELLO);
    golden.bytes[4] = 2;
    ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_OTHER_VERSION);
}
END_TEST

START_TEST(unknown_types_are_refused)
{
    struct wire_golden golden = copy_of(WIRE_DONE);
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        golden.bytes[6] = type & 0xff;
        golden.bytes[7] = (unsigned char)(type >> 8);
        golden.bytes[4] = type < WIRE_CONTROL_TYPE ? WIRE_SHARE_VERSION : WIRE_CONTROL_VERSION;
        bool is_empty = type == WIRE_CANCEL || type == WIRE_LIST || type == WIRE_COUNT || type == WIRE_DONE || type == WIRE_RELOAD ||
                        type == WIRE_STOP || type == WIRE_FIGURES || type == WIRE_READY;
        ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), is_empty ? WIRE_GOOD : WIRE_MALFORMED);
    }
}
END_TEST

START_TEST(refused_packet_leaves_the_message_alone)
{
    struct wire_golden golden = copy_of(WIRE_HOLDS);
    struct wire_message message, before;
    memset(&message, 0xa5, sizeof(message));
    memcpy(&before, &message, sizeof(before));
    golden.bytes[64] = ' ';
    ck_assert_int_eq(decode(golden.bytes, golden.len, &message), WIRE_MALFORMED);
    ck_assert_mem_eq(&message, &before, sizeof(message));
}
END_TEST

/* One number of a golden message made another: `width` bytes at `at`. */
static const struct change {
    const char *what;
    enum wire_type type;
    unsigned at, width;
    uint64_t value;
} changes[] = {
    {"role 0", WIRE_HELLO, 16, 2, 0},
    {"role 3", WIRE_HELLO, 16, 2, 3},
    {"bytes behind the role", WIRE_HELLO, 18, 1, 1},
    {"bytes behind the role", WIRE_HELLO, 19, 1, 1},
    {"a letter behind the name", WIRE_HELLO, 22, 1, 'x'},
    {"a space in a name", WIRE_HELLO, 20, 1, ' '},
    {"unknown flags", WIRE_ACQUIRE, 16, 4, 2},
    {"unknown flags", WIRE_ACQUIRE, 16, 4, 0x80000001},
    {"no name", WIRE_ACQUIRE, 20, 8, 0},
    {"a slash", WIRE_ACQUIRE, 20, 1, '/'},
    {"a control character", WIRE_ACQUIRE, 20, 1, 27},
    {"no ASCII", WIRE_ACQUIRE, 20, 1, 0xe9},
    {"1,024 leases at a time", WIRE_SUBSCRIBE, 16, 4, 1024},
    {"no ring", WIRE_UNSUBSCRIBE, 16, 4, 0},
    {"lease 1,024", WIRE_RELEASE, 16, 4, 1024},
    {"how 0", WIRE_RELEASE, 20, 2, 0},
    {"how 3", WIRE_RELEASE, 20, 2, 3},
    {"bytes behind how", WIRE_RELEASE, 22, 2, 0x100},
    {"no block", WIRE_UNMAPPED, 16, 8, 0},
    {"no epoch", WIRE_RETIRED, 16, 8, 0},
    {"pid 0", WIRE_EVICT, 16, 4, 0},
    {"pid -1", WIRE_EVICT, 16, 4, UINT32_MAX},
    {"pid INT32_MIN", WIRE_EVICT, 16, 4, 0x80000000},
    {"no epoch", WIRE_WELCOME, 16, 8, 0},
    {"pid 0", WIRE_WELCOME, 24, 4, 0},
    {"no pool", WIRE_WELCOME, 28, 8, 0},
    {"no uuid", WIRE_WELCOME, 92, 8, 0},
    {"a slash in the uuid", WIRE_WELCOME, 95, 1, '/'},
    {"status 0", WIRE_REFUSED, 16, 4, 0},
    {"status 18", WIRE_REFUSED, 16, 4, 18},
    {"an escape in the text", WIRE_REFUSED, 20, 1, 27},
    {"a delete in the text", WIRE_REFUSED, 20, 1, 127},
    {"a letter behind the text", WIRE_REFUSED, 275, 1, 'x'},
    {"lease 1,024", WIRE_LEASE, 16, 4, 1024},
    {"a ring without sequence", WIRE_LEASE, 20, 4, 1},
    {"unknown flags", WIRE_LEASE, 24, 4, 7},
    {"parts that no flag names", WIRE_LEASE, 24, 4, 1},
    {"257 bytes of metadata", WIRE_LEASE, 28, 4, 257},
    {"metadata that are not there", WIRE_LEASE, 28, 4, 1},
    {"as many metadata as overflow", WIRE_LEASE, 28, 4, UINT32_MAX},
    {"a sequence without ring", WIRE_LEASE, 32, 8, 1},
    {"no block", WIRE_LEASE, 40, 8, 0},
    {"more than the block", WIRE_LEASE, 48, 8, 513},
    {"a block of 0 bytes", WIRE_LEASE, 56, 8, 0},
    {"no ring", WIRE_SUBSCRIBED, 16, 4, 0},
    {"a depth of 1", WIRE_SUBSCRIBED, 20, 4, 1},
    {"a depth of 1,025", WIRE_SUBSCRIBED, 20, 4, 1025},
    {"no leases", WIRE_SUBSCRIBED, 24, 4, 0},
    {"as many leases as slots", WIRE_SUBSCRIBED, 20, 4, 1023},
    {"bytes behind leases", WIRE_SUBSCRIBED, 28, 4, 1},
    {"no slot size", WIRE_SUBSCRIBED, 32, 8, 0},
    {"no block", WIRE_WITHDRAW, 16, 8, 0},
    {"no epoch", WIRE_RETIRE, 16, 8, 0},
    {"no ring", WIRE_ENDED, 16, 4, 0},
    {"pid 0", WIRE_IMPORTER, 16, 4, 0},
    {"state 0", WIRE_IMPORTER, 24, 2, 0},
    {"state 4", WIRE_IMPORTER, 24, 2, 4},
    {"bytes behind the state", WIRE_IMPORTER, 26, 2, 1},
    {"bytes behind the mappings", WIRE_IMPORTER, 36, 4, 1},
    {"a tabulator in the name", WIRE_IMPORTER, 48, 1, '\t'},
    {"pid 0", WIRE_HOLDS, 16, 4, 0},
    {"hold 0", WIRE_HOLDS, 20, 2, 0},
    {"hold 4", WIRE_HOLDS, 20, 2, 4},
    {"bytes behind the hold", WIRE_HOLDS, 22, 2, 1},
    {"bytes behind the ring", WIRE_HOLDS, 28, 4, 1},
    {"no block", WIRE_HOLDS, 40, 8, 0},
    {"no size", WIRE_HOLDS, 48, 8, 0},
    {"no name", WIRE_HOLDS, 64, 8, 0},
    {"no ring", WIRE_RING, 16, 4, 0},
    {"overflow 3", WIRE_RING, 20, 4, 3},
    {"no name", WIRE_RING, 136, 8, 0},
    {"no level", WIRE_RECORD, 16, 4, 0},
    {"level 3", WIRE_RECORD, 16, 4, 3},
    {"flag 2", WIRE_RECORD, 20, 4, 2},
    {"something reserved", WIRE_RECORDED, 44, 4, 1},
    {"an empty piece", WIRE_TEXT, 16, 1, 0},
    {"an escape in the piece", WIRE_TEXT, 17, 1, 0x1b},
    {"a letter behind the piece", WIRE_TEXT, 1022, 1, 'x'},
    {"no end of the piece", WIRE_TEXT, 1023, 1, 'x'},
    {"no uuid", WIRE_OFFER, 16, 8, 0},
    {"no bytes", WIRE_GIVE, 16, 8, 0},
    {"a deadline of more than 10 minutes", WIRE_GIVE, 24, 4, 600001},
    {"flag 2", WIRE_GIVE, 28, 4, 2},
    {"no uuid", WIRE_GIVE, 32, 8, 0},
    {"a deadline of more than 10 minutes", WIRE_TRIM, 24, 4, 600001},
    {"a space in the pool's name", WIRE_TRIM, 29, 1, ' '},
    {"a deadline of more than 10 minutes", WIRE_SLEEP, 16, 4, 600001},
    {"a space in the pool's name", WIRE_WAKE, 21, 1, ' '},
    {"nothing to set", WIRE_SET, 16, 1, 0},
    {"a tabulator in what is to be set", WIRE_SET, 17, 1, '\t'},
    {"status 0", WIRE_DENIED, 16, 4, 0},
    {"status 18", WIRE_DENIED, 16, 4, 18},
};

START_TEST(value_out_of_its_range_is_refused)
{
    const struct change *change = &changes[_i];
    struct wire_golden golden = copy_of(change->type);
    ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_GOOD);
    for (unsigned i = 0; i < change->width; i++)
        golden.bytes[change->at + i] = (unsigned char)(change->value >> (8 * i));
    enum wire_fault fault = decode_exactly(golden.bytes, golden.len);
    ck_assert_msg(fault == WIRE_MALFORMED, "%s: %s is not refused", wire_type_name(change->type), change->what);
}
END_TEST

START_TEST(name_without_an_end_is_refused)
{
    struct wire_golden golden = copy_of(WIRE_ACQUIRE);
    memset(golden.bytes + 20, 'x', WIRE_NAME_SIZE - 1);
    ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_GOOD);
    memset(golden.bytes + 20, 'x', WIRE_NAME_SIZE);
    ck_assert_int_eq(decode_exactly(golden.bytes, golden.len), WIRE_MALFORMED);
}
END_TEST

START_TEST(every_byte_behind_the_metadata_has_to_be_zero)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message = wire_golden_of(WIRE_LEASE)->message;
    message.u.lease.metadata_size = 1;
    size_t len = wire_encode(&message, bytes);
    for (unsigned at = 57; at < 64; at++) {
        bytes[at] = 1;
        ck_assert_int_eq(decode_exactly(bytes, len), WIRE_MALFORMED);
        bytes[at] = 0;
    }
    ck_assert_int_eq(decode_exactly(bytes, len), WIRE_GOOD);
}
END_TEST

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(types_have_their_names)
{
    ck_assert_str_eq(wire_type_name(WIRE_HELLO), "HELLO");
    ck_assert_str_eq(wire_type_name(WIRE_HOLDS), "HOLDS");
    ck_assert_str_eq(wire_type_name(WIRE_FIGURES), "FIGURES");
    ck_assert_str_eq(wire_type_name(WIRE_DENIED), "DENIED");
    ck_assert_str_eq(wire_type_name((enum wire_type)0), "unknown");
    ck_assert_str_eq(wire_type_name((enum wire_type)31), "unknown");
    ck_assert_str_eq(wire_type_name((enum wire_type)44), "unknown");
    ck_assert_str_eq(wire_type_name((enum wire_type)109), "unknown");
}
END_TEST

START_TEST(each_32_numbers_have_one_sender)
{
#define EXPECT_SENDER(name, number, member, sender, request) ck_assert_int_eq(wire_sender(WIRE_##name), 1 + WIRE_##name / 32);
    WIRE_TYPE_LIST(EXPECT_SENDER)
#undef EXPECT_SENDER
    ck_assert_int_eq(wire_sender((enum wire_type)0), WIRE_NOBODY);
}
END_TEST

START_TEST(names_have_1_to_63_letters_digits_and_three_marks)
{
    char longest[WIRE_NAME_SIZE + 1];
    memset(longest, 'a', sizeof(longest));
    longest[WIRE_NAME_SIZE] = '\0';
    ck_assert(!wire_is_name(longest));
    longest[WIRE_NAME_SIZE - 1] = '\0';
    ck_assert(wire_is_name(longest));
    ck_assert(!wire_is_name(""));
    for (unsigned c = 1; c < 256; c++) {
        bool good = c < 128 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", (int)c);
        ck_assert_msg(wire_is_name((char[]){'a', (char)c, '\0'}) == good, "character %u", c);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *both = suite_case(suite, "both ways", 0);
    tcase_add_loop_test(both, message_is_encoded_as_documented, 0, (int)wire_golden_count);
    tcase_add_loop_test(both, documented_bytes_are_decoded, 0, (int)wire_golden_count);
    suite_add(both, every_type_has_documented_bytes, random_messages_come_back_as_they_were,
              changed_bytes_are_refused_or_come_back_as_they_are, bytes_behind_the_end_of_a_string_are_not_sent,
              message_of_no_type_has_no_bytes, largest_message_fits);

    TCase *refusals = suite_case(suite, "refusals", 0);
    tcase_add_loop_test(refusals, every_shorter_packet_is_refused, 0, (int)wire_golden_count);
    tcase_add_loop_test(refusals, every_other_length_is_refused, 0, (int)wire_golden_count);
    tcase_add_loop_test(refusals, length_that_is_not_the_packets_is_refused, 0, (int)wire_golden_count);
    suite_add(refusals, packet_over_the_limit_is_refused);
    tcase_add_loop_test(refusals, request_number_is_there_exactly_where_it_has_a_meaning, 0, (int)wire_golden_count);
    tcase_add_loop_test(refusals, other_magic_is_not_weirs, 0, (int)wire_golden_count);
    tcase_add_loop_test(refusals, version_of_the_other_kind_of_socket_is_another_one, 0, (int)wire_golden_count);
    suite_add(refusals, other_version_is_told_from_the_first_eight_bytes, version_may_be_asked_by_nobody, unknown_types_are_refused,
              refused_packet_leaves_the_message_alone);
    tcase_add_loop_test(refusals, value_out_of_its_range_is_refused, 0, (int)(sizeof(changes) / sizeof(changes[0])));
    suite_add(refusals, name_without_an_end_is_refused, every_byte_behind_the_metadata_has_to_be_zero);

    TCase *names = suite_case(suite, "names", 0);
    suite_add(names, types_have_their_names, each_32_numbers_have_one_sender, names_have_1_to_63_letters_digits_and_three_marks);
    return suite_run(suite);
}
