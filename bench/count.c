/* SPDX-License-Identifier: MIT */
/*
 * weir-count: pairs on the simulator and nothing else, for a tool that counts instructions (tests/build/instructions.sh).
 *
 *   weir-count PAIRS checked|unchecked      cached, with cache: { capture_check: true } or false
 *   weir-count PAIRS uncached|capped        which go to CUDA, the latter below a cap that Weir watches
 *   weir-count PAIRS drifting               of sizes that never repeat, from 4 MiB on, with the settings of config/default.yaml
 *   weir-count PAIRS arena                  of 8 MiB, which an arena serves
 *   weir-count PAIRS recent|large           of 8 MiB of an arena, or 16 MiB of CUDA's pool, that the stream keeps
 *   weir-count PAIRS handles COUNT          by the raw handles of so many open streams in turn, cached
 *   weir-count PAIRS parked COUNT           which go to CUDA, while so many blocks wait for another stream
 *   weir-count PAIRS tags COUNT             weir_tag_push() and weir_tag_pop() of so many tags in turn
 *
 * What two runs differ in is what the additional pairs cost: start, policy and the first allocation are in both.
 * Exit status: 0, 2 if something failed, 77 if this build says nothing about the instructions of a real one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/free.h"
#include "lib/gpu/sim.h"
#include "include/weir.h"

static const struct mode {
    const char *name, *policy;
    bool is_cudas; /* they are calls of CUDA */
    size_t size;   /* bytes; of the first pair, if each pair is a little larger than the one before (DRIFTING) */
    enum { BY_STREAM, DRIFTING, BY_HANDLE, BESIDE_PARKED, OF_TAGS } kind;
} modes[] = {
    {"checked", "weir: 1\npools: { p: { cache: { capture_check: true } } }\n", false, 64 * 1024, BY_STREAM},
    {"unchecked", "weir: 1\npools: { p: { cache: { capture_check: false } } }\n", false, 64 * 1024, BY_STREAM},
    {"uncached", "weir: 1\npools: { p: { cache: off } }\n", true, 64 * 1024, BY_STREAM},
    {"capped", "weir: 1\npools: { p: { cache: off, release_threshold: 25%, max_size: 90%, small_below: 1MiB } }\n", true, 64 * 1024, BY_STREAM},
    {"drifting", "weir: 1\npools: { p: { release_threshold: 25%, max_size: 90%, small_below: 1MiB } }\n", true, 4 << 20, DRIFTING},
    {"arena", "weir: 1\npools: { p: { backing: arena, cache: off, release_threshold: all } }\n", false, 8 << 20, BY_STREAM},
    {"off", "weir: 1\nrecord: { level: off }\npools: { p: { cache: off } }\n", true, 64 * 1024, BY_STREAM},
    {"all", "weir: 1\nrecord: { level: all }\npools: { p: { cache: { capture_check: false } } }\n", false, 64 * 1024, BY_STREAM},
    {"recent", "weir: 1\npools: { p: { backing: arena, release_threshold: all } }\n", false, 8 << 20, BY_STREAM},
    {"large", "weir: 1\npools: { p: { release_threshold: all } }\n", false, 16 << 20, BY_STREAM},
    {"handles", "weir: 1\npools: { p: {} }\n", false, 4096, BY_HANDLE},
    {"parked", "weir: 1\npools: { p: { cache: off } }\n", true, 64 * 1024, BESIDE_PARKED},
    {"tags", "weir: 1\npools: { p: {} }\n", false, 0, OF_TAGS},
};

#define COUNT_MAX 4095
static weir_stream *streams[COUNT_MAX];

/* Why the instructions of this build do not count, or NULL. */
static const char *odd_build(void)
{
#if !defined(__OPTIMIZE__)
    return "this build is not optimised";
#elif defined(__clang__)
    return "this build is clang's, whose debug information older valgrinds cannot read; the bounds are gcc's";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "this build has sanitizers";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return "this build has sanitizers";
#else
    return NULL;
#endif
#else
    return NULL;
#endif
}

static weir_status pair(weir *w, const struct mode *mode, unsigned long which)
{
    static size_t more;
    char name[48];
    void *block;
    weir_status status = WEIR_OK;
    weir_cuda_stream handle = weir_stream_handle(streams[which]);
    switch (mode->kind) {
    case DRIFTING:
    case BESIDE_PARKED:
    case BY_STREAM:
        more += mode->kind == DRIFTING ? 4096 : 0;
        status = weir_stream_malloc(streams[which], &block, mode->size + more);
        return status ? status : weir_stream_free(streams[which], block);
    case BY_HANDLE:
        status = weir_malloc(w, &block, mode->size, 0, handle);
        return status ? status : weir_free(w, block, handle);
    case OF_TAGS:
        snprintf(name, sizeof name, "one tag of many: %04lu", which);
        status = weir_tag_push(w, name);
        return status ? status : weir_tag_pop(w, name);
    }
    return status;
}

static weir_status run_pairs(weir *w, const struct mode *mode, unsigned long count, unsigned long pairs)
{
    weir_status status = WEIR_OK;
    for (unsigned long i = 0, which = 0; i < pairs && status == WEIR_OK; i++, which = which + 1 < count ? which + 1 : 0)
        status = pair(w, mode, which);
    return status;
}

/* Parks so many blocks, which wait for the first stream and for a second one, whose work lasts longer than the pairs do. */
static weir_status park(weir *w, weir_stream *busy, size_t size, unsigned long count)
{
    struct weir__line *lines[] = {streams[0]->line, busy->line};
    static void *blocks[COUNT_MAX];
    weir_status status = w->gpu->delay(busy->handle, UINT64_C(100) * 1000000) == GPU_SUCCESS ? WEIR_OK : WEIR_CUDA_ERROR;
    for (unsigned long i = 0; i < count && !status; i++)
        status = weir_stream_malloc(streams[0], &blocks[i], size);
    for (unsigned long i = 0; i < count && !status; i++)
        status = weir__block_orphan(w, blocks[i], lines, 2, NULL);
    return status;
}

/* The pairs are only worth counting if they come from where they should: CUDA, or the cache or arena. */
static int measure(const struct mode *mode, unsigned long count, unsigned long pairs)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = mode->policy;
    options.gpu = "sim";
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_status status = weir_open(&options, &error, &w);
    weir_stream *busy;
    unsigned long parked = mode->kind == BESIDE_PARKED ? count : 0;
    count = parked ? 1 : count;
    for (unsigned long i = 0; i < count && !status; i++)
        status = weir_stream_create(w, 0, NULL, &error, &streams[i]);
    if (!status && parked)
        status = weir_stream_create(w, 0, NULL, &error, &busy);
    if (!status && parked)
        status = park(w, busy, mode->size, parked);
    if (!status)
        status = run_pairs(w, mode, count, count);
    uint64_t before = sim_calls("malloc_async");
    if (!status)
        status = run_pairs(w, mode, count, pairs);
    bool is_right = sim_calls("malloc_async") - before == (mode->is_cudas ? pairs : 0);
    if (status)
        fprintf(stderr, "weir-count: %s\n", error.status ? error.text : weir_status_text(status));
    else if (!is_right)
        fprintf(stderr, "weir-count: the pairs were%s served by CUDA\n", mode->is_cudas ? " not" : "");
    int result = status || !is_right ? 2 : 0;
    weir_close(w);
    return result;
}

int main(int argc, char **argv)
{
    const char *odd = odd_build();
    const struct mode *mode = NULL;
    char *end = NULL;
    unsigned long pairs = argc > 2 ? strtoul(argv[1], &end, 10) : 0;
    for (size_t i = 0; argc > 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[2], modes[i].name) == 0)
            mode = &modes[i];
    }
    unsigned long count = argc == 4 ? strtoul(argv[3], NULL, 10) : 1;
    if (!mode || !end || end == argv[1] || *end || argc > 4 || count == 0 || count > COUNT_MAX) {
        fputs("usage: weir-count PAIRS checked|unchecked|uncached|capped|drifting|arena|recent|large|handles|parked|tags [COUNT]; for example "
              "weir-count 10000 checked\n", stderr);
        return 2;
    }
    if (odd) {
        fprintf(stderr, "weir-count: %s\n", odd);
        return 77;
    }
    unsetenv("WEIR_CONF");
    return measure(mode, count, pairs);
}
