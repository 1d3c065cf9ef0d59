/* SPDX-License-Identifier: MIT */
/* sim_errors.c - names and texts of CUDA's error numbers, for a machine without CUDA: those that a program with memory pools can get. */
#include "lib/gpu/sim_internal.h"

static const struct error {
    int code;
    const char *name, *text;
} errors[] = {
    { 0, "cudaSuccess", "no error" },
    { 1, "cudaErrorInvalidValue", "invalid argument" },
    { 2, "cudaErrorMemoryAllocation", "out of memory" },
    { 3, "cudaErrorInitializationError", "initialization error" },
    { 4, "cudaErrorCudartUnloading", "driver shutting down" },
    { 17, "cudaErrorInvalidDevicePointer", "invalid device pointer" },
    { 34, "cudaErrorStubLibrary", "CUDA driver is a stub library" },
    { 35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version" },
    { 36, "cudaErrorCallRequiresNewerDriver", "API call is not supported in the installed CUDA driver" },
    { 46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable" },
    { 100, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { 101, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { 201, "cudaErrorDeviceUninitialized", "invalid device context" },
    { 214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered" },
    { 217, "cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices" },
    { 304, "cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS" },
    { 400, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { 401, "cudaErrorIllegalState", "the operation cannot be performed in the present state" },
    { 600, "cudaErrorNotReady", "device not ready" },
    { 700, "cudaErrorIllegalAddress", "an illegal memory access was encountered" },
    { 702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated" },
    { 704, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled" },
    { 705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled" },
    { 709, "cudaErrorContextIsDestroyed", "context is destroyed" },
    { 711, "cudaErrorTooManyPeers", "peer mapping resources exhausted" },
    { 719, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { 800, "cudaErrorNotPermitted", "operation not permitted" },
    { 801, "cudaErrorNotSupported", "operation not supported" },
    { 802, "cudaErrorSystemNotReady", "system not yet initialized" },
    { 803, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination" },
    { 900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing" },
    { 901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture" },
    { 902, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences" },
    { 903, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began" },
    { 904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work" },
    { 905, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream" },
    { 906, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream" },
    { 907, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream" },
    { 908, "cudaErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread" },
    { 909, "cudaErrorTimeout", "wait operation timed out" },
    { 999, "cudaErrorUnknown", "unknown error" },
    { -1, "unrecognized error code", "unrecognized error code" },
};

/* Returns the entry of the code; the last entry stands for all codes that are not listed. */
static const struct error *find(int code)
{
    const struct error *error = errors;
    while (error->code >= 0 && error->code != code)
        error++;
    return error;
}

const char *sim_code_name(int code)
{
    return find(code)->name;
}

const char *sim_code_text(int code)
{
    return find(code)->text;
}
