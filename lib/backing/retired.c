/* SPDX-License-Identifier: MIT */
#include "lib/backing/retired.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/spin.h"

#define NOTES_FEW 16

/* A free that CUDA's figures leave out. */
struct note {
    struct note *next;
    gpu_event event;
};

struct weir__retired {
    struct weir__retired *next;
    const struct gpu *gpu;
    gpu_pool handles[2]; /* NULL: gone, or there was none */
    bool are_noted;      /* the notes below tell whether all frees are complete */
    weir__spin lock;     /* a leaf, guards the rest */
    struct note *notes;
    struct note spare; /* for the free that finds no host memory */
    bool is_spare_used;
    size_t note_count, note_limit; /* beyond the limit those that are complete are looked for */
    bool is_unknown;               /* some free has no event, so that the pool stays for good */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__retired *_Atomic first; /* changed under lock */

bool weir__retired_is_complete(const struct gpu *gpu, gpu_pool handle)
{
    uint64_t reserved = 0;
    int code = gpu->pool_trim(handle, 0);
    if (code == GPU_SUCCESS)
        code = gpu->pool_get(handle, GPU_POOL_RESERVED, &reserved);
    /* A driver without figures cannot be asked; one that refuses the pool has lost it. Neither is worth keeping the pool for. */
    return code != GPU_SUCCESS || reserved == 0;
}

/* Frees that CUDA's figures leave out -------------------------------------------------------------------------------------------------- */

static struct note *take_notes(struct weir__retired *retired)
{
    weir__spin_lock(&retired->lock);
    struct note *notes = retired->notes;
    retired->notes = NULL;
    retired->note_count = 0;
    weir__spin_unlock(&retired->lock);
    return notes;
}

static void add_note(struct weir__retired *retired, struct note *note)
{
    weir__spin_lock(&retired->lock);
    note->next = retired->notes;
    retired->notes = note;
    retired->note_count++;
    weir__spin_unlock(&retired->lock);
}

void weir__retired_note_unknown(struct weir__retired *retired)
{
    weir__spin_lock(&retired->lock);
    retired->is_unknown = true;
    weir__spin_unlock(&retired->lock);
}

static struct note *new_note(struct weir__retired *retired)
{
    struct note *note = malloc(sizeof *note);
    if (note)
        return note;
    weir__spin_lock(&retired->lock);
    if (!retired->is_spare_used)
        note = &retired->spare;
    retired->is_spare_used = true;
    weir__spin_unlock(&retired->lock);
    return note;
}

static void free_note(struct weir__retired *retired, struct note *note)
{
    if (note != &retired->spare) {
        free(note);
        return;
    }
    weir__spin_lock(&retired->lock);
    retired->is_spare_used = false;
    weir__spin_unlock(&retired->lock);
}

bool weir__retired_is_free(struct weir__retired *retired, const struct gpu *gpu)
{
    for (struct note *note = take_notes(retired), *next; note; note = next) {
        next = note->next;
        if (weir__event_wait(gpu, note->event, 0)) {
            gpu->event_destroy(note->event);
            free_note(retired, note);
        } else {
            add_note(retired, note);
        }
    }
    weir__spin_lock(&retired->lock);
    bool is_free = !retired->notes && !retired->is_unknown;
    size_t twice = 2 * retired->note_count;
    retired->note_limit = twice > NOTES_FEW ? twice : NOTES_FEW;
    weir__spin_unlock(&retired->lock);
    return is_free;
}

/* Tried twice, since a free without an event keeps its pool for good. */
static bool record_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event)
{
    int its_own = weir__event_device(gpu, device, stream);
    bool is_recorded = false;
    for (int attempt = 0; attempt < 2 && !is_recorded; attempt++)
        is_recorded = weir__event_behind(gpu, its_own, stream, event);
    return is_recorded;
}

void weir__retired_note(struct weir__retired *retired, const struct gpu *gpu, int device, gpu_stream stream)
{
    struct note *note = new_note(retired);
    if (note && record_behind(gpu, device, stream, &note->event)) {
        add_note(retired, note);
    } else {
        if (note)
            free_note(retired, note);
        weir__retired_note_unknown(retired);
    }
    weir__spin_lock(&retired->lock);
    bool is_full = retired->note_count > retired->note_limit;
    weir__spin_unlock(&retired->lock);
    if (is_full)
        weir__retired_is_free(retired, gpu);
}

/* Destroying --------------------------------------------------------------------------------------------------------------------------- */

static bool is_gone(const struct weir__retired *retired)
{
    return !retired->handles[0] && !retired->handles[1];
}

/* Destroys what of it can be destroyed. Returns the code of a destroy that failed, which the next sweep tries again. */
static int try_destroy(struct weir__retired *retired)
{
    const struct gpu *gpu = retired->gpu;
    int code = GPU_SUCCESS;
    if (!weir__retired_is_free(retired, gpu))
        return code;
    for (size_t i = 0; i < 2; i++) {
        if (!retired->handles[i] || (!retired->are_noted && !weir__retired_is_complete(gpu, retired->handles[i])))
            continue;
        int destroyed = gpu->pool_destroy(retired->handles[i]);
        if (destroyed == GPU_SUCCESS)
            retired->handles[i] = NULL;
        else
            code = destroyed;
    }
    return code;
}

static void push(struct weir__retired *retired)
{
    pthread_mutex_lock(&lock);
    retired->next = atomic_load(&first);
    atomic_store(&first, retired);
    pthread_mutex_unlock(&lock);
}

struct weir__retired *weir__retired_reserve(void)
{
    struct weir__retired *retired = calloc(1, sizeof *retired);
    if (retired) {
        weir__spin_init(&retired->lock);
        retired->note_limit = NOTES_FEW;
    }
    return retired;
}

int weir__retired_add(struct weir__retired *retired, const struct gpu *gpu, gpu_pool handle, gpu_pool small, bool are_noted)
{
    retired->are_noted = are_noted;
    retired->gpu = gpu;
    retired->handles[0] = handle;
    retired->handles[1] = small;
    int code = try_destroy(retired);
    for (size_t i = 0; i < 2; i++)
        if (retired->handles[i])
            gpu->pool_set(retired->handles[i], GPU_POOL_RELEASE_THRESHOLD, 0);
    if (is_gone(retired))
        free(retired);
    else
        push(retired);
    return code;
}

void weir__retired_sweep(const struct gpu *gpu)
{
    if (!atomic_load(&first))
        return;
    pthread_mutex_lock(&lock);
    struct weir__retired *all = atomic_exchange(&first, NULL);
    pthread_mutex_unlock(&lock);
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    while (all) {
        struct weir__retired *retired = all;
        all = all->next;
        if (retired->gpu == gpu)
            try_destroy(retired);
        if (is_gone(retired))
            free(retired);
        else
            push(retired);
    }
    weir__relaxed_end(gpu, mode);
}
