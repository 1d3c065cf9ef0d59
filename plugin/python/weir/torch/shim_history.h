/* SPDX-License-Identifier: MIT */
/*
 * shim_history.h - torch's memory history: what torch says of its blocks, and libweir-torch of the memory that they lie in
 * (weir_torch_watch()), brought to the ledger in order. C++, for shim.cpp alone.
 *
 * Stacks are gathered before any lock is taken, since that takes the GIL, and dropped with none held. The thread that begins, ends or
 * takes a snapshot holds `beginning`, under which Blocks' locks and Weir's are taken. `lock` is a leaf, taken under all of those.
 */
#ifndef WEIR_TORCH_SHIM_HISTORY_H
#define WEIR_TORCH_SHIM_HISTORY_H

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include "shim_blocks.h"
#include "shim_ledger.h"
#include "weir_torch.h"

namespace weir_shim {

class History {
public:
    using Watch = decltype(&weir_torch_watch);

    History() { listening() = this; }

    /* Each thread's: what torch compiles, and what its user says of what is allocated. A thread that says nothing has none, since C++ ends
       the process where it has no memory to note that they are to be destroyed. */
    struct Words {
        std::vector<std::string> compiled;
        std::string users;
        ~Words() { own_words = nullptr; }
    };
    static Words &words()
    {
        static thread_local Words own;
        return *(own_words = &own);
    }

    using Gathered = std::unique_ptr<Said>;

    bool is_on() const { return on.load(std::memory_order_acquire); }

    /* Before any lock, as this may take the GIL. nullptr: nothing is to be kept, or there is no host memory for it. */
    Gathered gather(caching::RecordContext least)
    {
        if (!C10_UNLIKELY(is_on()))
            return nullptr;
        try {
            return gather_now(least);
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    }

    void insert(Blocks &blocks, const Block &block, const Gathered &said)
    {
        blocks.insert(block, [&] {
            if (C10_UNLIKELY(is_on()))
                change([&] { ledger.allocated(block, said.get(), false); });
        });
        if (C10_UNLIKELY(is_on()))
            sweep();
    }
    /* is_told: freed() has to follow, behind the free. */
    bool take(Blocks &blocks, void *ptr, Block &block, bool &is_told)
    {
        Gathered said = gather(caching::RecordContext::ALL);
        return blocks.take(ptr, block, [&] {
            is_told = is_on();
            if (C10_UNLIKELY(is_told))
                change([&] { ledger.requested(ptr, said.get()); });
        });
    }
    void freed(const void *ptr)
    {
        change([&] { ledger.complete(ptr); });
        sweep();
    }
    void out_of_memory(size_t size, Device device, cudaStream_t stream, uint64_t memory_free, const Gathered &said)
    {
        change([&] { ledger.out_of_memory(size, device, stream, memory_free, said.get()); });
        sweep();
    }
    void annotate(const void *ptr, const std::string &users)
    {
        change([&] { ledger.annotate(ptr, { nullptr, "", users }); });
        sweep();
    }
    void annotate(Device device, const std::vector<std::pair<std::string, std::string>> &words)
    {
        change([&] { ledger.annotate(device, words); });
    }
    Stack stack_at(const void *ptr)
    {
        std::lock_guard<std::mutex> guard(lock);
        return ledger.stack_at(ptr);
    }

    void begin(Watch watch, Blocks &blocks, caching::CreateContextFn create, size_t entries, caching::RecordContext when, bool clears,
               const std::vector<std::string> &left_out)
    {
        TORCH_CHECK(when == caching::RecordContext::NEVER || create, "weir: stacks are to be recorded, and no function gathers them");
        std::lock_guard<std::mutex> turn(beginning);
        {
            std::lock_guard<std::mutex> guard(lock);
            creates = create;
            level = when;
            ledger.limit = entries;
            ledger.skipped = Ledger::mask_of(left_out);
            ledger.keeps_stacks = when != caching::RecordContext::STATE;
            ledger.cut(clears);
        }
        start(watch, blocks);
        sweep();
    }
    void end(Watch watch)
    {
        std::lock_guard<std::mutex> turn(beginning);
        stop(watch);
    }

    /* Of all segments, or of a pool's, and the events, if they are wanted, of so many devices. */
    caching::SnapshotInfo snapshot(Watch watch, Blocks &blocks, PoolId id, bool with_traces, int devices)
    {
        caching::SnapshotInfo info{};
        uint64_t missing = 0;
        {
            std::lock_guard<std::mutex> turn(beginning);
            bool was_on = is_on();
            if (!was_on)
                start(watch, blocks);
            try {
                std::lock_guard<std::mutex> guard(lock);
                ledger.copy_segments(info, id);
                if (with_traces)
                    ledger.copy_traces(info, devices);
                std::swap(missing, ledger.lost);
            } catch (...) {
                if (!was_on)
                    stop(watch);
                throw;
            }
            if (!was_on)
                stop(watch);
        }
        sweep();
        if (missing)
            TORCH_WARN("weir: ", missing, " events of the memory history are missing: there was no host memory for them");
        return info;
    }

private:
    C10_NOINLINE Gathered gather_now(caching::RecordContext least)
    {
        const Words *own = own_words;
        caching::CreateContextFn create = creates.load();
        bool has_stack = level.load() >= least && level.load() != caching::RecordContext::NEVER && create;
        if (!has_stack && (!own || (own->compiled.empty() && own->users.empty())))
            return nullptr;
        Gathered all(new Said());
        if (has_stack)
            all->stack = create();
        if (own && !own->compiled.empty())
            all->compiled = own->compiled.back();
        if (own)
            all->users = own->users;
        return all;
    }

    /* What cannot be kept for want of host memory is as if it had not been told, and is counted. */
    template <typename Change> void change(Change make)
    {
        std::lock_guard<std::mutex> guard(lock);
        try {
            if (is_on())
                make();
        } catch (const std::bad_alloc &) {
            ledger.lost++;
        }
    }

    /* Destroys what nobody keeps any more. No lock is held but those of torch's caller. */
    void sweep()
    {
        std::vector<Stack> gone;
        std::lock_guard<std::mutex> guard(lock);
        gone.swap(ledger.dropped);
    }

    /* Begin and end, with `beginning` */

    /* The one that there is. */
    static History *&listening()
    {
        static History *one;
        return one;
    }

    /* A thread that inserts or takes a block tells of it as soon as `on` is set. So nothing was recorded yet of what is told of here, which was
       there before. */
    void start(Watch watch, Blocks &blocks)
    {
        weir_error error = WEIR_ERROR_INIT;
        if (on.exchange(true))
            return;
        auto hear = [](const weir_torch_news *news) { listening()->change([&] { listening()->ledger.use(*news); }); };
        if (watch(hear, &error) != WEIR_OK) {
            on = false;
            TORCH_CHECK(false, "weir: ", error.text);
        }
        blocks.each([&](const Block &block) { change([&] { ledger.allocated(block, nullptr, true); }); });
    }
    void stop(Watch watch)
    {
        weir_error error = WEIR_ERROR_INIT;
        Ledger former;
        {
            std::lock_guard<std::mutex> guard(lock);
            on = false;
            level = caching::RecordContext::NEVER;
            std::swap(former, ledger);
        }
        TORCH_CHECK(watch(nullptr, &error) == WEIR_OK, "weir: ", error.text);
    }

    inline static thread_local Words *own_words = nullptr; /* NULL: the thread has said nothing */
    std::atomic<bool> on{ false };
    std::atomic<caching::CreateContextFn> creates{ nullptr };
    std::atomic<caching::RecordContext> level{ caching::RecordContext::NEVER };
    std::mutex beginning;
    std::mutex lock;
    Ledger ledger; /* guarded by lock */
};

} // namespace weir_shim

#endif
