/* SPDX-License-Identifier: MIT */
/*
 * RMM's pool, arena and binning behind C calls: for weir-bench, to measure them in turn with Weir, and in the shape of torch's pluggable
 * allocator, for programs under torch and CuPy. Built by build.sh beside it.
 */
#include "rmm.h"

#include <array>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include <rmm/cuda_device.hpp>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

struct rmm_resource {
    virtual ~rmm_resource() = default;
    virtual void *allocate(std::size_t size, rmm::cuda_stream_view stream) = 0;
    virtual void deallocate(void *block, std::size_t size, rmm::cuda_stream_view stream) = 0;
};

namespace
{

constexpr std::size_t alignment = 256;                 /* RMM's default */
constexpr std::size_t reserve = std::size_t{64} << 20; /* what RMM's benchmark leaves of the device beside an arena */

/* The resource itself is called, without a wrapper of RMM's around it. */
template <typename Resource> struct holder final : rmm_resource {
    Resource resource;
    template <typename... Arguments> explicit holder(Arguments &&...arguments) : resource(std::forward<Arguments>(arguments)...)
    {
    }
    void *allocate(std::size_t size, rmm::cuda_stream_view stream) override
    {
        return resource.allocate(stream, size, alignment);
    }
    void deallocate(void *block, std::size_t size, rmm::cuda_stream_view stream) override
    {
        resource.deallocate(stream, block, size, alignment);
    }
};

rmm::mr::pool_memory_resource pool(std::size_t bytes)
{
    if (bytes != 0)
        return rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{}, bytes, bytes};
    return rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{}, rmm::percent_of_free_device_memory(50)};
}

rmm_resource *make_one(const std::string &kind, std::size_t bytes)
{
    if (kind == "pool")
        return new holder<rmm::mr::pool_memory_resource>{pool(bytes)};
    if (kind == "arena")
        return new holder<rmm::mr::arena_memory_resource>{
            rmm::mr::cuda_memory_resource{},
            std::optional<std::size_t>{bytes != 0 ? bytes : rmm::available_device_memory().first - reserve}};
    if (kind == "binning")
        return new holder<rmm::mr::binning_memory_resource>{pool(bytes), std::int8_t{18}, std::int8_t{22}};
    throw std::invalid_argument{"there is no resource '" + kind + "'; write pool, arena or binning"};
}

rmm_resource *make(const char *kind, std::size_t bytes, char *why, std::size_t len)
{
    try {
        return make_one(kind, bytes);
    } catch (const std::exception &error) {
        std::snprintf(why, len, "%s", error.what());
        return nullptr;
    }
}

void destroy(rmm_resource *resource)
{
    delete resource;
}

rmm::cuda_stream_view view(void *stream)
{
    return rmm::cuda_stream_view{static_cast<cudaStream_t>(stream)};
}

void *allocate(rmm_resource *resource, std::size_t size, void *stream)
{
    try {
        return resource->allocate(size, view(stream));
    } catch (const rmm::bad_alloc &) {
        return nullptr;
    }
}

void deallocate(rmm_resource *resource, void *block, std::size_t size, void *stream)
{
    resource->deallocate(block, size, view(stream));
}

/* Each device's resource for a program. A process uses one kind; its first request makes the resource, which lives as long as the process. */
std::mutex program_lock;
std::array<rmm_resource *, 64> program_resources;

/* An arena has half of the free memory, RMM's default: beside all of it, as in RMM's benchmark, the libraries of a program find none. */
rmm_resource *program_resource(const char *kind, int device)
{
    std::lock_guard<std::mutex> guard{program_lock};
    rmm_resource *&resource = program_resources.at(static_cast<std::size_t>(device));
    if (resource == nullptr)
        resource = make_one(kind, std::string{kind} == "arena" ? rmm::percent_of_free_device_memory(50) : 0);
    return resource;
}

void *program_malloc(const char *kind, std::ptrdiff_t size, int device, void *stream)
{
    if (size <= 0)
        return nullptr;
    rmm::cuda_set_device_raii current{rmm::cuda_device_id{device}};
    return program_resource(kind, device)->allocate(static_cast<std::size_t>(size), view(stream));
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const struct rmm_calls weir_bench_rmm = {
    TEXT(RMM_VERSION_MAJOR) "." TEXT(RMM_VERSION_MINOR) "." TEXT(RMM_VERSION_PATCH), make, destroy, allocate, deallocate};

/* torch's pluggable allocator. Without memory they throw, as torch takes a null pointer for a block. */
EXPORTED void *weir_bench_pool_malloc(std::ptrdiff_t size, int device, void *stream)
{
    return program_malloc("pool", size, device, stream);
}

EXPORTED void *weir_bench_arena_malloc(std::ptrdiff_t size, int device, void *stream)
{
    return program_malloc("arena", size, device, stream);
}

EXPORTED void *weir_bench_binning_malloc(std::ptrdiff_t size, int device, void *stream)
{
    return program_malloc("binning", size, device, stream);
}

EXPORTED void weir_bench_rmm_free(void *block, std::ptrdiff_t size, int device, void *stream)
{
    if (block == nullptr)
        return;
    rmm::cuda_set_device_raii current{rmm::cuda_device_id{device}};
    program_resources.at(static_cast<std::size_t>(device))->deallocate(block, static_cast<std::size_t>(size), view(stream));
}
