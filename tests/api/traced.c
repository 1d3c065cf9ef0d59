/* SPDX-License-Identifier: MIT */
#include "tests/api/traced.h"

#include <stdio.h>
#include <stdlib.h>

char traced_directory[256];
char traced_file[300];

void traced_begin(void)
{
    snprintf(traced_directory, sizeof traced_directory, "%s/weir-record-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(traced_directory));
    snprintf(traced_file, sizeof traced_file, "%s/all.weir", traced_directory);
}

void traced_end(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", traced_directory);
    ck_assert_int_eq(system(command), 0);
}

void traced_open_plain(const char *record, const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, "weir: 1\nrecord: { %s }\npools: { main: { %s } }\n", record, keys);
    scene_open(text);
}

void traced_open(const char *record, const char *keys)
{
    char text[512];
    snprintf(text, sizeof text, "%s, file: '%s'", record, traced_file);
    traced_open_plain(text, keys);
}

uint64_t traced_play(trace_event_fn *look, void *context)
{
    struct trace trace;
    if (scene.w)
        scene_close();
    ck_assert_msg(trace_open(&trace, traced_file), "%s", trace.error);
    ck_assert_msg(trace_play(&trace, look, context), "%s", trace.error);
    ck_assert_msg(trace.losses.is_closed && !trace.losses.bytes && !trace.losses.blocks, "%s", trace.losses.first);
    uint64_t lost = trace.losses.events;
    trace_close(&trace);
    return lost;
}
