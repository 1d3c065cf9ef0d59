/* SPDX-License-Identifier: MIT */
/*
 * What torch's memory snapshots show, and the rules that its viewers need: played backwards from the segments and blocks of a snapshot, its
 * events must fit at each step, with every block in a segment. `expect_sound` plays them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugin/plug.h"

#define SLOTS 64
#define EVENTS 100000

static gpu_stream a, b;

static void set_up(void)
{
    plug_set_up("devices=2,memory=1GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
}

/* The shim's part ---------------------------------------------------------------------------------------------------------------------- */

/* As the shim's table of blocks: torch's live ones, with the lock under which they are told of. */
static pthread_mutex_t tensors_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tensor {
    void *ptr;
    size_t size;
    int device;
    gpu_stream stream;
} tensors[4 * SLOTS];
static bool is_on;

/* Contexts that were made and did not come back. */
static size_t contexts;

static weir_torch_context *context_new(void)
{
    weir_torch_context *context = calloc(1, sizeof *context);
    ck_assert_ptr_nonnull(context);
    __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
    return context;
}

static void sweep(void)
{
    for (weir_torch_context *context = weir_torch_history_sweep(), *next; context; context = next) {
        next = context->next;
        ck_assert_uint_eq(context->uses, 0);
        free(context);
        __atomic_sub_fetch(&contexts, 1, __ATOMIC_RELAXED);
    }
}

static void begin_with(weir_torch_history history)
{
    weir_error error = WEIR_ERROR_INIT;
    history.size = sizeof history;
    pthread_mutex_lock(&tensors_lock);
    bool was_on = is_on;
    is_on = true;
    pthread_mutex_unlock(&tensors_lock);
    ck_assert_msg(weir_torch_history_begin(&history, &error) == WEIR_OK, "%s", error.text);
    pthread_mutex_lock(&tensors_lock);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0] && !was_on; i++)
        if (tensors[i].ptr)
            weir_torch_history_known(tensors[i].ptr, tensors[i].size, tensors[i].device, tensors[i].stream);
    pthread_mutex_unlock(&tensors_lock);
}

static void begin(void)
{
    begin_with((weir_torch_history){ .entries = EVENTS, .keeps_contexts = 1 });
}

static void end(void)
{
    pthread_mutex_lock(&tensors_lock);
    is_on = false;
    pthread_mutex_unlock(&tensors_lock);
    weir_torch_history_end();
    sweep();
}

static struct tensor *make_at(struct tensor *tensor, size_t size, int device, gpu_stream stream)
{
    void *ptr = plug_malloc(size, device, stream);
    weir_torch_context *context = context_new();
    pthread_mutex_lock(&tensors_lock);
    *tensor = (struct tensor){ ptr, size, device, stream };
    if (is_on) {
        weir_torch_history_alloc(ptr, size, device, stream, context);
        context = NULL;
    }
    pthread_mutex_unlock(&tensors_lock);
    if (context)
        __atomic_sub_fetch(&contexts, 1, __ATOMIC_RELAXED);
    free(context);
    sweep();
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
    pthread_mutex_lock(&tensors_lock);
    bool was_on = is_on;
    if (was_on)
        weir_torch_history_free_requested(former.ptr, context_new());
    tensor->ptr = NULL;
    pthread_mutex_unlock(&tensors_lock);
    weir_torch_free(former.ptr, (ssize_t)former.size, former.device, former.stream);
    if (was_on)
        weir_torch_history_free_returned(former.ptr);
    sweep();
}

static weir_torch_snapshot *take(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_snapshot *snapshot;
    ck_assert_msg(weir_torch_history_take(1, &error, &snapshot) == WEIR_OK, "%s", error.text);
    return snapshot;
}

/* The rules ---------------------------------------------------------------------------------------------------------------------------- */

/* What there is at one step, going backwards. */
static struct state {
    weir_torch_segment *segments;
    weir_torch_part *blocks; /* the active ones */
    size_t segment_count, block_count;
} state;

static weir_torch_segment *segment_of(uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < state.segment_count; i++) {
        weir_torch_segment *segment = &state.segments[i];
        if (address < segment->address + segment->size && segment->address < address + size)
            return segment;
    }
    return NULL;
}

static weir_torch_part *block_of(uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < state.block_count; i++)
        if (address < state.blocks[i].address + state.blocks[i].size && state.blocks[i].address < address + size)
            return &state.blocks[i];
    return NULL;
}

/* Sizes of parts add up, and segments do not overlap. */
static void expect_parts(const weir_torch_snapshot *snapshot)
{
    uint64_t behind = 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const weir_torch_segment *segment = &snapshot->segments[i];
        uint64_t at = segment->address;
        ck_assert_uint_ge(segment->address, behind);
        ck_assert_uint_ge(segment->part_count, 1);
        for (size_t j = 0; j < segment->part_count; j++) {
            const weir_torch_part *part = &snapshot->parts[segment->first_part + j];
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

static void start_from(const weir_torch_snapshot *snapshot)
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

static void undo_segment(const weir_torch_event *event)
{
    weir_torch_segment *segment = segment_of(event->address, event->size);
    if (event->action == WEIR_TORCH_SEGMENT_FREE) {
        ck_assert_msg(!segment, "a segment is freed beside another at its address");
        state.segments[state.segment_count++] = (weir_torch_segment){
            .device = event->device, .address = event->address, .size = event->size, .stream = event->stream, .pool = event->pool };
        return;
    }
    ck_assert_msg(segment && segment->address == event->address && segment->size == event->size, "a segment that is there no more");
    ck_assert_msg(!block_of(event->address, event->size), "a block is older than its segment");
    ck_assert_ptr_eq(segment->stream, event->stream);
    *segment = state.segments[--state.segment_count];
}

static void undo_block(const weir_torch_event *event)
{
    weir_torch_segment *segment = segment_of(event->address, event->size);
    weir_torch_part *block = block_of(event->address, event->size);
    ck_assert_msg(segment && segment->address <= event->address && event->address + event->size <= segment->address + segment->size,
                  "a block lies in no segment");
    ck_assert_ptr_eq(segment->stream, event->stream);
    ck_assert_int_eq(segment->device, event->device);
    ck_assert(segment->pool.first == event->pool.first && segment->pool.second == event->pool.second);
    if (event->action == WEIR_TORCH_FREE_COMPLETED) {
        ck_assert_msg(!block, "a free is complete of what has an owner");
        state.blocks[state.block_count++] =
            (weir_torch_part){ .address = event->address, .size = event->size, .asked = event->size, .is_active = 1 };
        return;
    }
    ck_assert_msg(block && block->address == event->address && block->asked == event->size, "no such block");
    ck_assert_int_eq(block->is_allocated, event->action == WEIR_TORCH_ALLOC);
    if (event->action == WEIR_TORCH_FREE_REQUESTED)
        block->is_allocated = 1;
    else
        *block = state.blocks[--state.block_count];
}

/* Leaves in `state` what there was before the first event. */
static void expect_sound(const weir_torch_snapshot *snapshot)
{
    free(state.segments);
    free(state.blocks);
    expect_parts(snapshot);
    start_from(snapshot);
    for (size_t i = snapshot->event_count; i-- > 0;) {
        const weir_torch_event *event = &snapshot->events[i];
        ck_assert(i == 0 || event[-1].device != event->device || event[-1].time <= event->time);
        switch (event->action) {
        case WEIR_TORCH_SEGMENT_ALLOC:
        case WEIR_TORCH_SEGMENT_FREE:
            undo_segment(event);
            break;
        case WEIR_TORCH_ALLOC:
        case WEIR_TORCH_FREE_REQUESTED:
        case WEIR_TORCH_FREE_COMPLETED:
            undo_block(event);
            break;
        default:
            ck_assert(event->action == WEIR_TORCH_SNAPSHOT || event->action == WEIR_TORCH_OOM);
        }
    }
}

/* The actions of the snapshot, a letter for each, of a sound one. What began before is not in it. */
static const char *story(const weir_torch_snapshot *snapshot)
{
    static char text[256];
    expect_sound(snapshot);
    ck_assert_uint_lt(snapshot->event_count, sizeof text);
    for (size_t i = 0; i < snapshot->event_count; i++)
        text[i] = "afcSFsoA"[snapshot->events[i].action];
    text[snapshot->event_count] = '\0';
    return text;
}

static void expect_story(const char *expected)
{
    weir_torch_snapshot *snapshot = take();
    ck_assert_str_eq(story(snapshot), expected);
    weir_torch_history_free(snapshot);
    sweep();
}

/* Bytes of all segments, of blocks, and of those that torch has. */
struct bytes {
    uint64_t segments, active, allocated;
};

static struct bytes bytes_now(void)
{
    struct bytes bytes = { 0 };
    weir_torch_snapshot *snapshot = take();
    expect_sound(snapshot);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        bytes.segments += snapshot->segments[i].size;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        bytes.active += snapshot->parts[i].asked;
        bytes.allocated += snapshot->parts[i].is_allocated ? snapshot->parts[i].asked : 0;
    }
    weir_torch_history_free(snapshot);
    sweep();
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
    weir_torch_snapshot *snapshot = take();
    ck_assert_uint_eq(snapshot->segment_count, 0);
    ck_assert_str_eq(story(snapshot), "SafcssasfcF");
    ck_assert_uint_eq(state.segment_count, 0);
    weir_torch_history_free(snapshot);
    end();
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
    end();
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
    end();
}
END_TEST

START_TEST(events_bear_the_stream_of_the_segment_and_that_of_the_block)
{
    drop(make(512, b));
    begin();
    struct tensor *tensor = make(4096, a);
    /* On another stream, whose cache has it from now on. */
    weir_torch_history_free_requested(tensor->ptr, NULL);
    weir_torch_free_alive(tensor->ptr, 4096, 0, b);
    weir_torch_history_free_returned(tensor->ptr);
    void *ptr = tensor->ptr;
    tensor->ptr = NULL;
    tensor = make(4096, b);
    ck_assert_ptr_eq(tensor->ptr, ptr);
    weir_torch_snapshot *snapshot = take();
    ck_assert_str_eq(story(snapshot), "Safca");
    ck_assert_ptr_eq(snapshot->events[4].stream, a);
    ck_assert_ptr_eq(snapshot->events[4].block_stream, b);
    weir_torch_history_free(snapshot);
    end();
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
    end();
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
    end();
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
    end();
}
END_TEST

START_TEST(chunk_of_a_graph_is_a_segment_with_its_id)
{
    begin();
    plug_capture_begin(0, 7, a);
    struct tensor *first = make(4096, a), *second = make(1000, a);
    plug_capture_end(0, 7, a);
    weir_torch_snapshot *snapshot = take();
    ck_assert_str_eq(story(snapshot), "Saa");
    ck_assert_uint_eq(snapshot->segment_count, 1);
    ck_assert_uint_eq(snapshot->segments[0].pool.first, 7);
    ck_assert_uint_eq(snapshot->segments[0].size, 2 * MIB);
    ck_assert_uint_eq(snapshot->segments[0].part_count, 3);
    ck_assert_uint_eq(snapshot->parts[0].asked, 4096);
    ck_assert_uint_eq(snapshot->parts[0].size, 4096);
    ck_assert_uint_eq(snapshot->parts[1].asked, 1000);
    ck_assert_uint_eq(snapshot->parts[1].size, 1024);
    weir_torch_history_free(snapshot);
    end();
    begin();
    ck_assert_uint_eq(bytes_now().allocated, 5096);
    drop(first);
    drop(second);
    snapshot = take();
    ck_assert_uint_eq(snapshot->segments[0].pool.first, 7);
    ck_assert_ptr_eq(snapshot->segments[0].stream, a);
    weir_torch_history_free(snapshot);
    weir_torch_release_pool(0, plug_id(7));
    expect_story("sfcfcs");
    weir_torch_reset();
    expect_story("sfcfcssF");
    ck_assert_uint_eq(bytes_now().segments, 0);
    end();
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
    end();
}
END_TEST

START_TEST(each_device_has_its_own_events)
{
    gpu_stream far = plug_stream(1);
    begin();
    struct tensor *tensor = make_at(&tensors[0], 4096, 1, far);
    drop(make(512, a));
    weir_torch_snapshot *snapshot = take();
    ck_assert_str_eq(story(snapshot), "SafcSa");
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(snapshot->events[i].device, i >= 4);
    weir_torch_history_free(snapshot);
    drop(tensor);
    end();
}
END_TEST

/* What is kept ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(only_the_latest_events_are_kept)
{
    begin_with((weir_torch_history){ .entries = 10, .keeps_contexts = 1 });
    for (int i = 0; i < 100; i++)
        drop(make(4096, a));
    expect_story("cafcafcafc");
    begin_with((weir_torch_history){ .entries = 4, .keeps_contexts = 1 });
    expect_story("afcs");
    begin_with((weir_torch_history){ .entries = 4, .clears = 1 });
    expect_story("");
    end();
}
END_TEST

START_TEST(actions_can_be_left_out)
{
    begin_with((weir_torch_history){ .entries = EVENTS, .skipped = 1u << WEIR_TORCH_FREE_REQUESTED | 1u << WEIR_TORCH_FREE_COMPLETED });
    drop(make(4096, a));
    drop(make(4096, a));
    weir_torch_snapshot *snapshot = take();
    ck_assert_uint_eq(snapshot->event_count, 3);
    ck_assert_int_eq(snapshot->events[2].action, WEIR_TORCH_ALLOC);
    weir_torch_history_free(snapshot);
    end();
}
END_TEST

START_TEST(out_of_memory_is_an_event)
{
    begin();
    weir_torch_history_oom(3 * GIB, 1, b, 77, context_new());
    weir_torch_snapshot *snapshot = take();
    ck_assert_str_eq(story(snapshot), "o");
    ck_assert_uint_eq(snapshot->events[0].address, 77);
    ck_assert_uint_eq(snapshot->events[0].size, 3 * GIB);
    ck_assert_int_eq(snapshot->events[0].device, 1);
    weir_torch_history_free(snapshot);
    end();
    ck_assert_uint_eq(contexts, 0);
}
END_TEST

START_TEST(live_block_can_be_annotated)
{
    begin();
    struct tensor *tensor = make(4096, a);
    weir_torch_history_annotate(tensor->ptr, context_new());
    weir_torch_history_annotate((char *)tensor->ptr + 512, context_new());
    weir_torch_snapshot *snapshot = take();
    ck_assert_uint_eq(snapshot->event_count, 3);
    ck_assert_int_eq(snapshot->events[2].action, WEIR_TORCH_ANNOTATE);
    ck_assert_ptr_nonnull(snapshot->events[2].context);
    weir_torch_history_free(snapshot);
    drop(tensor);
    end();
    ck_assert_uint_eq(contexts, 0);
}
END_TEST

START_TEST(contexts_come_back_when_nobody_keeps_them)
{
    begin();
    struct tensor *tensor = make(4096, a);
    weir_torch_context *context = weir_torch_history_context((char *)tensor->ptr + 100);
    ck_assert_ptr_nonnull(context);
    ck_assert_ptr_null(weir_torch_history_context((char *)tensor->ptr + 4096));
    weir_torch_snapshot *snapshot = take();
    ck_assert_ptr_eq(snapshot->parts[0].context, context);
    ck_assert_ptr_eq(snapshot->segments[0].context, context);
    ck_assert_ptr_eq(snapshot->events[1].context, context);
    drop(tensor);
    end();
    ck_assert_uint_eq(contexts, 1);
    weir_torch_history_free(snapshot);
    sweep();
    ck_assert_uint_eq(contexts, 1);
    weir_torch_history_release(context);
    sweep();
    ck_assert_uint_eq(contexts, 0);
}
END_TEST

START_TEST(events_and_segments_have_no_contexts_unless_they_are_wanted)
{
    begin_with((weir_torch_history){ .entries = EVENTS });
    struct tensor *tensor = make(4096, a);
    weir_torch_snapshot *snapshot = take();
    ck_assert_ptr_nonnull(snapshot->parts[0].context);
    ck_assert_ptr_null(snapshot->events[1].context);
    ck_assert_ptr_null(snapshot->segments[0].context);
    weir_torch_history_free(snapshot);
    drop(tensor);
    /* The block is in a cache, and so a segment still, of which nobody keeps the context. */
    ck_assert_uint_eq(bytes_now().segments, 4096);
    ck_assert_uint_eq(contexts, 0);
    end();
    ck_assert_uint_eq(contexts, 0);
}
END_TEST

START_TEST(nothing_is_known_when_nothing_is_recorded)
{
    struct tensor *tensor = make(4096, a);
    weir_torch_history_alloc(tensor->ptr, 4096, 0, a, context_new());
    weir_torch_history_free_requested(tensor->ptr, context_new());
    sweep();
    ck_assert_uint_eq(contexts, 0);
    ck_assert_ptr_null(weir_torch_history_context(tensor->ptr));
    ck_assert_uint_eq(bytes_now().segments, 0);
    drop(tensor);
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

START_TEST(snapshots_are_sound_while_threads_allocate)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_memory, (void *)i), 0);
    for (int i = 0; i < 30; i++) {
        begin_with((weir_torch_history){ .entries = 500, .keeps_contexts = 1 });
        for (int times = 0; times < 3; times++) {
            weir_torch_snapshot *snapshot = take();
            expect_sound(snapshot);
            weir_torch_history_free(snapshot);
        }
        if (i % 3 == 2)
            end();
    }
    begin();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    weir_torch_reset();
    ck_assert_uint_eq(bytes_now().segments, 0);
    end();
    ck_assert_uint_eq(contexts, 0);
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
              actions_can_be_left_out, out_of_memory_is_an_event, live_block_can_be_annotated,
              contexts_come_back_when_nobody_keeps_them, events_and_segments_have_no_contexts_unless_they_are_wanted,
              nothing_is_known_when_nothing_is_recorded, snapshots_are_sound_while_threads_allocate);
    return suite_run(suite);
}
