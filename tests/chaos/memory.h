/* SPDX-License-Identifier: MIT */
/*
 * memory.h - one program that allocates: a machine, a policy, threads (lanes) with streams of their own, and what they do, all from a seed.
 *
 * memory.c makes the machine, runs the lanes in rounds, and judges between two rounds, when everybody is quiet. memory_plan.c is what the seed
 * decides of all of it, memory_lane.c is what a lane does, memory_ask.c how it asks, memory_nap.c has arenas sleep, and
 * memory_vain.c is about requests that nothing can serve.
 */
#ifndef WEIR_TESTS_CHAOS_MEMORY_H
#define WEIR_TESTS_CHAOS_MEMORY_H

#include <pthread.h>

#include "lib/gpu/gpu.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/model.h"
#include "tests/chaos/random.h"

#define MIB (UINT64_C(1) << 20)
#define MILLISECOND UINT64_C(1000000)

#define LANES_MAX 16
#define LANES_FEW 6 /* the most that a plan has, but for one of many lanes */
#define KEPT_MAX 48
#define SPARE_MAX 4
#define CROWD_MAX 96
#define WITNESSES 8192 /* copies that a round can make of blocks' ends, on each device */
#define POLICIES 3     /* that are reloaded in turn; the first is opened */
#define DEVICES_MAX 2
#define NAMES 2        /* pools of the policy, on each device */
#define OTHER NAMES    /* the pool of another weir of the process */
#define POOLS (NAMES + 1)
#define FOREIGN POOLS  /* one that is not Weir's */
#define POLICY_TEXT_SIZE 2048

/* What a program does beyond the rest. A plain program does none of it: its seed means what it meant before there was any. */
struct extras {
    bool asks_in_vain;    /* requests that nothing can serve, between rounds */
    bool frees_anywhere;  /* on the legacy stream, and small blocks on streams that nobody opened */
    bool has_other;       /* another weir, with a pool on each device */
    bool throws;          /* callbacks throw; where time is real, they end their threads, and threads are cancelled */
    bool naps;            /* arenas sleep and yield between rounds */
    unsigned bounds;      /* two bits for each pool of each policy: its reuse.pending_max */
};

/* What the seed decides of a program as a whole. */
struct plan {
    bool is_virtual;
    int devices;
    uint64_t memory, caps[NAMES]; /* 0: no cap */
    bool has_twin, is_whole, exact_peaks, keeper, reloads;
    unsigned arenas; /* a bit for each pool that is one */
    unsigned lanes, operations, rounds;
    unsigned fill;     /* per cent of the bound that all lanes together keep at most */
    uint64_t deadline, longest_delay; /* nanoseconds */
    uint64_t deadlines[POLICIES];
    unsigned crowd;    /* streams that are busy all the time */
    bool slow_refusals;
    unsigned fault_once_in;
    struct extras extras;
    uint64_t other_cap;
};

struct block {
    void *ptr;
    uint64_t size;
    size_t number; /* in the model */
    size_t pool;
    int device;
    unsigned char mark;
    gpu_event made; /* behind its mark */
};

/* Copies of a block's first and last byte, made by a stream in its order, and what they are to be once it came there. */
struct witness {
    unsigned char *first, *last;
    unsigned char mark;
};

/* Small blocks that were freed on a refuge since the model last took such for seen. Those that have no place here are seen behind the round. */
struct unseen {
    uint64_t bytes;
    size_t numbers[256], count;
};

struct lane {
    struct program *program;
    pthread_t thread;
    unsigned number;
    int device;
    struct chaos_random random, extra; /* what is extra has numbers of its own */
    weir_stream *s, *other;            /* the other weir knows the stream, too */
    gpu_stream stream;
    pthread_t self;         /* the thread as it calls itself, */
    atomic_bool is_running; /* which it has done */
    bool owns_stream; /* Weir was only told of it */
    bool is_foreign; /* something that is not Weir's was freed on the stream */
    struct block kept[KEPT_MAX];
    size_t count;
    uint64_t bytes;
};

struct program {
    struct plan plan;
    struct chaos_random extra, naps;
    const struct gpu *gpu;
    weir *w, *other; /* NULL: there is no other */
    struct model *model;
    weir_pool *pools[POOLS][DEVICES_MAX];
    gpu_pool filler[DEVICES_MAX], foreign[DEVICES_MAX], witness_pools[DEVICES_MAX];
    unsigned char *witness_bytes[DEVICES_MAX];
    struct witness witnesses[DEVICES_MAX][WITNESSES];
    atomic_size_t witness_count[DEVICES_MAX];
    gpu_stream refuge[DEVICES_MAX]; /* not opened */
    weir_stream *crowd[CROWD_MAX];
    bool is_napping; /* no work may use blocks, not even to look at those that the callback frees */
    int policies[POLICIES]; /* descriptors of their texts */
    pthread_mutex_t lock;   /* of what follows */
    struct block passed[16]; /* from lane to lane */
    struct block spare[SPARE_MAX + LANES_MAX]; /* for the callback; each lane may put one back that it could not free */
    size_t passed_count, spare_count;
    atomic_uint marks;
    struct lane lanes[LANES_MAX];
    struct unseen unseen[POOLS][DEVICES_MAX];
    atomic_uint_fast64_t failures[POOLS][DEVICES_MAX];
    atomic_uint_fast64_t served[POOLS][DEVICES_MAX]; /* bytes at most by which requests can have grown the pool */
};

struct plan plan_make(struct chaos_random *random, struct chaos_random *extra, bool is_virtual, bool is_plain);
/* The text of one of the policies, or of the other weir's. */
void plan_write_policy(const struct plan *plan, struct chaos_random *random, size_t which, char text[POLICY_TEXT_SIZE]);
void plan_write_other(const struct plan *plan, struct chaos_random *random, char text[POLICY_TEXT_SIZE]);
void plan_describe(const struct plan *plan);

size_t memory_pool_number(size_t name, int device);
/* How many names of pools there are. */
size_t memory_names(const struct program *program);
void memory_synchronize(const struct program *program);
/* A snapshot of one of the weirs: each in turn, NULL after the last. */
weir_stats *memory_stats(const struct program *program, unsigned which);
/* Which name a snapshot's pool has. */
size_t memory_name_of(const weir_pool_stats *seen);

static inline uint64_t below(struct lane *lane, uint64_t bound)
{
    return random_below(&lane->random, bound);
}

static inline bool once_in(struct lane *lane, uint64_t times)
{
    return random_once_in(&lane->random, times);
}

/* What is extra has numbers of its own, so that a plain program's are the same. */
static inline bool extra_once_in(struct lane *lane, uint64_t times)
{
    return random_once_in(&lane->extra, times);
}

/* Opens the lane's stream anew. */
void lane_open_stream(struct lane *lane);
void *lane_run(void *lane);
/* The same for requests that nothing can serve, and small ones between them. */
void *lane_run_in_vain(void *lane);
/* Frees one block on this stream of this device, whoever's it was; false: a fault kept it. s: the same as an opened stream, or NULL. */
bool block_free(struct program *program, struct block *block, gpu_stream stream, int device, weir_stream *s);
/* Has the refuge look at the block's contents. */
void block_witness(struct program *program, const struct block *block);
void lane_expect_code(int code, const char *what);
void lane_expect_ok(const struct program *program, weir_status status, const char *what);
/* A size that the lane may ask for; asks for so many bytes, and keeps what it gets; with a mark in it, from the lane's stream. */
uint64_t lane_some_size(struct lane *lane);
void lane_take(struct lane *lane, uint64_t size);
void lane_keep(struct lane *lane, struct block block);
void lane_mark(struct lane *lane, struct block *block);
/* The out-of-memory callback. */
uint64_t lane_spare_some(void *program, int device, uint64_t needed);

/* Requests that nothing can serve, from each pool, then from all lanes at once. A refusal leaves the device no less free, and no pool reserves
   more, but for what others were served with. Everybody is quiet before and after. */
void vain_fill(struct program *program); /* the devices, but for a few steps */
void vain_empty(struct program *program);
void vain_ask_each_pool(struct program *program);
void vain_begin_lanes(struct program *program);
void vain_end_lanes(struct program *program);
/* A size that the device cannot serve now, or the pool at its cap, but that is not larger than either. */
uint64_t vain_size(struct program *program, struct chaos_random *random, size_t name, int device);

/* Puts arenas to sleep or has them yield, has others need memory, and wakes all. Everybody is quiet before and after. */
void nap_all(struct program *program, struct chaos_random *random);

/* throw.cc. Throws an exception. */
__attribute__((noreturn)) void chaos_throw(void);
/* Runs it, and says whether that exception came out. The end of the thread passes through. */
bool chaos_catch(void (*run)(void *data), void *data);

#endif
