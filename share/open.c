/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/open.h"

#include "lib/trace/file.h"
#include "share/control/control.h"
#include "share/control/neighbours.h"

weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w)
{
    weir *opened = NULL;
    weir_status status = weir__open(options, device, error, w ? &opened : NULL);
    if (status != WEIR_OK || !opened)
        return status;
    opened->neighbours = share_neighbours_rescue;
    if (opened->is_controlled)
        status = share_control_open(opened, error);
    if (status == WEIR_OK) {
        *w = opened;
        return WEIR_OK;
    }
    weir__trace_files_drop(opened);
    weir_close(opened);
    return status;
}

weir_status weir_open(const weir_options *options, weir_error *error, weir **w)
{
    return weir__open_on(options, WEIR__EVERY_DEVICE, error, w);
}
