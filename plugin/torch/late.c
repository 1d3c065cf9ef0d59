/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/late.h"

#include <stdlib.h>

#include "lib/alloc/orphans.h"
#include "plugin/torch/history.h"
#include "plugin/torch/reserve.h"

/* Streams that use a block ------------------------------------------------------------------------------------------------------------- */

/* The lines (lib/fence/fence.h) of the streams that use a block or a part of a reserve, for weir__park(). */
struct users {
    struct weir__line **lines;
    size_t count;
};

static bool add_line(struct users *users, struct weir__line *line)
{
    if (line)
        users->lines[users->count++] = line;
    return line;
}

/* Adds the line of a stream that lives for ever. Returns false if the stream may be destroyed, or if host memory runs out. */
static bool add_user(struct users *users, struct torch_device *device, struct torch_stream *stream)
{
    struct weir__line *line = torch_stream_line(stream, device);
    if (line)
        weir__line_hold(line);
    return add_line(users, line);
}

/* Adds the line of the note's stream, which may be destroyed; the line is found by the stream's handle and id, and Weir uses the handle
   only if an allocation names the stream again. Returns false if the id is unknown, or if host memory runs out. */
static bool add_external(struct users *users, const struct torch_note *note)
{
    const struct weir__caller caller = {.handle = note->stream->handle, .id = note->id};
    return note->id && add_line(users, weir__line_of(note->device->device->fences, &caller));
}

/* Collects the lines of the note's own stream (is_external: it may be destroyed) and of all recorded streams. Returns false if one of them
   is unknown. users_end() must follow in both cases. */
static bool users_begin(struct users *users, const struct torch_note *note, bool is_external)
{
    *users = (struct users){.lines = calloc(note->recorded_count + 1, sizeof(struct weir__line *))};
    bool are_known = users->lines && !note->is_unknown;
    if (are_known && note->stream)
        are_known = is_external ? add_external(users, note) : add_user(users, note->device, note->stream);
    for (size_t i = 0; i < note->recorded_count && are_known; i++)
        are_known = add_user(users, note->device, note->recorded[i]);
    return are_known && users->count;
}

/* Frees the collection. The lines from index `from` on first get an event, so that what was parked becomes free as soon as possible.
   Streams that capture get their event later. */
static void users_end(const struct users *users, const struct torch_device *device, size_t from)
{
    enum gpu_capture_mode mode = from < users->count ? weir__relaxed_begin(device->gpu) : GPU_CAPTURE_MODE_RELAXED;
    for (size_t i = from; i < users->count; i++)
        weir__line_cover(users->lines[i], true);
    if (from < users->count)
        weir__relaxed_end(device->gpu, mode);
    for (size_t i = 0; i < users->count; i++)
        weir__line_put(users->lines[i]);
    free(users->lines);
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/* Makes the block an orphan that waits for its own stream and the recorded ones, or for all work of the process if one of them is unknown.
   The own stream gets no event now, since its later requests and frees come after its earlier work anyway. */
static void orphan(const struct torch_note *note, bool is_external)
{
    struct users users;
    bool waits = users_begin(&users, note, is_external);
    if (waits)
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITS, .ptr = note->ptr });
    bool is_done = weir__block_orphan(note->device->w, note->ptr, waits ? users.lines : NULL, users.count, NULL) == WEIR_OK;
    if (waits && !is_done)
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_GOES_ON, .ptr = note->ptr });
    users_end(&users, note->device, waits && is_done ? 1 : SIZE_MAX);
}

/* Frees a block that only its own stream uses, which is alive. Returns false if the block could not be freed and stays live. */
static bool free_plainly(struct torch_device *device, void *ptr, struct torch_stream *stream)
{
    weir_stream *opened = torch_stream_opened(stream, device);
    /* With cache.capture_check: false the cache does not check whether the stream captures. */
    if (atomic_load_explicit(&device->begun, memory_order_relaxed) && weir__handle_captures(device->device, stream->handle))
        return false;
    weir_status status = opened ? weir_stream_free(opened, ptr) : (weir_free)(device->w, ptr, stream->handle);
    /* NOT_A_BLOCK: torch frees memory that it does not have, and this function can report that to nobody. BUSY: the block is published, and
       its export frees it later. */
    return status == WEIR_OK || status == WEIR_NOT_A_BLOCK || status == WEIR_BUSY || status == WEIR_FORKED;
}

/* Removes the block's own stream from the recorded ones: the free is ordered behind that stream's work anyway. */
static void forget_own(struct torch_note *note, const struct torch_stream *stream)
{
    size_t count = 0;
    for (size_t i = 0; i < note->recorded_count; i++)
        if (note->recorded[i] != stream)
            note->recorded[count++] = note->recorded[i];
    note->recorded_count = count;
}

void torch_late_free(struct torch_device *device, void *ptr, struct torch_stream *stream, struct torch_note *note, bool is_alive)
{
    struct torch_note none = { .ptr = ptr }, *of = note ? note : &none;
    bool is_external = of->stream;
    of->device = device;
    /* The note's stream may have been opened since, as one that lives for ever. If the id is the same, free on it as usual, since no
       allocation would give the orphan back to it. If not, a later stream has the handle, and the note's id is of no use. */
    const weir_stream *opened = is_external ? torch_stream_opened(of->stream, device) : NULL;
    if (opened && of->id && of->id == opened->id) {
        is_external = false;
        stream = of->stream;
    }
    of->id = opened ? 0 : of->id;
    if (!is_external && stream) {
        of->stream = stream;
        forget_own(of, stream);
    }
    bool is_usable = stream && (is_external ? is_alive : atomic_load(&stream->lives));
    if (!is_usable || of->recorded_count || !free_plainly(device, ptr, stream))
        orphan(of, is_external);
    torch_note_free(note);
}

/* Parts of reserves -------------------------------------------------------------------------------------------------------------------- */

/* Parks the part of a reserve until the streams that use it have done their work; if one of them may be destroyed, and so may be of any
   device, until all work of all devices is done. Takes note->room. */
static void park(struct torch_note *note, const void *group)
{
    const weir *w = note->device->w;
    struct weir__line *wholes[TORCH_DEVICES_MAX];
    size_t count = 0;
    struct users users;
    bool are_known = users_begin(&users, note, false);
    for (; count < w->device_count && count < TORCH_DEVICES_MAX; count++)
        wholes[count] = w->devices[count].fences->whole;
    note->room->items = note->ptr;
    note->room->group = group;
    weir__park(note->device->device->fences, note->room, are_known ? users.lines : wholes, are_known ? users.count : count);
    note->room = NULL;
    users_end(&users, note->device, are_known ? 0 : SIZE_MAX);
}

/* Returns the parked parts of the group whose streams have done their work, as a list by `next`; NULL if there are none. waits: first waits
   for all marks that exist. */
static struct weir__parked *settled(struct torch_device *device, const void *group, bool waits)
{
    const struct weir__scope scope = {.fences = device->device->fences, .group = group, .is_parked = true};
    weir__scope_cover(&scope, false);
    if (weir__scope_needs_devices(&scope) && weir__quiet_begin(device->gpu)) {
        weir__scope_cover_devices(&scope, false);
        weir__quiet_end();
    }
    weir__scope_finish(&scope, waits ? UINT64_MAX : 0);
    return weir__fences_settled(scope.fences, group, NULL);
}

void torch_late_add(struct torch_device *device, struct torch_note *note)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    note->device = device;
    torch_reserve_wait(device, note->ptr);
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITS, .ptr = note->ptr });
    atomic_fetch_add(&torch_busy, 1);
    atomic_fetch_add(&device->late_count, 1);
    park(note, device);
    weir__relaxed_end(device->gpu, mode);
    torch_note_free(note);
    torch_late_retry(device);
}

bool torch_late_settle(struct torch_device *device, struct torch_note *note)
{
    note->device = device;
    if (!note->room)
        return !note->is_unknown;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    park(note, note);
    struct weir__parked *parked = settled(device, note, true);
    bool is_settled = parked;
    note->room = parked ? parked : weir__fences_unpark(device->device->fences, note);
    weir__relaxed_end(device->gpu, mode);
    return is_settled;
}

/* Parts of reserves are memory of graphs, and none is freed while something captures. */
void torch_late_retry(struct torch_device *device)
{
    bool left;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    weir__orphans_look(device->device, &left);
    struct weir__parked *parked = atomic_load(&device->late_count) && !atomic_load(&device->begun) ? settled(device, device, false) : NULL;
    for (struct weir__parked *next; parked; parked = next) {
        next = parked->next;
        torch_reserve_free(device, parked->items);
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_GOES_ON, .ptr = parked->items });
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_DONE, .ptr = parked->items });
        free(parked);
        atomic_fetch_sub(&device->late_count, 1);
        atomic_fetch_sub(&torch_busy, 1);
    }
    weir__relaxed_end(device->gpu, mode);
}
