/* SPDX-License-Identifier: MIT */
/*
 * import.h - the importing side of a shared pool.
 *
 * An *import* belongs to the application, and outlives its connections. A *session* is one connection to the exporter, with the pool
 * imported over it. A session ends when the exporter is gone, retires the pool (replaces it by a new one) or evicts this process; the next
 * request then begins another session. A session that has ended lives on until its last lease is released. A *lease* is the right to use a
 * block of the exporter; a *mapped* block is one that this process has imported, and stays so between leases.
 *
 * Two locks. `lock` guards every field that does not say otherwise; it is a leaf, and no CUDA call is made under it. `mapping_lock` is
 * taken before `lock`, and held over the CUDA calls that import and free blocks, so that no block is imported twice.
 *
 * Threads that wait for messages: one of them, the *pump*, polls the socket with no lock held and hands out the messages to all; the others
 * sleep on `changed`. When no thread has waited for SHARE_TAKE_OVER, the service thread watches the socket. If the application polls the
 * descriptor of a reader, the service thread watches the socket as soon as no thread waits.
 */
#ifndef WEIR_SHARE_IMPORT_H
#define WEIR_SHARE_IMPORT_H

#include <pthread.h>

#include "lib/attached.h"
#include "lib/base/service.h"
#include "share/base/forked.h"
#include "share/base/news.h"
#include "share/base/wait.h"
#include "share/wire/outbox.h"
#include "share/wire/process.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"

#define SHARE_TAKE_OVER UINT64_C(10000000) /* nanoseconds after the last wait until the service thread watches the socket */
#define SHARE_SAID_MAX 131072 /* bytes of messages kept for an exporter that does not read: more than 1,024 RELEASEs */
#define SHARE_FINISH_PAUSE UINT64_C(100000) /* pause, in nanoseconds, of a thread that waits for sessions to end */
#define SHARE_BLOCK_MAX (UINT64_C(5248) << 20) /* CUDA crashes a process that imports a larger block (measured) */

/* A block of the exporter that this process knows, mapped or about to be mapped. */
struct share_mapped {
    struct share_mapped *next; /* in session->mappings */
    uint64_t id;
    uint64_t bytes;
    struct gpu_shared_block handle;
    struct gpu_shared_event ready_handle;
    unsigned leases;   /* leases of this process on the block, for queued frames too */
    bool is_withdrawn; /* the exporter has asked this process to unmap the block */
    /* The next two are guarded by mapping_lock. */
    void *ptr; /* NULL: the block is not imported yet */
    gpu_event ready;
};

/* A lease number of a session. The exporter made the release event, and this process records it. */
struct share_number {
    struct gpu_shared_event handle;
    bool has_handle;
    bool is_leased; /* a lease uses the number now */
    /* Guarded by mapping_lock until a lease with this number has both events; from then on the owner of this lease uses them. */
    gpu_event release;
    gpu_event behind; /* this process's own event, recorded with `release`: unmapping waits for it if the exporter is gone */
    bool is_recorded;
};

struct share_session {
    struct share_session *next; /* in import->sessions */
    weir_import *i;
    int fd; /* -1: the session has ended */
    bool is_guarded; /* the kernel lets the exporter send no more descriptors */
    struct share_process exporter;
    uint64_t epoch; /* 0: no WELCOME came yet */
    int device;
    gpu_pool pool;
    gpu_stream stream; /* blocks are freed on this stream; NULL until needed. Guarded by mapping_lock */
    /* The message that will end the session: WIRE_RETIRED if the exporter retires the pool, WIRE_GOODBYE if the application closes the
       import or the exporter does not answer; else 0. */
    int farewell;
    bool is_refused;  /* the exporter gave a reason before it ended the connection, so the exporter and its rings are still alive */
    bool says_farewell;    /* everything on the GPU is given back, and the farewell was sent: only the exporter's close is awaited */
    uint64_t farewell_until;  /* nanoseconds: the session is closed then, even if the exporter has not closed it */
    struct share_outbox outbox; /* messages that did not fit into the socket */
    uint32_t watched;   /* the events that epoll watches for on the service thread: EPOLLIN, EPOLLOUT; 0: none */
    unsigned leases;
    unsigned users; /* threads that wait for messages of the session or look at it */
    struct share_mapped *mappings;
    struct share_number numbers[WIRE_LEASES_MAX];
};

struct weir_lease {
    weir_lease *next; /* in reader->frames */
    struct share_session *session;
    struct share_mapped *mapped;
    weir_reader *reader; /* NULL: the lease is on a named block, or its reader is closed */
    bool is_taken; /* the application has it */
    uint32_t number;
    weir_lease_info info;
    unsigned char metadata[WIRE_METADATA_MAX];
};

/* How the ring of a reader has ended. LOST: the connection ended. CLOSED: the exporter said ENDED. TOLD: like CLOSED, and the
   application was told. */
enum share_end { SHARE_END_NONE, SHARE_END_LOST, SHARE_END_CLOSED, SHARE_END_TOLD };

struct weir_reader {
    weir_reader *next; /* in import->readers */
    weir_import *i;
    char name[WIRE_NAME_SIZE];
    uint32_t wanted;
    struct share_session *session; /* the session on which it is subscribed, or NULL */
    uint32_t ring;
    unsigned limit;
    unsigned held;      /* frames that the application has; a closed reader is freed with the last of them */
    enum share_end end; /* how the reader's last ring has ended */
    bool is_closed;
    bool is_subscribing; /* some thread subscribes; other threads wait for it */
    int event_fd;        /* an eventfd that the application polls; -1: the application has not asked for it */
    bool is_shown;       /* event_fd is readable */
    weir_lease *frames; /* frames that came and that the application has not taken, the oldest first */
    weir_lease **latest;
};

/* A request that waits for its answer, on the stack of the thread that sent it. */
struct share_request {
    struct share_request *next; /* in import->requests */
    struct share_session *session;
    uint32_t number;
    weir_reader *reader; /* the reader of a SUBSCRIBE */
    bool can_be_done;   /* an UNSUBSCRIBE, which DONE answers */
    bool can_be_leased; /* an ACQUIRE, which LEASE answers */
    bool is_answered;
    struct wire_message answer;
    weir_lease *lease; /* the lease that an ACQUIRE got */
};

struct weir_import {
    struct weir__attached attached;
    struct share_forked forked;
    weir *w;
    const struct gpu *gpu;
    char socket[SHARE_PATH_SIZE]; /* the socket's name, as the application gave it */
    unsigned timeout_ms;
    bool host_waits;
    uint64_t spin; /* nanoseconds that the pump polls before it sleeps. Fixed after open */
    struct weir__job job;

    pthread_mutex_t mapping_lock;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when messages were received or the pump has stopped. CLOCK_MONOTONIC */
    struct share_news news;
    struct share_session *session;  /* the session for new requests, or NULL */
    struct share_session *sessions; /* all sessions, ended ones too */
    weir_reader *readers;
    struct share_request *requests;
    uint32_t last_request;
    int wake_fd;  /* an eventfd that wakes the pump */
    int epoll_fd; /* the job watches this epoll set: it has the sockets that no pump polls */
    bool is_pumping;
    bool is_connecting;
    bool is_watched;  /* the service thread watches the socket of `session` */
    unsigned polled;  /* number of readers with an event_fd; if there are any, the service thread watches whenever no thread pumps */
    bool is_handed_over; /* the service thread is due to check whether any thread still waits */
    bool was_pumped; /* a thread has pumped since the service thread's last check */
};

/* Sessions (session.c). */

/* Connects, unless there is a usable session. The caller holds neither lock. */
weir_status share_session_ensure(weir_import *i, uint64_t deadline, weir_error *error);
/* Sends kept messages, and reads and handles those that have come. Ends the session if a message breaks the protocol. The caller holds
   i->lock, as for all functions from here on that do not say otherwise. */
void share_session_drain(struct share_session *session);
/* Waits until is_done(data) is true, the deadline has passed (CLOCK_MONOTONIC, nanoseconds), or the session ends. Releases i->lock while
   it waits. Returns is_done(data). */
bool share_session_wait(struct share_session *session, bool (*is_done)(void *data), void *data, uint64_t deadline);
/* A thread that was counted in `users` no longer uses the session. */
void share_session_unuse(struct share_session *session);
/* Wakes all waiting threads, so that they check again. */
void share_session_stir(weir_import *i);
/* Closes the socket if it is open. The exporter notices at once, even if the pump or a forked child still has a copy of the socket. The
   caller holds i->lock, or no other thread can use the session. */
void share_session_close(struct share_session *session);
/* Ends the session now: closes the socket, and detaches the readers. */
void share_session_end(struct share_session *session);
/* Ends a session whose exporter does not answer: no more requests use it, and the exporter gets a GOODBYE once no thread uses the
   session. */
void share_session_give_up(struct share_session *session);
/* Sends the message, or keeps it until the exporter reads. If the result is not SHARE_DONE, the session has ended or is about to end. */
enum share_io share_session_send(struct share_session *session, const struct wire_message *message);
/* Sends the kept messages. */
void share_session_flush(struct share_session *session);
/* Makes epoll watch the socket for the events that the service thread needs now. */
void share_session_watch(struct share_session *session);
/* The service thread watches i->session from now on, unless a thread pumps. */
void share_session_hand_over(weir_import *i);

/* Ending (farewell.c). */

/* Unmaps withdrawn blocks. Then ends each session that has no leases and has ended or got RETIRE: destroys everything that it has on the
   GPU, and sends its farewell. Takes both locks, and does not wait for an exporter. Returns when to call it again, or
   WEIR__SERVICE_NEVER if there is nothing left to do before the job is woken. */
uint64_t share_sessions_tidy(weir_import *i);
/* Repeats this until nothing is left to do or the deadline has passed. Sessions whose farewell the exporter has not heard by then are
   closed. */
void share_sessions_finish(weir_import *i, uint64_t deadline);
/* Sends the farewell of a session that has nothing on the GPU any more; the session is freed once the exporter has closed the
   connection. The caller holds i->lock. */
void share_session_say_farewell(struct share_session *session);
/* Closes and frees a session that is on no list. */
void share_session_free(struct share_session *session);

/* Handles one message of the exporter (receive.c). Returns false if the message breaks the protocol. The caller holds i->lock, also for
   the next four functions. */
bool share_receive_message(struct share_session *session, const struct wire_message *message);

/* Makes the reader's event_fd readable if weir_reader_next() would return a frame, or the end of the ring, without waiting, and
   unreadable otherwise. Call it whenever this may have changed. */
void share_reader_show(weir_reader *reader);
/* Calls share_reader_show() for all readers of the session. */
void share_readers_show(struct share_session *session);

/* The exporter is gone: sets SHARE_END_LOST for the readers of the session whose ring had not ended before. */
void share_readers_lose(struct share_session *session);
/* Detaches the readers from the session, which has ended, and frees their frames that the application has not taken. */
void share_readers_leave(struct share_session *session);

/* Mappings (mapping.c). */

/* Releases a lease that the application does not get. The caller holds i->lock. */
void share_lease_return(weir_lease *lease);
/* Frees the lease without telling the exporter. After the last lease of a session that has ended, the service thread ends the rest of
   the session. The caller holds i->lock. */
void share_lease_forget(weir_lease *lease);
/* Unmaps the block, waits until that is complete, and frees `mapped`. The caller holds mapping_lock. */
void share_mapped_free(struct share_session *session, struct share_mapped *mapped);
/* Destroys everything that the session has on the GPU, once its last uses are complete. The caller holds mapping_lock. */
void share_session_unmap(struct share_session *session);

/* Imports the block of the lease if it is not mapped yet, and makes the stream, or with host_waits this thread, wait until the block is
   written. If that fails, the caller still has to return the lease. */
weir_status share_lease_deliver(weir_lease *lease, gpu_stream stream, uint64_t deadline, weir_error *error);

#endif
