/* SPDX-License-Identifier: MIT */
/*
 * arena_sleep.c - an arena that sleeps: its pages go back to the device, its blocks keep their addresses, and their contents are kept in
 * host memory or given up. A page that sleeps is *absent*: the map still has the page, with the handle 0.
 *
 * All that can fail comes before the first page goes, and nothing is given up before the last page is back. So after a failure the arena is
 * awake and whole, or asleep and whole. `nap` is guarded by `growing`, which is held for the calls of the driver only: a wake that waits for
 * memory must not hold it, since others trim this arena meanwhile.
 */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/record/recorder.h"

/* Returns the map's element for the page that begins at this address. */
static struct weir__page *page_of(struct weir__mapped *mapped, uint64_t address)
{
    struct weir__pages *pages = address >= mapped->arena.small.extents.base ? &mapped->arena.small : &mapped->arena.large;
    return &pages->map[(address - pages->extents.base) / WEIR__PAGE_UNIT];
}

/* Returns the map's element for a page of the nap, or NULL if a trim has taken that page since. */
static struct weir__page *nap_page(struct weir__mapped *mapped, const struct weir__nap_page *page)
{
    struct weir__page *found = page_of(mapped, page->address);
    return found->units * WEIR__PAGE_UNIT == page->bytes && found->into == 0 ? found : NULL;
}

/* Whether the page sleeps. */
static bool is_absent(struct weir__mapped *mapped, const struct weir__nap_page *page)
{
    const struct weir__page *found = nap_page(mapped, page);
    return found && !found->handle;
}

bool weir__mapped_page_at(struct weir__backing *backing, uint64_t address, struct weir__page_at *page)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    if (address < (uintptr_t)mapped->range || address - (uintptr_t)mapped->range >= mapped->range_bytes)
        return false;
    weir__spin_lock(&mapped->lock);
    const struct weir__page *unit = page_of(mapped, address), *first = unit - unit->into;
    *page = (struct weir__page_at){.address = address / WEIR__PAGE_UNIT * WEIR__PAGE_UNIT - unit->into * WEIR__PAGE_UNIT,
                                   .bytes = first->units * WEIR__PAGE_UNIT,
                                   .handle = first->handle,
                                   .is_shut = mapped->is_shut};
    weir__spin_unlock(&mapped->lock);
    return page->bytes;
}

bool weir__mapped_is_absent(struct weir__mapped *mapped, uint64_t address)
{
    return mapped->asleep_bytes && !page_of(mapped, address)->handle;
}

/* Host memory -------------------------------------------------------------------------------------------------------------------------- */

#define TRIES 2 /* as a call of the driver may fail once */
#define PIECE (UINT64_C(256) << 20) /* bytes that are copied to the host before the thread looks whether the pool is to wake */

/* Frees the host memory. A driver that refuses twice has lost it. */
static void free_host(struct weir__mapped *mapped)
{
    for (int tries = 0; mapped->nap.host && tries < TRIES && mapped->backing.gpu->host_free(mapped->nap.host) != GPU_SUCCESS; tries++)
        continue;
    mapped->nap.host = NULL;
    mapped->nap.host_bytes = 0;
}

static void forget_pages(struct weir__mapped *mapped)
{
    free(mapped->nap.pages);
    mapped->nap.pages = NULL;
    mapped->nap.count = 0;
    if (!(mapped->nap.how & WEIR__NAP_RETAINS))
        free_host(mapped);
}

void weir__mapped_forget_nap(struct weir__mapped *mapped)
{
    mapped->nap.how = 0;
    forget_pages(mapped);
}

/* Makes sure that there are so many bytes of host memory. Returns the GPU code, or WEIR__PAGE_NO_HOST_MEMORY. */
static int reserve_host(struct weir__mapped *mapped, uint64_t bytes)
{
    struct weir__nap *nap = &mapped->nap;
    if (nap->host_bytes >= bytes)
        return GPU_SUCCESS;
    free_host(mapped);
    int code = mapped->backing.gpu->host_alloc(mapped->backing.device, bytes, &nap->host);
    nap->host_bytes = code == GPU_SUCCESS ? bytes : 0;
    return code == GPU_OUT_OF_MEMORY ? WEIR__PAGE_NO_HOST_MEMORY : code;
}

/* Copies all pages to the host, or from there those that still lack their contents, or clears all pages; on a stream of its own, and waits.
   state: the state of the pool, which ends the copying when it becomes WEIR__NAP_WAKING; or NULL. Returns the GPU code, or
   WEIR__SLEEP_RECALLED. */
static int copy_pages(struct weir__mapped *mapped, bool to_host, const _Atomic enum weir__nap_state *state)
{
    const struct gpu *gpu = mapped->backing.gpu;
    struct weir__nap *nap = &mapped->nap;
    uintptr_t next = (uintptr_t)nap->host; /* 0, and of no use, where the pages are cleared */
    gpu_stream stream;
    uint64_t copied = 0;
    int code = gpu->stream_create(mapped->backing.device, &stream);
    if (code != GPU_SUCCESS)
        return code;
    for (size_t i = 0; i < nap->count && code == GPU_SUCCESS; next += nap->pages[i++].bytes) {
        if (state && (copied += nap->pages[i].bytes) >= PIECE) {
            copied = 0;
            code = gpu->stream_synchronize(stream);
            if (code == GPU_SUCCESS && atomic_load(state) == WEIR__NAP_WAKING)
                code = WEIR__SLEEP_RECALLED;
            if (code != GPU_SUCCESS)
                break;
        }
        void *page = (void *)(uintptr_t)nap->pages[i].address, *host = (void *)next;
        bool is_there = to_host || nap_page(mapped, &nap->pages[i]);
        if (is_there && !(nap->how & WEIR__NAP_KEEPS))
            code = gpu->set_async(page, 0, nap->pages[i].bytes, stream);
        else if (is_there && (to_host || !nap->pages[i].is_filled))
            code = gpu->copy_async(to_host ? host : page, to_host ? page : host, nap->pages[i].bytes, stream);
    }
    /* Nothing may still run when the host memory is freed. */
    int seen = gpu->stream_synchronize(stream);
    for (int tries = 1; tries < TRIES && seen != GPU_SUCCESS; tries++)
        seen = gpu->stream_synchronize(stream);
    for (int tries = 0; tries < TRIES && gpu->stream_destroy(stream) != GPU_SUCCESS; tries++)
        continue;
    return code == GPU_SUCCESS ? seen : code;
}

/* Falling asleep ----------------------------------------------------------------------------------------------------------------------- */

/* Counts the pages of one part, and lists them if `nap->pages` has room for them. */
static uint64_t list(struct weir__nap *nap, const struct weir__pages *pages)
{
    uint64_t all = 0;
    for (uint64_t at = 0; at < pages->extents.bytes;) {
        uint64_t bytes = pages->map[at / WEIR__PAGE_UNIT].units * WEIR__PAGE_UNIT;
        if (bytes && nap->pages)
            nap->pages[nap->count] = (struct weir__nap_page){.address = pages->extents.base + at, .bytes = bytes};
        nap->count += bytes != 0;
        all += bytes;
        at += bytes ? bytes : WEIR__PAGE_UNIT;
    }
    return all;
}

/* Lists all pages. Returns false if host memory runs out. */
static bool list_all(struct weir__mapped *mapped, uint64_t *bytes)
{
    struct weir__nap *nap = &mapped->nap;
    nap->count = 0;
    *bytes = list(nap, &mapped->arena.large) + list(nap, &mapped->arena.small);
    nap->pages = calloc(nap->count + 1, sizeof *nap->pages);
    nap->count = 0;
    if (nap->pages)
        *bytes = list(nap, &mapped->arena.large) + list(nap, &mapped->arena.small);
    return nap->pages;
}

/* Unmaps and releases the pages. A page that cannot be unmapped stays awake. Returns the bytes that went. */
static uint64_t let_go(struct weir__mapped *mapped)
{
    struct weir__nap *nap = &mapped->nap;
    uint64_t gone = 0;
    for (size_t i = 0; i < nap->count; i++) {
        struct weir__nap_page *page = &nap->pages[i];
        uint64_t begun = mapped->backing.gpu->now();
        page->is_filled = mapped->backing.gpu->page_unmap((void *)(uintptr_t)page->address, page->bytes) != GPU_SUCCESS;
        if (page->is_filled)
            continue;
        weir__spin_lock(&mapped->lock);
        struct weir__page *found = page_of(mapped, page->address);
        uint64_t handle = found->handle;
        found->handle = 0;
        mapped->asleep_bytes += page->bytes;
        mapped->turn = (struct weir__mapped_turn){.begun = begun};
        weir__mapped_pages.release(mapped, page->bytes, handle);
        weir__spin_unlock(&mapped->lock);
        gone += page->bytes;
    }
    return gone;
}

static void shut(struct weir__backing *backing, bool is_shut)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    mapped->is_shut = is_shut;
    weir__spin_unlock(&mapped->lock);
}

static uint64_t free_on(const struct weir__mapped *mapped)
{
    uint64_t bytes = 0, total;
    mapped->backing.gpu->device_memory(mapped->backing.device, &bytes, &total);
    return bytes;
}

/* Lets the pages go. *held: so many of their bytes are not free on the device. The device is asked behind all other calls of a sleep, as the
   driver takes memory of its own for a new stream and for page-locked memory (measured: 2 MiB). Returns the bytes that went. */
static uint64_t let_go_and_look(struct weir__mapped *mapped, uint64_t *held)
{
    uint64_t before = free_on(mapped), gone = let_go(mapped);
    *held = weir__less(gone, weir__less(free_on(mapped), before));
    return gone;
}

static int fall_asleep(struct weir__backing *backing, unsigned how, const _Atomic enum weir__nap_state *state, uint64_t *given, uint64_t *held)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    bool keeps = how & WEIR__NAP_KEEPS;
    uint64_t bytes = 0;
    weir__mapped_settle(mapped, WEIR__MAPPED_PATIENCE);
    pthread_mutex_lock(&mapped->growing);
    uint64_t trimmed = weir__mapped_drop(mapped, 0);
    mapped->nap.how = how;
    int code = list_all(mapped, &bytes) ? GPU_SUCCESS : WEIR__PAGE_NO_HOST_MEMORY;
    if (code == GPU_SUCCESS && keeps && bytes)
        code = reserve_host(mapped, bytes);
    if (code == GPU_SUCCESS && keeps && bytes)
        code = copy_pages(mapped, true, state);
    if (code == GPU_SUCCESS && atomic_load(state) == WEIR__NAP_WAKING)
        code = WEIR__SLEEP_RECALLED;
    if (code == GPU_SUCCESS)
        *given = trimmed + let_go_and_look(mapped, held);
    if (code != GPU_SUCCESS || !keeps)
        free_host(mapped);
    if (code != GPU_SUCCESS)
        forget_pages(mapped);
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

/* Waking ------------------------------------------------------------------------------------------------------------------------------- */

/* Gives back the pages that were created and not mapped. */
static void drop_fresh(struct weir__mapped *mapped)
{
    for (size_t i = 0; i < mapped->nap.count; i++) {
        struct weir__nap_page *page = &mapped->nap.pages[i];
        if (!page->fresh)
            continue;
        weir__spin_lock(&mapped->lock);
        mapped->turn = (struct weir__mapped_turn){.created = page->bytes};
        weir__mapped_pages.release(mapped, page->bytes, page->fresh);
        weir__spin_unlock(&mapped->lock);
        page->fresh = 0;
    }
}

static int create(struct weir__mapped *mapped, uint64_t bytes, gpu_page *page)
{
    if (weir__backing_lack(&mapped->backing, bytes))
        return WEIR__LACK_FREE;
    return mapped->backing.gpu->page_create(mapped->backing.device, bytes, page);
}

/* Creates all pages that are absent, or none: two arenas that wake must not hold half each. */
static int create_all(struct weir__backing *backing, struct weir__ask *ask, uint64_t *lack)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__nap *nap = &mapped->nap;
    int code = GPU_SUCCESS;
    weir__mapped_settle(mapped, WEIR__MAPPED_PATIENCE);
    pthread_mutex_lock(&mapped->growing);
    weir__mapped_drop(mapped, 0); /* pages in which nothing is live any more need not come back */
    *lack = 0;
    for (size_t i = 0; i < nap->count; i++) {
        struct weir__nap_page *page = &nap->pages[i];
        if (page->fresh || !is_absent(mapped, page))
            continue;
        *lack += page->bytes;
        if (code == GPU_SUCCESS)
            code = create(mapped, page->bytes, &page->fresh);
    }
    /* Others may have taken memory since the device was asked. */
    if (code == GPU_SUCCESS && *lack && weir__backing_lack(&mapped->backing, 0))
        code = WEIR__LACK_FREE;
    if (code != GPU_SUCCESS)
        drop_fresh(mapped);
    pthread_mutex_unlock(&mapped->growing);
    ask->lack = code == WEIR__LACK_FREE ? code : 0;
    return code == WEIR__LACK_FREE ? GPU_OUT_OF_MEMORY : code;
}

/* Maps a page that was created, gives the devices access, and counts the page as awake. Returns the GPU code. */
static int map_fresh(struct weir__mapped *mapped, struct weir__nap_page *page)
{
    const struct gpu *gpu = mapped->backing.gpu;
    void *address = (void *)(uintptr_t)page->address;
    uint64_t begun = gpu->now();
    int code = gpu->page_map(address, page->bytes, page->fresh);
    if (code != GPU_SUCCESS)
        return code;
    code = gpu->page_set_access(address, page->bytes, mapped->devices, mapped->device_count);
    if (code != GPU_SUCCESS) {
        gpu->page_unmap(address, page->bytes);
        return code;
    }
    if (mapped->recorder)
        weir__record_figures(mapped->recorder, WEIR__KIND_MAP, mapped->record, NULL, page->bytes, gpu->now() - begun);
    weir__spin_lock(&mapped->lock);
    struct weir__page *found = nap_page(mapped, page);
    found->handle = page->fresh;
    mapped->asleep_bytes -= page->bytes;
    if (weir__mapped_bytes(mapped) > mapped->mapped_high)
        mapped->mapped_high = weir__mapped_bytes(mapped);
    weir__spin_unlock(&mapped->lock);
    page->fresh = 0;
    return GPU_SUCCESS;
}

static int fill(struct weir__backing *backing, bool *kept)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__nap *nap = &mapped->nap;
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&mapped->growing);
    for (size_t i = 0; i < nap->count && code == GPU_SUCCESS; i++)
        if (nap->pages[i].fresh && is_absent(mapped, &nap->pages[i])) /* a trim may have taken it since */
            code = map_fresh(mapped, &nap->pages[i]);
    if (code == GPU_SUCCESS && (nap->how & WEIR__NAP_KEEPS ? nap->host != NULL : nap->how & WEIR__NAP_ZEROES))
        code = copy_pages(mapped, false, NULL);
    drop_fresh(mapped);
    if (code == GPU_SUCCESS) {
        *kept = nap->how & WEIR__NAP_KEEPS;
        forget_pages(mapped);
    }
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

static uint64_t asleep(struct weir__backing *backing)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    uint64_t bytes = mapped->asleep_bytes;
    weir__spin_unlock(&mapped->lock);
    return bytes;
}

const struct weir__sleep_ops weir__mapped_sleeps = {shut, fall_asleep, create_all, fill, asleep};
