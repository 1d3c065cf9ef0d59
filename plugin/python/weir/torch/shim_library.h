/* SPDX-License-Identifier: MIT */
/*
 * shim_library.h - the libweir-torch that the shim was told of, and its functions. C++, for shim.cpp and what it includes.
 *
 * Made once, and never destroyed. Calling through it takes no lock.
 */
#ifndef WEIR_TORCH_SHIM_LIBRARY_H
#define WEIR_TORCH_SHIM_LIBRARY_H

#include <dlfcn.h>

#include <string>

#include <c10/util/Exception.h>

#include "weir_torch.h"

namespace weir_shim {

/* The functions of weir_torch.h in the library that was loaded: library->free is weir_torch_free. */
#define LIBRARY_LIST(X) \
    X(pool_malloc) X(free) X(init) X(reset) X(memory_fraction) X(record_stream) X(begin_allocate_to_pool) X(end_allocate_to_pool) \
    X(release_pool) X(regions_take) X(regions_use) X(get) X(is_over) X(get_memory_fraction) X(report) X(set_stream_fn) X(stream_lives) \
    X(stats_take) X(reset_peaks) X(reset_totals) X(pool_has) X(pool_uses) \
    X(begin_route) X(hold_pool) X(set_pool) X(trim_pool) X(state_save) X(state_free) X(state_restore) X(delta_free) \
    X(watch) X(claim) X(share) X(unshare) X(receive) X(receive_end)
/* And those of weir.h, under their full names. */
#define WEIR_LIST(X) \
    X(weir_stats_take) X(weir_stats_free) X(weir_stats_pool) X(weir_pool_get) X(weir_pool_handle) X(weir_pool_small_handle)

struct Library {
#define LIBRARY_MEMBER(name) decltype(&weir_torch_##name) name;
    LIBRARY_LIST(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
#define WEIR_MEMBER(name) decltype(&::name) name;
    WEIR_LIST(WEIR_MEMBER)
#undef WEIR_MEMBER

    explicit Library(const char *path)
    {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        TORCH_CHECK(handle, "weir: cannot load libweir-torch: ", dlerror());
        auto version = find<decltype(&weir_version)>(handle, "weir_version", path);
        TORCH_CHECK(std::string(version()) == built_for(), "weir: ", path, " is version ", version(), ", and this shim was built for ",
                    built_for(), ": run `python -m weir.torch build --force`");
#define LIBRARY_FIND(name) name = find<decltype(name)>(handle, "weir_torch_" #name, path);
        LIBRARY_LIST(LIBRARY_FIND)
#undef LIBRARY_FIND
#define WEIR_FIND(name) name = find<decltype(name)>(handle, #name, path);
        WEIR_LIST(WEIR_FIND)
#undef WEIR_FIND
    }

    static std::string built_for()
    {
        return std::to_string(WEIR_VERSION_MAJOR) + "." + std::to_string(WEIR_VERSION_MINOR) + "." + std::to_string(WEIR_VERSION_PATCH);
    }

private:
    template <typename Function> static Function find(void *handle, const char *name, const char *path)
    {
        void *address = dlsym(handle, name);
        TORCH_CHECK(address, "weir: ", path, " has no ", name, ": it is not the libweir-torch.so that this shim was built for");
        return reinterpret_cast<Function>(address);
    }
};

} // namespace weir_shim

#endif
