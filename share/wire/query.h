/* SPDX-License-Identifier: MIT */
/*
 * query.h - the client side: sends questions to the control sockets of other processes (as a controller), or to exports (as an observer or
 * importer). Any number of questions run at a time, each on its own connection, and none waits for another.
 *
 * The calling thread blocks until all questions are answered or the deadline has passed. No lock, no state between calls, and no calls of
 * CUDA.
 */
#ifndef WEIR_SHARE_QUERY_H
#define WEIR_SHARE_QUERY_H

#include "include/weir.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"

/* Tries once to connect to `path`, without waiting. Returns WEIR_GONE (nobody listens), WEIR_REFUSED (no permission, or
   share_check_server() refused), WEIR_PROTOCOL (the path has a socket of another type), WEIR_TIMEOUT (the queue of the listener is full;
   poll() cannot tell when it has room), WEIR_NO_HOST_MEMORY or WEIR_INVALID. `role` is the role of a query, for the error text. *server
   gets the ids of the process that listens, if they can be known. */
weir_status share_connect(const char *path, unsigned role, weir_error *error, int *fd, struct ucred *server);

/* Writes the name of this program in a form that a message may carry. */
void share_program_name(char name[WIRE_NAME_SIZE]);

struct share_query {
    /* The caller sets these. */
    const char *path;
    struct wire_message question; /* a question that a controller, an observer or an importer may send; query.c sets its request number */
    /* 0: a controller, at a control socket; or an enum wire_role, at the socket of an export. For an observer, query.c sends HELLO first,
       and the question after WELCOME; an importer asks nothing but HELLO here */
    unsigned role;
    const char *called;           /* the name of the asked process in error texts; NULL: the path */
    /* Called for each answer, the last one too, but not for a refusal. Returning false says that the answer does not fit the question, and
       ends the query with WEIR_PROTOCOL. NULL: answers are ignored. */
    bool (*take)(struct share_query *query, const struct wire_message *answer);
    void *data;

    /* The outcome: WEIR_OK, WEIR_GONE (nobody listens there, or the process died), WEIR_TIMEOUT, WEIR_REFUSED (credentials, or another
       version), WEIR_PROTOCOL, WEIR_NO_HOST_MEMORY, or the status with which the process denied the question. */
    weir_status status;
    /* The reason, with the path, or in the words of the process that denied; "" with WEIR_OK. */
    char text[SHARE_PATH_SIZE + WIRE_TEXT_SIZE];
    int pid;                   /* the listening process, in this PID namespace; 0: it is in another namespace, or was not reached */
    unsigned uid;

    /* For an importer: the connection, whatever the outcome, and the descriptor that came with WELCOME; both are the caller's; -1: none.
       pool_fd is also the descriptor that came with PAGED, or with a wrong answer to PAGE. */
    int fd, pool_fd;

    /* Only query.c uses these. */
    bool is_sent, is_over, is_welcome;
};

/* Sends one question now, without waiting. The caller must pass it to share_queries_run() afterwards, which receives the answer. */
void share_query_send(struct share_query *query);

/* Asks all questions and waits for their answers until `deadline`, by weir__service_now(). */
void share_queries_run(struct share_query *queries, size_t count, uint64_t deadline);

#endif
