/* SPDX-License-Identifier: MIT */
/*
 * Blocks that go from process to process: what a frame and a lease take beside a bare message between the same two processes on the same
 * CPUs, what a first import takes beside CUDA's, and the rings of share_ring.c.
 *
 * Everything goes through the waist, so that the section runs on the simulator as well (WEIR_GPU=sim WEIR_SIM=name=X); its times mean
 * nothing there.
 */
#include "config.h"

#include "bench/sharing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDOVERS WORKER_TIMES_MAX
#define HANDOVERS_QUICK 500
#define REST UINT64_C(30000) /* nanoseconds between two hand-overs, in which the consumer falls asleep again */

/* Setting up --------------------------------------------------------------------------------------------------------------------------- */

static void open_export(struct sharing *sharing)
{
    char policy[256];
    snprintf(policy, sizeof(policy), "weir: 1\npools: { frames: { devices: [0], ipc: posix_fd, share: { socket: %s } } }\n",
             sharing->socket);
    sharing->w = shared_weir_for(sharing->bench, "share", policy);
    BENCH_WEIR(weir_pool_get(sharing->w, "frames", 0, &error, &sharing->pool));
    BENCH_WEIR(weir_export_open(sharing->pool, &error, &sharing->export));
}

static void publish(const struct sharing *sharing, const char *name)
{
    void *ptr = NULL;
    shared_check(weir_pool_malloc(sharing->pool, &ptr, sharing->block, sharing->stream), "weir_pool_malloc");
    BENCH_WEIR(weir_export_publish(sharing->export, name, ptr, 0, NULL, 0, sharing->stream, &error));
}

static void make_directory(struct sharing *sharing)
{
    snprintf(sharing->directory, sizeof(sharing->directory), "/tmp/weir-bench-XXXXXX");
    if (!mkdtemp(sharing->directory))
        bench_die(__FILE__, __LINE__, sharing->directory, strerror(errno));
    snprintf(sharing->socket, sizeof(sharing->socket), "%s/frames", sharing->directory);
}

static void make_raw_pool(struct sharing *sharing)
{
    const struct gpu *gpu = sharing->gpu;
    struct gpu_pool_spec spec = {.device = 0, .location = GPU_LOCATION_DEVICE, .posix_fd = true};
    BENCH_GPU(gpu, pool_create(&spec, &sharing->raw_pool));
    BENCH_GPU(gpu, pool_export(sharing->raw_pool, &sharing->raw_pool_fd));
    for (size_t i = 0; i < WORKER_SLOTS_MAX; i++)
        BENCH_GPU(gpu, malloc_async(&sharing->slots[i].ptr, sharing->block, sharing->raw_pool, sharing->stream));
    BENCH_GPU(gpu, stream_synchronize(sharing->stream));
}

static void set_up(struct sharing *sharing, struct bench *bench)
{
    memset(sharing, 0, sizeof(*sharing));
    sharing->bench = bench;
    sharing->gpu = bench->gpu;
    sharing->block = strcmp(bench->gpu->name, "sim") == 0 ? MIB : 64 * MIB;
    /* They start CUDA while this process does. */
    for (size_t c = 0; c < SHARING_CONSUMERS; c++)
        worker_start(&sharing->consumers[c], WORKER_CONSUMER);
    make_directory(sharing);
    BENCH_GPU(sharing->gpu, stream_create(0, &sharing->stream));
    open_export(sharing);
    publish(sharing, "known");
    publish(sharing, "first");
    make_raw_pool(sharing);
}

static void take_down(struct sharing *sharing)
{
    const struct gpu *gpu = sharing->gpu;
    worker_end(sharing->consumers, SHARING_CONSUMERS);
    weir_export_close(sharing->export, WORKER_PATIENCE);
    weir_close(sharing->w);
    for (size_t i = 0; i < WORKER_SLOTS_MAX; i++) {
        BENCH_GPU(gpu, free_async(sharing->slots[i].ptr, sharing->stream));
        BENCH_GPU(gpu, event_destroy(sharing->slots[i].ready));
        for (size_t c = 0; c < SHARING_CONSUMERS; c++)
            BENCH_GPU(gpu, event_destroy(sharing->slots[i].release[c]));
    }
    BENCH_GPU(gpu, stream_synchronize(sharing->stream));
    BENCH_GPU(gpu, pool_destroy(sharing->raw_pool));
    BENCH_GPU(gpu, stream_destroy(sharing->stream));
    close(sharing->raw_pool_fd);
    rmdir(sharing->directory);
}

/* First imports ------------------------------------------------------------------------------------------------------------------------ */

enum { CONNECT, COLD, FIRST, POOL, BLOCK, EVENT, FIRSTS };

/* Each time on a new connection, so that nothing is known. */
static void measure_firsts(const struct sharing *sharing, struct bench_series firsts[FIRSTS])
{
    struct worker_order raw = {.task = CONSUMER_RAW_FIRST};
    struct gpu_shared_event handle;
    gpu_event ready;
    BENCH_GPU(sharing->gpu, block_export(sharing->slots[0].ptr, &raw.block));
    BENCH_GPU(sharing->gpu, event_create_shared(0, &ready, &handle));
    raw.ready = handle;
    for (size_t i = 0; i <= sharing->bench->repetitions; i++) {
        struct worker_order connect = {.task = CONSUMER_CONNECT}, first = {.task = CONSUMER_FIRST};
        snprintf(connect.text, sizeof(connect.text), "%s", sharing->socket);
        struct worker_answer connected = worker_ask(&sharing->consumers[0], &connect, -1);
        struct worker_answer leased = worker_ask(&sharing->consumers[0], &first, -1);
        struct worker_answer imported = worker_ask(&sharing->consumers[0], &raw, sharing->raw_pool_fd);
        if (i == 0) /* to warm up */
            continue;
        const double times[FIRSTS] = {connected.values[0], connected.values[1], leased.values[0],
                                      imported.values[0],  imported.values[1],  imported.values[2]};
        for (size_t k = 0; k < FIRSTS; k++)
            bench_add(&firsts[k], times[k]);
    }
    BENCH_GPU(sharing->gpu, event_destroy(ready));
}

static void show_firsts(struct sharing *sharing)
{
    struct bench_series firsts[FIRSTS] = {[CONNECT] = {.name = "weir"},
                                          [COLD] = {.name = "weir"},
                                          [FIRST] = {.name = "weir"},
                                          [POOL] = {.name = "raw import of the pool"},
                                          [BLOCK] = {.name = "raw import of the block"},
                                          [EVENT] = {.name = "raw opening of an event"}};
    char name[96], size[32];
    measure_firsts(sharing, firsts);
    bench_size_name(sharing->block, size);
    snprintf(name, sizeof(name), "first import of a %s block: name to lease", size);
    struct bench_report *report = &sharing->bench->report;
    struct bench_figure *figure = bench_figure_of(report, "share", name, &firsts[FIRST], &firsts[BLOCK], &firsts[EVENT]);
    bench_show_ratio(figure, &firsts[FIRST], &firsts[BLOCK], BENCH_AT_MOST, 1.5);

    /* Without an event nobody knows when the block may be read: whoever imports by hand opens one too. */
    snprintf(name, sizeof(name), "first import of a %s block, beside import and event", size);
    struct bench_series both = {.name = "raw import of the block and opening of an event"};
    for (size_t i = 0; i < firsts[BLOCK].count; i++)
        bench_add(&both, firsts[BLOCK].values[i] + firsts[EVENT].values[i]);
    bench_show_beside(report, "share", name, &firsts[FIRST], &both);

    snprintf(name, sizeof(name), "first lease at all of a %s block: three events", size);
    bench_show_beside(report, "share", name, &firsts[COLD], &firsts[BLOCK]);
    bench_show_beside(report, "share", "connecting, with the import of the pool", &firsts[CONNECT], &firsts[POOL]);
}

/* One way ------------------------------------------------------------------------------------------------------------------------------ */

/* Lets the consumer come to its wait. On the CPU, since a sleep would let this one grow cold. */
static void rest(void)
{
    uint64_t end = bench_now() + REST;
    while (bench_now() < end)
        continue;
}

static struct worker_answer hand_over_messages(const struct sharing *sharing, unsigned count)
{
    const struct worker *consumer = &sharing->consumers[0];
    struct worker_order order = {.task = CONSUMER_MESSAGES, .count = count, .cpu = 2};
    worker_tell(consumer, &order, -1);
    for (unsigned i = 0; i < count; i++) {
        rest();
        link_send_time(consumer->link, bench_now());
        link_receive_time(consumer->link);
    }
    return worker_hear(consumer);
}

static struct worker_answer hand_over_frames(const struct sharing *sharing, weir_ring *ring, unsigned count)
{
    const struct worker *consumer = &sharing->consumers[0];
    struct worker_order order = {.task = CONSUMER_FRAMES, .count = count, .cpu = 2, .text = "handover"};
    worker_ask(consumer, &order, -1);
    for (unsigned i = 0; i < count; i++) {
        void *ptr = NULL;
        BENCH_WEIR(weir_ring_take(ring, WORKER_PATIENCE, sharing->stream, &error, &ptr));
        rest();
        uint64_t now = bench_now();
        BENCH_WEIR(weir_ring_push(ring, ptr, 0, &now, sizeof(now), sharing->stream, &error));
        link_receive_time(consumer->link);
    }
    return worker_hear(consumer);
}

static struct worker_answer round_trip_echoes(const struct sharing *sharing, unsigned count)
{
    const struct worker *consumer = &sharing->consumers[0];
    struct worker_order order = {.task = CONSUMER_ECHOES, .count = count, .cpu = 2};
    worker_tell(consumer, &order, -1);
    for (unsigned i = 0; i < count; i++)
        link_send_time(consumer->link, link_receive_time(consumer->link));
    return worker_hear(consumer);
}

static struct worker_answer round_trip_leases(const struct sharing *sharing, unsigned count)
{
    struct worker_order order = {.task = CONSUMER_LEASES, .count = count, .cpu = 2};
    return worker_ask(&sharing->consumers[0], &order, -1);
}

/* How much longer Weir's way is than the message's. */
static void show_difference(struct sharing *sharing, const char *name, const struct bench_series *ours, const struct bench_series *bare,
                            enum bench_bound bound, double limit)
{
    struct bench_figure *figure = bench_figure_of(&sharing->bench->report, "share", name, ours, bare);
    bench_show(figure, (bench_median(ours) - bench_median(bare)) / 1000, "us more", bound, limit);
}

static void show_handovers(struct sharing *sharing)
{
    struct bench_series frame = {.name = "weir"}, frame99 = {.name = "weir"}, lease = {.name = "weir"}, message = {.name = "message"};
    struct bench_series message99 = {.name = "message"}, echo = {.name = "message there and back"};
    unsigned count = sharing->bench->quick ? HANDOVERS_QUICK : HANDOVERS;
    weir_ring_options options = {.size = sizeof(options), .slot_size = sharing->block, .depth = 4, .overflow = WEIR_OVERFLOW_BLOCK};
    weir_ring *ring = NULL;
    BENCH_WEIR(weir_ring_open(sharing->export, "handover", &options, sharing->stream, &error, &ring));
    link_pin(1);
    hand_over_frames(sharing, ring, 16); /* maps the slots */
    for (size_t i = 0; i < sharing->bench->repetitions; i++) {
        struct worker_answer answer = hand_over_messages(sharing, count);
        bench_add(&message, answer.values[0]);
        bench_add(&message99, answer.values[1]);
        answer = hand_over_frames(sharing, ring, count);
        bench_add(&frame, answer.values[0]);
        bench_add(&frame99, answer.values[1]);
        bench_add(&echo, round_trip_echoes(sharing, count).values[0]);
        bench_add(&lease, round_trip_leases(sharing, count).values[0]);
    }
    link_pin(0);
    weir_ring_close(ring);
    show_difference(sharing, "hand-over of a known block: push to lease", &frame, &message, BENCH_AT_MOST, 15);
    show_difference(sharing, "hand-over of a known block, 99th of 100", &frame99, &message99, BENCH_AT_MOST, 40);
    show_difference(sharing, "lease of a known block by its name, there and back", &lease, &echo, BENCH_SHOWN, 0);
}

void section_share(struct bench *bench)
{
    static struct sharing sharing;
    set_up(&sharing, bench);
    show_firsts(&sharing);
    show_handovers(&sharing);
    sharing_rings(&sharing);
    take_down(&sharing);
}
