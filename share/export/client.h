/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client is a connection to an export and the process behind it: an importer, or an observer (a tool that only looks).
 *
 * The service thread makes and destroys clients, and export->lock guards them. A client whose connection ends without a farewell (GOODBYE
 * or RETIRED) is *evicted*: it stays listed, with the blocks that its process had mapped, until the process is dead. A client that has said
 * farewell has given everything back, and is destroyed soon after.
 */
#ifndef WEIR_SHARE_CLIENT_H
#define WEIR_SHARE_CLIENT_H

#include "share/export/export.h"
#include "share/wire/process.h"

#define SHARE_WAITS_MAX 16
#define SHARE_OUTBOX_MAX 65536 /* bytes of answers that are kept for a client that does not read */

enum share_client_state {
    SHARE_CLIENT_GREETING, /* has not sent HELLO yet */
    SHARE_CLIENT_HELD,     /* sent HELLO while the pool is being retired: WELCOME is sent after that */
    SHARE_CLIENT_IMPORTER,
    SHARE_CLIENT_OBSERVER,
    SHARE_CLIENT_EVICTED, /* the connection has ended, but the process may still map blocks */
    SHARE_CLIENT_GONE, /* has nothing left, and will be destroyed */
};

enum share_lease_state {
    SHARE_LEASE_IDLE,
    SHARE_LEASE_WANTED, /* reserved for a request that waits */
    SHARE_LEASE_HELD,
    SHARE_LEASE_RELEASING, /* released by the importer; lasts until the release event completes */
};

/* A lease number of a client, which is its index in client->leases, with the event that the importer records when it releases the lease.
   It is used for one block after another. */
struct share_lease {
    enum share_lease_state state;
    bool is_told;                /* the importer was sent the event's handle */
    struct share_mapping *mapping; /* NULL if IDLE or WANTED */
    struct share_reader *reader; /* the reader that the lease is assigned to; NULL: it is for named blocks */
    struct share_lease *later; /* in client->releasing */
    uint64_t since, sequence;
    uint32_t look; /* value of export->looks when the release event was last queried. Guarded by export->serving */
    gpu_event event;
    struct gpu_shared_event handle;
};

/* A subscription of an importer to a ring. */
struct share_reader {
    struct share_reader *next; /* in client->readers */
    struct share_client *client;
    weir_ring *ring; /* NULL: the ring is closed */
    uint32_t number; /* number of the subscription on the client's connection; not 0 */
    unsigned index;  /* index in ring->readers */
    unsigned limit;  /* how many frames the reader may have without releasing one */
    unsigned leases; /* frames that the reader has and has not released */
    uint64_t released; /* number of the last frame that the reader released; before the first release, of the last frame that it missed */
    unsigned assigned; /* number of leases assigned to this reader; if more than `limit`, other readers may take the surplus */
    bool is_hung; /* kept the producer waiting for too long: not waited for any more until the client sends a message */
    bool is_ended; /* ENDED still has to be sent */
};

/* A request ACQUIRE or SUBSCRIBE that has to wait. */
struct share_asked {
    enum wire_type type;
    uint32_t request, argument; /* argument: the flags of ACQUIRE, or the number of leases of SUBSCRIBE */
    char name[WIRE_NAME_SIZE];
};

/* A request that waits. In client->waits it has a lease, and waits for its name to be published or for room in the socket. In
   client->deferred it waits for the service thread to make leases (each needs a CUDA event), and is then served as if it had just
   arrived. */
struct share_wait {
    struct share_wait *next; /* in client->waits or client->deferred */
    struct share_asked asked;
    struct share_lease *lease; /* the lease reserved for the request; NULL in client->deferred */
};

struct share_client {
    struct share_client *next; /* in export->clients or export->gone */
    weir_export *e;
    enum share_client_state state;
    struct share_connection connection; /* its fd is -1 if the client was evicted */
    struct share_process process;
    struct share_watch socket_watch, death_watch;
    char name[WIRE_NAME_SIZE];
    uint32_t greeting;   /* the request number of the client's HELLO */
    bool has_pool;  /* the client was sent the pool, and has not said that it destroyed its imported pool */
    bool is_asked;  /* RETIRE was sent: the client gets nothing more on this connection, and connects again when it needs something */
    bool said_farewell;  /* the client said GOODBYE or RETIRED, or its HELLO was refused */
    bool is_broken; /* the socket failed: the service thread will evict the client */
    unsigned lease_count, wait_count;
    uint32_t last_reader;
    struct share_lease *leases[WIRE_LEASES_MAX];
    struct share_lease *releasing; /* linked by `later`, the oldest first */
    struct share_mapping *mappings; /* linked by next_of_client */
    struct share_reader *readers;
    struct share_wait *waits;
    struct share_wait *deferred; /* the oldest first */
    unsigned deferred_count;
    uint64_t heard; /* nanoseconds: when the client's last message came */
};

/* The next four: called on the service thread, without e->lock. */

/* Makes a client of an accepted connection. Returns false, with the error, if the process may not connect or there is no room. */
bool share_client_admit(struct share_server *server, int fd, weir_error *error);
/* Evicts clients that broke the protocol or are too slow, and moves those that have gone to export->gone. Returns when to call it again. */
uint64_t share_clients_check(weir_export *e, uint64_t now);
void share_clients_destroy_gone(weir_export *e);
/* At the end of an export: closes all connections. */
void share_clients_destroy(weir_export *e);

/* Queries release events, and ends the leases whose release is complete. With `everything` all are queried. The caller holds
   export->serving, and not export->lock. */
void share_clients_poll(weir_export *e, bool everything);

/* For all functions from here on, unless they say otherwise, the caller holds export->lock. */

/* Sends a message. Returns SHARE_AGAIN, and does not send or keep it, if the socket is full. */
enum share_io share_client_send(struct share_client *client, const struct wire_message *message, int passed);
/* Sends an answer, or keeps it if the socket is full of frames. A client that goes on asking without reading the answers is evicted. */
enum share_io share_client_answer(struct share_client *client, const struct wire_message *message, int passed);
/* Gives the client a lease on the block and sends LEASE. If the result is not SHARE_DONE the message was not sent and the lease not
   given. */
enum share_io share_client_grant(struct share_client *client, struct share_block *block, struct share_lease *lease, uint32_t request);
/* Grants the requests that wait for a name which is published by now. */
void share_clients_offer(weir_export *e);
/* Evicts the client: closes its connection, ends its subscriptions and requests, and keeps the mappings of its process. The caller holds
   export->serving too, as for the next two functions. */
void share_client_evict(struct share_client *client);
/* The client's process is dead or has unmapped everything: ends all its leases and mappings, and its connection. */
void share_client_forget(struct share_client *client);
/* The socket has room again: sends the messages that were held back: answers, leases, frames, ENDED and WITHDRAW. */
void share_client_catch_up(struct share_client *client);
/* Marks the client as broken, so that the service thread evicts it later. An eviction here would change lists that the caller may be
   walking. */
void share_client_break(struct share_client *client);
/* Evicts the importers of process `pid`. Returns whether there was one. */
bool share_clients_evict(weir_export *e, pid_t pid);
/* Sends the messages in the outbox. */
void share_client_flush(struct share_client *client);
/* Removes and frees a waiting request. */
void share_wait_end(struct share_client *client, struct share_wait *wait);
void share_mapping_end(struct share_client *client, struct share_mapping *mapping);
void share_reader_leave(struct share_client *client, struct share_reader *reader);
/* The ring has ended for this reader: sends ENDED, and removes the reader once ENDED is sent. */
void share_reader_end(struct share_reader *reader);
bool share_client_is_hung(const struct share_client *client);
/* Counts the client's leases and mappings; adds them to *leases and *mappings. */
void share_client_count(const struct share_client *client, unsigned *leases, unsigned *mappings);

/* Leases (lease.c). share_lease_make() makes one more lease of the client; it calls CUDA, so only the service thread calls it, without
   the lock. Returns false if the client has the most leases, or host memory or CUDA fails. */
bool share_lease_make(struct share_client *client);
/* The number of the client's leases that are idle and assigned to no reader. */
unsigned share_leases_spare(const struct share_client *client);
/* Returns a lease that is idle and assigned to no reader. If there is none, takes one back from a reader that has more than its limit.
   NULL: none. */
struct share_lease *share_lease_spare(struct share_client *client);
/* Assigns idle leases to the reader until it has `count`. While the reader has less than its limit, it may get leases that other readers
   have beyond their limits. Returns how many the reader has now. */
unsigned share_leases_assign(struct share_client *client, struct share_reader *reader, unsigned count);
void share_leases_unassign(struct share_client *client, const struct share_reader *reader);
/* The limit of a reader that asked for `wanted` leases: how many frames it may have without releasing one. */
unsigned share_reader_limit(const weir_ring *ring, uint32_t wanted);
/* How many leases a reader with this limit is assigned. It is up to twice the limit, so that the next frame can be leased before the
   release of the last one is complete. In a ring that drops frames it is the limit, so that one reader never leases all slots. */
unsigned share_reader_leases(const weir_ring *ring, unsigned limit);
/* The importer has released the lease: it ends when its event completes. */
void share_lease_await(struct share_client *client, struct share_lease *lease);
void share_lease_end(struct share_client *client, struct share_lease *lease);

/* Answers LIST or COUNT (census.c): puts all messages into the observer's outbox. Returns false if host memory runs out. */
bool share_census_take(struct share_client *observer, const struct wire_message *question);

#endif
