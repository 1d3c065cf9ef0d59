/* SPDX-License-Identifier: MIT */
/* ask.h - a request of an importer, and its answer. It lies on the stack of the thread that waits, and is guarded by import->lock. */
#ifndef WEIR_SHARE_ASK_H
#define WEIR_SHARE_ASK_H

#include "share/import/import.h"

enum share_answer {
    SHARE_ANSWERED, /* request->answer, or request->lease */
    SHARE_LOST,     /* the connection ended, and with it the question: ask again on the next one */
    SHARE_UNANSWERED,     /* no answer by the deadline; the connection was ended, as nothing more can be expected of it */
};

/* Sends the message with a number of its own and waits for the answer, until `patience`. can_cancel: the answer may take long, and is
   called off then. With the import's lock. */
enum share_answer share_ask(weir_import *i, struct wire_message *message, struct share_request *request, uint64_t patience,
                            bool can_cancel);

/* What a REFUSED says. */
weir_status share_refusal(const weir_import *i, const struct share_request *request, weir_error *error);

#endif
