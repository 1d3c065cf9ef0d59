/* SPDX-License-Identifier: MIT */
/*
 * shim_history.h - torch's memory history and snapshots: what torch gathers, given to libweir-torch with each call, and what that recorded,
 * in torch's types. C++, for shim.cpp alone.
 *
 * Segments, blocks and events are libweir-torch's (weir_torch.h). Here is what it cannot know: stacks, words of torch's users,
 * annotations. Stacks are gathered before any lock is taken, since that takes the GIL, and dropped with none held. `lock` is that of
 * beginning, ending and snapshots of what is not recorded; Blocks' and libweir-torch's are taken under it. `annotations_lock` is a leaf.
 *
 * What some versions of torch lack is found when this is compiled: functions that take an `int` are chosen where they compile, and their
 * namesakes with a `long` elsewhere.
 */
#ifndef WEIR_TORCH_SHIM_HISTORY_H
#define WEIR_TORCH_SHIM_HISTORY_H

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>

#include "shim_blocks.h"
#include "shim_library.h"

namespace weir_shim {

namespace caching = c10::cuda::CUDACachingAllocator;

/* What goes with a block or event. weir_torch_context is its first member. */
struct Held : weir_torch_context {
    std::shared_ptr<c10::GatheredContext> stack;
    std::string compiled, users;
};

/* Members that not all versions have --------------------------------------------------------------------------------------------------- */

template <typename Entry>
auto set_words(Entry &entry, const std::string &compiled, int) -> decltype(entry.compile_context_ = compiled, void())
{
    entry.compile_context_ = compiled;
}
template <typename Entry> void set_words(Entry &, const std::string &, long) {}

template <typename Entry>
auto set_metadata(Entry &entry, const std::string &words, int) -> decltype(entry.user_metadata_ = words, void())
{
    entry.user_metadata_ = words;
}
template <typename Entry> void set_metadata(Entry &, const std::string &, long) {}

/* false: this torch has no such action. */
template <typename Entry> auto annotate_action(typename Entry::Action &action, int) -> decltype(Entry::ANNOTATE, bool())
{
    action = Entry::ANNOTATE;
    return true;
}
template <typename Entry> bool annotate_action(typename Entry::Action &, long)
{
    return false;
}

template <typename Entry> bool action_of(int recorded, typename Entry::Action &action)
{
    switch (recorded) {
    case WEIR_TORCH_ALLOC: action = Entry::ALLOC; return true;
    case WEIR_TORCH_FREE_REQUESTED: action = Entry::FREE_REQUESTED; return true;
    case WEIR_TORCH_FREE_COMPLETED: action = Entry::FREE_COMPLETED; return true;
    case WEIR_TORCH_SEGMENT_ALLOC: action = Entry::SEGMENT_ALLOC; return true;
    case WEIR_TORCH_SEGMENT_FREE: action = Entry::SEGMENT_FREE; return true;
    case WEIR_TORCH_SNAPSHOT: action = Entry::SNAPSHOT; return true;
    case WEIR_TORCH_OOM: action = Entry::OOM; return true;
    case WEIR_TORCH_ANNOTATE: return annotate_action<Entry>(action, 0);
    default: return false;
    }
}

/* Since 2.6 an entry has a pool. */
template <typename Entry>
Entry entry_of(typename Entry::Action action, const weir_torch_event &event, const std::shared_ptr<c10::GatheredContext> &stack)
{
    using Pool = c10::cuda::MempoolId_t;
    auto device = static_cast<Device>(event.device);
    c10::approx_time_t none{};
    if constexpr (std::is_constructible_v<Entry, typename Entry::Action, Device, size_t, size_t, cudaStream_t, Pool, c10::approx_time_t,
                                          std::shared_ptr<c10::GatheredContext>>)
        return Entry(action, device, event.address, event.size, event.stream, Pool{ event.pool.first, event.pool.second }, none, stack);
    else
        return Entry(action, device, event.address, event.size, event.stream, none, stack);
}

struct Annotation {
    Device device;
    time_t time; /* microseconds since 1970 */
    std::vector<std::pair<std::string, std::string>> words;
};

template <typename Info>
auto set_annotations(Info &info, const std::deque<Annotation> &all, int) -> decltype(info.external_annotations, void())
{
    for (const Annotation &one : all) {
        typename decltype(info.external_annotations)::value_type entry(one.device, c10::approx_time_t{});
        entry.time_.t_ = one.time;
        for (const auto &word : one.words)
            entry.recordUserMetadata(word.first, word.second);
        info.external_annotations.push_back(entry);
    }
}
template <typename Info> void set_annotations(Info &, const std::deque<Annotation> &, long) {}

/* The recording ------------------------------------------------------------------------------------------------------------------------ */

class History {
public:
    /* Each thread's: what torch compiles, and what its user says of what is allocated. */
    struct Words {
        std::vector<std::string> compiled;
        std::string users;
    };
    static Words &words()
    {
        static thread_local Words own;
        return own;
    }

    struct Free {
        void operator()(weir_torch_context *context) const { delete static_cast<Held *>(context); }
    };
    using Gathered = std::unique_ptr<weir_torch_context, Free>;

    bool is_on() const { return on.load(std::memory_order_acquire); }

    /* Before any lock, as this may take the GIL. nullptr: nothing is to be kept. */
    Gathered gather(caching::RecordContext least)
    {
        return C10_UNLIKELY(is_on()) ? gather_now(least) : nullptr;
    }

    void insert(const Library &library, Blocks &blocks, const Block &block, Gathered &context)
    {
        blocks.insert(block, [&] {
            if (C10_UNLIKELY(is_on()))
                library.history_alloc(block.ptr, block.size, block.device, block.stream, context.release());
        });
        if (C10_UNLIKELY(is_on()))
            sweep(library);
    }
    /* is_told: freed() has to follow, behind the free. */
    bool take(const Library &library, Blocks &blocks, void *ptr, Block &block, bool &is_told)
    {
        Gathered context = gather(caching::RecordContext::ALL);
        return blocks.take(ptr, block, [&] {
            is_told = is_on();
            if (C10_UNLIKELY(is_told))
                library.history_free_requested(ptr, context.release());
        });
    }
    void freed(const Library &library, void *ptr)
    {
        library.history_free_returned(ptr);
        sweep(library);
    }
    void out_of_memory(const Library &library, size_t size, Device device, cudaStream_t stream, uint64_t memory_free, Gathered &context)
    {
        if (!is_on())
            return;
        library.history_oom(size, device, stream, memory_free, context.release());
        sweep(library);
    }
    void annotate(const Library &library, const void *ptr, const std::string &said)
    {
        std::unique_ptr<Held> held(new Held());
        held->users = said;
        library.history_annotate(ptr, held.release());
        sweep(library);
    }
    void annotate(Device device, const std::vector<std::pair<std::string, std::string>> &said)
    {
        Annotation annotation{ device, microseconds(), said };
        std::lock_guard<std::mutex> guard(annotations_lock);
        if (annotations.size() >= limit.load(std::memory_order_relaxed) && !annotations.empty())
            annotations.pop_front();
        if (limit.load(std::memory_order_relaxed))
            annotations.push_back(std::move(annotation));
    }
    std::shared_ptr<c10::GatheredContext> context_of(const Library &library, const void *ptr)
    {
        weir_torch_context *context = is_on() ? library.history_context(ptr) : nullptr;
        if (!context)
            return nullptr;
        std::shared_ptr<c10::GatheredContext> stack = static_cast<Held *>(context)->stack;
        library.history_release(context);
        sweep(library);
        return stack;
    }

    void begin(const Library &library, Blocks &blocks, caching::CreateContextFn create, size_t entries, caching::RecordContext when,
               bool clears, const std::vector<std::string> &skipped)
    {
        TORCH_CHECK(when == caching::RecordContext::NEVER || create, "weir: stacks are to be recorded, and no function gathers them");
        weir_torch_history wanted = {};
        wanted.size = sizeof wanted;
        wanted.entries = entries;
        wanted.skipped = mask_of(skipped);
        wanted.keeps_contexts = when != caching::RecordContext::STATE;
        wanted.clears = clears;
        std::lock_guard<std::mutex> guard(lock);
        creates = create;
        level = when;
        limit = entries;
        start(library, blocks, wanted);
        if (clears)
            clear_annotations();
    }
    void end(const Library &library)
    {
        {
            std::lock_guard<std::mutex> guard(lock);
            on = false;
            level = caching::RecordContext::NEVER;
            library.history_end();
            clear_annotations();
        }
        sweep(library);
    }

    caching::SnapshotInfo snapshot(const Library &library, Blocks &blocks, c10::cuda::MempoolId_t id, bool with_traces, int devices)
    {
        caching::SnapshotInfo info{};
        {
            std::unique_ptr<weir_torch_snapshot, decltype(library.history_free)> taken(nullptr, library.history_free);
            taken.reset(copy(library, blocks, with_traces));
            for (size_t i = 0; i < taken->segment_count; i++)
                if ((!id.first && !id.second) || is_same(taken->segments[i].pool, id))
                    info.segments.push_back(segment_of(taken->segments[i], *taken));
            info.device_traces.resize(static_cast<size_t>(with_traces ? devices : 0));
            for (size_t i = 0; i < taken->event_count; i++)
                add_event(info, taken->events[i]);
        }
        sweep(library);
        std::deque<Annotation> all;
        {
            std::lock_guard<std::mutex> guard(annotations_lock);
            all = annotations;
        }
        if (with_traces)
            set_annotations(info, all, 0);
        return info;
    }

private:
    static time_t microseconds()
    {
        using namespace std::chrono;
        return static_cast<time_t>(duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count());
    }

    static bool is_same(const weir_torch_pool_id &a, const c10::cuda::MempoolId_t &b) { return a.first == b.first && a.second == b.second; }

    C10_NOINLINE Gathered gather_now(caching::RecordContext least)
    {
        const Words &own = words();
        caching::CreateContextFn create = creates.load();
        bool has_stack = level.load() >= least && level.load() != caching::RecordContext::NEVER && create;
        if (!has_stack && own.compiled.empty() && own.users.empty())
            return nullptr;
        std::unique_ptr<Held> held(new Held());
        if (has_stack)
            held->stack = create();
        if (!own.compiled.empty())
            held->compiled = own.compiled.back();
        held->users = own.users;
        return Gathered(held.release());
    }

    /* Drops what nobody keeps any more. No lock is held but those of torch's caller. */
    static void sweep(const Library &library)
    {
        weir_torch_context *context = library.history_sweep();
        while (C10_UNLIKELY(context != nullptr)) {
            weir_torch_context *next = context->next;
            Free()(context);
            context = next;
        }
    }

    static unsigned mask_of(const std::vector<std::string> &skipped)
    {
        static const char *const names[] = { "alloc",        "free_requested", "free_completed", "segment_alloc",
                                             "segment_free", "snapshot",       "oom",            "annotate" };
        unsigned mask = 0;
        for (const std::string &name : skipped)
            for (unsigned action = 0; action < WEIR_TORCH_ACTION_COUNT; action++)
                if (name == names[action])
                    mask |= 1u << action;
        return mask;
    }

    /* Called with the lock. Who inserts or takes a block tells of it before anything is recorded, so that of what is told of here, which
       was there before, nothing was recorded yet. */
    void start(const Library &library, Blocks &blocks, const weir_torch_history &wanted)
    {
        weir_error error = WEIR_ERROR_INIT;
        bool was_on = on.exchange(true);
        weir_status status = library.history_begin(&wanted, &error);
        if (status != WEIR_OK)
            on = was_on;
        TORCH_CHECK(status == WEIR_OK, "weir: ", error.text);
        if (!was_on)
            blocks.each([&](const Block &block) { library.history_known(block.ptr, block.size, block.device, block.stream); });
    }

    void clear_annotations()
    {
        std::lock_guard<std::mutex> guard(annotations_lock);
        annotations.clear();
    }

    weir_torch_snapshot *copy(const Library &library, Blocks &blocks, bool with_traces)
    {
        std::lock_guard<std::mutex> guard(lock);
        weir_error error = WEIR_ERROR_INIT;
        weir_torch_snapshot *taken = nullptr;
        bool was_on = is_on();
        if (!was_on) {
            weir_torch_history wanted = {};
            wanted.size = sizeof wanted;
            start(library, blocks, wanted);
        }
        weir_status status = library.history_take(with_traces, &error, &taken);
        if (!was_on) {
            on = false;
            library.history_end();
        }
        TORCH_CHECK(status == WEIR_OK, "weir: ", error.text);
        return taken;
    }

    static std::shared_ptr<c10::GatheredContext> stack_of(const weir_torch_context *context)
    {
        return context ? static_cast<const Held *>(context)->stack : nullptr;
    }

    static caching::SegmentInfo segment_of(const weir_torch_segment &segment, const weir_torch_snapshot &taken)
    {
        caching::SegmentInfo info{};
        info.device = static_cast<Device>(segment.device);
        info.address = segment.address;
        info.total_size = segment.size;
        info.stream = segment.stream;
        info.is_large = true;
        info.owner_private_pool_id = { segment.pool.first, segment.pool.second };
        info.context_when_allocated = stack_of(segment.context);
        for (size_t i = 0; i < segment.part_count; i++) {
            const weir_torch_part &part = taken.parts[segment.first_part + i];
            caching::BlockInfo block{};
            block.size = part.size;
            block.requested_size = part.asked;
            block.allocated = part.is_allocated;
            block.active = part.is_active;
            block.context_when_allocated = stack_of(part.context);
            info.requested_size += part.is_active ? part.asked : 0;
            info.allocated_size += part.is_allocated ? part.size : 0;
            info.active_size += part.is_active ? part.size : 0;
            info.blocks.push_back(std::move(block));
        }
        return info;
    }

    static void add_event(caching::SnapshotInfo &info, const weir_torch_event &event)
    {
        using Entry = caching::TraceEntry;
        typename Entry::Action action{};
        if (static_cast<size_t>(event.device) >= info.device_traces.size() || !action_of<Entry>(event.action, action))
            return;
        const Held *held = static_cast<const Held *>(event.context);
        Entry entry = entry_of<Entry>(action, event, stack_of(event.context));
        entry.time_.t_ = static_cast<time_t>(event.time);
        std::string said = held ? held->users : std::string();
        /* The viewer knows streams of segments alone. */
        if (event.block_stream != event.stream)
            said += (said.empty() ? "stream " : "; stream ") + std::to_string(reinterpret_cast<uintptr_t>(event.block_stream));
        set_words(entry, held && !held->compiled.empty() ? held->compiled : std::string("N/A"), 0);
        set_metadata(entry, said, 0);
        info.device_traces[static_cast<size_t>(event.device)].push_back(std::move(entry));
    }

    std::atomic<bool> on{ false };
    std::atomic<caching::CreateContextFn> creates{ nullptr };
    std::atomic<caching::RecordContext> level{ caching::RecordContext::NEVER };
    std::atomic<size_t> limit{ 0 }; /* of annotations, as of events */
    std::mutex lock;
    std::mutex annotations_lock;
    std::deque<Annotation> annotations;
};

} // namespace weir_shim

#endif
