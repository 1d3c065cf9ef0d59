/* SPDX-License-Identifier: MIT */
/*
 * memory.h - one program that allocates: a machine, a policy, threads (lanes) with streams of their own, and what they do, all from a seed.
 *
 * memory.c makes the machine, runs the lanes in rounds, and judges between two rounds, when everybody is quiet. memory_lane.c is what a lane
 * does.
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

#define LANES_MAX 6
#define KEPT_MAX 48
#define SPARE_MAX 4
#define CROWD_MAX 96
#define WITNESSES 8192 /* copies that a round can make of blocks' ends, on each device */
#define POLICIES 3     /* that are reloaded in turn; the first is opened */
#define DEVICES_MAX 2
#define NAMES 2        /* pools of the policy, on each device; a third is not Weir's */
#define FOREIGN NAMES

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

struct lane {
    struct program *program;
    pthread_t thread;
    unsigned number;
    int device;
    struct chaos_random random;
    weir_stream *s;
    gpu_stream stream;
    bool owns_stream; /* Weir was only told of it */
    bool is_foreign; /* something that is not Weir's was freed on the stream */
    struct block kept[KEPT_MAX];
    size_t count;
    uint64_t bytes;
};

struct program {
    struct plan plan;
    const struct gpu *gpu;
    weir *w;
    struct model *model;
    weir_pool *pools[NAMES][DEVICES_MAX];
    gpu_pool foreign[DEVICES_MAX], witness_pools[DEVICES_MAX];
    unsigned char *witness_bytes[DEVICES_MAX];
    struct witness witnesses[DEVICES_MAX][WITNESSES];
    atomic_size_t witness_count[DEVICES_MAX];
    gpu_stream refuge[DEVICES_MAX]; /* not opened */
    weir_stream *crowd[CROWD_MAX];
    int policies[POLICIES]; /* descriptors of their texts */
    pthread_mutex_t lock;   /* of what follows */
    struct block passed[16]; /* from lane to lane */
    struct block spare[SPARE_MAX + LANES_MAX]; /* for the callback; each lane may put one back that it could not free */
    size_t passed_count, spare_count;
    atomic_uint marks;
    struct lane lanes[LANES_MAX];
    atomic_uint_fast64_t failures[NAMES][DEVICES_MAX];
};

size_t memory_pool_number(size_t name, int device);
/* Opens the lane's stream anew. */
void lane_open_stream(struct lane *lane);
void *lane_run(void *lane);
/* Frees one block on this stream of this device, whoever's it was; false: a fault kept it. s: the same as an opened stream, or NULL. */
bool block_free(struct program *program, struct block *block, gpu_stream stream, int device, weir_stream *s);
/* The out-of-memory callback. */
uint64_t lane_spare_some(void *program, int device, uint64_t needed);

#endif
