/* SPDX-License-Identifier: MIT */
/*
 * shim_tracker.cpp - a tracker of torch's segments, as NCCL's process groups attach them, for shim_test.py. It does in the tracker what a
 * lock of the allocator's would make a deadlock, and knows which chunks there are, as what registers them does.
 */
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include <c10/cuda/CUDACachingAllocator.h>

namespace caching = c10::cuda::CUDACachingAllocator;

namespace {

std::mutex lock;
std::string said;           /* "alloc ADDRESS SIZE POOL BLOCKS", a line for each; BLOCKS: of shim_cuda.c's allocator */
std::set<size_t> known;     /* addresses of chunks */
std::atomic<int> strange{ 0 }; /* chunks that came twice, or went and were not there */
std::atomic<bool> refuses{ false };

void track(const caching::TraceEntry &entry)
{
    bool came = entry.action_ == caching::TraceEntry::SEGMENT_ALLOC;
    if (!came && entry.action_ != caching::TraceEntry::SEGMENT_FREE)
        return;
    caching::snapshot();
    caching::getDeviceStats(entry.device_);
    auto blocks = static_cast<std::atomic<int> *>(dlsym(RTLD_DEFAULT, "shim_own_blocks"));
    std::lock_guard<std::mutex> guard(lock);
    strange += came ? !known.insert(entry.addr_).second : !known.erase(entry.addr_);
    said += std::string(came ? "alloc " : "free ") + std::to_string(entry.addr_) + " " + std::to_string(entry.size_) + " " +
            std::to_string(entry.mempool_.second) + " " + std::to_string(blocks->load()) + "\n";
    if (came && refuses)
        throw std::runtime_error("the tracker refuses");
}

int answer(const std::string &words, char *text, size_t size)
{
    snprintf(text, size, "%s", words.c_str());
    return static_cast<int>(words.size());
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

/* What torch threw, or nothing. */
EXPORTED int tracker_attach(char *text, size_t size)
{
    try {
        caching::attachAllocatorTraceTracker(&track);
        return answer("", text, size);
    } catch (const std::exception &error) {
        return answer(error.what(), text, size);
    }
}

/* What was said since the last call. */
EXPORTED int tracker_said(char *text, size_t size)
{
    std::lock_guard<std::mutex> guard(lock);
    int length = answer(said, text, size);
    said.clear();
    return length;
}

/* The addresses of a pool's segments, in the order in which they are registered. */
EXPORTED int tracker_segments(uint64_t first, uint64_t second, char *text, size_t size)
{
    std::string words;
    for (const auto &segment : caching::snapshot({ first, second }).segments)
        words += std::to_string(segment.address) + " " + std::to_string(segment.total_size) + "\n";
    return answer(words, text, size);
}

EXPORTED void tracker_refuse(int value)
{
    refuses = value;
}

EXPORTED int tracker_strange()
{
    return strange;
}
