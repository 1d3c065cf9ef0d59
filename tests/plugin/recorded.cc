/* SPDX-License-Identifier: MIT */
#include "tests/plugin/recorded.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "plugin/python/weir/torch/shim_history.h"

using weir_shim::Block;
using weir_shim::Blocks;
using weir_shim::History;
namespace caching = c10::cuda::CUDACachingAllocator;

static Blocks blocks;
static History history;
static std::atomic<size_t> stacks, warnings;

struct Counted : c10::GatheredContext {
    Counted() { stacks++; }
    ~Counted() override { stacks--; }
};

static std::shared_ptr<c10::GatheredContext> gather()
{
    return std::make_shared<Counted>();
}

void c10::warn(const std::string &)
{
    warnings++;
}

bool recorded_begin(size_t entries, enum recorded_level level, bool clears, const char *left_out)
{
    std::vector<std::string> names;
    std::istringstream words(left_out ? left_out : "");
    for (std::string name; words >> name;)
        names.push_back(name);
    try {
        history.begin(weir_torch_watch, blocks, gather, entries, static_cast<caching::RecordContext>(level), clears, names);
        return true;
    } catch (const std::exception &) {
        return false;
    }
}

void recorded_end(void)
{
    history.end(weir_torch_watch);
}

bool recorded_is_on(void)
{
    return history.is_on();
}

bool recorded_insert(void *ptr, size_t size, int device, weir_cuda_stream stream)
{
    try {
        History::Gathered said = history.gather(caching::RecordContext::STATE);
        history.insert(blocks, { ptr, size, stream, static_cast<weir_shim::Device>(device) }, said);
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

bool recorded_take(void *ptr)
{
    Block block;
    bool is_told = false;
    return history.take(blocks, ptr, block, is_told) && is_told;
}

void recorded_freed(void *ptr)
{
    history.freed(ptr);
}

void recorded_oom(size_t size, int device, weir_cuda_stream stream, uint64_t memory_free)
{
    History::Gathered said = history.gather(caching::RecordContext::STATE);
    history.out_of_memory(size, static_cast<weir_shim::Device>(device), stream, memory_free, said);
}

void recorded_annotate(const void *ptr, const char *words)
{
    history.annotate(ptr, words);
}

static void add_segment(struct recorded *recorded, const caching::SegmentInfo &info)
{
    recorded->segments[recorded->segment_count++] = { info.device,
                                                      info.address,
                                                      info.total_size,
                                                      info.stream,
                                                      info.owner_private_pool_id.first,
                                                      recorded->part_count,
                                                      info.blocks.size(),
                                                      info.context_when_allocated.get() };
    uint64_t at = info.address;
    for (const caching::BlockInfo &block : info.blocks) {
        recorded->parts[recorded->part_count++] = { at,           block.size,   block.requested_size, block.allocated,
                                                    block.active, block.context_when_allocated.get() };
        at += block.size;
    }
}

static void add_event(struct recorded *recorded, const caching::TraceEntry &entry)
{
    /* Where the streams differ, the words of the user end with the block's. */
    size_t said = entry.user_metadata_.rfind("stream ");
    weir_cuda_stream own = entry.stream_;
    if (said != std::string::npos)
        own = reinterpret_cast<weir_cuda_stream>(strtoull(entry.user_metadata_.c_str() + said + 7, nullptr, 10));
    recorded->events[recorded->event_count++] = { "afcSFmusoA"[entry.action_], entry.device_, entry.addr_,           entry.size_,
                                                  entry.stream_,               own,           entry.mempool_.first, entry.time_.t_,
                                                  entry.compile_context_.c_str(),
                                                  entry.user_metadata_.c_str(),
                                                  entry.context_.get() };
}

struct recorded *recorded_snapshot(void)
{
    try {
        auto info = std::make_unique<caching::SnapshotInfo>(history.snapshot(weir_torch_watch, blocks, { 0, 0 }, true, 2));
        size_t part_count = 0, event_count = 0;
        for (const auto &segment : info->segments)
            part_count += segment.blocks.size();
        for (const auto &trace : info->device_traces)
            event_count += trace.size();
        auto recorded = std::make_unique<struct recorded>();
        auto segments = std::make_unique<recorded_segment[]>(info->segments.size() + 1);
        auto parts = std::make_unique<recorded_part[]>(part_count + 1);
        auto events = std::make_unique<recorded_event[]>(event_count + 1);
        recorded->segments = segments.release();
        recorded->parts = parts.release();
        recorded->events = events.release();
        for (const auto &segment : info->segments)
            add_segment(recorded.get(), segment);
        for (const auto &trace : info->device_traces)
            for (const auto &entry : trace)
                add_event(recorded.get(), entry);
        recorded->kept = info.release();
        return recorded.release();
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void recorded_free(struct recorded *recorded)
{
    delete static_cast<caching::SnapshotInfo *>(recorded->kept);
    delete[] recorded->segments;
    delete[] recorded->parts;
    delete[] recorded->events;
    delete recorded;
}

void recorded_say(const char *compiled, const char *users)
{
    History::Words &words = History::words();
    words.users = users;
    if (compiled)
        words.compiled.push_back(compiled);
    else
        words.compiled.clear();
}

void *recorded_stack_at(const void *ptr)
{
    weir_shim::Stack stack = history.stack_at(ptr);
    return stack ? new weir_shim::Stack(stack) : nullptr;
}

void recorded_release(void *stack)
{
    delete static_cast<weir_shim::Stack *>(stack);
}

size_t recorded_stacks(void)
{
    return stacks;
}

size_t recorded_warnings(void)
{
    return warnings;
}
