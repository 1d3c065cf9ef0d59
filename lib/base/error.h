/* SPDX-License-Identifier: MIT */
/*
 * error.h - filling a weir_error, and the one place where CUDA's codes become a weir_status.
 *
 * A record belongs to the caller. The record behind weir_last_error() belongs to the calling thread.
 */
#ifndef WEIR_LIB_ERROR_H
#define WEIR_LIB_ERROR_H

#include "lib/gpu/gpu.h"
#include "include/weir.h"
#include "policy/policy.h"

/* Puts an error into the record unless one is there already (or error is NULL). Returns status. */
__attribute__((format(printf, 3, 4))) weir_status weir__fail(weir_error *error, weir_status status, const char *format, ...);

/* The same for a failed GPU call: status by weir__status_of(code); the text becomes "<what>: <CUDA's name>: <CUDA's text>", and CUDA
   forgets its last error. */
__attribute__((format(printf, 4, 5))) weir_status weir__fail_gpu(weir_error *error, const struct gpu *gpu, int code, const char *format,
                                                                  ...);

/* Puts a place of the policy before the message of a new error. */
__attribute__((format(printf, 4, 5))) weir_status weir__fail_at(weir_error *error, weir_status status, struct policy_place place,
                                                                const char *format, ...);

/* The status that stands for a GPU code. */
weir_status weir__status_of(int code);

/* This thread's record, emptied for a new failure. */
weir_error *weir__last_error_reset(void);

#endif
