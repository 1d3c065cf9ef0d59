/* SPDX-License-Identifier: MIT */
/*
 * weir-count: cached pairs on the simulator and nothing else, for a tool that counts instructions (tests/build/instructions.sh).
 *
 *   weir-count PAIRS checked|unchecked      with cache: { capture_check: true } or false
 *
 * What two runs differ in is what the additional pairs cost: start, policy and the first allocation are in both.
 * Exit status: 0, 2 if something failed, 77 if this build says nothing about the instructions of a real one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gpu/sim.h"
#include "lib/weir.h"

#define SIZE (64 * 1024)

static const struct {
    const char *name, *policy;
} modes[] = {
    {"checked", "weir: 1\npools: { p: { cache: { capture_check: true } } }\n"},
    {"unchecked", "weir: 1\npools: { p: { cache: { capture_check: false } } }\n"},
};

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

static weir_status run_pairs(weir_stream *s, unsigned long pairs)
{
    weir_status status = WEIR_OK;
    for (unsigned long i = 0; i < pairs && status == WEIR_OK; i++) {
        void *block;
        status = weir_stream_malloc(s, &block, SIZE);
        if (status == WEIR_OK)
            status = weir_stream_free(s, block);
    }
    return status;
}

/* The same number of pairs is only worth counting if they come from the cache: the pool must have been asked once. */
static int measure(const char *policy, unsigned long pairs)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_stream *s = NULL;
    weir_status status = weir_open(&options, &error, &w);
    if (!status)
        status = weir_stream_create(w, 0, NULL, &error, &s);
    if (!status)
        status = run_pairs(s, 1);
    uint64_t asked = sim_calls("malloc_async");
    if (!status)
        status = run_pairs(s, pairs);
    if (status)
        fprintf(stderr, "weir-count: %s\n", error.status ? error.text : weir_status_text(status));
    else if (sim_calls("malloc_async") != asked)
        fprintf(stderr, "weir-count: the pairs were not served by the cache\n");
    int result = status || sim_calls("malloc_async") != asked ? 2 : 0;
    weir_stream_close(s);
    weir_close(w);
    return result;
}

int main(int argc, char **argv)
{
    const char *odd = odd_build(), *policy = NULL;
    char *end = NULL;
    unsigned long pairs = argc == 3 ? strtoul(argv[1], &end, 10) : 0;
    for (size_t i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[2], modes[i].name) == 0)
            policy = modes[i].policy;
    }
    if (!policy || !end || end == argv[1] || *end) {
        fputs("usage: weir-count PAIRS checked|unchecked; for example weir-count 10000 checked\n", stderr);
        return 2;
    }
    if (odd) {
        fprintf(stderr, "weir-count: %s\n", odd);
        return 77;
    }
    unsetenv("WEIR_CONF");
    return measure(policy, pairs);
}
