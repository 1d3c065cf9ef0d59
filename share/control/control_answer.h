/* SPDX-License-Identifier: MIT */
/*
 * control_answer.h - the connections of a control socket, and what is answered to which question.
 *
 * Everything here is the service thread's, which serves one connection after the other and waits for none: memory is given in steps, over as
 * many runs of the job as that takes, and who does not read what it is sent is asked nothing more until it does.
 */
#ifndef WEIR_SHARE_CONTROL_ANSWER_H
#define WEIR_SHARE_CONTROL_ANSWER_H

#include "lib/attached.h"
#include "lib/base/service.h"
#include "lib/open.h"
#include "lib/release/give.h"
#include "share/control/recording.h"
#include "share/wire/server.h"

/* Neighbours that run out again and again shall not keep this process busy with trimming: so many GIVEs at once, so many a second. */
#define SHARE_GIVES_AT_ONCE 512
#define SHARE_GIVES_A_SECOND 512

/* Where a control socket lies or lay: other threads may be looking at that (weir.control_path). */
struct share_control_path {
    struct share_control_path *next;
    char path[SHARE_PATH_SIZE];
};

struct share_control {
    struct weir__attached attached;
    struct share_forked forked;
    struct weir__job job;
    weir *w;
    struct share_control_path *paths; /* that it has had, the latest first */
    struct share_server server; /* whose epoll the job watches */
    uint64_t gives_until;  /* nanoseconds, by weir__service_now() as all below: the GIVEs so far, at the rate of GIVES_A_SECOND, take until then */
    struct share_asker *askers;
    struct share_recording recording;
};

/* One connection of a controller, which may be a neighbour that ran out. */
struct share_asker {
    struct share_asker *next;
    struct share_control *control;
    struct share_connection connection; /* `last` is also when it was last given something */
    int pid;      /* 0: in a PID namespace that this process cannot see */
    uid_t uid;
    bool is_over; /* to be closed */
    struct weir__give *give; /* GIVE or TRIM in progress, or NULL */
    enum wire_type give_type;
    uint32_t give_request;
    uint64_t give_since, give_due;
};

/* Answers one packet, at once or by share_asker_go_on(). passed: a descriptor that came with it, taken over, or -1. */
void share_asker_answer(struct share_asker *asker, const unsigned char *bytes, size_t len, int passed);
/* When it is to be given more; WEIR__SERVICE_NEVER: it asks for nothing. */
uint64_t share_asker_due(const struct share_asker *asker);
/* Gives it a step more. */
void share_asker_go_on(struct share_asker *asker);
/* Ends what is being given. */
void share_asker_stop(struct share_asker *asker);

/* Sends the message as soon as what came before it is sent (control.c). */
void share_asker_send(struct share_asker *asker, const struct wire_message *message);
/* Refuses a request, or, with request 0, the connection. */
void share_asker_deny(struct share_asker *asker, uint32_t request, weir_status status, const char *text);
void share_asker_ready(struct share_asker *asker, uint32_t request);

#endif
