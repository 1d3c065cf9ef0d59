/* SPDX-License-Identifier: MIT */
/*
 * cuda_delay.c - a kernel that spins for a given time. It is PTX text that the driver compiles, so the build needs no nvcc, and the kernel
 * runs on every GPU from Maxwell on.
 *
 * The first delay in a context loads the kernel's module, which CUDA forbids while any stream of the process captures. So run one delay on
 * each device before a capture begins.
 */
#include "lib/gpu/cuda_internal.h"

#include <stdatomic.h>
#include <stdlib.h>

/* %globaltimer counts nanoseconds in steps of 1 µs (H200) to 1 ms, so a delay is rounded up to a whole step. */
static const char delay_ptx[] = ".version 6.4\n"
                                ".target sm_50\n"
                                ".address_size 64\n"
                                ".visible .entry weir_delay(.param .u64 nanoseconds)\n"
                                "{\n"
                                "    .reg .pred %again;\n"
                                "    .reg .u64 %limit, %start, %now, %passed;\n"
                                "    ld.param.u64 %limit, [nanoseconds];\n"
                                "    mov.u64 %start, %globaltimer;\n"
                                "spin:\n"
                                "    mov.u64 %now, %globaltimer;\n"
                                "    sub.u64 %passed, %now, %start;\n"
                                "    setp.lt.u64 %again, %passed, %limit;\n"
                                "    @%again bra spin;\n"
                                "    ret;\n"
                                "}\n";

/* The loaded kernel of one context. A process has one context for each device, and seldom more, so the list stays short. Entries are never
   removed: like every module, a kernel lasts until its context is destroyed, usually at the end of the process. */
struct kernel {
    struct kernel *next;
    void *context;
    unsigned long long id; /* of the context, since a later context may have the same handle; 0: the driver has no ids */
    void *function;
};

static struct kernel *_Atomic kernels; /* added one at a time. Two threads may add one each for the same context */

/* Precondition: the context is current. */
static int load_kernel(const struct cuda_driver *driver, void *context, unsigned long long id, void **function)
{
    struct kernel *kernel = malloc(sizeof(*kernel));
    if (!kernel)
        return GPU_OUT_OF_MEMORY;
    void *module = NULL;
    int code = driver->module_load(&module, delay_ptx);
    if (!code)
        code = driver->module_function(&kernel->function, module, "weir_delay");
    if (code) {
        free(kernel);
        return code;
    }
    kernel->context = context;
    kernel->id = id;
    kernel->next = atomic_load(&kernels);
    while (!atomic_compare_exchange_weak(&kernels, &kernel->next, kernel))
        continue;
    *function = kernel->function;
    return GPU_SUCCESS;
}

static int find_kernel(const struct cuda_driver *driver, void *context, void **function)
{
    unsigned long long id = 0;
    int code = driver->context_id ? driver->context_id(context, &id) : GPU_SUCCESS;
    if (code)
        return code;
    const struct kernel *kernel = atomic_load(&kernels);
    while (kernel && (kernel->context != context || kernel->id != id))
        kernel = kernel->next;
    if (!kernel)
        return load_kernel(driver, context, id, function);
    *function = kernel->function;
    return GPU_SUCCESS;
}

static int find_context(const struct cuda_driver *driver, gpu_stream stream, void **context)
{
    int code = driver->stream_context(stream, context);
    if (cuda_lacks_context(code)) {
        /* The handle is a fixed one, and the thread has not used CUDA yet: any call of the runtime that needs a context makes the device's
           current. */
        code = cuda_done(cudaFree(NULL));
        if (!code)
            code = driver->stream_context(stream, context);
    }
    return code;
}

int cuda_delay(gpu_stream stream, uint64_t nanoseconds)
{
    const struct cuda_driver *driver = cuda_driver();
    if (!driver)
        return GPU_INSUFFICIENT_DRIVER;
    void *context = NULL;
    int code = find_context(driver, stream, &context);
    if (code)
        return code;
    /* The stream may belong to another device than the current one. Pushing its context keeps the current one, for the pop below. */
    code = driver->context_push(context);
    if (code)
        return code;
    void *function = NULL;
    code = find_kernel(driver, context, &function);
    if (!code) {
        void *parameters[] = { &nanoseconds };
        code = driver->launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    }
    void *popped = NULL;
    driver->context_pop(&popped);
    return code;
}
