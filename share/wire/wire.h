/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the messages as structs and as bytes. Messages go between an export and its importers, and between a process with a control
 * socket and a controller (a tool, or a neighbour that asks for memory). doc/protocol.md specifies them for other languages.
 *
 * Pure functions: no sockets, no allocation, no state. One message is one SOCK_SEQPACKET packet, and at most one file descriptor comes with
 * it (only with WIRE_WELCOME, WIRE_RECORD and WIRE_PAGED). Integers are little-endian.
 */
#ifndef WEIR_SHARE_WIRE_H
#define WEIR_SHARE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"

#define WIRE_MAGIC UINT32_C(0x52494557) /* "WEIR" */
/* Sockets of exports and control sockets have separate versions of the protocol. */
#define WIRE_SHARE_VERSION 1
#define WIRE_CONTROL_VERSION 2
#define WIRE_CONTROL_TYPE 64 /* message types from this number on belong to control sockets */
#define WIRE_HEADER_SIZE 16 /* u32 magic, u16 version, u16 type, u32 length of the body, u32 request */
#define WIRE_SIZE_MAX 1024  /* bytes of a whole message, at most */
#define WIRE_NAME_SIZE 64   /* names: NUL-terminated, at most 63 bytes, letters, digits, '_', '-' and '.' */
#define WIRE_TEXT_SIZE 256
#define WIRE_PIECE_SIZE (WIRE_SIZE_MAX - WIRE_HEADER_SIZE)
#define WIRE_UUID_SIZE 48
#define WIRE_METADATA_MAX 256
/* A bit in the request number of HELLO: the importer accepts a LEASE of size 0, which Weir 0.1 took for an error. */
#define WIRE_KNOWS_EMPTY UINT32_C(0x80000000)
#define WIRE_BLOCK_INDEX 10 /* the low bits of a block's number are its slot in a ring; the number of the publication is above them */
#define WIRE_BLOCK_PUBLISHED (UINT64_C(1) << 52) /* block numbers built like this have this bit; older exporters send smaller numbers */
#define WIRE_LEASES_MAX 1024 /* every lease number of a connection is below this, and a ring has at most this many slots */

/*
 * X(NAME, number, member, sender, request). `importer` and `exporter` send their messages at the socket of an export, `controller` and
 * `process` at a control socket. The request number is `some` (not 0), `zero`, or `any`. Numbers never change their meaning.
 */
#define WIRE_TYPE_LIST(X) \
    /* First message of a connection: the role and name of the importer or observer. Answered by WELCOME or REFUSED. */ \
    X(HELLO, 1, hello, importer, some) \
    /* Asks for a lease on the block of this name. Answered by LEASE or REFUSED; with WIRE_WAIT only once such a block is published. */ \
    X(ACQUIRE, 2, acquire, importer, some) \
    /* Asks for the frames of the ring of this name, from the next frame pushed. Answered by SUBSCRIBED or REFUSED; LEASEs follow. */ \
    X(SUBSCRIBE, 3, subscribe, importer, some) \
    /* Ends the subscription to this ring. Answered by DONE; no frame comes after DONE. Leases stay. */ \
    X(UNSUBSCRIBE, 4, unsubscribe, importer, some) \
    /* The importer no longer uses the lease. No answer. */ \
    X(RELEASE, 5, release, importer, zero) \
    /* The answer to WITHDRAW: the importer has unmapped the block, and nothing on its GPU uses the block any more. No answer. */ \
    X(UNMAPPED, 6, block, importer, zero) \
    /* The importer has destroyed its imported pool: the answer to RETIRE. The connection ends. */ \
    X(RETIRED, 7, epoch, importer, zero) \
    /* The ACQUIRE of this request number shall not wait any longer. The exporter answers it now, unless its answer is on the way. */ \
    X(CANCEL, 8, none, importer, some) \
    /* Everything is released and unmapped, and the imported pool destroyed. The connection ends. */ \
    X(GOODBYE, 9, none, importer, zero) \
    /* Only from an observer: lists the importers and their leases. Answered by IMPORTER and HOLDS messages, then DONE. */ \
    X(LIST, 10, none, importer, some) \
    /* Only from an observer: evict the importers of this process. Answered by DONE or REFUSED. */ \
    X(EVICT, 11, evict, importer, some) \
    /* Only from an observer: asks for the figures of the export and its rings. Answered by EXPORT and RING messages, then DONE. */ \
    X(COUNT, 12, none, importer, some) \
    /* The exporter accepts the connection. An importer gets the pool's file descriptor with this message. */ \
    X(WELCOME, 32, welcome, exporter, some) \
    /* Refuses a request; with request 0 it refuses the connection, which then ends. */ \
    X(REFUSED, 33, refused, exporter, any) \
    /* The importer has a lease: the answer to ACQUIRE (request != 0, ring 0), or a frame of a ring (request 0, ring != 0). */ \
    X(LEASE, 34, lease, exporter, any) \
    X(SUBSCRIBED, 35, subscribed, exporter, some) \
    /* The block will not be leased again: unmap it, and answer UNMAPPED. Sent once all leases of the importer on the block have ended. */ \
    X(WITHDRAW, 36, block, exporter, zero) \
    /* The exporter is about to replace the pool: destroy the imported pool and answer RETIRED. Sent once no block is mapped. */ \
    X(RETIRE, 37, epoch, exporter, zero) \
    /* The ring is closed: no more frames come. */ \
    X(ENDED, 38, ended, exporter, zero) \
    X(DONE, 39, none, exporter, some) \
    X(IMPORTER, 40, importer, exporter, some) \
    X(HOLDS, 41, holds, exporter, some) \
    X(EXPORT, 42, export, exporter, some) \
    X(RING, 43, ring, exporter, some) \
    /* Asks how much memory of this device the process could give back. Answered by OFFERED. */ \
    X(OFFER, 65, offer, controller, some) \
    /* A neighbour ran out of memory: give memory of this device back. Answered by GAVE, or DENIED (BUSY: asked too often). */ \
    X(GIVE, 66, give, controller, some) \
    /* An operator asks the process to give idle memory back. Answered by GAVE. */ \
    X(TRIM, 67, trim, controller, some) \
    /* Changes keys of the policy that can change while the weir is open. Answered by READY or DENIED. */ \
    X(SET, 68, set, controller, some) \
    /* Reads the policy again. Answered by READY or DENIED. */ \
    X(RELOAD, 69, none, controller, some) \
    /* Writes a trace to the file whose descriptor comes with this message. Answered by READY or DENIED, and after READY, when the trace
       ends, by RECORDED. The trace ends on STOP, when the connection ends, when a write to the file fails, or when the weir is closed. */ \
    X(RECORD, 70, record, controller, some) \
    /* Ends the trace of the RECORD with this request number. No answer of its own. */ \
    X(STOP, 71, none, controller, some) \
    /* Asks for all figures and the policy in force. Answered by TEXT messages, the pieces of a JSON document, then READY; or DENIED. */ \
    X(FIGURES, 76, none, controller, some) \
    /* An operator has pools put to sleep that the program has yielded. Answered by GAVE or DENIED. */ \
    X(SLEEP, 77, sleep, controller, some) \
    /* An operator gives them their memory back; they stay yielded. Answered by READY or DENIED. */ \
    X(WAKE, 78, sleep, controller, some) \
    /* Asks for the page at this place of a window: the memory of a tensor that was sent (lib/backing/window.h). Answered by PAGED or
       DENIED. */ \
    X(PAGE, 80, page, controller, some) \
    X(OFFERED, 99, offered, process, some) \
    X(GAVE, 100, gave, process, some) \
    /* Ends the answer to FIGURES, or says that SET or RELOAD is done, or that RECORD has begun. */ \
    X(READY, 101, none, process, some) \
    /* Refuses a request; with request 0 it refuses the connection, which then ends. */ \
    X(DENIED, 102, refused, process, any) \
    X(RECORDED, 103, recorded, process, some) \
    X(TEXT, 108, piece, process, some) \
    /* The page's descriptor comes with this message. */ \
    X(PAGED, 112, paged, process, some)

enum wire_type {
#define WIRE_TYPE_ENTRY(name, number, member, sender, request) WIRE_##name = number,
    WIRE_TYPE_LIST(WIRE_TYPE_ENTRY)
#undef WIRE_TYPE_ENTRY
};

enum wire_role { WIRE_ROLE_IMPORTER = 1, WIRE_ROLE_OBSERVER = 2 };
enum wire_how {
    WIRE_HOW_EVENT = 1, /* the release event of the lease was recorded behind the last use of the block */
    WIRE_HOW_DONE = 2,  /* all uses of the block are complete already */
};
enum wire_state {
    WIRE_STATE_CONNECTED = 1,
    WIRE_STATE_HUNG = 2,    /* kept a producer waiting for longer than the producer's time-out, and has sent nothing since */
    /* Disconnected by an operator, for breaking the protocol, or without a farewell; its mapped blocks stay out of use until its process is
       dead. */
    WIRE_STATE_EVICTED = 3,
};
enum wire_hold {
    WIRE_HOLD_LEASED = 1,
    WIRE_HOLD_RELEASING = 2, /* released, but the importer's stream has not completed the release event yet */
    WIRE_HOLD_MAPPED = 3,    /* the importer maps the block, but has no lease on it */
};

#define WIRE_POLICY_KEEP UINT64_MAX /* trim.keep: each pool keeps as much as its policy says */
#define WIRE_GIVE_MAX_MS 600000     /* the most for give.deadline_ms and trim.deadline_ms */

#define WIRE_TAKE 1u /* give.flags: yielded pools may be put to sleep, as neighbours have no idle memory left */

/* Values of record.level. */
#define WIRE_RECORD_POOL 1u
#define WIRE_RECORD_ALL 2u
#define WIRE_RECORD_STACKS 1u /* a bit of record.flags */

#define WIRE_WAIT 1u /* acquire.flags: wait until a block of that name is published */
/* lease.flags: the message has block_size, shared and ready. Set when the exporter leases this block on this connection for the first
   time. */
#define WIRE_HAS_BLOCK 1u
/* lease.flags: the message has `release`. Set when this lease number is used on this connection for the first time. */
#define WIRE_HAS_RELEASE 2u

/* The figures of an export and of a ring, in the order of the messages. weir_export_info and weir_ring_info explain them. */
#define WIRE_FLOW_FIGURES(X) X(pushed) X(bytes) X(dropped) X(refused) X(hangs) X(leases_given) X(lag) X(lag_high)
#define WIRE_EXPORT_FIGURES(X)                                                                                                             \
    X(importers) X(hung) X(evicted) X(blocks) X(leases) X(mappings) X(evictions) WIRE_FLOW_FIGURES(X)
#define WIRE_RING_FIGURES(X) X(slot_size) X(depth) X(taken) X(queued) X(readers) X(hung) WIRE_FLOW_FIGURES(X)
#define WIRE_FIGURE(name) uint64_t name;

struct wire_message {
    enum wire_type type;
    uint32_t request; /* chosen by the side that asks, not 0, and repeated in the answer; 0: the message is no answer */
    union {
        struct { uint16_t role; char name[WIRE_NAME_SIZE]; } hello; /* name: the name of the program, for people; may be empty */
        struct { uint32_t flags; char name[WIRE_NAME_SIZE]; } acquire;
        /* leases: how many frames the reader wants to hold at a time; 0: as many as the ring allows */
        struct { uint32_t leases; char name[WIRE_NAME_SIZE]; } subscribe;
        struct { uint32_t ring; } unsubscribe, ended;
        struct { uint32_t lease; uint16_t how; } release;
        struct { uint64_t block; } block;
        struct { uint64_t epoch; } epoch;
        struct { int32_t pid; } evict;
        struct {
            uint64_t epoch;
            int32_t pid;
            char pool[WIRE_NAME_SIZE];
            char uuid[WIRE_UUID_SIZE]; /* the UUID of the device */
        } welcome;
        struct { uint32_t status; char text[WIRE_TEXT_SIZE]; } refused; /* status: a weir_status */
        struct {
            uint32_t lease; /* the number of the lease: below the exporter's limit, free for another lease after RELEASE */
            uint32_t ring;  /* 0: the lease is on a named block, not on a frame */
            uint32_t flags;
            uint32_t metadata_size;
            uint64_t sequence; /* the number of the frame, from 1; dropped frames leave gaps */
            uint64_t block;
            uint64_t size; /* how many bytes the exporter published */
            unsigned char metadata[WIRE_METADATA_MAX];
            uint64_t block_size; /* with WIRE_HAS_BLOCK: bytes of the whole block */
            struct gpu_shared_block shared;
            struct gpu_shared_event ready;   /* the exporter records this event after writing the block */
            struct gpu_shared_event release; /* with WIRE_HAS_RELEASE: the event that the importer records when it releases the lease */
        } lease;
        struct { uint32_t ring, depth, leases; uint64_t slot_size; } subscribed;
        struct {
            int32_t pid;
            uint32_t uid;
            uint16_t state; /* enum wire_state */
            uint32_t leases, mappings;
            uint64_t idle_ms;
            char name[WIRE_NAME_SIZE]; /* the name from HELLO */
        } importer;
        struct {
            int32_t pid;
            uint16_t hold; /* enum wire_hold */
            uint32_t ring;     /* the ring's number; 0: a named block, or a slot of a closed ring */
            uint64_t sequence; /* the number of the leased frame, or 0 */
            uint64_t block, size, held_ms;
            char name[WIRE_NAME_SIZE]; /* the name of the block or the ring */
        } holds;
        struct { WIRE_EXPORT_FIGURES(WIRE_FIGURE) } export;
        struct {
            uint32_t ring;     /* the ring's number, as in HOLDS */
            uint32_t overflow; /* a weir_overflow */
            WIRE_RING_FIGURES(WIRE_FIGURE)
            char name[WIRE_NAME_SIZE];
        } ring;
        struct { char uuid[WIRE_UUID_SIZE]; } offer;
        struct {
            uint64_t bytes;       /* bytes that the neighbour lacks */
            uint32_t deadline_ms; /* after this time the process stops giving */
            uint32_t flags;       /* WIRE_TAKE or 0 */
            char uuid[WIRE_UUID_SIZE];
        } give;
        struct {
            uint64_t keep; /* bytes that each pool keeps reserved, or WIRE_POLICY_KEEP */
            uint32_t deadline_ms;
            char pool[WIRE_NAME_SIZE]; /* "": every pool */
        } trim;
        struct {
            uint32_t deadline_ms;
            char pool[WIRE_NAME_SIZE]; /* "": every pool that is yielded */
        } sleep;
        struct { char text[WIRE_TEXT_SIZE]; } set; /* "pools.a.release_threshold=1GiB", as in $WEIR_CONF */
        /* bytes, at most: reserved bytes that are not live, less the bytes that the policy keeps; yielded: bytes of yielded pools beside them */
        struct { uint64_t bytes, yielded; } offered;
        struct { uint64_t bytes, took_us; } gave;
        struct { uint32_t level, flags; } record;
        struct {
            uint64_t bytes, events, lost; /* bytes and events written to the file, and events lost */
            uint32_t error;               /* the errno of the write that failed; 0: none failed */
        } recorded;
        struct { char text[WIRE_PIECE_SIZE]; } piece; /* the next part of the document, without a NUL */
        struct { uint64_t address, bytes, number, offset; } page; /* a struct weir__window, and how far in it the page begins */
        struct { uint64_t bytes; } paged; /* bytes of that page */
    } u;
};
#undef WIRE_FIGURE

/* Writes the message to `bytes` and returns its length, at most WIRE_SIZE_MAX, or 0 if the type does not exist. Every field must have a
   value that wire_decode() would accept; bytes behind the NUL of a string do not matter. */
size_t wire_encode(const struct wire_message *message, unsigned char bytes[WIRE_SIZE_MAX]);

enum wire_fault {
    WIRE_GOOD,
    WIRE_NOT_WEIR,      /* too short to have a type, or another magic */
    WIRE_OTHER_VERSION, /* the version is not that of this kind of socket; nothing behind the first eight bytes was read */
    WIRE_MALFORMED,     /* this version of the protocol does not allow the type, or a length, name, number or flag */
};

/* Reads a message. *message is set only on WIRE_GOOD, *version (which may be NULL) only on WIRE_OTHER_VERSION, to the other side's
   version. */
enum wire_fault wire_decode(const unsigned char *bytes, size_t len, struct wire_message *message, uint16_t *version);

enum wire_sender { WIRE_NOBODY, WIRE_IMPORTER_SENDS, WIRE_EXPORTER_SENDS, WIRE_CONTROLLER_SENDS, WIRE_PROCESS_SENDS };
/* Which side sends messages of this type; WIRE_NOBODY: the type does not exist. */
enum wire_sender wire_sender(enum wire_type type);
/* The name of a type, such as "ACQUIRE"; "unknown" if the type does not exist. */
const char *wire_type_name(enum wire_type type);
/* Whether a string may be the name of a block or a ring. */
bool wire_is_name(const char *name);
/* Copies as much of a text as fits into a message: leaves out control characters other than newlines, and does not cut a UTF-8 character in
   two. */
void wire_copy_text(char to[WIRE_TEXT_SIZE], const char *from);

#endif
