/* SPDX-License-Identifier: MIT */
/*
 * pending.h - frees on streams that were not opened, so that recovery and the keeper can wait for them.
 *
 * Weir may not touch such a stream later (it may be gone), so an event is recorded at once, behind the free. An event costs a third of the
 * free itself, so frees on one stream are summed up until they come to a growth step. What was freed since then pins what lies beside it
 * (measured): only the program's own synchronise, or opening the stream, helps against that. The legacy stream is never gone: it has
 * entries of its own, and an event behind what was summed up is recorded when somebody needs that memory.
 *
 * One entry for each stream handle, found by its hash; a later note on the same handle records the entry's event anew, or takes another
 * entry while somebody waits for that one, and another handle may take the entry over. CUDA gives a handle to another stream once its own
 * is destroyed, which its work outlives: that other stream takes another entry. A lost entry costs a rescue, never safety.
 * Owned by its device; `lock` is a leaf and is not held over CUDA calls: meanwhile an entry is claimed, by one thread that makes its next
 * event and by any number that wait for the one that it has.
 */
#ifndef WEIR_LIB_PENDING_H
#define WEIR_LIB_PENDING_H

#include <stdbool.h>

#include "lib/base/spin.h"
#include "lib/gpu/gpu.h"

#define WEIR__PENDING_MAX 64
#define WEIR__PENDING_WAYS 16 /* neighbours that a stream's entry can be in, so that streams with like hashes do not oust each other */
#define WEIR__PENDING_LEGACY_WAYS 8
/* The legacy stream's entries, which no other stream takes: the first counts what is freed there. */
#define WEIR__PENDING_LEGACY (WEIR__PENDING_MAX - WEIR__PENDING_LEGACY_WAYS)
#define WEIR__PENDING_DUE (UINT64_C(32) << 20) /* bytes freed on a stream after which an event is recorded: a growth step of a pool */

struct weir__pending_entry {
    gpu_stream stream;
    uintptr_t whose;    /* tells apart the streams that share a fixed handle: those of threads, and of devices; 0 for others */
    uint64_t id;        /* of the stream when its event was recorded; 0: the driver has no ids */
    gpu_event event;    /* NULL until first used */
    gpu_event unused;   /* for the next note, or NULL */
    uint64_t unnoted;   /* bytes freed since the event was recorded */
    uint64_t bytes;     /* bytes freed before it and not yet seen complete; 0: nothing to wait for */
    bool is_recording;  /* some thread makes its next event just now */
    unsigned users;     /* threads that claimed it, and wait for its event or look at it */
};

struct weir__pending {
    weir__spin lock;
    int device;   /* of the legacy stream that has an entry of its own */
    bool has_ids; /* the driver has ids of streams */
    struct weir__pending_entry entries[WEIR__PENDING_MAX];
};

void weir__pending_init(struct weir__pending *pending, int device, bool has_ids);
void weir__pending_destroy(struct weir__pending *pending, const struct gpu *gpu);

/* Adds a free just made on the stream; device: of a fixed handle, its own. true: an event is due: weir__pending_note(). */
bool weir__pending_is_due(struct weir__pending *pending, int device, gpu_stream stream, uint64_t bytes);

/* Takes back what was added since the last event: the stream turns out to be an opened one, which needs none, or was seen idle. */
uint64_t weir__pending_take(struct weir__pending *pending, int device, gpu_stream stream);

/* Puts an event behind all that was added, unless the stream captures. Failure is silent: only a rescue is lost. */
void weir__pending_note(struct weir__pending *pending, const struct gpu *gpu, int device, gpu_stream stream);

/* The same for the legacy stream of the table's device, if anything was added there since its last event. Waits while another thread
   puts one there: in that time the table does not have what was freed before it. */
void weir__pending_note_legacy(struct weir__pending *pending, const struct gpu *gpu);

/* Bytes that were freed before an event which nobody has seen complete; and those that were freed with no event behind them. */
struct weir__pending_figures {
    uint64_t noted, unnoted;
};

struct weir__pending_figures weir__pending_figures(struct weir__pending *pending);
/* The streams of the latter, but for fixed handles. Returns how many. */
size_t weir__pending_unnoted_streams(struct weir__pending *pending, gpu_stream streams[static WEIR__PENDING_MAX]);

/* A name that no stream has, and no other caller gets. */
uintptr_t weir__pending_name(void);
/* Notes so many bytes that were freed before an event, which is the table's from then on. For a stream of Weir's own that will be gone, by
   its name: a later event takes the place of an earlier one, which it stands for as well. */
void weir__pending_add(struct weir__pending *pending, const struct gpu *gpu, uintptr_t name, gpu_event event, uint64_t bytes);

/* Claims the entry with the most bytes, which *bytes gets, that is not in `seen` (a bit for each entry), whoever else waits for it; NULL
   when there is none left. Of what it returns only the event may be read. */
struct weir__pending_entry *weir__pending_claim(struct weir__pending *pending, uint64_t *seen, uint64_t *bytes);
/* Gives it back. done: its event was seen complete, or will never tell. */
void weir__pending_unclaim(struct weir__pending *pending, struct weir__pending_entry *entry, bool done);

#endif
