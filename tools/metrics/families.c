/* SPDX-License-Identifier: MIT */
#include "tools/metrics/families.h"

#include "tools/common/observe.h"

#define PROCESS(member) OF_PROCESS, #member, 0
#define GPU(member) OF_GPU, #member, 0 /* of the machine: several processes tell the same */
#define DEVICE(member) OF_DEVICE, #member, 0
#define RUNG(member) OF_RUNG, #member, 0 /* an object, of each device */
#define QUOTA(member) OF_QUOTA, #member, 0
#define POOL(member) OF_POOL, #member, 0
#define AUDIT(member) OF_AUDIT, #member, 0
#define TAG(member) OF_TAG, #member, 0
#define EXPORT(member) OF_EXPORT, NULL, offsetof(observed_counts, member)
#define RING(member) OF_RING, NULL, offsetof(observed_ring, member)
/* What both have; `since`: when that was opened. */
#define FLOW(prefix, OF, since)                                                                                                            \
    {prefix "_frames_pushed_total", "counter", "Frames that were pushed" since, OF(pushed), VALUE_PLAIN},                                  \
        {prefix "_pushed_bytes_total", "counter", "Bytes of these frames.", OF(bytes), VALUE_PLAIN},                                       \
        {prefix "_frames_dropped_total", "counter", "Frames that were dropped before every reader had got them.", OF(dropped),             \
         VALUE_PLAIN},                                                                                                                     \
        {prefix "_takes_refused_total", "counter", "Times that a producer found no slot.", OF(refused), VALUE_PLAIN},                      \
        {prefix "_hangs_total", "counter", "Times that a reader became hung.", OF(hangs), VALUE_PLAIN},                                    \
        {prefix "_leases_given_total", "counter", "Leases that were given.", OF(leases_given), VALUE_PLAIN},                               \
        {prefix "_lag_frames", "gauge", "Frames that the slowest reader is behind.", OF(lag), VALUE_PLAIN},                                \
        {prefix "_lag_peak_frames", "gauge", "The most frames that a reader was behind.", OF(lag_high), VALUE_PLAIN}
#define SUMMED " Private pools of one name and device are one series, their sum."
#define AUDITED(figure, bytes, time)                                                                                                       \
    {"weir_pool_" #figure "_bytes_total", "counter", bytes SUMMED, AUDIT(figure), VALUE_PLAIN},                                            \
        {"weir_pool_" #figure "_seconds_total", "counter", time SUMMED, AUDIT(figure##_ms), VALUE_MILLISECONDS}
const struct family metrics_families[] = {
    {"weir_process_age_seconds", "gauge", "Time since the process opened its policy.", PROCESS(age_ms), VALUE_MILLISECONDS},
    {"weir_gpu_memory_bytes", "gauge", "Memory of the GPU.", GPU(memory), VALUE_PLAIN},
    {"weir_gpu_memory_free_bytes", "gauge", "Memory of the GPU that is free for all processes.", GPU(memory_free), VALUE_PLAIN},
    {"weir_device_recoveries_total", "counter", "Times that the recovery ladder ran.", DEVICE(recoveries), VALUE_PLAIN},
    {"weir_device_asks_sent_total", "counter", "Times that the process asked a neighbour for memory.", DEVICE(asks_sent), VALUE_PLAIN},
    {"weir_device_got_bytes_total", "counter", "Bytes that neighbours gave when asked.", DEVICE(bytes_got), VALUE_PLAIN},
    {"weir_device_asks_received_total", "counter", "Times that a neighbour asked it for memory.", DEVICE(asks_received), VALUE_PLAIN},
    {"weir_device_given_bytes_total", "counter", "Bytes that the process gave to neighbours.", DEVICE(bytes_given), VALUE_PLAIN},
    {"weir_device_quota_bytes", "gauge", "Bytes of the GPU that the process may have; from: the variable that says so.", QUOTA(quota),
     VALUE_PLAIN},
    {"weir_device_rescues_total", "counter", "Requests that this rung of the recovery ladder rescued.", RUNG(rescues), VALUE_PLAIN},
    {"weir_pool_live_bytes", "gauge", "Bytes that the program has." SUMMED, POOL(live), VALUE_PLAIN},
    {"weir_pool_cached_bytes", "gauge", "Bytes of freed blocks that streams keep for themselves." SUMMED, POOL(cached), VALUE_PLAIN},
    {"weir_pool_slack_bytes", "gauge", "Bytes lost to rounding." SUMMED, POOL(slack), VALUE_PLAIN},
    {"weir_pool_idle_bytes", "gauge", "Bytes that are reserved and nobody uses." SUMMED, POOL(idle), VALUE_PLAIN},
    {"weir_pool_asleep_bytes", "gauge", "Bytes of blocks whose memory went back while the pool sleeps." SUMMED, POOL(asleep), VALUE_PLAIN},
    {"weir_pool_yielded_bytes", "gauge", "Bytes that a neighbour can have, though live." SUMMED, POOL(yielded), VALUE_PLAIN},
    {"weir_pool_reserved_bytes", "gauge", "Bytes that the pool has from the device." SUMMED, POOL(reserved), VALUE_PLAIN},
    {"weir_pool_live_peak_bytes", "gauge", "The most bytes that the program had at a time." SUMMED, POOL(live_high), VALUE_PLAIN},
    {"weir_pool_reserved_peak_bytes", "gauge", "The most bytes that were reserved at a time." SUMMED, POOL(reserved_high), VALUE_PLAIN},
    {"weir_pool_max_size_bytes", "gauge", "The policy's max_size." SUMMED, POOL(max_size), VALUE_CAP},
    {"weir_pool_release_threshold_bytes", "gauge", "The policy's release_threshold." SUMMED, POOL(release_threshold), VALUE_BOUND},
    {"weir_pool_keep_bytes", "gauge", "The policy's keep: what stays when a neighbour asks." SUMMED, POOL(keep), VALUE_BOUND},
    {"weir_pool_live_blocks", "gauge", "Blocks that the program has." SUMMED, POOL(live_blocks), VALUE_PLAIN},
    {"weir_pool_graph_blocks", "gauge", "Blocks that belong to captured graphs." SUMMED, POOL(graph_blocks), VALUE_PLAIN},
    {"weir_pool_allocations_total", "counter", "Requests that were served." SUMMED, POOL(mallocs), VALUE_PLAIN},
    {"weir_pool_frees_total", "counter", "Blocks that were freed." SUMMED, POOL(frees), VALUE_PLAIN},
    {"weir_pool_failures_total", "counter", "Requests that failed for want of memory." SUMMED, POOL(failures), VALUE_PLAIN},
    {"weir_pool_cache_hits_total", "counter", "Requests that a stream's cache served without CUDA." SUMMED, POOL(cache_hits), VALUE_PLAIN},
    AUDITED(kept_used, "Idle bytes that release_threshold: auto kept and that were used again.", "Time of calls that this saved."),
    AUDITED(kept_unused, "Idle bytes that it kept, and gave back unused.", "What that was worth, in time of calls."),
    AUDITED(given_missed, "Bytes that it gave back, and that the pool grew by soon after.", "Time of calls that this cost."),
    {"weir_tag_live_bytes", "gauge", "Bytes that the program has under this tag.", TAG(live), VALUE_PLAIN},
    {"weir_tag_live_peak_bytes", "gauge", "The most bytes that the program had under this tag at a time.", TAG(live_high), VALUE_PLAIN},
    {"weir_tag_live_blocks", "gauge", "Blocks that the program has under this tag.", TAG(live_blocks), VALUE_PLAIN},
    {"weir_export_importers", "gauge", "Processes that import the pool, with the hung and evicted ones.", EXPORT(importers), VALUE_PLAIN},
    {"weir_export_hung_importers", "gauge", "Importers that kept a producer waiting and said nothing since.", EXPORT(hung), VALUE_PLAIN},
    {"weir_export_evicted_importers", "gauge", "Evicted importers that live: they keep blocks from use.", EXPORT(evicted), VALUE_PLAIN},
    {"weir_export_blocks", "gauge", "Published blocks, slots of rings, and withdrawn blocks that are still mapped.", EXPORT(blocks),
     VALUE_PLAIN},
    {"weir_export_leases", "gauge", "Leases that have not ended.", EXPORT(leases), VALUE_PLAIN},
    {"weir_export_mappings", "gauge", "Blocks in the address spaces of importers.", EXPORT(mappings), VALUE_PLAIN},
    {"weir_export_evictions_total", "counter", "Importers that were evicted.", EXPORT(evictions), VALUE_PLAIN},
    FLOW("weir_export", EXPORT, ", on all rings since the export was opened."),
    {"weir_ring_slots", "gauge", "Slots of the ring.", RING(depth), VALUE_PLAIN},
    {"weir_ring_slot_bytes", "gauge", "Bytes of each slot.", RING(slot_size), VALUE_PLAIN},
    {"weir_ring_taken_slots", "gauge", "Slots that a producer writes.", RING(taken), VALUE_PLAIN},
    {"weir_ring_queued_slots", "gauge", "Slots with a frame that some reader is to get or to release.", RING(queued), VALUE_PLAIN},
    {"weir_ring_readers", "gauge", "Readers of the ring, with the hung ones.", RING(readers), VALUE_PLAIN},
    {"weir_ring_hung_readers", "gauge", "Readers that nobody waits for.", RING(hung), VALUE_PLAIN},
    FLOW("weir_ring", RING, " since the ring was opened."),
};

const size_t metrics_family_count = sizeof metrics_families / sizeof metrics_families[0];
