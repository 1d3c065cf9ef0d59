/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the messages between an export and its importers, and between a process and who controls it or asks it for memory, as structs
 * and as bytes. doc/protocol.md specifies them for other languages.
 *
 * Pure functions: no sockets, no allocation, no state. One message is one SOCK_SEQPACKET packet, and at most one file descriptor comes with
 * it (WIRE_WELCOME and WIRE_RECORD alone have one). Integers are little-endian.
 */
#ifndef WEIR_SHARE_WIRE_H
#define WEIR_SHARE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"

#define WIRE_MAGIC UINT32_C(0x52494557) /* "WEIR" */
/* Each kind of socket has a version of its own. */
#define WIRE_SHARE_VERSION 1
#define WIRE_CONTROL_VERSION 2
#define WIRE_CONTROL_TYPE 64 /* numbers of types from here on are of control sockets */
#define WIRE_HEADER_SIZE 16 /* u32 magic, u16 version, u16 type, u32 length of what follows, u32 request */
#define WIRE_SIZE_MAX 1024  /* of a whole message */
#define WIRE_NAME_SIZE 64   /* names: NUL-terminated, at most 63 bytes, letters, digits, '_', '-' and '.' */
#define WIRE_TEXT_SIZE 256
#define WIRE_PIECE_SIZE (WIRE_SIZE_MAX - WIRE_HEADER_SIZE)
#define WIRE_UUID_SIZE 48
#define WIRE_METADATA_MAX 256
#define WIRE_KNOWS_EMPTY UINT32_C(0x80000000) /* in the request of HELLO: a LEASE may have the size 0, which 0.1 took for an error */
#define WIRE_BLOCK_INDEX 10 /* bits of a block's number below that of its publication: which slot of a ring it is */
#define WIRE_BLOCK_PUBLISHED (UINT64_C(1) << 52) /* at least: the number of a block that has such a number */
#define WIRE_LEASES_MAX 1024 /* lease numbers of a connection are below it; a ring has at most so many slots */

/*
 * X(NAME, number, member, sender, request): `importer` or `exporter` sends it, at the socket of an export; or `controller` or `process`, at a
 * control socket. The request number is `some` (not 0), `zero`, or `any`. Numbers never change their meaning.
 */
#define WIRE_TYPE_LIST(X) \
    /* First message of a connection: who asks, and for what. Answered by WELCOME or REFUSED. */ \
    X(HELLO, 1, hello, importer, some) \
    /* A lease on the block of this name. Answered by LEASE or REFUSED; with WIRE_WAIT once there is such a block. */ \
    X(ACQUIRE, 2, acquire, importer, some) \
    /* The frames of the ring of this name, from the next one pushed. Answered by SUBSCRIBED or REFUSED; LEASE messages follow. */ \
    X(SUBSCRIBE, 3, subscribe, importer, some) \
    /* No more frames of this ring. Answered by DONE, behind which none comes. Leases stay. */ \
    X(UNSUBSCRIBE, 4, unsubscribe, importer, some) \
    /* The importer uses the lease no more. No answer. */ \
    X(RELEASE, 5, release, importer, zero) \
    /* The answer to WITHDRAW: the importer does not map the block, and nothing of it uses it any more. No answer. */ \
    X(UNMAPPED, 6, block, importer, zero) \
    /* The importer has destroyed its imported pool: the answer to RETIRE. The connection ends. */ \
    X(RETIRED, 7, epoch, importer, zero) \
    /* The ACQUIRE of this request number shall wait no longer: it is answered, at once if it was not. */ \
    X(CANCEL, 8, none, importer, some) \
    /* Everything is released and unmapped, and the imported pool destroyed. The connection ends. */ \
    X(GOODBYE, 9, none, importer, zero) \
    /* An observer's: who holds what. Answered by IMPORTER and HOLDS messages, then DONE. */ \
    X(LIST, 10, none, importer, some) \
    /* An observer's: evict the importers of this process. Answered by DONE or REFUSED. */ \
    X(EVICT, 11, evict, importer, some) \
    /* An observer's: what went through the export and its rings. Answered by EXPORT and RING messages, then DONE. */ \
    X(COUNT, 12, none, importer, some) \
    /* The connection stands. To an importer the pool's file descriptor comes with it. */ \
    X(WELCOME, 32, welcome, exporter, some) \
    /* A request is refused, or, with request 0, the connection: it ends. */ \
    X(REFUSED, 33, refused, exporter, any) \
    /* The importer has a lease: the answer to ACQUIRE (request != 0, ring 0), or a frame of a ring (request 0, ring != 0). */ \
    X(LEASE, 34, lease, exporter, any) \
    X(SUBSCRIBED, 35, subscribed, exporter, some) \
    /* The block will not be leased again: unmap it, and say so by UNMAPPED. Sent once all leases of the importer on it have ended. */ \
    X(WITHDRAW, 36, block, exporter, zero) \
    /* The pool is to be replaced: destroy the imported one and answer RETIRED. Sent once nothing is mapped. */ \
    X(RETIRE, 37, epoch, exporter, zero) \
    /* The ring is closed: no more frames. */ \
    X(ENDED, 38, ended, exporter, zero) \
    X(DONE, 39, none, exporter, some) \
    X(IMPORTER, 40, importer, exporter, some) \
    X(HOLDS, 41, holds, exporter, some) \
    X(EXPORT, 42, export, exporter, some) \
    X(RING, 43, ring, exporter, some) \
    /* How much could be given on this device? Answered by OFFERED. */ \
    X(OFFER, 65, offer, controller, some) \
    /* A neighbour ran out: give it memory of this device. Answered by GAVE, or DENIED (BUSY: asked too often). */ \
    X(GIVE, 66, give, controller, some) \
    /* An operator's: give back what is idle. Answered by GAVE. */ \
    X(TRIM, 67, trim, controller, some) \
    /* Change live keys of the policy. Answered by READY or DENIED. */ \
    X(SET, 68, set, controller, some) \
    /* Read the policy again. Answered by READY or DENIED. */ \
    X(RELOAD, 69, none, controller, some) \
    /* Write a trace to the file whose descriptor comes with it, from now on. Answered by READY or DENIED, and after READY, at the end, by
       RECORDED. It ends by STOP, by the end of the connection, and by itself if the file takes no more, or the weir is closed. */ \
    X(RECORD, 70, record, controller, some) \
    /* The RECORD of this request number shall end. No answer of its own. */ \
    X(STOP, 71, none, controller, some) \
    /* All figures and the policy in force. Answered by TEXT messages, the pieces of one JSON document, and READY; or DENIED. */ \
    X(FIGURES, 76, none, controller, some) \
    X(OFFERED, 99, offered, process, some) \
    X(GAVE, 100, gave, process, some) \
    /* The end of the answer to FIGURES; SET and RELOAD are done; RECORD has begun. */ \
    X(READY, 101, none, process, some) \
    /* What DENIED refuses is the request; with request 0 the connection, which ends. */ \
    X(DENIED, 102, refused, process, any) \
    X(RECORDED, 103, recorded, process, some) \
    X(TEXT, 108, piece, process, some)

enum wire_type {
#define WIRE_TYPE_ENTRY(name, number, member, sender, request) WIRE_##name = number,
    WIRE_TYPE_LIST(WIRE_TYPE_ENTRY)
#undef WIRE_TYPE_ENTRY
};

enum wire_role { WIRE_ROLE_IMPORTER = 1, WIRE_ROLE_OBSERVER = 2 };
enum wire_how {
    WIRE_HOW_EVENT = 1, /* the lease's release event was recorded behind the last use */
    WIRE_HOW_DONE = 2,  /* every use is complete already */
};
enum wire_state {
    WIRE_STATE_CONNECTED = 1,
    WIRE_STATE_HUNG = 2,    /* kept a producer waiting beyond its time-out, and has sent nothing since */
    WIRE_STATE_EVICTED = 3, /* asked for, for what it sent, or gone without a farewell; what it had mapped stays put until its process is dead */
};
enum wire_hold {
    WIRE_HOLD_LEASED = 1,
    WIRE_HOLD_RELEASING = 2, /* released, but its stream has not come to it */
    WIRE_HOLD_MAPPED = 3,    /* no lease */
};

#define WIRE_POLICY_KEEP UINT64_MAX /* trim.keep: what the policy says of each pool */
#define WIRE_GIVE_MAX_MS 600000     /* give.deadline_ms, trim.deadline_ms */

/* record.level */
#define WIRE_RECORD_POOL 1u
#define WIRE_RECORD_ALL 2u
#define WIRE_RECORD_STACKS 1u /* record.flags */

#define WIRE_WAIT 1u /* acquire.flags: until there is a block of that name */
/* lease.flags: block_size, shared and ready are there: the importer has not been told of this block yet on this connection. */
#define WIRE_HAS_BLOCK 1u
/* lease.flags: release is there: the first use of this lease number on this connection. */
#define WIRE_HAS_RELEASE 2u

/* The figures of an export and of a ring, in the order of the messages; as in weir_export_info and weir_ring_info. */
#define WIRE_FLOW_FIGURES(X) X(pushed) X(bytes) X(dropped) X(refused) X(hangs) X(leases_given) X(lag) X(lag_high)
#define WIRE_EXPORT_FIGURES(X)                                                                                                             \
    X(importers) X(hung) X(evicted) X(blocks) X(leases) X(mappings) X(evictions) WIRE_FLOW_FIGURES(X)
#define WIRE_RING_FIGURES(X) X(slot_size) X(depth) X(taken) X(queued) X(readers) X(hung) WIRE_FLOW_FIGURES(X)
#define WIRE_FIGURE(name) uint64_t name;

struct wire_message {
    enum wire_type type;
    uint32_t request; /* chosen by who asks, not 0, and given back in the answer; 0: not an answer */
    union {
        struct { uint16_t role; char name[WIRE_NAME_SIZE]; } hello; /* name: of the program, for people; may be empty */
        struct { uint32_t flags; char name[WIRE_NAME_SIZE]; } acquire;
        struct { uint32_t leases; char name[WIRE_NAME_SIZE]; } subscribe; /* leases: how many frames at a time; 0: as many as may be */
        struct { uint32_t ring; } unsubscribe, ended;
        struct { uint32_t lease; uint16_t how; } release;
        struct { uint64_t block; } block;
        struct { uint64_t epoch; } epoch;
        struct { int32_t pid; } evict;
        struct {
            uint64_t epoch;
            int32_t pid;
            char pool[WIRE_NAME_SIZE];
            char uuid[WIRE_UUID_SIZE]; /* of the device */
        } welcome;
        struct { uint32_t status; char text[WIRE_TEXT_SIZE]; } refused; /* status: a weir_status */
        struct {
            uint32_t lease; /* its number: below the exporter's limit, free to be used again after RELEASE */
            uint32_t ring;  /* 0: the block of a name */
            uint32_t flags;
            uint32_t metadata_size;
            uint64_t sequence; /* of the frame, from 1; frames that were dropped leave gaps */
            uint64_t block;
            uint64_t size; /* bytes that were published */
            unsigned char metadata[WIRE_METADATA_MAX];
            uint64_t block_size; /* with WIRE_HAS_BLOCK; bytes of the whole block */
            struct gpu_shared_block shared;
            struct gpu_shared_event ready;   /* recorded behind the writing of the block */
            struct gpu_shared_event release; /* with WIRE_HAS_RELEASE */
        } lease;
        struct { uint32_t ring, depth, leases; uint64_t slot_size; } subscribed;
        struct {
            int32_t pid;
            uint32_t uid;
            uint16_t state; /* enum wire_state */
            uint32_t leases, mappings;
            uint64_t idle_ms;
            char name[WIRE_NAME_SIZE]; /* as in HELLO */
        } importer;
        struct {
            int32_t pid;
            uint16_t hold; /* enum wire_hold */
            uint32_t ring;     /* a number of the ring; 0: the block of a name, or a slot of a ring that was closed */
            uint64_t sequence; /* of the frame that is leased, or 0 */
            uint64_t block, size, held_ms;
            char name[WIRE_NAME_SIZE]; /* of the block or the ring */
        } holds;
        struct { WIRE_EXPORT_FIGURES(WIRE_FIGURE) } export;
        struct {
            uint32_t ring;     /* its number, as in HOLDS */
            uint32_t overflow; /* a weir_overflow */
            WIRE_RING_FIGURES(WIRE_FIGURE)
            char name[WIRE_NAME_SIZE];
        } ring;
        struct { char uuid[WIRE_UUID_SIZE]; } offer;
        struct {
            uint64_t bytes;       /* as many as are missing */
            uint32_t deadline_ms; /* after which nothing is given any more */
            char uuid[WIRE_UUID_SIZE];
        } give;
        struct {
            uint64_t keep; /* bytes that stay reserved of each pool, or WIRE_POLICY_KEEP */
            uint32_t deadline_ms;
            char pool[WIRE_NAME_SIZE]; /* "": every pool */
        } trim;
        struct { char text[WIRE_TEXT_SIZE]; } set; /* "pools.a.release_threshold=1GiB", as in $WEIR_CONF */
        struct { uint64_t bytes; } offered; /* at most: what is reserved and not live, less what is to be kept */
        struct { uint64_t bytes, took_us; } gave;
        struct { uint32_t level, flags; } record;
        struct {
            uint64_t bytes, events, lost; /* that were written, and were not */
            uint32_t error;               /* errno of the write that failed; 0: none */
        } recorded;
        struct { char text[WIRE_PIECE_SIZE]; } piece; /* without its NUL, the next part of the document */
    } u;
};
#undef WIRE_FIGURE

/* Writes the message; returns its bytes, at most WIRE_SIZE_MAX. The message must be a valid one: what wire_decode() would return, though
   what lies behind the NUL of a string does not matter. 0: there is no such type. */
size_t wire_encode(const struct wire_message *message, unsigned char bytes[WIRE_SIZE_MAX]);

enum wire_fault {
    WIRE_GOOD,
    WIRE_NOT_WEIR,      /* too short to tell its type, or another magic */
    WIRE_OTHER_VERSION, /* than that of the sockets whose type it is; nothing behind the first eight bytes was looked at */
    WIRE_MALFORMED,     /* a type, length, name, number or flag that this version does not allow */
};

/* Reads a message; *message is set only on WIRE_GOOD. version gets the other side's version on WIRE_OTHER_VERSION; may be NULL. */
enum wire_fault wire_decode(const unsigned char *bytes, size_t len, struct wire_message *message, uint16_t *version);

enum wire_sender { WIRE_NOBODY, WIRE_IMPORTER_SENDS, WIRE_EXPORTER_SENDS, WIRE_CONTROLLER_SENDS, WIRE_PROCESS_SENDS };
/* Who sends messages of this type; NOBODY: there is no such type. */
enum wire_sender wire_sender(enum wire_type type);
/* "ACQUIRE"; "unknown" for what is none. */
const char *wire_type_name(enum wire_type type);
/* Whether a string may be the name of a block or a ring. */
bool wire_is_name(const char *name);
/* What may be sent of a text, from its beginning: no control characters but newlines, and no part of a character at the end. */
void wire_copy_text(char to[WIRE_TEXT_SIZE], const char *from);

#endif
