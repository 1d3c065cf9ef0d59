/* SPDX-License-Identifier: MIT */
/*
 * throw.cc - the one function that throws: torch looks at no NULL that an allocator gives it outside of a MemPool. It is the outermost
 * frame, so that nothing of C is unwound.
 */
#include <new>

#include "plugin/torch/weir_torch.h"

void *weir_torch_malloc(ssize_t size, int device, weir_cuda_stream stream)
{
    void *ptr = weir_torch_pool_malloc(size, device, stream);
    if (!ptr && size > 0)
        throw std::bad_alloc();
    return ptr;
}
