/* SPDX-License-Identifier: MIT */
/*
 * parts.c - a program with blocks of two lifetimes, on the simulator: what `weir tune` divides into two pools.
 *
 *     parts MODE STEPS [NAME]    MODE: what tells the two apart, below; NAME: of those that stay, instead of `keep`
 *
 * A step takes eight blocks and a small one behind each, which stays; gives the eight back, and synchronises. The next one takes four of
 * twice the size: they do not fit between those that stay. Time is virtual, and the same call does the same, always. The policy is that of
 * the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gpu/sim.h"
#include "include/weir.h"

#define MIB (UINT64_C(1) << 20)
#define LARGE 40 /* MiB */
#define COUNT 8  /* of them in a step */
#define KEPT 2   /* MiB, of a block that stays */
#define STEPS_MAX 2000
#define WORK UINT64_C(2000000) /* ns of the program's own behind each call */

enum mode {
    MODE_STREAMS, /* two streams, `work` and that name */
    MODE_TAGS,    /* two such tags, on one stream */
    MODE_TAG,     /* one tag for all, on one stream */
    MODE_EARLY,   /* streams; what stays is taken before all else */
    MODE_COUNT
};

static const char *const modes[MODE_COUNT] = {"streams", "tags", "tag", "early"};

static weir *w;
static weir_stream *work, *keep;
static enum mode mode;
static void *kept[STEPS_MAX / 2 * COUNT];
static unsigned kept_count;
static const char *name = "keep";

static void must(weir_status status, const char *what)
{
    weir_error error;
    if (status == WEIR_OK)
        return;
    weir_last_error(&error);
    fprintf(stderr, "parts: %s: %s: %s\n", what, weir_status_text(status), error.text);
    exit(1);
}

static void *get(weir_stream *s, const char *tag, uint64_t bytes)
{
    void *ptr;
    if (mode == MODE_TAG || mode == MODE_TAGS)
        must(weir_tag_push(w, mode == MODE_TAG ? "all" : tag), "weir_tag_push");
    must(weir_stream_malloc(s, &ptr, bytes), "weir_stream_malloc");
    if (mode == MODE_TAG || mode == MODE_TAGS)
        must(weir_tag_pop(w, NULL), "weir_tag_pop");
    sim_advance(WORK);
    return ptr;
}

static void give(weir_stream *s, void *ptr)
{
    must(weir_stream_free(s, ptr), "weir_stream_free");
    sim_advance(WORK);
}

static void keep_one(void)
{
    kept[kept_count++] = get(keep, name, KEPT * MIB);
}

static void step(bool is_large)
{
    void *blocks[COUNT];
    unsigned count = is_large ? COUNT / 2 : COUNT;
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = get(work, "work", LARGE * COUNT / count * MIB);
        if (mode != MODE_EARLY && !is_large)
            keep_one();
    }
    for (unsigned i = 0; i < count; i++)
        give(work, blocks[i]);
    must(weir_stream_synchronize(work, NULL), "weir_stream_synchronize");
}

static weir_stream *open_stream(const char *as)
{
    weir_stream *s;
    weir_error error = WEIR_ERROR_INIT;
    if (weir_stream_create(w, 0, as, &error, &s) == WEIR_OK)
        return s;
    fprintf(stderr, "parts: %s\n", error.text);
    exit(1);
}

int main(int argc, char **argv)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (mode = 0; mode < MODE_COUNT && argc > 1 && strcmp(argv[1], modes[mode]) != 0;)
        mode++;
    name = argc == 4 ? argv[3] : name;
    if (argc < 3 || argc > 4 || mode == MODE_COUNT || steps > STEPS_MAX)
        return 2;
    options.gpu = "sim";
    if (weir_open(&options, &error, &w) != WEIR_OK) {
        fprintf(stderr, "parts: %s\n", error.text);
        return 1;
    }
    bool has_streams = mode == MODE_STREAMS || mode == MODE_EARLY;
    work = open_stream(has_streams ? "work" : NULL);
    keep = has_streams ? open_stream(name) : work;
    for (unsigned i = 0; i < steps / 2 * COUNT && mode == MODE_EARLY; i++)
        keep_one();
    for (unsigned i = 0; i < steps / 2 * 2; i++)
        step(i % 2);
    while (kept_count)
        give(keep, kept[--kept_count]);
    if (keep != work)
        weir_stream_close(keep);
    weir_stream_close(work);
    weir_close(w);
    return 0;
}
