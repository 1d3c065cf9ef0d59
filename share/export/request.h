/* SPDX-License-Identifier: MIT */
/*
 * request.h - the requests of clients to an export, and the answers: the state machine of doc/protocol.md. The state is in struct
 * share_client (client.h).
 */
#ifndef WEIR_SHARE_REQUEST_H
#define WEIR_SHARE_REQUEST_H

#include "share/export/client.h"

/* Handles one packet. The caller holds export->serving, and not export->lock. Returns SHARE_BROKEN if the packet breaks the protocol, so
   that the client must be evicted; never SHARE_AGAIN. */
enum share_io share_request_answer(struct share_client *client, const unsigned char *bytes, size_t len);

/* Makes leases for the requests that wait for some, and serves these requests. Called on the service thread, without the locks. Returns
   whether requests are left. */
bool share_requests_go_on(weir_export *e);

/* Answers the HELLO of an importer or observer with WELCOME. The caller holds export->lock. */
enum share_io share_request_welcome(struct share_client *client);

#endif
