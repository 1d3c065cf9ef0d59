/* SPDX-License-Identifier: MIT */
/*
 * client.h - a connection to an export, and the process behind it.
 *
 * Made and destroyed by the service thread, served by whoever serves; guarded by export->lock. A client whose connection has ended otherwise
 * than by a farewell is *evicted*: it stays, with what it had mapped, until its process is dead. Only one that has given everything back goes
 * at once.
 */
#ifndef WEIR_SHARE_CLIENT_H
#define WEIR_SHARE_CLIENT_H

#include "share/export/export.h"
#include "share/wire/process.h"

#define SHARE_WAITS_MAX 16
#define SHARE_OUTBOX_MAX 65536 /* bytes of answers to who does not read them */

enum share_client_state {
    SHARE_CLIENT_GREETING, /* no HELLO yet */
    SHARE_CLIENT_HELD,     /* said HELLO while the pool is being retired */
    SHARE_CLIENT_IMPORTER,
    SHARE_CLIENT_OBSERVER,
    SHARE_CLIENT_EVICTED,
    SHARE_CLIENT_GONE,
};

enum share_lease_state {
    SHARE_LEASE_IDLE,
    SHARE_LEASE_WANTED, /* kept for a request that waits */
    SHARE_LEASE_HELD,
    SHARE_LEASE_RELEASING, /* until the event is complete */
};

/* What a client needs to hold a block: a number, and an event that it records when it is done. Its number is its place in the table. */
struct share_lease {
    enum share_lease_state state;
    bool is_told;                /* the importer has the event */
    struct share_mapping *mapping; /* unless IDLE or WANTED */
    struct share_reader *reader; /* whose frames it is for; NULL: for blocks with a name */
    struct share_lease *later; /* client->releasing */
    uint64_t since, sequence;
    uint32_t look; /* export->looks when its release was last asked. Guarded by serving */
    gpu_event event;
    struct gpu_shared_event handle;
};

/* An importer's place in a ring. */
struct share_reader {
    struct share_reader *next; /* client->readers */
    struct share_client *client;
    weir_ring *ring; /* NULL: the ring is closed */
    uint32_t number; /* of the subscription, on its connection; not 0 */
    unsigned index;  /* among the ring's readers */
    unsigned limit;  /* frames that it gets without releasing one */
    unsigned leases; /* not released */
    uint64_t released; /* the last frame that it released; before that the last that it came too late for */
    unsigned assigned; /* leases that it has for them; those beyond the limit can be taken back */
    bool is_hung;
    bool is_ended; /* ENDED is to be sent */
};

/* An ACQUIRE or a SUBSCRIBE, as it was asked. */
struct share_asked {
    enum wire_type type;
    uint32_t request, argument; /* flags, or how many leases */
    char name[WIRE_NAME_SIZE];
};

/* Either waits for its name to be published, or for room in the socket; or for the service thread to make leases for it, each with an event
   of CUDA's, and is served then as if it came then. */
struct share_wait {
    struct share_wait *next; /* client->waits, or client->deferred */
    struct share_asked asked;
    struct share_lease *lease; /* kept for it; NULL: it waits for leases */
};

struct share_client {
    struct share_client *next; /* export->clients, or export->gone */
    weir_export *e;
    enum share_client_state state;
    struct share_connection connection; /* fd -1: evicted */
    struct share_process process;
    struct share_watch socket_watch, death_watch;
    char name[WIRE_NAME_SIZE];
    uint32_t greeting;   /* the request of its HELLO */
    bool has_pool;  /* it was given the pool, and has not said that it let go of it */
    bool is_asked;  /* to let go of it: it gets nothing any more, and connects again when it wants something */
    bool said_farewell;  /* it said so, in good order */
    bool is_broken; /* its socket failed: to be evicted */
    unsigned lease_count, wait_count;
    uint32_t last_reader;
    struct share_lease *leases[WIRE_LEASES_MAX];
    struct share_lease *releasing; /* oldest first, a list by `later` */
    struct share_mapping *mappings; /* a list by next_of_client */
    struct share_reader *readers;
    struct share_wait *waits;
    struct share_wait *deferred; /* oldest first */
    unsigned deferred_count;
    uint64_t heard; /* its last message; nanoseconds */
};

/* On the service thread, without the lock. */

/* Takes a connection as a client. */
bool share_client_admit(struct share_server *server, int fd, weir_error *error);
/* Evicts who broke the rules or is too slow. Returns when to look again. */
uint64_t share_clients_check(weir_export *e, uint64_t now);
void share_clients_destroy_gone(weir_export *e);
/* At the end of an export: closes all connections. */
void share_clients_destroy(weir_export *e);

/* With `serving`, without the lock. */
/* Ends the leases whose release has come to pass. everything: each is asked, however many there are. */
void share_clients_poll(weir_export *e, bool everything);

/* With the lock. */

/* SHARE_AGAIN: it does not fit now. */
enum share_io share_client_send(struct share_client *client, const struct wire_message *message, int passed);
/* An answer that does not fit behind the frames in the socket follows later; who goes on asking without reading is evicted. */
enum share_io share_client_answer(struct share_client *client, const struct wire_message *message, int passed);
/* Leases the block and tells the client. Anything but SHARE_DONE: it could not be told, and has no lease. */
enum share_io share_client_grant(struct share_client *client, struct share_block *block, struct share_lease *lease, uint32_t request);
/* A name was published: tells the clients that wait for it. */
void share_clients_offer(weir_export *e);
/* Its connection has ended, or is ended: it is evicted, with what its process still maps. With `serving` too, as are the next two. */
void share_client_evict(struct share_client *client);
/* Its process maps nothing any more. */
void share_client_forget(struct share_client *client);
/* Sends what its full socket kept back: ends of rings, frames, and what is withdrawn. */
void share_client_catch_up(struct share_client *client);
/* The service thread is to evict it, which is nothing to do amidst its lists. */
void share_client_break(struct share_client *client);
/* Evicts the importers of that process; returns whether there was one. */
bool share_clients_evict(weir_export *e, pid_t pid);
/* Sends on what is in the outbox. */
void share_client_flush(struct share_client *client);
/* It waits no more. */
void share_wait_end(struct share_client *client, struct share_wait *wait);
void share_mapping_end(struct share_client *client, struct share_mapping *mapping);
void share_reader_leave(struct share_client *client, struct share_reader *reader);
/* Its ring has ended for it: it leaves as soon as it is told. */
void share_reader_end(struct share_reader *reader);
bool share_client_is_hung(const struct share_client *client);
/* Adds up what it holds. */
void share_client_count(const struct share_client *client, unsigned *leases, unsigned *mappings);

/* Leases (lease.c). The first on the service thread, without the lock. false: no more can be had. */
bool share_lease_make(struct share_client *client);
/* How many are idle and belong to no reader. */
unsigned share_leases_spare(const struct share_client *client);
/* One that is idle, and belongs to no reader from now on; or NULL. */
struct share_lease *share_lease_spare(struct share_client *client);
/* Gives the reader so many of them; up to its limit others' too, which are beyond theirs. Returns how many it has. */
unsigned share_leases_assign(struct share_client *client, struct share_reader *reader, unsigned count);
void share_leases_unassign(struct share_client *client, const struct share_reader *reader);
/* How many frames a reader gets without releasing one. */
unsigned share_reader_limit(const weir_ring *ring, uint32_t wanted);
/* How many leases it has for that: a frame that was released need not be over before the next is leased. But a ring that drops frames always
   has a slot that one reader has not leased. */
unsigned share_reader_leases(const weir_ring *ring, unsigned limit);
/* It was released: it ends once its event is complete. */
void share_lease_await(struct share_client *client, struct share_lease *lease);
void share_lease_end(struct share_client *client, struct share_lease *lease);

/* Listing and counting (census.c): fills the outbox of an observer. false: no host memory. */
bool share_census_take(struct share_client *observer, const struct wire_message *question);

#endif
