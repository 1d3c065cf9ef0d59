/* SPDX-License-Identifier: MIT */
/*
 * packets.h - the packets of a trace of Perfetto, on one sequence for each of the traces that are written.
 *
 * They belong to their maker, who frees the messages. One thread.
 */
#ifndef WEIR_TRACE_PACKETS_H
#define WEIR_TRACE_PACKETS_H

#include "tools/trace/proto.h"

/* Fields of perfetto.protos.Trace and what is in it, and values of its enums. */
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    SNAPSHOT_CLOCK = 1,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    CLOCK_IS_REAL = 1,
    CLOCK_IS_BOOT = 6,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    COUNTER_UNIT = 3,
    UNIT_BYTES = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    EVENT_CALLSTACK = 56,
    EVENT_CALLSTACK_WEIGHT = 57,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,
    ANNOTATION_UINT = 3,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,
};

struct packets {
    struct proto proto;
    FILE *out;
    uint64_t number;  /* of the trace, from 1: the sequence */
    uint64_t started; /* nanoseconds since 1970 */
};

/* time: nanoseconds since the trace was started. */
void packets_begin_packet(struct packets *packets, uint64_t time);
void packets_end_packet(struct packets *packets);

/* A packet with an event on a track; what is written between them is the event's. */
void packets_begin_event(struct packets *packets, uint64_t time, unsigned type, uint64_t track);
void packets_end_event(struct packets *packets);
/* The event in a packet that was begun. */
void packets_open_event(struct packets *packets, unsigned type, uint64_t track);

/* What the viewer says of an event. */
void packets_annotate_text(struct packets *packets, const char *name, const char *value);
void packets_annotate(struct packets *packets, const char *name, uint64_t value);

#endif
