/* SPDX-License-Identifier: MIT */
/*
 * shim_regions.h - the tags and pools of a region in threads that work for the one which is in it, as autograd's do. C++, for shim.cpp.
 *
 * torch hands a thread's debug information on to whoever works for it. A region adds itself there, as a copy that never changes, and an
 * allocation looks whether the copy that its thread has is the one in force. Nothing here is shared but by torch, which counts references.
 */
#ifndef WEIR_TORCH_SHIM_REGIONS_H
#define WEIR_TORCH_SHIM_REGIONS_H

#include <atomic>
#include <memory>

#include <c10/util/ThreadLocalDebugInfo.h>

#include "shim_library.h"

namespace weir_shim {

class Regions {
public:
    /* Before each allocation: a thread local is read, and where the thread is in no region that is all. */
    static void follow(const Library &library)
    {
        const Copy *copy = current();
        if (C10_UNLIKELY((copy ? copy->number : 0) != in_force))
            use(library, copy);
    }

    /* The calling thread has begun or ended a tag or a pool itself, which is in force already. */
    static void begin(const Library &library)
    {
        auto copy = std::make_shared<Copy>();
        library.regions_take(&copy->regions);
        in_force = copy->number;
        c10::ThreadLocalDebugInfo::_push(KIND, std::move(copy));
    }
    static void end()
    {
        Copy *copy = current();
        if (!copy)
            return;
        try {
            c10::ThreadLocalDebugInfo::_pop(KIND);
        } catch (const std::exception &) {
            copy->is_over = true; /* what began within the region has not ended yet, such as a profiler */
        }
        copy = current();
        in_force = copy ? copy->number : 0;
    }

private:
    struct Copy final : public c10::DebugInfoBase {
        weir_torch_regions regions;
        const uint64_t number = ++numbers; /* an address would come again */
        std::atomic<bool> is_over{ false };
    };

    /* torch has a fixed list of kinds, of which this one is for whoever wants to hand on what it is that runs. */
    static constexpr auto KIND = c10::DebugInfoKind::PRODUCER_INFO;

    static Copy *current()
    {
        c10::DebugInfoBase *info = c10::ThreadLocalDebugInfo::get(KIND);
        Copy *copy = C10_UNLIKELY(info != nullptr) ? dynamic_cast<Copy *>(info) : nullptr;
        return copy && !copy->is_over ? copy : nullptr;
    }
    C10_NOINLINE static void use(const Library &library, const Copy *copy)
    {
        library.regions_use(copy ? &copy->regions : nullptr);
        in_force = copy ? copy->number : 0;
    }

    inline static std::atomic<uint64_t> numbers{ 0 };
    inline static thread_local uint64_t in_force = 0; /* the number of the copy; 0: none */
};

} // namespace weir_shim

#endif
