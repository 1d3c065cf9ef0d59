/* SPDX-License-Identifier: MIT */
/*
 * figures_fuzz.c - any bytes as the figures of a process: what is refused has a reason, and what is accepted has what commands rely on.
 *
 * `make figures-fuzz` builds it with libFuzzer. Built without, it runs the files that it is given through the same entry, as a test.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/run_files.h"
#include "tools/common/figures.h"

/* Stops a fuzzer as a crash does, sanitizers or not. */
static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "figures_fuzz: %s\n", what);
    abort();
}

/* What is read is used, or compilers would leave the reading out. */
static volatile uint64_t sink;

/* Of all values that are seen. */
struct seen {
    unsigned depth;
    size_t bytes;
};

static void look(void *data, const char *key, const struct figures_value *value)
{
    struct seen *seen = data;
    require(++seen->depth < 16, "a document that is too deep");
    seen->bytes += key ? strlen(key) : 0;
    if (value->kind == FIGURES_TEXT)
        seen->bytes += strlen(value->text);
    if (value->kind == FIGURES_OBJECT || value->kind == FIGURES_ARRAY)
        figures_each(value->object, look, data);
    seen->depth--;
}

static void use(const figures *document)
{
    struct seen seen = { 0 };
    uint64_t sum = 0;
    require(figure_text(document, "version") && figure_text(document, "program") && figure_text(document, "policy"), "no text");
    for (size_t i = 0; i < figures_count(document, "devices"); i++) {
        const figures *device = figures_at(document, "devices", i);
        require(figure_text(device, "uuid"), "a device without a UUID");
        require(figures_device(document, figure(device, "index")) == device, "a device that comes twice");
        sum += figures_rescues(device);
    }
    for (size_t i = 0; i < figures_count(document, "pools"); i++) {
        const figures *pool = figures_at(document, "pools", i);
        require(figure_text(pool, "name") && figure(pool, "device") <= INT32_MAX, "a pool without a name or a device");
        sum += figure(pool, "live") + figures_has_audit(pool);
    }
    for (size_t i = 0; i < figures_count(document, "tags"); i++)
        require(figure_text(figures_at(document, "tags", i), "name"), "a tag without a name");
    for (size_t i = 0; i < figures_count(document, "values"); i++)
        require(figure_text(figures_at(document, "values", i), "key"), "a value without a key");
    figures_each(document, look, &seen);
    require(seen.depth == 0, "a document that is left half-way");
    sink = sum + seen.bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[FIGURES_WHY] = "", *text = malloc(size + 1);
    require(text, "no host memory");
    memcpy(text, data, size);
    figures *document = figures_read(text, size, why);
    free(text); /* nothing is borrowed from it */
    require(document || why[0], "a refusal without a reason");
    if (document)
        use(document);
    figures_free(document);
    return 0;
}

#ifndef WEIR_LIBFUZZER
int main(int argc, char **argv)
{
    static uint8_t data[1 << 20];
    return run_files(argc, argv, data, sizeof data);
}
#endif
