/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top/view.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_WIDTH_MAX 24 /* of a column of names */
#define LINE_SIZE 1024    /* bytes of any line */

/* Keys -----------------------------------------------------------------------------------------------------------------------------------
 */

/* In the order of the footer, which shows those with a label: first what one has to know. */
static const struct {
    int key;
    int sort; /* an enum top_sort, or -1 */
    const char *name, *label, *help;
} keys[] = {
    {'h', -1, "h", "help", "this text; h, ? or any other key leaves it"},
    {'q', -1, "q", "quit", "quit"},
    {'r', TOP_BY_RESERVED, "r", "reserved", "order by reserved memory"},
    {'l', TOP_BY_LIVE, "l", "live", "order by live memory: what the program uses"},
    {'i', TOP_BY_IDLE, "i", "idle", "order by idle memory: reserved, and used by nobody"},
    {'a', TOP_BY_RATE, "a", "allocations", "order by allocations a second"},
    {'p', TOP_BY_PID, "p", "pid", "order by process number"},
    {TOP_KEY_ENTER, -1, "enter", "now", "look now"},
    {TOP_KEY_UP, -1, "arrows", NULL, "move through the list, as do page up, page down, home and end"},
};
#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static const char *sort_label(enum top_sort sort)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (keys[i].sort == (int)sort)
            return keys[i].label;
    return "";
}

/* Where everything is drawn. */
struct screen {
    const struct top_view *view;
    const struct top_model *model;
    top_put *put;
    void *data;
};

/* Draws as much of the text as the screen has room for. Returns the column behind all of it. */
static int put_text(const struct screen *screen, int row, int column, enum style style, const char *text)
{
    char fitting[LINE_SIZE];
    int room = screen->view->width - column;
    if (room > 0 && text[0] && row < screen->view->height) {
        snprintf(fitting, sizeof(fitting), "%.*s", room, text);
        screen->put(screen->data, row, column, style, fitting);
    }
    return column + (int)strlen(text);
}

/* Columns --------------------------------------------------------------------------------------------------------------------------------
 */

enum column {
    COLUMN_PID,
    COLUMN_USER,
    COLUMN_PROGRAM,
    COLUMN_DEVICE,
    COLUMN_POOL,
    COLUMN_RESERVED,
    COLUMN_LIVE,
    COLUMN_CACHED,
    COLUMN_IDLE,
    COLUMN_RATE,
    COLUMN_RESCUES,
    COLUMN_ASKED,
    COLUMN_GOT,
    COLUMN_WAS_ASKED,
    COLUMN_GAVE,
    COLUMN_USED_AGAIN,
    COLUMN_UNUSED,
    COLUMN_MISSED,
    COLUMN_AHEAD,
    COLUMN_COUNT
};

/* What is in a column: something of its own, or a figure at an offset in the pool, in the device, or in what came of the pool's automatic
   threshold. */
enum content { CONTENT_OWN, CONTENT_POOL_SIZE, CONTENT_DEVICE_COUNT, CONTENT_DEVICE_SIZE, CONTENT_AUDIT_SIZE };

static const struct {
    const char *title;
    bool is_number;
    int width; /* at least, so that the columns do not move whenever a figure gets another digit */
    int sort;  /* the enum top_sort of this column, or -1 */
    enum content content;
    size_t offset;
} columns[COLUMN_COUNT] = {
    [COLUMN_PID] = {"PID", true, 7, TOP_BY_PID, CONTENT_OWN, 0},
    [COLUMN_USER] = {"USER", false, 4, -1, CONTENT_OWN, 0},
    [COLUMN_PROGRAM] = {"PROGRAM", false, 7, -1, CONTENT_OWN, 0},
    [COLUMN_DEVICE] = {"DEVICE", true, 6, -1, CONTENT_OWN, 0},
    [COLUMN_POOL] = {"POOL", false, 4, -1, CONTENT_OWN, 0},
    [COLUMN_RESERVED] = {"RESERVED", true, 8, TOP_BY_RESERVED, CONTENT_POOL_SIZE, offsetof(process_pool, reserved)},
    [COLUMN_LIVE] = {"LIVE", true, 8, TOP_BY_LIVE, CONTENT_POOL_SIZE, offsetof(process_pool, live)},
    [COLUMN_CACHED] = {"CACHED", true, 8, -1, CONTENT_POOL_SIZE, offsetof(process_pool, cached)},
    [COLUMN_IDLE] = {"IDLE", true, 8, TOP_BY_IDLE, CONTENT_POOL_SIZE, offsetof(process_pool, idle)},
    [COLUMN_RATE] = {"ALLOC/S", true, 9, TOP_BY_RATE, CONTENT_OWN, 0},
    [COLUMN_RESCUES] = {"RESCUES", true, 7, -1, CONTENT_OWN, 0},
    [COLUMN_ASKED] = {"ASKED", true, 5, -1, CONTENT_DEVICE_COUNT, offsetof(process_device, asks_sent)},
    [COLUMN_GOT] = {"GOT", true, 8, -1, CONTENT_DEVICE_SIZE, offsetof(process_device, bytes_got)},
    [COLUMN_WAS_ASKED] = {"WAS ASKED", true, 9, -1, CONTENT_DEVICE_COUNT, offsetof(process_device, asks_received)},
    [COLUMN_GAVE] = {"GAVE", true, 8, -1, CONTENT_DEVICE_SIZE, offsetof(process_device, bytes_given)},
    [COLUMN_USED_AGAIN] = {"USED AGAIN", true, 10, -1, CONTENT_AUDIT_SIZE, offsetof(process_audit, kept_used)},
    [COLUMN_UNUSED] = {"UNUSED", true, 8, -1, CONTENT_AUDIT_SIZE, offsetof(process_audit, kept_unused)},
    [COLUMN_MISSED] = {"MISSED", true, 8, -1, CONTENT_AUDIT_SIZE, offsetof(process_audit, given_missed)},
    [COLUMN_AHEAD] = {"AHEAD", true, 8, -1, CONTENT_AUDIT_SIZE, offsetof(process_audit, grown_ahead)},
};

/* Where there is not room for all, these are left out from the end. */
static const enum column ranks[COLUMN_COUNT] = {
    COLUMN_PID,    COLUMN_RESERVED, COLUMN_POOL,    COLUMN_LIVE,      COLUMN_IDLE, COLUMN_PROGRAM, COLUMN_DEVICE, COLUMN_RATE,
    COLUMN_CACHED, COLUMN_USER,     COLUMN_RESCUES, COLUMN_WAS_ASKED, COLUMN_GAVE, COLUMN_ASKED,   COLUMN_GOT,
    COLUMN_MISSED, COLUMN_UNUSED,   COLUMN_USED_AGAIN, COLUMN_AHEAD,
};

/* One pool of a process, or a process without any to be shown. */
struct row {
    const struct top_process *process;
    const process_pool *pool; /* or NULL */
    bool tells_process;       /* in the columns of the process, or those of the device; other rows leave them empty */
    bool tells_device;
};

static size_t rows_of(const struct top_process *process)
{
    return process->now.pool_count > 0 ? process->now.pool_count : 1;
}

static size_t count_rows(const struct top_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        count += rows_of(&model->processes[i]);
    return count;
}

static struct row row_of(const struct top_process *process, size_t nth, bool is_first_on_screen)
{
    struct row row = {.process = process, .tells_process = nth == 0 || is_first_on_screen, .tells_device = true};
    if (process->now.pool_count == 0)
        return row;
    row.pool = &process->now.pools[nth];
    for (size_t i = 0; i < nth && !is_first_on_screen; i++)
        if (process->now.pools[i].device == row.pool->device)
            row.tells_device = false;
    return row;
}

static const char *pool_name(const process_pool *pool, struct text *text)
{
    if (!(pool->flags & WIRE_POOL_PRIVATE))
        return pool->name;
    snprintf(text->chars, sizeof(text->chars), "%.20s (private)", pool->name);
    return text->chars;
}

/* NULL: its threshold is none that Weir finds. Private pools of one name have one audit. */
static const process_audit *audit_of(const struct top_process *process, const process_pool *pool)
{
    for (size_t i = 0; i < process->now.audit_count; i++) {
        const process_audit *audit = &process->now.audits[i];
        bool is_private = audit->flags & WIRE_POOL_PRIVATE;
        if (audit->device == pool->device && is_private == !!(pool->flags & WIRE_POOL_PRIVATE) && strcmp(audit->name, pool->name) == 0)
            return audit->flags & WIRE_POOL_AUTO ? audit : NULL;
    }
    return NULL;
}

static const void *object_of(enum content content, const struct row *row, const process_device *device)
{
    if (content == CONTENT_AUDIT_SIZE)
        return audit_of(row->process, row->pool);
    return content == CONTENT_POOL_SIZE ? (const void *)row->pool : (const void *)device;
}

/* The text in a column of a row that has a pool. */
static const char *cell_text(const struct top_model *model, enum column column, const struct row *row, struct text *text)
{
    const struct top_process *process = row->process;
    const process_device *device = row->tells_device ? process_device_of(&process->now, row->pool) : NULL;
    const char *object = object_of(columns[column].content, row, device);
    double rate = process->rates[row->pool - process->now.pools];
    uint64_t value = 0;
    switch (column) {
    case COLUMN_PID:
        return row->tells_process ? process->name : "";
    case COLUMN_USER:
        return row->tells_process ? process->user : "";
    case COLUMN_PROGRAM:
        return row->tells_process ? process->now.program : "";
    case COLUMN_DEVICE:
        return row->tells_device ? format_count(text, top_model_device(model, process, row->pool)) : "";
    case COLUMN_POOL:
        return pool_name(row->pool, text);
    case COLUMN_RATE:
        return rate < 0 ? "" : format_count(text, (uint64_t)(rate + 0.5));
    case COLUMN_RESCUES:
        return device ? format_count(text, process_rescues(device)) : "";
    default:
        if (!object)
            return "";
        memcpy(&value, object + columns[column].offset, sizeof(value));
        return columns[column].content == CONTENT_DEVICE_COUNT ? format_count(text, value) : format_size(text, value);
    }
}

/* The columns that each takes, without the blank behind it; 0: it is left out. */
struct layout {
    int widths[COLUMN_COUNT];
};

/* As wide as its title and everything in it, within reason. */
static int width_for(enum column column, const struct top_model *model)
{
    struct text text;
    int width = columns[column].width;
    for (size_t i = 0; i < model->process_count; i++) {
        const struct top_process *process = &model->processes[i];
        int name = column == COLUMN_PID ? (int)strlen(process->name) : 0;
        width = name > width ? name : width;
        for (size_t j = 0; j < process->now.pool_count; j++) {
            struct row row = {.process = process, .pool = &process->now.pools[j], .tells_process = true, .tells_device = true};
            int len = (int)strlen(cell_text(model, column, &row, &text));
            width = len > width ? len : width;
        }
    }
    return width < TEXT_WIDTH_MAX ? width : TEXT_WIDTH_MAX;
}

static bool has_audits(const struct top_model *model)
{
    for (size_t i = 0; i < model->process_count; i++)
        for (size_t j = 0; j < model->processes[i].now.pool_count; j++)
            if (audit_of(&model->processes[i], &model->processes[i].now.pools[j]))
                return true;
    return false;
}

static struct layout lay_out(const struct top_view *view, const struct top_model *model)
{
    struct layout layout = {{0}};
    int room = view->width + 1;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        int width = width_for(ranks[i], model);
        bool is_of_audit = columns[ranks[i]].content == CONTENT_AUDIT_SIZE;
        if ((ranks[i] == COLUMN_DEVICE && model->device_count < 2) || (is_of_audit && !has_audits(model)))
            continue;
        if (room < width + 1)
            break;
        layout.widths[ranks[i]] = width;
        room -= width + 1;
    }
    return layout;
}

/* The list -------------------------------------------------------------------------------------------------------------------------------
 */

static void draw_heading(const struct screen *screen, const struct layout *layout, int line)
{
    int at = 0;
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        int width = layout->widths[column];
        int pad = columns[column].is_number ? width - (int)strlen(columns[column].title) : 0;
        if (width == 0)
            continue;
        put_text(screen, line, at + pad, columns[column].sort == (int)screen->model->sort ? STYLE_STRONG : STYLE_FAINT,
                 columns[column].title);
        at += width + 1;
    }
}

/* A process that has no figures: why. */
static void draw_note(const struct screen *screen, const struct row *row, const struct layout *layout, int line)
{
    const struct top_process *process = row->process;
    const char *program = process->now.program;
    char text[LINE_SIZE];
    snprintf(text, sizeof(text), "%*s %s%s%s", layout->widths[COLUMN_PID], process->name, program, program[0] ? ": " : "",
             process->is_gone        ? "gone"
             : process->has_answered ? "no pools"
                                     : process->now.reason);
    put_text(screen, line, 0, process->has_answered ? STYLE_FAINT : STYLE_BAD, text);
}

static void draw_pool(const struct screen *screen, const struct row *row, const struct layout *layout, int line)
{
    int at = 0;
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        int width = layout->widths[column];
        struct text text;
        char cell[LINE_SIZE];
        if (width == 0)
            continue;
        snprintf(cell, sizeof(cell), columns[column].is_number ? "%*.*s" : "%-*.*s", width, width,
                 cell_text(screen->model, column, row, &text));
        put_text(screen, line, at, STYLE_PLAIN, cell);
        at += width + 1;
    }
}

static void draw_rows(const struct screen *screen, const struct layout *layout, int line, int end)
{
    const struct top_model *model = screen->model;
    size_t skip = screen->view->first;
    bool is_first = true;
    for (size_t i = 0; i < model->process_count && line < end; i++) {
        const struct top_process *process = &model->processes[i];
        size_t count = rows_of(process), nth = skip < count ? skip : count;
        skip -= nth;
        for (; nth < count && line < end; nth++, line++) {
            struct row row = row_of(process, nth, is_first);
            is_first = false;
            (row.pool ? draw_pool : draw_note)(screen, &row, layout, line);
        }
    }
}

/* Around the list ------------------------------------------------------------------------------------------------------------------------
 */

static void draw_title(const struct screen *screen, size_t rows, size_t visible)
{
    const struct top_view *view = screen->view;
    size_t count = screen->model->process_count;
    char text[LINE_SIZE];
    int at = put_text(screen, 0, 0, STYLE_STRONG, "weir top");
    snprintf(text, sizeof(text), ": %zu process%s by %s, every %g s", count, count == 1 ? "" : "es", sort_label(screen->model->sort),
             view->interval);
    at = put_text(screen, 0, at, STYLE_PLAIN, text);
    snprintf(text, sizeof(text), ", rows %zu to %zu of %zu", view->first + 1, view->first + visible, rows);
    if (visible < rows && visible > 0 && !view->is_helping)
        put_text(screen, 0, at, STYLE_PLAIN, text);
}

/* As many clauses as there is room for: part of a figure would be another one. */
static void draw_device(const struct screen *screen, size_t nth, int line)
{
    const struct top_device *device = &screen->model->devices[nth];
    size_t width = (size_t)screen->view->width, end = width;
    uint64_t used = device->memory > device->memory_free ? device->memory - device->memory_free : 0;
    char text[LINE_SIZE];
    snprintf(text, sizeof(text), "device %zu: %s used, %s free; here reserved %s, live %s, idle %s  %s", nth, SIZE_TEXT(used),
             SIZE_TEXT(device->memory_free), SIZE_TEXT(device->sums.reserved), SIZE_TEXT(device->sums.live), SIZE_TEXT(device->sums.idle),
             device->uuid);
    while (strlen(text) > width && end > 0 && !strchr(",;", text[end]) && strncmp(text + end, "  ", 2) != 0)
        end--;
    if (strlen(text) > width && end > 0)
        text[end] = '\0';
    put_text(screen, line, 0, STYLE_PLAIN, text);
}

/* Keys that do not fit are in the help. */
static void draw_footer(const struct screen *screen, int line)
{
    int at = 0;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (!keys[i].label || at + (int)(strlen(keys[i].name) + 1 + strlen(keys[i].label)) > screen->view->width)
            continue;
        at = put_text(screen, line, at, STYLE_STRONG, keys[i].name) + 1;
        at = put_text(screen, line, at, STYLE_PLAIN, keys[i].label) + 2;
    }
}

static void draw_lines(const struct screen *screen, const char *const *lines, int line, int end)
{
    for (; *lines && line < end; lines++)
        put_text(screen, line++, 0, STYLE_PLAIN, *lines);
}

static void draw_help(const struct screen *screen, int line, int end)
{
    static const char *const notes[] = {
        /* Lines that a terminal of 80 columns has room for. */
        "",
        "RESERVED is what a pool holds of its device, LIVE what the program uses of it,",
        "CACHED what stream caches keep, IDLE what nobody uses, ALLOC/S the requests that",
        "were served a second since the look before. The others belong to the process and",
        "the device: requests that recovery saved, how often neighbours were asked and",
        "what they gave, how often this process was asked and what it gave. Of pools with",
        "release_threshold: auto: idle memory that was kept and USED AGAIN, or UNUSED,",
        "what was given back and MISSED soon after, what was grown AHEAD of demand.",
        "More in weir(1).",
        NULL,
    };
    for (size_t i = 0; i < KEY_COUNT && line < end; i++, line++) {
        int at = put_text(screen, line, 0, STYLE_STRONG, keys[i].name);
        put_text(screen, line, at < 8 ? 8 : at + 2, STYLE_PLAIN, keys[i].help);
    }
    draw_lines(screen, notes, line, end);
}

static void draw_nobody(const struct screen *screen, int line, int end)
{
    static const char *const asking[] = {"Asking...", NULL};
    static const char *const nobody[] = {
        "No process can be seen here.",
        "",
        "Processes with control: true in their policy are shown: those of this user,",
        "or all to root. weir(1) says under FILES where they are looked for.",
        NULL,
    };
    draw_lines(screen, screen->model->looked_at ? nobody : asking, line, end);
}

/* A small screen has no room for everything: the footer goes first, then the devices, then the heading. */
void top_view_draw(struct top_view *view, const struct top_model *model, top_put *put, void *data)
{
    struct screen screen = {view, model, put, data};
    int footer = view->height >= 8, heading = view->height >= 3, line = 1, end = view->height - footer;
    int devices = view->height < 6 ? 0 : model->device_count < (size_t)(view->height / 3) ? (int)model->device_count : view->height / 3;
    int first = 1 + devices + heading;
    size_t rows = count_rows(model), visible = end > first ? (size_t)(end - first) : 0;
    visible = visible < rows ? visible : rows;
    if (view->first > rows - visible)
        view->first = rows - visible;
    draw_title(&screen, rows, visible);
    for (int i = 0; i < devices; i++)
        draw_device(&screen, (size_t)i, line++);
    if (footer)
        draw_footer(&screen, view->height - 1);
    if (view->is_helping) {
        draw_help(&screen, line, end);
    } else if (rows == 0) {
        draw_nobody(&screen, line, end);
    } else {
        struct layout layout = lay_out(view, model);
        if (heading)
            draw_heading(&screen, &layout, line++);
        draw_rows(&screen, &layout, line, end);
    }
}

/* What keys do ---------------------------------------------------------------------------------------------------------------------------
 */

/* Drawing corrects what goes beyond the end. */
static void scroll(struct top_view *view, const struct top_model *model, int key)
{
    size_t rows = count_rows(model), page = view->height > 8 ? (size_t)view->height / 2 : 1;
    size_t step = key == TOP_KEY_PAGE_UP || key == TOP_KEY_PAGE_DOWN ? page : key == TOP_KEY_HOME || key == TOP_KEY_END ? rows : 1;
    if (key == TOP_KEY_UP || key == TOP_KEY_PAGE_UP || key == TOP_KEY_HOME)
        view->first -= step < view->first ? step : view->first;
    else
        view->first += step < rows ? step : rows;
}

enum top_action top_view_key(struct top_view *view, struct top_model *model, int key)
{
    if (key == 'q')
        return TOP_QUIT;
    if (view->is_helping || key == 'h' || key == '?') {
        view->is_helping = !view->is_helping;
        return TOP_DRAW;
    }
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].key == key && keys[i].sort >= 0) {
            top_model_sort(model, (enum top_sort)keys[i].sort);
            return TOP_DRAW;
        }
    }
    if (key == TOP_KEY_ENTER)
        return TOP_LOOK;
    if (key < TOP_KEY_UP || key > TOP_KEY_END)
        return TOP_NOTHING;
    scroll(view, model, key);
    return TOP_DRAW;
}
