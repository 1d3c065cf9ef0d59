/* SPDX-License-Identifier: MIT */
/*
 * script.h - what the program of a trace did, without what Weir did for it: requests, frees, streams and the program's own time, small
 * enough to be done again many times.
 *
 * Made from a trace that is open and stays so: names are the trace's. Owned by its maker; never changes afterwards.
 */
#ifndef WEIR_REPLAY_SCRIPT_H
#define WEIR_REPLAY_SCRIPT_H

#include "tools/replay/unaware.h"
#include "trace/merge.h"

enum script_what {
    SCRIPT_NOTHING, /* was taken back */
    SCRIPT_MALLOC,
    SCRIPT_FREE,
    SCRIPT_OPEN,  /* a stream */
    SCRIPT_CLOSE,
    SCRIPT_SYNCHRONISE,
    SCRIPT_TRIM,
    SCRIPT_REFUSED, /* a request that found no memory; what the program would have done with it is not known */
};

#define SCRIPT_TIME_MAX (UINT64_C(1) << 62) /* ns; later times are of no recorder, and a clock that overflows would stand still */
#define SCRIPT_THREADS_MAX 65536
#define SCRIPT_STREAMS_MAX 65536
#define SCRIPT_POOLS_MAX 65536
#define SCRIPT_LABELS_MAX 65535 /* what more there are is not told apart */

struct script_op {
    uint64_t at;   /* ns since the trace began: when it was recorded */
    uint64_t time; /* ns of the thread's own time since the trace began: less what it had waited for memory */
    uint64_t size; /* of a request, bytes; of a trim, when it was over in the recording */
    uint32_t block; /* the place of a block: used again once it is freed */
    uint16_t thread, stream, pool;
    uint16_t label; /* of a request its tag, of an opening the stream's name: 1 + the place in `labels`; 0: none */
    uint8_t what;
};

struct script_stream {
    uint64_t handle;
    bool is_opened; /* with Weir, at some time */
};

/* What the program gave names to. */
struct script_label {
    const char *text;
    bool is_stream; /* else a tag */
};

struct script_growth {
    uint64_t count, bytes, time; /* ns */
};

/* What the recording says of itself, beside which a replay of the recorded policy is held. Only what a replay counts alike: of calls a recording
   has the slow ones, and what a pool gave back at a synchronise it does not see. */
struct script_recorded {
    struct script_growth pools, arenas; /* what growing took, without */
    struct script_growth first;         /* the first growth of a CUDA pool */
    uint64_t peak_reserved, peak_live, stall, refused;
    uint64_t most; /* that the pools may have by their caps: beyond it is only what goes back at once. UINT64_MAX: no bound */
    bool has_reserved;
};

struct script {
    struct trace *trace;
    struct script_op *ops;
    size_t count, room;
    struct script_stream *streams;
    size_t stream_count, stream_room;
    const struct trace_pool **pools;
    size_t pool_count, pool_room;
    struct script_label *labels; /* in the order in which they come */
    size_t label_count, label_room;
    size_t thread_count, block_count;
    size_t asking_count; /* threads that made requests */
    uint64_t begin, end; /* of the recording, ns */
    uint64_t memory; /* bytes of all devices; UINT64_MAX: not known. What CUDA took from one pool for another would count in both beyond it */
    uint64_t requests, graphs, settings, unknown_frees; /* graphs and settings: events that are left out */
    struct script_recorded recorded;
    struct script_unaware unaware;
    bool has_caches;  /* the trace tells of calls that caches served, so that they can be replayed */
    bool has_synchronises;
    bool ends_refused; /* with the refusal that is asked about, whose own time is in no stall */
};

/* false after a complaint: the trace could not be read, or has more threads, streams or pools than a script can have. */
bool script_make(struct script *script, struct trace *trace);
/* The same of the first `events` of the trace, as if it ended with the last operation among them. */
bool script_make_until(struct script *script, struct trace *trace, uint64_t events);
void script_free(struct script *script);

/* The name by which a policy may have the pool; NULL: it is an unaware program's, for which the default pool stands in. */
static inline const char *script_pool_name(const struct trace_pool *pool)
{
    return pool->flags & TRACE_POOL_UNAWARE ? NULL : pool->name;
}

/* Devices that the script uses, at least 1. */
unsigned script_devices(const struct script *script);

#endif
