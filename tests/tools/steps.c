/* SPDX-License-Identifier: MIT */
/*
 * steps.c - a program with steps, as training has them, on the simulator: what `weir replay` and `weir tune` are tried on.
 *
 *     steps COUNT WEIGHTS PEAK [SMALL]    sizes in MiB; SMALL: small blocks of a step
 *
 * Takes its weights, then in each step blocks up to its peak, gives them back, synchronises, and works for itself for 20 ms in all. Time is
 * virtual, and the same call does the same, always. The policy is that of the environment.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/gpu/sim.h"
#include "include/weir.h"

#define MIB (UINT64_C(1) << 20)
#define LARGE 32 /* MiB */
#define WORK UINT64_C(10000000) /* ns of the program's own, each way */

static weir_stream *s;

static void must(weir_status status, const char *what)
{
    weir_error error;
    if (status == WEIR_OK)
        return;
    weir_last_error(&error);
    fprintf(stderr, "steps: %s: %s: %s\n", what, weir_status_text(status), error.text);
    exit(1);
}

static void *get(uint64_t bytes)
{
    void *ptr;
    must(weir_stream_malloc(s, &ptr, bytes), "weir_stream_malloc");
    return ptr;
}

static void step(uint64_t peak, unsigned small)
{
    unsigned large = (unsigned)(peak / (LARGE * MIB)), count = large + small;
    void **blocks = calloc(count + 1, sizeof *blocks);
    if (!blocks)
        exit(1);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = get(i < large ? LARGE * MIB : 1000 + 512 * (i % 7));
        sim_advance(WORK / count);
    }
    for (unsigned i = count; i-- > 0;) {
        must(weir_stream_free(s, blocks[i]), "weir_stream_free");
        sim_advance(WORK / count);
    }
    must(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
    free(blocks);
}

int main(int argc, char **argv)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    char name[32];
    weir *w;
    if (argc < 4)
        return 2;
    options.gpu = "sim";
    if (weir_open(&options, &error, &w) != WEIR_OK || weir_stream_create(w, 0, NULL, &error, &s) != WEIR_OK) {
        fprintf(stderr, "steps: %s\n", error.text);
        return 1;
    }
    unsigned long weights = strtoul(argv[2], NULL, 10);
    void *weight = weights ? get(weights * MIB) : NULL;
    for (unsigned long i = 0; i < strtoul(argv[1], NULL, 10); i++) {
        snprintf(name, sizeof name, "step %lu", i);
        must(weir_mark(w, name), "weir_mark");
        step(strtoul(argv[3], NULL, 10) * MIB, argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0);
    }
    must(weir_stream_free(s, weight), "weir_stream_free");
    weir_stream_close(s);
    weir_close(w);
    return 0;
}
