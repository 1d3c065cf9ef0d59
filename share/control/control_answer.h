/* SPDX-License-Identifier: MIT */
/*
 * control_answer.h - the connections of a control socket, and the answers to their questions. An *asker* is one connection: a tool, or a
 * neighbour that ran out of memory.
 *
 * Only the service thread uses these structs. It never waits for an asker: it gives memory in steps, over several runs of the job, and
 * reads no more questions from an asker that does not read its answers.
 */
#ifndef WEIR_SHARE_CONTROL_ANSWER_H
#define WEIR_SHARE_CONTROL_ANSWER_H

#include "lib/attached.h"
#include "lib/base/service.h"
#include "lib/open.h"
#include "lib/release/give.h"
#include "share/control/recording.h"
#include "share/wire/server.h"

/* Limits for GIVE, so that neighbours that run out again and again do not keep this process busy with trimming. */
#define SHARE_GIVES_AT_ONCE 512
#define SHARE_GIVES_A_SECOND 512

/* A path at which the control socket listens or once listened. Paths are kept until close, since other threads may be reading
   weir.control_path. */
struct share_control_path {
    struct share_control_path *next;
    char path[SHARE_PATH_SIZE];
};

struct share_control {
    struct weir__attached attached;
    struct share_forked forked;
    struct weir__job job;
    weir *w;
    bool for_pages; /* answers no question but PAGE. Fixed */
    struct share_control_path *paths; /* all paths so far, the latest first */
    struct share_server server; /* the job watches its epoll set */
    uint64_t gives_until;  /* the time, by weir__service_now(), until which the accepted GIVEs last at the rate of GIVES_A_SECOND */
    struct share_asker *askers;
    struct share_recording recording;
};

/* One connection, from a tool or a neighbour. */
struct share_asker {
    struct share_asker *next;
    struct share_control *control;
    struct share_connection connection; /* `last` is also set when the asker was given memory */
    int pid;      /* 0: the process is in a PID namespace that this process cannot see */
    uid_t uid;
    bool is_over; /* the connection is to be closed */
    struct weir__give *give; /* the GIVE or TRIM in progress, or NULL; its next step is due at give_due, by weir__service_now() */
    enum wire_type give_type;
    uint32_t give_request;
    uint64_t give_since, give_due;
};

/* Answers one packet immediately; the answer to GIVE or TRIM comes later, from share_asker_go_on(). Takes over `passed`, the descriptor
   that came with the packet, or -1. */
void share_asker_answer(struct share_asker *asker, const unsigned char *bytes, size_t len, int passed);
/* When the next step of a GIVE or TRIM is due; WEIR__SERVICE_NEVER without one. */
uint64_t share_asker_due(const struct share_asker *asker);
/* Does the next step of the GIVE or TRIM, and answers the asker after the last step. */
void share_asker_go_on(struct share_asker *asker);
/* Ends a GIVE or TRIM without an answer. */
void share_asker_stop(struct share_asker *asker);

/* Sends the message, or keeps it until the messages before it are sent. Defined in control.c. */
void share_asker_send(struct share_asker *asker, const struct wire_message *message);
/* Refuses a request with DENIED; with request 0, the connection. */
void share_asker_deny(struct share_asker *asker, uint32_t request, weir_status status, const char *text);
void share_asker_ready(struct share_asker *asker, uint32_t request);

#endif
