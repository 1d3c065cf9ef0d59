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

/* With a few slots the GPU's switches between processes set the pace, by hand too, so a part of that is asked. */
static const struct asked {
    unsigned consumers;
    size_t depth;        /* an index */
    bool is_touched;     /* frames are written and read */
    double frames, part; /* a second, or a part of what is done by hand; both 0: nothing is asked */
} asked_rows[] = {
    {1, 0, false, .part = 0.9}, {2, 0, false, .part = 0}, {4, 0, false, .part = 0.85},
    {1, 1, false, .frames = 20000}, {2, 1, false, .part = 0}, {4, 1, false, .frames = 8000},
    {1, 0, true, .part = 0.9}, {4, 0, true, .part = 0},
    {1, 1, true, .part = 0.9}, {4, 1, true, .part = 0},
};

static void show_row(const struct rings *rings, const struct asked *asked)
{
    struct bench *bench = rings->sharing->bench;
    struct row row = {.consumers = asked->consumers, .depth = asked->depth, .frames = bench->quick ? FRAMES_QUICK : FRAMES};
    struct bench_series ours = {.name = "weir"}, raw = {.name = "raw"};
    char name[96], size[32];
    if (asked->is_touched) {
        row.frames /= 4;
        row.bytes = rings->sharing->block;
    }
    measure(rings, &row, &ours, &raw);
    snprintf(name, sizeof(name), "ring of %u x %s, %s, %u consumer%s", depths[row.depth], bench_size_name(rings->sharing->block, size),
             asked->is_touched ? "written and read" : "untouched", row.consumers, row.consumers == 1 ? "" : "s");
    struct bench_figure *figure = bench_figure_of(&bench->report, "share", name, &ours, &raw);
    figure->unit = "frames/s";
    if (asked->frames > 0)
        bench_show(figure, bench_median(&ours), "frames/s", BENCH_AT_LEAST, asked->frames);
    else
        bench_show_ratio(figure, &ours, &raw, asked->part > 0 ? BENCH_AT_LEAST : BENCH_SHOWN, asked->part);
}

void sharing_rings(struct sharing *sharing)
{
    struct rings rings = {.sharing = sharing};
    connect_all(sharing);
    make_slots(sharing);
    open_rings(&rings);
    for (size_t i = 0; i < COUNT_OF(asked_rows); i++)
        show_row(&rings, &asked_rows[i]);
    for (size_t d = 0; d < DEPTHS; d++)
        weir_ring_close(rings.ring[d]);
}
