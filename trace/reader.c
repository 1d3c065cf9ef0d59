/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "trace/reader.h"
#include "lib/trace/block.h"
#include "trace/memory.h"
#include "trace/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef HAVE_ZSTD
#define HAVE_ZSTD 0
#endif
#if HAVE_ZSTD
#include <zstd.h>
#endif

/* The reader gives up after it has read VAIN_ALWAYS bytes plus VAIN_FACTOR times the size of the file in blocks whose CRC is wrong.
   Without a limit a hostile file could make it read for very long: at each `WBLK` a long block may seem to begin. */
enum { VAIN_FACTOR = 16, VAIN_ALWAYS = 64 << 20 };

static bool fail(struct trace_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct trace_reader *reader, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reader->error, sizeof reader->error, format, args);
    va_end(args);
    return false;
}

static uint32_t number_of(const uint8_t *bytes, size_t len)
{
    uint32_t value = 0;
    for (size_t i = len; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* Reads exactly `len` bytes of the file. Returns false, and sets the error, if that is not possible. */
static bool read_at(struct trace_reader *reader, uint64_t offset, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(reader->fd, (char *)bytes + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(reader, "bytes from %" PRIu64 " cannot be read: %s", offset + done, strerror(errno));
        if (got == 0)
            return fail(reader, "it became shorter while it was read");
        done += (size_t)got;
    }
    return true;
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/* Reads the block at that offset, with its content into reader->stored. Adds the bytes over which a CRC was computed to *tried. Returns
   false, and sets the error, if there is no undamaged block. */
static bool read_block(struct trace_reader *reader, uint64_t offset, struct trace_block *block, uint64_t *tried)
{
    uint8_t head[TRACE_BLOCK_HEADER];
    uint64_t left = reader->size - offset;
    if (left < sizeof head)
        return fail(reader, "the file ends within the block at byte %" PRIu64, offset);
    if (!read_at(reader, offset, head, sizeof head))
        return false;
    if (memcmp(head, "WBLK", 4) != 0)
        return fail(reader, "there is no block at byte %" PRIu64, offset);
    *block = (struct trace_block){
        .offset = offset, .kind = head[4], .coding = head[5], .stored = number_of(head + 8, 4), .decoded = number_of(head + 12, 4)};
    if (block->decoded > TRACE_CONTENT_MAX || block->stored > TRACE_STORED_MAX)
        return fail(reader, "the block at byte %" PRIu64 " claims to have %" PRIu32 " bytes, %" PRIu32 " unpacked, of at most %d", offset,
                    block->stored, block->decoded, TRACE_CONTENT_MAX);
    if (block->stored > left - sizeof head)
        return fail(reader, "the file ends within the block at byte %" PRIu64, offset);
    if (!reader->stored)
        reader->stored = must(malloc(TRACE_STORED_MAX));
    if (!read_at(reader, offset + sizeof head, reader->stored, block->stored))
        return false;
    *tried += block->stored;
    if (weir__trace_crc(weir__trace_crc(0, head, 16), reader->stored, block->stored) != number_of(head + 16, 4))
        return fail(reader, "the block at byte %" PRIu64 " is damaged: its CRC is another", offset);
    return true;
}

#if HAVE_ZSTD
static bool unpack_zstd(struct trace_reader *reader, const struct trace_block *block, uint8_t *content)
{
    if (!reader->unpacker)
        reader->unpacker = must(ZSTD_createDCtx());
    size_t frame = ZSTD_findFrameCompressedSize(reader->stored, block->stored);
    size_t got = ZSTD_isError(frame) || frame != block->stored
                     ? SIZE_MAX
                     : ZSTD_decompressDCtx(reader->unpacker, content, block->decoded, reader->stored, block->stored);
    if (got != block->decoded)
        return fail(reader, "the block at byte %" PRIu64 " does not unpack to the %" PRIu32 " bytes that it claims", block->offset,
                    block->decoded);
    return true;
}
#endif

/* Unpacks the content of the block from reader->stored. Returns false, and sets the error, if that is not possible. */
static bool unpack(struct trace_reader *reader, const struct trace_block *block, uint8_t *content)
{
    if (block->coding == 0 && block->stored == block->decoded) {
        memcpy(content, reader->stored, block->decoded);
        return true;
    }
    if (block->coding == 0)
        return fail(reader, "the block at byte %" PRIu64 " is not packed, but claims another size unpacked", block->offset);
    if (block->coding != 1)
        return fail(reader, "the block at byte %" PRIu64 " is packed in an unknown way, %d", block->offset, block->coding);
#if HAVE_ZSTD
    return unpack_zstd(reader, block, content);
#else
    reader->needs_zstd = true;
    return fail(reader, "the block at byte %" PRIu64 " is packed with zstd", block->offset);
#endif
}

bool trace_reader_unpack(struct trace_reader *reader, const struct trace_block *block, uint8_t *content)
{
    struct trace_block again = {0};
    uint64_t tried = 0;
    if (!read_block(reader, block->offset, &again, &tried))
        return false;
    if (again.stored != block->stored || again.decoded != block->decoded || again.coding != block->coding)
        return fail(reader, "the block at byte %" PRIu64 " changed while it was read", block->offset);
    return unpack(reader, block, content);
}

/* Header and end ----------------------------------------------------------------------------------------------------------------------- */

static char *copy(const char *text, size_t len)
{
    char *made = must(malloc(len + 1));
    memcpy(made, text, len);
    made[len] = '\0';
    return made;
}

/* Reads the pairs of the header. Returns false if one of them is wrong; the pairs before it are kept. */
static bool read_header(struct trace_reader *reader, struct trace_bytes content)
{
    uint64_t count;
    if (!trace_take_number(&content, &count))
        return false;
    size_t room = 0;
    for (; count > 0; count--) {
        const char *key, *value;
        size_t key_len, value_len;
        if (!trace_take_string(&content, TRACE_STRING_MAX, &key, &key_len) ||
            !trace_take_string(&content, TRACE_VALUE_MAX, &value, &value_len))
            return false;
        struct trace_pair *pair = MUST_ADD(reader->pairs, reader->pair_count, room);
        *pair = (struct trace_pair){0};
        pair->key = copy(key, key_len);
        pair->value = copy(value, value_len);
    }
    return content.at == content.end;
}

const char *trace_reader_value(const struct trace_reader *reader, const char *key)
{
    for (size_t i = 0; i < reader->pair_count; i++)
        if (strcmp(reader->pairs[i].key, key) == 0)
            return reader->pairs[i].value;
    return NULL;
}

/* Keeps the description of the first loss. */
static void note(struct trace_reader *reader, const char *what)
{
    if (!reader->losses.first[0])
        snprintf(reader->losses.first, sizeof reader->losses.first, "%s", what);
}

void trace_reader_lose(struct trace_reader *reader, const struct trace_block *block, const char *what)
{
    char text[TRACE_ERROR_LEN];
    snprintf(text, sizeof text, "the block at byte %" PRIu64 ": %.200s", block->offset, what ? what : "");
    note(reader, what ? text : reader->error);
    reader->losses.blocks++;
}

void trace_reader_conclude(struct trace_reader *reader)
{
    if (!reader->has_header)
        note(reader, "it has no header");
    if (!reader->losses.is_closed)
        note(reader, "it has no end: its writer was killed, or still writes");
}

/* Unpacks and reads a header block or an end block. */
static void use_block(struct trace_reader *reader, const struct trace_block *block)
{
    uint8_t *content = reader->content = must(malloc((size_t)block->decoded + 1));
    struct trace_bytes bytes = {content, content + block->decoded};
    uint64_t lost;
    if (!unpack(reader, block, content)) {
        trace_reader_lose(reader, block, NULL);
    } else if (block->kind == TRACE_BLOCK_HEAD) {
        reader->has_header = true;
        if (!read_header(reader, bytes))
            trace_reader_lose(reader, block, "the header of the trace is not as it should be");
    } else if (!trace_take_number(&bytes, &lost) || bytes.at != bytes.end) {
        trace_reader_lose(reader, block, "the end of the trace is not as it should be");
    } else {
        reader->losses.is_closed = true;
        reader->losses.events = lost;
    }
    free(content);
    reader->content = NULL;
}

static void take_block(struct trace_reader *reader, const struct trace_block *block)
{
    if (block->kind == TRACE_BLOCK_EVENTS) {
        *MUST_ADD(reader->blocks, reader->block_count, reader->block_room) = *block;
        reader->needs_zstd |= !HAVE_ZSTD && block->coding == 1;
    } else if (block->kind == TRACE_BLOCK_END || (block->kind == TRACE_BLOCK_HEAD && !reader->has_header)) {
        use_block(reader, block);
    }
}

/* The file ------------------------------------------------------------------------------------------------------------------------------
 */

/* Returns the offset of the first `WBLK` from that offset on, or the size of the file if there is none. */
static uint64_t find_magic(struct trace_reader *reader, uint64_t offset)
{
    uint8_t bytes[1 << 16];
    while (reader->size - offset >= 4) {
        size_t len = reader->size - offset < sizeof bytes ? (size_t)(reader->size - offset) : sizeof bytes;
        if (!read_at(reader, offset, bytes, len))
            break;
        uint8_t *found = memmem(bytes, len, "WBLK", 4);
        if (found)
            return offset + (uint64_t)(found - bytes);
        offset += len - 3;
    }
    return reader->size;
}

static void find_blocks(struct trace_reader *reader)
{
    uint64_t vain = 0, vain_max = VAIN_ALWAYS + VAIN_FACTOR * reader->size, hole = 0;
    bool in_hole = false;
    for (uint64_t at = TRACE_FILE_HEADER; at < reader->size;) {
        struct trace_block block = {0};
        uint64_t tried = 0;
        if (read_block(reader, at, &block, &tried)) {
            reader->losses.bytes += in_hole ? at - hole : 0;
            in_hole = false;
            take_block(reader, &block);
            at += TRACE_BLOCK_HEADER + block.stored;
            continue;
        }
        vain += tried;
        if (!in_hole) {
            note(reader, reader->error);
            reader->losses.blocks++;
            hole = at;
            in_hole = true;
        }
        at = vain > vain_max ? reader->size : find_magic(reader, at + 1);
    }
    reader->losses.bytes += in_hole ? reader->size - hole : 0;
}

static bool read_beginning(struct trace_reader *reader)
{
    uint8_t head[TRACE_FILE_HEADER];
    struct stat status;
    if (fstat(reader->fd, &status) != 0)
        return fail(reader, "it cannot be read: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(reader, "it is no regular file; a trace is read in more than one pass, so write it to a file first");
    reader->size = (uint64_t)status.st_size;
    size_t len = reader->size < sizeof head ? (size_t)reader->size : sizeof head;
    if (!read_at(reader, 0, head, len))
        return false;
    reader->is_foreign = len >= 4 && memcmp(head, "WEIR", 4) != 0;
    if (len < 4 || reader->is_foreign)
        return fail(reader, "it is no trace: it does not begin with WEIR");
    if (len < sizeof head)
        return fail(reader, "it is cut off within its first %d bytes: all is lost", TRACE_FILE_HEADER);
    unsigned format = number_of(head + 4, 2);
    if (format > TRACE_FORMAT)
        return fail(reader, "it was made by a newer Weir: format %u, and this one reads %d", format, TRACE_FORMAT);
    if (format != TRACE_FORMAT)
        return fail(reader, "it is of format %u, which does not exist; this one reads %d", format, TRACE_FORMAT);
    return true;
}

bool trace_reader_open_fd(struct trace_reader *reader, int fd)
{
    *reader = (struct trace_reader){.fd = fd};
    if (!read_beginning(reader)) {
        close(fd);
        reader->fd = -1;
        return false;
    }
    find_blocks(reader);
    if (reader->needs_zstd) {
        trace_reader_close(reader);
        return fail(reader, "it is packed with zstd, which this weir was built without: install libzstd-dev and build it again");
    }
    return true;
}

void trace_reader_close(struct trace_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    for (size_t i = 0; i < reader->pair_count; i++) {
        free(reader->pairs[i].key);
        free(reader->pairs[i].value);
    }
#if HAVE_ZSTD
    ZSTD_freeDCtx(reader->unpacker);
#endif
    free(reader->pairs);
    free(reader->blocks);
    free(reader->stored);
    free(reader->content);
    *reader = (struct trace_reader){.fd = -1};
}
