/* SPDX-License-Identifier: MIT */
#include "tests/gpu/marks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LANES 32 /* words of a mark, spread over the block */

static const struct gpu *gpu;

/* On a GPU ---------------------------------------------------------------------------------------------------------------------------- */

static const char kernels_ptx[] = ".version 6.0\n"
                                  ".target sm_50\n"
                                  ".address_size 64\n"
                                  ".visible .entry mark_write(.param .u64 block, .param .u64 stride, .param .u64 tag)\n"
                                  "{\n"
                                  "    .reg .u32 %thread;\n"
                                  "    .reg .u64 %at, %stride, %word, %lane;\n"
                                  "    ld.param.u64 %at, [block];\n"
                                  "    ld.param.u64 %stride, [stride];\n"
                                  "    ld.param.u64 %word, [tag];\n"
                                  "    cvta.to.global.u64 %at, %at;\n"
                                  "    mov.u32 %thread, %tid.x;\n"
                                  "    cvt.u64.u32 %lane, %thread;\n"
                                  "    mad.lo.u64 %at, %lane, %stride, %at;\n"
                                  "    add.u64 %word, %word, %lane;\n"
                                  "    st.global.u64 [%at], %word;\n"
                                  "    ret;\n"
                                  "}\n"
                                  ".visible .entry mark_check(.param .u64 block, .param .u64 stride, .param .u64 tag, .param .u64 wrong)\n"
                                  "{\n"
                                  "    .reg .pred %same;\n"
                                  "    .reg .u32 %thread;\n"
                                  "    .reg .u64 %at, %stride, %word, %lane, %seen, %counter, %before;\n"
                                  "    ld.param.u64 %at, [block];\n"
                                  "    ld.param.u64 %stride, [stride];\n"
                                  "    ld.param.u64 %word, [tag];\n"
                                  "    ld.param.u64 %counter, [wrong];\n"
                                  "    cvta.to.global.u64 %at, %at;\n"
                                  "    cvta.to.global.u64 %counter, %counter;\n"
                                  "    mov.u32 %thread, %tid.x;\n"
                                  "    cvt.u64.u32 %lane, %thread;\n"
                                  "    mad.lo.u64 %at, %lane, %stride, %at;\n"
                                  "    add.u64 %word, %word, %lane;\n"
                                  "    ld.volatile.global.u64 %seen, [%at];\n"
                                  "    setp.eq.u64 %same, %seen, %word;\n"
                                  "    @%same bra done;\n"
                                  "    atom.global.add.u64 %before, [%counter], 1;\n"
                                  "done:\n"
                                  "    ret;\n"
                                  "}\n";

/* The driver by name, as contexts, modules and functions are opaque here. Error numbers are the runtime's. */
static struct {
    int (*stream_context)(gpu_stream stream, void **context);
    int (*context_set)(void *context);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned shared_bytes, gpu_stream stream, void **parameters, void **extra);
} driver;

static void *module, *write_kernel, *check_kernel;
static uint64_t *counter; /* device memory */
static gpu_pool counter_pool;

static int find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return GPU_INSUFFICIENT_DRIVER;
    const struct {
        const char *symbol;
        void **slot;
    } symbols[] = {
        { "cuStreamGetCtx", (void **)&driver.stream_context },   { "cuCtxSetCurrent", (void **)&driver.context_set },
        { "cuModuleLoadData", (void **)&driver.module_load },    { "cuModuleUnload", (void **)&driver.module_unload },
        { "cuModuleGetFunction", (void **)&driver.module_function }, { "cuLaunchKernel", (void **)&driver.launch },
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (!(*symbols[i].slot = dlsym(library, symbols[i].symbol)))
            return GPU_INSUFFICIENT_DRIVER;
    return GPU_SUCCESS;
}

static int open_kernels(gpu_stream stream)
{
    int code = find_driver();
    if (!code)
        code = marks_enter(stream);
    if (!code)
        code = driver.module_load(&module, kernels_ptx);
    if (!code)
        code = driver.module_function(&write_kernel, module, "mark_write");
    if (!code)
        code = driver.module_function(&check_kernel, module, "mark_check");
    if (!code)
        code = gpu->pool_get_default(0, &counter_pool);
    if (!code)
        code = gpu->malloc_async((void **)&counter, sizeof *counter, counter_pool, stream);
    if (!code)
        code = gpu->set_async(counter, 0, sizeof *counter, stream);
    return code ? code : gpu->stream_synchronize(stream);
}

static uint64_t stride_of(size_t size)
{
    return size / LANES / sizeof(uint64_t) * sizeof(uint64_t);
}

/* On the simulator -------------------------------------------------------------------------------------------------------------------- */

/* What one check saw at the block's two ends. */
struct seen {
    uint64_t first, last;
    unsigned char byte; /* that all of both is to be */
};

static struct seen *seen;
static size_t seen_max;
static atomic_size_t seen_count;

static unsigned char byte_of(uint64_t tag)
{
    return (unsigned char)(1 + tag % 255);
}

static int copy_ends(gpu_stream stream, const void *ptr, size_t size, uint64_t tag)
{
    size_t at = atomic_fetch_add(&seen_count, 1);
    if (at >= seen_max)
        return GPU_OUT_OF_MEMORY;
    seen[at].byte = byte_of(tag);
    int code = gpu->copy_async(&seen[at].first, ptr, sizeof seen[at].first, stream);
    return code ? code : gpu->copy_async(&seen[at].last, (const char *)ptr + size - sizeof seen[at].last, sizeof seen[at].last, stream);
}

static uint64_t count_wrong_ends(void)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < atomic_load(&seen_count); i++) {
        uint64_t word;
        memset(&word, seen[i].byte, sizeof word);
        wrong += (seen[i].first != word) + (seen[i].last != word);
    }
    return wrong;
}

/* Either ------------------------------------------------------------------------------------------------------------------------------ */

static bool is_cuda(void)
{
    return strcmp(gpu->name, "cuda") == 0;
}

int marks_open(const struct gpu *which, gpu_stream stream, size_t checks)
{
    gpu = which;
    if (is_cuda())
        return open_kernels(stream);
    seen = calloc(checks, sizeof *seen);
    seen_max = checks;
    atomic_store(&seen_count, 0);
    return seen ? GPU_SUCCESS : GPU_OUT_OF_MEMORY;
}

int marks_enter(gpu_stream stream)
{
    void *context;
    if (!is_cuda())
        return GPU_SUCCESS;
    int code = driver.stream_context(stream, &context);
    return code ? code : driver.context_set(context);
}

int marks_write(gpu_stream stream, void *ptr, size_t size, uint64_t tag)
{
    if (!is_cuda()) {
        int code = gpu->set_async(ptr, byte_of(tag), sizeof(uint64_t), stream);
        return code ? code : gpu->set_async((char *)ptr + size - sizeof(uint64_t), byte_of(tag), sizeof(uint64_t), stream);
    }
    uint64_t stride = stride_of(size);
    void *parameters[] = { &ptr, &stride, &tag };
    return driver.launch(write_kernel, 1, 1, 1, LANES, 1, 1, 0, stream, parameters, NULL);
}

int marks_check(gpu_stream stream, const void *ptr, size_t size, uint64_t tag)
{
    if (!is_cuda())
        return copy_ends(stream, ptr, size, tag);
    uint64_t stride = stride_of(size);
    void *parameters[] = { &ptr, &stride, &tag, &counter };
    return driver.launch(check_kernel, 1, 1, 1, LANES, 1, 1, 0, stream, parameters, NULL);
}

int marks_count_wrong(gpu_stream stream, uint64_t *wrong)
{
    if (is_cuda()) {
        int code = gpu->copy_async(wrong, counter, sizeof *wrong, stream);
        return code ? code : gpu->stream_synchronize(stream);
    }
    *wrong = count_wrong_ends();
    return GPU_SUCCESS;
}

void marks_close(gpu_stream stream)
{
    free(seen);
    seen = NULL;
    if (!is_cuda())
        return;
    gpu->free_async(counter, stream);
    gpu->stream_synchronize(stream);
    driver.module_unload(module);
}
