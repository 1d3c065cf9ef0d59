/* SPDX-License-Identifier: MIT */
/* view_holders.c - `weir trace peak`, `live` and `leaks`: who had memory at a moment. */
#include "tools/trace/view.h"
#include "tools/common/command.h"
#include "tools/common/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The ways to ask who: one list each. */
static const struct part {
    unsigned part;
    const char *heading, *key;
} parts[] = {
    {BY_TAG, "TAG", "by_tag"},     {BY_POOL, "POOL", "by_pool"},    {BY_STREAM, "STREAM", "by_stream"},
    {BY_SIZE, "BLOCK", "by_size"}, {BY_STACK, "STACK", "by_stack"},
};

static const char *name_of(char buffer[SHOWN_LEN], const struct holder *holder, unsigned part)
{
    if (part == BY_TAG)
        return holder->tag ? utf8_shown(buffer, holder->tag->text) : "-";
    if (part == BY_POOL)
        return view_pool(buffer, holder->pool);
    if (part == BY_STREAM)
        return view_stream(buffer, holder->stream, holder->stream_name);
    snprintf(buffer, SHOWN_LEN, "%s", SIZE_TEXT(holder->size));
    return buffer;
}

static double share_of(uint64_t bytes, uint64_t all)
{
    return all ? 100.0 * (double)bytes / (double)all : 0;
}

static void print_list(const struct view *view, const struct model *model, const struct part *part)
{
    size_t count;
    struct holder *holders = view_holders(model, part->part, &count);
    struct table table = TABLE_INIT("lrrrr");
    table_row(&table, part->heading, "BYTES", "SHARE", "BLOCKS", "GIVEN");
    for (size_t i = 0; i < count && i < view->limit; i++) {
        char share[16];
        snprintf(share, sizeof share, "%.1f %%", share_of(holders[i].bytes, model->total.size));
        table_row(&table, name_of((char[SHOWN_LEN]){0}, &holders[i], part->part), SIZE_TEXT(holders[i].bytes), share,
                  COUNT_TEXT(holders[i].blocks), SIZE_TEXT(holders[i].given));
    }
    putchar('\n');
    table_print(&table, stdout);
    if (count > view->limit)
        printf("  and %s more\n", COUNT_TEXT(count - view->limit));
    free(holders);
}

static void print_stacks(const struct view *view, struct view_file *file, const struct model *model)
{
    size_t count;
    struct holder *holders = view_holders(model, BY_STACK, &count);
    for (size_t i = 0; i < count && i < view->limit; i++) {
        printf("\n  %s (%.1f %%) in %s block%s%s\n", SIZE_TEXT(holders[i].bytes), share_of(holders[i].bytes, model->total.size),
               COUNT_TEXT(holders[i].blocks), weir__plural(holders[i].blocks), holders[i].stack ? "" : ", without a stack");
        view_print_stack(file, holders[i].stack, "    ", 12);
    }
    if (count > view->limit)
        printf("\n  and %s more stacks\n", COUNT_TEXT(count - view->limit));
    free(holders);
}

static void json_holder(struct json *json, struct view_file *file, const struct model *model, const struct holder *holder, unsigned by)
{
    json_object(json, NULL);
    if (by & BY_TAG)
        json_string(json, "tag", holder->tag ? holder->tag->text : NULL);
    if (by & BY_POOL)
        view_json_pool(json, holder->pool);
    if (by & BY_STREAM)
        view_json_stream(json, holder->stream, holder->stream_name);
    if (by & BY_SIZE)
        json_uint(json, "size", holder->size);
    if (by & BY_STACK)
        view_json_stack(json, file, holder->stack);
    json_uint(json, "blocks", holder->blocks);
    json_uint(json, "bytes", holder->bytes);
    json_uint(json, "given", holder->given);
    json_uint(json, "oldest", holder->oldest);
    json_uint(json, "age", model->now - holder->oldest);
    json_end(json);
}

static void json_list(const struct view *view, struct view_file *file, const struct model *model, const char *key, unsigned by)
{
    size_t count;
    struct holder *holders = view_holders(model, by, &count);
    json_array(view->json, key);
    for (size_t i = 0; i < count && i < view->limit; i++)
        json_holder(view->json, file, model, &holders[i], by);
    json_end(view->json);
    free(holders);
}

void view_print_holders(const struct view *view, struct view_file *file, const struct model *model, uint64_t time)
{
    bool has_stacks = model->stack_count > 1;
    if (view->json) {
        json_uint(view->json, "time", time);
        json_uint(view->json, "live", model->total.size);
        json_uint(view->json, "live_blocks", model->total.blocks);
        json_uint(view->json, "given", model->total.given);
        json_uint(view->json, "held", model->held);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            json_list(view, file, model, parts[i].key, parts[i].part);
        return;
    }
    printf("At %s: %s in %s block%s; held by the pools %s.\n", MOMENT_TEXT(file, time), SIZE_TEXT(model->total.size),
           COUNT_TEXT(model->total.blocks), weir__plural(model->total.blocks), SIZE_TEXT(model->held));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && model->total.blocks; i++)
        if (parts[i].part != BY_STACK)
            print_list(view, model, &parts[i]);
    if (has_stacks && model->total.blocks)
        print_stacks(view, file, model);
}

int view_peak(const struct view *view, struct view_file *file)
{
    struct model model;
    bool is_good = view_play(file, &model, VIEW_ALL);
    struct model_moment peak = model.peak;
    model_free(&model);
    /* Once more, up to there. */
    if (is_good)
        view_play(file, &model, peak.event);
    view_print_holders(view, file, &model, peak.time);
    model_free(&model);
    return EXIT_GOOD;
}

/* Any moment ----------------------------------------------------------------------------------------------------------------------------
 */

bool view_read_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"\u00b5s", 1e3}, {"ns", 1}, {"min", 60e9}};
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (text[0] < '0' || text[0] > '9' || errno)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        if (value * units[i].ns >= 1.8e19)
            return false;
        *ns = (uint64_t)(value * units[i].ns);
        return true;
    }
    return false;
}

/* What is looked for: the events up to a time, or up to the last mark of a name. */
struct search {
    const char *mark; /* NULL: a time */
    uint64_t number;  /* of events up to it; 0: that is not what was asked */
    uint64_t time;
    uint64_t count, found; /* events so far; those up to the moment */
    uint64_t found_time;
    bool is_found;
};

static bool look_for(void *context, const struct trace_event *event)
{
    struct search *search = context;
    search->count++;
    if (search->mark && event->kind == TRACE_MARK && event->name && strcmp(event->name->text, search->mark) == 0) {
        search->is_found = true;
        search->found = search->count;
        search->found_time = event->time;
    } else if (search->number && search->count == search->number) {
        search->is_found = true;
        search->found = search->count;
        search->found_time = event->time;
        return false;
    } else if (!search->mark && !search->number && event->time <= search->time) {
        search->found = search->count;
    }
    return true;
}

/* Whether the last of the files had ended by then. Rounded, as views show it, the end may be a little later than it was. */
static bool is_behind_all(const struct view *view, uint64_t time)
{
    uint64_t last = 0, shown = 0;
    for (size_t i = 0; i < view->count; i++)
        if (view->files[i].trace.last + view->files[i].shift > last)
            last = view->files[i].trace.last + view->files[i].shift;
    for (unsigned digits = WEIR__TIME_DIGITS; digits <= WEIR__TIME_DIGITS_MOST && time > last; digits++)
        if (view_read_time(weir__time_digits((char[WEIR__TIME_LEN]){0}, last, digits), &shown) && time <= shown)
            return false;
    return time > last;
}

/* "#1234": the moment behind so many events. false: it is none, but may be the name of a mark. */
static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = text[0] == '#' && text[1] >= '1' && text[1] <= '9' ? strtoull(text + 1, &end, 10) : 0;
    return *number && !errno && !*end;
}

/* Finds the moment of --at in the file. false, after a complaint: it has none. */
static bool find_moment(const struct view *view, struct view_file *file, struct search *search)
{
    const char *option = view->since ? "since" : "at";
    *search = (struct search){.found = VIEW_ALL, .found_time = file->trace.last, .is_found = true};
    if (!view->at)
        return true;
    *search = (struct search){0};
    if (view_read_time(view->at, &search->time)) {
        search->is_found = search->time >= file->shift;
        search->time = search->is_found ? search->time - file->shift : 0;
        search->found_time = search->time;
        if (search->is_found && is_behind_all(view, search->time + file->shift)) {
            complain("%s: --%s=%s: the trace ends at %s", file->trace.path, option, view->at, MOMENT_TEXT(file, file->trace.last));
            return false;
        }
    } else if (!read_number(view->at, &search->number)) {
        search->number = 0;
        search->mark = view->at;
    }
    if (!search->is_found && !search->mark && !search->number)
        complain("%s: --%s=%s: it began later, at %s", file->trace.path, option, view->at, MOMENT_TEXT(file, 0));
    else if (!view_hear(file, look_for, search))
        return false;
    else if (!search->is_found && search->number)
        complain("%s: --%s=%s: it has only %" PRIu64 " events", file->trace.path, option, view->at, search->count);
    else if (!search->is_found)
        complain("%s: --%s=%s: it has no such mark, and this is no time, as 1.5s or 300ms; 'weir trace summary' lists the marks",
                 file->trace.path, option, view->at);
    return search->is_found;
}

int view_live(const struct view *view, struct view_file *file)
{
    struct search search;
    struct model model;
    if (!find_moment(view, file, &search))
        return EXIT_FAILED;
    view_play(file, &model, search.found);
    view_print_holders(view, file, &model, search.found_time);
    model_free(&model);
    return EXIT_GOOD;
}

/* Leaks ---------------------------------------------------------------------------------------------------------------------------------
 */

struct since {
    struct model *model;
    uint64_t events; /* before the moment */
};

static bool look_since(void *context, const struct trace_event *event)
{
    struct since *since = context;
    if (since->model->applied == since->events)
        model_forget_live(since->model);
    model_apply(since->model, event);
    return true;
}

/* Plays the file: what was live at the moment of --since is no leak. false, after a complaint: it has no such moment. */
static bool play_since(const struct view *view, struct view_file *file, struct model *model)
{
    struct view moment = *view;
    struct search search;
    *model = (struct model){0};
    moment.at = view->since;
    if (view->since && !find_moment(&moment, file, &search))
        return false;
    struct since since = {model, view->since ? search.found : 0};
    view_hear(file, look_since, &since);
    if (model->applied == since.events)
        model_forget_live(model);
    return true;
}

static void print_leaks(const struct view *view, struct view_file *file, const struct model *model)
{
    size_t count;
    struct holder *holders = view_holders(model, BY_TAG | BY_STACK | BY_SIZE | BY_POOL, &count);
    struct table table = TABLE_INIT("rrrllr");
    printf("At the end: %s in %s block%s%s%s.\n", SIZE_TEXT(model->total.size), COUNT_TEXT(model->total.blocks),
           weir__plural(model->total.blocks), view->since ? " taken since " : "", view->since ? SHOWN(view->since) : "");
    if (count)
        table_row(&table, "BYTES", "BLOCKS", "EACH", "TAG", "POOL", "OLDEST FOR");
    for (size_t i = 0; i < count && i < view->limit; i++) {
        const struct holder *holder = &holders[i];
        table_row(&table, SIZE_TEXT(holder->bytes), COUNT_TEXT(holder->blocks), SIZE_TEXT(holder->size),
                  holder->tag ? SHOWN(holder->tag->text) : "-", POOL_TEXT(holder->pool), TIME_TEXT(model->now - holder->oldest));
    }
    if (count) {
        putchar('\n');
        table_print(&table, stdout);
    }
    if (count > view->limit)
        printf("  and %s more\n", COUNT_TEXT(count - view->limit));
    free(holders);
    if (model->stack_count > 1 && model->total.blocks)
        print_stacks(view, file, model);
}

int view_leaks(const struct view *view, struct view_file *file)
{
    struct model model;
    if (!play_since(view, file, &model))
        return EXIT_FAILED;
    if (view->json) {
        json_string(view->json, "since", view->since);
        json_uint(view->json, "live", model.total.size);
        json_uint(view->json, "live_blocks", model.total.blocks);
        json_list(view, file, &model, "leaks", BY_TAG | BY_STACK | BY_SIZE | BY_POOL);
    } else {
        print_leaks(view, file, &model);
    }
    model_free(&model);
    return EXIT_GOOD;
}
