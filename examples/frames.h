/* SPDX-License-Identifier: MIT */
/*
 * frames.h - the work of the sharing examples on GPU memory: paint a picture, check it, cut out a part. On the GPU CUDA does it, in the order
 * of a stream; on the simulator, whose memory is the host's, the host does. A program of yours has its kernels here.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>
#include <weir.h>

enum { FRAME_BANDS = 8 }; /* a frame has as many bands, one below the other, each of one grey */

/* What goes along with each frame as metadata: importers read it on the host, without touching the GPU. */
struct frame_info {
    uint32_t width, height; /* a byte for each pixel; the height is a multiple of FRAME_BANDS */
    uint64_t number;
};

/* Paints the test card of this number, in the order of the stream. 0: it is on its way; else an error, which is on stderr already. */
int frame_paint(void *frame, const struct frame_info *info, weir_stream *stream);

/* Copies the middle half of each dimension into `cut`, width / 2 * height / 2 bytes, in the order of the stream. */
int frame_cut(void *cut, const void *frame, const struct frame_info *info, weir_stream *stream);

/* Waits for the stream, and looks at every pixel of a frame, or of its cut. Returns how many are wrong, or -1. */
long frame_check(const void *frame, const struct frame_info *info, weir_stream *stream);
long frame_check_cut(const void *cut, const struct frame_info *info, weir_stream *stream);

#endif
