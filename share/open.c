/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/open.h"

#include "lib/alloc/request.h"
#include "lib/base/call.h"
#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "lib/pool/log.h"
#include "share/control/control.h"
#include "share/control/neighbours.h"
#include "share/control/reserve.h"

/* A failure is logged, and does not fail weir_open(): the weir serves memory without a control socket, too. */
static void open_control(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    if (share_control_open(w, false, &error) != WEIR_OK)
        weir__log(w, WEIR_LOG_WARNING, "%s: memory is served, but nobody can see or control this process: set WEIR_CONTROL_DIR to a directory "
                                       "that this user alone can write to, or write control: false", error.text);
}

weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w)
{
    WEIR__CALL;
    weir *opened = NULL;
    weir_status status = weir__open(options, device, error, w ? &opened : NULL);
    if (status != WEIR_OK || !opened)
        return status;
    opened->neighbours = share_neighbours_rescue;
    opened->claims = share_claims_shift;
    if (opened->policy->control)
        open_control(opened);
    *w = opened;
    return WEIR_OK;
}

uint64_t weir__claimed(struct weir__device *device, uint64_t *left)
{
    uint64_t bytes = share_claimed(device);
    *left = bytes ? weir__less(bytes, share_held(device)) : 0;
    return bytes;
}

weir_status weir_open(const weir_options *options, weir_error *error, weir **w)
{
    return weir__open_on(options, WEIR__EVERY_DEVICE, error, w);
}

/* Whether this thread is inside a call on the weir, and runs code of the program from there. Inside an out-of-memory callback only the weir
   that called it must stay open. Inside a log function, or a function that lists leaks, Weir does not know which weir called it, so all
   must stay open. */
static bool is_in_call(const weir *w)
{
    return weir__call_is_nested() && (!weir__in_callback || weir__in_callback->pool->w == w);
}

weir_status weir_close(weir *w)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!w)
        return WEIR_OK;
    WEIR__CALL;
    if (is_in_call(w))
        return weir__fail(weir__last_error_reset(), WEIR_BUSY, "weir_close: called in a callback or log function, which a call of Weir has "
                                                               "run: close the weir once that has returned");
    weir__close(w);
    return WEIR_OK;
}
