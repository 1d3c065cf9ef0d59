/* SPDX-License-Identifier: MIT */
/* The waist as a library has it that is installed by a build --without-simulator. */
#include <string.h>

#include "lib/gpu/gpu.h"
#include "tests/support/suite.h"

START_TEST(simulator_is_refused_with_the_remedy)
{
    const char *why = "";
    ck_assert_ptr_null(gpu_find("sim", &why));
    ck_assert_ptr_nonnull(strstr(why, "has no simulator"));
    ck_assert_ptr_nonnull(strstr(why, "--without-simulator"));
    ck_assert_ptr_nonnull(strstr(why, "\"cuda\""));
}
END_TEST

START_TEST(other_names_mean_what_they_always_mean)
{
    const char *why = "";
    const struct gpu *gpu = gpu_find(NULL, &why);
    ck_assert_ptr_eq(gpu_find("cuda", &why), gpu);
    ck_assert(gpu ? strcmp(gpu->name, "cuda") == 0 : strstr(why, "no CUDA") != NULL);
    ck_assert_ptr_null(gpu_find("simulator", &why));
    ck_assert_ptr_nonnull(strstr(why, "no such GPU"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no simulator");
    suite_add(suite_case(suite, "waist", 0), simulator_is_refused_with_the_remedy, other_names_mean_what_they_always_mean);
    return suite_run(suite);
}
