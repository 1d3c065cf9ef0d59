/* SPDX-License-Identifier: MIT */
/*
 * forked.h - what has to be closed in the child of a fork: sockets whose other side waits for the last copy of them to go.
 *
 * One list for the process. Its lock is held over fork(), so that the child finds it whole.
 */
#ifndef WEIR_SHARE_FORKED_H
#define WEIR_SHARE_FORKED_H

/* Embedded in its owner. */
struct share_forked {
    struct share_forked *next;
    void (*close)(struct share_forked *forked); /* called in the child, which has one thread: takes no lock, and only closes descriptors */
};

/* Between these the process does not fork: while a descriptor is opened or closed, so that none is in nobody's list at a fork. */
void share_forked_hold(void);
void share_forked_release(void);

/* Between them. */
void share_forked_add(struct share_forked *forked, void (*close)(struct share_forked *forked));
void share_forked_remove(struct share_forked *forked);

#endif
