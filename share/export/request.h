/* SPDX-License-Identifier: MIT */
/*
 * request.h - what clients ask of an export, and the answers: the state machine of doc/protocol.md. No state of its own: that of a client is
 * its (client.h). Called without export->lock, unless a line says otherwise.
 */
#ifndef WEIR_SHARE_REQUEST_H
#define WEIR_SHARE_REQUEST_H

#include "share/export/client.h"

/* Serves one packet, with `serving`. SHARE_BROKEN: it is against the rules, and the client is to be evicted; SHARE_AGAIN never. */
enum share_io share_request_answer(struct share_client *client, const unsigned char *bytes, size_t len);

/* On the service thread: makes leases for the requests that wait for some, and serves these. Returns whether some are left to make. */
bool share_requests_go_on(weir_export *e);

/* The answer to the HELLO of an importer or observer. With the lock. */
enum share_io share_request_welcome(struct share_client *client);

#endif
