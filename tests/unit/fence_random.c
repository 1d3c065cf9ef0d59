/* SPDX-License-Identifier: MIT */
/*
 * fence_random.c - random programs beside a naive model, which knows by events of its own what the GPU has really done.
 *
 * What holds at every instant, whatever calls fail: at least so many bytes of each owner are pending as were freed behind work that goes
 * on, whoever they were passed to; only a look makes them fewer; what is parked is settled, and an owner ended, only once all work before
 * it is done. And at the end: once all work is done and all that may be covered is, nothing is pending, parked or retired.
 */
#include <stdlib.h>

#include "tests/unit/fence.h"

#define SLOTS 6
#define OWNERS 2
#define FREES 512
#define PARKED 8
#define STEPS 300

static uint64_t state;

static unsigned below(unsigned bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % bound;
}

static struct slot {
    gpu_stream stream;           /* NULL: none */
    struct weir__line *lines[2]; /* of two weirs that have it open, or NULL; without any its calls name it */
    int device;
    void *context; /* NULL: its device's own */
    bool captures, is_spoilt;
} slots[SLOTS];

static void *context; /* of the program's own on device 0, or NULL */

static struct owner {
    struct weir__debts *debts;
    unsigned number;
} owners[OWNERS];
static unsigned numbers, retired; /* owners that there were; that went and are not ended */

/* What the GPU has to come to first. Complete where the context is gone, which waits for its work. */
static struct truth {
    gpu_event event;
    uint64_t bytes;
    unsigned owner; /* by its number */
} frees[FREES];
static unsigned count;

static struct {
    struct weir__parked *parked;
    gpu_event events[2];
} parked[PARKED];

/* The model -----------------------------------------------------------------------------------------------------------------------------
 */

/* Makes the device or the context current that the stream is of. */
static void go_to(const struct slot *slot)
{
    sim_context_set_current(slot->context);
    ck_assert_int_eq(rig.gpu->set_current_device(slot->device), GPU_SUCCESS);
}

/* The next call may come from a thread that has anything current. */
static void go_anywhere(void)
{
    ck_assert_int_eq(rig.gpu->set_current_device((int)below(2)), GPU_SUCCESS);
    sim_context_set_current(below(2) ? context : NULL);
}

static gpu_event event_behind(const struct slot *slot)
{
    gpu_event event;
    go_to(slot);
    ck_assert_int_eq(rig.gpu->event_create(slot->device, &event), GPU_SUCCESS);
    ck_assert_int_eq(rig.gpu->event_record(event, slot->stream), GPU_SUCCESS);
    go_anywhere();
    return event;
}

static bool is_done(gpu_event event)
{
    return rig.gpu->event_query(event) != GPU_NOT_READY;
}

static uint64_t really_pending(unsigned owner)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count;) {
        if (!is_done(frees[i].event)) {
            bytes += frees[i].owner == owner ? frees[i].bytes : 0;
            i++;
            continue;
        }
        rig.gpu->event_destroy(frees[i].event); /* which fails where the context is gone, and ends it all the same */
        frees[i] = frees[--count];
    }
    return bytes;
}

static uint64_t pending_of(const struct owner *owner)
{
    const struct weir__scope scope = {.fences = rig.fences, .debts = owner->debts};
    return weir__scope_pending(&scope);
}

static bool end_owner(struct weir__debts *debts)
{
    const unsigned *number = (const unsigned *)(debts + 1);
    ck_assert_uint_eq(really_pending(*number), 0);
    weir__debts_end(debts);
    free(debts);
    retired--;
    return true;
}

static void make_owner(struct owner *owner)
{
    owner->debts = malloc(sizeof *owner->debts + sizeof owner->number);
    ck_assert_ptr_nonnull(owner->debts);
    weir__debts_init(owner->debts, rig.fences);
    owner->number = ++numbers;
    *(unsigned *)(owner->debts + 1) = owner->number;
}

static void retire(struct owner *owner)
{
    retired++;
    weir__debts_retire(owner->debts, end_owner);
    make_owner(owner);
}

/* Ends what is settled, which nothing holds up really. */
static void settle(void)
{
    for (struct weir__parked *done = weir__fences_settled(rig.fences, NULL, NULL), *next; done; done = next) {
        unsigned at = 0;
        next = done->next;
        while (parked[at].parked != done)
            at++;
        for (unsigned i = 0; i < 2; i++) {
            ck_assert(is_done(parked[at].events[i]));
            rig.gpu->event_destroy(parked[at].events[i]);
        }
        free(done);
        parked[at].parked = NULL;
    }
}

/* Streams -------------------------------------------------------------------------------------------------------------------------------
 */

/* A call on the stream, by one who has opened it, or which names it. */
struct call {
    struct weir__line *line;
    bool is_named;
};

static struct call enter(const struct slot *slot)
{
    const struct weir__caller legacy = {.handle = slot->stream};
    struct weir__line *opened = slot->lines[below(2)];
    if (opened)
        return (struct call){.line = opened};
    if (slot->stream != GPU_STREAM_LEGACY)
        return (struct call){.line = rig_name(slot->stream), .is_named = true};
    return (struct call){.line = weir__line_of(slot->device ? rig.other : rig.fences, &legacy), .is_named = true};
}

/* Whether a mark stands behind all that was freed on the line, or is due. */
static bool is_cared_for(const struct weir__line *line)
{
    uint64_t last = line->count ? line->marks[line->count - 1].step : atomic_load(&line->done);
    for (const struct weir__debt *debt = line->debts; debt; debt = debt->next)
        for (unsigned i = 0; i < debt->count; i++)
            if (debt->parts[i].step > last && !atomic_load(&line->uncovered))
                return false;
    return true;
}

static void leave(struct call call)
{
    ck_assert(weir__line_is_valid(call.line));
    ck_assert(is_cared_for(call.line) && is_cared_for(rig.fences->whole) && is_cared_for(rig.other->whole));
    if (call.is_named)
        weir__line_put(call.line);
}

static const char *failing;

/* Some call of the next operation fails, now and then. */
static void fail_soon(void)
{
    static const char *const calls[] = {"event_create",       "event_record",       "event_query",         "event_synchronize",
                                        "stream_context",     "stream_wait_event",  "event_record_device", "stream_capture_status",
                                        "device_synchronize", "get_current_device", "set_current_device"};
    static const int codes[] = {GPU_UNKNOWN, GPU_ILLEGAL_ADDRESS, GPU_OUT_OF_MEMORY, GPU_CAPTURE_UNSUPPORTED};
    failing = below(4) ? NULL : calls[below(sizeof calls / sizeof calls[0])];
    if (failing)
        sim_fail(failing, 1 + below(3), codes[below(4)]);
}

static void fail_no_more(void)
{
    if (failing)
        sim_fail(failing, 0, 0);
}

static void free_on(struct slot *slot)
{
    const uint64_t dues[] = {0, NEVER, 16 * MIB, 64 * MIB}, bytes = (1 + below(64)) * MIB;
    struct owner *owner = &owners[below(OWNERS)];
    struct call call = enter(slot);
    struct weir__debt *debt = weir__debt_of(owner->debts, call.line);
    uint64_t before = pending_of(owner), step;
    ck_assert_ptr_nonnull(debt);
    if (count < FREES) {
        frees[count] = (struct truth){.event = event_behind(slot), .bytes = bytes, .owner = owner->number};
        fail_soon();
        int code = weir__line_free(debt, bytes, dues[below(4)], &step);
        fail_no_more();
        ck_assert_uint_eq(pending_of(owner), before + (code == GPU_SUCCESS ? bytes : 0));
        count++;
        if (code != GPU_SUCCESS)
            rig.gpu->event_destroy(frees[--count].event);
    }
    leave(call);
}

static void borrow_for(struct slot *slot)
{
    struct owner *owner = &owners[below(OWNERS)];
    struct call call = enter(slot);
    uint64_t before = pending_of(owner);
    fail_soon();
    ck_assert_uint_le(weir__debts_order(owner->debts, call.line, (1 + below(128)) * MIB), before);
    fail_no_more();
    ck_assert_uint_eq(pending_of(owner), before);
    leave(call);
}

static void park_behind(struct slot *one, struct slot *other)
{
    unsigned at = 0;
    while (at < PARKED && parked[at].parked)
        at++;
    if (at == PARKED || !other->stream || other->captures || one == other)
        return;
    struct call calls[2] = {enter(one), enter(other)};
    struct weir__line *lines[2] = {calls[0].line, calls[1].line};
    parked[at].events[0] = event_behind(one);
    parked[at].events[1] = event_behind(other);
    ck_assert_ptr_nonnull(parked[at].parked = weir__parked_new(2));
    weir__park(rig.fences, parked[at].parked, lines, 2);
    leave(calls[0]);
    leave(calls[1]);
}

static void make(struct slot *slot)
{
    *slot = (struct slot){.device = (int)below(2)};
    if (below(8) == 0) {
        slot->stream = GPU_STREAM_LEGACY;
        return;
    }
    slot->context = slot->device == 0 && below(2) ? context : NULL;
    go_to(slot);
    slot->stream = rig_stream(slot->device);
    go_anywhere();
}

static void open_or_close(struct slot *slot)
{
    unsigned weir = below(2);
    if (slot->stream == GPU_STREAM_LEGACY || (slot->captures && !slot->lines[weir]))
        return;
    if (!slot->context || slot->lines[weir]) /* else its end would not be seen */
        fail_soon();
    if (slot->lines[weir]) {
        weir__line_close(slot->lines[weir]);
        weir__line_put(slot->lines[weir]);
        slot->lines[weir] = NULL;
    } else {
        slot->lines[weir] = rig_open(slot->stream);
    }
    fail_no_more();
}

static void end_capture(struct slot *slot)
{
    size_t nodes;
    ck_assert_int_eq(rig.gpu->capture_end(slot->stream, &nodes), slot->is_spoilt ? GPU_CAPTURE_INVALIDATED : GPU_SUCCESS);
    slot->captures = slot->is_spoilt = false;
}

/* The program waits for the device, which spoils all captures there. Nobody else does. */
static void spoil_captures(int device)
{
    ck_assert_int_eq(rig.gpu->device_synchronize(device), GPU_CAPTURE_UNSUPPORTED);
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].is_spoilt = slots[i].is_spoilt || (slots[i].captures && slots[i].device == device);
}

/* The stream is not there any more, and those who have it open hear of it. */
static void forget(struct slot *slot)
{
    for (unsigned i = 0; i < 2; i++)
        if (slot->lines[i]) {
            weir__line_gone(slot->lines[i]);
            weir__line_put(slot->lines[i]);
        }
    *slot = (struct slot){.stream = NULL};
}

/* Closed first, or destroyed while it is open. */
static void end(struct slot *slot)
{
    for (unsigned i = 0; i < 2; i++)
        if (slot->lines[i] && below(2)) {
            weir__line_close(slot->lines[i]);
            weir__line_put(slot->lines[i]);
            slot->lines[i] = NULL;
        }
    if (slot->captures)
        end_capture(slot);
    /* The end of a context waits for its work, but in the simulator not for that of streams that were destroyed before. */
    if (slot->context)
        ck_assert_int_eq(rig.gpu->stream_synchronize(slot->stream), GPU_SUCCESS);
    if (slot->stream != GPU_STREAM_LEGACY)
        ck_assert_int_eq(rig.gpu->stream_destroy(slot->stream), GPU_SUCCESS);
    forget(slot);
}

/* The lines on its streams find out by themselves, where the driver can tell; before, the program must say so at once. */
static void make_or_end_context(bool can_tell)
{
    void *ended = context;
    if (!context) {
        context = sim_context_create(0);
        go_anywhere();
        return;
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].context == ended && (slots[i].captures || !can_tell))
            end(&slots[i]);
    context = NULL;
    sim_context_destroy(ended);
    sim_context_set_current(NULL);
    weir__scope_cover(&(const struct weir__scope){.fences = rig.fences}, false);
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].stream && slots[i].context == ended)
            forget(&slots[i]);
}

/* Programs ------------------------------------------------------------------------------------------------------------------------------
 */

static bool any_captures(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].captures)
            return true;
    return false;
}

static void cover_devices(void)
{
    if (any_captures())
        return;
    weir__fences_captures_over(rig.fences, NULL);
    weir__fences_captures_over(rig.other, NULL);
    weir__fences_cover_device(rig.fences, true);
    weir__fences_cover_device(rig.other, true);
}

static void use(struct slot *slot)
{
    switch (below(8)) {
    case 0:
        go_to(slot);
        rig_delay(slot->stream, 1 + below(20));
        go_anywhere();
        break;
    case 1:
        borrow_for(slot);
        break;
    case 2:
        if (slot->stream != GPU_STREAM_LEGACY) {
            ck_assert_int_eq(rig.gpu->capture_begin(slot->stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
            slot->captures = true;
        }
        break;
    case 3:
        park_behind(slot, &slots[below(SLOTS)]);
        break;
    case 4:
        open_or_close(slot);
        break;
    default:
        free_on(slot);
    }
}

static void look(void)
{
    const struct weir__scope scope = {.fences = rig.fences}, other = {.fences = rig.other};
    fail_soon();
    switch (below(4)) {
    case 0:
        weir__scope_look(&scope);
        weir__scope_look(&other);
        break;
    case 1:
        rig_wait(&scope, below(64) * MIB, rig.gpu->now() + below(3) * MILLISECOND);
        break;
    case 2:
        cover_devices();
        break;
    default:
        weir__debts_sweep(rig.gpu);
    }
    fail_no_more();
    settle();
}

static void cover(void)
{
    uint64_t before[OWNERS];
    const struct weir__scope scope = {.fences = rig.fences}, other = {.fences = rig.other};
    for (unsigned i = 0; i < OWNERS; i++)
        before[i] = pending_of(&owners[i]);
    fail_soon();
    weir__scope_cover(&scope, false);
    weir__scope_cover(&other, false);
    fail_no_more();
    for (unsigned i = 0; i < OWNERS; i++)
        ck_assert_uint_eq(pending_of(&owners[i]), before[i]);
}

static void step(bool can_tell)
{
    struct slot *slot = &slots[below(SLOTS)];
    switch (below(16)) {
    case 0:
        if (slot->stream)
            end(slot);
        break;
    case 1:
        cover();
        break;
    case 2:
    case 3:
    case 4:
        look();
        break;
    case 5:
        sim_advance(below(10) * MILLISECOND);
        break;
    case 6:
        if (below(4) == 0)
            make_or_end_context(can_tell);
        else if (below(4) == 0)
            retire(&owners[below(OWNERS)]);
        break;
    default:
        if (!slot->stream)
            make(slot);
        else if (slot->captures && !slot->is_spoilt && below(3) == 0)
            spoil_captures(slot->device);
        else if (slot->captures)
            below(3) ? end_capture(slot) : open_or_close(slot);
        else
            use(slot);
    }
}

static void begin_program(const char *settings)
{
    rig_begin_with(settings);
    count = numbers = retired = 0;
    for (unsigned i = 0; i < OWNERS; i++)
        make_owner(&owners[i]);
}

/* All that the program had is done, and each line may be covered or has lost its frees to that of its device. */
static void end_program(unsigned long long seed, bool can_tell)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].stream)
            end(&slots[i]);
    if (context)
        make_or_end_context(can_tell);
    sim_advance(100000 * MILLISECOND);
    for (unsigned i = 0; i < 3; i++) {
        cover_devices();
        weir__scope_look(&(struct weir__scope){.fences = rig.fences});
        weir__scope_look(&(struct weir__scope){.fences = rig.other});
        weir__debts_sweep(rig.gpu);
        settle();
    }
    for (unsigned i = 0; i < OWNERS; i++) {
        ck_assert_msg(pending_of(&owners[i]) == 0, "seed %llu: bytes are pending for ever", seed);
        ck_assert_uint_eq(really_pending(owners[i].number), 0);
        weir__debts_end(owners[i].debts);
        free(owners[i].debts);
    }
    ck_assert_msg(retired == 0, "seed %llu: %u owners are never ended", seed, retired);
    for (unsigned i = 0; i < PARKED; i++)
        ck_assert_msg(!parked[i].parked, "seed %llu: something stays parked for ever", seed);
    rig_end();
}

static const char *const machines[] = {"devices=2", "devices=2,driver=12.0", "devices=2,driver=11.8"};

START_TEST(nothing_is_complete_before_the_gpu_says_so_and_everything_in_the_end)
{
    for (unsigned round = 0, rounds = suite_rounds(100, 2000); round < rounds; round++) {
        const unsigned long long seed = (unsigned long long)_i * 100000 + round;
        const bool can_tell = _i < 2; /* whether a context is alive */
        begin_program(machines[_i]);
        state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
        for (unsigned i = 0; i < STEPS; i++) {
            step(can_tell);
            for (unsigned n = 0; n < OWNERS; n++) {
                unsigned long long really = really_pending(owners[n].number), pending = pending_of(&owners[n]);
                ck_assert_msg(pending >= really, "seed %llu, step %u: %llu bytes are pending, but %llu as far as is known", seed, i, really,
                              pending);
            }
        }
        end_program(seed, can_tell);
    }
}
END_TEST

void fence_add_random(Suite *suite)
{
    TCase *tcase = suite_case(suite, "random programs", 300);
    tcase_add_loop_test(tcase, nothing_is_complete_before_the_gpu_says_so_and_everything_in_the_end, 0,
                        (int)(sizeof machines / sizeof machines[0]));
}
