/* SPDX-License-Identifier: MIT */
/*
 * sim_index.h - the segments of one pool's address range, and where to find them: free ones by size, live ones by address, gaps, and frees
 * that nobody has seen to have ended.
 *
 * All of it is the process's own and guarded by sim.lock. It decides nothing: what it finds is what a walk over all segments would find
 * (tests/unit/sim_index.c walks).
 *
 * A run is a longest row of neighbours that are free and not hidden. Its owner is 0 if each stream may have all of it, the id of a stream
 * if that stream may, else SIM_RUN_MIXED. As time passes a run may be for more streams than its owner says, but never for fewer: then it is
 * looked through once more, and gets its new owner.
 */
#ifndef WEIR_SIM_INDEX_H
#define WEIR_SIM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A handle is the address of the simulator's own struct, which has the name that CUDA gives to what such a handle points to. */
#define sim_stream CUstream_st
#define sim_pool CUmemPoolHandle_st

#define SIM_RUN_MIXED UINT64_MAX

struct sim_pool;
struct sim_stream;

/* A stretch of a pool's address range. The segments of a pool cover all of it, in order, without gaps. */
enum sim_segment_state {
    SIM_SEGMENT_ABSENT, /* no memory behind it */
    SIM_SEGMENT_FREE,
    SIM_SEGMENT_LIVE, /* a block */
};

struct sim_segment {
    struct sim_segment *prev, *next;
    uint64_t offset, size;
    enum sim_segment_state state;
    uint64_t asked; /* of a block: the bytes asked for, of which `size` is the next multiple of the pool's alignment */
    uint64_t source; /* of an imported block: its offset in the exporter's pool */
    bool exported; /* some of it was part of an exported block: it never goes back to the device */
    bool hidden;   /* exported, free, and no longer among the pool's reserved bytes */
    /* Of a free segment: */
    bool observed;     /* the host has seen a synchronise behind the free; the five fields below matter only until then */
    bool is_fresh;     /* it was observed, and sim_index_settle() has not told its run yet */
    int device;        /* of the stream that freed it */
    uint64_t freed_by; /* id of that stream */
    uint64_t sequence; /* of the free */
    uint64_t done_at;  /* when that stream gets to the free */
    /* Places in the index: */
    struct sim_segment *earlier, *later; /* in the list of gaps, of pending or of fresh segments, if it is one of these */
    union {
        struct sim_segment *head;  /* in the last segment of a run: the run's first */
        struct sim_segment *other; /* in a live segment: the next one in its bucket of `blocks` */
    };
    struct sim_segment *tail; /* in the first segment of a run, as are the fields below: the run's last */
    uint64_t run;             /* bytes of the run */
    uint64_t owner;
    struct sim_segment *left, *right; /* in the tree of runs, by owner, bytes and offset */
    uint32_t rank;                    /* a node's is no lower than those of its children */
};

/* Zero-initialise. */
struct sim_index {
    struct sim_segment *runs;
    size_t owned; /* runs that have an owner */
    struct sim_segment *gaps, *pending, *fresh; /* pending: free and not observed */
    struct sim_segment **blocks; /* a table of live segments, by offset */
    size_t block_room;           /* a power of two, or 0 */
};

static inline bool sim_segment_is_in_run(const struct sim_segment *segment)
{
    return segment && segment->state == SIM_SEGMENT_FREE && !segment->hidden;
}

/* Put a gap or a pending segment into its list, after the segment has become one, and take it out before it stops being one. Do nothing for
   other segments. They keep pool->unobserved right. */
void sim_index_list(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_unlist(struct sim_pool *pool, struct sim_segment *segment);

/* Makes room for one more live segment. Returns false if there is no host memory. */
bool sim_index_reserve(struct sim_pool *pool);
void sim_index_add_block(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_remove_block(struct sim_pool *pool, struct sim_segment *segment);
/* The live segment that begins there, or NULL. */
struct sim_segment *sim_index_block(const struct sim_pool *pool, uint64_t offset);

/* Takes the run with that segment out of the index. Does nothing for a segment that is in no run. */
void sim_run_leave(struct sim_pool *pool, struct sim_segment *segment);
/* Makes a run of the segment and its free neighbours, none of which is in the index. Does nothing for NULL, and for
   a segment that is not free, or hidden. */
void sim_run_enter(struct sim_pool *pool, struct sim_segment *segment);
/* A segment has become free: joins the runs beside it with it, and merges it with neighbours that do not differ from it. */
void sim_run_join(struct sim_pool *pool, struct sim_segment *segment);
/* Takes `size` bytes out of the run that begins with `head`: those from `segment` on, where the run has so many. The parts on either side
   stay in the index. Returns false, with nothing changed, if there is no host memory. */
bool sim_run_cut(struct sim_pool *pool, struct sim_segment *head, struct sim_segment *segment, uint64_t size);
/* Finds the owners of all runs anew, after streams lost the right to some of the memory. */
void sim_runs_reconsider(struct sim_pool *pool);
/* The first run that does not come before these three in the order of the tree: by owner, bytes and offset. NULL: there is none. */
struct sim_segment *sim_run_from(const struct sim_pool *pool, uint64_t owner, uint64_t bytes, uint64_t offset);

typedef bool (*sim_fits_fn)(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream);

/*
 * The smallest row of neighbours that fit and have so many bytes, the lowest of several; and the run that it is in. NULL: there is none.
 * `fits` is true of all that the stream may have as it is, and of nothing that is in no run.
 */
struct sim_segment *sim_index_best_fit(struct sim_pool *pool, uint64_t size, const struct sim_stream *stream, sim_fits_fn fits,
                                       struct sim_segment **head);

/* Notes that the segment is observed. Behind the last of them the caller calls sim_index_settle(), which tells the runs. */
void sim_index_observe(struct sim_pool *pool, struct sim_segment *segment);
void sim_index_settle(struct sim_pool *pool);

/* Frees the index of a pool that is closed. The segments are the caller's to free. */
void sim_index_clear(struct sim_index *index);

/* Whether everything that this header says is so. Looks at all segments. */
bool sim_index_is_valid(const struct sim_pool *pool);

#endif
