/* SPDX-License-Identifier: MIT */
/*
 * reader.h - reads a `.weir` file as blocks: finds the undamaged blocks, unpacks them, and notes the losses. merge.h builds on it, and
 * gives the events of all threads in one order.
 *
 * The code that opens a reader owns it; one thread uses it. Files are not trusted: each length is checked before it is used, and the memory
 * for a file's data is bounded as doc/trace.md demands.
 */
#ifndef WEIR_TRACE_READER_H
#define WEIR_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_FORMAT = 1,            /* the newest format that can be read */
    TRACE_FILE_HEADER = 8,       /* bytes before the first block */
    TRACE_BLOCK_HEADER = 20,     /* bytes before the content of a block */
    TRACE_CONTENT_MAX = 4 << 20, /* bytes of a block's unpacked content */
    TRACE_STORED_MAX = 5 << 20,  /* bytes of its content in the file, which packing can make longer than the unpacked content */
    TRACE_STRING_MAX = 4096,     /* bytes */
    TRACE_VALUE_MAX = 1 << 20,   /* bytes of a value of the header */
    TRACE_FRAMES_MAX = 256,      /* frames of a stack */
    TRACE_DEFINITIONS_MAX = 16 << 20,
    TRACE_ERROR_LEN = 320,
};

enum trace_block_kind { TRACE_BLOCK_HEAD = 1, TRACE_BLOCK_EVENTS = 2, TRACE_BLOCK_END = 3 };

/* An undamaged block: its CRC is right. */
struct trace_block {
    uint64_t offset; /* of the block's first byte in the file */
    uint32_t stored, decoded;
    uint8_t kind, coding;
};

/* The known losses of a file. If all numbers are 0 and is_closed is true, nothing is lost. */
struct trace_losses {
    uint64_t bytes;              /* bytes of the file that belong to no undamaged block */
    uint64_t blocks;             /* the number of gaps that such bytes form, plus the blocks whose content is wrong */
    uint64_t events;             /* events that the recorder counted as lost */
    bool is_closed;              /* the file has its end block */
    char first[TRACE_ERROR_LEN]; /* a description of the first loss; "" if none was found yet */
};

struct trace_pair {
    char *key, *value;
};

struct trace_reader {
    int fd;
    uint64_t size;              /* of the file */
    struct trace_block *blocks; /* in the order of the file */
    size_t block_count, block_room;
    struct trace_pair *pairs; /* the pairs of the header, in the order of the file */
    size_t pair_count;
    struct trace_losses losses;
    uint8_t *stored;  /* a buffer for the stored content of one block; NULL until the first block is read */
    uint8_t *content; /* the content of a header or end block while it is being read, else NULL */
    void *unpacker;   /* zstd's context for unpacking; NULL until it is needed */
    bool has_header;
    bool is_foreign; /* opening failed, because the file does not begin like a trace */
    bool needs_zstd;             /* the file is packed with zstd, and this build cannot unpack it */
    char error[TRACE_ERROR_LEN]; /* the reason if a function has failed */
};

/*
 * Finds the blocks of a regular file. The descriptor belongs to the reader from now on, even if the function fails. Returns false, and sets
 * the error, if the file cannot be read, is not a trace, or has a newer format. Damaged blocks are no error: `losses` counts them.
 */
bool trace_reader_open_fd(struct trace_reader *reader, int fd);
void trace_reader_close(struct trace_reader *reader);

/*
 * Unpacks the content of a block into `content`, which has room for block->decoded bytes. Returns false, and sets the error, if the block
 * cannot be unpacked, or has changed since the file was opened.
 */
bool trace_reader_unpack(struct trace_reader *reader, const struct trace_block *block, uint8_t *content);

/* Returns the value of a key of the header, or NULL if the header does not have the key. */
const char *trace_reader_value(const struct trace_reader *reader, const char *key);

/* Counts a block whose content is wrong as lost. what: a description, kept if this is the first loss; NULL stands for the error of
   trace_reader_unpack(). */
void trace_reader_lose(struct trace_reader *reader, const struct trace_block *block, const char *what);

/* Notes in `losses` if the file has no header or no end. Call it after all blocks were read. */
void trace_reader_conclude(struct trace_reader *reader);

#endif
