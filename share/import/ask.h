/* SPDX-License-Identifier: MIT */
/* ask.h - sends a request of an importer and waits for its answer. The request lies on the stack of the waiting thread, and import->lock
   guards it. */
#ifndef WEIR_SHARE_ASK_H
#define WEIR_SHARE_ASK_H

#include "share/import/import.h"

enum share_answer {
    SHARE_ANSWERED, /* the answer is in request->answer or request->lease */
    SHARE_LOST,     /* the connection ended, and the request with it: ask again over the next connection */
    SHARE_UNANSWERED,     /* no answer came by the deadline; the session was ended, since it is useless now */
};

/* Sends the message, with a request number of its own, and waits for the answer until `patience`. With can_cancel, which suits an
   ACQUIRE that may wait for long, a CANCEL is sent then, and its answer awaited. The caller holds i->lock. */
enum share_answer share_ask(weir_import *i, struct wire_message *message, struct share_request *request, uint64_t patience,
                            bool can_cancel);

/* Fills the error from a REFUSED, and returns its status. */
weir_status share_refusal(const weir_import *i, const struct share_request *request, weir_error *error);

#endif
