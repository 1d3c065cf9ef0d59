/* SPDX-License-Identifier: MIT */
#include "tests/unit/arena_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/backing/arena/rest.h"

#define UNIT WEIR__PAGE_UNIT
#define RANGE (MODEL_UNITS * UNIT)
#define GRAIN WEIR__EXTENT_ALIGNMENT
#define GRAIN_COUNT (RANGE / GRAIN)
#define PAGES 128
#define STEP 4 /* bytes */

/* What the model knows of each 512 bytes. */
struct grain {
    uint32_t sequence; /* of its last free */
    int16_t block;     /* -1: none */
    int8_t stream;     /* that freed it last, or waits for that; -1: it is complete */
    uint8_t users;     /* a bit for each stream that may use it before that: the one that freed it, and those that have waited for it */
};

/* A page of the device, by its handle. */
struct model_page {
    uint64_t bytes;   /* 0: there is none with this handle */
    uint64_t address; /* 0: it is not mapped */
    bool is_new;      /* it was created for the request under way */
};

static struct model model;
static struct grain grains[GRAIN_COUNT];
static struct model_page pages[PAGES];

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "arena_model: %s\n", what);
    abort();
}

static struct grain *grain_at(uint64_t address)
{
    require(address >= MODEL_BASE && address < MODEL_BASE + RANGE && address % GRAIN == 0, "an address that is not in the range");
    return &grains[(address - MODEL_BASE) / GRAIN];
}

static bool is_complete(const struct grain *grain)
{
    if (grain->stream < 0)
        return true;
    const struct weir__arena_stream *stream = &model.streams[grain->stream];
    bool is_small = grain >= &grains[GRAIN_COUNT / 4 * 3];
    return grain->sequence <= (is_small ? stream->small.completed : stream->large.completed);
}

/* The device --------------------------------------------------------------------------------------------------------------------------- */

static void run_within(void);

/* Whether this call is one that fails. */
static bool fails(void)
{
    run_within();
    if (model.fail_in == 0 || --model.fail_in > 0)
        return false;
    if (model.fail_more > 0) {
        model.fail_more--;
        model.fail_in = 1;
    }
    model.failed = true;
    return true;
}

#define SHORTAGE 2

static bool is_shortage(int code)
{
    return code == SHORTAGE;
}

static int create(void *data, uint64_t bytes, uint64_t *handle)
{
    require(data == &model && bytes > 0 && bytes % UNIT == 0, "a page of no units");
    if (fails())
        return model.is_broken ? 5 : SHORTAGE;
    if (bytes > model.largest || model.created + bytes > model.capacity)
        return SHORTAGE;
    for (*handle = 1; *handle < PAGES && pages[*handle].bytes; ++*handle)
        ;
    require(*handle < PAGES, "more pages than there is memory");
    pages[*handle] = (struct model_page){.bytes = bytes, .is_new = true};
    model.created += bytes;
    return 0;
}

static int map(void *data, uint64_t address, uint64_t bytes, uint64_t handle)
{
    require(data == &model && handle < PAGES && pages[handle].bytes == bytes && !pages[handle].address, "not a page to be mapped");
    require((address - MODEL_BASE) % UNIT == 0 && address >= MODEL_BASE && address + bytes <= MODEL_BASE + RANGE, "a page out of range");
    for (size_t i = 0; i < PAGES; i++)
        require(!pages[i].address || pages[i].address + pages[i].bytes <= address || address + bytes <= pages[i].address,
                "two pages at one address");
    if (fails())
        return 3;
    pages[handle].address = address;
    return 0;
}

static int unmap(void *data, uint64_t address, uint64_t bytes)
{
    require(data == &model, "not the device's data");
    size_t at = 0;
    while (at < PAGES && !(pages[at].address == address && pages[at].bytes == bytes))
        at++;
    require(at < PAGES && address, "not a whole page to be unmapped");
    if (fails())
        return 4;
    for (uint64_t i = 0; i < bytes; i += GRAIN) {
        const struct grain *grain = grain_at(address + i);
        require(grain->block < 0, "a live byte is unmapped");
        require(is_complete(grain), "a pending free is unmapped");
    }
    pages[at].address = 0;
    return 0;
}

static void release(void *data, uint64_t bytes, uint64_t handle)
{
    require(data == &model && handle < PAGES && pages[handle].bytes == bytes && !pages[handle].address, "not a page to be released");
    model.created -= bytes;
    pages[handle].bytes = 0;
    run_within();
}

static const struct weir__page_driver driver = {create, map, unmap, release, is_shortage};

/* Comparing ---------------------------------------------------------------------------------------------------------------------------- */

static void check_streams(void)
{
    uint64_t small = 0, large = 0;
    for (size_t i = 0; i < MODEL_STREAMS; i++) {
        require(weir__extent_stream_is_valid(&model.arena.small.extents, &model.streams[i].small), "a stream's small frees");
        require(weir__extent_stream_is_valid(&model.arena.large.extents, &model.streams[i].large), "a stream's large frees");
        small += model.streams[i].small.bytes;
        large += model.streams[i].large.bytes;
    }
    require(small == model.arena.small.extents.pending_bytes && large == model.arena.large.extents.pending_bytes, "what is pending");
}

static void check_blocks(void)
{
    uint64_t live = 0;
    for (size_t i = 0; i < MODEL_BLOCKS; i++) {
        const struct model_block *block = &model.blocks[i];
        if (!block->extent)
            continue;
        require(block->extent->state == WEIR__EXTENT_LIVE && block->extent->address == block->address &&
                    block->extent->bytes == weir__extent_round(block->bytes),
                "a live block changed");
        live += block->extent->bytes;
    }
    require(weir__arena_figures(&model.arena).live == live, "what is live");
}

static void check_pages(void)
{
    uint64_t mapped = 0;
    for (size_t i = 0; i < PAGES; i++) {
        if (!pages[i].bytes)
            continue;
        require(pages[i].address, "a page that is mapped nowhere is kept");
        bool is_small = pages[i].address >= model.arena.small.extents.base;
        const struct weir__pages *part = is_small ? &model.arena.small : &model.arena.large;
        const struct weir__page *page = &part->map[(pages[i].address - part->extents.base) / UNIT];
        require(page->handle == i && page->units == pages[i].bytes / UNIT, "a page that the arena does not know");
        mapped += pages[i].bytes;
    }
    struct weir__arena_figures figures = weir__arena_figures(&model.arena);
    require(figures.mapped == mapped && model.created == mapped, "what is mapped");
    require(figures.live + figures.complete + figures.pending == mapped, "live + complete + pending = mapped");
}

void model_check(struct model *m)
{
    require(m == &model, "not the model");
    require(weir__arena_is_valid(&model.arena), "the arena is not valid");
    check_streams();
    check_blocks();
    check_pages();
}

/* Bytes of pages that may be moved or released, as the arena sees it. */
static uint64_t spare_bytes(const struct weir__pages *part)
{
    uint64_t sum = 0;
    for (const struct weir__extent *extent = part->extents.first; extent != &part->extents.end; extent = extent->after)
        for (size_t i = 0; extent->state == WEIR__EXTENT_FREE && !extent->stream && i < PAGES; i++)
            if (pages[i].bytes && pages[i].address >= extent->address && pages[i].address + pages[i].bytes <= weir__extent_end(extent))
                sum += pages[i].bytes;
    return sum;
}

/* A refusal is right if something failed, or if memory without a live byte and the device's would not do. */
static void check_refusal(uint64_t bytes, int code)
{
    model.refused_count++;
    if (code == WEIR__PAGE_NO_HOST_MEMORY)
        require(model.host_may_fail, "no host memory");
    if (model.failed || model.interrupted || code < 0)
        return;
    uint64_t there = spare_bytes(&model.arena.small) + spare_bytes(&model.arena.large);
    if (model.capacity > model.created)
        there += (model.capacity - model.created) & -UNIT;
    require(there < bytes, "a request is refused although there is memory for it");
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

struct model *model_new(unsigned units)
{
    memset(&model, 0, sizeof(model));
    memset(pages, 0, sizeof(pages));
    for (size_t i = 0; i < GRAIN_COUNT; i++)
        grains[i] = (struct grain){.block = -1, .stream = -1};
    model.capacity = units * UNIT;
    model.largest = UINT64_MAX;
    require(weir__arena_init(&model.arena, MODEL_BASE, RANGE, &driver, &model), "no arena");
    return &model;
}

static struct weir__arena_stream *stream_of(int stream)
{
    return stream < 0 ? NULL : &model.streams[stream];
}

static struct model_block *note_block(struct weir__extent *extent, int stream, uint64_t bytes)
{
    int16_t at = 0;
    while (model.blocks[at].extent)
        at++;
    require(extent->bytes == weir__extent_round(bytes) && extent->state == WEIR__EXTENT_LIVE, "not the bytes that were asked for");
    for (uint64_t i = 0; i < extent->bytes; i += GRAIN) {
        struct grain *grain = grain_at(extent->address + i);
        require(grain->block < 0, "a live byte is handed out again");
        require((stream >= 0 && grain->users >> stream & 1) || is_complete(grain), "a stream gets what another one still uses");
        grain->block = at;
    }
    uint64_t covered = 0;
    for (size_t i = 0; i < PAGES; i++) {
        uint64_t low = pages[i].address > extent->address ? pages[i].address : extent->address;
        uint64_t page_end = pages[i].address + pages[i].bytes, end = weir__extent_end(extent);
        uint64_t high = page_end < end ? page_end : end;
        covered += pages[i].address && low < high ? high - low : 0;
    }
    require(covered == extent->bytes, "a block without a page");
    model.blocks[at] = (struct model_block){.extent = extent, .address = extent->address, .bytes = bytes};
    model.live_count++;
    model.served_count++;
    return &model.blocks[at];
}

/* The next block shares the unit in which a large block ends: a page that was created for that block has at most one unit beside it. */
static void check_end(const struct weir__extent *extent)
{
    uint64_t end = weir__extent_end(extent);
    if (extent->bytes < 3 * UNIT / 2 || end % UNIT == 0 || model.failed || model.interrupted)
        return;
    for (size_t i = 0; i < PAGES; i++)
        if (pages[i].is_new && pages[i].address < end && end < pages[i].address + pages[i].bytes)
            require(pages[i].bytes <= 2 * UNIT, "a large page that the next block shares");
}

/* can_grow: false in the middle of a call of the device. */
static struct model_block *allocate(int stream, uint64_t bytes, bool can_grow)
{
    struct weir__extent *extent = NULL;
    int code = 0;
    if (model.live_count == MODEL_BLOCKS)
        return NULL;
    extent = weir__arena_take(&model.arena, stream_of(stream), bytes);
    if (!extent && can_grow) {
        for (size_t i = 0; i < PAGES; i++)
            pages[i].is_new = false;
        code = weir__arena_grow(&model.arena, stream_of(stream), bytes, &extent);
        if (extent)
            check_end(extent);
    }
    require(!code || !extent, "a block in spite of an error");
    if (extent)
        return note_block(extent, stream, bytes);
    if (can_grow)
        check_refusal(bytes, code);
    return NULL;
}

struct model_block *model_allocate(struct model *m, int stream, uint64_t bytes)
{
    m->failed = m->interrupted = false;
    return allocate(stream, bytes, true);
}

void model_free(struct model *m, struct model_block *block, int stream, uint64_t back)
{
    uint64_t sequence = 0;
    if (stream >= 0) {
        uint64_t next = ++m->sequences[stream];
        sequence = back < next ? next - back : next;
    }
    uint8_t users = (uint8_t)(stream < 0 ? 0 : 1 << stream);
    for (uint64_t i = 0; i < block->extent->bytes; i += GRAIN)
        *grain_at(block->address + i) =
            (struct grain){.block = -1, .stream = (int8_t)stream, .users = users, .sequence = (uint32_t)sequence};
    struct weir__extent *extent = block->extent;
    block->extent = NULL;
    m->live_count--;
    weir__arena_give(&m->arena, extent, stream_of(stream), sequence);
}

void model_complete(struct model *m, int stream, uint64_t sequence)
{
    weir__arena_complete(&m->arena, &m->streams[stream], sequence);
}

static bool is_pending(const struct weir__extent *extent)
{
    return extent->state == WEIR__EXTENT_FREE || (extent->state == WEIR__EXTENT_HELD && extent->former == WEIR__EXTENT_FREE);
}

static void wait_in(const struct weir__extents *extents, const struct weir__extent_stream *stream, int to, uint32_t sequence)
{
    for (const struct weir__extent *extent = extents->first; extent != &extents->end; extent = extent->after)
        for (uint64_t i = 0; is_pending(extent) && extent->stream == stream && i < extent->bytes; i += GRAIN) {
            struct grain *grain = grain_at(extent->address + i);
            grain->stream = (int8_t)to;
            grain->users |= (uint8_t)(1 << to);
            grain->sequence = sequence;
        }
}

void model_wait(struct model *m, int stream, int to)
{
    uint64_t sequence = ++m->sequences[to];
    if (stream == to)
        return;
    wait_in(&m->arena.small.extents, &m->streams[stream].small, to, (uint32_t)sequence);
    wait_in(&m->arena.large.extents, &m->streams[stream].large, to, (uint32_t)sequence);
    weir__arena_pass_on(&m->arena, &m->streams[stream], 0, m->sequences[stream], &m->streams[to], sequence);
}

uint64_t model_trim(struct model *m, uint64_t bytes)
{
    uint64_t before = m->created, released = weir__arena_trim(&m->arena, bytes);
    require(before - m->created == released, "a trim that gave back something else than it says");
    return released;
}

/* Programs ----------------------------------------------------------------------------------------------------------------------------- */

static uint64_t size_of(uint8_t kind, uint8_t much)
{
    static const uint64_t odd[] = {
        1,          WEIR__ARENA_LARGE - 1, WEIR__ARENA_LARGE,       WEIR__ARENA_LARGE + 1, UNIT,    3 * UNIT, 24 * UNIT, RANGE,
        UINT64_MAX, UINT64_C(1) << 63,     (UINT64_C(1) << 63) - 1, UINT64_MAX - 510,      8 * UNIT};
    switch (kind % 6) {
    case 0:
        return 1 + much * UINT64_C(97);
    case 1:
        return 1 + much * UINT64_C(4096);
    case 2:
        return WEIR__ARENA_LARGE + much * UINT64_C(16384);
    case 3:
        return 1 + much * (UNIT / 32);
    case 4:
        return (much % 8 + 1) * UNIT;
    default:
        return odd[much % (sizeof(odd) / sizeof(odd[0]))];
    }
}

static struct model_block *pick(unsigned nth)
{
    nth %= (unsigned)model.live_count;
    for (size_t i = 0;; i++)
        if (model.blocks[i].extent && nth-- == 0)
            return &model.blocks[i];
}

/* What other threads may do in the middle of a call of the device. */
static void small_step(const uint8_t step[STEP], bool can_grow)
{
    int stream = (step[1] & 7) - 1;
    if (stream >= MODEL_STREAMS)
        stream -= MODEL_STREAMS;
    switch (step[0] % 8) {
    case 0:
    case 1:
    case 2:
        allocate(stream, size_of(step[1] >> 3, step[2]), can_grow);
        break;
    case 3:
    case 4:
    case 5:
        if (model.live_count > 0)
            model_free(&model, pick(step[2]), stream, step[3] & 8 ? step[3] >> 5 : 0);
        break;
    default:
        stream = stream < 0 ? 0 : stream;
        if (step[0] % 8 == 6 && (step[3] & 16))
            model_wait(&model, stream, step[2] % MODEL_STREAMS);
        else
            model_complete(&model, stream, model.sequences[stream] < step[2] % 8 ? 0 : model.sequences[stream] - step[2] % 8);
    }
}

static void run_within(void)
{
    if (model.within_count == 0)
        return;
    const uint8_t *step = model.within;
    model.interrupted = true;
    model.within += STEP;
    model.within_count--;
    small_step(step, false);
    require(weir__extents_are_valid(&model.arena.small.extents) && weir__extents_are_valid(&model.arena.large.extents),
            "extents are not valid in the middle of a call");
    check_streams();
    check_blocks();
}

/* Has the part as many misses as it remembers at most, so that its next growth may create pages rather than move any. */
static void make_restless(struct weir__pages *part)
{
    part->live_high = UINT64_MAX;
    part->calm_at = part->extents.taken_count + 2 * WEIR__REST_MISSES * WEIR__REST_REQUESTS;
}

static void step(const uint8_t bytes[STEP])
{
    model.failed = model.interrupted = false;
    switch (bytes[0] >> 4) {
    case 12:
        make_restless(bytes[1] & 1 ? &model.arena.small : &model.arena.large);
        break;
    case 13:
        model_trim(&model, bytes[1] & 1 ? UINT64_MAX : bytes[2] * UNIT / 2);
        break;
    case 14:
        model.fail_in = bytes[1] % 8 + 1;
        break;
    case 15:
        model.capacity = bytes[1] % MODEL_UNITS * UNIT + (bytes[2] & 1) * UNIT / 2;
        break;
    default:
        small_step(bytes, true);
    }
}

void model_run(const uint8_t *data, size_t size, bool host_may_fail)
{
    model_new(20);
    model.host_may_fail = host_may_fail;
    for (int i = 1; i < MODEL_STREAMS; i += 2)
        model.streams[i].small.keeps_steps = model.streams[i].large.keeps_steps = true;
    while (size >= STEP) {
        const uint8_t *now = data;
        /* Some steps are followed by those that happen within them. */
        size_t within = now[3] & 1 ? now[3] >> 1 & 3 : 0;
        data += STEP;
        size -= STEP;
        within = within < size / STEP ? within : size / STEP;
        model.within = data;
        model.within_count = within;
        step(now);
        data += within * STEP;
        size -= within * STEP;
        model.within_count = 0;
        model_check(&model);
    }
    model_end(&model);
}

void model_end(struct model *m)
{
    m->fail_in = 0;
    m->within_count = 0;
    for (size_t i = 0; i < MODEL_BLOCKS; i++)
        if (m->blocks[i].extent)
            model_free(m, &m->blocks[i], (int)(i % (MODEL_STREAMS + 1)) - 1, 0);
    model_check(m);
    for (int i = 0; i < MODEL_STREAMS; i++)
        model_complete(m, i, m->sequences[i]);
    model_check(m);
    require(weir__arena_figures(&m->arena).pending == 0, "pending when all is complete");
    bool may_fail = m->host_may_fail;
    model_trim(m, UINT64_MAX);
    require(may_fail || m->created == 0, "memory that nobody uses is not given back");
    model_check(m);
    m->moved_count = m->arena.small.moved_count + m->arena.large.moved_count;
    weir__arena_clear(&m->arena);
    require(m->created == 0, "pages outlive their arena");
}
