/* SPDX-License-Identifier: MIT */
/* CUDACachingAllocator.h - a stand-in for torch's, for recorded.cc: the types that the shim's history uses, with the members it sets. */
#ifndef WEIR_TESTS_C10_CUDA_CACHING_ALLOCATOR_H
#define WEIR_TESTS_C10_CUDA_CACHING_ALLOCATOR_H

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

using cudaStream_t = struct CUstream_st *;

namespace c10 {

using approx_time_t = uint64_t;

struct GatheredContext {
    virtual ~GatheredContext() = default;
};

namespace cuda {

using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

namespace CUDACachingAllocator {

enum class RecordContext { NEVER = 0, STATE = 1, ALLOC = 2, ALL = 3 };
using CreateContextFn = std::shared_ptr<GatheredContext> (*)();

union trace_time_ {
    time_t t_;
    approx_time_t approx_t_;
};

struct TraceEntry {
    enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, SNAPSHOT, OOM, ANNOTATE };
    TraceEntry(Action action, DeviceIndex device, size_t address, size_t size, cudaStream_t stream, MempoolId_t pool, approx_time_t time,
               std::shared_ptr<GatheredContext> context)
        : action_(action), device_(device), addr_(address), context_(std::move(context)), stream_(stream), size_(size), mempool_(pool)
    {
        time_.approx_t_ = time;
    }
    Action action_;
    DeviceIndex device_;
    size_t addr_;
    std::shared_ptr<GatheredContext> context_;
    cudaStream_t stream_;
    size_t size_;
    MempoolId_t mempool_;
    trace_time_ time_{};
    std::string compile_context_, user_metadata_;
};

struct BlockInfo {
    size_t size = 0, requested_size = 0;
    bool allocated = false, active = false;
    std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SegmentInfo {
    DeviceIndex device = 0;
    size_t address = 0, total_size = 0, requested_size = 0, allocated_size = 0, active_size = 0;
    cudaStream_t stream = nullptr;
    bool is_large = false;
    MempoolId_t owner_private_pool_id = { 0, 0 };
    std::vector<BlockInfo> blocks;
    std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SnapshotInfo {
    std::vector<SegmentInfo> segments;
    std::vector<std::vector<TraceEntry>> device_traces;
};

} // namespace CUDACachingAllocator
} // namespace cuda
} // namespace c10

#endif
