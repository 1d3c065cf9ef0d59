/* SPDX-License-Identifier: MIT */
/*
 * shim_ledger.h - segments, torch's blocks in them, and what became of both, in torch's types: what its memory snapshots show. C++, for
 * shim_history.h, whose lock guards all of it.
 *
 * A segment of Weir's is shown from its first block of torch's on, or if it is known to be torch's: before, it may be memory of another
 * library in the process. At each event all blocks lie in segments; the segments of a snapshot are those of the first event's time, and
 * what came since, less what went; the same holds of blocks.
 *
 * Weir's recorder keeps none of this. torch takes stacks only as objects that its own function gathers, wants the last events of a device
 * in order, as many as `max_entries` says (without end, where nobody says), and has blocks that the recorder does not know: parts of the
 * memory of graphs, and what is freed and waits.
 *
 * What some versions of torch lack is found when this is compiled: functions that take an `int` are chosen where they compile, and their
 * namesakes with a `long` elsewhere.
 */
#ifndef WEIR_TORCH_SHIM_LEDGER_H
#define WEIR_TORCH_SHIM_LEDGER_H

#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>

#include "shim_blocks.h"
#include "weir_torch.h"

namespace weir_shim {

namespace caching = c10::cuda::CUDACachingAllocator;
using Stack = std::shared_ptr<c10::GatheredContext>;
using PoolId = c10::cuda::MempoolId_t;

/* Members that not all versions have --------------------------------------------------------------------------------------------------- */

template <typename Entry>
auto set_words(Entry &entry, const std::string &compiled, int) -> decltype(entry.compile_context_ = compiled, void())
{
    entry.compile_context_ = compiled;
}
template <typename Entry> void set_words(Entry &, const std::string &, long) {}

template <typename Entry>
auto set_metadata(Entry &entry, std::string &words, int) -> decltype(entry.user_metadata_ = words, void())
{
    entry.user_metadata_ = std::move(words);
}
template <typename Entry> void set_metadata(Entry &, std::string &, long) {}

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

/* Since 2.6 an entry has a pool. */
template <typename Entry>
Entry entry_of(typename Entry::Action action, Device device, size_t address, size_t size, cudaStream_t stream, PoolId pool, Stack stack)
{
    c10::approx_time_t none{};
    if constexpr (std::is_constructible_v<Entry, typename Entry::Action, Device, size_t, size_t, cudaStream_t, PoolId, c10::approx_time_t,
                                          Stack>)
        return Entry(action, device, address, size, stream, pool, none, std::move(stack));
    else
        return Entry(action, device, address, size, stream, none, std::move(stack));
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

/* The ledger --------------------------------------------------------------------------------------------------------------------------- */

using Entry = caching::TraceEntry;

/* What goes with an event. */
struct Said {
    Stack stack;
    std::string compiled, users;
};

class Ledger {
public:
    size_t limit = 0;           /* of events of each device, and of annotations */
    unsigned skipped = 0;       /* 1 << action, of those that are no events */
    bool keeps_stacks = false;  /* with events and segments too, and not only with live blocks */
    uint64_t lost = 0;          /* events that there was no host memory for */
    std::vector<Stack> dropped; /* that nobody keeps, to be destroyed without the lock */

    /* What is recorded already is cut to the limit, or cleared. */
    void cut(bool clears)
    {
        for (auto &[device, trace] : traces)
            while (trace.size() > (clears ? 0 : limit))
                drop_first(trace);
        while (annotations.size() > (clears ? 0 : limit))
            annotations.pop_front();
    }

    /* is_known: from before anybody listened, without an event, if its segment is as well. */
    void allocated(const Block &block, const Said *said, bool is_known)
    {
        if (is_known && pieces.count(address_of(block.ptr)))
            return;
        Piece *piece = add_piece(block.ptr, block.size, block.stream, false);
        if (!piece)
            return;
        Segment &segment = *piece->segment;
        bool is_new = !segment.is_shown;
        show(segment, block.stream);
        if (said)
            piece->stack = said->stack;
        /* A segment outlives its block: where only live memory is to have stacks, one that is free has none. */
        if (said && is_new && keeps_stacks)
            segment.stack = said->stack;
        if (is_known && segment.is_old)
            return;
        if (is_new)
            tell(Entry::SEGMENT_ALLOC, segment, said);
        tell(Entry::ALLOC, *piece, said);
    }

    /* torch frees the block; the free is complete, unless it waits. */
    void requested(const void *ptr, const Said *said)
    {
        Piece *piece = piece_at(ptr);
        if (!piece || piece->is_freed)
            return;
        piece->is_freed = true;
        tell(Entry::FREE_REQUESTED, *piece, said);
    }
    void complete(const void *ptr)
    {
        Piece *piece = piece_at(ptr);
        if (piece && piece->is_freed && !piece->waits)
            end_pieces(piece->base, 1);
    }

    void out_of_memory(size_t size, Device device, cudaStream_t stream, size_t memory_free, const Said *said)
    {
        tell(Entry::OOM, nowhere(device, stream), memory_free, size, stream, said);
    }

    /* Something is said of a live block, or of what the program does. */
    void annotate(const void *ptr, const Said &said)
    {
        Piece *piece = piece_at(ptr);
        Entry::Action action{};
        if (piece && !piece->is_freed && annotate_action<Entry>(action, 0))
            tell(action, *piece, &said);
    }
    void annotate(Device device, const std::vector<std::pair<std::string, std::string>> &words)
    {
        annotations.push_back({ device, microseconds(), words });
        if (annotations.size() > limit)
            annotations.pop_front();
    }

    /* Of the live block in which ptr lies. */
    Stack stack_at(const void *ptr)
    {
        auto found = find(pieces, address_of(ptr), 1);
        return found != pieces.end() && !found->second.is_freed ? found->second.stack : nullptr;
    }

    /* What libweir-torch tells. */
    void use(const weir_torch_news &news)
    {
        auto found = segments.find(address_of(news.ptr));
        Segment *segment = found != segments.end() ? &found->second : nullptr;
        switch (news.what) {
        case WEIR_TORCH_DEVICE: traces[static_cast<Device>(news.device)]; break;
        case WEIR_TORCH_SEGMENT_WAS: add_segment(news, true); break;
        case WEIR_TORCH_SEGMENT_USED:
            if (segment && segment->is_old)
                show(*segment, news.stream);
            break;
        case WEIR_TORCH_SEGMENT_POOL:
            if (segment)
                segment->pool = { news.pool.first, news.pool.second };
            break;
        case WEIR_TORCH_SEGMENT_CAME: add_segment(news, false); break;
        case WEIR_TORCH_SEGMENT_WENT:
            last_gone().base = 0;
            if (segment && segment->is_shown)
                last_gone() = { segment->base, segment->stream, segment->pool };
            if (segment)
                end_segment(found);
            break;
        case WEIR_TORCH_SEGMENT_BACK: back(news); break;
        case WEIR_TORCH_FREE_WAITED:
            if (!piece_at(news.ptr))
                if (Piece *piece = add_piece(news.ptr, news.size, news.stream, true)) {
                    show(*piece->segment, news.stream);
                    piece->is_freed = piece->waits = true;
                }
            break;
        case WEIR_TORCH_FREE_WAITS:
        case WEIR_TORCH_FREE_GOES_ON:
            if (Piece *piece = piece_at(news.ptr))
                piece->waits = piece->is_freed && news.what == WEIR_TORCH_FREE_WAITS;
            break;
        case WEIR_TORCH_FREE_DONE: complete(news.ptr); break;
        }
    }

    void copy_segments(caching::SnapshotInfo &info, PoolId id)
    {
        for (const auto &[base, segment] : segments)
            if (segment.is_shown && (id == PoolId{} || segment.pool == id))
                info.segments.push_back(info_of(segment));
    }

    /* The snapshot is an event itself, of the bytes in blocks, behind those that it has. */
    void copy_traces(caching::SnapshotInfo &info, int devices)
    {
        std::vector<size_t> active(static_cast<size_t>(devices));
        info.device_traces.resize(active.size());
        for (const auto &[base, piece] : pieces)
            if (piece.segment->device < devices)
                active[static_cast<size_t>(piece.segment->device)] += piece.asked;
        for (const auto &[device, trace] : traces) {
            auto place = static_cast<size_t>(device);
            if (device >= devices)
                continue;
            info.device_traces[place].assign(trace.begin(), trace.end());
            tell(Entry::SNAPSHOT, nowhere(device, nullptr), 0, active[place], nullptr, nullptr);
        }
        set_annotations(info, annotations, 0);
    }

    /* Of names of actions. Others are not known. */
    static unsigned mask_of(const std::vector<std::string> &left_out)
    {
        unsigned mask = 0;
        Entry::Action action{};
        for (const std::string &name : left_out) {
            for (auto [known, number] : { std::pair("alloc", Entry::ALLOC), std::pair("free_requested", Entry::FREE_REQUESTED),
                                          std::pair("free_completed", Entry::FREE_COMPLETED), std::pair("segment_alloc", Entry::SEGMENT_ALLOC),
                                          std::pair("segment_free", Entry::SEGMENT_FREE), std::pair("snapshot", Entry::SNAPSHOT),
                                          std::pair("oom", Entry::OOM) })
                mask |= name == known ? 1u << number : 0;
            if (name == "annotate" && annotate_action<Entry>(action, 0))
                mask |= 1u << action;
        }
        return mask;
    }

private:
    struct Segment {
        uintptr_t base;
        size_t size;
        Device device;
        bool is_old; /* from before anybody listened */
        bool is_shown;
        cudaStream_t stream; /* of the first block */
        PoolId pool;
        Stack stack;
    };
    /* A block, until its free is complete. */
    struct Piece {
        uintptr_t base;
        size_t size; /* as much of the segment as is nobody else's */
        size_t asked;
        Segment *segment;
        cudaStream_t stream;
        bool is_freed, waits;
        Stack stack;
    };
    /* By address; none overlap. */
    template <typename Kind> using Map = std::map<uintptr_t, Kind>;

    static uintptr_t address_of(const void *ptr) { return reinterpret_cast<uintptr_t>(ptr); }
    static time_t microseconds()
    {
        using namespace std::chrono;
        return static_cast<time_t>(duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count());
    }

    /* The last one that has some of these bytes. */
    template <typename Kind> static typename Map<Kind>::iterator find(Map<Kind> &map, uintptr_t base, size_t size)
    {
        auto behind = map.lower_bound(base + size);
        if (behind == map.begin())
            return map.end();
        auto found = std::prev(behind);
        return found->first + found->second.size > base ? found : map.end();
    }

    void drop(Stack &stack)
    {
        try {
            if (stack)
                dropped.push_back(std::move(stack));
        } catch (const std::bad_alloc &) {
            stack = nullptr; /* rather now than never */
        }
    }

    /* Events */

    void drop_first(std::deque<Entry> &trace)
    {
        drop(trace.front().context_);
        trace.pop_front();
    }

    void tell(Entry::Action action, const Segment &segment, uintptr_t address, size_t size, cudaStream_t stream, const Said *said)
    {
        if (!limit || skipped >> action & 1)
            return;
        std::deque<Entry> &trace = traces[segment.device];
        while (trace.size() >= limit)
            drop_first(trace);
        try {
            trace.push_back(made(action, segment, address, size, stream, said));
        } catch (const std::bad_alloc &) {
            /* What is before a gap does not lead to what is behind it. */
            lost += trace.size() + 1;
            while (!trace.empty())
                drop_first(trace);
        }
    }
    Entry made(Entry::Action action, const Segment &segment, uintptr_t address, size_t size, cudaStream_t stream, const Said *said)
    {
        Entry entry = entry_of<Entry>(action, segment.device, address, size, segment.stream, segment.pool,
                                      said && keeps_stacks ? said->stack : nullptr);
        entry.time_.t_ = microseconds();
        std::string users = said ? said->users : std::string();
        /* The viewer knows streams of segments alone. */
        if (stream != segment.stream)
            users += (users.empty() ? "stream " : "; stream ") + std::to_string(address_of(stream));
        set_words(entry, said && !said->compiled.empty() ? said->compiled : std::string("N/A"), 0);
        set_metadata(entry, users, 0);
        return entry;
    }
    void tell(Entry::Action action, const Segment &segment, const Said *said)
    {
        tell(action, segment, segment.base, segment.size, segment.stream, said);
    }
    void tell(Entry::Action action, const Piece &piece, const Said *said)
    {
        tell(action, *piece.segment, piece.base, piece.asked, piece.stream, said);
    }
    /* Of events that are none of a segment. */
    static Segment nowhere(Device device, cudaStream_t stream) { return { 0, 0, device, false, false, stream, {}, nullptr }; }

    /* Blocks */

    void end_pieces(uintptr_t base, size_t size)
    {
        for (auto found = find(pieces, base, size); found != pieces.end(); found = find(pieces, base, size)) {
            Piece piece = std::move(found->second);
            pieces.erase(found);
            drop(piece.stack);
            if (!piece.is_freed)
                tell(Entry::FREE_REQUESTED, piece, nullptr);
            tell(Entry::FREE_COMPLETED, piece, nullptr);
        }
    }

    /* nullptr: it lies in no segment. What was there has ended. A block has all of its segment, or of a chunk, which has an id, a step and
       more. */
    Piece *add_piece(const void *ptr, size_t asked, cudaStream_t stream, bool needs_old)
    {
        constexpr size_t STEP = 512;
        uintptr_t base = address_of(ptr);
        auto found = find(segments, base, 1);
        if (found == segments.end() || !asked || (needs_old && !found->second.is_old))
            return nullptr;
        Segment &segment = found->second;
        size_t room = segment.base + segment.size - base, steps = (asked + STEP - 1) / STEP * STEP;
        bool has_all = base == segment.base && segment.pool == PoolId{};
        size_t size = has_all || steps > room ? room : steps;
        end_pieces(base, size);
        return &pieces.emplace(base, Piece{ base, size, asked, &segment, stream, false, false, nullptr }).first->second;
    }

    Piece *piece_at(const void *ptr)
    {
        auto found = pieces.find(address_of(ptr));
        return found != pieces.end() ? &found->second : nullptr;
    }

    static void show(Segment &segment, cudaStream_t stream)
    {
        if (!segment.is_shown)
            segment.stream = stream;
        segment.is_shown = true;
    }

    /* Segments */

    void end_segment(Map<Segment>::iterator found)
    {
        Segment &segment = found->second;
        end_pieces(segment.base, segment.size);
        drop(segment.stack);
        if (segment.is_shown)
            tell(Entry::SEGMENT_FREE, segment, nullptr);
        segments.erase(found);
    }

    /* What was there is gone. is_old: nothing is done if it came since. */
    Segment *add_segment(const weir_torch_news &news, bool is_old)
    {
        uintptr_t base = address_of(news.ptr);
        if (!news.size || (is_old && segments.count(base)))
            return nullptr;
        for (auto found = find(segments, base, news.size); found != segments.end(); found = find(segments, base, news.size))
            end_segment(found);
        Segment segment{ base, news.size, static_cast<Device>(news.device), is_old, false, nullptr, {}, nullptr };
        return &segments.emplace(base, std::move(segment)).first->second;
    }

    /* The segment that the thread's free has just taken away, should CUDA refuse it, or the block become an orphan, which is not free. */
    struct Gone {
        uintptr_t base; /* 0: none, or none that was shown */
        cudaStream_t stream;
        PoolId pool;
    };
    static Gone &last_gone()
    {
        static thread_local Gone own{ 0, nullptr, {} };
        return own;
    }
    void back(const weir_torch_news &news)
    {
        const Gone &gone = last_gone();
        Segment *segment = add_segment(news, false);
        if (!segment || gone.base != segment->base)
            return;
        show(*segment, gone.stream);
        segment->pool = gone.pool;
        std::deque<Entry> &trace = traces[segment->device];
        if (!trace.empty() && trace.back().action_ == Entry::SEGMENT_FREE && trace.back().addr_ == segment->base)
            trace.pop_back();
        else
            tell(Entry::SEGMENT_ALLOC, *segment, nullptr);
    }

    /* Snapshots */

    caching::SegmentInfo info_of(const Segment &segment)
    {
        caching::SegmentInfo info{};
        info.device = segment.device;
        info.address = segment.base;
        info.total_size = segment.size;
        info.stream = segment.stream;
        info.is_large = true;
        info.owner_private_pool_id = segment.pool;
        info.context_when_allocated = segment.stack;
        uintptr_t at = segment.base, end = segment.base + segment.size;
        auto add = [&](uintptr_t to, const Piece *piece) {
            caching::BlockInfo block{};
            block.size = to - at;
            at = to;
            if (piece) {
                block.requested_size = piece->asked;
                block.allocated = !piece->is_freed;
                block.active = true;
                block.context_when_allocated = piece->stack;
                info.requested_size += piece->asked;
                info.allocated_size += block.allocated ? block.size : 0;
                info.active_size += block.size;
            }
            if (block.size)
                info.blocks.push_back(std::move(block));
        };
        for (auto next = pieces.lower_bound(at); next != pieces.end() && next->first < end; ++next) {
            add(next->first, nullptr);
            add(next->first + next->second.size, &next->second);
        }
        add(end, nullptr);
        return info;
    }

    Map<Segment> segments;
    Map<Piece> pieces;
    std::map<Device, std::deque<Entry>> traces; /* of each device in use */
    std::deque<Annotation> annotations;
};

} // namespace weir_shim

#endif
