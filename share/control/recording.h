/* SPDX-License-Identifier: MIT */
/*
 * recording.h - the trace that a controller has a weir write: to a file that the controller opened, whose descriptor it passes, until it
 * says so or its connection ends. Meanwhile the recorder notes as much as was asked for.
 *
 * Part of a control socket, and the service thread's alone, which never waits for the file: a thread of the trace's own does. A weir has
 * one at a time.
 */
#ifndef WEIR_SHARE_RECORDING_H
#define WEIR_SHARE_RECORDING_H

#include "share/wire/wire.h"

struct share_asker;
struct share_control;
struct weir__trace;

struct share_recording {
    struct weir__trace *trace; /* NULL: there is none */
    struct share_asker *asker; /* who is told at the end; NULL: it has gone, or there is no trace */
    uint32_t request;          /* its number */
    bool is_ending;            /* the trace writes what is left */
};

/* Answers RECORD. passed: the descriptor, taken over; -1: none came. */
void share_recording_begin(struct share_asker *asker, const struct wire_message *question, int passed);
/* The asker wants no more of it. Does nothing if it is not that asker's, as does the next one. */
void share_recording_stop(struct share_control *control, const struct share_asker *asker);
/* The asker goes. */
void share_recording_leave(struct share_control *control, const struct share_asker *asker);
/* Tells the asker, if it is over. Returns when to look again. */
uint64_t share_recording_look(struct share_control *control);
/* Ends it, and waits for the file. */
void share_recording_close(struct share_control *control);

#endif
