/* SPDX-License-Identifier: MIT */
/*
 * error.h - fills the record of an error, weir_error, and turns CUDA's codes into a weir_status.
 *
 * A record belongs to the caller. The record behind weir_last_error() belongs to the calling thread.
 */
#ifndef WEIR_LIB_ERROR_H
#define WEIR_LIB_ERROR_H

#include "lib/gpu/gpu.h"
#include "include/weir.h"
#include "policy/policy.h"

/* Writes an error into the record, unless the record already holds an error or `error` is NULL. Returns `status`. */
__attribute__((format(printf, 3, 4))) weir_status weir__fail(weir_error *error, weir_status status, const char *format, ...);

/* weir__fail() for a failed GPU call: the status is weir__status_of(code), and CUDA's name and text of the code follow the message. */
__attribute__((format(printf, 4, 5))) weir_status weir__fail_gpu(weir_error *error, const struct gpu *gpu, int code, const char *format,
                                                                  ...);

/* weir__fail() for an error in the policy: the text begins with the place (file, line, column, key), and the record gets file, line and
   column as well. */
__attribute__((format(printf, 4, 5))) weir_status weir__fail_at(weir_error *error, weir_status status, struct policy_place place,
                                                                const char *format, ...);

/* Returns the status that corresponds to a GPU code. Codes without a status of their own become WEIR_CUDA_ERROR. */
weir_status weir__status_of(int code);

/* Empties the calling thread's record, which weir_last_error() reads, and returns it. */
weir_error *weir__last_error_reset(void);

#endif
