/* SPDX-License-Identifier: MIT */
/* entry.h - entry.c has the functions that torch calls for each tensor; these two are for the other files of the plug-in. */
#ifndef WEIR_TORCH_ENTRY_H
#define WEIR_TORCH_ENTRY_H

#include "plugin/torch/device.h"

/* Returns this thread's error report, which weir_torch_report() copies, so that the caller can fill it. */
weir_error *torch_entry_report(void);

/* Makes this thread's next allocation on each stream take the slow path, which looks for a region again. */
void torch_entry_forget_streams(void);

#endif
