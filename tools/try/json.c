/* SPDX-License-Identifier: MIT */
/* json.c - the report of `weir try` for programs. Sizes are bytes and times nanoseconds, unless a name says otherwise. */
#include <stdlib.h>

#include "tools/common/complain.h"
#include "tools/common/json.h"
#include "tools/try/try.h"

/* Adds the members of a snapshot, as weir_stats_json() has them: "version", "devices", "pools", "tags". stats: NULL where none was taken. */
static void json_stats(struct json *json, const weir_stats *stats)
{
    size_t len = weir_stats_json(stats, NULL, 0);
    char *text = must(calloc(len + 1, 1));
    weir_stats_json(stats, text, len + 1);
    /* Without the braces around them. */
    if (len)
        text[len - 1] = '\0';
    json_text(json, len ? text + 1 : "\"devices\": [], \"pools\": []");
    free(text);
}

static void json_work(struct json *json, const struct try_run *run)
{
    const struct try_worker *total = &run->total;
    json_object(json, "workload");
    json_number(json, "seconds", run->workload_seconds, 3);
    json_uint(json, "served", total->served);
    json_uint(json, "frees", total->frees);
    json_uint(json, "failures", total->failures);
    json_uint(json, "freed_on_another_stream", total->crossed);
    json_uint(json, "verified", total->verified);
    json_uint(json, "corrupt", total->corrupt);
    json_end(json);
}

static void json_steps(struct json *json, const struct try_run *run)
{
    json_array(json, "steps");
    for (size_t i = 0; i < run->step_count; i++) {
        const struct try_step *step = &run->steps[i];
        json_object(json, NULL);
        json_string(json, "step", step->name);
        json_string(json, "pool", step->pool->policy->name);
        json_uint(json, "device", (uint64_t)step->pool->device);
        json_string(json, "outcome", try_outcome_name(step->outcome));
        json_string(json, "rung", step->rung < 0 ? NULL : try_rung_name(step->rung));
        json_uint(json, "bytes", step->bytes);
        json_uint(json, "time", step->nanoseconds);
        json_string(json, "text", step->text);
        json_string(json, "report", step->report);
        json_end(json);
    }
    json_end(json);
}

void try_report_json(const struct try_run *run)
{
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_string(&json, "policy", run->policy->file);
    json_string(&json, "gpu", run->gpu->name);
    json_uint(&json, "threads", run->threads);
    json_uint(&json, "seed", run->seed);
    json_work(&json, run);
    json_stats(&json, run->stats);
    json_object(&json, "final");
    json_stats(&json, run->final);
    json_end(&json);
    json_steps(&json, run);
    json_uint(&json, "leaked_blocks", run->leaked_blocks);
    json_uint(&json, "leaked_bytes", run->leaked_bytes);
    json_bool(&json, "passed", run->reason_count == 0);
    json_array(&json, "reasons");
    for (size_t i = 0; i < run->reason_count; i++)
        json_string(&json, NULL, run->reasons[i]);
    json_end(&json);
    json_end(&json);
}
