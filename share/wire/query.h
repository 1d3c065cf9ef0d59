/* SPDX-License-Identifier: MIT */
/*
 * query.h - the client of all sockets: questions to control sockets of other processes, and of observers and importers to exports; any number
 * at a time, each to its own socket, none waiting for another.
 *
 * Blocks the calling thread until all are answered or the deadline has passed; no lock, no state between calls, nothing of CUDA.
 */
#ifndef WEIR_SHARE_QUERY_H
#define WEIR_SHARE_QUERY_H

#include "include/weir.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"

/* One attempt to connect, which waits for nothing. WEIR_GONE (nobody listens), WEIR_REFUSED (no permission, or share_check_server()),
   WEIR_PROTOCOL (a socket of another type), WEIR_TIMEOUT (the listener's queue is full; polling tells nothing of that),
   WEIR_NO_HOST_MEMORY, WEIR_INVALID. role: as of a query; for the text. *server: who it is, where that is known. */
weir_status share_connect(const char *path, unsigned role, weir_error *error, int *fd, struct ucred *server);

/* What this program calls itself, as it may be sent. */
void share_program_name(char name[WIRE_NAME_SIZE]);

struct share_query {
    /* The caller's. */
    const char *path;
    struct wire_message question; /* a controller's, or an observer's; its request number is set here */
    unsigned role;                /* 0: a controller, at a control socket; or an enum wire_role, at that of an export. Of an observer HELLO comes
                                     first, whose WELCOME is the first answer; that is all that an importer asks here */
    const char *called;           /* who is asked, in texts; NULL: the path */
    /* Each answer, of a type that belongs to the question, the last one too, but no refusal. false: it does not belong there, which ends
       the query with WEIR_PROTOCOL. NULL: nobody cares for them. */
    bool (*take)(struct share_query *query, const struct wire_message *answer);
    void *data;

    /* How it ended. WEIR_OK; WEIR_GONE (nobody listens there, or it died), WEIR_TIMEOUT, WEIR_REFUSED (credentials, another version),
       WEIR_PROTOCOL, WEIR_NO_HOST_MEMORY, or the status with which the process denied it. */
    weir_status status;
    char text[SHARE_PATH_SIZE + WIRE_TEXT_SIZE]; /* why, with the path, or in the words of the process that denied it; "" with WEIR_OK */
    int pid;                   /* of the listening process in this PID namespace; 0: it is in another one, or not reached */
    unsigned uid;

    int fd, pool_fd; /* an importer's: the connection, however it ended, and what came with WELCOME, the caller's; -1: none */

    /* query.c's own. */
    bool is_sent, is_over, is_welcome;
};

/* Asks one of them now, and waits for nothing; its answer is for share_queries_run(), which must follow. */
void share_query_send(struct share_query *query);

/* Asks all of them, until `deadline` by weir__service_now(). */
void share_queries_run(struct share_query *queries, size_t count, uint64_t deadline);

#endif
