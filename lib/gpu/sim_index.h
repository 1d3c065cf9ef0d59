/* SPDX-License-Identifier: MIT */
/*
 * sim_index.h - the index of the segments in one pool's address range: it finds free segments by size, live segments by address, gaps
 * (absent segments), and free segments whose free is not observed yet.
 *
 * All of it belongs to this process and is guarded by sim.lock. The index decides nothing: it finds what a walk over all segments would
 * find (tests/unit/sim_index.c compares the two).
 *
 * A *run* is a longest row of neighbouring segments that are free and not hidden. Its owner is 0 if every stream may use all of it, the id
 * of a stream if only that stream may, and SIM_RUN_MIXED otherwise. As time passes, more streams than the owner may be allowed to use a
 * run, but never fewer. The next search that looks through the run then updates its owner.
 */
#ifndef WEIR_SIM_INDEX_H
#define WEIR_SIM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A handle is the address of the simulator's own struct, which therefore has the name that CUDA gives to the target of the handle. */
#define sim_stream CUstream_st
#define sim_pool CUmemPoolHandle_st

#define SIM_RUN_MIXED UINT64_MAX

struct sim_pool;
struct sim_stream;

/* A segment is a part of a pool's address range. The segments of a pool cover the whole range, in order. */
enum sim_segment_state {
    SIM_SEGMENT_ABSENT, /* addresses without memory */
    SIM_SEGMENT_FREE,
    SIM_SEGMENT_LIVE, /* an allocated block */
};

struct sim_segment {
    struct sim_segment *prev, *next;
    uint64_t offset, size;
    enum sim_segment_state state;
    uint64_t asked; /* of a block: the requested bytes; `size` is the next multiple of the pool's alignment */
    uint64_t source; /* of an imported block: its offset in the exporter's pool */
    bool exported; /* a part of it was in an exported block: its memory never goes back to the device */
    bool hidden;   /* exported, free, and not counted in the pool's reserved bytes any more */
    /* Of a free segment: */
    bool observed;     /* the host has seen a synchronise after the free; until then the five fields below matter */
    bool is_fresh;     /* it was observed, but sim_index_settle() has not updated its run yet */
    int device;        /* the device of the freeing stream */
    uint64_t freed_by; /* the id of the freeing stream */
    uint64_t sequence; /* the sequence number of the free */
    uint64_t done_at;  /* the time at which that stream reaches the free */
    /* Links of the index: */
    struct sim_segment *earlier, *later; /* in the list of gaps, of pending segments or of fresh segments, if it is in one */
    union {
        struct sim_segment *head;  /* in the last segment of a run: the run's first */
        struct sim_segment *other; /* in a live segment: the next one in its bucket of `blocks` */
    };
    struct sim_segment *tail; /* in the first segment of a run, like the fields below: the run's last */
    uint64_t run;             /* bytes of the run */
    uint64_t owner;
    struct sim_segment *left, *right; /* in the tree of runs, by owner, bytes and offset */
    uint32_t rank;                    /* not lower than the ranks of its children */
};

/* Zero-initialised, this is an empty index. */
struct sim_index {
    struct sim_segment *runs;
    size_t owned; /* number of runs whose owner is not 0 */
    struct sim_segment *gaps, *pending, *fresh; /* pending: free and not observed; fresh: is_fresh */
    struct sim_segment **blocks; /* a table of live segments, by offset */
    size_t block_room;           /* a power of two, or 0 */
};

static inline bool sim_segment_is_in_run(const struct sim_segment *segment)
{
    return segment && segment->state == SIM_SEGMENT_FREE && !segment->hidden;
}

/* sim_index_list() puts a segment that has become a gap or pending into its list; sim_index_unlist() takes it out before it stops being
   one. Both keep pool->unobserved up to date, and do nothing for other segments. */
void sim_index_list(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_unlist(struct sim_pool *pool, struct sim_segment *segment);

/* Makes room for one more live segment. Returns false if host memory runs out. */
bool sim_index_reserve(struct sim_pool *pool);
void sim_index_add_block(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_remove_block(struct sim_pool *pool, struct sim_segment *segment);
/* Returns the live segment that begins at the offset, or NULL. */
struct sim_segment *sim_index_block(const struct sim_pool *pool, uint64_t offset);

/* Removes the run that contains the segment from the index. Does nothing for a segment that is in no run. */
void sim_run_leave(struct sim_pool *pool, struct sim_segment *segment);
/* Makes a run of the segment and its free neighbours, none of which is in the index. Does nothing for NULL, or for a segment that is hidden
   or not free. */
void sim_run_enter(struct sim_pool *pool, struct sim_segment *segment);
/* For a segment that has become free: joins it with the runs beside it, and merges it with neighbours that do not differ from it. */
void sim_run_join(struct sim_pool *pool, struct sim_segment *segment);
/* Removes `size` bytes from the run that begins with `head`: those from `segment` on, where the run has this many. The parts before and
   after stay in the index. Returns false, and changes nothing, if host memory runs out. */
bool sim_run_cut(struct sim_pool *pool, struct sim_segment *head, struct sim_segment *segment, uint64_t size);
/* Computes the owners of all runs again, after streams have lost the right to use some of the memory. */
void sim_runs_reconsider(struct sim_pool *pool);
/* Returns the first run that does not come before these three values in the tree's order (owner, bytes, offset), or NULL if there is
   none. */
struct sim_segment *sim_run_from(const struct sim_pool *pool, uint64_t owner, uint64_t bytes, uint64_t offset);

typedef bool (*sim_fits_fn)(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream);

/* Returns the smallest row of neighbouring segments for which `fits` is true and which together have `size` bytes, and sets *head to its
   run. Of several such rows it returns the one with the lowest address. Returns NULL if there is none. `fits` must be true for all memory
   that the stream may use without a wait, and false for segments that are in no run. */
struct sim_segment *sim_index_best_fit(struct sim_pool *pool, uint64_t size, const struct sim_stream *stream, sim_fits_fn fits,
                                       struct sim_segment **head);

/* sim_index_observe() marks a segment as observed. After the last one the caller calls sim_index_settle(), which updates the runs. */
void sim_index_observe(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_settle(struct sim_pool *pool);

/* Frees the index of a pool that is closed. The caller frees the segments. */
void sim_index_clear(struct sim_index *index);

/* Returns whether everything that this header says is true. Looks at all segments. */
bool sim_index_is_valid(const struct sim_pool *pool);

#endif
