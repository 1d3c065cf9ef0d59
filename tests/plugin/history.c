/* SPDX-License-Identifier: MIT */
/*
 * What torch's memory snapshots show, and the rules that its viewers need: played backwards from the segments and blocks of a snapshot, its
 * events must fit at each step, with every block in a segment. `expect_sound` plays them.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/plugin/plug.h"
#include "tests/plugin/recorded.h"
#include "tests/support/fail_malloc.h"

#define SLOTS 64
#define EVENTS 100000

static gpu_stream a, b;

static void set_up(void)
{
    plug_set_up("devices=2,memory=1GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
}

/* Tensors ------------------------------------------------------------------------------------------------------------------------------ */

static struct tensor {
    void *ptr;
    size_t size;
    int device;
    gpu_stream stream;
} tensors[4 * SLOTS];

static void begin_with(size_t entries, enum recorded_level level, bool clears, const char *left_out)
{
    ck_assert(recorded_begin(entries, level, clears, left_out));
}

static void begin(void)
{
    begin_with(EVENTS, RECORDED_ALL_STACKS, false, NULL);
}

static struct tensor *make_at(struct tensor *tensor, size_t size, int device, gpu_stream stream)
{
    *tensor = (struct tensor){ plug_malloc(size, device, stream), size, device, stream };
    ck_assert(recorded_insert(tensor->ptr, size, device, stream));
    return tensor;
}

static struct tensor *make(size_t size, gpu_stream stream)
{
    size_t i = 0;
    while (tensors[i].ptr)
        i++;
    return make_at(&tensors[i], size, 0, stream);
}

static void drop(struct tensor *tensor)
{
    struct tensor former = *tensor;
    tensor->ptr = NULL;
    bool is_told = recorded_take(former.ptr);
    weir_torch_free(former.ptr, (ssize_t)former.size, former.device, former.stream);
    if (is_told)
        recorded_freed(former.ptr);
}

static struct recorded *take(void)
{
    struct recorded *snapshot = recorded_snapshot();
    ck_assert_ptr_nonnull(snapshot);
    return snapshot;
}

/* The rules ---------------------------------------------------------------------------------------------------------------------------- */

/* What there is at one step, going backwards. */
static struct state {
    struct recorded_segment *segments;
    struct recorded_part *blocks; /* the active ones */
    size_t segment_count, block_count;
} state;

static struct recorded_segment *segment_of(uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < state.segment_count; i++) {
        struct recorded_segment *segment = &state.segments[i];
        if (address < segment->address + segment->size && segment->address < address + size)
            return segment;
    }
    return NULL;
}

static struct recorded_part *block_of(uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < state.block_count; i++)
        if (address < state.blocks[i].address + state.blocks[i].size && state.blocks[i].address < address + size)
            return &state.blocks[i];
    return NULL;
}

/* Sizes of parts add up, and segments do not overlap. */
static void expect_parts(const struct recorded *snapshot)
{
    uint64_t behind = 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct recorded_segment *segment = &snapshot->segments[i];
        uint64_t at = segment->address;
        ck_assert_uint_ge(segment->address, behind);
        ck_assert_uint_ge(segment->part_count, 1);
        for (size_t j = 0; j < segment->part_count; j++) {
            const struct recorded_part *part = &snapshot->parts[segment->first_part + j];
            ck_assert_uint_eq(part->address, at);
            ck_assert_uint_gt(part->size, 0);
            ck_assert_uint_le(part->asked, part->size);
            ck_assert(part->is_active || !part->is_allocated);
            ck_assert_int_eq(part->is_active, part->asked > 0);
            at += part->size;
        }
        ck_assert_uint_eq(at, segment->address + segment->size);
        behind = at;
    }
}

static void start_from(const struct recorded *snapshot)
{
    size_t room = snapshot->event_count + snapshot->part_count + 1;
    state.segments = calloc(snapshot->event_count + snapshot->segment_count + 1, sizeof *state.segments);
    state.blocks = calloc(room, sizeof *state.blocks);
    ck_assert(state.segments && state.blocks);
    state.segment_count = snapshot->segment_count;
    if (snapshot->segment_count)
        memcpy(state.segments, snapshot->segments, snapshot->segment_count * sizeof *state.segments);
    state.block_count = 0;
    for (size_t i = 0; i < snapshot->part_count; i++)
        if (snapshot->parts[i].is_active)
            state.blocks[state.block_count++] = snapshot->parts[i];
}

static void undo_segment(const struct recorded_event *event)
{
    struct recorded_segment *segment = segment_of(event->address, event->size);
    if (event->action == RECORDED_SEGMENT_FREE) {
        ck_assert_msg(!segment, "a segment is freed beside another at its address");
        state.segments[state.segment_count++] = (struct recorded_segment){
            .device = event->device, .address = event->address, .size = event->size, .stream = event->stream, .pool = event->pool };
        return;
    }
    ck_assert_msg(segment && segment->address == event->address && segment->size == event->size, "a segment that is there no more");
    ck_assert_msg(!block_of(event->address, event->size), "a block is older than its segment");
    ck_assert_ptr_eq(segment->stream, event->stream);
    *segment = state.segments[--state.segment_count];
}

static void undo_block(const struct recorded_event *event)
{
    struct recorded_segment *segment = segment_of(event->address, event->size);
    struct recorded_part *block = block_of(event->address, event->size);
    ck_assert_msg(segment && segment->address <= event->address && event->address + event->size <= segment->address + segment->size,
                  "a block lies in no segment");
    ck_assert_ptr_eq(segment->stream, event->stream);
    ck_assert_int_eq(segment->device, event->device);
    ck_assert_uint_eq(segment->pool, event->pool);
    if (event->action == RECORDED_FREE_COMPLETED) {
        ck_assert_msg(!block, "a free is complete of what has an owner");
        state.blocks[state.block_count++] =
            (struct recorded_part){ .address = event->address, .size = event->size, .asked = event->size, .is_active = 1 };
        return;
    }
    ck_assert_msg(block && block->address == event->address && block->asked == event->size, "no such block");
    ck_assert_int_eq(block->is_allocated, event->action == RECORDED_ALLOC);
    if (event->action == RECORDED_FREE_REQUESTED)
        block->is_allocated = 1;
    else
        *block = state.blocks[--state.block_count];
}

/* Leaves in `state` what there was before the first event. */
static void expect_sound(const struct recorded *snapshot)
{
    free(state.segments);
    free(state.blocks);
    expect_parts(snapshot);
    start_from(snapshot);
    for (size_t i = snapshot->event_count; i-- > 0;) {
        const struct recorded_event *event = &snapshot->events[i];
        ck_assert(i == 0 || event[-1].device != event->device || event[-1].time <= event->time);
        switch (event->action) {
        case RECORDED_SEGMENT_ALLOC:
        case RECORDED_SEGMENT_FREE:
            undo_segment(event);
            break;
        case RECORDED_ALLOC:
        case RECORDED_FREE_REQUESTED:
        case RECORDED_FREE_COMPLETED:
            undo_block(event);
            break;
        default:
            ck_assert(event->action == RECORDED_SNAPSHOT || event->action == RECORDED_OOM);
        }
    }
}

/* The actions of the snapshot, a letter for each, of a sound one. What began before is not in it. */
static const char *story(const struct recorded *snapshot)
{
    static char text[256];
    expect_sound(snapshot);
    ck_assert_uint_lt(snapshot->event_count, sizeof text);
    for (size_t i = 0; i < snapshot->event_count; i++)
        text[i] = (char)snapshot->events[i].action;
    text[snapshot->event_count] = '\0';
    return text;
}

static void expect_story(const char *expected)
{
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), expected);
    recorded_free(snapshot);
}

/* Bytes of all segments, of blocks, and of those that torch has. */
struct bytes {
    uint64_t segments, active, allocated;
};

static struct bytes bytes_now(void)
{
    struct bytes bytes = { 0 };
    struct recorded *snapshot = take();
    expect_sound(snapshot);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        bytes.segments += snapshot->segments[i].size;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        bytes.active += snapshot->parts[i].asked;
        bytes.allocated += snapshot->parts[i].is_allocated ? snapshot->parts[i].asked : 0;
    }
    recorded_free(snapshot);
    return bytes;
}

/* Segments and blocks ------------------------------------------------------------------------------------------------------------------ */

START_TEST(block_of_a_cache_stays_a_segment_until_it_goes_back)
{
    begin();
    drop(make(4096, a));
    ck_assert_uint_eq(bytes_now().segments, 4096);
    ck_assert_uint_eq(bytes_now().active, 0);
    struct tensor *again = make(4000, a);
    ck_assert_uint_eq(bytes_now().active, 4000);
    drop(again);
    weir_torch_reset();
    struct recorded *snapshot = take();
    ck_assert_uint_eq(snapshot->segment_count, 0);
    ck_assert_str_eq(story(snapshot), "SafcssasfcF");
    ck_assert_uint_eq(state.segment_count, 0);
    recorded_free(snapshot);
    recorded_end();
}
END_TEST

START_TEST(what_there_was_before_has_no_events_and_is_shown)
{
    struct tensor *live = make(4096, a);
    drop(make(64 * KIB, b));
    begin();
    struct bytes bytes = bytes_now();
    ck_assert_uint_eq(bytes.segments, 4096 + 64 * KIB);
    ck_assert_uint_eq(bytes.allocated, 4096);
    drop(make(64 * KIB, b));
    drop(live);
    expect_story("safcfc");
    ck_assert_uint_eq(state.segment_count, 2);
    ck_assert_uint_eq(state.block_count, 1);
    recorded_end();
}
END_TEST

START_TEST(memory_of_others_in_the_process_is_not_shown)
{
    weir *w;
    weir_error error = WEIR_ERROR_INIT;
    void *ptr;
    begin();
    drop(make(4096, a));
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    ck_assert_int_eq((weir_malloc)(w, &ptr, 8 * MIB, 0, a), WEIR_OK);
    ck_assert_uint_eq(bytes_now().segments, 4096);
    ck_assert_int_eq((weir_free)(w, ptr, a), WEIR_OK);
    expect_story("Safcs");
    recorded_end();
}
END_TEST

START_TEST(events_bear_the_stream_of_the_segment_and_that_of_the_block)
{
    drop(make(512, b));
    begin();
    struct tensor *tensor = make(4096, a);
    /* On another stream, whose cache has it from now on. */
    ck_assert(recorded_take(tensor->ptr));
    weir_torch_free_alive(tensor->ptr, 4096, 0, b);
    recorded_freed(tensor->ptr);
    void *ptr = tensor->ptr;
    tensor->ptr = NULL;
    tensor = make(4096, b);
    ck_assert_ptr_eq(tensor->ptr, ptr);
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), "Safca");
    ck_assert_ptr_eq(snapshot->events[4].stream, a);
    ck_assert_ptr_eq(snapshot->events[4].block_stream, b);
    recorded_free(snapshot);
    recorded_end();
}
END_TEST

START_TEST(free_on_a_stream_that_may_be_gone_is_pending_until_it_is_named)
{
    gpu_stream external = plug_external(0);
    begin();
    drop(make(4 * MIB, external));
    struct bytes bytes = bytes_now();
    ck_assert_uint_eq(bytes.active, 4 * MIB);
    ck_assert_uint_eq(bytes.allocated, 0);
    drop(make(512, external));
    weir_torch_reset();
    ck_assert_uint_eq(bytes_now().active, 0);
    ck_assert_uint_eq(bytes_now().segments, 0);
    recorded_end();
}
END_TEST

START_TEST(what_waits_when_it_begins_is_pending)
{
    gpu_stream external = plug_external(0);
    drop(make(4 * MIB, external));
    begin();
    ck_assert_uint_eq(bytes_now().active, 4 * MIB);
    ck_assert_uint_eq(bytes_now().allocated, 0);
    weir_torch_reset();
    ck_assert_uint_eq(bytes_now().segments, 0);
    recorded_end();
}
END_TEST

START_TEST(block_that_a_capture_holds_back_is_pending_until_its_end)
{
    begin();
    struct tensor *tensor = make(8 * MIB, a);
    plug_capture_begin(0, 1, a);
    drop(tensor);
    struct bytes bytes = bytes_now();
    ck_assert_uint_ge(bytes.segments, 8 * MIB);
    ck_assert_uint_eq(bytes.allocated, 0);
    ck_assert_uint_eq(bytes.active, 8 * MIB);
    plug_capture_end(0, 1, a);
    ck_assert_uint_eq(bytes_now().active, 0);
    weir_torch_release_pool(0, plug_id(1));
    recorded_end();
}
END_TEST

START_TEST(chunk_of_a_graph_is_a_segment_with_its_id)
{
    begin();
    plug_capture_begin(0, 7, a);
    struct tensor *first = make(4096, a), *second = make(1000, a);
    plug_capture_end(0, 7, a);
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), "Saa");
    ck_assert_uint_eq(snapshot->segment_count, 1);
    ck_assert_uint_eq(snapshot->segments[0].pool, 7);
    ck_assert_uint_eq(snapshot->segments[0].size, 2 * MIB);
    ck_assert_uint_eq(snapshot->segments[0].part_count, 3);
    ck_assert_uint_eq(snapshot->parts[0].asked, 4096);
    ck_assert_uint_eq(snapshot->parts[0].size, 4096);
    ck_assert_uint_eq(snapshot->parts[1].asked, 1000);
    ck_assert_uint_eq(snapshot->parts[1].size, 1024);
    recorded_free(snapshot);
    recorded_end();
    begin();
    ck_assert_uint_eq(bytes_now().allocated, 5096);
    drop(first);
    drop(second);
    snapshot = take();
    ck_assert_uint_eq(snapshot->segments[0].pool, 7);
    ck_assert_ptr_eq(snapshot->segments[0].stream, a);
    recorded_free(snapshot);
    weir_torch_release_pool(0, plug_id(7));
    expect_story("sfcfcs");
    weir_torch_reset();
    expect_story("sfcfcssF");
    ck_assert_uint_eq(bytes_now().segments, 0);
    recorded_end();
}
END_TEST

START_TEST(blocks_of_an_arena_are_segments_too)
{
    plug_set_up("memory=1GiB", "weir: 1\npools: { p: { backing: arena } }\n");
    a = plug_stream(0);
    begin();
    struct tensor *tensor = make(3 * MIB + 1, a);
    ck_assert_uint_eq(bytes_now().allocated, 3 * MIB + 1);
    ck_assert_uint_eq(bytes_now().segments, 3 * MIB + 512);
    drop(tensor);
    weir_torch_reset();
    ck_assert_uint_eq(bytes_now().segments, 0);
    recorded_end();
}
END_TEST

START_TEST(each_device_has_its_own_events)
{
    gpu_stream far = plug_stream(1);
    begin();
    struct tensor *tensor = make_at(&tensors[0], 4096, 1, far);
    drop(make(512, a));
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), "SafcSa");
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(snapshot->events[i].device, i >= 4);
    recorded_free(snapshot);
    drop(tensor);
    recorded_end();
}
END_TEST

/* What is kept ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(only_the_latest_events_are_kept)
{
    begin_with(10, RECORDED_ALL_STACKS, false, NULL);
    for (int i = 0; i < 100; i++)
        drop(make(4096, a));
    expect_story("cafcafcafc");
    begin_with(4, RECORDED_ALL_STACKS, false, NULL);
    expect_story("afcs");
    begin_with(4, RECORDED_ALL_STACKS, true, NULL);
    expect_story("");
    recorded_end();
}
END_TEST

START_TEST(actions_can_be_left_out)
{
    begin_with(EVENTS, RECORDED_ALL_STACKS, false, "free_requested free_completed nothing");
    drop(make(4096, a));
    drop(make(4096, a));
    struct recorded *snapshot = take();
    ck_assert_uint_eq(snapshot->event_count, 3);
    ck_assert_int_eq(snapshot->events[2].action, RECORDED_ALLOC);
    recorded_free(snapshot);
    recorded_end();
}
END_TEST

START_TEST(out_of_memory_is_an_event)
{
    begin();
    recorded_oom(3 * GIB, 1, b, 77);
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), "o");
    ck_assert_uint_eq(snapshot->events[0].address, 77);
    ck_assert_uint_eq(snapshot->events[0].size, 3 * GIB);
    ck_assert_int_eq(snapshot->events[0].device, 1);
    recorded_free(snapshot);
    recorded_end();
    ck_assert_uint_eq(recorded_stacks(), 0);
}
END_TEST

START_TEST(live_block_can_be_annotated)
{
    begin();
    struct tensor *tensor = make(4096, a);
    recorded_annotate(tensor->ptr, "a word");
    recorded_annotate((char *)tensor->ptr + 512, "nobody's");
    struct recorded *snapshot = take();
    ck_assert_uint_eq(snapshot->event_count, 3);
    ck_assert_int_eq(snapshot->events[2].action, RECORDED_ANNOTATE);
    recorded_free(snapshot);
    drop(tensor);
    recorded_end();
    ck_assert_uint_eq(recorded_stacks(), 0);
}
END_TEST

START_TEST(stacks_go_when_nobody_keeps_them)
{
    begin();
    struct tensor *tensor = make(4096, a);
    void *stack = recorded_stack_at((char *)tensor->ptr + 100);
    ck_assert_ptr_nonnull(stack);
    ck_assert_ptr_null(recorded_stack_at((char *)tensor->ptr + 4096));
    struct recorded *snapshot = take();
    ck_assert_ptr_nonnull(snapshot->parts[0].stack);
    ck_assert_ptr_eq(snapshot->segments[0].stack, snapshot->parts[0].stack);
    ck_assert_ptr_eq(snapshot->events[1].stack, snapshot->parts[0].stack);
    drop(tensor);
    recorded_end();
    ck_assert_uint_eq(recorded_stacks(), 1);
    recorded_free(snapshot);
    ck_assert_uint_eq(recorded_stacks(), 1);
    recorded_release(stack);
    ck_assert_uint_eq(recorded_stacks(), 0);
}
END_TEST

START_TEST(events_that_are_overwritten_let_go_of_their_stacks)
{
    begin_with(6, RECORDED_ALL_STACKS, false, NULL);
    for (int i = 0; i < 100; i++)
        drop(make(4096, a));
    /* Of two rounds those of an allocation and of a free, and the segment's. */
    ck_assert_uint_eq(recorded_stacks(), 5);
    begin_with(0, RECORDED_ALL_STACKS, false, NULL);
    ck_assert_uint_eq(recorded_stacks(), 1);
    recorded_end();
    ck_assert_uint_eq(recorded_stacks(), 0);
}
END_TEST

START_TEST(events_and_segments_have_no_stacks_unless_they_are_wanted)
{
    begin_with(EVENTS, RECORDED_OF_BLOCKS, false, NULL);
    struct tensor *tensor = make(4096, a);
    struct recorded *snapshot = take();
    ck_assert_ptr_nonnull(snapshot->parts[0].stack);
    ck_assert_ptr_null(snapshot->events[1].stack);
    ck_assert_ptr_null(snapshot->segments[0].stack);
    recorded_free(snapshot);
    drop(tensor);
    /* The block is in a cache, and so a segment still, of which nobody keeps the stack. */
    ck_assert_uint_eq(bytes_now().segments, 4096);
    ck_assert_uint_eq(recorded_stacks(), 0);
    recorded_end();
}
END_TEST

START_TEST(snapshot_of_what_is_not_recorded_has_what_is_live_and_no_events)
{
    struct tensor *tensor = make(4096, a);
    ck_assert_ptr_null(recorded_stack_at(tensor->ptr));
    ck_assert_uint_eq(bytes_now().allocated, 4096);
    expect_story("");
    ck_assert(!recorded_is_on());
    drop(tensor);
    ck_assert_uint_eq(bytes_now().allocated, 0);
}
END_TEST

START_TEST(words_of_the_thread_go_with_what_it_does)
{
    begin_with(EVENTS, RECORDED_OF_BLOCKS, false, NULL);
    recorded_say("graph 3", "layer 7");
    struct tensor *tensor = make(4096, a);
    recorded_say(NULL, "");
    drop(tensor);
    struct recorded *snapshot = take();
    ck_assert_str_eq(story(snapshot), "Safc");
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(snapshot->events[i].compiled, i < 2 ? "graph 3" : "N/A");
        ck_assert_str_eq(snapshot->events[i].users, i < 2 ? "layer 7" : "");
    }
    recorded_free(snapshot);
    recorded_end();
}
END_TEST

/* A tensor comes and goes. libcheck needs host memory for what it checks, so nothing is checked. */
static void pass(void)
{
    void *ptr = weir_torch_pool_malloc(4096, 0, a);
    bool is_told = ptr && recorded_insert(ptr, 4096, 0, a) && recorded_take(ptr);
    weir_torch_free(ptr, 4096, 0, a);
    if (is_told)
        recorded_freed(ptr);
}

/* Each allocation of host memory fails in turn, while the block comes from a cache, for which Weir needs none. */
START_TEST(history_without_host_memory_is_sound_and_says_what_is_missing)
{
    size_t warnings = 0;
    bool happened = fail_malloc_works();
    if (!happened)
        return;
    drop(make(4096, a));
    for (unsigned nth = 1; happened; nth++) {
        begin();
        drop(make(4096, a));
        fail_malloc_at(nth);
        for (int i = 0; i < 20; i++)
            pass();
        happened = fail_malloc_happened();
        fail_malloc_at(0);
        struct recorded *snapshot = take();
        expect_sound(snapshot);
        recorded_free(snapshot);
        warnings += recorded_warnings();
        recorded_end();
    }
    ck_assert_uint_gt(warnings, 0);
    ck_assert_uint_eq(recorded_stacks(), 0);
}
END_TEST

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

static void *use_memory(void *data)
{
    uint64_t random = (uintptr_t)data + 1;
    struct tensor *own = &tensors[(uintptr_t)data * SLOTS];
    gpu_stream stream = plug_stream(0);
    for (int round = 0; round < 3000; round++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        struct tensor *tensor = &own[(random >> 33) % SLOTS];
        if (tensor->ptr)
            drop(tensor);
        else
            make_at(tensor, 1 + (size_t)(random >> 40) % (random >> 60 ? 64 * KIB : MIB), 0, stream);
        if (round % 500 == 499)
            weir_torch_reset();
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (own[i].ptr)
            drop(&own[i]);
    return NULL;
}

/* A listener that is in a call, under a lock of Weir's, until the end of listening returned or has plainly begun to wait. */
static sem_t has_come, has_ended;
static bool outlived;

static void listen(const weir_torch_news *news)
{
    struct timespec until;
    if (news->what != WEIR_TORCH_SEGMENT_CAME)
        return;
    sem_post(&has_come);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    outlived = sem_timedwait(&has_ended, &until) == 0;
}

static void *make_one(void *unused)
{
    plug_malloc(4096, 0, a);
    return unused;
}

START_TEST(no_thread_is_in_a_call_of_a_listener_that_has_ended)
{
    pthread_t thread;
    weir_torch_free(plug_malloc(512, 0, b), 512, 0, b);
    sem_init(&has_come, 0, 0);
    sem_init(&has_ended, 0, 0);
    ck_assert_int_eq(weir_torch_watch(listen, NULL), WEIR_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_one, NULL), 0);
    ck_assert_int_eq(sem_wait(&has_come), 0);
    ck_assert_int_eq(weir_torch_watch(NULL, NULL), WEIR_OK);
    sem_post(&has_ended);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!outlived);
}
END_TEST

START_TEST(snapshots_are_sound_while_threads_allocate)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_memory, (void *)i), 0);
    for (int i = 0; i < 30; i++) {
        begin_with(500, RECORDED_ALL_STACKS, false, NULL);
        for (int times = 0; times < 3; times++) {
            struct recorded *snapshot = take();
            expect_sound(snapshot);
            recorded_free(snapshot);
        }
        if (i % 3 == 2)
            recorded_end();
    }
    begin();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    weir_torch_reset();
    ck_assert_uint_eq(bytes_now().segments, 0);
    recorded_end();
    ck_assert_uint_eq(recorded_stacks(), 0);
    plug_expect_empty(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tcase = suite_case(suite, "history", 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, block_of_a_cache_stays_a_segment_until_it_goes_back, what_there_was_before_has_no_events_and_is_shown,
              memory_of_others_in_the_process_is_not_shown, events_bear_the_stream_of_the_segment_and_that_of_the_block,
              free_on_a_stream_that_may_be_gone_is_pending_until_it_is_named, what_waits_when_it_begins_is_pending,
              block_that_a_capture_holds_back_is_pending_until_its_end, chunk_of_a_graph_is_a_segment_with_its_id,
              blocks_of_an_arena_are_segments_too, each_device_has_its_own_events, only_the_latest_events_are_kept,
              actions_can_be_left_out, out_of_memory_is_an_event, live_block_can_be_annotated, stacks_go_when_nobody_keeps_them,
              events_that_are_overwritten_let_go_of_their_stacks, events_and_segments_have_no_stacks_unless_they_are_wanted,
              snapshot_of_what_is_not_recorded_has_what_is_live_and_no_events, words_of_the_thread_go_with_what_it_does,
              history_without_host_memory_is_sound_and_says_what_is_missing, no_thread_is_in_a_call_of_a_listener_that_has_ended,
              snapshots_are_sound_while_threads_allocate);
    return suite_run(suite);
}
