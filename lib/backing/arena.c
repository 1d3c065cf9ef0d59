/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "policy/policy.h"

/* pinned() looks at this many pieces (the part of one extent in one page) at most, which holds the lock for 100 us */
#define PINNED_PARTS 16384

/* Making and closing ------------------------------------------------------------------------------------------------------------------- */

static int reserve(struct weir__mapped *mapped, uint64_t memory)
{
    uint64_t unit = 4 * GPU_PAGE_UNIT, bytes = (memory + unit - 1) / unit * unit * WEIR__ARENA_RANGE_SHARE;
    int code = GPU_OUT_OF_MEMORY;
    for (; code == GPU_OUT_OF_MEMORY && bytes >= memory; bytes = bytes / 2 / unit * unit) {
        code = mapped->backing.gpu->range_reserve(mapped->backing.device, bytes, &mapped->range);
        mapped->range_bytes = bytes;
    }
    return code == GPU_OUT_OF_MEMORY ? WEIR__PAGE_NO_ADDRESSES : code;
}

/* Unmaps and destroys the arena, if no block is live, no free is pending, and the driver takes all memory back. Returns whether the arena
   is destroyed. No other thread knows the arena. */
static bool destroy(struct weir__mapped *mapped)
{
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    if (figures.live || figures.pending)
        return false;
    WEIR__MUST(weir__arena_is_valid(&mapped->arena));
    weir__mapped_trim(mapped, 0, 0);
    if (weir__mapped_figures(mapped).mapped || mapped->backing.gpu->range_free(mapped->range, mapped->range_bytes) != GPU_SUCCESS)
        return false;
    struct weir__fences *fences = mapped->backing.debts.fences;
    weir__debts_end(&mapped->backing.debts);
    weir__arena_clear(&mapped->arena);
    pthread_mutex_destroy(&mapped->growing);
    free(mapped);
    weir__fences_leave(fences);
    return true;
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

void weir__mapped_settle(struct weir__mapped *mapped, uint64_t patience)
{
    const struct weir__scope scope = weir__mapped_scope(mapped);
    weir__scope_cover(&scope, false);
    weir__scope_finish(&scope, patience ? mapped->backing.gpu->now() + patience : 0);
}

uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience)
{
    weir__mapped_settle(mapped, patience);
    if (pthread_mutex_trylock(&mapped->growing) != 0) {
        if (weir__mapped_is_shut(mapped))
            return 0; /* perhaps its contents are being copied, which may take seconds */
        pthread_mutex_lock(&mapped->growing);
    }
    uint64_t bytes = weir__mapped_drop(mapped, keep);
    pthread_mutex_unlock(&mapped->growing);
    return bytes;
}

/* The lists ---------------------------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__mapped *first, *open; /* the lists of closed and of open arenas, guarded by `lock` */

/* Adds the arena to the list of open arenas: until the arena is closed, weir__arena_take_idle() may give its idle memory back. */
static void list(struct weir__mapped *mapped)
{
    pthread_mutex_lock(&lock);
    mapped->next_listed = open;
    open = mapped;
    pthread_mutex_unlock(&lock);
}

uint64_t weir__arena_take_idle(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__backing *but)
{
    uint64_t taken = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(&lock);
    for (struct weir__mapped *mapped = open; mapped && taken < bytes; mapped = mapped->next_listed) {
        uint64_t now = weir__mapped_figures(mapped).mapped, wanted = bytes - taken;
        if (now && &mapped->backing != but && mapped->backing.gpu == gpu && mapped->backing.device == device)
            taken += weir__mapped_trim(mapped, now > wanted ? (now - wanted) / POLICY_GROWTH_STEP * POLICY_GROWTH_STEP : 0,
                                       WEIR__MAPPED_PATIENCE);
    }
    pthread_mutex_unlock(&lock);
    weir__relaxed_end(gpu, mode);
    return taken;
}

/* Closes the arena, after the streams of its weir are closed: waits for all frees, unmaps the memory and destroys the arena. Returns true
   if the arena lives on, with its bytes in *figures: with live blocks, until the last is freed; with a free that can never be seen
   complete, for good; with memory that the driver did not take back, until the driver takes it. */
static bool end(struct weir__mapped *mapped, struct weir__arena_figures *figures)
{
    struct weir__mapped **link = &open;
    pthread_mutex_lock(&lock);
    while (*link != mapped)
        link = &(*link)->next_listed;
    *link = mapped->next_listed;
    pthread_mutex_unlock(&lock);
    struct weir__scope scope = weir__mapped_scope(mapped);
    scope.until = weir__marks_made();
    weir__scope_finish(&scope, UINT64_MAX);
    weir__debts_leave_group(&mapped->backing.debts);
    for (int tries = 0; tries < 2; tries++) /* since a call of the driver may fail once */
        if (destroy(mapped))
            return false;
    weir__mapped_trim(mapped, 0, 0);
    *figures = weir__mapped_figures(mapped);
    mapped->recorder = NULL; /* the recorder is destroyed with its weir */
    pthread_mutex_lock(&lock);
    mapped->next_listed = first;
    first = mapped;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Trims all closed arenas, and destroys those that nothing needs any more. Returns the bytes unmapped. The caller holds `lock`. */
static uint64_t sweep(void)
{
    uint64_t released = 0;
    for (struct weir__mapped **link = &first, *mapped; (mapped = *link);) {
        const struct gpu *gpu = mapped->backing.gpu;
        struct weir__mapped *next = mapped->next_listed;
        enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
        released += weir__mapped_trim(mapped, 0, 0);
        if (destroy(mapped))
            *link = next;
        else
            link = &mapped->next_listed;
        weir__relaxed_end(gpu, mode);
    }
    return released;
}

uint64_t weir__arena_sweep(void)
{
    pthread_mutex_lock(&lock);
    uint64_t released = sweep();
    pthread_mutex_unlock(&lock);
    return released;
}

/* Returns the live extent at that address, or NULL. The search goes through all extents, since a closed arena has no table of blocks. */
static struct weir__extent *find_live(struct weir__mapped *mapped, uint64_t address)
{
    bool is_small = address >= mapped->arena.small.extents.base;
    weir__spin_lock(&mapped->lock); /* another weir's thread may learn that some extents are complete */
    struct weir__extent *extent = (is_small ? &mapped->arena.small : &mapped->arena.large)->extents.first;
    while (extent && extent->address < address)
        extent = extent->after;
    bool is_live = extent && extent->address == address && extent->state == WEIR__EXTENT_LIVE;
    weir__spin_unlock(&mapped->lock);
    return is_live ? extent : NULL;
}

/* Frees the extent on the stream. Joins the fences of the stream's device during the call, since the closed weir has left them. Returns the
   code of the free. The caller holds `lock`. */
static int give_closed(struct weir__mapped *mapped, struct weir__extent *extent, gpu_stream stream)
{
    const struct gpu *gpu = mapped->backing.gpu;
    struct weir__user user = {.handle = stream, .device = weir__event_device(gpu, mapped->backing.device, stream)};
    struct weir__caller caller = {.handle = stream};
    struct weir__fences *fences = weir__fences_join(gpu, user.device);
    if (!fences)
        return WEIR__PAGE_NO_HOST_MEMORY;
    int former = weir__current_begin(gpu, user.device, stream);
    int code = gpu->supports(user.device, GPU_FEATURE_STREAM_ID, NULL, 0) ? weir__stream_identify(gpu, stream, &caller.id) : GPU_SUCCESS;
    weir__current_end(gpu, former);
    user.line = code == GPU_SUCCESS ? weir__line_of(fences, &caller) : NULL;
    if (user.line) {
        code = weir__mapped_give(&mapped->backing, NULL, extent, &user);
        weir__line_put(user.line);
    } else if (code == GPU_SUCCESS) {
        code = WEIR__PAGE_NO_HOST_MEMORY;
    }
    weir__fences_leave(fences);
    return code;
}

bool weir__arena_free_closed(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code)
{
    uint64_t address = (uintptr_t)ptr;
    struct weir__extent *extent = NULL;
    pthread_mutex_lock(&lock);
    for (struct weir__mapped *mapped = first; mapped && !extent; mapped = mapped->next_listed) {
        uint64_t base = (uintptr_t)mapped->range;
        if (address < base || address - base >= mapped->range_bytes)
            continue;
        extent = find_live(mapped, address);
        *gpu = mapped->backing.gpu;
        if (extent)
            *code = give_closed(mapped, extent, stream);
    }
    if (extent)
        sweep();
    pthread_mutex_unlock(&lock);
    return extent;
}

/* What is set -------------------------------------------------------------------------------------------------------------------------- */

/* Gives mapped->devices access to each mapped page. Returns the GPU code. The caller holds mapped->growing, so that no page is unmapped. */
static int give_access(const struct weir__mapped *mapped, const struct weir__pages *pages)
{
    int code = GPU_SUCCESS;
    for (uint64_t at = 0; at < pages->extents.bytes && code == GPU_SUCCESS;) {
        uint64_t bytes = pages->map[at / GPU_PAGE_UNIT].units * GPU_PAGE_UNIT;
        void *page = (void *)(uintptr_t)(pages->extents.base + at);
        if (bytes && pages->map[at / GPU_PAGE_UNIT].handle)
            code = mapped->backing.gpu->page_set_access(page, bytes, mapped->devices, mapped->device_count);
        at += bytes ? bytes : GPU_PAGE_UNIT;
    }
    return code;
}

static int set_peers(struct weir__mapped *mapped, const int *devices, size_t count)
{
    int former[GPU_PAGE_DEVICES_MAX];
    size_t former_count = mapped->device_count;
    memcpy(former, mapped->devices, sizeof former);
    memcpy(mapped->devices, devices, count * sizeof *devices);
    mapped->device_count = count;
    int code = give_access(mapped, &mapped->arena.large);
    if (code == GPU_SUCCESS)
        code = give_access(mapped, &mapped->arena.small);
    if (code != GPU_SUCCESS) {
        memcpy(mapped->devices, former, sizeof former);
        mapped->device_count = former_count;
    }
    return code;
}

/* Adds the peer to mapped->devices, or removes it. A device that is removed keeps its access to the pages that are mapped already. */
static int set_peer_of_pages(struct weir__mapped *mapped, int peer, bool grant)
{
    int devices[GPU_PAGE_DEVICES_MAX], code = GPU_NOT_SUPPORTED;
    size_t count = 0;
    pthread_mutex_lock(&mapped->growing);
    for (size_t i = 0; i < mapped->device_count; i++)
        if (mapped->devices[i] != peer)
            devices[count++] = mapped->devices[i];
    if (!grant || count < GPU_PAGE_DEVICES_MAX) {
        if (grant)
            devices[count++] = peer;
        code = set_peers(mapped, devices, count);
    }
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

static int set_peer(struct weir__backing *backing, int peer, bool grant)
{
    struct weir__backing *captures = weir__mapped_of(backing)->captures;
    int code = captures->ops->set_peer(captures, peer, grant);
    if (code == GPU_SUCCESS) {
        code = set_peer_of_pages(weir__mapped_of(backing), peer, grant);
        if (code != GPU_SUCCESS)
            captures->ops->set_peer(captures, peer, !grant);
    }
    return code;
}

/* The release threshold and the peak concern the arena alone: the pool for captures keeps no memory, and its peak is not reported. */
static int set(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t value)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    if (attribute == GPU_POOL_RELEASE_THRESHOLD) {
        atomic_store(&backing->threshold, value);
        return GPU_SUCCESS;
    }
    if (attribute == GPU_POOL_RESERVED_HIGH) {
        weir__spin_lock(&mapped->lock);
        mapped->mapped_high = weir__mapped_bytes(mapped);
        weir__spin_unlock(&mapped->lock);
        return GPU_SUCCESS;
    }
    if (attribute == GPU_POOL_REUSE_INTERNAL_DEPENDENCIES)
        atomic_store(&mapped->waits, value);
    return mapped->captures->ops->set(mapped->captures, attribute, value);
}

static void set_cap(struct weir__backing *backing, uint64_t max_size)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    atomic_store(&mapped->max_size, max_size);
    if (!max_size || weir__mapped_figures(mapped).mapped <= max_size)
        return;
    enum gpu_capture_mode mode = weir__relaxed_begin(backing->gpu);
    weir__mapped_trim(mapped, max_size, 0);
    weir__relaxed_end(backing->gpu, mode);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    struct weir__arena_figures figures = weir__arena_figures(&mapped->arena);
    figures.mapped = weir__mapped_bytes(mapped);
    if (mapped->is_shut)
        figures.complete = 0; /* it can serve nobody */
    weir__spin_unlock(&mapped->lock);
    return figures;
}

static uint64_t left_of(struct weir__backing *backing)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    uint64_t bytes = mapped->left_bytes;
    weir__spin_unlock(&mapped->lock);
    return bytes;
}

static int read_figure(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t *value)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    weir__spin_lock(&mapped->lock);
    uint64_t high = mapped->mapped_high;
    weir__spin_unlock(&mapped->lock);
    *value = attribute == GPU_POOL_USED ? figures.live : attribute == GPU_POOL_RESERVED ? figures.mapped : high;
    return GPU_SUCCESS;
}

static uint64_t idle_of(struct weir__backing *backing, uint64_t *reserved)
{
    struct weir__arena_figures figures = weir__mapped_figures(weir__mapped_of(backing));
    *reserved = figures.mapped;
    return figures.mapped > figures.live ? figures.mapped - figures.live : 0;
}

static void read_figures(struct weir__backing *backing, struct weir__backing_figures *figures)
{
    struct weir__arena_figures all = weir__mapped_figures(weir__mapped_of(backing));
    *figures = (struct weir__backing_figures){.reserved = all.mapped, .idle = all.complete};
}

static uint64_t pending_in(struct weir__backing *backing)
{
    return weir__mapped_figures(weir__mapped_of(backing)).pending;
}

static bool has_pending(struct weir__backing *backing)
{
    struct weir__backing *captures = weir__mapped_of(backing)->captures;
    return pending_in(backing) || captures->ops->has_pending(captures);
}

static bool pinned(struct weir__backing *backing, uint64_t *bytes)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    bool is_known = weir__arena_pinned(&mapped->arena, PINNED_PARTS, bytes);
    weir__spin_unlock(&mapped->lock);
    return is_known;
}

/* The recorder ------------------------------------------------------------------------------------------------------------------------- */

/* Called before any other thread knows the arena, and with a recorder of NULL when no thread records any more. */
static void record(struct weir__backing *backing, struct weir__recorder *recorder, unsigned pool)
{
    weir__mapped_of(backing)->recorder = recorder;
    weir__mapped_of(backing)->record = pool;
}

static bool hold(struct weir__backing *backing)
{
    return pthread_mutex_trylock(&weir__mapped_of(backing)->growing) == 0;
}

static void release(struct weir__backing *backing)
{
    pthread_mutex_unlock(&weir__mapped_of(backing)->growing);
}

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

/* A request that an arena refused leaves no memory behind. */
static bool was_refused(struct weir__backing *backing, struct weir__ask *ask, uint64_t *keep)
{
    (void)backing, (void)ask, (void)keep;
    return false;
}

static int give_back(struct weir__backing *backing, uint64_t keep, bool is_patient)
{
    weir__mapped_trim(weir__mapped_of(backing), keep, is_patient ? WEIR__MAPPED_PATIENCE : 0);
    return GPU_SUCCESS;
}

/* Trims the arena to the threshold and to the cap, as CUDA trims its pools when a stream is synchronised. */
static void synchronised(struct weir__backing *backing)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    const struct weir__scope scope = weir__mapped_scope(mapped);
    uint64_t max_size = atomic_load(&mapped->max_size), keep = weir__smaller(atomic_load(&backing->threshold), max_size ? max_size : UINT64_MAX);
    if (weir__mapped_figures(mapped).mapped > keep)
        weir__mapped_trim(mapped, keep, 0); /* the trim queries the events itself */
    else
        weir__scope_look(&scope);
}

static void close_arena(struct weir__backing *backing, struct weir__closing *closing)
{
    struct weir__arena_figures figures = {.mapped = 0};
    weir__mapped_sleeps.shut(backing, false);
    weir__mapped_forget_nap(weir__mapped_of(backing));
    if (end(weir__mapped_of(backing), &figures)) {
        bool is_used = figures.live || figures.pending;
        closing->pending = figures.pending;
        closing->left = weir__less(figures.mapped, is_used ? figures.live + figures.pending + figures.complete : 0);
        closing->is_left = closing->left || !is_used;
    }
}

static const struct weir__backing_ops ops = {
    .is_arena = true,
    .records_growth = true,
    .names_streams = true,
    .asks_caches = true,
    .large = WEIR__ARENA_LARGE,
    .step = 1,
    .grain = WEIR__PAGE_UNIT,
    .grow = 450000, /* measured with pages of 64 MiB, as is `trim`; the values lie between those for 32 and for 256 MiB */
    .trim = 600000,
    .sleeps = &weir__mapped_sleeps,
    .call_to_free = "weir_free(NULL, ptr, stream), as it is an arena",
    .serve = weir__mapped_serve,
    .was_refused = was_refused,
    .give = weir__mapped_give,
    .extend = weir__mapped_extend,
    .give_back = give_back,
    .left = left_of,
    .close = close_arena,
    .synchronised = synchronised,
    .set = set,
    .set_peer = set_peer,
    .set_cap = set_cap,
    .read = read_figure,
    .idle = idle_of,
    .figures = read_figures,
    .pending = pending_in,
    .has_pending = has_pending,
    .pinned = pinned,
    .page_at = weir__mapped_page_at,
    .record = record,
    .hold = hold,
    .release = release,
};

int weir__arena_create(uint64_t memory, const void *group, struct weir__backing *captures, struct weir__backing **backing)
{
    const struct gpu *gpu = captures->gpu;
    struct weir__fences *fences = weir__fences_join(gpu, captures->device);
    struct weir__mapped *made = fences ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        if (fences)
            weir__fences_leave(fences);
        return WEIR__PAGE_NO_HOST_MEMORY;
    }
    made->backing = (struct weir__backing){.ops = &ops, .gpu = gpu, .device = captures->device, .lock = captures->lock, .align = captures->align};
    made->captures = captures;
    weir__debts_init(&made->backing.debts, fences);
    made->backing.debts.group = group;
    made->backing.debts.tracker = &weir__mapped_tracker;
    made->devices[0] = captures->device;
    made->device_count = 1;
    int code = reserve(made, memory);
    if (code == GPU_SUCCESS && !weir__arena_init(&made->arena, (uintptr_t)made->range, made->range_bytes, &weir__mapped_pages, made)) {
        weir__arena_clear(&made->arena);
        gpu->range_free(made->range, made->range_bytes);
        code = WEIR__PAGE_NO_HOST_MEMORY;
    }
    if (code != GPU_SUCCESS) {
        free(made);
        weir__fences_leave(fences);
        return code;
    }
    weir__spin_init(&made->lock);
    pthread_mutex_init(&made->growing, NULL);
    list(made);
    *backing = &made->backing;
    return GPU_SUCCESS;
}
