/* SPDX-License-Identifier: MIT */
/* The entry point that throws, from C++ as torch calls it; prints TAP. */
#include <cstdio>
#include <cstdlib>
#include <new>

#include "plugin/torch/weir_torch.h"

static int number;

static void is(bool good, const char *name)
{
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
}

static bool throws(ssize_t size, int device)
{
    try {
        weir_torch_malloc(size, device, nullptr);
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main()
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    options.policy_text = "weir: 1\npools: { p: {} }\n";
    options.gpu = "sim";
    std::printf("1..6\n");
    is(weir_torch_configure(&options, &error) == WEIR_OK, "policy_is_taken");
    void *ptr = weir_torch_malloc(4096, 0, nullptr);
    is(ptr != nullptr, "request_is_served");
    is(!throws(0, 0), "nothing_is_no_failure");
    is(throws(ssize_t(1) << 50, 0), "out_of_memory_throws_bad_alloc");
    weir_torch_report(&error);
    is(error.status == WEIR_OUT_OF_MEMORY, "report_is_there_after_the_throw");
    is(throws(1, 5), "device_that_is_not_there_throws");
    weir_torch_free(ptr, 4096, 0, nullptr);
    return EXIT_SUCCESS;
}
