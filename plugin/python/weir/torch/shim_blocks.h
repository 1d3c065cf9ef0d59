/* SPDX-License-Identifier: MIT */
/*
 * shim_blocks.h - torch's live blocks: what its deleter does not say of a block, its size, device and stream. C++, for shim.cpp alone.
 *
 * Open addressing in shards by address, each under a lock of its own, since the threads of a training run allocate and free all the
 * time. Locks are leaves, and held for a few cache lines' worth of work.
 */
#ifndef WEIR_TORCH_SHIM_BLOCKS_H
#define WEIR_TORCH_SHIM_BLOCKS_H

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <c10/core/Device.h>

#include "weir.h"

namespace weir_shim {

using Device = c10::DeviceIndex;

struct Block {
    void *ptr; /* nullptr: this place is free */
    size_t size;
    weir_cuda_stream stream;
    Device device;
    bool is_shared = false; /* other processes were told of it */
};

class Spin {
public:
    void lock()
    {
        while (held.test_and_set(std::memory_order_acquire))
            sched_yield();
    }
    void unlock() { held.clear(std::memory_order_release); }

private:
    std::atomic_flag held = ATOMIC_FLAG_INIT;
};

class Blocks {
public:
    /* Calls `tell` once it is in the table, under the lock, so that nobody has freed it yet. */
    template <typename Tell> void insert(const Block &block, Tell tell)
    {
        Shard &shard = shard_of(block.ptr);
        std::lock_guard<Spin> guard(shard.lock);
        /* First what may throw, so that then the block is not in the table. */
        Totals &totals = totals_of(shard, block.device);
        if ((shard.used + 1) * 4 > shard.places.size() * 3)
            grow(shard);
        put(shard.places, block);
        shard.used++;
        totals.in += block.size;
        tell();
    }

    /* false: there is no such block. Calls `tell` under the lock, so that nobody has it again yet. */
    template <typename Tell> bool take(void *ptr, Block &block, Tell tell)
    {
        Shard &shard = shard_of(ptr);
        std::lock_guard<Spin> guard(shard.lock);
        size_t place;
        if (!find(shard, ptr, place))
            return false;
        block = shard.places[place];
        remove(shard.places, place);
        shard.used--;
        totals_of(shard, block.device).out += block.size;
        tell();
        return true;
    }

    /* Marks the block as shared. false: there is no such block. */
    bool share(void *ptr, Block &block)
    {
        Shard &shard = shard_of(ptr);
        std::lock_guard<Spin> guard(shard.lock);
        size_t place;
        if (!find(shard, ptr, place))
            return false;
        shard.places[place].is_shared = true;
        block = shard.places[place];
        return true;
    }

    /* Under the lock of each one's shard. */
    template <typename Use> void each(Use use)
    {
        for (Shard &shard : shards) {
            std::lock_guard<Spin> guard(shard.lock);
            for (const Block &block : shard.places)
                if (block.ptr)
                    use(block);
        }
    }

    /* Bytes of all blocks that ever came and went, since reset_totals(). */
    struct Totals {
        uint64_t in = 0, out = 0;
    };
    Totals totals(Device device)
    {
        Totals sum;
        for (Shard &shard : shards) {
            std::lock_guard<Spin> guard(shard.lock);
            const Totals &part = totals_of(shard, device);
            sum.in += part.in;
            sum.out += part.out;
        }
        return sum;
    }
    void reset_totals(Device device)
    {
        for (Shard &shard : shards) {
            std::lock_guard<Spin> guard(shard.lock);
            totals_of(shard, device) = Totals();
        }
    }

private:
    struct alignas(64) Shard {
        Spin lock;
        size_t used = 0;
        std::vector<Block> places = std::vector<Block>(64); /* a power of two */
        std::vector<Totals> totals;                         /* by device */
    };

    /* Blocks are 512 bytes aligned at least, so the low bits say nothing; the multiplication spreads the rest over the high ones. */
    static uint64_t hash(const void *ptr) { return (reinterpret_cast<uintptr_t>(ptr) >> 9) * UINT64_C(0x9E3779B97F4A7C15); }
    Shard &shard_of(const void *ptr) { return shards[hash(ptr) >> 58]; }
    static size_t home(const std::vector<Block> &places, const void *ptr) { return (hash(ptr) >> 20) & (places.size() - 1); }

    static Totals &totals_of(Shard &shard, Device device)
    {
        if (shard.totals.size() <= static_cast<size_t>(device))
            shard.totals.resize(static_cast<size_t>(device) + 1);
        return shard.totals[static_cast<size_t>(device)];
    }

    static void put(std::vector<Block> &places, const Block &block)
    {
        size_t place = home(places, block.ptr);
        while (places[place].ptr)
            place = (place + 1) & (places.size() - 1);
        places[place] = block;
    }

    static void grow(Shard &shard)
    {
        std::vector<Block> larger(shard.places.size() * 2);
        for (const Block &block : shard.places)
            if (block.ptr)
                put(larger, block);
        shard.places.swap(larger);
    }

    static bool find(const Shard &shard, const void *ptr, size_t &place)
    {
        for (place = home(shard.places, ptr); shard.places[place].ptr; place = (place + 1) & (shard.places.size() - 1))
            if (shard.places[place].ptr == ptr)
                return true;
        return false;
    }

    /* Moves later blocks of the run back, so that none lies behind a gap. */
    static void remove(std::vector<Block> &places, size_t gap)
    {
        size_t mask = places.size() - 1;
        for (size_t place = (gap + 1) & mask; places[place].ptr; place = (place + 1) & mask) {
            if (((place - home(places, places[place].ptr)) & mask) >= ((place - gap) & mask)) {
                places[gap] = places[place];
                gap = place;
            }
        }
        places[gap].ptr = nullptr;
    }

    Shard shards[64];
};

} // namespace weir_shim

#endif
