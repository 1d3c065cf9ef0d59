/* SPDX-License-Identifier: MIT */
#include "lib/pool/pending.h"

#include <stdatomic.h>
#include <stddef.h>

#include "lib/base/context.h"
#include "lib/base/event.h"

/* Its address is this thread's name. */
static __thread char thread_name;

void weir__pending_init(struct weir__pending *pending, int device, bool has_ids)
{
    *pending = (struct weir__pending){ .device = device, .has_ids = has_ids };
    for (size_t i = WEIR__PENDING_LEGACY; i < WEIR__PENDING_MAX; i++) {
        pending->entries[i].stream = GPU_STREAM_LEGACY;
        pending->entries[i].whose = (uintptr_t)device;
    }
    weir__spin_init(&pending->lock);
}

void weir__pending_destroy(struct weir__pending *pending, const struct gpu *gpu)
{
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++) {
        if (pending->entries[i].event)
            gpu->event_destroy(pending->entries[i].event);
        if (pending->entries[i].unused)
            gpu->event_destroy(pending->entries[i].unused);
    }
}

/* Which of the streams with that handle it is. */
static uintptr_t owner_of(int device, gpu_stream stream)
{
    if (!weir__handle_is_fixed(stream))
        return 0;
    return stream == GPU_STREAM_PER_THREAD ? (uintptr_t)&thread_name : (uintptr_t)device;
}

/* The entry that the stream's can be in as the i-th of `ways`. */
struct home {
    size_t first, ways;
};

/* Whether it is the table's own legacy stream. That of another device may free blocks of this one, and is as any other. */
static bool is_legacy(const struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    return stream == GPU_STREAM_LEGACY && whose == (uintptr_t)pending->device;
}

static struct home home_of(const struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    uint64_t hashed = ((uint64_t)(uintptr_t)stream ^ whose) * UINT64_C(0x9E3779B97F4A7C15);
    if (is_legacy(pending, stream, whose))
        return (struct home){ WEIR__PENDING_LEGACY, WEIR__PENDING_LEGACY_WAYS };
    return (struct home){ (hashed >> 32) % WEIR__PENDING_LEGACY, WEIR__PENDING_WAYS };
}

static struct weir__pending_entry *entry_at(struct weir__pending *pending, struct home home, size_t i)
{
    return &pending->entries[home.first == WEIR__PENDING_LEGACY ? home.first + i : (home.first + i) % WEIR__PENDING_LEGACY];
}

/* The legacy stream has two names. */
static gpu_stream one_name(gpu_stream stream)
{
    return stream ? stream : GPU_STREAM_LEGACY;
}

_Static_assert(WEIR__PENDING_MAX == 64, "weir__pending_claim() has a bit for each entry");

/* Whether its event may be recorded anew: nobody does, and nobody waits for it. Called with the lock. */
static bool is_idle(const struct weir__pending_entry *entry)
{
    return !entry->is_recording && entry->users == 0;
}

/* The stream's entry whose event may be recorded anew, or NULL. One that somebody waits for keeps its event, and stands for what was freed
   before: what is freed meanwhile gets an entry of its own. Called with the lock. */
static struct weir__pending_entry *find(struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    struct home home = home_of(pending, stream, whose);
    for (size_t i = 0; i < home.ways; i++) {
        struct weir__pending_entry *entry = entry_at(pending, home, i);
        if (entry->stream == stream && entry->whose == whose && is_idle(entry))
            return entry;
    }
    return NULL;
}

/* Takes over the entry that stands for the fewest bytes, or returns NULL. Called with the lock. */
static struct weir__pending_entry *take_over(struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    struct weir__pending_entry *least = NULL;
    struct home home = home_of(pending, stream, whose);
    for (size_t i = 0; i < home.ways; i++) {
        struct weir__pending_entry *entry = entry_at(pending, home, i);
        if (is_idle(entry) && (!least || entry->bytes + entry->unnoted < least->bytes + least->unnoted))
            least = entry;
    }
    if (least && (least->stream != stream || least->whose != whose)) {
        least->stream = stream;
        least->whose = whose;
        least->unnoted = least->bytes = 0;
    }
    return least;
}

static struct weir__pending_entry *find_or_take_over(struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    struct weir__pending_entry *entry = find(pending, stream, whose);
    return entry ? entry : take_over(pending, stream, whose);
}

bool weir__pending_is_due(struct weir__pending *pending, int device, gpu_stream stream, uint64_t bytes)
{
    uintptr_t whose = owner_of(device, stream);
    stream = one_name(stream);
    weir__spin_lock(&pending->lock);
    /* The legacy stream's entry counts on while somebody waits for it. */
    struct weir__pending_entry *entry = is_legacy(pending, stream, whose) ? &pending->entries[WEIR__PENDING_LEGACY]
                                                                          : find_or_take_over(pending, stream, whose);
    if (entry)
        entry->unnoted += bytes;
    bool is_due = entry && entry->unnoted >= WEIR__PENDING_DUE;
    weir__spin_unlock(&pending->lock);
    return is_due;
}

/* What was freed on the stream and not noted, in whichever of its entries. Called with the lock. */
static uint64_t take_unnoted(struct weir__pending *pending, gpu_stream stream, uintptr_t whose)
{
    struct home home = home_of(pending, stream, whose);
    uint64_t bytes = 0;
    for (size_t i = 0; i < home.ways; i++) {
        struct weir__pending_entry *entry = entry_at(pending, home, i);
        if (entry->stream != stream || entry->whose != whose)
            continue;
        bytes += entry->unnoted;
        entry->unnoted = 0;
    }
    return bytes;
}

uint64_t weir__pending_take(struct weir__pending *pending, int device, gpu_stream stream)
{
    uintptr_t whose = owner_of(device, stream);
    stream = one_name(stream);
    weir__spin_lock(&pending->lock);
    uint64_t bytes = take_unnoted(pending, stream, whose);
    weir__spin_unlock(&pending->lock);
    return bytes;
}

/* Of a stream that does not capture, as was just seen; 0: it is not known, or it is the legacy stream, which is always the same. */
static uint64_t id_of(const struct weir__pending *pending, const struct gpu *gpu, int device, gpu_stream stream)
{
    uint64_t id = 0;
    if (!pending->has_ids || stream == GPU_STREAM_LEGACY)
        return 0;
    int former = weir__current_begin(gpu, device, stream);
    int code = gpu->stream_id(stream, &id);
    weir__current_end(gpu, former);
    return code == GPU_SUCCESS ? id : 0;
}

void weir__pending_note(struct weir__pending *pending, const struct gpu *gpu, int device, gpu_stream stream)
{
    uintptr_t whose = owner_of(device, stream);
    stream = one_name(stream);
    uint64_t noted = 0;
    gpu_event made = NULL, unused = NULL;
    weir__spin_lock(&pending->lock);
    struct weir__pending_entry *entry = find_or_take_over(pending, stream, whose), *first = entry;
    if (entry) {
        noted = take_unnoted(pending, stream, whose);
        entry->is_recording = true;
        made = entry->unused;
        entry->unused = NULL;
    }
    weir__spin_unlock(&pending->lock);
    if (!entry)
        return;

    /* Another event: if the stream turns out to capture, that of the frees before it is still good. So it is for who has begun to wait for
       it meanwhile, and the other one gets an entry of its own. */
    bool is_made = (made && weir__event_move(gpu, device, stream, &made)) ||
                   weir__event_behind(gpu, weir__event_device(gpu, device, stream), stream, &made);
    uint64_t id = is_made ? id_of(pending, gpu, device, stream) : 0;
    weir__spin_lock(&pending->lock);
    entry->is_recording = false;
    bool is_other = is_made && entry->bytes && entry->id != id;
    if (is_other) {
        entry->stream = NULL; /* as in weir__pending_add() */
        entry->whose = weir__pending_name();
    }
    if (is_made && (entry->users || is_other))
        entry = take_over(pending, stream, whose);
    if (is_made && entry) {
        unused = entry->event;
        entry->event = made;
        entry->id = id;
        entry->bytes += noted;
    } else {
        unused = is_made ? made : NULL;
        if (is_legacy(pending, stream, whose))
            pending->entries[WEIR__PENDING_LEGACY].unnoted += noted;
        else if (first->stream == stream && first->whose == whose)
            first->unnoted += noted;
    }
    bool has_room = !first->unused;
    if (has_room)
        first->unused = unused;
    weir__spin_unlock(&pending->lock);
    if (unused && !has_room)
        gpu->event_destroy(unused);
}

/* Whether some thread makes an event of the legacy stream just now. *is_due: something was freed there with no event behind it. */
static bool is_noting_legacy(struct weir__pending *pending, bool *is_due)
{
    bool is_recording = false;
    weir__spin_lock(&pending->lock);
    *is_due = pending->entries[WEIR__PENDING_LEGACY].unnoted;
    for (size_t i = WEIR__PENDING_LEGACY; i < WEIR__PENDING_MAX; i++)
        is_recording = is_recording || pending->entries[i].is_recording;
    weir__spin_unlock(&pending->lock);
    return is_recording;
}

void weir__pending_note_legacy(struct weir__pending *pending, const struct gpu *gpu)
{
    unsigned pauses = 0;
    bool is_due;
    while (is_noting_legacy(pending, &is_due))
        weir__spin_back_off(&pauses);
    if (is_due)
        weir__pending_note(pending, gpu, pending->device, GPU_STREAM_LEGACY);
}

struct weir__pending_figures weir__pending_figures(struct weir__pending *pending)
{
    struct weir__pending_figures figures = { .noted = 0 };
    weir__spin_lock(&pending->lock);
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++) {
        figures.noted += pending->entries[i].bytes;
        figures.unnoted += pending->entries[i].unnoted;
    }
    weir__spin_unlock(&pending->lock);
    return figures;
}

size_t weir__pending_unnoted_streams(struct weir__pending *pending, gpu_stream streams[static WEIR__PENDING_MAX])
{
    size_t count = 0;
    weir__spin_lock(&pending->lock);
    for (size_t i = 0; i < WEIR__PENDING_LEGACY; i++) {
        const struct weir__pending_entry *entry = &pending->entries[i];
        if (entry->unnoted && entry->stream && !weir__handle_is_fixed(entry->stream))
            streams[count++] = entry->stream;
    }
    weir__spin_unlock(&pending->lock);
    return count;
}

uintptr_t weir__pending_name(void)
{
    static _Atomic uintptr_t last = (uintptr_t)1 << 32; /* beyond the numbers of devices, which owner_of() gives */
    return atomic_fetch_add(&last, 1) + 1;
}

void weir__pending_add(struct weir__pending *pending, const struct gpu *gpu, uintptr_t name, gpu_event event, uint64_t bytes)
{
    gpu_event unused = event;
    weir__spin_lock(&pending->lock);
    struct weir__pending_entry *entry = find_or_take_over(pending, NULL, name);
    if (entry) {
        unused = entry->event;
        entry->event = event;
        entry->bytes = entry->bytes > bytes ? entry->bytes : bytes;
    }
    weir__spin_unlock(&pending->lock);
    if (unused)
        gpu->event_destroy(unused);
}

struct weir__pending_entry *weir__pending_claim(struct weir__pending *pending, uint64_t *seen, uint64_t *bytes)
{
    struct weir__pending_entry *largest = NULL;
    weir__spin_lock(&pending->lock);
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++) {
        struct weir__pending_entry *entry = &pending->entries[i];
        bool open = entry->bytes && !(*seen >> i & 1);
        if (open && (!largest || entry->bytes > largest->bytes))
            largest = entry;
    }
    if (largest) {
        largest->users++;
        *bytes = largest->bytes;
        *seen |= UINT64_C(1) << (largest - pending->entries);
    }
    weir__spin_unlock(&pending->lock);
    return largest;
}

void weir__pending_unclaim(struct weir__pending *pending, struct weir__pending_entry *entry, bool done)
{
    weir__spin_lock(&pending->lock);
    if (done)
        entry->bytes = 0;
    entry->users--;
    weir__spin_unlock(&pending->lock);
}
