/* SPDX-License-Identifier: MIT */
/*
 * process.h - the process at the other end of a socket: its identity, and how this process notices its death.
 *
 * A pidfd tells of the death. The end of the connection does not, since a process may close its socket while its kernels still run.
 */
#ifndef WEIR_SHARE_PROCESS_H
#define WEIR_SHARE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "include/weir.h"

/* The caller of share_process_of() owns this until share_process_close(). */
struct share_process {
    pid_t pid; /* in this process's PID namespace */
    uid_t uid;
    gid_t gid;
    size_t group_count; /* supplementary groups */
    gid_t *groups;
    int pidfd; /* readable once the process is dead */
    int memory_fd; /* a descriptor of its address space, from share_process_watch_memory(); -1: the address space is not watched */
};

/* Finds out which process made the connection: its ids as of the connection (SO_PEERCRED, SO_PEERGROUPS), and a pidfd (SO_PEERPIDFD). A
   kernel without SO_PEERPIDFD gets pidfd_open(), with checks that the pid still belongs to the process that connected; one check reads the
   descriptors of that process, which for other users' processes only root can. Returns WEIR_REFUSED if the process is in a PID namespace
   that this process cannot see, WEIR_GONE if the process is dead already, or WEIR_NO_HOST_MEMORY. */
weir_status share_process_of(int socket, weir_error *error, struct share_process *process);
void share_process_close(struct share_process *process);

/*
 * share_process_lost_memory() tells whether the process has replaced its address space by exec(), so that none of its mappings is left
 * although it lives. The kernel tells this only of an address space that share_process_watch_memory() opened before the exec(), and lets
 * this process open those of its own user, or all of them if this process is root. Returns false if the address space could not be opened,
 * or if another process still shares it (vfork).
 */
void share_process_watch_memory(struct share_process *process);
bool share_process_lost_memory(const struct share_process *process);

#endif
