/* SPDX-License-Identifier: MIT */
/*
 * plug.h - what the tests of the plug-in of PyTorch share: a simulated machine, streams as torch has them, and torch's calls.
 *
 * The plug-in keeps its weirs until the process ends, so each test has a process of its own: CK_FORK=no is for one test alone.
 */
#ifndef WEIR_TESTS_PLUG_H
#define WEIR_TESTS_PLUG_H

#include <stdbool.h>

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "plugin/torch/weir_torch.h"
#include "tests/support/suite.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MILLISECOND UINT64_C(1000000)

extern const struct gpu *plug_gpu;

/* A fresh machine with these settings (NULL: one device of 1 GiB), and a policy's text (NULL: one pool with all defaults). */
void plug_set_up(const char *machine, const char *policy);

/* A stream as those of torch's pools: it lives for ever, and Weir is told. Or one that the program made, and may destroy. */
gpu_stream plug_stream(int device);
gpu_stream plug_external(int device);

/* A block; it must succeed. */
void *plug_malloc(size_t size, int device, gpu_stream stream);

/* As torch captures: begin, then the capture; its end, then the end. `plug_capture_end` returns the number of nodes. */
void plug_capture_begin(int device, uint64_t id, gpu_stream stream);
size_t plug_capture_end(int device, uint64_t id, gpu_stream stream);
weir_torch_pool_id plug_id(uint64_t id);

/* `to` waits for the present work of `from`. */
void plug_order(int device, gpu_stream from, gpu_stream to);

/* Figures, whose identities must hold. */
weir_torch_stats plug_stats(int device);

/* The report of this thread's last failure. */
const char *plug_report(void);

/* After an empty_cache() nothing is left on the device: no block, no reserved byte, no event but those few that are kept. */
void plug_expect_empty(int device);

/* Whether each of the bytes of host memory has that value. */
bool plug_all(const unsigned char *bytes, int value, size_t size);

#endif
