/* SPDX-License-Identifier: MIT */
/*
 * reader.h - a `.weir` file as blocks: which there are and whole, what they say when they are unpacked, and what is lost.
 *
 * The opener owns it; one thread. Whoever wants events in one order uses merge.h, which is above this. Files are hostile: each length is
 * checked before it is used, and what is kept of a file is bounded as doc/trace.md asks.
 */
#ifndef WEIR_TRACE_READER_H
#define WEIR_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_FORMAT = 1,            /* the newest that is read */
    TRACE_FILE_HEADER = 8,       /* bytes before the first block */
    TRACE_BLOCK_HEADER = 20,     /* bytes before the content of a block */
    TRACE_CONTENT_MAX = 4 << 20, /* bytes of a decoded block */
    TRACE_STORED_MAX = 5 << 20,  /* bytes of a stored one, which a bad packer may make longer than it was */
    TRACE_STRING_MAX = 4096,     /* bytes */
    TRACE_VALUE_MAX = 1 << 20,   /* bytes of a value of the header */
    TRACE_FRAMES_MAX = 256,      /* of a stack */
    TRACE_DEFINITIONS_MAX = 16 << 20,
    TRACE_ERROR_LEN = 320,
};

enum trace_block_kind { TRACE_BLOCK_HEAD = 1, TRACE_BLOCK_EVENTS = 2, TRACE_BLOCK_END = 3 };

/* One block whose CRC is right. */
struct trace_block {
    uint64_t offset; /* of the block's first byte in the file */
    uint32_t stored, decoded;
    uint8_t kind, coding;
};

/* What is known of a file's losses. All 0 and closed: nothing is lost. */
struct trace_losses {
    uint64_t bytes;              /* of the file that are part of no whole block */
    uint64_t blocks;             /* places where such bytes stand, and whole blocks whose content is wrong */
    uint64_t events;             /* that the recorder counted as lost */
    bool is_closed;              /* the file has its end block */
    char first[TRACE_ERROR_LEN]; /* what is wrong at the first such place; "" if nothing is, or nobody looked yet */
};

struct trace_pair {
    char *key, *value;
};

struct trace_reader {
    int fd;
    uint64_t size;              /* of the file */
    struct trace_block *blocks; /* in the order of the file */
    size_t block_count, block_room;
    struct trace_pair *pairs; /* of the header, in its order */
    size_t pair_count;
    struct trace_losses losses;
    uint8_t *stored;  /* room for the content of one block; NULL before the first */
    uint8_t *content; /* of a header or an end while it is read, else NULL */
    void *unpacker;   /* zstd's; NULL before the first */
    bool has_header;
    bool is_foreign; /* it was not opened, as it does not begin as a trace */
    bool needs_zstd;             /* which this weir was built without */
    char error[TRACE_ERROR_LEN]; /* why a function failed */
};

/*
 * Finds the blocks of a regular file. The descriptor is the reader's from now on, even if this fails. false, with the error: it cannot be
 * read, is no trace, or is of a newer format. What is damaged is no error here: `losses` says so.
 */
bool trace_reader_open_fd(struct trace_reader *reader, int fd);
void trace_reader_close(struct trace_reader *reader);

/*
 * The content of a block, unpacked, in `content`, which has room for block->decoded bytes. false, with the error: it cannot be unpacked, or
 * is another than it was when the file was opened.
 */
bool trace_reader_unpack(struct trace_reader *reader, const struct trace_block *block, uint8_t *content);

/* The value of a key of the header; NULL without it. */
const char *trace_reader_value(const struct trace_reader *reader, const char *key);

/* Counts a block as lost whose content is wrong; `what` is said of the first, NULL is the error of trace_reader_unpack(). */
void trace_reader_lose(struct trace_reader *reader, const struct trace_block *block, const char *what);

/* To be called when all blocks were looked at: says in `losses` what the file lacks as a whole. */
void trace_reader_conclude(struct trace_reader *reader);

#endif
