/* SPDX-License-Identifier: MIT */
/*
 * export.h - one pool that is shared: what is published, to whom, and who holds what.
 *
 * Owned by the application, from weir_export_open() to weir_export_close(). Two kinds of threads meet here: the application's, which
 * publish, take, push and withdraw, and the service thread. `lock` guards everything below that does not say otherwise. It is a leaf: sockets
 * are written to under it, which never blocks, but CUDA is not called. Whoever holds `serving` reads the sockets and asks the releases
 * (serve.h); nothing that takes long is done under it. The service thread alone makes clients and leases, each with its event, and destroys
 * them; a client goes from the list under both locks.
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

#define SHARE_READERS_MAX 64 /* of a ring: a bit for each */

struct share_client;
struct share_reader;

/* What epoll tells of: the descriptor of a connection, or of a process. */
struct share_watch {
    struct share_client *client;
    bool is_death;
};

/* LEAVING: one thread is pushing or dropping it, and no other may. */
enum share_slot { SHARE_SLOT_FREE, SHARE_SLOT_TAKEN, SHARE_SLOT_LEAVING, SHARE_SLOT_QUEUED };

/* One published block, or one slot of a ring; lent to the export until nobody maps it. */
struct share_block {
    struct share_block *next; /* export->blocks, or those to be freed */
    uint64_t id;              /* no other block of any export has it */
    char name[WIRE_NAME_SIZE];
    void *ptr;
    size_t bytes; /* of the block */
    size_t size;  /* of what was published */
    uint32_t metadata_size;
    unsigned char metadata[WIRE_METADATA_MAX];
    gpu_event ready; /* recorded behind the writing */
    bool is_recorded;
    struct gpu_shared_event ready_handle;
    struct gpu_shared_block handle;
    bool is_withdrawn; /* leased no more */
    unsigned leases;
    struct share_mapping *mappings; /* a list by next_of_block */
    /* Of a slot. */
    weir_ring *ring; /* NULL: the block has a name, or its ring is closed */
    enum share_slot slot;
    uint64_t sequence;
    uint64_t awaited;         /* readers that are still to get the frame */
    struct share_block *later; /* ring->oldest */
};

/* A block in the address space of an importer, from the first lease until the importer says that it is unmapped, or is dead. */
struct share_mapping {
    struct share_mapping *next_of_block, *next_of_client;
    struct share_block *block;
    struct share_client *client;
    unsigned leases;
    bool is_told; /* that the block is withdrawn */
};

struct weir_export {
    struct weir__attached attached;
    struct share_forked forked;
    weir *w;
    const struct gpu *gpu;
    weir_pool *pool;
    int device;
    gpu_stream stream; /* where blocks are freed */
    char socket[128]; /* share.socket of the policy when it was opened, as the next */
    bool has_others;  /* whether share.allow named somebody */
    struct share_server server; /* its epoll, the gate, is what the job watches: the listener, and epoll_fd while the gate is open */
    int epoll_fd; /* sockets and deaths of clients: what whoever serves looks at */
    int wake_fd;  /* an eventfd: ends the sleep of who waits for a slot */
    int pool_fd;  /* of this epoch, for importers */
    struct weir__job job;

    pthread_mutex_t serving; /* before `lock`; held by whoever serves */
    uint64_t poll_all;       /* guarded by serving; nanoseconds: when all releases are looked at, not only each client's oldest ones */
    uint32_t looks;          /* guarded by serving; how often releases were looked at */
    uint64_t spin;           /* nanoseconds. Fixed after open */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot has become free, or a mapping has ended. CLOCK_MONOTONIC */
    struct share_news news;
    bool is_closing;
    /* Of the policy, as of when it last changed. */
    uint64_t max_importers, retire_after;
    struct share_allowed allowed;
    uint64_t epoch;
    uint64_t exported_in; /* how many blocks were exported in this epoch: their memory is lost to the device until it ends */
    uint64_t last_publication; /* the upper bits of the numbers of its blocks, from a random number on */
    uint32_t last_ring;
    struct share_block *blocks;
    struct share_block *dead; /* nobody maps them: the service thread frees them */
    weir_ring *rings;
    struct share_figures figures;
    uint64_t evictions;
    struct share_client *clients;
    uint64_t waits_since; /* nanoseconds: the last news of a release, while some are to come to pass; else 0 */
    /* Who serves (serve.c). */
    bool is_gate_closed;
    bool has_waiter;          /* a thread that waits for a slot serves; others sleep on `changed` */
    bool is_asleep, is_woken; /* it sleeps at the sockets, and an event to end that is on its way */
    uint64_t asleep_until;    /* nanoseconds: when it looks at releases by itself */
    uint64_t taken_at, served_at, turn_at; /* nanoseconds: the last take, look at the sockets, and when the service thread looks next */

    /* The service thread's own. */
    struct share_client *gone; /* to be destroyed at the end of the job's run */
    uint64_t empty_since;      /* nanoseconds; 0: not empty, or not known */
    uint64_t retire_until;     /* importers are being asked to let go of the pool; 0: no */
};

/* Blocks (block.c). With the lock held, but for the first and the last. */

/* A block that can be published: lent, exported, with its event. The caller's until share_block_add(). */
weir_status share_block_new(weir_export *e, void *ptr, weir_error *error, struct share_block **block);
/* index: of a slot. share_publication_new(): the number of what is published now, a block or all slots of a ring. */
void share_block_add(weir_export *e, struct share_block *block, uint64_t publication, unsigned index);
uint64_t share_publication_new(weir_export *e);
struct share_block *share_block_find(weir_export *e, const char *name);
void share_block_withdraw(weir_export *e, struct share_block *block);
/* A lease or a mapping of the block has ended, or a reader waits for it no more: does what follows from it. */
void share_block_released(weir_export *e, struct share_block *block);
/* Takes the block, which nobody maps, back from importers and frees its memory; or only gives it back to its user. */
void share_block_free(weir_export *e, struct share_block *block, bool memory);

/* Records the block's event behind the stream. */
weir_status share_block_record(weir_export *e, struct share_block *block, gpu_stream stream, const char *what, weir_error *error);

/* What a user publishes of a block: so many bytes, with what goes along. */
struct share_content {
    size_t size; /* 0: all, WEIR_EMPTY: none */
    const void *metadata;
    size_t metadata_size;
};
weir_status share_content_check(const struct share_block *block, const struct share_content *content, const char *function,
                                weir_error *error);
/* That is in the block. With the lock, once others know the block. */
void share_block_describe(struct share_block *block, const struct share_content *content);

/* Waking (serve.c), with the lock: who waits looks again at what it waits for. */
void share_serve_stir(weir_export *e);

/* Retiring (retire.c), on the service thread without the lock: looks whether it is time. Returns when to look again. */
uint64_t share_retire_look(weir_export *e, uint64_t now);

#endif
