/* SPDX-License-Identifier: MIT */
/*
 * counter.cpp - an allocator of torch around the one that is there, which counts how often memory is asked for and given back, and the time
 * that takes. All else is passed on. A Python extension module: install() puts it in place for good, take() gives and clears the counts.
 * A call counts for as long as it takes and some time of the clock's: empty_ns, which a call that does nothing counts for.
 *
 * Made for torch 2.11. A block that was allocated before keeps its own deleter, and is freed uncounted.
 */
#include <atomic>
#include <chrono>
#include <utility>

#include <c10/cuda/CUDACachingAllocator.h>

#include <pybind11/pybind11.h>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;

std::atomic<uint64_t> calls[3], nanoseconds[3];  /* of allocations, of frees, and of calls that do nothing */
std::atomic<c10::DeleterFnPtr> deleter{nullptr}; /* of the inner allocator, which has one alone */

template <typename Call> auto counted(int kind, Call call)
{
    struct Count {
        int kind;
        std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
        ~Count()
        {
            auto passed = std::chrono::steady_clock::now() - start;
            calls[kind].fetch_add(1, std::memory_order_relaxed);
            nanoseconds[kind].fetch_add(uint64_t(std::chrono::nanoseconds(passed).count()), std::memory_order_relaxed);
        }
    } count{kind};
    return call();
}

void counted_delete(void *context)
{
    counted(1, [&] { deleter.load(std::memory_order_relaxed)(context); });
}

class Counter final : public caching::CUDAAllocator
{
  public:
    explicit Counter(caching::CUDAAllocator *inner) : inner(inner)
    {
    }

    DataPtr allocate(size_t size) override
    {
        DataPtr data = counted(0, [&] { return inner->allocate(size); });
        c10::DeleterFnPtr own = data.get_deleter(), expected = nullptr;
        deleter.compare_exchange_strong(expected, own);
        if (own == deleter.load())
            TORCH_INTERNAL_ASSERT(data.compare_exchange_deleter(own, counted_delete));
        return data;
    }
    void *raw_alloc(size_t size) override
    {
        return counted(0, [&] { return inner->raw_alloc(size); });
    }
    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override
    {
        return counted(0, [&] { return inner->raw_alloc_with_stream(size, stream); });
    }
    void raw_delete(void *ptr) override
    {
        counted(1, [&] { inner->raw_delete(ptr); });
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return inner->raw_deleter();
    }

    /* The inner allocator passes over what has not its own deleter. */
    void recordStream(const DataPtr &data, c10::cuda::CUDAStream stream) override
    {
        if (data.get_deleter() != counted_delete)
            return inner->recordStream(data, stream);
        DataPtr own(data.get(), data.get_context(), deleter.load(), data.device());
        inner->recordStream(own, stream);
        own.release_context();
    }

    void init(int count) override
    {
        inner->init(count);
    }
    bool initialized() override
    {
        return inner->initialized();
    }
    double getMemoryFraction(DeviceIndex device) override
    {
        return inner->getMemoryFraction(device);
    }
    void setMemoryFraction(double fraction, DeviceIndex device) override
    {
        inner->setMemoryFraction(fraction, device);
    }
    std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override
    {
        return inner->getExpandableSegmentSizes(device);
    }
    void enable(bool value) override
    {
        inner->enable(value);
    }
    bool isEnabled() const override
    {
        return inner->isEnabled();
    }
    void emptyCache(MempoolId_t id) override
    {
        inner->emptyCache(id);
    }
    void cacheInfo(DeviceIndex device, size_t *largest) override
    {
        inner->cacheInfo(device, largest);
    }
    void *getBaseAllocation(void *ptr, size_t *size) override
    {
        return inner->getBaseAllocation(ptr, size);
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override
    {
        return inner->getDeviceStats(device);
    }
    void resetAccumulatedStats(DeviceIndex device) override
    {
        inner->resetAccumulatedStats(device);
    }
    void resetPeakStats(DeviceIndex device) override
    {
        inner->resetPeakStats(device);
    }
    caching::SnapshotInfo snapshot(MempoolId_t id, bool traces) override
    {
        return inner->snapshot(id, traces);
    }
    void beginAllocateToPool(DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter) override
    {
        inner->beginAllocateToPool(device, id, std::move(filter));
    }
    void endAllocateToPool(DeviceIndex device, MempoolId_t id) override
    {
        inner->endAllocateToPool(device, id);
    }
    void releasePool(DeviceIndex device, MempoolId_t id) override
    {
        inner->releasePool(device, id);
    }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override
    {
        return inner->getIpcDevPtr(std::move(handle));
    }
    caching::ShareableHandle shareIpcHandle(void *ptr) override
    {
        return inner->shareIpcHandle(ptr);
    }
    void recordHistory(bool enabled, caching::CreateContextFn context, size_t entries, caching::RecordContext when, bool clear,
                       const std::vector<std::string> &skip) override
    {
        inner->recordHistory(enabled, context, entries, when, clear, skip);
    }
    void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override
    {
        inner->attachOutOfMemoryObserver(std::move(observer));
    }
    void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override
    {
        inner->attachAllocatorTraceTracker(std::move(tracker));
    }
    void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override
    {
        inner->enablePeerAccess(device, peer);
    }
    cudaError_t memcpyAsync(void *dst, int dst_device, const void *src, int src_device, size_t count, cudaStream_t stream,
                            bool p2p) override
    {
        return inner->memcpyAsync(dst, dst_device, src, src_device, count, stream, p2p);
    }
    std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override
    {
        return inner->getCheckpointState(device, id);
    }
    caching::CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override
    {
        return inner->setCheckpointPoolState(device, std::move(state));
    }
    void copy_data(void *dst, const void *src, std::size_t count) const override
    {
        inner->copy_data(dst, src, count);
    }
    std::string name() override
    {
        return inner->name();
    }

  private:
    caching::CUDAAllocator *inner;
};

/* Once; the allocator lives until the process ends, as tensors do. */
void install()
{
    static Counter *counter = nullptr;
    if (counter == nullptr) {
        counter = new Counter(caching::get());
        caching::allocator.store(counter);
    }
}

pybind11::dict take()
{
    pybind11::dict found;
    static const char *const names[2][2] = {{"allocations", "allocating_ns"}, {"frees", "freeing_ns"}};
    for (int kind = 0; kind < 2; kind++) {
        found[names[kind][0]] = calls[kind].exchange(0);
        found[names[kind][1]] = nanoseconds[kind].exchange(0);
    }
    for (int i = 0; i < 10000; i++)
        counted(2, [] {});
    found["empty_ns"] = double(nanoseconds[2].exchange(0)) / double(calls[2].exchange(0));
    return found;
}

} // namespace

PYBIND11_MODULE(weir_bench_counter, module)
{
    module.def("install", install);
    module.def("take", take);
}
