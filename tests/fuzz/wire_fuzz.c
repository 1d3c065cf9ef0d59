/* SPDX-License-Identifier: MIT */
/*
 * wire_fuzz.c - any bytes as a message of a shared pool or a control socket: what is accepted comes back byte for byte, and what is refused leaves nothing.
 *
 * `make wire-fuzz` builds it with libFuzzer. Built without, it runs the files that it is given through the same entry, as a test;
 * `wire_corpus --write DIR` writes the seeds.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/wire/wire.h"
#include "tests/fuzz/run_files.h"

/* Stops a fuzzer as a crash does, sanitizers or not. */
static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "wire_fuzz: %s\n", what);
    abort();
}

/* There is one way to write each message, so that nothing in a packet is lost or made up. */
static void use_message(const uint8_t *data, size_t size, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message again;
    require(size <= WIRE_SIZE_MAX, "a message over the limit");
    require(strcmp(wire_type_name(message->type), "unknown") != 0, "a type without a name");
    require(wire_encode(message, bytes) == size && memcmp(bytes, data, size) == 0, "a message that is not written as it was read");
    require(wire_decode(bytes, size, &again, NULL) == WIRE_GOOD && memcmp(&again, message, sizeof(again)) == 0, "a message that changes");
    if (message->type == WIRE_LEASE) {
        require(message->u.lease.metadata_size <= WIRE_METADATA_MAX, "metadata over the limit");
        require(!(message->u.lease.flags & WIRE_HAS_BLOCK) || message->u.lease.size <= message->u.lease.block_size, "more than the block");
    }
    if (message->type == WIRE_ACQUIRE)
        require(wire_is_name(message->u.acquire.name), "a name that is none");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_message message, before;
    memset(&message, 0xa5, sizeof(message));
    memcpy(&before, &message, sizeof(before));
    uint16_t version = 0;
    enum wire_fault fault = wire_decode(data, size, &message, &version);
    bool is_control = size > 6 && (data[6] >= WIRE_CONTROL_TYPE || (size > 7 && data[7]));
    uint16_t expected = is_control ? WIRE_CONTROL_VERSION : WIRE_SHARE_VERSION;
    bool is_other = size >= 8 && memcmp(data, "WEIR", 4) == 0 && (data[4] | data[5] << 8) != expected;
    require((fault == WIRE_OTHER_VERSION) == is_other, "a version that is taken for another one");
    require(version == (is_other ? data[4] | data[5] << 8 : 0), "a version that nobody wrote");
    if (fault == WIRE_GOOD)
        use_message(data, size, &message);
    else
        require(memcmp(&message, &before, sizeof(message)) == 0, "a refused packet that left something");
    return 0;
}

#ifndef WEIR_LIBFUZZER
#include "tests/unit/wire_data.h"

static bool write_seed(const char *folder, const char *name, unsigned number, const unsigned char *bytes, size_t len)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s-%u", folder, name, number);
    FILE *stream = fopen(path, "wb");
    if (!stream)
        return false;
    bool good = fwrite(bytes, 1, len, stream) == len;
    return fclose(stream) == 0 && good;
}

/* The documented messages. The longest one stands for what no list of examples has: all parts, and all the metadata. */
static bool write_seeds(const char *folder)
{
    bool good = true;
    for (size_t i = 0; i < wire_golden_count && good; i++)
        good = write_seed(folder, wire_type_name(wire_goldens[i].message.type), (unsigned)i, wire_goldens[i].bytes, wire_goldens[i].len);
    struct wire_message longest = wire_golden_of(WIRE_LEASE)->message;
    unsigned char bytes[WIRE_SIZE_MAX];
    longest.u.lease.metadata_size = WIRE_METADATA_MAX;
    return good && write_seed(folder, "LEASE", (unsigned)wire_golden_count, bytes, wire_encode(&longest, bytes));
}

int main(int argc, char **argv)
{
    static uint8_t data[2 * WIRE_SIZE_MAX];
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_seeds(argv[2]) ? EXIT_SUCCESS : EXIT_FAILURE;
    return run_files(argc, argv, data, sizeof(data));
}
#endif
