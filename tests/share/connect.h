/* SPDX-License-Identifier: MIT */
/* connect.h - how tests connect that speak the protocol themselves: again and again while the listener's queue is full. No state. */
#ifndef WEIR_TESTS_SHARE_CONNECT_H
#define WEIR_TESTS_SHARE_CONNECT_H

#include <sys/socket.h>
#include <time.h>

#include "share/wire/query.h"
#include "share/base/wait.h"

/* As share_connect(), which says what comes of it; WEIR_TIMEOUT: the queue was full all that time. */
static inline weir_status connect_within(const char *path, unsigned timeout_ms, weir_error *error, int *fd)
{
    uint64_t deadline = share_deadline(timeout_ms);
    struct ucred server;
    for (;;) {
        weir_error last = WEIR_ERROR_INIT;
        weir_status status = share_connect(path, WIRE_ROLE_IMPORTER, &last, fd, &server);
        if (error)
            *error = last;
        if (status != WEIR_TIMEOUT || share_deadline(0) >= deadline)
            return status;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

#endif
