/* SPDX-License-Identifier: MIT */
/* json.c - the report of `weir try` for programs. Sizes are bytes and times nanoseconds, unless a name says otherwise. */
#include "tools/common/json.h"
#include "tools/try/try.h"


static void json_devices(struct json *json, const struct try_run *run)
{
    const weir_stats *stats = run->final ? run->final : run->stats;
    json_array(json, "devices");
    for (size_t i = 0; stats && i < weir_stats_device_count(stats); i++) {
        const weir_device_stats *device = weir_stats_device(stats, i);
        struct gpu_device_info info = {.name = ""};
        run->gpu->device_info(device->device, &info);
        json_object(json, NULL);
        json_uint(json, "device", (uint64_t)device->device);
        json_string(json, "name", info.name);
        json_string(json, "uuid", info.uuid);
        json_uint(json, "memory", device->memory);
        json_uint(json, "recoveries", device->recoveries);
        json_object(json, "rescues");
        for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++)
            json_uint(json, try_rung_name(rung), device->rescues[rung]);
        json_end(json);
        json_end(json);
    }
    json_end(json);
}

static void json_pools(struct json *json, const struct try_run *run)
{
#define MEMBER(member) JSON_MEMBER(weir_pool_stats, member)
    static const struct json_member members[] = {
        MEMBER(reserved),      MEMBER(used),     MEMBER(idle),    MEMBER(live),       MEMBER(cached), MEMBER(slack),   MEMBER(live_high),
        MEMBER(reserved_high), MEMBER(max_size), MEMBER(mallocs), MEMBER(cache_hits), MEMBER(frees),  MEMBER(failures)};
#undef MEMBER
    json_array(json, "pools");
    for (size_t i = 0; run->stats && i < weir_stats_pool_count(run->stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(run->stats, i);
        json_object(json, NULL);
        json_string(json, "name", pool->name);
        json_uint(json, "device", (uint64_t)pool->device);
        json_bool(json, "is_private", pool->is_private);
        json_bool(json, "exportable", pool->is_exportable);
        json_bool(json, "arena", pool->is_arena);
        json_members(json, pool, members, sizeof(members) / sizeof(members[0]));
        json_end(json);
    }
    json_end(json);
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
    json_string(&json, "version", weir_version());
    json_string(&json, "policy", run->policy->file);
    json_string(&json, "gpu", run->gpu->name);
    json_uint(&json, "threads", run->threads);
    json_uint(&json, "seed", run->seed);
    json_work(&json, run);
    json_pools(&json, run);
    json_devices(&json, run);
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
