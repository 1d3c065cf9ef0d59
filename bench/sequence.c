/* SPDX-License-Identifier: MIT */
#include "bench/sequence.h"

#include <stdlib.h>
#include <string.h>

/* splitmix64: one addition, then its bits are mixed. */
uint64_t sequence_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The remainder favours small numbers by bound / 2^64, which no measurement sees. */
uint64_t sequence_below(uint64_t *state, uint64_t bound)
{
    return sequence_random(state) % bound;
}

/* What is live while a sequence is recorded. */
struct recorder {
    uint64_t random;
    size_t live_count;
    uint64_t live_bytes;
    struct {
        uint32_t slot;
        uint64_t size;
    } * live;
    size_t free_count; /* slots that were used and are empty */
    uint32_t *free_slots;
};

static bool wants_to_allocate(struct recorder *recorder, size_t n, uint64_t size)
{
    uint64_t chance = sequence_below(&recorder->random, 100);
    if (!recorder->live_count)
        return true;
    return chance < SEQUENCE_CHANCE && recorder->live_count < n && recorder->live_bytes + size <= SEQUENCE_LIVE_MAX;
}

static void record_allocation(struct sequence *sequence, struct recorder *recorder, struct sequence_step *step, uint64_t size)
{
    step->size = size;
    step->slot = recorder->free_count ? recorder->free_slots[--recorder->free_count] : (uint32_t)sequence->slot_count++;
    recorder->live[recorder->live_count].slot = step->slot;
    recorder->live[recorder->live_count++].size = size;
    recorder->live_bytes += size;
    if (recorder->live_bytes > sequence->live_high)
        sequence->live_high = recorder->live_bytes;
    if (recorder->live_count > sequence->live_blocks_high)
        sequence->live_blocks_high = recorder->live_count;
}

static void record_free(struct recorder *recorder, struct sequence_step *step)
{
    size_t index = (size_t)sequence_below(&recorder->random, recorder->live_count);
    step->size = 0;
    step->slot = recorder->live[index].slot;
    recorder->live_bytes -= recorder->live[index].size;
    recorder->live[index] = recorder->live[--recorder->live_count];
    recorder->free_slots[recorder->free_count++] = step->slot;
}

bool sequence_record(struct sequence *sequence, size_t n, uint64_t max, uint64_t seed)
{
    memset(sequence, 0, sizeof(*sequence));
    struct recorder recorder = {.random = seed};
    recorder.live = calloc(n, sizeof(*recorder.live));
    recorder.free_slots = calloc(n, sizeof(*recorder.free_slots));
    sequence->steps = calloc(2 * n, sizeof(*sequence->steps));
    bool done = recorder.live && recorder.free_slots && sequence->steps;
    if (done) {
        sequence->step_count = 2 * n;
        for (size_t i = 0; i < sequence->step_count; i++) {
            uint64_t size = 1 + sequence_below(&recorder.random, max);
            if (wants_to_allocate(&recorder, n, size))
                record_allocation(sequence, &recorder, &sequence->steps[i], size);
            else
                record_free(&recorder, &sequence->steps[i]);
        }
    } else {
        sequence_clear(sequence);
    }
    free(recorder.live);
    free(recorder.free_slots);
    return done;
}

void sequence_clear(struct sequence *sequence)
{
    free(sequence->steps);
    memset(sequence, 0, sizeof(*sequence));
}

size_t sequence_next_free(const struct sequence *sequence, size_t step, void *const *blocks)
{
    /* A slot with a block is not allocated into before it was freed, so the first free of a full slot is that of its present block. */
    for (size_t i = step + 1; i < sequence->step_count; i++) {
        if (!sequence->steps[i].size && blocks[sequence->steps[i].slot])
            return i;
    }
    return sequence->step_count;
}
