/* SPDX-License-Identifier: MIT */
/*
 * export.h - an export shares one pool with other processes. It knows the published blocks, its clients (the connected processes), and the
 * blocks that each client maps or leases.
 *
 * Words: an importer that has a *lease* on a block may use it, and *releases* the lease when done; a release is *complete* once the
 * importer's GPU has reached its release event. A *mapping* lasts longer: from the first lease until the importer has unmapped the block or
 * is dead. A thread *serves* when it reads the clients' sockets and queries release events (serve.h). To *retire* the pool is to replace it
 * by a new one, after all importers have destroyed their imported pools (retire.c); this begins a new *epoch*.
 *
 * The application owns an export from weir_export_open() to weir_export_close(). The application's threads publish, take, push and
 * withdraw; the service thread runs the job. `lock` guards every field that does not say otherwise. It is a leaf: a thread that holds it
 * writes to sockets, without blocking, but does not call CUDA. The thread that serves holds `serving`, and does no long work meanwhile.
 * Only the service thread makes and destroys clients and leases (a lease has an event), and it holds both locks when it takes a client off
 * the list.
 */
#ifndef WEIR_SHARE_EXPORT_H
#define WEIR_SHARE_EXPORT_H

#include <pthread.h>

#include "lib/alloc/lend.h"
#include "lib/attached.h"
#include "lib/base/service.h"
#include "lib/pool/settings.h"
#include "share/base/news.h"
#include "share/export/allowed.h"
#include "share/export/figures.h"
#include "share/wire/server.h"

#define SHARE_READERS_MAX 64 /* readers of a ring; each has a bit in share_block.awaited */

struct share_client;
struct share_reader;

/* Epoll data of a client's descriptor: its socket, or, if is_death, its pidfd. */
struct share_watch {
    struct share_client *client;
    bool is_death;
};

/* State of a ring's slot. LEAVING: one thread is pushing or dropping the slot, and no other thread may do so. */
enum share_slot { SHARE_SLOT_FREE, SHARE_SLOT_TAKEN, SHARE_SLOT_LEAVING, SHARE_SLOT_QUEUED };

/* A published block, or a slot of a ring. The pool lends the block to the export until no importer maps it. */
struct share_block {
    struct share_block *next; /* in export->blocks or export->dead */
    uint64_t id;              /* unique: no other block of any export has this number */
    char name[WIRE_NAME_SIZE];
    void *ptr;
    size_t bytes; /* bytes of the whole block */
    size_t size;  /* published bytes */
    uint32_t metadata_size;
    unsigned char metadata[WIRE_METADATA_MAX];
    gpu_event ready; /* recorded after the producer's writes */
    bool is_recorded;
    struct gpu_shared_event ready_handle;
    struct gpu_shared_block handle;
    bool is_withdrawn; /* the block gets no new leases */
    unsigned leases;
    struct share_mapping *mappings; /* linked by next_of_block */
    /* These belong to slots of rings. */
    weir_ring *ring; /* NULL: a named block, or the ring is closed */
    enum share_slot slot;
    uint64_t sequence;
    uint64_t awaited;         /* bit mask of the readers that have not got the frame yet */
    struct share_block *later; /* next in ring->oldest */
};

/* A block that one importer maps, from its first lease until the importer has said that the block is unmapped, or is dead. */
struct share_mapping {
    struct share_mapping *next_of_block, *next_of_client;
    struct share_block *block;
    struct share_client *client;
    unsigned leases;
    bool is_told; /* WITHDRAW was sent */
};

struct weir_export {
    struct weir__attached attached;
    struct share_forked forked;
    weir *w;
    const struct gpu *gpu;
    weir_pool *pool;
    int device;
    gpu_stream stream; /* blocks are freed on this stream */
    char socket[128]; /* share.socket of the policy when the export was opened */
    bool has_others;  /* share.allow named somebody when the export was opened */
    /* server.epoll_fd, called the gate, is the epoll set that the job watches: it has the listener, and epoll_fd while the gate is open */
    struct share_server server;
    int epoll_fd; /* epoll set of the clients' sockets and pidfds, for the thread that serves */
    int wake_fd;  /* an eventfd that wakes the producer that sleeps at the sockets */
    int pool_fd;  /* a descriptor of this epoch's pool, sent to importers */
    struct weir__job job;

    pthread_mutex_t serving; /* taken before `lock`; held by the thread that serves */
    /* Guarded by serving; nanoseconds: when to query all release events next, and not only each client's oldest ones. */
    uint64_t poll_all;
    uint32_t looks;          /* guarded by serving; counts the rounds of queries of release events */
    uint64_t spin;           /* nanoseconds that a producer polls before it sleeps. Fixed after open */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a slot becomes free or a mapping ends. CLOCK_MONOTONIC */
    struct share_news news;
    bool is_closing;
    /* Copied from the policy when it last changed. */
    uint64_t max_importers, retire_after;
    struct share_allowed allowed;
    uint64_t epoch;
    uint64_t exported_in; /* blocks exported in this epoch: the device gets their memory back only when the epoch ends */
    uint64_t last_publication; /* number of the last publication, the upper bits of its blocks' numbers; starts at a random number */
    uint32_t last_ring;
    struct share_block *blocks;
    struct share_block *dead; /* blocks that nobody maps: the service thread frees them */
    weir_ring *rings;
    struct share_figures figures;
    uint64_t evictions;
    struct share_client *clients;
    uint64_t waits_since; /* nanoseconds: when a release last arrived or completed, while releases are incomplete; else 0 */
    /* Which thread serves (serve.c). The first waiting producer serves, and others sleep on `changed`. */
    bool is_gate_closed;
    bool has_waiter;          /* a producer waits for a slot, and serves */
    /* is_asleep: that producer sleeps at the sockets. is_woken: wake_fd was written to, in order to wake the producer */
    bool is_asleep, is_woken;
    uint64_t asleep_until;    /* nanoseconds: when it wakes by itself to query release events */
    /* Nanoseconds: the last take of a slot, the last time that a thread served, and when the service thread next checks whether to
       serve. */
    uint64_t taken_at, served_at, turn_at;

    /* Only the service thread uses these, except that other threads read retire_until; so it is written under `lock`. */
    struct share_client *gone; /* clients to destroy at the end of this run of the job */
    uint64_t empty_since;      /* nanoseconds: since when nothing is published; 0: something is, or that is not known */
    uint64_t retire_until;     /* nanoseconds: the deadline for the importers to answer RETIRE; 0: the pool is not being retired */
};

/* Blocks (block.c). The caller holds e->lock, except for share_block_new(), share_block_free() and share_block_record(), which call
   CUDA. */

/* Makes a share_block of the block at `ptr`: borrows it from the pool, exports it and makes its event. The caller owns it until
   share_block_add(). */
weir_status share_block_new(weir_export *e, void *ptr, weir_error *error, struct share_block **block);
/* share_block_add() lists the block and gives it its number, made of the publication's number and, for a slot of a ring, its index.
   share_publication_new() returns a new publication's number: one for a named block, or one for all slots of a ring. */
void share_block_add(weir_export *e, struct share_block *block, uint64_t publication, unsigned index);
uint64_t share_publication_new(weir_export *e);
struct share_block *share_block_find(weir_export *e, const char *name);
void share_block_withdraw(weir_export *e, struct share_block *block);
/* Call this when a lease or mapping of the block has ended, or a reader no longer waits for its frame: frees the slot, asks importers to
   unmap a withdrawn block, or moves a block that nobody maps to e->dead. */
void share_block_released(weir_export *e, struct share_block *block);
/* Ends the export of a block that nobody maps. With `memory` its memory is freed too; otherwise its user may use and free it again. */
void share_block_free(weir_export *e, struct share_block *block, bool memory);

/* Records the block's event after the work that is on the stream. `what` names the operation in errors. */
weir_status share_block_record(weir_export *e, struct share_block *block, gpu_stream stream, const char *what, weir_error *error);

/* The part of a block that a user publishes: `size` bytes, and metadata. */
struct share_content {
    size_t size; /* 0: the whole block; WEIR_EMPTY: no bytes */
    const void *metadata;
    size_t metadata_size;
};
weir_status share_content_check(const struct share_block *block, const struct share_content *content, const char *function,
                                weir_error *error);
/* Stores the content in the block. The caller holds e->lock if other threads know the block. */
void share_block_describe(struct share_block *block, const struct share_content *content);

/* Wakes all producers that wait for a slot, and weir_export_close(), so that they check again (serve.c). The caller holds e->lock. */
void share_serve_stir(weir_export *e);

/* Retires the pool if it is time (retire.c). Called on the service thread without locks. Returns when to call it again. */
uint64_t share_retire_look(weir_export *e, uint64_t now);

#endif
