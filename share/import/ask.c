/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/import/ask.h"

#include "lib/base/list.h"

static bool is_answered(void *data)
{
    const struct share_request *request = data;
    return request->is_answered;
}

static void list_request(weir_import *i, struct wire_message *message, struct share_request *request)
{
    i->last_request += i->last_request == UINT32_MAX ? 2 : 1; /* 0 means: no request */
    request->number = message->request = i->last_request;
    request->session = i->session;
    request->is_answered = false;
    request->lease = NULL;
    request->next = i->requests;
    i->requests = request;
}

enum share_answer share_ask(weir_import *i, struct wire_message *message, struct share_request *request, uint64_t patience, bool can_cancel)
{
    struct share_session *session = i->session;
    if (!session)
        return SHARE_LOST;
    list_request(i, message, request);
    session->users++; /* keeps the session from being freed */
    if (share_session_send(session, message) == SHARE_DONE)
        share_session_wait(session, is_answered, request, patience);
    if (can_cancel && !request->is_answered && session->fd >= 0 && !session->farewell) {
        struct wire_message cancel = { .type = WIRE_CANCEL, .request = request->number };
        if (share_session_send(session, &cancel) == SHARE_DONE)
            share_session_wait(session, is_answered, request, share_deadline(i->timeout_ms));
    }
    bool is_unanswered = !request->is_answered && session->fd >= 0 && !session->farewell;
    if (is_unanswered)
        share_session_give_up(session);
    share_session_unuse(session);
    WEIR__UNLINK(i->requests, request, next);
    if (request->is_answered)
        return SHARE_ANSWERED;
    weir__service_wake(&i->job, 0);
    return is_unanswered ? SHARE_UNANSWERED : SHARE_LOST;
}

weir_status share_refusal(const weir_import *i, const struct share_request *request, weir_error *error)
{
    return weir__fail(error, (weir_status)request->answer.u.refused.status, "import '%s': %s", i->socket, request->answer.u.refused.text);
}
