/* SPDX-License-Identifier: MIT */
/* marks.c - marks and tags of a Python script, passed on to the recorders of all open devices. */
#include "plugin/torch/device.h"

weir_status weir_torch_mark(const char *name)
{
    weir_status status = WEIR_OK;
    if (torch_is_over())
        return status;
    for (const struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index)) {
        weir_status one = weir_mark(device->w, name);
        status = status == WEIR_OK ? one : status;
    }
    return status;
}

weir_status weir_torch_tag_push(const char *name)
{
    weir_status status = WEIR_OK;
    if (torch_is_over())
        return status;
    for (const struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index)) {
        weir_status one = weir_tag_push(device->w, name);
        status = status == WEIR_OK ? one : status;
    }
    return status;
}

/* A device that was opened after the push has no such tag, and ignores the pop. */
void weir_torch_tag_pop(const char *name)
{
    if (torch_is_over())
        return;
    for (const struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index))
        weir_tag_pop(device->w, name);
}
