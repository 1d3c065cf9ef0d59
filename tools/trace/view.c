/* SPDX-License-Identifier: MIT */
#include "tools/trace/view.h"
#include "lib/base/format.h"
#include "tools/common/command.h"
#include "tools/common/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words ---------------------------------------------------------------------------------------------------------------------------------
 */

uint64_t view_shifted(const struct view_file *file, uint64_t time)
{
    return time > UINT64_MAX - file->shift ? UINT64_MAX : time + file->shift;
}

const char *view_moment(char text[WEIR__TIME_LEN], const struct view_file *file, uint64_t time)
{
    return weir__time(text, view_shifted(file, time));
}

int view_columns(const char *time)
{
    return (int)strlen(time) - (strstr(time, "\u00b5") ? 1 : 0); /* which has two bytes */
}

const char *view_moment_below(char text[WEIR__TIME_LEN], struct view_moments *column, uint64_t time)
{
    char above[WEIR__TIME_LEN];
    bool is_first = column->digits == 0;
    /* A row of the same time has the digits of the one above it. */
    if (!is_first && time == column->above)
        return weir__time_digits(text, time, column->digits);
    for (column->digits = WEIR__TIME_DIGITS; column->digits < WEIR__TIME_DIGITS_MOST; column->digits++)
        if (is_first || strcmp(weir__time_digits(text, time, column->digits), weir__time_digits(above, column->above, column->digits)) != 0)
            break;
    column->above = time;
    return weir__time_digits(text, time, column->digits);
}

void view_print_moment(struct view_moments *column, const struct view_file *file, uint64_t time, int width)
{
    char text[WEIR__TIME_LEN];
    view_moment_below(text, column, view_shifted(file, time));
    printf("%*s%s", width > view_columns(text) ? width - view_columns(text) : 0, "", text);
}

const char *view_stream(char buffer[SHOWN_LEN], uint64_t stream, const struct trace_text *name)
{
    char shown[SHOWN_LEN];
    if (!name)
        snprintf(buffer, SHOWN_LEN, "0x%" PRIx64, stream);
    else if (name->streams > 1)
        snprintf(buffer, SHOWN_LEN, "%.220s 0x%" PRIx64, utf8_shown(shown, name->text), stream);
    else
        utf8_shown(buffer, name->text);
    return buffer;
}

const char *view_pool(char buffer[SHOWN_LEN], const struct trace_pool *pool)
{
    char name[SHOWN_LEN], id[32] = "";
    if (!pool)
        return memcpy(buffer, "-", sizeof "-");
    if (pool->flags & TRACE_POOL_PRIVATE)
        snprintf(id, sizeof id, "#%" PRIu64, pool->id);
    if (pool->device && !(pool->flags & TRACE_POOL_HOST))
        snprintf(buffer, SHOWN_LEN, "%.190s%s@%" PRIu64, utf8_shown(name, pool->name), id, pool->device);
    else
        snprintf(buffer, SHOWN_LEN, "%.220s%s", utf8_shown(name, pool->name), id);
    return buffer;
}

void view_json_pool(struct json *json, const struct trace_pool *pool)
{
    json_string(json, "pool", pool ? pool->name : NULL);
    if (!pool)
        return;
    json_uint(json, "pool_id", pool->id);
    json_uint(json, "device", pool->device);
    json_bool(json, "is_arena", pool->flags & TRACE_POOL_ARENA);
    json_bool(json, "is_host", pool->flags & TRACE_POOL_HOST);
    json_bool(json, "is_private", pool->flags & TRACE_POOL_PRIVATE);
    json_bool(json, "is_unaware", pool->flags & TRACE_POOL_UNAWARE);
}

void view_json_handle(struct json *json, const char *key, uint64_t handle)
{
    json_string(json, key, STREAM_TEXT(handle, NULL));
}

void view_json_stream(struct json *json, uint64_t stream, const struct trace_text *name)
{
    view_json_handle(json, "stream", stream);
    json_string(json, "stream_name", name ? name->text : NULL);
}

void view_json_moments(struct json *json, const char *key, uint64_t shift, const struct model_moment *moments, size_t count)
{
    json_array(json, key);
    for (size_t i = 0; i < count; i++) {
        json_in_line(json);
        json_object(json, NULL);
        json_uint(json, "time", moments[i].time + shift);
        json_string(json, "name", moments[i].name ? moments[i].name->text : NULL);
        json_end(json);
    }
    json_end(json);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Of a native frame whose module is known. */
static void native_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame)
{
    const struct trace_module *module = frame->module;
    const struct symbol *symbol = symbols_find(symbols, module, frame->address);
    if (symbol->function[0] && symbol->line)
        snprintf(buffer, FRAME_TEXT_LEN, "%s (%s:%u)", symbol->function, symbol->file, symbol->line);
    else if (symbol->function[0])
        snprintf(buffer, FRAME_TEXT_LEN, "%s (%s)", symbol->function, base_name(module->path));
    else
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s+0x%" PRIx64 "%s", base_name(module->path), frame->address - module->first + module->offset,
                 symbol->has_changed ? " (the file has changed)" : "");
}

const char *trace_frame_text(char buffer[FRAME_TEXT_LEN], struct symbols *symbols, const struct trace_frame *frame)
{
    if (frame->line && frame->line->file[0])
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s (%.200s:%" PRIu64 ")", frame->line->function, base_name(frame->line->file),
                 frame->line->line);
    else if (frame->line)
        snprintf(buffer, FRAME_TEXT_LEN, "%.200s", frame->line->function);
    else if (frame->module)
        native_text(buffer, symbols, frame);
    else
        snprintf(buffer, FRAME_TEXT_LEN, "0x%" PRIx64, frame->address);
    return buffer;
}

/* Most views show no frame. */
static struct symbols *symbols_of(struct view_file *file)
{
    file->symbols = file->symbols ? file->symbols : symbols_new();
    return file->symbols;
}

const char *view_frame(char buffer[SHOWN_LEN], struct view_file *file, const struct trace_frame *frame)
{
    char text[FRAME_TEXT_LEN];
    return utf8_shown(buffer, trace_frame_text(text, symbols_of(file), frame));
}

/* Whether a frame is in CUDA's libraries or the recorder, or in the part of CUDA's runtime that a program is linked with. */
static bool is_of_cuda(struct view_file *file, const struct trace_frame *frame)
{
    static const char *const modules[] = {"libcuda.so", "libcudart.so", "libweir"}, *const functions[] = {"cuda", "__cuda", "libcudart_"};
    const struct symbol *symbol = frame->module ? symbols_find(symbols_of(file), frame->module, frame->address) : NULL;
    const char *path = frame->module ? frame->module->path : "", *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(name, modules[i], strlen(modules[i])) == 0 ||
            (symbol && strncmp(symbol->function, functions[i], strlen(functions[i])) == 0))
            return true;
    return false;
}

const char *view_place(char buffer[SHOWN_LEN], struct view_file *file, const struct trace_stack *stack)
{
    uint32_t at = 0;
    while (at + 1 < stack->count && is_of_cuda(file, &stack->frames[at]))
        at++;
    return stack->count ? view_frame(buffer, file, &stack->frames[at]) : "an unknown place";
}

void view_print_stack(struct view_file *file, const struct trace_stack *stack, const char *indent, size_t limit)
{
    char shown[SHOWN_LEN];
    for (uint32_t i = 0; stack && i < stack->count; i++) {
        if (limit && i == limit && stack->count > limit + 1) {
            printf("%s... %" PRIu32 " more\n", indent, stack->count - i);
            return;
        }
        printf("%s%s\n", indent, view_frame(shown, file, &stack->frames[i]));
    }
}

void view_json_stack(struct json *json, struct view_file *file, const struct trace_stack *stack)
{
    char text[FRAME_TEXT_LEN];
    if (!stack) {
        json_null(json, "stack");
        return;
    }
    json_array(json, "stack");
    for (uint32_t i = 0; i < stack->count; i++)
        json_string(json, NULL, trace_frame_text(text, symbols_of(file), &stack->frames[i]));
    json_end(json);
}

void view_file_begin(const struct view *view, const struct view_file *file)
{
    const struct trace_header *header = &file->trace.header;
    if (view->json) {
        json_object(view->json, NULL);
        json_string(view->json, "file", file->trace.path);
        json_string(view->json, "program", header->program);
        json_uint(view->json, "pid", header->pid);
        json_string(view->json, "rank", header->rank);
        json_uint(view->json, "started", header->started_real);
        json_uint(view->json, "shift", file->shift);
        return;
    }
    if (view->count == 1 || view->is_collapsed)
        return;
    char line[3 * SHOWN_LEN];
    if (file != view->files)
        putchar('\n');
    int len = snprintf(line, sizeof line, "%s", SHOWN(file->trace.path));
    if (header->program)
        len += snprintf(line + len, sizeof line - (size_t)len, ": %s, pid %" PRIu64, SHOWN(header->program), header->pid);
    if (header->rank)
        snprintf(line + len, sizeof line - (size_t)len, ", rank %s", SHOWN(header->rank));
    style_line(stdout, STYLE_STRONG, line);
}

void view_file_end(const struct view *view)
{
    if (view->json)
        json_end(view->json);
}

void view_say_losses(const struct view *view, const struct view_file *file)
{
    const struct trace_losses *losses = &file->trace.losses;
    if (view->json) {
        json_object(view->json, "lost");
        json_uint(view->json, "events", losses->events);
        json_uint(view->json, "blocks", losses->blocks);
        json_uint(view->json, "bytes", losses->bytes);
        json_bool(view->json, "is_closed", losses->is_closed);
        json_string(view->json, "first", losses->first[0] ? losses->first : NULL);
        json_end(view->json);
        return;
    }
    if (losses->first[0])
        complain("%s: %s", file->trace.path, losses->first);
    if (losses->blocks)
        complain("%s: lost are %s block%s with %s byte%s, and what they say; all figures lack it", file->trace.path,
                 COUNT_TEXT(losses->blocks), weir__plural(losses->blocks), COUNT_TEXT(losses->bytes), weir__plural(losses->bytes));
}

int view_each(const struct view *view, view_file_fn *show)
{
    int status = EXIT_GOOD;
    for (size_t i = 0; i < view->count; i++) {
        view_file_begin(view, &view->files[i]);
        view_say_losses(view, &view->files[i]);
        status = worse_exit(status, show(view, &view->files[i]));
        view_file_end(view);
    }
    return status;
}

bool view_has_segments(const struct trace *trace)
{
    return trace_has_module(trace, "libc10_cuda.so");
}

/* Moments -------------------------------------------------------------------------------------------------------------------------------
 */

struct until {
    struct model *model;
    uint64_t events;
};

static bool look_until(void *context, const struct trace_event *event)
{
    struct until *until = context;
    if (until->model->applied == until->events)
        return false;
    model_apply(until->model, event);
    return true;
}

bool view_hear(struct view_file *file, trace_event_fn *look, void *context)
{
    if (trace_play(&file->trace, look, context))
        return true;
    complain("%s: %s", file->trace.path, file->trace.error);
    file->is_bad = true;
    return false;
}

bool view_play(struct view_file *file, struct model *model, uint64_t events)
{
    struct until until = {model, events};
    *model = (struct model){0};
    return view_hear(file, look_until, &until);
}

/* Holders -------------------------------------------------------------------------------------------------------------------------------
 */

static uint64_t number_of(const uint32_t *number)
{
    return number ? *number + UINT64_C(1) : 0;
}

/* The most bytes first; those that are alike in all figures by what they have in common, so that their order is nobody's chance. */
static int by_bytes(const void *left, const void *right)
{
    const struct holder *a = left, *b = right;
    const uint64_t left_parts[] = {b->bytes, a->oldest, a->size, number_of(a->tag ? &a->tag->number : NULL),
                                   number_of(a->pool ? &a->pool->number : NULL), a->stream, number_of(a->stack ? &a->stack->number : NULL)};
    const uint64_t right_parts[] = {a->bytes, b->oldest, b->size, number_of(b->tag ? &b->tag->number : NULL),
                                    number_of(b->pool ? &b->pool->number : NULL), b->stream, number_of(b->stack ? &b->stack->number : NULL)};
    for (size_t i = 0; i < sizeof left_parts / sizeof left_parts[0]; i++)
        if (left_parts[i] != right_parts[i])
            return left_parts[i] < right_parts[i] ? -1 : 1;
    return 0;
}

static struct holder holder_of(const struct model_block *block, unsigned parts)
{
    return (struct holder){
        .pool = parts & BY_POOL ? block->pool : NULL,
        .tag = parts & BY_TAG ? block->tag : NULL,
        .stack = parts & BY_STACK ? block->stack : NULL,
        .stream = parts & BY_STREAM ? block->stream : 0,
        .stream_name = parts & BY_STREAM ? block->stream_name : NULL,
        .size = parts & BY_SIZE ? block->size : 0,
        .oldest = block->time,
    };
}

struct holder *view_holders(const struct model *model, unsigned parts, size_t *count)
{
    struct trace_map places = {0};
    struct holder *holders = NULL;
    size_t room = 0;
    *count = 0;
    for (size_t i = 0; i < model->block_count; i++) {
        const struct model_block *block = &model->blocks[i];
        if (block->state != MODEL_LIVE)
            continue;
        struct holder mine = holder_of(block, parts);
        uint64_t who = trace_map_hash(mine.pool ? mine.pool->number + 1ULL : 0, mine.tag ? mine.tag->number + 1ULL : 0);
        uint64_t what = trace_map_hash(mine.stream, mine.size) + (mine.stack ? mine.stack->number + 1ULL : 0);
        what = mine.stream_name ? trace_map_hash(what, mine.stream_name->number) : what;
        bool is_new;
        uint32_t *place = trace_map_add(&places, who, what, &is_new);
        if (is_new || !holders) {
            *place = (uint32_t)*count;
            holders = must_grow(holders, *count, &room, sizeof holders[0]);
            holders[(*count)++] = mine;
        }
        struct holder *holder = &holders[*place];
        holder->blocks++;
        holder->bytes += block->size;
        holder->given += block->given;
        holder->oldest = block->time < holder->oldest ? block->time : holder->oldest;
    }
    trace_map_free(&places);
    if (*count)
        qsort(holders, *count, sizeof holders[0], by_bytes);
    return holders;
}
