/* SPDX-License-Identifier: MIT */
/*
 * frees.c - a program whose frees wait, and whose author does not know: the scratch memory of each step goes back by cudaFree, which returns when
 * the device has done all that it was asked for.
 *
 *     cc -g frees.c -o frees -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
 *     ./frees [STEPS [MIB]]
 *
 * Nothing of Weir is in it: doc/unaware.md says how Weir shows the waits, and what a pool would do instead. A step fills MIB of memory twelve
 * times, 4,096 MiB without an argument: some 20 ms of work on a large GPU.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define SCRATCH (64 * MIB)
#define FILLS 12

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "frees: %s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

/* Asks for the work of a step, and gives its scratch memory back. Returns how long that took. */
static double step(void *data, size_t bytes)
{
    void *scratch;
    check(cudaMalloc(&scratch, SCRATCH), "cudaMalloc");
    for (int i = 0; i < FILLS; i++)
        check(cudaMemsetAsync(data, i, bytes, NULL), "cudaMemsetAsync");
    check(cudaMemsetAsync(scratch, 0, SCRATCH, NULL), "cudaMemsetAsync");
    double begun = seconds();
    check(cudaFree(scratch), "cudaFree");
    return seconds() - begun;
}

int main(int count, char **arguments)
{
    long steps = count > 1 ? strtol(arguments[1], NULL, 10) : 200, mib = count > 2 ? strtol(arguments[2], NULL, 10) : 4096;
    if (steps <= 0 || mib <= 0 || count > 3) {
        fputs("usage: frees [STEPS [MIB]], both above 0\n", stderr);
        return 2;
    }
    void *data;
    check(cudaMalloc(&data, (size_t)mib * MIB), "cudaMalloc");
    double begun = seconds(), waited = 0;
    for (long i = 0; i < steps; i++)
        waited += step(data, (size_t)mib * MIB);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    printf("%ld steps in %.3f s, %.3f s of them in cudaFree\n", steps, seconds() - begun, waited);
    check(cudaFree(data), "cudaFree");
    return 0;
}
