/* SPDX-License-Identifier: MIT */
/* nvml_module.h - a stand-in for the driver's management library, which says what the test wants. */
#ifndef WEIR_TESTS_NVML_MODULE_H
#define WEIR_TESTS_NVML_MODULE_H

#include <semaphore.h>
#include <stdbool.h>

#define NVML_PROCESSES_MAX 600

struct nvml_listed {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_stage {
    const char *uuid; /* of the only device */
    bool fails;       /* lists cannot be had */
    sem_t *held;      /* lists are given once it is posted; NULL: at once */
    unsigned asked;   /* questions so far */
    struct nvml_stage_list {
        struct nvml_listed processes[NVML_PROCESSES_MAX];
        unsigned count;
    } computing, drawing;
};

extern struct nvml_stage nvml_stage __attribute__((visibility("default")));

#endif
