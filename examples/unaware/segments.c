/* SPDX-License-Identifier: MIT */
/*
 * segments.c - a program with a caching allocator of its own, as many have: it takes segments from CUDA, and keeps them when the program frees.
 *
 *     cc -g segments.c -o segments -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
 *     ./segments [FIRST SECOND]
 *
 * A tensor of 60 KiB takes a segment of 2 MiB. Then the program has FIRST MiB, frees them, and wants SECOND MiB: without arguments 60 and 70 of
 * each 80 that the device has. CUDA refuses, as the first segment is still there; the allocator gives back all that it keeps, and asks again.
 * Nothing of Weir is in it: doc/unaware.md says how Weir shows what happened.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SEGMENT (2 * MIB) /* segments are multiples of it */
#define SEGMENTS_MAX 64

struct segment {
    void *ptr; /* NULL: none */
    size_t bytes;
    int is_used;
};

static struct segment segments[SEGMENTS_MAX];

static void check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "segments: %s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

/* The smallest segment that is kept and large enough; NULL: there is none. */
static struct segment *find_kept(size_t bytes)
{
    struct segment *best = NULL;
    for (size_t i = 0; i < SEGMENTS_MAX; i++) {
        struct segment *segment = &segments[i];
        if (segment->ptr && !segment->is_used && segment->bytes >= bytes && (!best || segment->bytes < best->bytes))
            best = segment;
    }
    return best;
}

static void give_back_kept(void)
{
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        if (segments[i].ptr && !segments[i].is_used) {
            check(cudaFree(segments[i].ptr), "cudaFree");
            segments[i].ptr = NULL;
        }
}

static struct segment *make_segment(size_t bytes)
{
    struct segment *segment = segments, *end = segments + SEGMENTS_MAX;
    while (segment < end && segment->ptr)
        segment++;
    if (segment == end)
        check(cudaErrorMemoryAllocation, "there are too many segments");
    if (cudaMalloc(&segment->ptr, bytes) != cudaSuccess) {
        cudaGetLastError(); /* it is dealt with */
        segment->ptr = NULL;
        printf("refused %zu MiB, gives back what it keeps\n", bytes / MIB);
        give_back_kept();
        check(cudaMalloc(&segment->ptr, bytes), "cudaMalloc");
    }
    segment->bytes = bytes;
    return segment;
}

static struct segment *take(size_t bytes)
{
    bytes = (bytes + SEGMENT - 1) / SEGMENT * SEGMENT;
    struct segment *segment = find_kept(bytes);
    segment = segment ? segment : make_segment(bytes);
    segment->is_used = 1;
    return segment;
}

/* The segment stays: the next request may fit it. */
static void let_go(struct segment *segment)
{
    segment->is_used = 0;
}

static void say(const char *when)
{
    size_t used = 0, kept = 0;
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        if (segments[i].ptr)
            *(segments[i].is_used ? &used : &kept) += segments[i].bytes;
    printf("%s: %zu MiB in use, %zu MiB kept\n", when, used / MIB, kept / MIB);
}

int main(int count, char **arguments)
{
    size_t available, all;
    check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
    size_t first = count == 3 ? strtoul(arguments[1], NULL, 10) * MIB : all / 80 * 60;
    size_t second = count == 3 ? strtoul(arguments[2], NULL, 10) * MIB : all / 80 * 70;
    if (!first || !second || (count != 1 && count != 3)) {
        fputs("usage: segments [FIRST SECOND], both in MiB and above 0\n", stderr);
        return 2;
    }
    struct segment *small = take(60 * KIB), *large = take(first);
    say("with both tensors");
    let_go(large);
    say("the large one freed");
    large = take(second);
    say("a larger one taken");
    let_go(large);
    let_go(small);
    give_back_kept();
    return 0;
}
