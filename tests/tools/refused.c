/* SPDX-License-Identifier: MIT */
/*
 * refused.c - a program that has a request refused, on the simulator: what `weir trace why` is tried on.
 *
 *     refused KEPT FREED GAPS ASKED [LATER]    sizes in MiB
 *
 * Takes one block with the tag "weights" that it keeps, then GAPS times a block that it frees and one of 1 MiB that it keeps, waits for the
 * frees, and asks for more. Works on for itself, so that the recording has something behind the refusal, LATER times. The policy is that of
 * the environment; time is virtual. It ends with 0 if the request was refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/gpu/sim.h"
#include "lib/weir.h"

#define MIB (UINT64_C(1) << 20)
#define GAPS_MAX 1024
#define WORK UINT64_C(1000000) /* ns between two steps */

static weir_stream *s;

static void must(weir_status status, const char *what)
{
    weir_error error;
    if (status == WEIR_OK)
        return;
    weir_last_error(&error);
    fprintf(stderr, "refused: %s: %s: %s\n", what, weir_status_text(status), error.text);
    exit(1);
}

static void *get(uint64_t bytes)
{
    void *ptr;
    must(weir_stream_malloc(s, &ptr, bytes), "weir_stream_malloc");
    sim_advance(WORK);
    return ptr;
}

static void drop(void *ptr)
{
    must(weir_stream_free(s, ptr), "weir_stream_free");
    sim_advance(WORK);
}

static uint64_t number(char **argv, int place)
{
    return strtoull(argv[place], NULL, 10);
}

int main(int argc, char **argv)
{
    static void *freed[GAPS_MAX], *kept[GAPS_MAX];
    weir *w;
    void *ptr = NULL, *weights = NULL;
    if (argc < 5 || number(argv, 3) > GAPS_MAX)
        return 2;
    uint64_t gaps = number(argv, 3), later = argc > 5 ? number(argv, 5) : 0;
    must(weir_open(NULL, NULL, &w), "weir_open");
    must(weir_stream_create(w, 0, NULL, NULL, &s), "weir_stream_create");
    must(weir_tag_push(w, "weights"), "weir_tag_push");
    weights = number(argv, 1) ? get(number(argv, 1) * MIB) : NULL;
    must(weir_tag_pop(w, NULL), "weir_tag_pop");
    for (uint64_t i = 0; i < gaps; i++) {
        freed[i] = get(number(argv, 2) * MIB);
        kept[i] = get(MIB);
    }
    for (uint64_t i = 0; i < gaps; i++)
        drop(freed[i]);
    must(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
    must(weir_mark(w, "asks"), "weir_mark");
    weir_status status = weir_stream_malloc(s, &ptr, number(argv, 4) * MIB);
    if (status == WEIR_OK)
        drop(ptr);
    for (uint64_t i = 0; i < later; i++)
        drop(get((1 + i % 7) * 64 * 1024));
    for (uint64_t i = 0; i < gaps; i++)
        drop(kept[i]);
    if (weights)
        drop(weights);
    weir_stream_close(s);
    weir_close(w);
    return status != WEIR_OUT_OF_MEMORY;
}
