/* SPDX-License-Identifier: MIT */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/chaos/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/fence/fence.h"
#include "lib/gpu/sim.h"
#include "tests/chaos/schedule.h"
#include "tests/chaos/waist.h"
#include "tests/support/ownership.h"
#include "tests/support/suite.h"

static struct program program;

size_t memory_pool_number(size_t name, int device)
{
    return name * DEVICES_MAX + (size_t)device;
}

size_t memory_names(const struct program *of)
{
    return of->other ? POOLS : NAMES;
}

size_t memory_name_of(const weir_pool_stats *seen)
{
    return strcmp(seen->name, "other") == 0 ? OTHER : strcmp(seen->name, "second") == 0;
}

weir_stats *memory_stats(const struct program *of, unsigned which)
{
    weir *const weirs[] = { of->w, of->other, NULL };
    weir_stats *stats = NULL;
    weir_error error = WEIR_ERROR_INIT;
    if (weirs[which])
        CHAOS_EXPECT(weir_stats_take(weirs[which], &error, &stats) == WEIR_OK, "a snapshot: %s", error.text);
    return stats;
}

static void stuck(const char *what)
{
    chaos_find("the schedule: expected that some thread can go on, seen that %s", what);
}

/* Opening --------------------------------------------------------------------------------------------------------------------------------- */

static void must(int code, const char *what)
{
    CHAOS_EXPECT(code == GPU_SUCCESS, "%s: expected success, seen %d", what, code);
}

static void open_machine(const struct plan *plan, uint64_t seed)
{
    char settings[256], why[256] = "";
    int len = snprintf(settings, sizeof settings, "devices=%d,memory=%lluMiB", plan->devices, (unsigned long long)(plan->memory / MIB));
    /* With a name the clock is the real one, and work runs by itself. */
    if (!plan->is_virtual)
        snprintf(settings + len, sizeof settings - (size_t)len, ",name=chaos-%d", getpid());
    CHAOS_EXPECT(sim_configure(settings, why, sizeof why) == 0, "a machine: expected to get one, seen %s", why);
    waist_set(&(struct waist_settings){ .seed = seed, .slow_refusals = plan->slow_refusals, .fault_once_in = plan->fault_once_in,
                                        .stumbles = !plan->is_virtual });
}

/* Memory of the host, so that the devices lack nothing for it, and the test can read it. */
static void open_witnesses(int device)
{
    void *bytes;
    must(program.gpu->pool_create(&(struct gpu_pool_spec){ .device = device, .location = GPU_LOCATION_HOST }, &program.witness_pools[device]),
         "a pool on the host");
    must(program.gpu->malloc_async(&bytes, 2 * WITNESSES, program.witness_pools[device], program.refuge[device]), "memory on the host");
    program.witness_bytes[device] = bytes;
}

static void open_devices(void)
{
    for (int device = 0; device < program.plan.devices; device++) {
        must(program.gpu->stream_create(device, &program.refuge[device]), "a stream");
        must(program.gpu->pool_create(&(struct gpu_pool_spec){ .device = device }, &program.foreign[device]), "a pool");
        must(program.gpu->pool_set(program.foreign[device], GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), "a pool");
        open_witnesses(device);
    }
}

static void open_weir(struct chaos_random *random)
{
    static const char *const names[NAMES] = { "first", "second" };
    char text[POLICY_TEXT_SIZE];
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    unsigned id;
    for (size_t i = POLICIES; i-- > 0;) {
        plan_write_policy(&program.plan, random, i, text);
        program.policies[i] = memfd_create("policy", MFD_CLOEXEC);
        CHAOS_EXPECT(write(program.policies[i], text, strlen(text)) == (ssize_t)strlen(text), "a policy: expected to be written");
    }
    options.policy_text = text;
    options.gpu = "sim";
    weir_status status = weir_open(&options, &error, &program.w);
    CHAOS_EXPECT(status == WEIR_OK, "weir_open: expected WEIR_OK, seen %s: %.900s\n%s", weir_status_name(status), error.text, text);
    for (size_t i = 0; i < NAMES; i++)
        for (int device = 0; device < program.plan.devices; device++)
            CHAOS_EXPECT(weir_pool_get(program.w, names[i], device, &error, &program.pools[i][device]) == WEIR_OK, "a pool: %s", error.text);
    status = weir_oom_add(program.w, lane_spare_some, &program, &error, &id);
    CHAOS_EXPECT(status == WEIR_OK, "weir_oom_add: expected WEIR_OK, seen %s", weir_status_name(status));
}

static void open_other(void)
{
    char text[POLICY_TEXT_SIZE];
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    if (!program.plan.extras.has_other)
        return;
    plan_write_other(&program.plan, &program.extra, text);
    options.policy_text = text;
    options.gpu = "sim";
    weir_status status = weir_open(&options, &error, &program.other);
    CHAOS_EXPECT(status == WEIR_OK, "weir_open: expected WEIR_OK, seen %s: %.900s\n%s", weir_status_name(status), error.text, text);
    for (int device = 0; device < program.plan.devices; device++)
        CHAOS_EXPECT(weir_pool_get(program.other, "other", device, &error, &program.pools[OTHER][device]) == WEIR_OK, "a pool: %s", error.text);
}

/* Streams that are never done, with something in their caches. */
static void open_crowd(void)
{
    for (unsigned i = 0; i < program.plan.crowd; i++) {
        weir_error error = WEIR_ERROR_INIT;
        void *ptr;
        CHAOS_EXPECT(weir_stream_create(program.w, 0, NULL, &error, &program.crowd[i]) == WEIR_OK, "a stream: %s", error.text);
        if (weir_stream_malloc(program.crowd[i], &ptr, 4096) == WEIR_OK)
            weir_stream_free(program.crowd[i], ptr);
    }
}

static void keep_crowd_busy(void)
{
    for (unsigned i = 0; i < program.plan.crowd; i++)
        must(program.gpu->delay(weir_stream_handle(program.crowd[i]), 100000 * MILLISECOND), "a delay");
}

/* Judging --------------------------------------------------------------------------------------------------------------------------------- */

static void judge_witnesses(void)
{
    for (int device = 0; device < program.plan.devices; device++) {
        size_t count = atomic_exchange(&program.witness_count[device], 0);
        for (size_t i = 0; i < count && i < WITNESSES; i++) {
            const struct witness *seen = &program.witnesses[device][i];
            CHAOS_EXPECT(*seen->first == seen->mark && *seen->last == seen->mark,
                         "a block's contents, on the stream that freed it: expected %u, seen %u at its first byte and %u at its last", seen->mark,
                         *seen->first, *seen->last);
        }
    }
    CHAOS_EXPECT(!ownership_is_full(), "the map of blocks: expected room, seen none");
}

static void judge_refusals(void)
{
    struct model_verdict verdict = model_judge(program.model);
    const struct model_refusal *wrong = verdict.wrong;
    chaos_count(&chaos_figures->right, verdict.right);
    chaos_count(&chaos_figures->doubtful, verdict.doubtful);
    if (wrong)
        chaos_find("a request of %llu MiB from pool %zu (cap %llu MiB, device %llu MiB): expected to be served, seen out of memory; "
                   "during the call at most %llu MiB of the pool and %llu MiB of the device were taken. Its report: %s",
                   (unsigned long long)(wrong->size / MIB), wrong->pool, (unsigned long long)(program.model->pools[wrong->pool].cap / MIB),
                   (unsigned long long)(program.model->memory / MIB), (unsigned long long)(verdict.most_in_pool / MIB),
                   (unsigned long long)(verdict.most_on_device / MIB), wrong->report);
}

static void judge_pool(const weir_pool_stats *seen, size_t name, int device)
{
    size_t pool = memory_pool_number(name, device);
    uint64_t blocks, live = model_live(program.model, pool, &blocks);
    uint64_t slack = program.plan.exact_peaks ? 0 : 129 * MIB * (LANES_MAX + program.plan.crowd);
    CHAOS_EXPECT(seen->live == live && seen->live_blocks == blocks, "pool %s: expected %llu bytes in %llu blocks live, seen %llu in %llu", seen->name,
                 (unsigned long long)live, (unsigned long long)blocks, (unsigned long long)seen->live, (unsigned long long)seen->live_blocks);
    CHAOS_EXPECT(seen->live_high <= program.model->pools[pool].peak + slack, "pool %s: expected a peak of at most %llu MiB, seen %llu MiB",
                 seen->name, (unsigned long long)((program.model->pools[pool].peak + slack) / MIB), (unsigned long long)(seen->live_high / MIB));
    CHAOS_EXPECT(!seen->max_size || program.plan.fault_once_in || seen->reserved <= seen->max_size,
                 "pool %s: expected no more than its cap of %llu MiB, seen %llu MiB reserved, %llu MiB of it idle", seen->name,
                 (unsigned long long)(seen->max_size / MIB), (unsigned long long)(seen->reserved / MIB), (unsigned long long)(seen->idle / MIB));
    CHAOS_EXPECT(seen->failures == atomic_load(&program.failures[name][device]), "pool %s: expected %llu refusals, seen %llu", seen->name,
                 (unsigned long long)atomic_load(&program.failures[name][device]), (unsigned long long)seen->failures);
}

static void judge_figures(void)
{
    weir_stats *stats;
    for (unsigned which = 0; (stats = memory_stats(&program, which)); which++) {
        for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
            const weir_pool_stats *seen = weir_stats_pool(stats, i);
            judge_pool(seen, memory_name_of(seen), seen->device);
        }
        weir_stats_free(stats);
    }
}

void memory_synchronize(const struct program *of)
{
    for (int device = 0; device < of->plan.devices; device++)
        must(of->gpu->device_synchronize(device), "synchronising");
}

/* Numbers of live blocks are new after model_forget(). */
static void renumber(void)
{
    static size_t renumbered[MODEL_BLOCKS_MAX];
    model_forget(program.model, renumbered);
    for (unsigned i = 0; i < program.plan.lanes; i++)
        for (size_t j = 0; j < program.lanes[i].count; j++)
            program.lanes[i].kept[j].number = renumbered[program.lanes[i].kept[j].number];
    for (size_t i = 0; i < program.passed_count; i++)
        program.passed[i].number = renumbered[program.passed[i].number];
    for (size_t i = 0; i < program.spare_count; i++)
        program.spare[i].number = renumbered[program.spare[i].number];
}

/* What grew above a cap that Weir watches goes back with the first request after its stream got there. */
static void ask_each_pool(void)
{
    for (size_t name = 0; name < memory_names(&program); name++)
        for (int device = 0; device < program.plan.devices; device++) {
            void *ptr;
            uint64_t begin = model_tick(program.model), size = program.plan.is_whole ? MODEL_STEP : 512;
            weir_status status = weir_pool_malloc(program.pools[name][device], &ptr, size, program.refuge[device]);
            waist_enter_weir(false); /* a callback takes this thread for one of those that have faults */
            if (status == WEIR_OUT_OF_MEMORY) {
                atomic_fetch_add(&program.failures[name][device], 1);
                continue;
            }
            size_t number = model_served(program.model, begin, memory_pool_number(name, device), size);
            if (status == WEIR_OK)
                status = weir_free(name == OTHER ? program.other : program.w, ptr, program.refuge[device]);
            CHAOS_EXPECT(status == WEIR_OK, "a small request: expected it to be served and freed, seen %s", weir_status_name(status));
            model_freed(program.model, number, NULL);
        }
    memory_synchronize(&program);
}

static void trim_all(void)
{
    memory_synchronize(&program);
    for (size_t name = 0; name < memory_names(&program); name++)
        for (int device = 0; device < program.plan.devices; device++)
            CHAOS_EXPECT(weir_pool_trim(program.pools[name][device], 0, NULL, NULL) == WEIR_OK, "a trim: expected WEIR_OK");
}

/* Rounds ---------------------------------------------------------------------------------------------------------------------------------- */

static void run_lanes(void *(*run)(void *lane))
{
    for (unsigned i = 0; i < program.plan.lanes; i++)
        CHAOS_EXPECT(pthread_create(&program.lanes[i].thread, NULL, run, &program.lanes[i]) == 0, "a thread: expected to get one");
    for (unsigned i = 0; i < program.plan.lanes; i++)
        pthread_join(program.lanes[i].thread, NULL);
    for (unsigned i = 0; i < program.plan.lanes; i++)
        atomic_store(&program.lanes[i].is_running, false);
    memory_synchronize(&program);
    memset(program.unseen, 0, sizeof program.unseen);
    judge_witnesses();
    judge_refusals();
}

static void run_round(void)
{
    keep_crowd_busy();
    run_lanes(lane_run);
    ask_each_pool();
    if (program.plan.extras.asks_in_vain) {
        vain_fill(&program);
        vain_ask_each_pool(&program);
        vain_begin_lanes(&program);
        run_lanes(lane_run_in_vain);
        vain_end_lanes(&program);
        vain_empty(&program);
        ask_each_pool();
    }
    if (program.plan.extras.naps) {
        nap_all(&program, &program.naps);
        judge_witnesses();
    }
    /* The model forgets what was freed in this round. In a cache it could still come to lie behind a stream that is busy for too long. */
    if (program.plan.longest_delay > program.plan.deadline)
        trim_all();
    renumber();
    judge_figures();
}

static void free_for_good(struct block *block)
{
    for (unsigned tries = 0; !block_free(&program, block, program.refuge[block->device], block->device, NULL); tries++)
        CHAOS_EXPECT(tries < 1000, "a free: expected that no fault lasts, seen %u in a row", tries);
}

static void count_recoveries(void)
{
    weir_stats *stats;
    for (unsigned which = 0; (stats = memory_stats(&program, which)); which++) {
        for (size_t i = 0; i < weir_stats_device_count(stats); i++) {
            const weir_device_stats *device = weir_stats_device(stats, i);
            chaos_count(&chaos_figures->recoveries, device->recoveries);
            for (size_t rung = 0; rung < WEIR_RUNG_COUNT; rung++)
                chaos_count(&chaos_figures->rescues[rung], device->rescues[rung]);
        }
        weir_stats_free(stats);
    }
}

/* After a trim nothing is left in any pool. The first empties the caches; it waits 1 ms at most for CUDA to see that, which can be too little
   where time is real. */
static void judge_empty_pools(void)
{
    weir_stats *stats;
    trim_all();
    trim_all();
    for (unsigned which = 0; (stats = memory_stats(&program, which)); which++) {
        for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
            const weir_pool_stats *seen = weir_stats_pool(stats, i);
            /* A busy stream's cache is emptied, and the stream gets to it later. */
            CHAOS_EXPECT(!seen->live && !seen->cached && !seen->used && (!seen->reserved || program.plan.crowd),
                         "pool %s after all was freed: expected nothing, seen live %llu, cached %llu, used %llu, reserved %llu", seen->name,
                         (unsigned long long)seen->live, (unsigned long long)seen->cached, (unsigned long long)seen->used,
                         (unsigned long long)seen->reserved);
        }
        weir_stats_free(stats);
    }
}

static void free_all(void)
{
    for (unsigned i = 0; i < program.plan.lanes; i++)
        while (program.lanes[i].count)
            free_for_good(&program.lanes[i].kept[--program.lanes[i].count]);
    while (program.passed_count)
        free_for_good(&program.passed[--program.passed_count]);
    while (program.spare_count)
        free_for_good(&program.spare[--program.spare_count]);
    memory_synchronize(&program);
    judge_witnesses();
}

static void close_all(void)
{
    free_all();
    judge_empty_pools();
    count_recoveries();
    for (unsigned i = 0; i < program.plan.lanes; i++) {
        weir_stream_close(program.lanes[i].other);
        weir_stream_close(program.lanes[i].s);
        if (program.lanes[i].owns_stream)
            must(program.gpu->stream_destroy(program.lanes[i].stream), "a stream's end");
    }
    for (unsigned i = 0; i < program.plan.crowd; i++)
        weir_stream_close(program.crowd[i]);
    if (program.other)
        weir_close(program.other);
    weir_close(program.w);
    for (int device = 0; device < program.plan.devices; device++) {
        must(program.gpu->free_async(program.witness_bytes[device], program.refuge[device]), "a free");
        must(program.gpu->stream_synchronize(program.refuge[device]), "synchronising");
        must(program.gpu->stream_destroy(program.refuge[device]), "a stream's end");
        must(program.gpu->pool_destroy(program.foreign[device]), "a pool's end");
        must(program.gpu->pool_destroy(program.witness_pools[device]), "a pool's end");
    }
    for (size_t i = 0; i < POLICIES; i++)
        close(program.policies[i]);
}

static void judge_machine(int fds)
{
    struct sim_census left;
    memory_synchronize(&program);
    weir__debts_sweep(program.gpu);
    sim_census(&left);
    CHAOS_EXPECT(!left.blocks && !left.pools && !left.streams && !left.events && !left.reserved,
                 "the machine at the end: expected nothing, seen %zu blocks, %zu pools, %zu streams, %zu events, %llu bytes", left.blocks,
                 left.pools, left.streams, left.events, (unsigned long long)left.reserved);
    CHAOS_EXPECT(suite_count_fds() == fds, "descriptors at the end: expected %d, seen %d", fds, suite_count_fds());
}

static void open_lanes(struct chaos_random *random)
{
    for (unsigned i = 0; i < program.plan.lanes; i++) {
        program.lanes[i] = (struct lane){ .program = &program, .number = i, .device = (int)i % program.plan.devices };
        program.lanes[i].random.state = random_next(random);
        program.lanes[i].extra.state = random_next(&program.extra);
        lane_open_stream(&program.lanes[i]);
    }
}

static void set_up_model(void)
{
    program.model = model_make();
    CHAOS_EXPECT(program.model, "memory for the model: expected some");
    program.model->memory = program.plan.memory;
    program.model->is_whole = program.plan.is_whole && !program.plan.crowd;
    program.model->pool_count = (POOLS + 1) * DEVICES_MAX;
    for (size_t name = 0; name <= POOLS; name++)
        for (int device = 0; device < DEVICES_MAX; device++)
            program.model->pools[memory_pool_number(name, device)] =
                (struct model_pool){ .cap = name == FOREIGN ? 0 : name == OTHER ? program.plan.other_cap : program.plan.caps[name],
                                     .device = device,
                                     .is_arena = name != FOREIGN && program.plan.arenas >> name & 1 };
}

void chaos_memory(uint64_t seed, bool is_virtual, bool is_plain)
{
    struct chaos_random random = { seed };
    program.extra.state = ~seed * UINT64_C(0x9E3779B97F4A7C15);
    program.plan = plan_make(&random, &program.extra, is_virtual, is_plain);
    /* As the seed is, so that programs which were drawn before there were naps are the same. */
    program.plan.extras.naps = !is_plain && seed % 4 == 3 && program.plan.arenas;
    program.naps.state = seed;
    plan_describe(&program.plan);
    program.gpu = waist_gpu();
    set_up_model();
    open_machine(&program.plan, seed);
    int fds = suite_count_fds();
    if (is_virtual)
        schedule_begin(seed, stuck);
    pthread_mutex_init(&program.lock, NULL);
    open_devices();
    open_weir(&random);
    open_other();
    open_lanes(&random);
    open_crowd();
    for (unsigned i = 0; i < program.plan.rounds; i++)
        run_round();
    close_all();
    judge_machine(fds);
    chaos_count(&chaos_figures->faults, waist_faults());
    if (!is_virtual)
        return;
    chaos_count(&chaos_figures->steps, schedule_steps());
    atomic_store(&chaos_figures->trace, atomic_load(&chaos_figures->trace) * 31 + schedule_trace());
    schedule_end();
}
