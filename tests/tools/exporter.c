/* SPDX-License-Identifier: MIT */
/* exporter.c - exporter FORMAT TRACE…: writes what an exporter of `weir trace` makes of traces to standard output. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/trace/export.h"

static const struct {
    const char *name;
    export_fn *write;
} formats[] = {{"memory-viz", export_viz}, {"perfetto", export_perfetto}};

int main(int argc, char **argv)
{
    size_t count = argc > 2 ? (size_t)argc - 2 : 0, format = 0;
    struct trace *traces = must(calloc(count + 1, sizeof traces[0]));
    struct trace **each = must(calloc(count + 1, sizeof each[0]));
    struct export export = {.traces = each, .count = count, .out = stdout};
    while (count && format < sizeof formats / sizeof formats[0] && strcmp(formats[format].name, argv[1]) != 0)
        format++;
    if (count == 0 || format == sizeof formats / sizeof formats[0])
        return 2;
    for (size_t i = 0; i < count; i++) {
        each[i] = &traces[i];
        if (!trace_open(each[i], argv[i + 2])) {
            fprintf(stderr, "%s: %s\n", argv[i + 2], each[i]->error);
            return 2;
        }
    }
    bool is_good = formats[format].write(&export);
    fprintf(stderr, "%s%s", export.error, is_good ? "" : "\n");
    for (size_t i = 0; i < count; i++)
        trace_close(each[i]);
    free(each);
    free(traces);
    return is_good && fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
