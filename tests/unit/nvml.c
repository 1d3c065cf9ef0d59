/* SPDX-License-Identifier: MIT */
/* nvml.c - which processes use a GPU, as a stand-in for NVML says it. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "lib/gpu/nvml.h"
#include "tests/support/suite.h"
#include "tests/unit/nvml_module.h"

#define UUID "GPU-01234567-89ab-cdef-0123-456789abcdef"

static void begin(void)
{
    memset(&nvml_stage, 0, sizeof nvml_stage);
    nvml_stage.uuid = UUID;
}

static void add(struct nvml_stage_list *list, unsigned pid, unsigned long long bytes)
{
    list->processes[list->count++] = (struct nvml_listed){.pid = pid, .bytes = bytes};
}

START_TEST(processes_that_compute_or_draw_are_told_once)
{
    struct gpu_process found[8];
    size_t count = 0;
    begin();
    add(&nvml_stage.computing, 4711, 1 << 20);
    add(&nvml_stage.computing, (unsigned)getpid(), 2 << 20);
    add(&nvml_stage.drawing, 4711, 1 << 20);
    add(&nvml_stage.drawing, 12, ~0ULL);
    ck_assert_int_eq(nvml_processes(UUID, found, 8, &count), GPU_SUCCESS);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(found[0].pid, 4711);
    ck_assert_uint_eq(found[0].bytes, 1 << 20);
    ck_assert_int_eq(found[1].pid, getpid());
    ck_assert_int_eq(found[2].pid, 12);
    ck_assert_uint_eq(found[2].bytes, GPU_BYTES_UNKNOWN);
}
END_TEST

START_TEST(many_processes_are_counted_and_those_that_fit_are_told)
{
    struct gpu_process found[3] = {{.pid = 0}, {.pid = 0}, {.pid = -5}};
    size_t count = 0;
    begin();
    for (unsigned i = 1; i < 500; i++)
        add(&nvml_stage.computing, 1000000 + i, i);
    add(&nvml_stage.computing, (unsigned)getpid(), 1);
    ck_assert_int_eq(nvml_processes(UUID, found, 2, &count), GPU_SUCCESS);
    ck_assert_uint_eq(count, 500);
    ck_assert_int_eq(found[1].pid, 1000002);
    ck_assert_int_eq(found[2].pid, -5);
}
END_TEST

START_TEST(ids_of_another_namespace_are_not_believed)
{
    struct gpu_process found[8];
    size_t count = 77;
    begin();
    add(&nvml_stage.computing, (unsigned)getpid() + 1, 1);
    ck_assert_int_eq(nvml_processes(UUID, found, 8, &count), GPU_NOT_SUPPORTED);
    ck_assert_uint_eq(count, 77);
}
END_TEST

START_TEST(what_cannot_be_told_is_an_error)
{
    struct gpu_process found[8];
    size_t count;
    begin();
    add(&nvml_stage.computing, (unsigned)getpid(), 1);
    ck_assert_int_eq(nvml_processes("GPU-another", found, 8, &count), GPU_NOT_SUPPORTED);
    ck_assert_uint_eq(nvml_stage.asked, 0);
    nvml_stage.fails = true;
    ck_assert_int_eq(nvml_processes(UUID, found, 8, &count), GPU_NOT_SUPPORTED);
}
END_TEST

/* Without the bound the first question would never end. */
START_TEST(a_library_that_does_not_answer_holds_up_one_caller_for_a_moment_and_no_other)
{
    struct gpu_process found[8];
    size_t count = 77;
    sem_t held;
    sem_init(&held, 0, 0);
    begin();
    nvml_stage.held = &held;
    add(&nvml_stage.computing, (unsigned)getpid(), 1);
    ck_assert_int_eq(nvml_processes(UUID, found, 8, &count), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(nvml_processes(UUID, found, 8, &count), GPU_NOT_SUPPORTED);
    ck_assert_uint_eq(count, 77);
    ck_assert_uint_eq(nvml_stage.asked, 1);
    sem_post(&held); /* both lists of the first question, then of the next */
    sem_post(&held);
    sem_post(&held);
    sem_post(&held);
    while (nvml_processes(UUID, found, 8, &count) != GPU_SUCCESS)
        sched_yield();
    ck_assert_uint_eq(count, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nvml");
    TCase *tcase = suite_case(suite, "nvml", 0);
    suite_add(tcase, processes_that_compute_or_draw_are_told_once, many_processes_are_counted_and_those_that_fit_are_told,
              ids_of_another_namespace_are_not_believed, what_cannot_be_told_is_an_error,
              a_library_that_does_not_answer_holds_up_one_caller_for_a_moment_and_no_other);
    return suite_run(suite);
}
