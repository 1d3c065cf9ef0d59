/* SPDX-License-Identifier: MIT */
/* arena_serve.c - how an arena serves a request: from memory that is free for the stream, by mapping more, or by making the stream wait.
   Also how blocks are freed, and the calls of the driver on pages. */
#include <stdlib.h>

#include "lib/backing/arena_internal.h"
#include "lib/backing/window.h"
#include "lib/base/context.h"
#include "lib/record/recorder.h"

#define STEP_SHARE 128 /* the frees on an OPEN line get a mark for each STEP_SHARE-th of the arena, and for WEIR__STEP_BYTES at least */

/* Pages by the driver ------------------------------------------------------------------------------------------------------------------ */

/* Records an event about `bytes` that began at the time `begun`, if the arena has a recorder. The caller holds mapped->growing. */
static void note(const struct weir__mapped *mapped, enum weir__kind kind, uint64_t bytes, uint64_t begun)
{
    if (mapped->recorder)
        weir__record_figures(mapped->recorder, kind, mapped->record, NULL, bytes, mapped->backing.gpu->now() - begun);
}

static int map_page(void *data, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct weir__mapped *mapped = data;
    const struct gpu *gpu = mapped->backing.gpu;
    weir__spin_unlock(&mapped->lock);
    /* The page is new, or was just unmapped at another address. */
    const struct weir__mapped_turn turn = mapped->turn;
    int code = gpu->page_map((void *)(uintptr_t)address, bytes, handle);
    if (code == GPU_SUCCESS) {
        code = gpu->page_set_access((void *)(uintptr_t)address, bytes, mapped->devices, mapped->device_count);
        if (code != GPU_SUCCESS)
            gpu->page_unmap((void *)(uintptr_t)address, bytes);
    }
    if (code == GPU_SUCCESS) {
        note(mapped, WEIR__KIND_MAP, turn.created, turn.begun);
        mapped->turn.created = 0;
    }
    weir__spin_lock(&mapped->lock);
    /* The arena adds a new page to mapped_bytes only after this call, and unmaps the page again if others for the same request cannot be
       made. The peak includes the page in both cases. */
    uint64_t now = weir__mapped_bytes(mapped) + turn.created;
    if (code == GPU_SUCCESS && now > mapped->mapped_high)
        mapped->mapped_high = now;
    return code;
}

static int unmap_page(void *data, uint64_t address, uint64_t bytes)
{
    struct weir__mapped *mapped = data;
    if (weir__mapped_is_absent(mapped, address))
        return GPU_SUCCESS;
    weir__spin_unlock(&mapped->lock);
    mapped->turn = (struct weir__mapped_turn){.begun = mapped->backing.gpu->now()};
    int code = mapped->backing.gpu->page_unmap((void *)(uintptr_t)address, bytes);
    weir__spin_lock(&mapped->lock);
    return code;
}

/* Adds a page that the driver did not take back to mapped->left. Returns false if host memory runs out: the page is then lost to the
   process. */
static bool keep_left(struct weir__mapped *mapped, uint64_t bytes, gpu_page handle, bool was_mapped)
{
    struct weir__mapped_left *left = malloc(sizeof *left);
    if (left) {
        *left = (struct weir__mapped_left){.next = mapped->left, .handle = handle, .bytes = bytes, .was_mapped = was_mapped};
        mapped->left = left;
    }
    return left;
}

static void release_page(void *data, uint64_t bytes, uint64_t handle)
{
    struct weir__mapped *mapped = data;
    if (!handle) {
        mapped->asleep_bytes -= bytes; /* an absent page */
        return;
    }
    weir__spin_unlock(&mapped->lock);
    weir__window_forget(&mapped->backing, handle);
    /* A page that was created and could not be mapped was never counted as the arena's. */
    bool was_mapped = !mapped->turn.created, is_gone = mapped->backing.gpu->page_release(handle) == GPU_SUCCESS;
    bool is_left = !is_gone && keep_left(mapped, bytes, handle, was_mapped);
    if (is_gone && was_mapped)
        note(mapped, WEIR__KIND_UNMAP, bytes, mapped->turn.begun);
    mapped->turn.created = 0;
    weir__spin_lock(&mapped->lock);
    mapped->left_bytes += is_left ? bytes : 0;
}

static int create_page(void *data, uint64_t bytes, uint64_t *handle)
{
    struct weir__mapped *mapped = data;
    uint64_t max_size = atomic_load(&mapped->max_size), now = weir__mapped_bytes(mapped);
    if (max_size && (now > max_size || bytes > max_size - now))
        return WEIR__LACK_CAP;
    weir__spin_unlock(&mapped->lock);
    gpu_page page = 0;
    uint64_t begun = mapped->backing.gpu->now();
    int code = GPU_SUCCESS;
    if (weir__backing_lack(&mapped->backing, bytes))
        code = WEIR__LACK_FREE;
    else
        code = mapped->backing.gpu->page_create(mapped->backing.device, bytes, &page);
    mapped->turn = (struct weir__mapped_turn){.begun = begun, .created = code == GPU_SUCCESS ? bytes : 0};
    /* Others may have taken memory since the device was asked. */
    bool is_too_much = code == GPU_SUCCESS && weir__backing_lack(&mapped->backing, 0);
    weir__spin_lock(&mapped->lock);
    if (is_too_much) {
        release_page(mapped, bytes, page);
        return WEIR__LACK_FREE;
    }
    *handle = page;
    return code;
}

static void release_left(struct weir__mapped *mapped)
{
    for (struct weir__mapped_left **link = &mapped->left, *left; (left = *link);) {
        uint64_t begun = mapped->backing.gpu->now();
        if (mapped->backing.gpu->page_release(left->handle) != GPU_SUCCESS) {
            link = &left->next;
            continue;
        }
        if (left->was_mapped)
            note(mapped, WEIR__KIND_UNMAP, left->bytes, begun);
        weir__spin_lock(&mapped->lock);
        mapped->left_bytes -= left->bytes;
        weir__spin_unlock(&mapped->lock);
        *link = left->next;
        free(left);
    }
}

static bool is_shortage(int code)
{
    return code == GPU_OUT_OF_MEMORY || code == WEIR__LACK_CAP || code == WEIR__LACK_FREE;
}

uint64_t weir__mapped_drop(struct weir__mapped *mapped, uint64_t keep)
{
    uint64_t before = weir__mapped_figures(mapped).mapped;
    release_left(mapped);
    weir__spin_lock(&mapped->lock);
    weir__arena_trim(&mapped->arena, keep ? weir__less(weir__mapped_bytes(mapped), keep) : UINT64_MAX);
    uint64_t now = weir__mapped_bytes(mapped);
    weir__spin_unlock(&mapped->lock);
    return before - now;
}

const struct weir__page_driver weir__mapped_pages = {create_page, map_page, unmap_page, release_page, is_shortage};

/* Requests ----------------------------------------------------------------------------------------------------------------------------- */

/* Takes `bytes` from mapped memory that is known to be free for the debt's stream. Returns NULL if nothing fits. */
static struct weir__extent *take(struct weir__mapped *mapped, uint64_t bytes, struct weir__debt *debt)
{
    weir__spin_lock(&mapped->lock);
    struct weir__extent *extent = mapped->is_shut ? NULL : weir__arena_take(&mapped->arena, weir__mapped_freed(debt), bytes);
    weir__spin_unlock(&mapped->lock);
    return extent;
}

static struct weir__extent *look_and_take(struct weir__mapped *mapped, uint64_t bytes, struct weir__debt *debt)
{
    const struct weir__scope scope = weir__mapped_scope(mapped);
    enum gpu_capture_mode mode = weir__relaxed_begin(mapped->backing.gpu);
    weir__scope_look(&scope);
    weir__relaxed_end(mapped->backing.gpu, mode);
    return take(mapped, bytes, debt);
}

/* Raises the peak of the mapped bytes. The caller holds mapped->lock. */
static void raise_high(struct weir__mapped *mapped)
{
    if (weir__mapped_bytes(mapped) > mapped->mapped_high)
        mapped->mapped_high = weir__mapped_bytes(mapped);
}

/* Maps the memory that the request lacks. Returns the GPU code, WEIR__LACK_CAP, WEIR__LACK_FREE, or a code of page.h. Adds to *waited the
   time for which the thread waited for another mapping thread. */
static int grow(struct weir__mapped *mapped, struct weir__debt *debt, uint64_t bytes, struct weir__extent **extent, uint64_t *waited)
{
    if (weir__mapped_is_shut(mapped))
        return WEIR__SERVE_ASLEEP; /* `growing` may be held while contents are copied */
    if (pthread_mutex_trylock(&mapped->growing) != 0) {
        uint64_t since = mapped->backing.gpu->now();
        pthread_mutex_lock(&mapped->growing);
        *waited += mapped->backing.gpu->now() - since;
    }
    weir__spin_lock(&mapped->lock);
    int code = WEIR__SERVE_ASLEEP;
    if (!mapped->is_shut) /* again, since it may have been shut while this thread waited */
        code = weir__arena_grow(&mapped->arena, weir__mapped_freed(debt), bytes, extent);
    raise_high(mapped);
    weir__spin_unlock(&mapped->lock);
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

/* Returns whether all free memory of the arena, pending frees of all streams included, and `room` more bytes would be enough for the
   request. */
static bool may_be_enough(struct weir__mapped *mapped, uint64_t bytes, uint64_t room)
{
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    uint64_t idle = figures.complete + figures.pending;
    return figures.pending && (idle >= bytes || room >= bytes - idle);
}

/* Makes the requester's stream wait for frees of other streams, until the request fits in the memory that the stream may use. Returns NULL
   if that does not help. */
static struct weir__extent *borrow(struct weir__mapped *mapped, uint64_t bytes, struct weir__debt *debt)
{
    struct weir__extent *extent = NULL;
    while (debt && !extent && weir__debts_order(&mapped->backing.debts, debt->line, bytes))
        extent = take(mapped, bytes, debt);
    return extent;
}

/* Returns the bytes that may still be mapped: up to the cap if `at_cap`, otherwise up to what the device has beside `leave_free`. */
static uint64_t room_of(struct weir__mapped *mapped, bool at_cap)
{
    uint64_t room = 0, total, max_size = atomic_load(&mapped->max_size);
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    if (at_cap)
        return max_size > figures.mapped ? max_size - figures.mapped : 0;
    if (mapped->backing.gpu->device_memory(mapped->backing.device, &room, &total) != GPU_SUCCESS)
        return UINT64_MAX;
    return weir__less(room, atomic_load(&mapped->backing.leave_free));
}

/* Serves a request that fits in no memory known to be free. Returns GPU_SUCCESS, or a code of grow() if neither more memory nor frees of
   other streams help. */
static int serve_slowly(struct weir__mapped *mapped, uint64_t bytes, struct weir__debt *debt, struct weir__ask *ask)
{
    const struct weir__scope scope = weir__mapped_scope(mapped);
    int code = grow(mapped, debt, bytes, &ask->extent, &ask->waited);
    if (code == GPU_SUCCESS || code == WEIR__SERVE_ASLEEP)
        return code;
    if (atomic_load(&mapped->waits) && may_be_enough(mapped, bytes, room_of(mapped, code == WEIR__LACK_CAP))) {
        ask->extent = borrow(mapped, bytes, debt);
        code = ask->extent ? GPU_SUCCESS : grow(mapped, debt, bytes, &ask->extent, &ask->waited);
    }
    /* The caller may now wait for pending frees: record a mark behind each, also behind those that the stream was made to wait for in vain.
     */
    if (code != GPU_SUCCESS)
        weir__scope_cover(&scope, false);
    return code;
}

/* Returns the GPU code for a code of grow(): lack of host memory, of addresses, or of room below a bound becomes GPU_OUT_OF_MEMORY. */
static int code_of(int code)
{
    return code < 0 || code == WEIR__LACK_CAP || code == WEIR__LACK_FREE ? GPU_OUT_OF_MEMORY : code;
}

static int serve_growing(struct weir__mapped *mapped, struct weir__ask *ask, uint64_t bytes, struct weir__debt *debt)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(mapped->backing.gpu);
    int code = serve_slowly(mapped, bytes, debt, ask);
    weir__relaxed_end(mapped->backing.gpu, mode);
    ask->lack = code_of(code) == code ? 0 : code;
    return code_of(code);
}

int weir__mapped_serve(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__debt *debt = weir__mapped_debt(mapped, &ask->user);
    int code = GPU_SUCCESS;
    ask->extent = NULL;
    ask->lack = 0;
    if (ask->how == WEIR__SERVE_GROW)
        code = serve_growing(mapped, ask, bytes, debt);
    else
        ask->extent = (ask->how == WEIR__SERVE_LOOK ? look_and_take : take)(mapped, bytes, debt);
    if (ask->extent)
        *block = (void *)(uintptr_t)ask->extent->address;
    return code == GPU_SUCCESS && !ask->extent ? WEIR__SERVE_FURTHER : code;
}

int weir__mapped_extend(struct weir__backing *backing, uint64_t bytes)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__extent *extent;
    uint64_t waited = 0;
    /* The rest of the page may serve another request before this extent is given back, and has to begin at a multiple as well. */
    int code = grow(mapped, NULL, bytes > UINT64_MAX - backing->align ? bytes : (bytes + backing->align - 1) & -backing->align, &extent,
                    &waited);
    if (code != GPU_SUCCESS)
        return code_of(code);
    weir__spin_lock(&mapped->lock);
    weir__arena_give(&mapped->arena, extent, NULL, 0);
    weir__spin_unlock(&mapped->lock);
    return GPU_SUCCESS;
}

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

static struct weir__mapped *owner_of(const struct weir__debt *debt)
{
    return WEIR__ITEM(debt->owner, struct weir__mapped, backing.debts);
}

/* Returns the extents of the debt, and sets whether extents of different steps may merge. Memory freed before a mark serves other streams
   at that mark only if it was not merged with memory freed later. So steps are kept apart on PASSING lines, where each free gets a mark,
   and in arenas whose streams wait for each other's frees. Other lines have few marks. The caller holds mapped->lock. */
static struct weir__arena_stream *freed_on(struct weir__debt *debt)
{
    struct weir__arena_stream *freed = weir__mapped_freed(debt);
    bool has_marks = atomic_load(&debt->line->kind) == WEIR__LINE_PASSING;
    freed->small.keeps_steps = freed->large.keeps_steps = has_marks || atomic_load(&owner_of(debt)->backing.pending_max) != UINT64_MAX;
    return freed;
}

static void add_extent(struct weir__debt *debt, const uint64_t *step)
{
    struct weir__mapped *mapped = owner_of(debt);
    struct weir__extent *extent = WEIR__ITEM(step, struct weir__extent, sequence);
    weir__spin_lock(&mapped->lock);
    weir__arena_give(&mapped->arena, extent, freed_on(debt), *step);
    weir__spin_unlock(&mapped->lock);
}

static bool is_in_queue(const struct weir__extent_stream *stream, uint64_t after, uint64_t until)
{
    const struct weir__extent *extent = stream->oldest;
    while (extent && extent->sequence <= after)
        extent = extent->later;
    return extent && extent->sequence <= until;
}

static bool has_extents(struct weir__debt *debt, uint64_t after, uint64_t until)
{
    struct weir__mapped *mapped = owner_of(debt);
    const struct weir__arena_stream *freed = weir__mapped_freed(debt);
    weir__spin_lock(&mapped->lock);
    bool has = is_in_queue(&freed->small, after, until) || is_in_queue(&freed->large, after, until);
    weir__spin_unlock(&mapped->lock);
    return has;
}

static uint64_t pass_extents(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step)
{
    struct weir__mapped *mapped = owner_of(debt);
    uint64_t bytes = 0;
    weir__spin_lock(&mapped->lock);
    if (to)
        bytes = weir__arena_pass_on(&mapped->arena, weir__mapped_freed(debt), after, until, freed_on(to), step);
    else
        weir__arena_complete(&mapped->arena, weir__mapped_freed(debt), until);
    weir__spin_unlock(&mapped->lock);
    return bytes;
}

const struct weir__tracker weir__mapped_tracker = {sizeof(struct weir__arena_stream), add_extent, has_extents, pass_extents};

/* Records a mark, so that other streams find the memory complete without recording one. `in_steps`: keeps a mark for each step, since
   streams wait for single steps. */
static void cover(struct weir__line *line, bool in_steps)
{
    if (in_steps)
        weir__line_cover(line, true);
    else
        weir__line_renew(line);
}

/* Returns whether that many bytes of frees on an OPEN line get a mark. An event costs a large block as much as all else about its free, so a
   large arena has fewer marks: with one for each 32nd of the arena, recorded training reserved 1 % more. */
static bool is_due(struct weir__mapped *mapped, uint64_t bytes)
{
    return bytes >= WEIR__STEP_BYTES && bytes >= weir__mapped_figures(mapped).mapped / STEP_SHARE;
}

int weir__mapped_give(struct weir__backing *backing, void *block, void *from, struct weir__user *user)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__extent *extent = from;
    struct weir__debt *debt = weir__mapped_debt(mapped, user);
    (void)block; /* the extent has the address */
    if (!debt)
        return WEIR__PAGE_NO_HOST_MEMORY;
    struct weir__line *line = debt->line;
    bool is_open = atomic_load(&line->kind) == WEIR__LINE_OPEN, covers = is_due(mapped, atomic_load(&line->uncovered) + extent->bytes);
    enum gpu_capture_mode mode = is_open && !covers ? GPU_CAPTURE_MODE_RELAXED : weir__relaxed_begin(backing->gpu);
    int code = weir__line_free(debt, extent->bytes, UINT64_MAX, &extent->sequence);
    if (is_open && covers)
        cover(line, atomic_load(&backing->pending_max) != UINT64_MAX);
    weir__relaxed_end(backing->gpu, mode);
    return code;
}
