/* SPDX-License-Identifier: MIT */
/* entry.h - what the rest of the plug-in tells the calls that torch makes for each tensor. */
#ifndef WEIR_TORCH_ENTRY_H
#define WEIR_TORCH_ENTRY_H

#include "plugin/torch/device.h"

/* The report of this thread's failure, to be filled. */
weir_error *torch_entry_report(void);

/* This thread's next allocation on each stream goes the way of those that are not ordinary. */
void torch_entry_forget_streams(void);

#endif
