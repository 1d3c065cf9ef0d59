/* SPDX-License-Identifier: MIT */
#include "tools/tune/picture.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/common/format.h"
#include "tools/trace/svg.h"

enum { LEFT = 90, RIGHT = 260, TOP = 60, PANEL = 320, GAP = 90, WIDTH = 640, TICKS = 5 };

#define STALL_LEAST UINT64_C(1000) /* ns: what waits less stands at the left edge */

#define TRIED "fill=\"#b0b0b0\""
#define REFUSING "fill=\"#cc0000\" fill-opacity=\"0.4\""
#define BEST "fill=\"#0072b2\""
#define CHOSEN "fill=\"none\" stroke=\"#d55e00\" stroke-width=\"3\""
#define IN_FORCE "fill=\"#222222\""
#define OF_CUDA "fill=\"#009e73\""

/* The axes of one panel: bytes from 0, and times by their powers of two, as stalls of microseconds and of seconds stand on one picture. */
struct axes {
    double top;
    uint64_t most, shortest, longest;
};

/* Places ------------------------------------------------------------------------------------------------------------------------------- */

/* The binary logarithm, straight between powers: the picture needs no more of one than that it rises. */
static double octaves(uint64_t ns)
{
    unsigned power = 63 - (unsigned)__builtin_clzll(ns ? ns : 1);
    uint64_t base = UINT64_C(1) << power;
    return power + (ns > base ? (double)(ns - base) / (double)base : 0);
}

static double x_of(const struct axes *axes, uint64_t stall)
{
    uint64_t ns = stall < axes->shortest ? axes->shortest : stall;
    return LEFT + (octaves(ns) - octaves(axes->shortest)) / (octaves(axes->longest) - octaves(axes->shortest)) * WIDTH;
}

static double y_of(const struct axes *axes, uint64_t bytes)
{
    return axes->top + PANEL - (axes->most ? (double)bytes / (double)axes->most * PANEL : 0);
}

/* 1, 2, 5, 10, 20, 50 ... */
static uint64_t next_tick(uint64_t tick)
{
    uint64_t power = 1;
    while (power <= tick / 10)
        power *= 10;
    return tick / power == 2 ? 5 * power : 2 * tick;
}

static void widen(struct axes *axes, const struct outcome *outcome)
{
    axes->most = outcome->peak_reserved > axes->most ? outcome->peak_reserved : axes->most;
    axes->shortest = outcome->stall < axes->shortest ? outcome->stall : axes->shortest;
    axes->longest = outcome->stall > axes->longest ? outcome->stall : axes->longest;
}

static struct axes axes_of(const struct tune *tune, const struct search *search, double top)
{
    struct axes axes = {.top = top, .shortest = UINT64_MAX};
    widen(&axes, &tune->in_force);
    widen(&axes, &tune->chosen);
    for (size_t i = 0; i < search->count; i++)
        widen(&axes, &search->trials[i].outcome);
    for (size_t i = 0; i < tune->division.count; i++)
        widen(&axes, tune->division.trials[i].outcome.is_done ? &tune->division.trials[i].outcome : &tune->chosen);
    uint64_t tick = STALL_LEAST;
    while (next_tick(tick) <= axes.shortest)
        tick = next_tick(tick);
    axes.shortest = tick;
    do
        tick = next_tick(tick);
    while (tick < axes.longest);
    axes.longest = tick;
    return axes;
}

/* Drawing ------------------------------------------------------------------------------------------------------------------------------ */

static void write_axes(FILE *out, const struct axes *axes)
{
    for (uint64_t i = 0; i <= TICKS; i++) {
        uint64_t bytes = axes->most / TICKS * i;
        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT,
                y_of(axes, bytes), LEFT + WIDTH, LEFT - 6, y_of(axes, bytes) + 4, SIZE_TEXT(bytes));
    }
    bool is_wide = axes->longest / axes->shortest > 100;
    for (uint64_t tick = axes->shortest; tick <= axes->longest; tick = next_tick(tick)) {
        bool is_power = next_tick(tick) == 2 * tick && next_tick(2 * tick) == 5 * tick;
        if (is_wide && !is_power)
            continue;
        double x = x_of(axes, tick);
        fprintf(out, "<path d=\"M%.1f %.1fv%d\" stroke=\"#eeeeee\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
                axes->top, PANEL, x, axes->top + PANEL + 16, TIME_TEXT(tick));
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">stall time</text>\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">peak</text>\n",
            LEFT + WIDTH / 2, axes->top + PANEL + 34, LEFT - 6, axes->top - 10);
}

/* A point says what it is under the pointer. */
static void write_point(FILE *out, const struct axes *axes, const struct outcome *outcome, double radius, const char *style,
                        const char *title)
{
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" %s><title>", x_of(axes, outcome->stall), y_of(axes, outcome->peak_reserved),
            radius, style);
    svg_text(out, title);
    fprintf(out, ": %s, stalls %s", SIZE_TEXT(outcome->peak_reserved), TIME_TEXT(outcome->stall));
    if (outcome->refused)
        fprintf(out, ", %s requests refused", COUNT_TEXT(outcome->refused));
    fprintf(out, "</title></circle>\n");
}

static void write_trial(FILE *out, const struct axes *axes, const struct trial *trial, double radius, const char *style)
{
    const struct candidate *candidate = &trial->candidate;
    char title[256], threshold[32], largest[32], stream[32], small[32], initial[32], most[32];
    int len = snprintf(title, sizeof title, "%s, threshold %s, initial size %s", candidate->is_arena ? "arena" : "new",
                       candidate_threshold(threshold, candidate->threshold), candidate_bytes(initial, candidate->initial));
    if (!candidate->is_arena)
        len += snprintf(title + len, sizeof title - (size_t)len, ", small below %s", candidate_bytes(small, candidate->small_below));
    if (candidate->max_size)
        len += snprintf(title + len, sizeof title - (size_t)len, ", max size %s", candidate_bytes(most, candidate->max_size));
    if (candidate->largest)
        snprintf(title + len, sizeof title - (size_t)len, ", caches up to %s, %s of a stream", candidate_bytes(largest, candidate->largest),
                 candidate_bytes(stream, candidate->per_stream));
    else
        snprintf(title + len, sizeof title - (size_t)len, ", no caches");
    write_point(out, axes, &trial->outcome, radius, style, title);
}

/* Steps, as between two policies of the front there is only the one with more memory and less time. */
static void write_front(FILE *out, const struct axes *axes, const struct search *search)
{
    size_t count;
    const struct trial **front = search_front(search, &count);
    for (size_t i = 0; i < count; i++) {
        double x = x_of(axes, front[i]->outcome.stall), y = y_of(axes, front[i]->outcome.peak_reserved);
        if (i == 0)
            fprintf(out, "<path d=\"M%.1f %.1f", x, y);
        else
            fprintf(out, "V%.1fH%.1f", y, x);
    }
    fprintf(out, "%s", count ? "\" fill=\"none\" stroke=\"#0072b2\"/>\n" : "");
    for (size_t i = 0; i < count; i++)
        write_trial(out, axes, front[i], 4, BEST);
    free(front);
}

/* One place of the legend; outcome: NULL if it is of many points. */
static void write_name(FILE *out, double y, const char *style, const char *name, const struct outcome *outcome)
{
    fprintf(out, "<circle cx=\"%d\" cy=\"%.1f\" r=\"5\" %s/><text x=\"%d\" y=\"%.1f\">", LEFT + WIDTH + 22, y - 4, style,
            LEFT + WIDTH + 36, y);
    svg_text(out, name);
    if (outcome)
        fprintf(out, ": %s, %s", SIZE_TEXT(outcome->peak_reserved), TIME_TEXT(outcome->stall));
    fprintf(out, "</text>\n");
}

static void write_panel(const struct tune *tune, const struct finding *finding, double top, FILE *out)
{
    const struct search *search = finding->search;
    const struct axes axes = axes_of(tune, search, top);
    bool is_refusing = false;
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">Pool ", LEFT, top - 24);
    svg_text(out, search->pool);
    fprintf(out, "</text>\n");
    write_axes(out, &axes);
    for (size_t i = 0; i < search->count; i++) {
        bool is_one = search->trials[i].outcome.refused > finding->best.outcome.refused;
        write_trial(out, &axes, &search->trials[i], 3, is_one ? REFUSING : TRIED);
        is_refusing = is_refusing || is_one;
    }
    write_front(out, &axes, search);
    write_point(out, &axes, &tune->in_force, 5, IN_FORCE, tune->base_name);
    if (tune->has_cuda)
        write_point(out, &axes, &tune->cuda.outcome, 5, OF_CUDA, "CUDA's defaults");
    /* The first pool is the one that may be divided. */
    const struct division *division = finding == tune->findings ? &tune->division : NULL;
    const struct outcome *chosen = division && division->chosen ? &division->chosen->outcome : &finding->best.outcome;
    for (size_t i = 0; division && i < division->count; i++) {
        const struct division_trial *trial = &division->trials[i];
        char title[320];
        snprintf(title, sizeof title, "%s in a pool of its own", division_name_of(&trial->part).chars);
        if (trial->outcome.is_done)
            write_point(out, &axes, &trial->outcome, 3, TRIED, title);
    }
    write_point(out, &axes, chosen, 8, CHOSEN, "chosen");
    double y = top + 12;
    write_name(out, y, CHOSEN, "chosen", chosen);
    write_name(out, y += 20, IN_FORCE, tune->base_name, &tune->in_force);
    if (tune->has_cuda)
        write_name(out, y += 20, OF_CUDA, "CUDA's defaults", &tune->cuda.outcome);
    write_name(out, y += 20, BEST, "what no other policy beats", NULL);
    write_name(out, y += 20, TRIED, "tried", NULL);
    if (is_refusing)
        write_name(out, y + 20, REFUSING, "tried, and refuses more requests", NULL);
}

void picture_write(const struct tune *tune, FILE *out)
{
    svg_begin(out, LEFT + WIDTH + RIGHT, TOP + (int)tune->count * (PANEL + GAP), "Peak memory against stall time");
    fprintf(out, "<text x=\"%d\" y=\"16\" fill=\"#777777\">weir tune, ", LEFT);
    svg_text(out, tune->script.trace->path);
    fprintf(out, ": each point is a policy that was replayed; the pointer shows which. Lower is less memory, "
                 "left is less waiting.</text>\n");
    for (size_t i = 0; i < tune->count; i++)
        write_panel(tune, &tune->findings[i], TOP + (double)i * (PANEL + GAP), out);
    svg_end(out);
}
