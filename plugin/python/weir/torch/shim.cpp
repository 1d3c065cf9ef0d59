/* SPDX-License-Identifier: MIT */
/*
 * shim.cpp - Weir as a C++ allocator of torch: what torch asks of an allocator beyond what its pluggable allocators pass on.
 *
 * A shared library with one function of C, weir_torch_shim_enable(), that is compiled against one version of torch, since torch promises
 * no binary interface between versions. It is linked to nothing of Python's, and so serves every Python that this torch is there for. Nor
 * is it linked to libweir: the functions of weir_torch.h are looked up in the libweir-torch.so that it is told of. The one allocator that
 * it makes lives until the process ends, as torch frees tensors until then. No lock of ours is held while torch, Python or Weir is called,
 * and the GIL is never taken.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/version.h>

#include "shim_blocks.h"
#include "shim_history.h"
#include "shim_library.h"
#include "shim_regions.h"
#include "shim_trackers.h"
#include "weir_torch.h"

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;
using weir_shim::Block;
using weir_shim::Blocks;
using weir_shim::Device;
using weir_shim::History;
using weir_shim::Library;
using weir_shim::Trackers;
using weir_shim::PoolId;

/* Set once, by make_allocator(), before torch can call. */
const Library *library;

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

/* As torch writes sizes: "1.50 GiB". */
std::string words_of(uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    char text[40];
    snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return text;
}

weir_torch_stats stats_of(Device device)
{
    weir_torch_stats stats = {};
    stats.size = sizeof stats;
    weir_error error = WEIR_ERROR_INIT;
    TORCH_CHECK(library->stats_take(device, &error, &stats) == WEIR_OK, "weir: ", error.text);
    return stats;
}

/* For where there is worse to report: all 0 if they cannot be had. */
weir_torch_stats stats_or_none(Device device)
{
    weir_torch_stats stats = {};
    stats.size = sizeof stats;
    return library->stats_take(device, nullptr, &stats) == WEIR_OK ? stats : weir_torch_stats{};
}

[[noreturn]] void not_supported(const char *what, const char *instead)
{
    C10_THROW_ERROR(Error, std::string("weir: ") + what + " is not supported while Weir is torch's allocator: " + instead);
}

/* The default stream, id 0, and those of torch's pools, odd ids, are there for ever. An even id is the handle of somebody else's stream. */
bool is_of_torch(const c10::cuda::CUDAStream &stream)
{
    return stream.id() == 0 || (stream.id() & 1);
}

void free_block(void *ptr);

/* The allocator ------------------------------------------------------------------------------------------------------------------------ */

/*
 * Methods that torch gave other parameters in the course of time stand here once for each form, without `override`: the one that the
 * torch at hand has overrides, and the others are never called.
 */
class Weir final : public Pluggable {
public:
    Weir()
        : Pluggable(
              [](size_t size, int device, cudaStream_t stream) {
                  return library->pool_malloc(static_cast<ssize_t>(size), device, stream);
              },
              [](void *ptr, size_t size, int device, cudaStream_t stream) {
                  library->free(ptr, static_cast<ssize_t>(size), device, stream);
              })
    {
        initialized_ = true; /* as torch's own pluggable ones: from now on it cannot be exchanged for another */
    }

    std::string name() override { return "weir"; }
    void init(int count) override
    {
        device_count = count;
        library->init(count);
        initialized_ = true;
        /* torch asks only the allocator in use; torch.accelerator looks here for it. */
        c10::SetAllocator(c10::DeviceType::CUDA, this);
    }

    /* Allocating */

    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override
    {
        Device device = -1;
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        return C10_UNLIKELY(!isEnabled()) ? malloc_uncached(size) : get(size, device, stream);
    }
    void *raw_alloc(size_t size) override
    {
        Device device = -1;
        return C10_UNLIKELY(!isEnabled()) ? malloc_uncached(size) : get_here(size, device);
    }
    c10::DataPtr allocate(size_t size) override
    {
        Device device = -1;
        if (C10_UNLIKELY(!isEnabled()))
            return allocate_uncached(size);
        void *ptr = get_here(size, device);
        return { ptr, ptr, &free_block, c10::Device(c10::DeviceType::CUDA, device) };
    }
    c10::DeleterFnPtr raw_deleter() const override { return isEnabled() ? &free_block : &free_uncached; }

    /* caching_allocator_enable(False), or torch's variable for it: tensors are CUDA's own blocks, which nobody keeps or counts. */
    void enable(bool value) { is_enabled = value; }
    bool isEnabled() const { return is_enabled.load(std::memory_order_relaxed); }

    void raw_delete(void *ptr) override
    {
        /* In the child of a fork locks may be held by threads that are not there, and CUDA does not work: nothing is touched. */
        if (!ptr || library->is_over())
            return;
        Block block;
        bool is_told = false;
        if (!history.take(blocks, ptr, block, is_told)) {
            TORCH_CHECK(!isEnabled(), "weir: ", ptr,
                        " is not a block of torch's that is live: it was freed already, or never allocated");
            free_uncached(ptr);
            return;
        }
        if (C10_UNLIKELY(block.is_shared))
            library->unshare(block.device, ptr, block.size);
        library->free(ptr, static_cast<ssize_t>(block.size), block.device, block.stream);
        if (C10_UNLIKELY(is_told))
            history.freed(ptr);
        if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
            profile(ptr, -static_cast<int64_t>(block.size), block.device);
    }

    void recordStream(const c10::DataPtr &data, c10::cuda::CUDAStream stream) override
    {
        /* What others allocated and torch only borrows is not ours to look after, as with torch's own. */
        if (!data.get() || data.get_deleter() != &free_block)
            return;
        /* One of torch's pools may never have allocated, as those of NCCL. */
        if (is_of_torch(stream))
            library->stream_lives(stream.device_index(), stream.stream());
        library->record_stream(data.get(), stream.stream());
    }

    /* Figures */

    caching::DeviceStats getDeviceStats(Device device) override
    {
        weir_torch_stats now = stats_of(device);
        Blocks::Totals bytes = blocks.totals(device);
        caching::DeviceStats stats{};
        /* All, and what torch calls its large pool: Weir keeps small blocks apart too, but counts them together. */
        auto set = [](auto &figures, uint64_t current, uint64_t peak, uint64_t in, uint64_t out) {
            auto &all = figures[0];
            all.current = static_cast<int64_t>(current);
            all.peak = static_cast<int64_t>(std::max(peak, current));
            all.allocated = static_cast<int64_t>(in);
            all.freed = static_cast<int64_t>(out);
            figures[2] = all;
        };
        set(stats.allocation, now.blocks, 0, now.mallocs, now.frees);
        set(stats.active, now.blocks, 0, now.mallocs, now.frees);
        set(stats.allocated_bytes, now.allocated, now.allocated_high, bytes.in, bytes.out);
        set(stats.requested_bytes, now.allocated, now.allocated_high, bytes.in, bytes.out);
        set(stats.active_bytes, now.active, now.allocated_high, bytes.in, bytes.out);
        set(stats.reserved_bytes, now.reserved, now.reserved_high, 0, 0);
        set(stats.inactive_split_bytes, now.graph_reserved - std::min(now.graph_reserved, now.graph_live), 0, 0, 0);
        stats.num_alloc_retries = static_cast<int64_t>(now.recoveries);
        stats.num_ooms = static_cast<int64_t>(now.failures);
        return stats;
    }
    void resetAccumulatedStats(Device device) override
    {
        library->reset_totals(device);
        blocks.reset_totals(device);
    }
    void resetPeakStats(Device device) override { library->reset_peaks(device); }

    /* cuDNN sizes its workspaces by this: what a request could get now, if caches and idle memory go to it. */
    void cacheInfo(Device device, size_t *largest) override
    {
        weir_torch_stats stats = stats_opened(device);
        uint64_t room = stats.memory_free + stats.idle + stats.cached;
        if (stats.max_size)
            room = std::min(room, stats.max_size - std::min(stats.max_size, stats.active));
        *largest = static_cast<size_t>(room);
    }
    /* Under a claim a program plans with that, and not with what it leaves to others. */
    std::pair<size_t, size_t> getMemoryInfo(Device device)
    {
        uint64_t total, free;
        if (library->claim(device, nullptr, &total, &free) == WEIR_OK && total)
            return { free, total };
        weir_torch_stats stats = stats_opened(device);
        return { stats.memory_free, stats.memory };
    }

    /* Of all, or of one pool. */
    caching::SnapshotInfo snapshot(PoolId id, bool with_traces) { return snapshot_for(id, with_traces, __builtin_return_address(0)); }
    caching::SnapshotInfo snapshot(PoolId id) { return snapshot_for(id, true, __builtin_return_address(0)); }
    caching::SnapshotInfo snapshot() { return snapshot_for({ 0, 0 }, true, __builtin_return_address(0)); }

    /* Bounds */

    void emptyCache() { library->reset(); }
    void emptyCache(PoolId id)
    {
        if (!id.first && !id.second)
            library->reset();
        for (int device = 0; device < device_count && (id.first || id.second); device++)
            library->trim_pool(device, c_id(id));
    }
    void setMemoryFraction(double fraction, Device device) override
    {
        TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "weir: the memory fraction is ", fraction, ": it has to be from 0 to 1");
        library->memory_fraction(fraction, device);
    }
    double getMemoryFraction(Device device) { return library->get_memory_fraction(device); }

    /* Pools of graphs, and MemPools */

    /* The filter of a capture asks CUDA, and wants nothing before the capture has begun; all others want what is current, and call nobody. */
    void beginAllocateToPool(Device device, PoolId id, std::function<bool(cudaStream_t)> filter) override
    {
        if (!filter(c10::cuda::getCurrentCUDAStream(device).stream())) {
            library->begin_allocate_to_pool(device, c_id(id));
            return;
        }
        using Filter = std::function<bool(cudaStream_t)>;
        auto copy = std::make_unique<Filter>(std::move(filter));
        weir_torch_filter route = {};
        route.wants = [](void *data, weir_cuda_stream stream) { return static_cast<int>((*static_cast<Filter *>(data))(stream)); };
        route.drop = [](void *data) { delete static_cast<Filter *>(data); };
        route.data = copy.get();
        weir_error error = WEIR_ERROR_INIT;
        TORCH_CHECK(library->begin_route(device, c_id(id), &route, &error) == WEIR_OK, "weir: ", error.text);
        copy.release();
    }
    void endAllocateToPool(Device device, PoolId id) override { library->end_allocate_to_pool(device, c_id(id)); }
    void releasePool(Device device, PoolId id) override { library->release_pool(device, c_id(id)); }
    void createOrIncrefPool(Device device, PoolId id, std::shared_ptr<caching::CUDAAllocator> own = nullptr) { hold(device, id, own); }
    /* Whoever made the pool keeps its allocator alive. */
    void createOrIncrefPool(Device device, PoolId id, caching::CUDAAllocator *own)
    {
        hold(device, id, std::shared_ptr<caching::CUDAAllocator>(own, [](caching::CUDAAllocator *) {}));
    }
    void ensureExistsAndIncrefPool(Device device, PoolId id) { hold(device, id, nullptr); }
    int getPoolUseCount(Device device, PoolId id) { return library->pool_uses(device, c_id(id)); }
    void setUseOnOOM(Device device, PoolId id, bool use) { library->set_pool(device, c_id(id), WEIR_TORCH_USE_ON_OOM, use); }
    void setUseOnOOM(Device device, PoolId id) { setUseOnOOM(device, id, true); }
    void setNoSplit(Device device, PoolId id) { library->set_pool(device, c_id(id), WEIR_TORCH_NO_SPLIT, 1); }
    bool checkPoolLiveAllocations(Device device, PoolId id, const std::unordered_set<void *> &expected) override
    {
        std::vector<const void *> ptrs(expected.begin(), expected.end());
        return library->pool_has(device, c_id(id), ptrs.data(), ptrs.size()) != 0;
    }

    std::shared_ptr<caching::AllocatorState> getCheckpointState(Device device, PoolId id) override
    {
        auto saved = std::make_shared<State>();
        weir_error error = WEIR_ERROR_INIT;
        TORCH_CHECK(library->state_save(device, c_id(id), &error, &saved->state) == WEIR_OK, "weir: ", error.text);
        return saved;
    }
    /* As with torch's own all blocks of the pool are said to be freed, and those of the state to be allocated, each with its deleter. */
    caching::CheckpointDelta setCheckpointPoolState(Device device, std::shared_ptr<caching::AllocatorState> given) override
    {
        auto saved = std::dynamic_pointer_cast<State>(given);
        TORCH_CHECK(saved, "weir: the state is not one that Weir saved");
        weir_error error = WEIR_ERROR_INIT;
        weir_torch_delta *taken = nullptr;
        TORCH_CHECK(library->state_restore(saved->state, &error, &taken) == WEIR_OK, "weir: ", error.text);
        std::unique_ptr<weir_torch_delta, decltype(library->delta_free)> delta(taken, library->delta_free);
        caching::CheckpointDelta said;
        for (size_t i = 0; i < delta->freed_count; i++) {
            Block block;
            bool is_told = false;
            void *ptr = delta->freed[i].ptr;
            if (history.take(blocks, ptr, block, is_told) && is_told)
                history.freed(ptr);
            if (block.is_shared)
                library->unshare(block.device, ptr, block.size);
            said.ptrs_freed.push_back(ptr);
        }
        for (size_t i = 0; i < delta->made_count; i++) {
            const weir_torch_change &made = delta->made[i];
            History::Gathered context = history.gather(caching::RecordContext::STATE);
            history.insert(blocks, { made.ptr, made.size, made.stream, device }, context);
            said.dataptrs_allocd.emplace_back(made.ptr, made.ptr, &free_block, c10::Device(c10::DeviceType::CUDA, device));
        }
        return said;
    }

    /* History. The order of calls: what torch gathers first, which takes the GIL, then Weir, then what torch drops. */

    bool isHistoryEnabled() override { return history.is_on(); }
    void recordHistory(bool enabled, caching::CreateContextFn context, size_t entries, caching::RecordContext when)
    {
        recordHistory(enabled, context, entries, when, false, {});
    }
    void recordHistory(bool enabled, caching::CreateContextFn context, size_t entries, caching::RecordContext when, bool clears)
    {
        recordHistory(enabled, context, entries, when, clears, {});
    }
    void recordHistory(bool enabled, caching::CreateContextFn context, size_t entries, caching::RecordContext when, bool clears,
                       const std::vector<std::string> &skipped)
    {
        check_process();
        if (enabled)
            history.begin(library->watch, blocks, context, entries, when, clears, skipped);
        else
            history.end(library->watch);
    }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &words)
    {
        Device device = -1;
        if (has_history() && c10::cuda::GetDevice(&device) == cudaSuccess)
            history.annotate(device, words);
    }
    void pushCompileContext(std::string &words) { History::words().compiled.push_back(words); }
    void popCompileContext()
    {
        if (!History::words().compiled.empty())
            History::words().compiled.pop_back();
    }
    bool supportsUserMetadata() { return true; }
    void setUserMetadata(const std::string &words) { History::words().users = words; }
    std::string getUserMetadata() { return History::words().users; }
    void annotateMemory(const void *ptr, const std::string &words)
    {
        if (has_history())
            history.annotate(ptr, words);
    }
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *ptr) { return has_history() ? history.stack_at(ptr) : nullptr; }
    void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override
    {
        std::lock_guard<std::mutex> guard(lock);
        observers.push_back(std::move(observer));
    }

    /* NCCL attaches them when a MemPool is registered, and where a variable has it register all tensors. */
    void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override
    {
        for (const char *name : { "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK" })
            if (is_set(name))
                not_supported(("registering all tensors with NCCL (" + std::string(name) + ")").c_str(),
                              "unset the variable, and give what is to be registered a torch.cuda.MemPool(backend.mem_allocator)");
        trackers.attach(std::move(tracker), __builtin_return_address(0));
    }

    /* Other processes, through torch.multiprocessing, which counts who has a tensor, and sends the offset beside the handle */

    std::shared_ptr<void> getIpcDevPtr(std::string handle) override
    {
        std::shared_ptr<void> mapped = find_received(handle, nullptr);
        return mapped ? mapped : find_received(handle, receive(handle));
    }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 5
    caching::ShareableHandle shareIpcHandle(void *ptr) override
    {
        Block block;
        weir_torch_handle handle;
        uint64_t offset = 0;
        weir_error error = WEIR_ERROR_INIT;
        TORCH_CHECK(blocks.share(ptr, block), "weir: ", ptr, " is not a block of torch's that is live, and cannot be sent to other processes");
        TORCH_CHECK(library->share(block.device, ptr, block.size, &error, &handle, &offset) == WEIR_OK, "weir: ", error.text);
        return { static_cast<ptrdiff_t>(offset), std::string(reinterpret_cast<const char *>(handle.bytes), sizeof handle.bytes) };
    }
#endif

    /* Other GPUs */

    /* From now on torch's kernels on `device` may touch what is on `owner`: what cudaMalloc made, and Weir's pools. */
    void enablePeerAccess(Device device, Device owner) override
    {
        Pluggable::enablePeerAccess(device, owner);
        weir *w = opened(owner);
        weir_error error = WEIR_ERROR_INIT;
        weir_stats *taken;
        TORCH_CHECK(library->weir_stats_take(w, &error, &taken) == WEIR_OK, "weir: ", error.text);
        std::unique_ptr<weir_stats, decltype(library->weir_stats_free)> stats(taken, library->weir_stats_free);
        const weir_pool_stats *figures;
        for (size_t i = 0; (figures = library->weir_stats_pool(stats.get(), i)); i++) {
            weir_pool *pool;
            if (figures->device != owner || figures->is_private ||
                library->weir_pool_get(w, figures->name, owner, &error, &pool) != WEIR_OK)
                continue;
            grant(library->weir_pool_handle(pool), device);
            grant(library->weir_pool_small_handle(pool), device);
        }
    }
    /* Plain copies reach a pool from another GPU only once that was granted; these always do. */
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t stream, bool) override
    {
        if (to_device == from_device)
            return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
        return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
    }

private:
    /* In the child of a fork the history's lock may be held by a thread that is not there. */
    bool has_history() const { return history.is_on() && !library->is_over(); }

    static weir_torch_pool_id c_id(PoolId id) { return { id.first, id.second }; }

    struct State final : caching::AllocatorState {
        weir_torch_state *state = nullptr;
        ~State() override { library->state_free(state); }
    };

    caching::SnapshotInfo snapshot_for(PoolId id, bool with_traces, const void *caller)
    {
        check_process();
        if ((id.first || id.second) && trackers.has_attached(caller))
            return trackers.segments(id);
        return history.snapshot(library->watch, blocks, id, with_traces, device_count);
    }

    /* As torch reads variables that say yes or no. */
    static bool is_set(const char *name)
    {
        const char *value = getenv(name);
        return value && *value && strchr("1tTyY", *value);
    }

    /* The allocator of a MemPool's own. Made and dropped with what calls it, on one device. */
    struct Own {
        Own(Trackers &all, PoolId pool, const std::shared_ptr<caching::CUDAAllocator> &given) : trackers(all), id(pool), allocator(given)
        {
            trackers.pool_begun(id);
        }
        ~Own() { trackers.pool_ended(id); }

        /* What it throws is thrown again where the request has failed: this is called from C. */
        void *malloc(size_t size, Device device, cudaStream_t stream)
        {
            void *ptr = nullptr;
            thrown = nullptr; /* of the usual size, if this is the smaller one */
            try {
                c10::cuda::CUDAGuard guard(device);
                ptr = allocator->raw_alloc_with_stream(size, stream);
                if (ptr)
                    trackers.came(ptr, size, device, stream, id);
                return ptr;
            } catch (...) {
                thrown = std::current_exception();
                if (ptr)
                    free(ptr, device);
                return nullptr;
            }
        }
        void free(void *ptr, Device device)
        {
            try {
                c10::cuda::CUDAGuard guard(device);
                trackers.goes(ptr);
                allocator->raw_delete(ptr);
            } catch (const std::exception &error) {
                TORCH_WARN("weir: the allocator of a MemPool failed to free memory: ", error.what());
            }
        }

        Trackers &trackers;
        PoolId id;
        std::shared_ptr<caching::CUDAAllocator> allocator;
    };

    void hold(Device device, PoolId id, const std::shared_ptr<caching::CUDAAllocator> &own)
    {
        weir_torch_source source = {};
        source.malloc = [](void *data, size_t size, int index, weir_cuda_stream stream) {
            return static_cast<Own *>(data)->malloc(size, static_cast<Device>(index), stream);
        };
        source.free = [](void *data, void *ptr, size_t, int index) { static_cast<Own *>(data)->free(ptr, static_cast<Device>(index)); };
        source.drop = [](void *data) { delete static_cast<Own *>(data); };
        bool is_own = own && own.get() != this;
        source.data = is_own ? new Own(trackers, id, own) : nullptr;
        weir_error error = WEIR_ERROR_INIT;
        TORCH_CHECK(library->hold_pool(device, c_id(id), is_own ? &source : nullptr, &error) == WEIR_OK, "weir: ", error.text);
    }
    static thread_local std::exception_ptr thrown;

    /* What has that handle, if it is mapped; else `fresh`, which has it from now on unless it is null. */
    std::shared_ptr<void> find_received(const std::string &handle, const std::shared_ptr<void> &fresh)
    {
        std::lock_guard<std::mutex> guard(lock);
        auto place = received.find(handle);
        std::shared_ptr<void> known = place == received.end() ? nullptr : place->second.lock();
        if (known || !fresh)
            return known;
        for (place = received.begin(); place != received.end();)
            place = place->second.expired() ? received.erase(place) : std::next(place);
        received.emplace(handle, fresh);
        return fresh;
    }
    static std::shared_ptr<void> receive(const std::string &handle)
    {
        Device device = -1;
        void *ptr = nullptr;
        weir_torch_received *made = nullptr;
        weir_error error = WEIR_ERROR_INIT;
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        TORCH_CHECK(library->receive(device, handle.data(), handle.size(), &error, &made, &ptr) == WEIR_OK, "weir: ", error.text);
        return { ptr, [device, made](void *) { library->receive_end(device, made); } };
    }
    static void free_uncached(void *ptr) { C10_CUDA_CHECK(cudaFree(ptr)); }

    C10_NOINLINE static void *malloc_uncached(size_t size)
    {
        void *ptr = nullptr;
        if (size)
            C10_CUDA_CHECK(cudaMalloc(&ptr, size));
        return ptr;
    }

    static c10::DataPtr allocate_uncached(size_t size)
    {
        Device device = -1;
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        void *ptr = malloc_uncached(size);
        return { ptr, ptr, &free_uncached, c10::Device(c10::DeviceType::CUDA, device) };
    }

    void *get_here(size_t size, Device &device)
    {
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        return get(size, device, c10::cuda::getCurrentCUDAStream(device).stream());
    }

    void *get(size_t size, Device device, cudaStream_t stream)
    {
        if (!size)
            return nullptr;
        weir_shim::Regions::follow(*library);
        History::Gathered context = history.gather(caching::RecordContext::STATE);
        void *ptr = nullptr;
        if (C10_LIKELY(static_cast<ssize_t>(size) > 0))
            ptr = library->pool_malloc(static_cast<ssize_t>(size), device, stream);
        if (C10_UNLIKELY(!ptr))
            ptr = get_or_throw(size, device, stream, context);
        else if (C10_UNLIKELY(static_cast<bool>(thrown)))
            thrown = nullptr; /* of a pool's own allocator, before another pool served the request */
        try {
            history.insert(blocks, { ptr, size, stream, device }, context);
        } catch (...) {
            library->free(ptr, static_cast<ssize_t>(size), device, stream);
            throw;
        }
        if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
            profile(ptr, static_cast<int64_t>(size), device);
        return ptr;
    }

    C10_NOINLINE void *get_or_throw(size_t size, Device device, cudaStream_t stream, History::Gathered &context);
    C10_NOINLINE static void profile(void *ptr, int64_t size, Device device);

    /* The weir of a device that torch may not have allocated on yet. */
    static weir *opened(Device device)
    {
        weir_error error = WEIR_ERROR_INIT;
        weir *w;
        TORCH_CHECK(library->get(device, &error, &w) == WEIR_OK, "weir: ", error.text);
        return w;
    }
    static weir_torch_stats stats_opened(Device device)
    {
        opened(device);
        return stats_of(device);
    }

    static void grant(weir_cuda_pool pool, Device device)
    {
        cudaMemAccessDesc access = {};
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id = device;
        access.flags = cudaMemAccessFlagsProtReadWrite;
        if (pool)
            C10_CUDA_CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    }

    static void check_process()
    {
        TORCH_CHECK(!library->is_over(), "weir: there is no memory history in the child of a fork after CUDA was used: take it in the parent");
    }

    Blocks blocks;
    History history;
    Trackers trackers;
    std::atomic<bool> is_enabled{ !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") };
    int device_count = 0; /* set once, by init() */
    std::mutex lock; /* of what follows; a leaf */
    std::vector<caching::OutOfMemoryObserver> observers;
    std::unordered_map<std::string, std::weak_ptr<void>> received; /* mappings of other processes' memory, by handle */
};

thread_local std::exception_ptr Weir::thrown;

/* Weir's ladder was in vain. What other parts of torch can give back is tried once, then the request has failed. */
void *Weir::get_or_throw(size_t size, Device device, cudaStream_t stream, History::Gathered &context)
{
    weir_error error = WEIR_ERROR_INIT;
    if (thrown)
        std::rethrow_exception(std::exchange(thrown, nullptr));
    if (static_cast<ssize_t>(size) > 0) {
        library->report(&error);
        if (error.status == WEIR_OUT_OF_MEMORY) {
            bool freed = false;
            for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
                freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
            if (freed) {
                if (void *ptr = library->pool_malloc(static_cast<ssize_t>(size), device, stream))
                    return ptr;
                library->report(&error);
            }
        }
        if (error.status != WEIR_OUT_OF_MEMORY)
            C10_THROW_ERROR(Error, std::string("weir: ") + error.text);
    }
    weir_torch_stats stats = stats_or_none(device);
    history.out_of_memory(size, device, stream, stats.memory_free, context);
    std::vector<caching::OutOfMemoryObserver> copy;
    {
        std::lock_guard<std::mutex> guard(lock);
        copy = observers;
    }
    for (const auto &observer : copy)
        observer(device, size, stats.max_size ? stats.max_size : stats.memory, stats.memory_free);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), stats.allocated, stats.reserved,
                                     c10::Device(c10::DeviceType::CUDA, device));
    std::string text = "CUDA out of memory. Tried to allocate " + words_of(size) + ". GPU " + std::to_string(device) +
                       " has a total capacity of " + words_of(stats.memory) + " of which " + words_of(stats.memory_free) + " is free. " +
                       words_of(stats.allocated) + " is allocated by PyTorch, and " + words_of(stats.reserved) +
                       " is reserved by Weir for it.";
    if (stats.max_size)
        text += " At most " + words_of(stats.max_size) + " is allowed.";
    C10_THROW_ERROR(OutOfMemoryError, error.text[0] ? text + "\n" + error.text : text);
}

void Weir::profile(void *ptr, int64_t size, Device device)
{
    weir_torch_stats stats = stats_or_none(device);
    c10::reportMemoryUsageToProfiler(ptr, size, stats.allocated, stats.reserved, c10::Device(c10::DeviceType::CUDA, device));
}

/* Never destroyed: tensors are freed while the process ends. */
std::shared_ptr<caching::CUDAAllocator> *weir_allocator;

void free_block(void *ptr)
{
    static_cast<Weir *>(weir_allocator->get())->raw_delete(ptr);
}

int stream_lives(int device, weir_cuda_stream stream)
{
    c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(static_cast<Device>(device));
    return current.stream() == stream && is_of_torch(current);
}

void make_allocator(const char *path)
{
    if (!weir_allocator) {
        library = new Library(path);
        weir_allocator = new std::shared_ptr<caching::CUDAAllocator>(new Weir());
        library->set_stream_fn(stream_lives);
    }
}

int failed(int status, const std::exception &error, char *text, size_t size)
{
    auto of_torch = dynamic_cast<const c10::Error *>(&error);
    snprintf(text, size, "%s", of_torch ? of_torch->what_without_backtrace() : error.what());
    return status;
}

} // namespace

/*
 * Makes Weir torch's allocator for the rest of the process, by the libweir-torch.so at that path; one for the process, whichever path is
 * named later. Returns WEIR_TORCH_SHIM_…, and says in `text` why it could not: that the library is not one that this was compiled for, or
 * that torch takes no other allocator any more. One thread at a time may call it.
 */
enum { WEIR_TORCH_SHIM_ENABLED, WEIR_TORCH_SHIM_UNFIT, WEIR_TORCH_SHIM_LATE };

extern "C" __attribute__((visibility("default"))) int weir_torch_shim_enable(const char *path, char *text, size_t size)
{
    try {
        make_allocator(path);
    } catch (const std::exception &error) {
        return failed(WEIR_TORCH_SHIM_UNFIT, error, text, size);
    }
    /* By a copy of the Python package that was imported before and forgotten. */
    if (caching::get() == weir_allocator->get())
        return WEIR_TORCH_SHIM_ENABLED;
    try {
        torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(*weir_allocator);
    } catch (const std::exception &error) {
        return failed(WEIR_TORCH_SHIM_LATE, error, text, size);
    }
    return WEIR_TORCH_SHIM_ENABLED;
}

/* The calling thread has begun, or ended, a tag or a pool of weir.torch: threads that work for it follow. */
extern "C" __attribute__((visibility("default"))) void weir_torch_shim_region(int begins)
{
    if (begins)
        weir_shim::Regions::begin(*library);
    else
        weir_shim::Regions::end();
}
