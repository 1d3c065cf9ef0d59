/* SPDX-License-Identifier: MIT */
/*
 * Frames by the ring: as many as can be handed over, and frames that are written and read. Beside the same by hand: blocks that all have
 * imported beforehand, events between processes, a bare message for each frame and consumer and one back. By hand the producer's stream
 * waits for the consumer's event, which Weir never lets it do: a consumer that is killed would stop it for ever.
 */
#include "config.h"

#include "bench/sharing.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES 2000
#define FRAMES_QUICK 400
#define DEPTHS 2

static const unsigned depths[DEPTHS] = {4, WORKER_SLOTS_MAX};

struct rings {
    struct sharing *sharing;
    weir_ring *ring[DEPTHS];
};

/* One row. */
struct row {
    unsigned consumers;
    size_t depth; /* an index */
    unsigned frames;
    size_t bytes; /* of each that are written and read */
};

static void ring_name(size_t depth, char *text, size_t len)
{
    snprintf(text, len, "ring-%u", depths[depth]);
}

/* Setting up --------------------------------------------------------------------------------------------------------------------------- */

static void open_rings(struct rings *rings)
{
    const struct sharing *sharing = rings->sharing;
    weir_ring_options options = {.size = sizeof(options), .slot_size = sharing->block, .overflow = WEIR_OVERFLOW_BLOCK};
    char name[32];
    for (size_t d = 0; d < DEPTHS; d++) {
        options.depth = depths[d];
        ring_name(d, name, sizeof(name));
        BENCH_WEIR(weir_ring_open(sharing->export, name, &options, sharing->stream, &error, &rings->ring[d]));
    }
}

static void make_slots(struct sharing *sharing)
{
    const struct gpu *gpu = sharing->gpu;
    struct worker_order order = {.task = CONSUMER_RAW_POOL};
    for (size_t c = 0; c < SHARING_CONSUMERS; c++)
        worker_ask(&sharing->consumers[c], &order, sharing->raw_pool_fd);
    order.task = CONSUMER_RAW_SLOT;
    for (order.slot = 0; order.slot < WORKER_SLOTS_MAX; order.slot++) {
        struct sharing_slot *slot = &sharing->slots[order.slot];
        BENCH_GPU(gpu, block_export(slot->ptr, &order.block));
        BENCH_GPU(gpu, event_create_shared(0, &slot->ready, &order.ready));
        for (size_t c = 0; c < SHARING_CONSUMERS; c++) {
            BENCH_GPU(gpu, event_create_shared(0, &slot->release[c], &order.release));
            worker_ask(&sharing->consumers[c], &order, -1);
        }
    }
}

/* All but the first are connected already. */
static void connect_all(const struct sharing *sharing)
{
    struct worker_order order = {.task = CONSUMER_CONNECT};
    snprintf(order.text, sizeof(order.text), "%s", sharing->socket);
    for (size_t c = 1; c < SHARING_CONSUMERS; c++)
        worker_ask(&sharing->consumers[c], &order, -1);
}

/* One run: nanoseconds from the first frame to the last consumer's last ------------------------------------------------------------------
 */

static void tell_all(const struct sharing *sharing, const struct row *row, const struct worker_order *order)
{
    for (unsigned c = 0; c < row->consumers; c++)
        worker_tell(&sharing->consumers[c], order, -1);
    for (unsigned c = 0; c < row->consumers; c++)
        worker_hear(&sharing->consumers[c]);
}

static double hear_all(const struct sharing *sharing, const struct row *row, uint64_t start)
{
    uint64_t end = start;
    for (unsigned c = 0; c < row->consumers; c++) {
        uint64_t at = worker_hear(&sharing->consumers[c]).at;
        end = at > end ? at : end;
    }
    BENCH_GPU(sharing->gpu, stream_synchronize(sharing->stream));
    return (double)row->frames * 1e9 / (double)(end - start);
}

static void write_bytes(const struct sharing *sharing, void *ptr, size_t bytes, unsigned frame)
{
    if (bytes)
        BENCH_GPU(sharing->gpu, set_async(ptr, (int)(frame & 0xff), bytes, sharing->stream));
}

static double run_weir(const struct rings *rings, const struct row *row)
{
    const struct sharing *sharing = rings->sharing;
    weir_ring *ring = rings->ring[row->depth];
    struct worker_order order = {.task = CONSUMER_RING, .count = row->frames, .bytes = row->bytes};
    ring_name(row->depth, order.text, sizeof(order.text));
    tell_all(sharing, row, &order);
    uint64_t start = bench_now();
    for (unsigned i = 0; i < row->frames; i++) {
        void *ptr = NULL;
        BENCH_WEIR(weir_ring_take(ring, WORKER_PATIENCE, sharing->stream, &error, &ptr));
        write_bytes(sharing, ptr, row->bytes, i);
        BENCH_WEIR(weir_ring_push(ring, ptr, 0, NULL, 0, sharing->stream, &error));
    }
    return hear_all(sharing, row, start);
}

/* The slot's last frame was read by all, or will have been once the stream comes to this point. */
static void take_back(const struct sharing *sharing, const struct row *row, const struct sharing_slot *slot)
{
    for (unsigned c = 0; c < row->consumers; c++) {
        link_receive_time(sharing->consumers[c].link);
        BENCH_GPU(sharing->gpu, stream_wait_event(sharing->stream, slot->release[c]));
    }
}

static double run_raw(const struct rings *rings, const struct row *row)
{
    const struct sharing *sharing = rings->sharing;
    unsigned depth = depths[row->depth];
    struct worker_order order = {.task = CONSUMER_RAW_RING, .count = row->frames, .slot = depth, .bytes = row->bytes};
    tell_all(sharing, row, &order);
    uint64_t start = bench_now();
    for (unsigned i = 0; i < row->frames; i++) {
        const struct sharing_slot *slot = &sharing->slots[i % depth];
        if (i >= depth)
            take_back(sharing, row, slot);
        write_bytes(sharing, slot->ptr, row->bytes, i);
        BENCH_GPU(sharing->gpu, event_record(slot->ready, sharing->stream));
        for (unsigned c = 0; c < row->consumers; c++)
            link_send_time(sharing->consumers[c].link, i);
    }
    for (unsigned i = row->frames > depth ? row->frames - depth : 0; i < row->frames; i++)
        take_back(sharing, row, &sharing->slots[i % depth]);
    return hear_all(sharing, row, start);
}

/* Rows --------------------------------------------------------------------------------------------------------------------------------- */

static void measure(const struct rings *rings, const struct row *row, struct bench_series *ours, struct bench_series *raw)
{
    struct row short_row = *row;
    short_row.frames = 4 * WORKER_SLOTS_MAX;
    run_weir(rings, &short_row); /* maps the slots */
    run_raw(rings, &short_row);
    for (size_t i = 0; i < rings->sharing->bench->repetitions; i++) {
        bench_add(ours, run_weir(rings, row));
        bench_add(raw, run_raw(rings, row));
    }
}

static struct bench_figure *new_figure(const struct rings *rings, const struct row *row, const char *what, const struct bench_series *ours,
                                       const struct bench_series *raw)
{
    char name[96], size[32];
    snprintf(name, sizeof(name), "ring of %u x %s, %s, %u consumer%s", depths[row->depth], bench_size_name(rings->sharing->block, size),
             what, row->consumers, row->consumers == 1 ? "" : "s");
    struct bench_figure *figure = bench_figure_of(&rings->sharing->bench->report, "share", name, ours, raw);
    figure->unit = "frames/s";
    return figure;
}

/* What is asked of frames that nobody touches: frames a second, a part of what is done by hand, or nothing. */
struct asked {
    double frames, part;
};

static void show_untouched(const struct rings *rings, size_t depth, unsigned consumers, struct asked asked)
{
    struct row row = {.consumers = consumers, .depth = depth, .frames = rings->sharing->bench->quick ? FRAMES_QUICK : FRAMES};
    struct bench_series ours = {.name = "weir"}, raw = {.name = "raw"};
    measure(rings, &row, &ours, &raw);
    struct bench_figure *figure = new_figure(rings, &row, "untouched", &ours, &raw);
    if (asked.frames > 0)
        bench_show(figure, bench_median(&ours), "frames/s", BENCH_AT_LEAST, asked.frames);
    else
        bench_show_ratio(figure, &ours, &raw, asked.part > 0 ? BENCH_AT_LEAST : BENCH_SHOWN, asked.part);
}

static void show_touched(const struct rings *rings, size_t depth, unsigned consumers, enum bench_bound bound)
{
    struct row row = {.consumers = consumers, .depth = depth, .bytes = rings->sharing->block};
    struct bench_series ours = {.name = "weir"}, raw = {.name = "raw"};
    row.frames = (rings->sharing->bench->quick ? FRAMES_QUICK : FRAMES) / 4;
    measure(rings, &row, &ours, &raw);
    struct bench_figure *figure = new_figure(rings, &row, "written and read", &ours, &raw);
    bench_show_ratio(figure, &ours, &raw, bound, 0.9);
}

void sharing_rings(struct sharing *sharing)
{
    static const struct {
        unsigned consumers;
        struct asked asked[DEPTHS];
    } untouched[] = {
        {1, {{.part = 0.9}, {.frames = 20000}}},
        {2, {{.part = 0}, {.part = 0}}},
        {4, {{.part = 0.85}, {.frames = 8000}}},
    };
    struct rings rings = {.sharing = sharing};
    connect_all(sharing);
    make_slots(sharing);
    open_rings(&rings);
    /* With a few slots the GPU's switches between processes set the pace, by hand too, so a part of that is asked. */
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t i = 0; i < COUNT_OF(untouched); i++)
            show_untouched(&rings, d, untouched[i].consumers, untouched[i].asked[d]);
    for (size_t d = 0; d < DEPTHS; d++) {
        show_touched(&rings, d, 1, BENCH_AT_LEAST);
        show_touched(&rings, d, SHARING_CONSUMERS, BENCH_SHOWN);
    }
    for (size_t d = 0; d < DEPTHS; d++)
        weir_ring_close(rings.ring[d]);
}
