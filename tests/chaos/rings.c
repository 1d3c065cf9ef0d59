/* SPDX-License-Identifier: MIT */
/*
 * rings.c - one process pushes frames into a ring that loses none (WEIR_OVERFLOW_BLOCK), others read them; all of them are stopped at random, and
 * killed where that is part of the plan.
 *
 * A reader looks at its own clock between any two things it does. Where more time has passed than a quarter of what the exporter waits for a
 * reader, because it was stopped, or slept, or did not get the processor, it was late, and may have lost frames. One that was not has to
 * get every frame, in order, with the bytes that were written, unchanged for as long as it holds it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gpu/sim.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/company.h"
#include "tests/chaos/waist.h"

#define PATIENCE_MS 2000 /* of the exporter */
#define LATE (PATIENCE_MS / 4 * (SECOND / 1000))
#define HELD_MAX 512

static const char exporter_policy[] = "weir: 1\npools:\n"
                                      "  frames: { devices: [0], ipc: posix_fd, share: { socket: frames } }\n";
static const char reader_policy[] = "weir: 1\npools:\n  main: {}\n";

static struct plan {
    unsigned depth, leases, readers;
    size_t frame; /* bytes */
    bool kills;
} plan;

static struct progress {
    atomic_uint_fast64_t pushed; /* the last frame's number, of the exporter that runs */
    atomic_uint_fast64_t exporters; /* that were started */
    atomic_bool closed;
} *progress;

/* What goes along with a frame. */
struct label {
    uint64_t exporter, frame;
};

static unsigned char byte_of(uint64_t frame)
{
    return (unsigned char)(1 + frame % 255);
}

static void open_weir(struct member *member, const char *policy, weir **w, weir_stream **s)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    waist_set(&(struct waist_settings){ .seed = member->seed, .stumbles = true });
    weir_status status = weir_open(&options, &error, w);
    CHAOS_EXPECT(status == WEIR_OK, "weir_open: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    status = weir_stream_create(*w, 0, NULL, &error, s);
    CHAOS_EXPECT(status == WEIR_OK, "a stream: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
}

static void close_weir(weir *w)
{
    struct sim_census left;
    weir_close(w);
    sim_census(&left);
    CHAOS_EXPECT(!left.blocks && !left.pools && !left.streams && !left.events && !left.reserved,
                 "the end of a process: expected nothing left, seen %zu blocks, %zu pools, %zu streams, %zu events, %llu bytes", left.blocks,
                 left.pools, left.streams, left.events, (unsigned long long)left.reserved);
}

/* The exporter ---------------------------------------------------------------------------------------------------------------------------- */

/* Until the socket of one that was killed can be had, and its memory. */
static weir_export *open_export(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    weir_export *e;
    CHAOS_EXPECT(weir_pool_get(w, "frames", 0, &error, &pool) == WEIR_OK, "a pool: %s", error.text);
    weir_status status = weir_export_open(pool, &error, &e);
    CHAOS_EXPECT(status == WEIR_OK, "an export: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    return e;
}

static void push(weir_ring *ring, struct label label, weir_cuda_stream stream)
{
    weir_error error = WEIR_ERROR_INIT;
    void *slot;
    weir_status status;
    /* All readers can be late at a time: then the wait ends, and the next one finds room. */
    while ((status = weir_ring_take(ring, PATIENCE_MS, stream, &error, &slot)) == WEIR_TIMEOUT)
        error = (weir_error)WEIR_ERROR_INIT;
    CHAOS_EXPECT(status == WEIR_OK, "a slot: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    CHAOS_EXPECT(waist_gpu()->set_async(slot, byte_of(label.frame), plan.frame, stream) == GPU_SUCCESS, "writing a frame: expected success");
    status = weir_ring_push(ring, slot, plan.frame, &label, sizeof label, stream, &error);
    CHAOS_EXPECT(status == WEIR_OK, "a frame: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    atomic_store(&progress->pushed, label.frame);
}

/* What the ring has counted, after so many frames. */
static void check_figures(weir_ring *ring, uint64_t frames)
{
    weir_ring_info info = { .size = sizeof info };
    CHAOS_EXPECT(weir_ring_get_info(ring, &info) == WEIR_OK, "figures of a ring: expected WEIR_OK");
    CHAOS_EXPECT(info.pushed == frames && info.bytes == frames * plan.frame && info.dropped == 0, "expected %llu frames, counted %llu, %llu B, "
                 "%llu dropped", (unsigned long long)frames, (unsigned long long)info.pushed, (unsigned long long)info.bytes,
                 (unsigned long long)info.dropped);
    CHAOS_EXPECT(info.taken == 0 && info.queued <= info.depth && info.hung <= info.readers, "slots: %u taken, %u of %u queued; readers: %u of "
                 "%u hung", info.taken, info.queued, info.depth, info.hung, info.readers);
    CHAOS_EXPECT(info.lag <= info.lag_high && info.lag_high <= frames && info.hung <= info.hangs, "lag %llu, at most %llu, of %llu frames; "
                 "%u hung, in all %llu", (unsigned long long)info.lag, (unsigned long long)info.lag_high, (unsigned long long)frames,
                 info.hung, (unsigned long long)info.hangs);
}

static void run_exporter(struct member *member)
{
    struct chaos_random random = { member->seed };
    weir *w;
    weir_stream *s;
    weir_error error = WEIR_ERROR_INIT;
    weir_ring *ring;
    open_weir(member, exporter_policy, &w, &s);
    weir_export *e = open_export(w);
    weir_ring_options options = { .size = sizeof options, .slot_size = plan.frame, .depth = plan.depth, .overflow = WEIR_OVERFLOW_BLOCK };
    weir_status status = weir_ring_open(e, "ring", &options, weir_stream_handle(s), &error, &ring);
    CHAOS_EXPECT(status == WEIR_OK, "a ring: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
    atomic_store(&progress->pushed, 0);
    uint64_t number = atomic_fetch_add(&progress->exporters, 1) + 1;
    atomic_store(&member->ready, true);
    for (uint64_t frame = 1; !atomic_load(&company_of(member)->over); frame++) {
        push(ring, (struct label){ number, frame }, weir_stream_handle(s));
        check_figures(ring, frame);
        if (random_once_in(&random, 8))
            company_sleep(random_below(&random, 4000000));
        if (random_once_in(&random, 64))
            waist_gpu()->delay(weir_stream_handle(s), 1 + random_below(&random, 2000000));
    }
    weir_ring_close(ring);
    atomic_store(&progress->closed, true);
    weir_export_close(e, 4 * PATIENCE_MS);
    weir_stream_close(s);
    close_weir(w);
}

/* Readers --------------------------------------------------------------------------------------------------------------------------------- */

struct held {
    weir_lease *lease;
    uint64_t frame;
};

struct reading {
    struct member *member;
    struct chaos_random random;
    weir *w;
    weir_stream *s;
    weir_import *i;
    weir_reader *reader;
    struct held held[HELD_MAX];
    unsigned count;
    uint64_t held_since; /* the oldest */
    uint64_t exporter, last; /* frame of that exporter; 0: none yet */
    uint64_t looked;     /* at the clock */
    bool was_late;       /* since the last frame came, or shortly before */
    uint64_t late_until;
};

static void look_at_clock(struct reading *reading)
{
    uint64_t now = company_now();
    bool is_late = now - reading->looked > LATE || (reading->count && now - reading->held_since > LATE);
    if (is_late) /* what was lost then may show only after the frames that were queued */
        reading->late_until = now + 2 * PATIENCE_MS * (SECOND / 1000);
    reading->was_late = reading->was_late || is_late || now < reading->late_until;
    reading->looked = now;
}

static void check_bytes(const struct reading *reading, const struct held *held)
{
    static unsigned char bytes[1 << 20];
    const weir_lease_info *info = weir_lease_get_info(held->lease);
    weir_cuda_stream stream = weir_stream_handle(reading->s);
    CHAOS_EXPECT(waist_gpu()->copy_async(bytes, info->ptr, info->size, stream) == GPU_SUCCESS, "reading a frame: expected success");
    for (size_t i = 0; i < info->size; i++)
        CHAOS_EXPECT(bytes[i] == byte_of(held->frame), "frame %llu: expected byte %u all over, seen %u at %zu", (unsigned long long)held->frame,
                     byte_of(held->frame), bytes[i], i);
}

static void receive(struct reading *reading, weir_lease *lease)
{
    const weir_lease_info *info = weir_lease_get_info(lease);
    struct held *held = &reading->held[reading->count];
    held->lease = lease;
    struct label label;
    CHAOS_EXPECT(info->metadata_size == sizeof label && info->size == plan.frame, "a frame: expected its size, seen %zu and %zu", info->size,
                 info->metadata_size);
    memcpy(&label, info->metadata, sizeof label);
    held->frame = label.frame;
    if (!reading->count++)
        reading->held_since = company_now();
    look_at_clock(reading);
    /* After one was killed a reader goes on with the next one by itself. */
    if (label.exporter != reading->exporter)
        reading->last = 0;
    reading->exporter = label.exporter;
    bool lost = reading->last && held->frame != reading->last + 1;
    CHAOS_EXPECT(held->frame > reading->last, "a frame: expected one behind %llu, seen %llu", (unsigned long long)reading->last,
                 (unsigned long long)held->frame);
    CHAOS_EXPECT(!lost || reading->was_late, "a reader that was never late: expected frame %llu, seen %llu",
                 (unsigned long long)reading->last + 1, (unsigned long long)held->frame);
    chaos_count(&chaos_figures->frames, 1);
    chaos_count(&chaos_figures->late_frames, lost ? held->frame - reading->last - 1 : 0);
    reading->last = held->frame;
    reading->was_late = false;
    if (random_once_in(&reading->random, 4))
        check_bytes(reading, held);
}

static void release(struct reading *reading, unsigned at)
{
    weir_error error = WEIR_ERROR_INIT;
    if (random_once_in(&reading->random, 4))
        check_bytes(reading, &reading->held[at]);
    weir_status status = weir_lease_release(reading->held[at].lease, weir_stream_handle(reading->s), &error);
    CHAOS_EXPECT(status == WEIR_OK, "a release: expected WEIR_OK, seen %s: %.500s", weir_status_name(status), error.text);
}

/* In a burst. */
static void release_all(struct reading *reading)
{
    for (unsigned i = 0; i < reading->count; i++)
        release(reading, i);
    reading->count = 0;
    look_at_clock(reading);
}

static bool is_gone(weir_status status)
{
    return status == WEIR_GONE || status == WEIR_ENDED || status == WEIR_NOT_FOUND || status == WEIR_TIMEOUT;
}

/* Leaves what there was, and waits for an exporter that has the ring. false: the end. */
static bool open_reader(struct reading *reading)
{
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.host_waits = plan.kills;
    weir_reader_close(reading->reader);
    weir_import_close(reading->i);
    reading->reader = NULL;
    reading->i = NULL;
    reading->last = 0;
    while (!atomic_load(&company_of(reading->member)->over)) {
        weir_error error = WEIR_ERROR_INIT;
        weir_status status = reading->i ? WEIR_OK : weir_import_open(reading->w, "frames", &options, &error, &reading->i);
        if (status == WEIR_OK)
            status = weir_reader_open(reading->i, "ring", plan.leases, &error, &reading->reader);
        if (status == WEIR_OK) {
            reading->looked = company_now();
            reading->was_late = false;
            return true;
        }
        CHAOS_EXPECT(is_gone(status), "a reader: expected WEIR_OK or that nobody is there, seen %s: %.500s", weir_status_name(status), error.text);
        company_sleep(SECOND / 100);
    }
    return false;
}

/* The end of the ring, or of its exporter. What was pushed before has come, where the exporter closed it. */
static void judge_end(const struct reading *reading)
{
    if (!atomic_load(&progress->closed) || atomic_load(&progress->exporters) != reading->exporter || !reading->last || reading->was_late)
        return;
    CHAOS_EXPECT(reading->last == atomic_load(&progress->pushed), "a reader that was never late: expected %llu as the last frame, seen %llu",
                 (unsigned long long)atomic_load(&progress->pushed), (unsigned long long)reading->last);
}

/* false: there is nothing more from this exporter. */
static bool read_some(struct reading *reading)
{
    unsigned wanted = 1 + (unsigned)random_below(&reading->random, plan.leases);
    while (reading->count < wanted) {
        weir_error error = WEIR_ERROR_INIT;
        weir_lease *lease;
        look_at_clock(reading);
        weir_status status = weir_reader_next(reading->reader, reading->count ? 20 : 200, weir_stream_handle(reading->s), &error, &lease);
        if (status == WEIR_OK)
            receive(reading, lease);
        else if (status == WEIR_TIMEOUT || status == WEIR_BUSY)
            break;
        else if (status == WEIR_GONE || status == WEIR_ENDED || status == WEIR_NOT_FOUND) /* the next ring may not be there yet */
            return false;
        else
            chaos_find("the next frame: expected one, seen %s: %.500s", weir_status_name(status), error.text);
        if (company_now() - reading->held_since > LATE / 4)
            break;
    }
    if (random_once_in(&reading->random, 50))
        company_sleep(random_below(&reading->random, LATE / 8));
    return true;
}

/* Frames are pushed and none comes, for longer than the exporter waits for anybody. */
static void judge_silence(const struct reading *reading, uint64_t *silent_since)
{
    bool is_silent = atomic_load(&progress->pushed) > reading->last + plan.depth && reading->last && !reading->was_late &&
                     atomic_load(&progress->exporters) == reading->exporter;
    *silent_since = is_silent && *silent_since ? *silent_since : is_silent ? company_now() : 0;
    CHAOS_EXPECT(!is_silent || company_now() - *silent_since < 4 * PATIENCE_MS * (SECOND / 1000),
                 "a reader that was never late: expected frame %llu, seen none although %llu was pushed",
                 (unsigned long long)reading->last + 1, (unsigned long long)atomic_load(&progress->pushed));
}

static void run_reader(struct member *member)
{
    static struct reading reading;
    reading = (struct reading){ .member = member, .random.state = member->seed };
    open_weir(member, reader_policy, &reading.w, &reading.s);
    while (open_reader(&reading)) {
        uint64_t silent_since = 0;
        atomic_store(&member->ready, true);
        bool goes_on = true;
        while (goes_on) {
            goes_on = read_some(&reading);
            release_all(&reading);
            judge_silence(&reading, &silent_since);
        }
        judge_end(&reading);
    }
    weir_stream_close(reading.s);
    close_weir(reading.w);
}

/* Conducting ------------------------------------------------------------------------------------------------------------------------------ */

static void disturb(struct company *company)
{
    struct member *member = company_some(company);
    if (!member)
        return;
    if (plan.kills && !member->is_steady && random_once_in(&company->random, 3)) {
        company_kill(member);
        company_start(company, member);
        return;
    }
    company_stop(member);
    company_sleep(random_below(&company->random, 2 * PATIENCE_MS * (SECOND / 1000)));
    company_continue(member);
}

void chaos_rings(uint64_t seed)
{
    static const unsigned depths[] = { 4, 16, 600 };
    struct company *company = company_gather(seed, "memory=2GiB");
    plan.depth = depths[random_below(&company->random, 3)];
    plan.leases = plan.depth > 100 ? 300 + (unsigned)random_below(&company->random, HELD_MAX - 300) : 1 + (unsigned)random_below(&company->random, 3);
    plan.readers = 1 + (unsigned)random_below(&company->random, 3);
    plan.frame = 4096 << random_below(&company->random, 5);
    plan.kills = random_once_in(&company->random, 2);
    unsigned rounds = 1 + (unsigned)random_below(&company->random, 3);
    snprintf(chaos_plan, sizeof chaos_plan, "a ring of %u slots of %zu bytes, %u readers with %u leases, stopped%s", plan.depth, plan.frame,
             plan.readers, plan.leases, plan.kills ? " and killed" : "");
    progress = company_share(sizeof *progress);
    company_start(company, company_add(company, run_exporter, false));
    for (unsigned i = 0; i < plan.readers; i++)
        company_start(company, company_add(company, run_reader, false));
    company_sleep(SECOND / 2);
    for (unsigned i = 0; i < rounds; i++) {
        disturb(company);
        company_sleep(SECOND / 4);
    }
    company_dismiss(company);
}
