/* SPDX-License-Identifier: MIT */
/* mark.c - frees on a line, the events behind them, and what becomes of frees that no event can be put behind. */
#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/fence/fence_internal.h"

/* Marks -------------------------------------------------------------------------------------------------------------------------------- */

static void drop_mark(struct weir__line *line, unsigned at)
{
    gpu_event unused = line->marks[at].event;
    for (unsigned i = at + 1; i < line->count; i++)
        line->marks[i - 1] = line->marks[i];
    line->count--;
    if (line->spare)
        line->fences->gpu->event_destroy(unused);
    else
        line->spare = unused;
}

/* Whether a point of something parked is there. Called with the tables' lock. */
static bool has_point(const struct weir__line *line, uint64_t after, uint64_t step)
{
    for (const struct weir__fences *fences = weir__fences_first; fences && line->points; fences = fences->next)
        for (const struct weir__parked *parked = fences->parked; parked; parked = parked->next)
            for (size_t i = 0; i < parked->count; i++)
                if (parked->points[i].line == line && parked->points[i].step > after && parked->points[i].step <= step)
                    return true;
    return false;
}

bool weir__line_is_needed(const struct weir__line *line, uint64_t after, uint64_t step)
{
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__debt_bytes(debt, after, step))
            return true;
    return has_point(line, after, step);
}

/* Drops the marks on which nothing depends. A free that has read the step of one and is not counted yet will find the next mark behind
   it. */
static void drop_needless(struct weir__line *line)
{
    bool is_needed[WEIR__MARKS] = {false};
    uint64_t after = atomic_load(&line->done);
    weir__tables_lock();
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        weir__debt_need(debt, is_needed);
    for (unsigned i = 0; i < line->count; i++) {
        is_needed[i] = is_needed[i] || line->marks[i].is_wanted || has_point(line, after, line->marks[i].step);
        after = line->marks[i].step;
    }
    weir__tables_unlock();
    for (unsigned i = line->count; i-- > 0;)
        if (!is_needed[i])
            drop_mark(line, i);
}

/* The number of the last mark. */
static _Atomic uint64_t numbers;

uint64_t weir__marks_made(void)
{
    return atomic_load(&numbers);
}

static int record(const struct weir__line *line, gpu_event event)
{
    const struct weir__fences *fences = line->fences;
    if (line == fences->whole)
        return fences->gpu->event_record_device(event, fences->device);
    return weir__event_record(fences->gpu, fences->device, line->handle, event);
}

/* Records the spare event. Another one is tried if that was of a context which the program has destroyed, or failed by chance. */
static int record_spare(struct weir__line *line)
{
    const struct gpu *gpu = line->fences->gpu;
    bool is_old;
    int code;
    do {
        is_old = line->spare;
        code = is_old ? GPU_SUCCESS : gpu->event_create(line->fences->device, &line->spare);
        if (code == GPU_SUCCESS && (code = record(line, line->spare)) == GPU_SUCCESS)
            return code;
        if (line->spare)
            gpu->event_destroy(line->spare); /* a capture may have caught it */
        line->spare = NULL;
    } while (is_old && code != GPU_CAPTURE_UNSUPPORTED);
    return code;
}

static struct weir__mark *newest(struct weir__line *line)
{
    return line->count ? &line->marks[line->count - 1] : NULL;
}

/* Whether the next free may have the step of the newest mark: nobody was made to wait for that, and it has room. */
static bool can_share(struct weir__line *line, uint64_t bytes)
{
    const struct weir__mark *mark = newest(line);
    return mark && mark->step > line->passed && bytes <= WEIR__STEP_BYTES && mark->bytes <= WEIR__STEP_BYTES - bytes;
}

/* A mark behind all work of the stream, which may be touched, for so many bytes. Returns the waist's code. */
static int make_mark(struct weir__line *line, uint64_t bytes, bool may_share, uint64_t *step)
{
    bool shares = may_share && can_share(line, bytes);
    /* Raised before the record: a free that reads what it was has its work before the event. */
    uint64_t ended = shares ? newest(line)->step : atomic_fetch_add(&line->step, 1);
    int code = record_spare(line);
    if (code != GPU_SUCCESS)
        return code;
    if (!shares && line->count == WEIR__MARKS)
        drop_needless(line);
    struct weir__mark *last = newest(line);
    struct weir__mark made = {.event = line->spare, .step = ended, .bytes = bytes};
    made.is_wanted = atomic_exchange(&line->is_wanted, false);
    if (shares || line->count == WEIR__MARKS) {
        line->spare = last->event;
        made.number = last->number;
        made.bytes += last->bytes;
        made.is_wanted = made.is_wanted || last->is_wanted;
        *last = made;
    } else {
        line->spare = NULL;
        made.number = atomic_fetch_add(&numbers, 1) + 1;
        line->marks[line->count++] = made;
    }
    *step = ended;
    return code;
}

/* What the event of the oldest mark says. When a context is destroyed its own work is done for certain. That is less than what is on the
   line of a device, or on that of stream 0, which another context may have named. */
static enum weir__event_state look_at_oldest(const struct weir__line *line)
{
    const struct gpu *gpu = line->fences->gpu;
    gpu_event event = line->marks[0].event;
    int code = weir__event_ask(gpu, event);
    if (code == GPU_CONTEXT_DESTROYED && weir__handle_is_fixed(line->handle))
        return WEIR__EVENT_BROKEN;
    return weir__event_state_of(code);
}

void weir__line_reach(struct weir__line *line, uint64_t step)
{
    atomic_store(&line->done, step);
    while (line->count && line->marks[0].step <= step)
        drop_mark(line, 0);
}

bool weir__line_is_current(const struct weir__line *line)
{
    int current;
    return !weir__handle_is_fixed(line->handle) ||
           (line->fences->gpu->get_current_device(&current) == GPU_SUCCESS && current == line->fences->device);
}

/* Asks stream 0 itself, since an event there would hold up other streams. Whether it is idle. */
static bool legacy_is_idle(const struct weir__line *line)
{
    const struct gpu *gpu = line->fences->gpu;
    enum gpu_capture_status capture;
    int former = weir__current_begin(gpu, line->fences->device, line->handle);
    bool is_idle = weir__line_is_current(line) && gpu->stream_capture_status(line->handle, &capture) == GPU_SUCCESS &&
                   capture == GPU_CAPTURE_STATUS_NONE &&
                   gpu->stream_query(line->handle) == GPU_SUCCESS && gpu->stream_synchronize(line->handle) == GPU_SUCCESS;
    weir__current_end(gpu, former);
    return is_idle;
}

/* With the line's lock. What was freed on stream 0 and has no mark; 1: some of it is not known to be complete. */
static unsigned look_at_legacy(struct weir__line *line)
{
    if (!weir__line_is_legacy(line) || atomic_load(&line->kind) != WEIR__LINE_PASSING)
        return 0;
    uint64_t taken = atomic_exchange(&line->uncovered, 0);
    if (!taken)
        return 0;
    uint64_t ended = atomic_fetch_add(&line->step, 1);
    bool is_idle = legacy_is_idle(line);
    if (is_idle)
        weir__line_reach(line, ended);
    else
        atomic_fetch_add(&line->uncovered, taken);
    return !is_idle;
}

/* With the line's lock. */
static void look(struct weir__line *line)
{
    uint64_t lost = 0;
    enum weir__event_state state;
    while (line->count && (state = look_at_oldest(line)) != WEIR__EVENT_PENDING) {
        /* One that is broken tells nothing; the next mark covers what it did. */
        lost = state == WEIR__EVENT_COMPLETE ? 0 : lost + line->marks[0].bytes;
        if (state == WEIR__EVENT_COMPLETE)
            atomic_store(&line->done, line->marks[0].step);
        drop_mark(line, 0);
    }
    if (!line->count)
        atomic_fetch_add(&line->uncovered, lost);
    /* An open line, or that of a device, gets its next mark when somebody waits, which is seldom. */
    enum weir__line_kind kind = atomic_load(&line->kind);
    if (!line->count && line->spare && (kind == WEIR__LINE_OPEN || kind == WEIR__LINE_DEVICE)) {
        line->fences->gpu->event_destroy(line->spare);
        line->spare = NULL;
    }
}

/* With the line's lock. */
static unsigned count_marks(const struct weir__line *line, const struct weir__scope *scope)
{
    unsigned count = 0;
    for (unsigned i = 0; i < line->count; i++)
        count += line->marks[i].number > scope->after && (!scope->until || line->marks[i].number <= scope->until);
    return count;
}

unsigned weir__line_look_for(struct weir__line *line, const struct weir__scope *scope)
{
    pthread_mutex_lock(&line->lock);
    look(line);
    unsigned left = look_at_legacy(line);
    left += count_marks(line, scope);
    pthread_mutex_unlock(&line->lock);
    return left;
}

unsigned weir__line_marks(struct weir__line *line, const struct weir__scope *scope)
{
    pthread_mutex_lock(&line->lock);
    unsigned count = count_marks(line, scope);
    pthread_mutex_unlock(&line->lock);
    return count;
}

unsigned weir__line_look(struct weir__line *line)
{
    const struct weir__scope all = {.line = line};
    return weir__line_look_for(line, &all);
}

/* What cannot be covered --------------------------------------------------------------------------------------------------------------- */

/* Points behind `after` wait for all work of the device instead. Called with the tables' lock. Returns how many. */
static uint64_t move_points(struct weir__line *line, uint64_t after, uint64_t step)
{
    struct weir__line *whole = line->fences->whole;
    uint64_t count = 0;
    for (struct weir__fences *fences = weir__fences_first; fences; fences = fences->next)
        for (struct weir__parked *parked = fences->parked; parked; parked = parked->next)
            for (size_t i = 0; i < parked->count; i++)
                if (parked->points[i].line == line && parked->points[i].step > after) {
                    parked->points[i] = (struct weir__point){.line = whole, .step = step};
                    line->users--;
                    line->points--;
                    whole->users++;
                    whole->points++;
                    count++;
                }
    return count;
}

/* All of these frees are on the device by now, so an event behind all its work that is recorded from now on is behind them. The caller uses
   the line, so its points are not its last users. */
void weir__line_move_to_device(struct weir__line *line)
{
    struct weir__line *whole = line->fences->whole;
    const struct weir__mark *last = newest(line);
    uint64_t after = last ? last->step : atomic_load(&line->done), moved = 0;
    if (line == whole)
        return;
    /* Before the bytes are moved: what is freed, parked or passed on here meanwhile counts as uncovered again. */
    atomic_store(&line->uncovered, 0);
    weir__tables_lock();
    uint64_t step = atomic_load(&whole->step);
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next) {
        moved += weir__debt_pass(debt, after, UINT64_MAX, weir__debt_of_device(line, debt->owner), step);
    }
    moved += move_points(line, after, step);
    weir__tables_unlock();
    atomic_fetch_add(&whole->uncovered, moved);
}

/* Called with the line's lock. */
static void end(struct weir__line *line)
{
    atomic_store(&line->kind, WEIR__LINE_GONE);
    weir__line_move_to_device(line);
}

void weir__line_end_if(struct weir__line *line, enum weir__line_kind kind)
{
    pthread_mutex_lock(&line->lock);
    if (atomic_load(&line->kind) == kind)
        end(line);
    pthread_mutex_unlock(&line->lock);
}

void weir__line_gone(struct weir__line *line)
{
    pthread_mutex_lock(&line->lock);
    end(line);
    pthread_mutex_unlock(&line->lock);
}

/* Whether the handle may be touched although no call names it. The program may have destroyed its context. */
static bool is_usable(struct weir__line *line)
{
    if (atomic_load(&line->kind) != WEIR__LINE_OPEN)
        return false;
    if (line->fences->gpu->context_is_alive(&line->context))
        return true;
    end(line);
    return false;
}

int weir__line_cover_locked(struct weir__line *line, bool is_named)
{
    uint64_t taken, step;
    if (!atomic_load(&line->uncovered))
        return GPU_SUCCESS;
    if (!is_named && !is_usable(line))
        return GPU_INVALID_HANDLE;
    taken = atomic_exchange(&line->uncovered, 0);
    int code = make_mark(line, taken, false, &step);
    if (code != GPU_SUCCESS)
        atomic_fetch_add(&line->uncovered, taken);
    return code;
}

bool weir__line_cover(struct weir__line *line, bool is_named)
{
    pthread_mutex_lock(&line->lock);
    int code = weir__line_cover_locked(line, is_named);
    pthread_mutex_unlock(&line->lock);
    return code == GPU_SUCCESS;
}

void weir__line_close(struct weir__line *line)
{
    pthread_mutex_lock(&line->lock);
    line->openers -= line->openers > 0;
    bool is_last = !line->openers && atomic_load(&line->kind) == WEIR__LINE_OPEN;
    if (is_last && weir__line_cover_locked(line, false) == GPU_CAPTURE_UNSUPPORTED)
        atomic_store(&line->kind, WEIR__LINE_CAPTURED);
    else if (is_last)
        end(line);
    pthread_mutex_unlock(&line->lock);
}

void weir__line_cover_anyway(struct weir__line *line, bool is_named)
{
    atomic_store(&line->is_wanted, true);
    atomic_fetch_add(&line->uncovered, 1);
    weir__line_cover(line, is_named);
}

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

void weir__line_revive(struct weir__line *line)
{
    if (atomic_load(&line->kind) != WEIR__LINE_OPEN)
        atomic_store(&line->kind, WEIR__LINE_PASSING);
}

/* The program may destroy the stream meanwhile, although it should not: then the free is one of a gone line. */
static void count_open(struct weir__debt *debt, uint64_t bytes, uint64_t *step)
{
    struct weir__line *line = debt->line;
    *step = atomic_load(&line->step);
    weir__debt_add(debt, bytes, step);
    atomic_fetch_add(&line->uncovered, bytes);
    if (atomic_load(&line->kind) == WEIR__LINE_GONE)
        weir__line_end_if(line, WEIR__LINE_GONE);
}

/* With the line's lock: the free and its mark, or nothing. */
static int count_marked(struct weir__debt *debt, uint64_t bytes, uint64_t *step)
{
    struct weir__line *line = debt->line;
    uint64_t taken = atomic_exchange(&line->uncovered, 0);
    bool is_open = atomic_load(&line->kind) == WEIR__LINE_OPEN;
    int code = make_mark(line, taken + bytes, !taken && !is_open, step);
    if (code == GPU_SUCCESS)
        weir__debt_add(debt, bytes, step);
    else
        atomic_fetch_add(&line->uncovered, taken);
    return code;
}

int weir__line_free(struct weir__debt *debt, uint64_t bytes, uint64_t due, uint64_t *step)
{
    struct weir__line *line = debt->line;
    int code = GPU_SUCCESS;
    if (due && atomic_load(&line->kind) == WEIR__LINE_OPEN) {
        count_open(debt, bytes, step);
        if (atomic_load(&line->uncovered) >= due)
            weir__line_cover(line, true);
        return code;
    }
    pthread_mutex_lock(&line->lock);
    weir__line_revive(line);
    if (!due || debt->owner->tracker) {
        code = count_marked(debt, bytes, step);
    } else {
        *step = atomic_load(&line->step);
        weir__debt_add(debt, bytes, step);
        if (atomic_fetch_add(&line->uncovered, bytes) + bytes >= due)
            weir__line_cover_locked(line, true);
    }
    pthread_mutex_unlock(&line->lock);
    return code;
}

bool weir__line_count(struct weir__line *line, struct weir__debts *debts, uint64_t bytes)
{
    struct weir__debt *debt = weir__debt_of(debts, line);
    uint64_t step;
    if (debt)
        weir__line_free(debt, bytes, UINT64_MAX, &step);
    return atomic_load(&line->kind) != WEIR__LINE_OPEN && atomic_load(&line->uncovered) >= WEIR__PASSING_BYTES;
}

bool weir__line_is_valid(struct weir__line *line)
{
    pthread_mutex_lock(&line->lock);
    uint64_t last = atomic_load(&line->done);
    bool is_valid = line->count <= WEIR__MARKS;
    for (unsigned i = 0; i < line->count; i++) {
        is_valid = is_valid && line->marks[i].step > last && line->marks[i].event && line->marks[i].bytes;
        last = line->marks[i].step;
    }
    is_valid = is_valid && last < atomic_load(&line->step);
    weir__tables_lock();
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next) {
        weir__spin_lock(&debt->lock);
        is_valid = is_valid && debt->line == line && debt->count <= WEIR__PARTS;
        for (unsigned i = 1; i < debt->count; i++)
            is_valid = is_valid && debt->parts[i - 1].step < debt->parts[i].step;
        weir__spin_unlock(&debt->lock);
    }
    weir__tables_unlock();
    pthread_mutex_unlock(&line->lock);
    return is_valid;
}
