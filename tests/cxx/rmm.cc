/* SPDX-License-Identifier: MIT */
/* weirpp::memory_resource where RMM wants a memory resource, on the simulator; prints TAP. Built and run by compile.sh. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/weir.hpp"

#include <rmm/error.hpp>
#include <rmm/resource_ref.hpp>
#include <rmm/version_config.hpp>
#if RMM_VERSION_MAJOR > 26 || RMM_VERSION_MINOR >= 10 /* adaptors own their upstream; before, they had other constructors */
#define ADAPTORS
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#endif

#ifndef WEIR_HAS_CUDA_MR
#error "weir.hpp found no CCCL beside RMM"
#endif

using resource = weirpp::memory_resource<rmm::out_of_memory>;

static const std::size_t mib = std::size_t(1) << 20;
static unsigned number;

static void is(bool good, const char *name)
{
    std::printf("%s %u - %s\n", good ? "ok" : "not ok", ++number, name);
}

template <class Resource> static bool serves(Resource &&any, cuda::stream_ref stream)
{
    void *one = any.allocate(stream, 5000, 256), *two = any.allocate_sync(5000, 256);
    any.deallocate(stream, one, 5000, 256);
    any.deallocate_sync(two, 5000, 256);
    return one && two && one != two;
}

template <class Resource> static bool refuses(Resource &&any, cuda::stream_ref stream)
{
    try {
        any.deallocate(stream, any.allocate(stream, 2048 * mib, 256), 2048 * mib, 256);
    } catch (const rmm::out_of_memory &error) {
        return std::strstr(error.what(), "max_size");
    }
    return false;
}

int main()
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = "weir: 1\npools: { work: { max_size: 1GiB } }\n";
    options.gpu = "sim";
    weirpp::weir w = weirpp::weir::open(options).value();
    weirpp::stream opened = w.create_stream(0).value();
    cuda::stream_ref stream(opened.handle());
    resource own(w, 0);
    rmm::device_async_resource_ref ref{own};
    cuda::mr::any_resource<cuda::mr::device_accessible> any{own};
    is(serves(own, stream) && serves(resource(w, opened.pool()), stream), "resource_serves");
    is(serves(ref, stream) && serves(any, stream), "resource_serves_behind_references_and_owners");
    is(refuses(own, stream) && refuses(ref, stream) && refuses(any, stream), "resource_throws_what_rmm_catches");
    is(own == resource(w, 0) && any == cuda::mr::any_resource<cuda::mr::device_accessible>{resource(w, 0)}, "equal_resources_are_equal");
#ifdef ADAPTORS
    rmm::mr::statistics_resource_adaptor statistics{own};
    void *block = statistics.allocate(stream, 4096, 256);
    is(block && statistics.get_bytes_counter().value == 4096, "statistics_adaptor_counts_its_blocks");
    statistics.deallocate(stream, block, 4096, 256);
    int calls = 0;
    rmm::mr::failure_callback_resource_adaptor<> callback{
        own,
        [](std::size_t, void *data) {
            ++*static_cast<int *>(data);
            return false;
        },
        &calls};
    is(refuses(callback, stream) && calls == 1, "failure_callback_is_called");
#endif
    std::printf("1..%u\n", number);
    return EXIT_SUCCESS;
}
