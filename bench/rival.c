/* SPDX-License-Identifier: MIT */
#include "bench/rival.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench/crowd.h"

static const char *const names[RIVAL_COUNT] = {"raw", "weir", "weir, arena", "RMM pool", "RMM arena", "RMM binning"};
static const char *const kinds[RIVAL_COUNT - RIVAL_RMM] = {"pool", "arena", "binning"};

const struct rmm_calls *rival_load(const char *path)
{
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct rmm_calls *calls = library ? dlsym(library, RMM_SYMBOL) : NULL;
    if (path && !calls)
        bench_die(__FILE__, __LINE__, "--rmm", dlerror());
    return calls;
}

size_t rival_count(const struct bench *bench)
{
    return bench->rmm ? RIVAL_COUNT : RIVAL_RMM;
}

static struct side open_weir_side(struct bench *bench, const char *section, bool is_arena, uint64_t bytes, size_t streams)
{
    char policy[192] = "config/inference.yaml";
    size_t len = strlen(policy);
    if (bytes)
        len += (size_t)snprintf(policy + len, sizeof(policy) - len, " pools.model.max_size=%lluMiB,pools.model.initial_size=0",
                                (unsigned long long)(bytes / MIB));
    if (is_arena && !bytes)
        return side_weir(bench, section, "weir: 1\npools: { model: { backing: arena, release_threshold: all } }\n", streams);
    if (is_arena)
        snprintf(policy + len, sizeof(policy) - len, ",pools.model.backing=arena");
    return side_weir(bench, section, policy, streams);
}

void rival_open(struct bench *bench, const char *section, enum rival_which which, uint64_t bytes, size_t streams, struct rival *rival)
{
    char why[256] = "";
    memset(rival, 0, sizeof(*rival));
    rival->name = names[which];
    if (which == RIVAL_POOLS || which == RIVAL_ARENA) {
        rival->side = open_weir_side(bench, section, which == RIVAL_ARENA, bytes, streams);
    } else {
        rival->side = side_raw_capped(streams, UINT64_MAX, which == RIVAL_RAW ? bytes : 0);
        if (which != RIVAL_RAW) {
            rival->calls = bench->rmm;
            rival->resource = rival->calls->make(kinds[which - RIVAL_RMM], bytes, why, sizeof(why));
            if (!rival->resource)
                bench_die(__FILE__, __LINE__, rival->name, why);
        }
    }
    rival->side.series.name = rival->name;
}

void rival_close(struct rival *rival)
{
    side_wait(&rival->side);
    if (rival->resource)
        rival->calls->destroy(rival->resource);
    side_close(&rival->side);
}

static const char *rmm_pairs(const struct rival *rival, void *stream, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = rival->calls->allocate(rival->resource, size, stream);
        if (!block)
            return "out of memory";
        rival->calls->deallocate(rival->resource, block, size, stream);
    }
    return NULL;
}

static const char *raw_pairs(const struct side *side, gpu_stream stream, size_t size, size_t count)
{
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < count && code == GPU_SUCCESS; i++) {
        void *block;
        code = side->gpu->malloc_async(&block, size, side->pool, stream);
        if (code == GPU_SUCCESS)
            code = side->gpu->free_async(block, stream);
    }
    return code == GPU_SUCCESS ? NULL : side->gpu->code_text(code);
}

const char *rival_pairs(const struct rival *rival, size_t nth, size_t size, size_t count)
{
    if (rival->resource)
        return rmm_pairs(rival, rival->side.streams[nth], size, count);
    if (rival->side.pool)
        return raw_pairs(&rival->side, rival->side.streams[nth], size, count);
    return crowd_stream_pairs(rival->side.opened[nth], size, count);
}

/* RANDOM_ALLOCATIONS, replayed --------------------------------------------------------------------------------------------------------- */

void rival_row_open(struct rival_row *row, size_t count, uint64_t largest, uint64_t seed)
{
    *row = (struct rival_row){.count = count, .largest = largest};
    if (!sequence_record(&row->sequence, count, largest, seed))
        bench_die(__FILE__, __LINE__, "sequence_record", "out of memory");
    row->blocks = calloc(row->sequence.slot_count, sizeof(*row->blocks));
    row->sizes = calloc(row->sequence.slot_count, sizeof(*row->sizes));
    if (!row->blocks || !row->sizes)
        bench_die(__FILE__, __LINE__, "calloc", "out of memory");
}

void rival_row_close(struct rival_row *row)
{
    free(row->blocks);
    free(row->sizes);
    sequence_clear(&row->sequence);
}

/* One pass. A failed allocation becomes a free: the next one of the sequence, ahead of its time. */
static void replay(struct rival *rival, const struct rival_row *row)
{
    const struct sequence *sequence = &row->sequence;
    void **blocks = row->blocks;
    for (size_t i = 0; i < sequence->step_count; i++) {
        const struct sequence_step *step = &sequence->steps[i];
        uint32_t slot = step->slot;
        if (step->size && !rival_try(rival, &blocks[slot], (size_t)step->size)) {
            rival->failures++;
            blocks[slot] = NULL;
            size_t next = sequence_next_free(sequence, i, blocks);
            if (next == sequence->step_count)
                continue;
            slot = sequence->steps[next].slot;
        } else if (step->size) {
            row->sizes[slot] = (size_t)step->size;
            continue;
        } else if (!blocks[slot]) {
            continue;
        }
        rival_give(rival, blocks[slot], row->sizes[slot]);
        blocks[slot] = NULL;
    }
}

uint64_t rival_pass(struct rival *rival, const struct rival_row *row)
{
    uint64_t start = bench_now();
    replay(rival, row);
    uint64_t ns = bench_now() - start;
    for (size_t i = 0; i < row->sequence.slot_count; i++) {
        if (row->blocks[i])
            rival_give(rival, row->blocks[i], row->sizes[i]);
        row->blocks[i] = NULL;
    }
    side_wait(&rival->side);
    return ns;
}
