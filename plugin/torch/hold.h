/* SPDX-License-Identifier: MIT */
/*
 * hold.h - what weir.share shares, kept for as long as anything uses it: the objects of Python, and the tensors that were made of them.
 *
 * A hold counts its holders. With the last one its thing is released or closed, and the hold drops its parent: a lease keeps its import, a
 * slot its ring, and a ring its export. All this is C, and takes no lock of Python's: a tensor may go in any thread, and after Python has
 * ended. In the child of a fork, and once weir_torch_holds_end() was called, dropping does nothing.
 */
#ifndef WEIR_TORCH_HOLD_H
#define WEIR_TORCH_HOLD_H

#include "plugin/torch/weir_torch.h"

#endif
