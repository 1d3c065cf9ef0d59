/* SPDX-License-Identifier: MIT */
/*
 * import.h - the importing side: connections to an export one after the other, and what is leased over them.
 *
 * An import is the application's. A session is one connection of it, with the pool imported over it; it ends when the exporter is gone, has
 * retired the pool or evicted it, and the next request begins another. A session that has ended lives on until its last lease is
 * released.
 *
 * Two locks. `lock` guards everything that does not say otherwise; it is a leaf and no CUDA call is made under it. `mapping_lock` is taken
 * before it, and held over the CUDA calls that import and free, so that no block is imported twice.
 *
 * Who reads the socket: a thread that waits for an answer reads for all that wait (the pump). While nobody has waited for a while, the
 * service thread watches it. Where the application polls a reader's descriptor that is at once.
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

#define SHARE_TAKE_OVER UINT64_C(10000000) /* nanoseconds without a wait, after which the service thread watches the socket */
#define SHARE_SAID_MAX 131072 /* bytes of messages to an exporter that does not read: more than 1,024 releases */
#define SHARE_FINISH_PAUSE UINT64_C(100000) /* nanoseconds between two looks of a thread that waits for the end of sessions */
#define SHARE_BLOCK_MAX (UINT64_C(5248) << 20) /* CUDA crashes the process that imports a larger one (measured) */

/* A block of the exporter in this process. */
struct share_mapped {
    struct share_mapped *next; /* session->mappings */
    uint64_t id;
    uint64_t bytes;
    struct gpu_shared_block handle;
    struct gpu_shared_event ready_handle;
    unsigned leases;   /* that this process has, queued ones too */
    bool is_withdrawn; /* the exporter wants it unmapped */
    /* Guarded by mapping_lock. */
    void *ptr; /* NULL: not imported yet */
    gpu_event ready;
};

/* A lease number of a session. The event is the exporter's, and recorded by us. */
struct share_number {
    struct gpu_shared_event handle;
    bool has_handle;
    bool is_leased; /* some lease has the number */
    /* Guarded by mapping_lock, until a lease with this number has both; then that lease's owner's. */
    gpu_event release;
    gpu_event behind; /* our own, behind the last use: what unmapping waits for when the exporter is gone */
    bool is_recorded;
};

struct share_session {
    struct share_session *next; /* import->sessions */
    weir_import *i;
    int fd; /* -1: ended */
    bool is_guarded; /* the kernel lets the exporter send no more descriptors */
    struct share_process exporter;
    uint64_t epoch; /* 0: the exporter has not let this process in */
    int device;
    gpu_pool pool;
    gpu_stream stream; /* where mappings are freed; NULL until needed. Guarded by mapping_lock */
    int farewell; /* WIRE_RETIRED: the exporter has asked for its pool back; WIRE_GOODBYE: the application closes the import; else 0 */
    bool is_refused;  /* the exporter has said why it ends the connection: it lives on, and its rings too */
    bool says_farewell;    /* nothing of it is left but the farewell: to be said, and heard */
    uint64_t farewell_until;  /* nanoseconds: then it is closed whether that was heard or not */
    struct share_outbox outbox; /* what did not fit into the socket */
    uint32_t watched;   /* what epoll tells the service thread of it: EPOLLIN, EPOLLOUT; 0: nothing */
    unsigned leases;
    unsigned users; /* threads that wait for something of it */
    struct share_mapped *mappings;
    struct share_number numbers[WIRE_LEASES_MAX];
};

struct weir_lease {
    weir_lease *next; /* reader->frames */
    struct share_session *session;
    struct share_mapped *mapped;
    weir_reader *reader; /* NULL: a block with a name, or its reader is closed */
    bool is_taken; /* by the application */
    uint32_t number;
    weir_lease_info info;
    unsigned char metadata[WIRE_METADATA_MAX];
};

/* How a reader's ring has ended. LOST: with the connection. TOLD: it was closed, and the application knows. */
enum share_end { SHARE_END_NONE, SHARE_END_LOST, SHARE_END_CLOSED, SHARE_END_TOLD };

struct weir_reader {
    weir_reader *next; /* import->readers */
    weir_import *i;
    char name[WIRE_NAME_SIZE];
    uint32_t wanted;
    struct share_session *session; /* where it is subscribed, or NULL */
    uint32_t ring;
    unsigned limit;
    unsigned held;      /* frames that the application has; a closed reader goes with the last of them */
    enum share_end end; /* of the ring that it was subscribed to last */
    bool is_closed;
    bool is_subscribing; /* by some thread; the others wait */
    int event_fd;        /* an eventfd that the application polls, or -1: nobody has asked for it */
    bool is_shown;       /* it can be read from */
    weir_lease *frames; /* that came and were not taken, oldest first */
    weir_lease **latest;
};

/* A request of this process that waits for its answer. On the stack of who waits. */
struct share_request {
    struct share_request *next; /* import->requests */
    struct share_session *session;
    uint32_t number;
    weir_reader *reader; /* of a SUBSCRIBE */
    bool can_be_done;   /* an UNSUBSCRIBE */
    bool can_be_leased; /* an ACQUIRE */
    bool is_answered;
    struct wire_message answer;
    weir_lease *lease; /* of an ACQUIRE */
};

struct weir_import {
    struct weir__attached attached;
    struct share_forked forked;
    weir *w;
    const struct gpu *gpu;
    char socket[SHARE_PATH_SIZE]; /* as the application calls it */
    unsigned timeout_ms;
    bool host_waits;
    uint64_t spin; /* nanoseconds. Fixed after open */
    struct weir__job job;

    pthread_mutex_t mapping_lock;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was received, or the pump is free. CLOCK_MONOTONIC */
    struct share_news news;
    struct share_session *session;  /* the present one, or NULL */
    struct share_session *sessions; /* all, ended ones too */
    weir_reader *readers;
    struct share_request *requests;
    uint32_t last_request;
    int wake_fd;  /* an eventfd: ends the wait of who pumps */
    int epoll_fd; /* what the job watches: sockets that nobody pumps */
    bool is_pumping;
    bool is_connecting;
    bool is_watched;  /* by the service thread */
    unsigned polled;  /* readers that have an event_fd: the service thread watches whenever nobody pumps */
    bool is_handed_over; /* the service thread will look whether anybody still waits */
    bool was_pumped; /* since the service thread's last look */
};

/* Sessions (session.c). */

/* Connects, unless there is a session. Without the locks. */
weir_status share_session_ensure(weir_import *i, uint64_t deadline, weir_error *error);
/* Sends what waits, and reads what has come; with the lock. Ends the session where that is against the rules. */
void share_session_drain(struct share_session *session);
/* Waits until `is_done` or the deadline (CLOCK_MONOTONIC, nanoseconds) or the end of the session; with the lock, let go meanwhile. */
bool share_session_wait(struct share_session *session, bool (*is_done)(void *data), void *data, uint64_t deadline);
/* With the lock: a thread, counted in `users`, looks at it no more. */
void share_session_unuse(struct share_session *session);
/* With the lock: all who wait look again at what they wait for. */
void share_session_stir(weir_import *i);
/* Closes the socket, if it is open. The exporter sees it at once, although a thread that pumps, or a forked child, may have the socket yet. */
void share_session_close(struct share_session *session);
/* With the lock. */
void share_session_end(struct share_session *session);
/* With the lock: ends it too, but the exporter, which does not answer, is told when nobody uses it any more. */
void share_session_give_up(struct share_session *session);
/* Sends the message, or keeps it until the exporter reads. Anything but SHARE_DONE: the session has ended, or is to end. With the lock. */
enum share_io share_session_send(struct share_session *session, const struct wire_message *message);
/* Sends what is kept. With the lock. */
void share_session_flush(struct share_session *session);
/* What the service thread is told of the socket is as it has to be now. With the lock. */
void share_session_watch(struct share_session *session);
/* The service thread watches the present session from now on, unless somebody pumps. With the lock. */
void share_session_hand_over(weir_import *i);

/* Ending (farewell.c). */

/* Gives back what ended sessions still have, if no lease needs it; unmaps what is withdrawn; answers RETIRE. Takes both locks, and waits for
   no exporter. Returns when to look again: WEIR__SERVICE_NEVER if nothing is left to do, else by then or when the job is woken. */
uint64_t share_sessions_tidy(weir_import *i);
/* The same until nothing is left to do or the deadline; who has not heard the farewell by then will not. */
void share_sessions_finish(weir_import *i, uint64_t deadline);
/* With the lock: a session that has nothing on the GPU says farewell, and goes once that was heard. */
void share_session_say_farewell(struct share_session *session);
/* Of a session that is on no list. */
void share_session_free(struct share_session *session);

/* Messages (receive.c). With the lock. false: against the rules. */
bool share_receive_message(struct share_session *session, const struct wire_message *message);

/* What the application polls tells whether weir_reader_next() has something to say. After every change of that, with the lock. */
void share_reader_show(weir_reader *reader);
/* The same of all readers of the session. */
void share_readers_show(struct share_session *session);

/* The exporter is gone, and with it the rings that its readers have not heard of otherwise. With the lock. */
void share_readers_lose(struct share_session *session);
/* The session is no more: its readers are subscribed nowhere, and the frames that they have not taken are lost. With the lock. */
void share_readers_leave(struct share_session *session);

/* Mappings (mapping.c). */

/* Ends a lease that came, but is not given to the application. With the lock. */
void share_lease_return(weir_lease *lease);
/* The lease is no more, whether or not the exporter knows. The last one of a session that has ended lets it go. With the lock. */
void share_lease_forget(weir_lease *lease);
/* Frees the block's import and waits until it is gone. With mapping_lock. */
void share_mapped_free(struct share_session *session, struct share_mapped *mapped);
/* Destroys everything of a session on the GPU: nobody uses it any more. With mapping_lock. */
void share_session_unmap(struct share_session *session);

/* Makes the lease ready for use on the stream. If that fails it is still the caller's to return. */
weir_status share_lease_deliver(weir_lease *lease, gpu_stream stream, uint64_t deadline, weir_error *error);

#endif
