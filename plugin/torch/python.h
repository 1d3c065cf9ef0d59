/* SPDX-License-Identifier: MIT */
/*
 * python.h - finds the frames of Python for the stacks that the recorder keeps, by functions of the CPython interpreter in this process.
 *
 * Only functions of CPython's C API are used, all with the same parameters since Python 3.9. weir_torch_python_begin() looks them up by
 * name, since this library does not link Python. The lock `beginning` lets one thread do that at a time; no other lock is taken under it.
 *
 * A thread looks at its frames with the GIL. torch mostly does not hold the GIL where it allocates, and its own memory history takes the
 * GIL there as well. A thread that Python does not know has no frames and does not take the GIL; neither does a thread that runs another
 * interpreter of the process. After weir_torch_python_end() no thread takes the GIL here. That function must be called before Python ends,
 * because a thread that asks for the GIL after the end never returns.
 *
 * A place in the program is a code object and the offset of an instruction. Before Python 3.11, which added a function for the offset, it
 * is a code object and a line. A code object that the recorder keeps gets a reference, which is never given back.
 */
#ifndef WEIR_TORCH_PYTHON_H
#define WEIR_TORCH_PYTHON_H

#include "lib/record/interpreter.h"
#include "plugin/torch/weir_torch.h"

#endif
