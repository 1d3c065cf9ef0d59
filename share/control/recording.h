/* SPDX-License-Identifier: MIT */
/*
 * recording.h - a trace that the weir writes at the request RECORD of an asker. The asker opens the file and passes its descriptor. The
 * trace ends when the asker sends STOP or its connection ends. While it runs, the recorder notes at least the level that the asker wants.
 *
 * Part of a control socket, and used by the service thread only. A thread of the trace writes the file, so the service thread never waits
 * for the file. A weir has at most one such trace at a time.
 */
#ifndef WEIR_SHARE_RECORDING_H
#define WEIR_SHARE_RECORDING_H

#include "share/wire/wire.h"

struct share_asker;
struct share_control;
struct weir__trace;

struct share_recording {
    struct weir__trace *trace; /* NULL: no trace runs */
    struct share_asker *asker; /* the asker that gets RECORDED at the end; NULL: it has disconnected, or no trace runs */
    uint32_t request;          /* the request number of RECORD */
    bool is_ending;            /* the trace records no new events, and writes those that are left */
};

/* Answers RECORD, and starts the trace. Takes over `passed`, the file's descriptor; -1: no descriptor came. */
void share_recording_begin(struct share_asker *asker, const struct wire_message *question, int passed);
/* The asker sent STOP: lets the trace end. This function and the next one do nothing if the trace is not this asker's. */
void share_recording_stop(struct share_control *control, const struct share_asker *asker);
/* The asker disconnects: lets the trace end, and forgets the asker. */
void share_recording_leave(struct share_control *control, const struct share_asker *asker);
/* Sends RECORDED to the asker if the trace is over. Returns when to call this again. */
uint64_t share_recording_look(struct share_control *control);
/* Ends the trace, and waits until the file is written. */
void share_recording_close(struct share_control *control);

#endif
