/* SPDX-License-Identifier: MIT */
/*
 * sim_map.h - what the simulated machine has of address ranges and of pages that are mapped into them. As everything else of the machine it
 * is guarded by sim.lock.
 */
#ifndef WEIR_SIM_MAP_H
#define WEIR_SIM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_map {
    struct sim_address_range *ranges;
    struct sim_page *pages;
    int fd;       /* the file that all pages are parts of; -1 while there are none */
    uint64_t end; /* of the file */
};

/* Whether the address is in a range, mapped or not. */
bool sim_map_has(const void *ptr);
/* Whether the device has access to each byte, the first of which is in a range. */
bool sim_map_can_touch(int device, const void *ptr, size_t size);
void sim_map_count(size_t *ranges, size_t *pages);
void sim_map_clear(void);

#endif
