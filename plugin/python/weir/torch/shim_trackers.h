/* SPDX-License-Identifier: MIT */
/*
 * shim_trackers.h - trackers of segments, by which NCCL registers the memory of MemPools. C++, for shim.cpp alone.
 *
 * Trackers are told of the chunks that MemPools have from allocators of their own, and of no memory of Weir's. A chunk of Weir's can lie
 * in several pieces of CUDA's memory. NCCL up to 2.30 keeps one mapping for each segment that is registered, that of the piece which a
 * collective used first, and peers then read and write beyond it; NCCL 2.30 refuses memory of CUDA's pools. So a library that attached a
 * tracker is not shown such segments either when it takes the snapshot of a pool, which it does to register what is there already. Other
 * callers, such as Python, see all of a pool. Nothing in torch's calls tells the two apart, but the library does that they come from:
 * NCCL's process groups are in another one than Python's functions.
 *
 * A chunk is in the table before trackers are told that it came, and out of it before they are told that it goes. So who attaches a
 * tracker and then takes a snapshot misses none, though it may hear of one twice. Trackers are called with no lock held.
 */
#ifndef WEIR_TORCH_SHIM_TRACKERS_H
#define WEIR_TORCH_SHIM_TRACKERS_H

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include "shim_history.h"

namespace weir_shim {

/* NCCL registers segments in this order, which is the same in all ranks that allocate alike. Not all versions want it. */
template <typename Info> auto set_order(Info &info, uint64_t order, int) -> decltype(info.registration_counter, void())
{
    info.registration_counter = static_cast<decltype(info.registration_counter)>(order & INT32_MAX);
}
template <typename Info> void set_order(Info &, uint64_t, long) {}

class Trackers {
public:
    struct Chunk {
        Device device;
        size_t size;
        cudaStream_t stream;
        PoolId pool;
        uint64_t order;
        bool is_one_piece; /* of CUDA's memory; else trackers are not told */
    };

    /* From now on the tracker is told. caller: an address in the code that attaches it. */
    void attach(caching::AllocatorTraceTracker tracker, const void *caller)
    {
        std::lock_guard<std::mutex> guard(lock);
        trackers.push_back(std::move(tracker));
        libraries.insert(library_of(caller));
    }
    /* Whether the library that this code is in has attached one. */
    bool has_attached(const void *caller)
    {
        std::lock_guard<std::mutex> guard(lock);
        return !libraries.empty() && libraries.count(library_of(caller));
    }

    /* A pool has an allocator of its own, from here to the end. */
    void pool_begun(PoolId id)
    {
        std::lock_guard<std::mutex> guard(lock);
        pools.insert(id);
    }
    void pool_ended(PoolId id)
    {
        std::lock_guard<std::mutex> guard(lock);
        pools.erase(pools.find(id));
    }

    /* That allocator gave it, on the current device, and nobody has used it. Throws what a tracker throws; then it has to go again. */
    void came(const void *ptr, size_t size, Device device, cudaStream_t stream, PoolId id)
    {
        Chunk chunk{ device, size, stream, id, 0, is_one_piece(ptr, size) };
        std::vector<caching::AllocatorTraceTracker> told;
        {
            std::lock_guard<std::mutex> guard(lock);
            chunk.order = came_count++;
            chunks[ptr] = chunk;
            told = trackers;
        }
        if (!chunk.is_one_piece && !told.empty())
            warn(id);
        for (size_t i = 0; i < told.size() && chunk.is_one_piece; i++)
            told[i](entry_of_chunk(Entry::SEGMENT_ALLOC, ptr, chunk));
    }
    /* It is about to go back to that allocator, and nobody uses it. */
    void goes(const void *ptr)
    {
        Chunk chunk;
        std::vector<caching::AllocatorTraceTracker> told;
        {
            std::lock_guard<std::mutex> guard(lock);
            auto found = chunks.find(ptr);
            if (found == chunks.end())
                return;
            chunk = found->second;
            chunks.erase(found);
            told = trackers;
        }
        for (size_t i = 0; i < told.size() && chunk.is_one_piece; i++) {
            try {
                told[i](entry_of_chunk(Entry::SEGMENT_FREE, ptr, chunk));
            } catch (const std::exception &error) {
                TORCH_WARN("weir: a tracker of torch's segments failed on one that goes: ", error.what());
            }
        }
    }

    /* Those of a pool that can be registered, without their blocks. */
    caching::SnapshotInfo segments(PoolId id)
    {
        caching::SnapshotInfo info{};
        bool is_whole = false;
        {
            std::lock_guard<std::mutex> guard(lock);
            is_whole = pools.count(id);
            for (const auto &[ptr, chunk] : chunks) {
                if (chunk.pool != id)
                    continue;
                is_whole = is_whole && chunk.is_one_piece;
                if (chunk.is_one_piece)
                    info.segments.push_back(segment_of(ptr, chunk));
            }
        }
        if (!is_whole)
            warn(id);
        return info;
    }

private:
    static void *library_of(const void *code)
    {
        Dl_info info;
        return dladdr(code, &info) ? info.dli_fbase : nullptr;
    }

    /* true where the driver does not say: then NCCL asks it. */
    static bool is_one_piece(const void *ptr, size_t size)
    {
        using Find = int (*)(unsigned long long *, size_t *, unsigned long long);
        static void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        static auto find = reinterpret_cast<Find>(driver ? dlsym(driver, "cuMemGetAddressRange_v2") : nullptr);
        auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(ptr));
        unsigned long long base = 0;
        size_t bytes = 0;
        return !find || find(&base, &bytes, address) != 0 || address - base + size <= bytes;
    }

    static Entry entry_of_chunk(Entry::Action action, const void *ptr, const Chunk &chunk)
    {
        Entry entry = entry_of<Entry>(action, chunk.device, reinterpret_cast<uintptr_t>(ptr), chunk.size, chunk.stream, chunk.pool, nullptr);
        entry.time_.approx_t_ = c10::getApproximateTime();
        return entry;
    }

    static caching::SegmentInfo segment_of(const void *ptr, const Chunk &chunk)
    {
        caching::SegmentInfo info{};
        info.device = chunk.device;
        info.address = reinterpret_cast<uintptr_t>(ptr);
        info.total_size = chunk.size;
        info.stream = chunk.stream;
        info.is_large = true;
        info.owner_private_pool_id = chunk.pool;
        set_order(info, chunk.order, 0);
        return info;
    }

    static void warn(PoolId id)
    {
        /* Not by a stream: beside NCCL, which brings a library of C++ of its own, streams wrote no numbers (seen with torch 2.11). */
        TORCH_WARN_ONCE("weir: memory of the MemPool (" + std::to_string(id.first) + ", " + std::to_string(id.second) +
                        ") is not registered with NCCL, and collectives use it as any other: as memory of Weir does, it can lie in several "
                        "pieces of CUDA's, of which NCCL would map one. To have it registered give the pool NCCL's allocator: "
                        "torch.cuda.MemPool(backend.mem_allocator)");
    }

    std::mutex lock; /* of all that follows; a leaf */
    std::vector<caching::AllocatorTraceTracker> trackers;
    std::set<void *> libraries; /* that attached them */
    std::multiset<PoolId> pools; /* with allocators of their own, once for each device */
    std::map<const void *, Chunk> chunks;
    uint64_t came_count = 0;
};

} // namespace weir_shim

#endif
