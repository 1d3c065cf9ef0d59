/* SPDX-License-Identifier: MIT */
#include "tools/trace/packets.h"

void packets_begin_packet(struct packets *packets, uint64_t time)
{
    proto_begin(&packets->proto, TRACE_PACKET);
    proto_number(&packets->proto, PACKET_TIMESTAMP, time > INT64_MAX - packets->started ? INT64_MAX : packets->started + time);
    proto_number(&packets->proto, PACKET_SEQUENCE, packets->number);
}

void packets_end_packet(struct packets *packets)
{
    proto_end(&packets->proto);
    proto_flush(&packets->proto, packets->out);
}

void packets_open_event(struct packets *packets, unsigned type, uint64_t track)
{
    proto_begin(&packets->proto, PACKET_TRACK_EVENT);
    proto_number(&packets->proto, EVENT_TYPE, type);
    proto_number(&packets->proto, EVENT_TRACK, track);
}

void packets_begin_event(struct packets *packets, uint64_t time, unsigned type, uint64_t track)
{
    packets_begin_packet(packets, time);
    packets_open_event(packets, type, track);
}

void packets_end_event(struct packets *packets)
{
    proto_end(&packets->proto);
    packets_end_packet(packets);
}

void packets_annotate_text(struct packets *packets, const char *name, const char *value)
{
    proto_begin(&packets->proto, EVENT_ANNOTATION);
    proto_text(&packets->proto, ANNOTATION_NAME, name);
    proto_text(&packets->proto, ANNOTATION_TEXT, value);
    proto_end(&packets->proto);
}

void packets_annotate(struct packets *packets, const char *name, uint64_t value)
{
    proto_begin(&packets->proto, EVENT_ANNOTATION);
    proto_text(&packets->proto, ANNOTATION_NAME, name);
    proto_number(&packets->proto, ANNOTATION_UINT, value);
    proto_end(&packets->proto);
}
