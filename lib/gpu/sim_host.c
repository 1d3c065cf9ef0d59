/* SPDX-License-Identifier: MIT */
/* sim_host.c - page-locked memory of the host. It is ordinary memory here. */
#include "lib/gpu/sim_machine.h"

#include <stdlib.h>

struct sim_host {
    struct sim_host *next;
    max_align_t data[];
};

static struct sim_host *first;

int sim_host_alloc(int device, uint64_t size, void **ptr)
{
    (void)device;
    struct sim_host *host = size && size < SIZE_MAX - sizeof *host ? malloc(sizeof *host + size) : NULL;
    if (!host)
        return size ? GPU_OUT_OF_MEMORY : GPU_INVALID_VALUE;
    host->next = first;
    first = host;
    *ptr = host->data;
    return 0;
}

int sim_host_free(void *ptr)
{
    struct sim_host **link = &first;
    while (*link && (void *)(*link)->data != ptr)
        link = &(*link)->next;
    struct sim_host *host = *link;
    if (!host)
        return ptr ? GPU_INVALID_VALUE : 0;
    *link = host->next;
    free(host);
    return 0;
}

size_t sim_host_count(void)
{
    size_t count = 0;
    for (const struct sim_host *host = first; host; host = host->next)
        count++;
    return count;
}

void sim_host_clear(void)
{
    while (first) {
        struct sim_host *host = first;
        first = host->next;
        free(host);
    }
}
