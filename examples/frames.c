/* SPDX-License-Identifier: MIT */
#include "frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_CUDA
#include <cuda_runtime_api.h>

static int is_simulated(void)
{
    const char *gpu = getenv("WEIR_GPU");
    return gpu && strcmp(gpu, "sim") == 0;
}

static int check(cudaError_t code)
{
    if (code != cudaSuccess)
        fprintf(stderr, "CUDA: %s: %s\n", cudaGetErrorName(code), cudaGetErrorString(code));
    return code != cudaSuccess;
}

static int device_fill(void *to, int value, size_t size, weir_stream *stream)
{
    return check(cudaMemsetAsync(to, value, size, weir_stream_handle(stream)));
}

static int device_copy(void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, weir_stream *stream)
{
    return check(cudaMemcpy2DAsync(to, to_pitch, from, pitch, width, height, cudaMemcpyDefault, weir_stream_handle(stream)));
}
#else
static int is_simulated(void)
{
    return 1; /* built without CUDA: weir_open() has refused anything else */
}

static int device_fill(void *to, int value, size_t size, weir_stream *stream)
{
    (void)to, (void)value, (void)size, (void)stream;
    return -1;
}

static int device_copy(void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, weir_stream *stream)
{
    (void)to, (void)to_pitch, (void)from, (void)pitch, (void)width, (void)height, (void)stream;
    return -1;
}
#endif

static int synchronize(weir_stream *stream)
{
    weir_error error = WEIR_ERROR_INIT;
    if (weir_stream_synchronize(stream, &error) == WEIR_OK)
        return 0;
    fprintf(stderr, "%s\n", error.text);
    return -1;
}

/* What the host does to simulated memory is not in the order of any stream, so it waits for what stands before it. */
static int fill(void *to, int value, size_t size, weir_stream *stream)
{
    if (!is_simulated())
        return device_fill(to, value, size, stream);
    if (synchronize(stream))
        return -1;
    memset(to, value, size);
    return 0;
}

static int copy(void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, weir_stream *stream)
{
    if (!is_simulated())
        return device_copy(to, to_pitch, from, pitch, width, height, stream);
    if (synchronize(stream))
        return -1;
    for (size_t y = 0; y < height; y++)
        memcpy((char *)to + y * to_pitch, (const char *)from + y * pitch, width);
    return 0;
}

static int grey(uint64_t number, uint32_t band)
{
    return (int)((number * FRAME_BANDS + band) % 251); /* a prime, so that no two frames of a ring look the same */
}

int frame_paint(void *frame, const struct frame_info *info, weir_stream *stream)
{
    size_t band_size = (size_t)info->width * (info->height / FRAME_BANDS);
    int failed = 0;
    for (uint32_t band = 0; band < FRAME_BANDS && !failed; band++)
        failed = fill((char *)frame + band * band_size, grey(info->number, band), band_size, stream);
    return failed;
}

int frame_cut(void *cut, const void *frame, const struct frame_info *info, weir_stream *stream)
{
    const char *first = (const char *)frame + (size_t)info->height / 4 * info->width + info->width / 4;
    return copy(cut, info->width / 2, first, info->width, info->width / 2, info->height / 2, stream);
}

/* The pixels of `rows` rows from the row `first` of the frame on, each `width` wide. */
static long count_wrong(const void *pixels, const struct frame_info *info, uint32_t first, uint32_t rows, uint32_t width, weir_stream *stream)
{
    unsigned char *host = malloc((size_t)rows * width);
    long wrong = -1;
    if (host && !copy(host, width, pixels, width, width, rows, stream) && !synchronize(stream)) {
        wrong = 0;
        for (uint32_t y = 0; y < rows; y++)
            for (uint32_t x = 0; x < width; x++)
                wrong += host[(size_t)y * width + x] != grey(info->number, (first + y) / (info->height / FRAME_BANDS));
    }
    free(host);
    return wrong;
}

long frame_check(const void *frame, const struct frame_info *info, weir_stream *stream)
{
    return count_wrong(frame, info, 0, info->height, info->width, stream);
}

long frame_check_cut(const void *cut, const struct frame_info *info, weir_stream *stream)
{
    return count_wrong(cut, info, info->height / 4, info->height / 2, info->width / 2, stream);
}
