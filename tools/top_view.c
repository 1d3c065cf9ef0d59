/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top_view.h"

#include <stdio.h>
#include <string.h>

#define BAR_MIN 5         /* columns of a history, below which there is none */
#define BAR_MAX 60        /* and above which it tells nothing more */
#define GAUGE_WIDTH 20    /* of how full a device is */
#define TEXT_WIDTH_MAX 24 /* of a column of names */
#define LINE_SIZE 1024    /* bytes of any line */

/* Keys ----------------------------------------------------------------------------------------------------------------------------------- */

/* In the order of the footer, which shows those with a label: first what one has to know. */
static const struct {
    int key;
    int sort; /* an enum top_sort, or -1 */
    const char *name, *label, *help;
} keys[] = {
    {'h', -1, "h", "help", "this text; h, ? or any other key leaves it"},
    {'q', -1, "q", "quit", "quit"},
    {'r', TOP_BY_RESERVED, "r", "reserved", "order by reserved memory; the same key again turns any order round"},
    {'l', TOP_BY_LIVE, "l", "live", "order by live memory: what the program uses"},
    {'c', TOP_BY_CACHED, "c", "cached", "order by cached memory: freed blocks that stream caches keep"},
    {'i', TOP_BY_IDLE, "i", "idle", "order by idle memory: reserved, and used by nobody"},
    {'p', TOP_BY_PID, "p", "pid", "order by process number"},
    {'n', TOP_BY_NAME, "n", "name", "order by the name of the program"},
    {' ', -1, "space", "pause", "pause, and go on"},
    {TOP_KEY_ENTER, -1, "enter", "now", "look now, also in a pause"},
    {'+', -1, "+", "slower", "look less often"},
    {'-', -1, "-", "faster", "look more often"},
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

/* Text ----------------------------------------------------------------------------------------------------------------------------------- */

/* Where everything is drawn. */
struct screen {
    const struct top_view *view;
    top_put *put;
    void *data;
};

/* Draws as much of the text as the screen has room for. Returns the column behind all of it. */
static int put_text(const struct screen *screen, int row, int column, enum style style, const char *text)
{
    char fitting[LINE_SIZE];
    size_t len = 0;
    int end = column;
    for (size_t i = 0; text[i]; i++) {
        end += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (end <= screen->view->width && len + 1 < sizeof(fitting))
            fitting[len++] = text[i];
    }
    fitting[len] = '\0';
    if (len > 0 && row < screen->view->height)
        screen->put(screen->data, row, column, style, fitting);
    return end;
}

/* Rows of the list ----------------------------------------------------------------------------------------------------------------------- */

/* One pool of a process, or a process without any to be shown. */
struct row {
    const struct top_process *process;
    const struct top_pool *pool; /* or NULL */
    bool tells_process;          /* in the columns of the process, or those of the device; other rows leave them empty */
    bool tells_device;
};

static size_t rows_of(const struct top_process *process)
{
    return process->has_answered && process->pool_count > 0 ? process->pool_count : 1;
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
    if (!process->has_answered || process->pool_count == 0)
        return row;
    row.pool = process->sorted[nth];
    for (size_t i = 0; i < nth && !is_first_on_screen; i++)
        if (process->sorted[i]->device == row.pool->device)
            row.tells_device = false;
    return row;
}

/* Columns -------------------------------------------------------------------------------------------------------------------------------- */

enum column {
    COLUMN_PID,
    COLUMN_USER,
    COLUMN_PROGRAM,
    COLUMN_AGE,
    COLUMN_DEVICE,
    COLUMN_POOL,
    COLUMN_RESERVED,
    COLUMN_RESERVED_BAR,
    COLUMN_LIVE,
    COLUMN_LIVE_BAR,
    COLUMN_CACHED,
    COLUMN_IDLE,
    COLUMN_RESCUES,
    COLUMN_ASKED,
    COLUMN_GOT,
    COLUMN_WAS_ASKED,
    COLUMN_GAVE,
    COLUMN_COUNT
};

static const struct {
    const char *title;
    bool is_number;
    int width; /* at least, so that the columns do not move whenever a figure gets another digit */
    int sort;  /* the enum top_sort of this column, or -1 */
} columns[COLUMN_COUNT] = {
    [COLUMN_PID] = {"PID", true, 7, TOP_BY_PID},
    [COLUMN_USER] = {"USER", false, 4, -1},
    [COLUMN_PROGRAM] = {"PROGRAM", false, 7, TOP_BY_NAME},
    [COLUMN_AGE] = {"AGE", true, 6, -1},
    [COLUMN_DEVICE] = {"DEVICE", true, 6, -1},
    [COLUMN_POOL] = {"POOL", false, 4, -1},
    [COLUMN_RESERVED] = {"RESERVED", true, 8, TOP_BY_RESERVED},
    [COLUMN_RESERVED_BAR] = {"", false, BAR_MIN, -1},
    [COLUMN_LIVE] = {"LIVE", true, 8, TOP_BY_LIVE},
    [COLUMN_LIVE_BAR] = {"", false, BAR_MIN, -1},
    [COLUMN_CACHED] = {"CACHED", true, 8, TOP_BY_CACHED},
    [COLUMN_IDLE] = {"IDLE", true, 8, TOP_BY_IDLE},
    [COLUMN_RESCUES] = {"RESCUES", true, 7, -1},
    [COLUMN_ASKED] = {"ASKED", true, 5, -1},
    [COLUMN_GOT] = {"GOT", true, 8, -1},
    [COLUMN_WAS_ASKED] = {"WAS ASKED", true, 9, -1},
    [COLUMN_GAVE] = {"GAVE", true, 8, -1},
};

/* Where there is not room for all, these are left out from the end. The bars come and go together. */
static const enum column ranks[COLUMN_COUNT] = {
    COLUMN_PID,     COLUMN_RESERVED,     COLUMN_POOL,     COLUMN_LIVE,   COLUMN_IDLE,    COLUMN_CACHED,
    COLUMN_PROGRAM, COLUMN_RESERVED_BAR, COLUMN_LIVE_BAR, COLUMN_DEVICE, COLUMN_RESCUES, COLUMN_WAS_ASKED,
    COLUMN_GAVE,    COLUMN_ASKED,        COLUMN_GOT,      COLUMN_AGE,    COLUMN_USER,
};

static bool is_bar(enum column column)
{
    return column == COLUMN_RESERVED_BAR || column == COLUMN_LIVE_BAR;
}

/* The text in a column of a row that has a pool; bars are drawn apart. */
static const char *cell_text(enum column column, const struct row *row, struct text *text)
{
    const struct top_process *process = row->process;
    const process_pool *pool = &row->pool->now;
    const struct top_deeds *deeds =
        row->tells_device && row->pool->device < process->device_count ? &process->deeds[row->pool->device] : NULL;
    switch (column) {
    case COLUMN_PID:
        return row->tells_process ? process->name : "";
    case COLUMN_USER:
        return row->tells_process ? process->user : "";
    case COLUMN_PROGRAM:
        return row->tells_process ? process->program : "";
    case COLUMN_AGE:
        return row->tells_process ? process_age(process->age_ms, text) : "";
    case COLUMN_DEVICE:
        return row->tells_device ? format_count(text, row->pool->device) : "";
    case COLUMN_POOL:
        if (!(pool->flags & WIRE_POOL_PRIVATE))
            return pool->name;
        snprintf(text->chars, sizeof(text->chars), "%.20s (private)", pool->name);
        return text->chars;
    case COLUMN_RESERVED:
        return format_size(text, pool->reserved);
    case COLUMN_LIVE:
        return format_size(text, pool->live);
    case COLUMN_CACHED:
        return format_size(text, pool->cached);
    case COLUMN_IDLE:
        return format_size(text, pool->idle);
    case COLUMN_RESCUES:
        return deeds ? format_count(text, deeds->rescues) : "";
    case COLUMN_ASKED:
        return deeds ? format_count(text, deeds->asked) : "";
    case COLUMN_GOT:
        return deeds ? format_size(text, deeds->got) : "";
    case COLUMN_WAS_ASKED:
        return deeds ? format_count(text, deeds->was_asked) : "";
    case COLUMN_GAVE:
        return deeds ? format_size(text, deeds->gave) : "";
    default:
        return "";
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
        for (size_t j = 0; process->has_answered && j < process->pool_count; j++) {
            struct row row = {.process = process, .pool = process->sorted[j], .tells_process = true, .tells_device = true};
            int len = (int)strlen(cell_text(column, &row, &text));
            width = len > width ? len : width;
        }
    }
    return width < TEXT_WIDTH_MAX ? width : TEXT_WIDTH_MAX;
}

static struct layout lay_out(const struct top_view *view, const struct top_model *model)
{
    struct layout layout = {{0}};
    int room = view->width + 1;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        enum column column = ranks[i];
        int width = width_for(column, model);
        if (column == COLUMN_DEVICE && model->device_count < 2)
            continue;
        /* Half of the bars would look like a mistake. */
        if (room < (column == COLUMN_RESERVED_BAR ? 2 : 1) * (width + 1))
            break;
        layout.widths[column] = width;
        room -= width + 1;
    }
    if (layout.widths[COLUMN_LIVE_BAR] > 0) {
        int bar = BAR_MIN + room / 2;
        layout.widths[COLUMN_RESERVED_BAR] = layout.widths[COLUMN_LIVE_BAR] = bar < BAR_MAX ? bar : BAR_MAX;
    }
    return layout;
}

/* History -------------------------------------------------------------------------------------------------------------------------------- */

static const char *level(bool is_utf8, uint64_t value, uint64_t max)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", "_", ".", "-", "=", "+", "*", "%", "#"};
    int eighths = max ? (int)((double)value / (double)max * 8) : 0;
    if (value > 0 && eighths == 0)
        eighths = 1;
    return (is_utf8 ? blocks : letters)[eighths < 8 ? eighths : 8];
}

/* The last `width` looks at the pool, the latest to the right; full height is the most that was reserved in them. */
static void bar_text(const struct top_view *view, const struct top_pool *pool, const uint64_t *values, int width, char text[LINE_SIZE])
{
    uint64_t max = 0;
    int known = pool->looks < (uint64_t)width ? (int)pool->looks : width;
    for (int ago = 0; ago < known; ago++) {
        size_t at = (pool->looks - 1 - (uint64_t)ago) % TOP_HISTORY;
        max = pool->reserved[at] > max ? pool->reserved[at] : max;
    }
    int len = snprintf(text, LINE_SIZE, "%*s", width - known, "");
    for (int ago = known - 1; ago >= 0; ago--)
        len += snprintf(text + len, (size_t)(LINE_SIZE - len), "%s",
                        level(view->is_utf8, values[(pool->looks - 1 - (uint64_t)ago) % TOP_HISTORY], max));
}

/* The list ------------------------------------------------------------------------------------------------------------------------------- */

static void draw_heading(const struct screen *screen, const struct top_model *model, const struct layout *layout, int line)
{
    int at = 0;
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        int width = layout->widths[column];
        if (width == 0)
            continue;
        int pad = columns[column].is_number ? width - (int)strlen(columns[column].title) : 0;
        put_text(screen, line, at + pad, columns[column].sort == (int)model->sort ? STYLE_STRONG : STYLE_FAINT, columns[column].title);
        at += width + 1;
    }
}

/* A process that has no figures: why. */
static void draw_note(const struct screen *screen, const struct row *row, const struct layout *layout, int line)
{
    const struct top_process *process = row->process;
    char text[LINE_SIZE];
    const char *why = process->is_gone ? "gone" : process->has_answered ? "no pools" : process->reason;
    snprintf(text, sizeof(text), "%*s %s%s%s", layout->widths[COLUMN_PID], process->name, process->program, process->program[0] ? ": " : "",
             why);
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
        if (is_bar(column))
            bar_text(screen->view, row->pool, column == COLUMN_LIVE_BAR ? row->pool->live : row->pool->reserved, width, cell);
        else
            snprintf(cell, sizeof(cell), columns[column].is_number ? "%*.*s" : "%-*.*s", width, width, cell_text(column, row, &text));
        put_text(screen, line, at, is_bar(column) ? STYLE_GOOD : STYLE_PLAIN, cell);
        at += width + 1;
    }
}

static void draw_rows(const struct screen *screen, const struct top_model *model, const struct layout *layout, int line, int end)
{
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

/* Around the list ------------------------------------------------------------------------------------------------------------------------ */

static void draw_title(const struct screen *screen, const struct top_model *model, size_t rows, size_t visible)
{
    const struct top_view *view = screen->view;
    char text[LINE_SIZE];
    int at = put_text(screen, 0, 0, STYLE_STRONG, "weir top");
    snprintf(text, sizeof(text), ": %zu process%s by %s%s, every %g s", model->process_count, model->process_count == 1 ? "" : "es",
             model->is_reversed ? "reversed " : "", sort_label(model->sort), view->interval);
    at = put_text(screen, 0, at, STYLE_PLAIN, text);
    if (view->is_paused)
        at = put_text(screen, 0, at, STYLE_BAD, ", paused");
    snprintf(text, sizeof(text), ", rows %zu to %zu of %zu", view->first + 1, view->first + visible, rows);
    if (visible < rows && visible > 0 && !view->is_helping)
        put_text(screen, 0, at, STYLE_PLAIN, text);
}

/* As many clauses as there is room for: part of a figure would be another one. */
static void put_clauses(const struct screen *screen, int line, char *text)
{
    size_t width = (size_t)screen->view->width, end = width;
    while (strlen(text) > width && end > 0 && !strchr(",;", text[end]) && strncmp(text + end, "  ", 2) != 0)
        end--;
    if (strlen(text) > width && end > 0)
        text[end] = '\0';
    put_text(screen, line, 0, STYLE_PLAIN, text);
}

static void draw_device(const struct screen *screen, const struct top_model *model, size_t nth, int line)
{
    const struct top_device *device = &model->devices[nth];
    uint64_t used = device->memory > device->memory_free ? device->memory - device->memory_free : 0;
    int full = device->memory ? (int)((double)used / (double)device->memory * GAUGE_WIDTH + 0.5) : 0;
    char text[LINE_SIZE], gauge[GAUGE_WIDTH + 1];
    memset(gauge, '.', GAUGE_WIDTH);
    memset(gauge, '#', (size_t)(full < GAUGE_WIDTH ? full : GAUGE_WIDTH));
    gauge[GAUGE_WIDTH] = '\0';
    snprintf(text, sizeof(text), "device %zu: [%s] %s used, %s free; here reserved %s, live %s  %s", nth, gauge, SIZE_TEXT(used),
             SIZE_TEXT(device->memory_free), SIZE_TEXT(device->sums.reserved), SIZE_TEXT(device->sums.live), device->uuid);
    put_clauses(screen, line, text);
}

static void draw_sums(const struct screen *screen, const struct top_model *model, int line)
{
    const struct top_sums *sums = &model->sums;
    const struct top_deeds *deeds = &model->deeds;
    char text[LINE_SIZE];
    snprintf(text, sizeof(text), "all: reserved %s, live %s, cached %s, idle %s; rescues %s, asked %s, got %s, gave %s",
             SIZE_TEXT(sums->reserved), SIZE_TEXT(sums->live), SIZE_TEXT(sums->cached), SIZE_TEXT(sums->idle), COUNT_TEXT(deeds->rescues),
             COUNT_TEXT(deeds->asked), SIZE_TEXT(deeds->got), SIZE_TEXT(deeds->gave));
    put_clauses(screen, line, text);
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
        "CACHED what stream caches keep, IDLE what nobody uses. The bars show the last",
        "looks; their full height is the most that was reserved in that time. The others",
        "belong to the process and the device: requests that recovery saved, how often",
        "neighbours were asked and what they gave, how often this process was asked and",
        "what it gave. More in weir(1).",
        NULL,
    };
    for (size_t i = 0; i < KEY_COUNT && line < end; i++, line++) {
        int at = put_text(screen, line, 0, STYLE_STRONG, keys[i].name);
        put_text(screen, line, at < 8 ? 8 : at + 2, STYLE_PLAIN, keys[i].help);
    }
    draw_lines(screen, notes, line, end);
}

static void draw_nobody(const struct screen *screen, const struct top_model *model, int line, int end)
{
    static const char *const asking[] = {"Asking...", NULL};
    static const char *const nobody[] = {
        "No process can be seen here.",
        "",
        "Processes with control: true in their policy are shown: those of this user,",
        "or all to root. weir(1) says under FILES where they are looked for.",
        NULL,
    };
    draw_lines(screen, model->looks == 0 ? asking : nobody, line, end);
}

/* What a small screen has no room for goes first: the footer, then the sums, then the devices, then the heading. */
struct frame {
    int devices, sums, heading; /* lines each, from the top, behind the title */
    int footer;
};

static struct frame frame_of(const struct top_view *view, const struct top_model *model)
{
    int third = view->height / 3, devices = model->device_count < (size_t)third ? (int)model->device_count : third;
    return (struct frame){
        .heading = view->height >= 3,
        .devices = view->height >= 6 ? devices : 0,
        .sums = view->height >= 7,
        .footer = view->height >= 8,
    };
}

void top_view_draw(struct top_view *view, const struct top_model *model, top_put *put, void *data)
{
    struct screen screen = {view, put, data};
    struct frame frame = frame_of(view, model);
    int line = 1, end = view->height - frame.footer;
    int first = 1 + frame.devices + frame.sums + frame.heading;
    size_t rows = count_rows(model), visible = end > first ? (size_t)(end - first) : 0;
    visible = visible < rows ? visible : rows;
    if (view->first > rows - visible)
        view->first = rows - visible;
    draw_title(&screen, model, rows, visible);
    for (int i = 0; i < frame.devices; i++)
        draw_device(&screen, model, (size_t)i, line++);
    if (frame.sums)
        draw_sums(&screen, model, line++);
    if (frame.footer)
        draw_footer(&screen, view->height - 1);
    if (view->is_helping) {
        draw_help(&screen, line, end);
    } else if (rows == 0) {
        draw_nobody(&screen, model, line, end);
    } else {
        struct layout layout = lay_out(view, model);
        if (frame.heading)
            draw_heading(&screen, model, &layout, line++);
        draw_rows(&screen, model, &layout, line, end);
    }
}

/* What keys do --------------------------------------------------------------------------------------------------------------------------- */

/* 0.1, 0.2, 0.5, 1, 2, 5, ...: the next one above or below. */
static double next_interval(double now, bool slower)
{
    static const double steps[] = {TOP_INTERVAL_MIN, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, TOP_INTERVAL_MAX};
    const size_t count = sizeof(steps) / sizeof(steps[0]);
    for (size_t i = 0; i < count; i++) {
        if (slower && steps[i] > now)
            return steps[i];
        if (!slower && steps[count - 1 - i] < now)
            return steps[count - 1 - i];
    }
    return now;
}

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
    if (key == ' ') {
        view->is_paused = !view->is_paused;
        return TOP_DRAW;
    }
    if (key == '+' || key == '=' || key == '-') {
        view->interval = next_interval(view->interval, key != '-');
        return TOP_DRAW;
    }
    if (key < TOP_KEY_UP || key > TOP_KEY_END)
        return TOP_NOTHING;
    scroll(view, model, key);
    return TOP_DRAW;
}
