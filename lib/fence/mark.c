/* SPDX-License-Identifier: MIT */
/* mark.c - frees on a line, the marks that cover the frees, and the move of frees that no mark can cover to the device's line. */
#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/fence/fence_internal.h"

/* Marks -------------------------------------------------------------------------------------------------------------------------------- */

/* Removes marks[at]. Keeps its event as the spare one if the line has none, and destroys it otherwise. The caller holds the line's lock. */
static void drop_mark(struct weir__line *line, unsigned at)
{
    gpu_event unused = line->marks[at].event;
    for (unsigned i = at + 1; i < line->count; i++)
        line->marks[i - 1] = line->marks[i];
    line->count--;
    if (line->spare)
        weir__event_destroy(line->fences->gpu, unused);
    else
        line->spare = unused;
}

bool weir__line_is_needed(const struct weir__line *line, uint64_t after, uint64_t step)
{
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__debt_bytes(debt, after, step))
            return true;
    return line->points; /* any point counts, whatever its step: looking through thousands of parked blocks would take long */
}

/* Drops the marks on which no debt, point or wait depends. Another thread may be about to count a free in the step of a dropped mark. That
   is harmless, since the next mark covers that free as well. The caller holds the line's lock. */
static void drop_needless(struct weir__line *line)
{
    bool is_needed[WEIR__MARKS];
    weir__tables_lock();
    for (unsigned i = 0; i < line->count; i++)
        is_needed[i] = line->marks[i].is_wanted || line->points;
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        weir__debt_need(debt, is_needed);
    weir__tables_unlock();
    for (unsigned i = line->count; i-- > 0;)
        if (!is_needed[i])
            drop_mark(line, i);
}

/* Makes room for a mark: merges two neighbouring marks into the later one, which covers the frees of both. Chooses the pair with the fewest
   bytes, so that memory becomes complete in even portions, but never the oldest mark: each mark becomes the oldest in time, and is then
   seen complete. */
static void merge_two(struct weir__line *line)
{
    struct weir__mark *marks = line->marks;
    unsigned at = 1;
    for (unsigned i = 2; i + 1 < line->count; i++)
        if (marks[i].bytes + marks[i + 1].bytes < marks[at].bytes + marks[at + 1].bytes)
            at = i;
    marks[at + 1].number = marks[at].number;
    marks[at + 1].bytes += marks[at].bytes;
    marks[at + 1].is_wanted = marks[at + 1].is_wanted || marks[at].is_wanted;
    drop_mark(line, at);
}

/* The number of the newest mark of the process. */
static _Atomic uint64_t numbers;

uint64_t weir__marks_made(void)
{
    return atomic_load(&numbers);
}

/* Records the event behind all work of the line's stream or, for a DEVICE line, of the device. Returns the GPU code. */
static int record(const struct weir__line *line, gpu_event event)
{
    const struct weir__fences *fences = line->fences;
    if (line == fences->whole)
        return fences->gpu->event_record_device(event, fences->device);
    return weir__event_record(fences->gpu, fences->device, line->handle, event);
}

/* Records the line's spare event, or a new event if there is no spare one. If an old spare event fails, for example because the program has
   destroyed its context, tries once more with a new event. Returns the GPU code; on success the event is line->spare. The caller holds the
   line's lock. */
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
            weir__event_destroy(gpu, line->spare); /* the event may have become part of a capture, and then must not be used again */
        line->spare = NULL;
    } while (is_old && code != GPU_CAPTURE_UNSUPPORTED);
    return code;
}

static struct weir__mark *newest(struct weir__line *line)
{
    return line->count ? &line->marks[line->count - 1] : NULL;
}

/* Returns whether a free of `bytes` may join the step of the newest mark: no other stream was made to wait for that mark, and the step's
   bytes stay within WEIR__STEP_BYTES. */
static bool can_share(struct weir__line *line, uint64_t bytes)
{
    const struct weir__mark *mark = newest(line);
    return mark && mark->step > line->passed && bytes <= WEIR__STEP_BYTES && mark->bytes <= WEIR__STEP_BYTES - bytes;
}

/* Where make_mark() puts a mark. If the condition of WITH or INSTEAD is not met, the mark goes BEHIND. */
enum place {
    BEHIND, /* adds a mark behind the newest one */
    WITH,   /* records the newest mark again and lets the free join its step, if can_share() allows that */
    INSTEAD /* records the newest mark again in a step of its own, if the line has an older mark as well */
};

/* Records a mark behind all work of the stream, for `bytes` freed since the newest mark, and sets *step to the step that the mark ends.
   Returns the GPU code. The caller holds the line's lock and has made sure that the stream may be used. */
static int make_mark(struct weir__line *line, uint64_t bytes, enum place place, uint64_t *step)
{
    bool shares = place == WITH && can_share(line, bytes), replaces = shares || (place == INSTEAD && line->count > 1);
    if (!replaces && line->count == WEIR__MARKS)
        drop_needless(line);
    if (!replaces && line->count == WEIR__MARKS)
        merge_two(line);
    /* Raise the step before recording: a free that still reads the old step has its work on the stream already, so before the event. */
    uint64_t ended = shares ? newest(line)->step : atomic_fetch_add(&line->step, 1);
    int code = record_spare(line);
    if (code != GPU_SUCCESS)
        return code;
    struct weir__mark *last = newest(line);
    struct weir__mark made = {.event = line->spare, .step = ended, .bytes = bytes};
    made.is_wanted = atomic_exchange(&line->is_wanted, false);
    if (replaces) {
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

/* Returns the state of the oldest mark's event. If the event's context was destroyed, the work of that context is complete. On the DEVICE
   line and on stream 0, other contexts may still have work, so there such an event counts as broken. */
static enum weir__event_state look_at_oldest(const struct weir__line *line)
{
    const struct gpu *gpu = line->fences->gpu;
    gpu_event event = line->marks[0].event;
    int code = weir__event_ask(gpu, event);
    if (code == GPU_CONTEXT_DESTROYED && weir__handle_is_fixed(line->handle))
        return WEIR__EVENT_BROKEN;
    return weir__event_state_of(code);
}

/* Sets `done`. A block that another thread parks at this moment either has its point counted already, or waits for a later step: the point
   is counted before its step is read. The caller holds the line's lock. */
static void raise_done(struct weir__line *line, uint64_t step)
{
    atomic_store(&line->done, step);
    if (atomic_load(&line->points))
        atomic_fetch_add(&weir__points_reached, 1);
}

void weir__line_reach(struct weir__line *line, uint64_t step)
{
    raise_done(line, step);
    while (line->count && line->marks[0].step <= step)
        drop_mark(line, 0);
}

bool weir__line_is_current(const struct weir__line *line)
{
    int current;
    return !weir__handle_is_fixed(line->handle) ||
           (line->fences->gpu->get_current_device(&current) == GPU_SUCCESS && current == line->fences->device);
}

/* Synchronises stream 0 if it has no pending work, and returns whether it did. The function queries the stream itself, since an event
   recorded on stream 0 would hold up other streams. */
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

/* If the line is a PASSING stream 0 with frees that no mark covers, checks whether these frees are complete. Returns 1 if they may still be
   pending, and 0 in all other cases. The caller holds the line's lock. */
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

/* Drops the marks that are complete, and raises `done`. The caller holds the line's lock. */
static void look(struct weir__line *line)
{
    uint64_t lost = 0;
    enum weir__event_state state;
    while (line->count && (state = look_at_oldest(line)) != WEIR__EVENT_PENDING) {
        /* A broken mark says nothing about its frees. The next mark covers them too. If there is no next mark, the frees are uncovered
           again. */
        lost = state == WEIR__EVENT_COMPLETE ? 0 : lost + line->marks[0].bytes;
        if (state == WEIR__EVENT_COMPLETE)
            raise_done(line, line->marks[0].step);
        drop_mark(line, 0);
    }
    if (!line->count)
        atomic_fetch_add(&line->uncovered, lost);
    /* An OPEN line or a DEVICE line gets its next mark only when some thread waits for its memory, which is seldom: do not keep an event
       until then. */
    enum weir__line_kind kind = atomic_load(&line->kind);
    if (!line->count && line->spare && (kind == WEIR__LINE_OPEN || kind == WEIR__LINE_DEVICE)) {
        weir__event_destroy(line->fences->gpu, line->spare);
        line->spare = NULL;
    }
}

/* Returns the number of the line's marks that count for the scope. The caller holds the line's lock. */
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

/* Moves the points of the line in steps above `after` to `step` of the DEVICE line. Returns their number. The caller holds the tables'
   lock. */
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
                    weir__line_drop_point(line);
                    weir__line_add_point(whole, parked->group);
                    count++;
                }
    return count;
}

/* The frees to be moved have their work on the device already, so the next event behind all work of the device is behind them. Moving
   points ends uses of the line, but never the last one, since the caller uses the line too. */
void weir__line_move_to_device(struct weir__line *line)
{
    struct weir__line *whole = line->fences->whole;
    const struct weir__mark *last = newest(line);
    uint64_t after = last ? last->step : atomic_load(&line->done), moved = 0;
    if (line == whole)
        return;
    /* Set `uncovered` to 0 before the move: what another thread frees or parks during the move then counts as uncovered. */
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

/* Makes the line GONE. The caller holds the line's lock. */
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

/* Returns whether Weir may use the stream outside of a call that names it: the line is OPEN and the stream's context is alive. If the
   program has destroyed the context, the line becomes GONE. The caller holds the line's lock. */
static bool is_usable(struct weir__line *line)
{
    if (atomic_load(&line->kind) != WEIR__LINE_OPEN)
        return false;
    if (line->fences->gpu->context_is_alive(&line->context))
        return true;
    end(line);
    return false;
}

/* Records a mark at `place` if frees of the line have none. Returns the GPU code, or GPU_INVALID_HANDLE if the stream may not be used. The
   caller holds the line's lock. */
static int cover(struct weir__line *line, bool is_named, enum place place)
{
    uint64_t taken, step;
    if (!atomic_load(&line->uncovered))
        return GPU_SUCCESS;
    if (!is_named && !is_usable(line))
        return GPU_INVALID_HANDLE;
    taken = atomic_exchange(&line->uncovered, 0);
    int code = make_mark(line, taken, place, &step);
    if (code != GPU_SUCCESS)
        atomic_fetch_add(&line->uncovered, taken);
    return code;
}

int weir__line_cover_locked(struct weir__line *line, bool is_named)
{
    return cover(line, is_named, BEHIND);
}

void weir__line_renew(struct weir__line *line)
{
    pthread_mutex_lock(&line->lock);
    cover(line, true, INSTEAD);
    pthread_mutex_unlock(&line->lock);
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

/* Counts a free on an OPEN line without taking the line's lock. If the program breaks the rules and destroys the stream during the call,
   the line may become GONE before the free is counted: the function then moves the free to the DEVICE line. */
static void count_open(struct weir__debt *debt, uint64_t bytes, uint64_t *step)
{
    struct weir__line *line = debt->line;
    *step = atomic_load(&line->step);
    weir__debt_add(debt, bytes, step);
    atomic_fetch_add(&line->uncovered, bytes);
    if (atomic_load(&line->kind) == WEIR__LINE_GONE)
        weir__line_end_if(line, WEIR__LINE_GONE);
}

/* Records a mark and counts the free in the mark's step. If recording fails, counts nothing. Returns the GPU code. The caller holds the
   line's lock. */
static int count_marked(struct weir__debt *debt, uint64_t bytes, uint64_t *step)
{
    struct weir__line *line = debt->line;
    uint64_t taken = atomic_exchange(&line->uncovered, 0);
    bool is_open = atomic_load(&line->kind) == WEIR__LINE_OPEN;
    int code = make_mark(line, taken + bytes, taken || is_open ? BEHIND : WITH, step);
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
