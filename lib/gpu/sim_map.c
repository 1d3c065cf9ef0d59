/* SPDX-License-Identifier: MIT */
/*
 * sim_map.c - address ranges, and pages that are mapped into them. All pages are parts of one memfd, so that a page keeps its bytes when it
 * is mapped at another address. A page is exported as a descriptor of the memfd whose position is the page's place in the file.
 *
 * As measured on GPUs: only whole pages are mapped, no call waits for a kernel or disturbs a capture, and the driver does not take mapped
 * memory back, used or not.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/sim_machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sim_address_range {
    struct sim_address_range *next;
    unsigned char *base;
    uint64_t size;
};

/* Identity: the bytes that a device has in pages are the sum of the sizes of those that were not imported. The exporter of a page is charged
   for the page until the exporter releases it, importers never; on a GPU the memory goes back with the last of them. */
struct sim_page {
    struct sim_page *next;
    gpu_page handle;
    int device;
    uint64_t size, offset;  /* offset: in the file */
    unsigned char *address; /* NULL: not mapped */
    int file;               /* the file of an imported page; -1: the page is in the file of this process */
    bool exported;          /* other processes may have the page: its bytes stay in the file */
    bool released;          /* page_release() was called: the page ends once it is unmapped */
    bool access[SIM_DEVICES_MAX];
};

static bool is_unit(uint64_t number)
{
    return number > 0 && number % GPU_PAGE_UNIT == 0;
}

static bool overlap(const unsigned char *a, uint64_t a_size, const unsigned char *b, uint64_t b_size)
{
    return a < b ? (uint64_t)(b - a) < a_size : (uint64_t)(a - b) < b_size; /* an address plus a size might overflow */
}

/* Looking ------------------------------------------------------------------------------------------------------------------------------ */

static struct sim_address_range *find_range(const unsigned char *address, uint64_t size)
{
    struct sim_address_range *range = sim.map.ranges;
    while (range && (address < range->base || size > range->size || (uint64_t)(address - range->base) > range->size - size))
        range = range->next;
    return range;
}

static struct sim_page *find_page(gpu_page handle)
{
    struct sim_page *page = sim.map.pages;
    while (page && (page->handle != handle || page->released))
        page = page->next;
    return page;
}

/* Returns the first page from `next` on in the list that is mapped within these addresses, at least in part, or NULL. */
static struct sim_page *mapped_in(struct sim_page *next, const unsigned char *address, uint64_t size)
{
    while (next && (!next->address || !overlap(next->address, next->size, address, size)))
        next = next->next;
    return next;
}

/* Returns whether the range consists of whole mapped pages, without a gap. */
static bool is_made_of_pages(const unsigned char *address, uint64_t size)
{
    uint64_t covered = 0;
    for (struct sim_page *page = mapped_in(sim.map.pages, address, size); page; page = mapped_in(page->next, address, size)) {
        if (page->address < address || (uint64_t)(page->address - address) + page->size > size)
            return false;
        covered += page->size;
    }
    return size > 0 && covered == size;
}

bool sim_map_has(const void *ptr)
{
    return find_range(ptr, 1) != NULL;
}

bool sim_map_can_touch(int device, const void *ptr, size_t size)
{
    uint64_t covered = 0;
    const unsigned char *begin = ptr;
    for (struct sim_page *page = mapped_in(sim.map.pages, begin, size); page; page = mapped_in(page->next, begin, size)) {
        if (!page->access[device])
            return false;
        const unsigned char *low = page->address > begin ? page->address : begin;
        const unsigned char *page_end = page->address + page->size, *end = begin + size;
        covered += (uint64_t)((page_end < end ? page_end : end) - low);
    }
    return covered == size;
}

static uint64_t addresses_left(void)
{
    uint64_t left = sim.settings.addresses;
    for (const struct sim_address_range *range = sim.map.ranges; range; range = range->next)
        left -= range->size;
    return left;
}

void sim_map_count(size_t *ranges, size_t *pages)
{
    *ranges = *pages = 0;
    for (const struct sim_address_range *range = sim.map.ranges; range; range = range->next)
        ++*ranges;
    for (const struct sim_page *page = sim.map.pages; page; page = page->next)
        ++*pages;
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

void *sim_map_nothing(void *address, uint64_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address ? MAP_FIXED : 0);
    /* Reserve one unit more and give the surplus back, so that the addresses begin at a multiple of the unit. */
    uint64_t rounded = sim_round_up(size, (uint64_t)sysconf(_SC_PAGESIZE)), span = rounded + (address ? 0 : GPU_PAGE_UNIT);
    unsigned char *mapped = span >= size ? mmap(address, span, PROT_NONE, flags, -1, 0) : MAP_FAILED;
    uint64_t head = mapped == MAP_FAILED || address ? 0 : -(uint64_t)(uintptr_t)mapped % GPU_PAGE_UNIT;
    if (mapped == MAP_FAILED)
        return NULL;
    if (head)
        munmap(mapped, head);
    if (!address)
        munmap(mapped + head + rounded, GPU_PAGE_UNIT - head);
    return mapped + head;
}

static bool charge(int device, uint64_t bytes)
{
    return sim_device_charge(device, &sim.devices[device].pages, bytes);
}

/* Appends room for the page to the file. Returns false if the system refuses. */
static bool add_to_file(struct sim_page *page)
{
    if (!sim.map.pages)
        sim.map.end = 0;
    if (sim.map.fd < 0)
        sim.map.fd = memfd_create("weir-sim-pages", MFD_CLOEXEC);
    page->offset = sim.map.end;
    if (sim.map.fd < 0 || ftruncate(sim.map.fd, (off_t)(page->offset + page->size)))
        return false;
    sim.map.end += page->size;
    return true;
}

static int file_of(const struct sim_page *page)
{
    return page->file >= 0 ? page->file : sim.map.fd;
}

static void close_file(void)
{
    if (!sim.map.pages && sim.map.fd >= 0) {
        close(sim.map.fd);
        sim.map.fd = -1;
    }
}

static void drop_page(struct sim_page *page)
{
    struct sim_page **place = &sim.map.pages;
    while (*place != page)
        place = &(*place)->next;
    *place = page->next;
    if (page->file >= 0)
        close(page->file);
    else
        charge(page->device, -page->size);
    if (page->file < 0 && !page->exported)
        fallocate(sim.map.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page->offset, (off_t)page->size);
    free(page);
    close_file();
}

void sim_map_clear(void)
{
    while (sim.map.pages)
        drop_page(sim.map.pages);
    while (sim.map.ranges) {
        struct sim_address_range *range = sim.map.ranges;
        sim.map.ranges = range->next;
        munmap(range->base, range->size);
        free(range);
    }
}

/* Operations --------------------------------------------------------------------------------------------------------------------------- */

static int check_device(int device, uint64_t size)
{
    if (!sim_supports(device, GPU_FEATURE_MAPPING, NULL, 0))
        return GPU_NOT_SUPPORTED;
    return is_unit(size) ? 0 : GPU_INVALID_VALUE;
}

int sim_range_reserve(int device, uint64_t size, void **range)
{
    int code = check_device(device, size);
    if (code)
        return code;
    struct sim_address_range *made = size <= addresses_left() ? calloc(1, sizeof(*made)) : NULL;
    unsigned char *found = made ? sim_map_nothing(NULL, size) : NULL;
    if (!found) {
        free(made);
        return GPU_OUT_OF_MEMORY;
    }
    *made = (struct sim_address_range){.next = sim.map.ranges, .base = found, .size = size};
    sim.map.ranges = made;
    sim.devices[device].used = true;
    *range = made->base;
    return 0;
}

int sim_range_free(void *range, uint64_t size)
{
    struct sim_address_range **place = &sim.map.ranges;
    while (*place && (*place)->base != range)
        place = &(*place)->next;
    struct sim_address_range *found = *place;
    if (!found || found->size != size || mapped_in(sim.map.pages, range, size))
        return GPU_INVALID_VALUE;
    *place = found->next;
    munmap(found->base, found->size);
    free(found);
    return 0;
}

static gpu_page list_page(struct sim_page *page)
{
    page->handle = ++sim.last_id;
    page->next = sim.map.pages;
    sim.map.pages = page;
    sim.devices[page->device].used = true;
    return page->handle;
}

int sim_page_create(int device, uint64_t size, gpu_page *handle)
{
    int code = check_device(device, size);
    sim_note_change();
    if (code)
        return code;
    sim.handled = size;
    struct sim_page *page = size <= sim.settings.memory ? calloc(1, sizeof(*page)) : NULL;
    if (!page || !charge(device, size)) {
        free(page);
        return GPU_OUT_OF_MEMORY;
    }
    page->size = size;
    page->device = device;
    page->file = -1;
    if (!add_to_file(page)) {
        charge(device, -size);
        free(page);
        close_file();
        return GPU_OUT_OF_MEMORY;
    }
    *handle = list_page(page);
    return 0;
}

int sim_page_release(gpu_page handle)
{
    struct sim_page *page = find_page(handle);
    sim_note_change();
    if (!page)
        return GPU_INVALID_VALUE;
    sim.handled = page->size;
    page->released = true;
    if (!page->address)
        drop_page(page);
    return 0;
}

int sim_page_map(void *address, uint64_t size, gpu_page handle)
{
    struct sim_page *page = find_page(handle);
    bool is_place = (uintptr_t)address % GPU_PAGE_UNIT == 0 && find_range(address, size) && !mapped_in(sim.map.pages, address, size);
    /* A GPU could map one page twice. No part of Weir needs that, and here the page's address could not be one value. */
    sim_note_change();
    if (!page || page->size != size || page->address || !is_place)
        return GPU_INVALID_VALUE;
    sim.handled = size;
    if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, file_of(page), (off_t)page->offset) == MAP_FAILED)
        return GPU_OUT_OF_MEMORY;
    page->address = address;
    memset(page->access, 0, sizeof(page->access));
    return 0;
}

int sim_page_unmap(void *address, uint64_t size)
{
    sim_note_change();
    if (!is_made_of_pages(address, size))
        return GPU_INVALID_VALUE;
    sim.handled = size;
    if (!sim_map_nothing(address, size))
        return GPU_OUT_OF_MEMORY;
    for (struct sim_page *page = mapped_in(sim.map.pages, address, size), *next; page; page = next) {
        next = mapped_in(page->next, address, size);
        page->address = NULL;
        if (page->released)
            drop_page(page);
    }
    return 0;
}

int sim_page_set_access(void *address, uint64_t size, const int *devices, size_t count)
{
    if (!is_made_of_pages(address, size) || count > GPU_PAGE_DEVICES_MAX)
        return GPU_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (sim_device_find(devices[i]))
            return GPU_INVALID_DEVICE;
    for (struct sim_page *page = mapped_in(sim.map.pages, address, size); page; page = mapped_in(page->next, address, size))
        for (size_t i = 0; i < count; i++)
            if (!sim.settings.reaches[page->device][devices[i]])
                return GPU_INVALID_DEVICE;
    sim.handled = size;
    for (struct sim_page *page = mapped_in(sim.map.pages, address, size); page; page = mapped_in(page->next, address, size))
        for (size_t i = 0; i < count; i++)
            page->access[devices[i]] = true;
    return 0;
}

/* Sharing ------------------------------------------------------------------------------------------------------------------------------ */

int sim_page_export(int device, gpu_page handle, int *fd)
{
    char path[32];
    struct sim_page *page = find_page(handle);
    if (!sim.settings.posix_fd)
        return GPU_NOT_SUPPORTED;
    if (!page || page->device != device)
        return GPU_INVALID_VALUE;
    /* The file is opened again, as a copy of its descriptor would share its position. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", file_of(page));
    int exported = open(path, O_RDWR | O_CLOEXEC);
    if (exported < 0)
        return GPU_OUT_OF_MEMORY;
    lseek(exported, (off_t)page->offset, SEEK_SET);
    page->exported = true;
    *fd = exported;
    return 0;
}

int sim_page_import(int device, int fd, uint64_t size, gpu_page *handle)
{
    struct stat status;
    int code = check_device(device, size);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    if (code)
        return code;
    if (offset < 0 || offset % (off_t)GPU_PAGE_UNIT || fstat(fd, &status) || status.st_size < offset ||
        (uint64_t)(status.st_size - offset) < size)
        return GPU_INVALID_VALUE;
    struct sim_page *page = calloc(1, sizeof(*page));
    int copy = page ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) {
        free(page);
        return GPU_OUT_OF_MEMORY;
    }
    *page = (struct sim_page){.device = device, .size = size, .offset = (uint64_t)offset, .file = copy};
    *handle = list_page(page);
    return 0;
}
