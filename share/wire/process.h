/* SPDX-License-Identifier: MIT */
/*
 * process.h - the process at the other end of a socket: who it is, and how its death is seen.
 *
 * Death is decided by a pidfd, never by the socket, since a process may close that while its kernels still run.
 */
#ifndef WEIR_SHARE_PROCESS_H
#define WEIR_SHARE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "include/weir.h"

/* Owned by whoever called share_process_of(), until share_process_close(). */
struct share_process {
    pid_t pid; /* in this process's PID namespace */
    uid_t uid;
    gid_t gid;
    size_t group_count; /* supplementary groups */
    gid_t *groups;
    int pidfd; /* readable once the process is dead */
    int memory_fd; /* of its address space (share_process_watch_memory()); -1: that is not watched */
};

/* Who connected, as of then: SO_PEERCRED, SO_PEERGROUPS, and SO_PEERPIDFD, else pidfd_open() with checks that the pid still is the process
   that connected (one of which has to see its descriptors: root sees those of all users). WEIR_REFUSED: it is in a PID namespace that this
   process cannot see. WEIR_GONE: it is dead already. WEIR_NO_HOST_MEMORY. */
weir_status share_process_of(int socket, weir_error *error, struct share_process *process);
void share_process_close(struct share_process *process);

/*
 * Whether everything that the process had mapped is gone although it lives: it has started another program, by exec. The kernel says so of
 * an address space that was watched since before, where it lets this process look: at those of its own user, and for root at all. Of what
 * another process still shares (vfork), or cannot be seen, it is not known: false.
 */
void share_process_watch_memory(struct share_process *process);
bool share_process_lost_memory(const struct share_process *process);

#endif
