/* SPDX-License-Identifier: MIT */
/*
 * neighbours.c - processes that share a device without a cap, and take each other's idle memory: each keeps what it frees, and what all of them
 * have live or ask for is never more than three quarters of the device. So each refusal is wrong, unless somebody was stopped or
 * killed meanwhile. A member with one thread also asks for more than the device has: behind the refusal its own pools reserve no more.
 * Members may have two weirs each. Now and then one claims memory (weir_reserve()), or ends its claim: together they never claim more than
 * the device has.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "include/weir_reserve.h"
#include "lib/gpu/sim.h"
#include "lib/gpu/slots.h"
#include "share/control/ledger.h"
#include "share/wire/directory.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/company.h"
#include "tests/chaos/model.h"
#include "tests/chaos/waist.h"
#include "tests/support/ownership.h"

#define MIB (UINT64_C(1) << 20)
#define MEMORY (2048 * MIB)
#define MOST (MEMORY / 4 * 3) /* of claims */
#define LARGEST 16            /* steps of a request */
#define KEPT 8
#define DEADLINE (10 * SECOND)
#define SETTLING (SECOND / 4) /* a process that was stopped answers again after that, as a rule */

static const char policy[] = "weir: 1\ncontrol: true\npools:\n"
                             "  main: { release_threshold: all, cache: { per_stream: 64MiB, largest: 32MiB }, on_oom: { deadline: 10s } }\n";

static struct model *model;
static unsigned thread_count, weir_count; /* of each process */

#define WEIRS 2

/* Bytes that each process has live or asks for, by its number. Shared. */
static atomic_uint_fast64_t *claims;

struct worker {
    struct member *member;
    pthread_t thread;
    weir *const *weirs;
    weir_stream *streams[WEIRS];
    weir_reservation *reservation; /* or NULL */
    struct chaos_random random;
    unsigned owners[KEPT]; /* which weir a block is from */
    void *ptrs[KEPT];
    uint64_t sizes[KEPT];
    size_t numbers[KEPT], count;
};

static bool claim(const struct worker *worker, uint64_t size)
{
    uint64_t all = 0;
    atomic_fetch_add(&claims[worker->member->number], size);
    for (unsigned i = 0; i < COMPANY_MAX; i++)
        all += atomic_load(&claims[i]);
    if (all > MOST)
        atomic_fetch_sub(&claims[worker->member->number], size);
    return all <= MOST;
}

static void refuse(const struct worker *worker, uint64_t begin, uint64_t size, uint64_t took)
{
    struct model_refusal refusal = { .begin = begin, .end = model_tick(model), .size = size, .patience = UINT64_MAX,
                                     .pool = worker->member->number, .is_doubtful = took > DEADLINE / 4 };
    weir_error error;
    weir_last_error(&error);
    snprintf(refusal.report, sizeof refusal.report, "after %.1f ms; %.850s", (double)took / 1e6, error.text);
    model_refused(model, &refusal, NULL);
}

static void take(struct worker *worker)
{
    unsigned owner = (unsigned)random_below(&worker->random, weir_count);
    uint64_t begin = model_tick(model), began = company_now(), size = MODEL_STEP * (1 + random_below(&worker->random, LARGEST));
    void *ptr;
    if (!claim(worker, size))
        return;
    weir_status status = weir_stream_malloc(worker->streams[owner], &ptr, size);
    chaos_count(&chaos_figures->requests, 1);
    if (status == WEIR_OUT_OF_MEMORY) {
        refuse(worker, begin, size, company_now() - began);
        atomic_fetch_sub(&claims[worker->member->number], size);
        return;
    }
    CHAOS_EXPECT(status == WEIR_OK, "a neighbour's request: expected WEIR_OK, seen %s", weir_status_name(status));
    CHAOS_EXPECT(ownership_claim(ptr, size), "a neighbour's block: expected bytes that nobody has, seen some that are another's");
    worker->owners[worker->count] = owner;
    worker->ptrs[worker->count] = ptr;
    worker->sizes[worker->count] = size;
    worker->numbers[worker->count++] = model_served(model, begin, worker->member->number, size);
}

static void give(struct worker *worker, size_t at)
{
    CHAOS_EXPECT(ownership_give_up(worker->ptrs[at], worker->sizes[at]), "a neighbour's block: expected it to be ours");
    CHAOS_EXPECT(weir_stream_free(worker->streams[worker->owners[at]], worker->ptrs[at]) == WEIR_OK, "a neighbour's free: expected WEIR_OK");
    model_freed(model, worker->numbers[at], NULL);
    atomic_fetch_sub(&claims[worker->member->number], worker->sizes[at]);
    worker->count--;
    worker->owners[at] = worker->owners[worker->count];
    worker->ptrs[at] = worker->ptrs[worker->count];
    worker->sizes[at] = worker->sizes[worker->count];
    worker->numbers[at] = worker->numbers[worker->count];
}

static uint64_t reserved_of(weir *w)
{
    weir_stats *stats;
    CHAOS_EXPECT(weir_stats_take(w, NULL, &stats) == WEIR_OK, "a snapshot: expected one");
    uint64_t reserved = weir_stats_pool(stats, 0)->reserved;
    weir_stats_free(stats);
    return reserved;
}

/* The whole device and what is live here already. For that time it is taken to be live, as the attempt may keep it from others. */
static void ask_in_vain(struct worker *worker)
{
    uint64_t reserved[WEIRS], begin = model_tick(model);
    void *ptr;
    size_t number = model_served(model, begin, worker->member->number, MEMORY);
    for (unsigned i = 0; i < weir_count; i++)
        reserved[i] = reserved_of(worker->weirs[i]);
    weir_status status = weir_stream_malloc(worker->streams[random_below(&worker->random, weir_count)], &ptr, MEMORY);
    CHAOS_EXPECT(status == WEIR_OUT_OF_MEMORY, "a neighbour's request for all of the device: expected WEIR_OUT_OF_MEMORY, seen %s",
                 weir_status_name(status));
    for (unsigned i = 0; i < weir_count; i++)
        CHAOS_EXPECT(reserved_of(worker->weirs[i]) <= reserved[i], "a neighbour's weir %u after a refusal: expected at most %llu MiB reserved, seen %llu MiB",
                     i, (unsigned long long)(reserved[i] / MIB), (unsigned long long)(reserved_of(worker->weirs[i]) / MIB));
    model_freed(model, number, NULL);
}

static void reserve_or_end(struct worker *worker)
{
    uint64_t size = MODEL_STEP * (1 + random_below(&worker->random, 4 * LARGEST));
    unsigned patience_ms = (unsigned)random_below(&worker->random, 50);
    weir_error error = WEIR_ERROR_INIT;
    if (worker->reservation) {
        weir_reservation_end(worker->reservation);
        worker->reservation = NULL;
        return;
    }
    weir_status status = weir_reserve(worker->weirs[0], 0, size, patience_ms, &error, &worker->reservation);
    CHAOS_EXPECT(status == WEIR_OK || status == WEIR_TIMEOUT, "a neighbour's claim: expected WEIR_OK or WEIR_TIMEOUT, seen %s: %.500s",
                 weir_status_name(status), error.text);
}

static void *work(void *data)
{
    struct worker *worker = data;
    for (unsigned i = 0; i < weir_count; i++)
        CHAOS_EXPECT(weir_stream_create(worker->weirs[i], 0, NULL, NULL, &worker->streams[i]) == WEIR_OK, "a neighbour's stream: expected WEIR_OK");
    weir_stream *s = worker->streams[0];
    while (!atomic_load(&company_of(worker->member)->over)) {
        uint64_t chosen = random_below(&worker->random, 100);
        bool has_room = worker->count < KEPT && !model_is_nearly_full(model);
        if (chosen < 40 && has_room)
            take(worker);
        else if (chosen < 80 && worker->count)
            give(worker, random_below(&worker->random, worker->count));
        else if (chosen < 84)
            waist_gpu()->delay(weir_stream_handle(s), 1 + random_below(&worker->random, 1000000));
        else if (chosen < 85 && thread_count == 1 && worker->count && !model_is_nearly_full(model))
            ask_in_vain(worker);
        else if (chosen < 86)
            (void)!weir_stream_synchronize(s, NULL);
        else if (chosen < 88)
            reserve_or_end(worker);
        else
            company_sleep(random_below(&worker->random, 5000000));
    }
    while (worker->count)
        give(worker, 0);
    weir_reservation_end(worker->reservation);
    for (unsigned i = 0; i < weir_count; i++)
        weir_stream_close(worker->streams[i]);
    return NULL;
}

/* Nothing may be left where it ends well. */
static void judge_own(weir *w)
{
    weir_stats *stats;
    CHAOS_EXPECT(weir_stats_take(w, NULL, &stats) == WEIR_OK, "a snapshot: expected one");
    const weir_pool_stats *pool = weir_stats_pool(stats, 0);
    CHAOS_EXPECT(!pool->live && !pool->live_blocks && pool->used + pool->idle == pool->reserved &&
                     pool->live_high <= MOST + thread_count * MODEL_STEP, /* exact to the largest that each stream caches */
                 "a neighbour's figures: expected sums that hold, seen live %llu, used %llu, idle %llu, reserved %llu, peak %llu",
                 (unsigned long long)pool->live, (unsigned long long)pool->used, (unsigned long long)pool->idle,
                 (unsigned long long)pool->reserved, (unsigned long long)pool->live_high);
    const weir_device_stats *device = weir_stats_device(stats, 0);
    chaos_count(&chaos_figures->recoveries, device->recoveries);
    for (size_t rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        chaos_count(&chaos_figures->rescues[rung], device->rescues[rung]);
    weir_stats_free(stats);
    weir_close(w);
}

static void judge_machine(void)
{
    struct sim_census left;
    sim_census(&left);
    CHAOS_EXPECT(!left.blocks && !left.pools && !left.streams && !left.events && !left.reserved,
                 "a neighbour's end: expected nothing, seen %zu blocks, %zu pools, %zu streams, %zu events, %llu bytes", left.blocks, left.pools,
                 left.streams, left.events, (unsigned long long)left.reserved);
}

static void run_neighbour(struct member *member)
{
    struct worker workers[2];
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *weirs[WEIRS];
    options.policy_text = policy;
    options.gpu = "sim";
    waist_set(&(struct waist_settings){ .seed = member->seed, .stumbles = true });
    for (unsigned i = 0; i < weir_count; i++) {
        weir_status status = weir_open(&options, &error, &weirs[i]);
        CHAOS_EXPECT(status == WEIR_OK, "a neighbour: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    }
    atomic_store(&member->ready, true);
    for (unsigned i = 0; i < thread_count; i++) {
        workers[i] = (struct worker){ .member = member, .weirs = weirs, .random.state = member->seed + i };
        CHAOS_EXPECT(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread: expected one");
    }
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < weir_count; i++)
        judge_own(weirs[i]);
    judge_machine();
}

/* Conducting ------------------------------------------------------------------------------------------------------------------------------ */

/* All that a dead process had is free. */
static void bury(const struct member *member)
{
    atomic_store(&claims[member->number], 0);
    for (size_t i = 0; i < atomic_load(&model->block_count); i++)
        if (model->blocks[i].begin && model->blocks[i].pool == member->number && atomic_load(&model->blocks[i].end) == UINT64_MAX)
            model_freed(model, i, NULL);
}

/* Sums the claims of all members, from outside. A member that was stopped while it claimed keeps others from it. */
static void audit(void)
{
    static struct share_claims all;
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    share_claims_files(UINT64_MAX, &paths, &count);
    CHAOS_EXPECT(count <= 1, "the files of claims: expected one at the most, seen %zu", count);
    int fd = count ? gpu_slots_open(paths[0], 0, geteuid()) : -1;
    if (fd >= 0 && share_ledger_read(fd, MEMORY, 0, &all) == 0)
        CHAOS_EXPECT(all.bytes <= MEMORY, "all claims: expected at most %llu MiB, seen %llu MiB", (unsigned long long)(MEMORY / MIB),
                     (unsigned long long)(all.bytes / MIB));
    if (fd >= 0)
        close(fd);
    free(paths);
}

static void disturb(struct company *company)
{
    struct member *member = company_some(company);
    if (!member)
        return;
    size_t veil = model_veil(model);
    if (random_once_in(&company->random, 3)) {
        company_kill(member);
        bury(member);
        company_start(company, member);
    } else {
        company_stop(member);
        company_sleep(random_below(&company->random, SECOND / 4));
        company_continue(member);
    }
    company_sleep(SETTLING);
    model_unveil(model, veil);
}

static void judge(void)
{
    struct model_verdict verdict = model_judge(model);
    chaos_count(&chaos_figures->right, verdict.right);
    chaos_count(&chaos_figures->doubtful, verdict.doubtful);
    if (verdict.wrong)
        chaos_find("a neighbour's request of %llu MiB: expected to be served, seen out of memory; at most %llu of %llu MiB were live. Its report: %s",
                   (unsigned long long)(verdict.wrong->size / MIB), (unsigned long long)(verdict.most_on_device / MIB),
                   (unsigned long long)(MEMORY / MIB), verdict.wrong->report);
}

void chaos_neighbours(uint64_t seed)
{
    struct company *company = company_gather(seed, "memory=2GiB");
    unsigned count = 2 + (unsigned)random_below(&company->random, 7), rounds = 2 + (unsigned)random_below(&company->random, 4);
    bool is_disturbed = random_once_in(&company->random, 2);
    thread_count = 1 + (unsigned)random_below(&company->random, 2);
    weir_count = 1 + (unsigned)random_below(&company->random, WEIRS);
    claims = company_share(COMPANY_MAX * sizeof *claims);
    snprintf(chaos_plan, sizeof chaos_plan, "%u neighbours of %u threads and %u weirs, %s", count, thread_count, weir_count,
             is_disturbed ? "stopped and killed" : "left alone");
    model = model_make();
    CHAOS_EXPECT(model, "memory for the model: expected some");
    model->memory = MEMORY;
    model->is_whole = true;
    model->pool_count = count;
    for (unsigned i = 0; i < count; i++)
        company_start(company, company_add(company, run_neighbour, false));
    for (unsigned i = 0; i < rounds; i++) {
        company_sleep(SECOND / 4);
        if (is_disturbed)
            disturb(company);
        audit();
    }
    company_dismiss(company);
    judge();
    model_destroy(model);
}
