/* SPDX-License-Identifier: MIT */
/*
 * current-pool.c - a program that calls cudaMallocAsync itself, and whose memory is governed by a policy all the same.
 *
 *     cc current-pool.c -o current-pool -I/usr/local/cuda/include $(pkg-config --cflags --libs weir) -L/usr/local/cuda/lib64 -lcudart
 *     WEIR_POLICY=current-pool.yaml ./current-pool
 *
 * Nothing but weir_open() and weir_close() is added: `current: true` in the policy makes Weir's pool the one that cudaMallocAsync uses on
 * the device, and closing puts the former one back. Weir does not recover a request that CUDA serves by itself when memory runs out.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

/* The loop of the program: allocate, use, free, wait. With the release threshold of the policy the memory stays in the pool between rounds;
   with CUDA's default each round would give it back and get it again. */
static cudaError_t work(cudaStream_t stream)
{
    for (int round = 0; round < 100; round++) {
        void *ptr;
        cudaError_t code = cudaMallocAsync(&ptr, (size_t)1 << 30, stream);
        if (code != cudaSuccess)
            return code;
        code = cudaMemsetAsync(ptr, round, (size_t)1 << 30, stream);
        cudaError_t freed = cudaFreeAsync(ptr, stream);
        if (code == cudaSuccess)
            code = freed;
        if (code == cudaSuccess)
            code = cudaStreamSynchronize(stream);
        if (code != cudaSuccess)
            return code;
    }
    return cudaSuccess;
}

static cudaError_t run(const weir_pool *pool)
{
    cudaMemPool_t current;
    cudaStream_t stream;
    unsigned long long reserved = 0;
    cudaError_t code = cudaDeviceGetMemPool(&current, weir_pool_device(pool));
    if (code != cudaSuccess)
        return code;
    printf("the current pool of device %d is %s\n", weir_pool_device(pool),
           current == weir_pool_handle(pool) ? "the policy's" : "not ours");

    code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess)
        return code;
    code = work(stream);
    if (code == cudaSuccess)
        code = cudaMemPoolGetAttribute(current, cudaMemPoolAttrReservedMemCurrent, &reserved);
    if (code == cudaSuccess)
        printf("100 rounds of 1 GiB done, %llu MiB still reserved\n", reserved >> 20);
    cudaError_t destroyed = cudaStreamDestroy(stream);
    return code != cudaSuccess ? code : destroyed;
}

int main(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    weir_pool *pool;
    cudaError_t code = cudaSuccess;

    options.gpu = "cuda"; /* cudaMallocAsync knows nothing of the simulator, so $WEIR_GPU must not choose it */
    weir_status status = weir_open(&options, &error, &w);
    if (status == WEIR_OK)
        status = weir_pool_get(w, NULL, 0, &error, &pool);
    if (status == WEIR_OK)
        code = run(pool);
    if (status)
        fprintf(stderr, "current-pool: %s\n%s\n", weir_status_text(status), error.text);
    if (code != cudaSuccess)
        fprintf(stderr, "current-pool: %s: %s\n", cudaGetErrorName(code), cudaGetErrorString(code));
    weir_close(w);
    return status || code != cudaSuccess ? EXIT_FAILURE : EXIT_SUCCESS;
}
