/* SPDX-License-Identifier: MIT */
/*
 * python.h - the frames of Python for stacks of the recorder, by functions of the CPython that this process is.
 *
 * Functions of CPython's interface alone are used, which have been there, with these parameters, since 3.9. They are looked up by name when
 * weir_torch_python_begin() is called: this library links no Python. `beginning` makes one thread do so, and is a leaf.
 *
 * Frames are looked at with the GIL, which torch mostly does not hold where it allocates; torch's own history takes it there as well. A
 * thread that Python never saw has no frames, and does not ask for the GIL. Nor does any thread once weir_torch_python_end() was called,
 * which has to be before Python ends, as a thread that asks then never returns. A thread of another interpreter of the process is left
 * alone.
 *
 * A place is a code object and the offset of an instruction, or before 3.11, which lacks a function for the offset, the line. To keep code
 * is to take a reference to it, which is never given back.
 */
#ifndef WEIR_TORCH_PYTHON_H
#define WEIR_TORCH_PYTHON_H

#include "lib/record/interpreter.h"
#include "plugin/torch/weir_torch.h"

#endif
