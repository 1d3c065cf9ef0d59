/* SPDX-License-Identifier: MIT */
/*
 * suites.cc - RMM's own tests of memory resources, on weirpp::memory_resource: the fixtures that RMM's suites want, for a weir of CUDA's
 * pools and one of arenas, on streams that are opened or not. The suites are RMM's; build.sh finds them.
 */
#include "include/weir.hpp"

#include <rmm/cuda_stream.hpp>
#include <rmm/error.hpp>
#include <rmm/resource_ref.hpp>

#include "cccl_mr_ref_test_allocation.hpp"
#include "cccl_mr_ref_test_basic.hpp"
#include "cccl_mr_ref_test_mt.hpp"

#ifndef WEIR_HAS_CUDA_MR
#error "weir.hpp found no CCCL beside RMM"
#endif

namespace
{
const char pools[] = "weir: 1\npools: { work: { release_threshold: 1GiB } }\n";
const char arenas[] = "weir: 1\npools: { work: { backing: arena, release_threshold: 1GiB } }\n";

weirpp::weir open(const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    return weirpp::weir::open(options).value();
}

/* The members that RMM's suites use have RMM's names. */
template <const char *policy, bool is_opened> struct fixture : public ::testing::Test {
    weirpp::weir w = open(policy);
    rmm::cuda_stream stream;
    std::optional<weirpp::stream> opened = open_stream();
    weirpp::memory_resource<rmm::out_of_memory> resource{ w, 0 };
    rmm::device_async_resource_ref ref{ resource };

    std::optional<weirpp::stream> open_stream()
    {
        if (!is_opened)
            return std::nullopt;
        return w.open_stream(0, stream.value()).value();
    }
};

using fixtures = ::testing::Types<fixture<pools, false>, fixture<pools, true>, fixture<arenas, false>, fixture<arenas, true>>;
} // namespace

namespace rmm::test
{
INSTANTIATE_TYPED_TEST_SUITE_P(Weir, CcclMrRefTest, ::fixtures);
INSTANTIATE_TYPED_TEST_SUITE_P(Weir, CcclMrRefAllocationTest, ::fixtures);
INSTANTIATE_TYPED_TEST_SUITE_P(Weir, CcclMrRefTestMT, ::fixtures);
} // namespace rmm::test
