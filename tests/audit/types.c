/* SPDX-License-Identifier: MIT */
/* types.c - what audit/driver.h says of the driver's types, beside the toolkit's own header. It is compiled, and that is the test. */
#include <stddef.h>
#include <stdio.h>

#include "audit/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define RESULT "1..1\nok 1 - types_are_those_of_the_toolkit"

#define SAME(ours, our_member, theirs, their_member)                                                                                       \
    _Static_assert(offsetof(struct ours, our_member) == offsetof(theirs, their_member), #theirs "." #their_member)

SAME(driver_location, type, CUmemLocation, type);
SAME(driver_location, id, CUmemLocation, id);
SAME(driver_pool_props, location, CUmemPoolProps, location);
#if CUDA_VERSION >= 12020
SAME(driver_pool_props, max_size, CUmemPoolProps, maxSize);
#endif
_Static_assert(sizeof(struct driver_pool_props) <= sizeof(CUmemPoolProps), "the pool's properties have room for a greatest size");
SAME(driver_memory_props, location, CUmemAllocationProp, location);
_Static_assert(sizeof(struct driver_uuid) == sizeof(CUuuid), "UUIDs");
_Static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t) && sizeof(CUmemGenericAllocationHandle) == sizeof(uint64_t), "addresses and handles");
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice) == sizeof(int), "results and devices");
_Static_assert((int)CUDA_ERROR_OUT_OF_MEMORY == DRIVER_OUT_OF_MEMORY && (int)CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED == DRIVER_FIRST_OF_CAPTURES &&
                   (int)CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD == DRIVER_WRONG_THREAD,
               "errors");
_Static_assert((int)CU_MEMPOOL_ATTR_RELEASE_THRESHOLD == DRIVER_THRESHOLD && (int)CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT == DRIVER_RESERVED &&
                   (int)CU_MEMPOOL_ATTR_USED_MEM_CURRENT == DRIVER_USED,
               "attributes");
_Static_assert((int)CU_MEM_LOCATION_TYPE_DEVICE == DRIVER_AT_DEVICE && (int)CU_STREAM_CAPTURE_MODE_RELAXED == DRIVER_RELAXED, "modes");

#else
#define RESULT "1..0 # SKIP there is no cuda.h"
#endif

int main(void)
{
    puts(RESULT);
    return 0;
}
