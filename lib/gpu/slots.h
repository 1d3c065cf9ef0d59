/* SPDX-License-Identifier: MIT */
/*
 * slots.h - a file that processes of one user share, and slots in it that belong to whoever lives.
 *
 * A slot is the byte of its number, and its owner has an open-file-description lock on that byte. The kernel releases the lock when the last
 * descriptor of that opening of the file is closed, also by a kill, so nobody has to clean up. Bytes that are locked need not exist. The
 * simulator has its processes in slots, and share/control/ledger.h claims. No state.
 */
#ifndef WEIR_GPU_SLOTS_H
#define WEIR_GPU_SLOTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Opens a file of that user; flags: O_CREAT or 0. Returns -1 with errno. EPERM: the file is not the user's alone, so others could lock its
   slots. */
int gpu_slots_open(const char *path, int flags, uid_t user);

/* Takes the lock of a slot. Returns false if another opening of the file has it. */
bool gpu_slots_take(int fd, int slot);
/* Takes the first slot of `count` that is free. Returns its number, or -1. */
int gpu_slots_take_any(int fd, int count);
/* Releases those of the slots that this opening has; other descriptors of it, as of a child that is about to close them, do not keep them. */
void gpu_slots_release(int fd, int first, int count);

/* Returns whether another opening of the file has one of these slots. */
bool gpu_slots_are_taken(int fd, int first, int count);

#endif
