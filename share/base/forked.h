/* SPDX-License-Identifier: MIT */
/*
 * forked.h - the descriptors that the child of a fork must close. A child inherits a copy of every socket, and the process at the other end
 * of a socket sees the end of the connection only once the last copy is closed.
 *
 * The process has one list of such descriptors. The lock of this list is held over fork(), so that the child finds the list complete.
 */
#ifndef WEIR_SHARE_FORKED_H
#define WEIR_SHARE_FORKED_H

/* An entry of the list, embedded in the export, import or control socket that owns the descriptors. The lock of the list guards `next`. */
struct share_forked {
    struct share_forked *next;
    void (*close)(struct share_forked *forked); /* called in the child, which has one thread: takes no lock, and only closes descriptors */
};

/* Take and release the lock of the list. The process cannot fork while the lock is held. A thread holds the lock while it opens or closes a
   descriptor of an entry, so that at a fork every such descriptor belongs to an entry of the list. */
void share_forked_hold(void);
void share_forked_release(void);

/* Put an entry into the list and take it out. The caller holds the lock. */
void share_forked_add(struct share_forked *forked, void (*close)(struct share_forked *forked));
void share_forked_remove(struct share_forked *forked);

#endif
