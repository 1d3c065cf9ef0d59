#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir try` on the simulator, with many kinds of policies.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
cd "$tap_dir" || exit 1
export COLUMNS=1000 # nothing that is looked for is broken by a line

# tried SETTINGS STATUS ARGUMENT…: a short run on a simulated machine ends with that status.
tried() {
    settings=$1
    wanted=$2
    shift 2
    WEIR_SIM=$settings exits "$wanted" try --seconds=0.1 "$@"
}
passed="Result: everything was served, verified and recovered; nothing leaked."

check "built_in_default_passes" tried '' 0
check "report_says_that_it_passed" says "$out" "$passed"
check "report_says_that_it_is_the_simulator" says "$out" "This is the simulator"
check "report_says_what_cuda_did_about_a_free_behind_a_kernel" says "$out" "step 'wait': served" \
    "CUDA served it by itself: it made the requesting stream wait"
check "callback_that_frees_a_reserve_rescues" says "$out" "Weir had the application's" "(rung: callbacks)"

policy alone.yaml <<'YAML'
weir: 1
pools:
  main: { reuse: { internal_dependencies: false } }
YAML
check "policy_without_internal_dependencies_passes" tried '' 0 alone.yaml
check "free_behind_a_kernel_is_rescued_by_wait" says "$out" "Weir waited for the pending free" "(rung: wait)"

policy many.yaml <<'YAML'
weir: 1
defaults: { pool: frames }
pools:
  frames: { max_size: 1GiB, release_threshold: 256MiB, reuse: { internal_dependencies: false } }
  scratch: { peer_access: all, small_below: 0, initial_size: 64MiB }
  plain: { backing: default, current: true }
  pinned: { location: host }
streams:
  decode: { pool: frames }
  infer: { pool: scratch }
  side: { pool: scratch, private: true }
YAML
check "many_pools_on_two_devices_pass" tried devices=2 0 many.yaml
check "every_pool_is_tried_on_every_device" says "$out" "Pool 'frames', device 0, step 'wait': rescued" \
    "Pool 'frames', device 1, step 'wait': rescued" "Pool 'scratch', device 1, step 'wait': served" \
    "Pool 'plain', device 1, step 'wait': served"
check "host_pool_without_a_cap_is_skipped_with_the_reason" says "$out" "Pool 'pinned', device 0, step 'wait': skipped"
check "named_streams_are_counted" says "$out" "3 named streams"

policy shared.yaml <<'YAML'
weir: 1
defaults: { pool: own }
pools:
  shared: { ipc: posix_fd }
  own: {}
YAML
check "exportable_pools_pass" tried devices=2 0 shared.yaml

policy apart.yaml <<'YAML'
weir: 1
defaults: { pool: first }
pools:
  first: { devices: [0] }
  second: { devices: [1] }
YAML
check "device_without_the_default_pool_passes" tried devices=2 0 apart.yaml

policy capped.yaml <<'YAML'
weir: 1
pools:
  host: { location: host, max_size: 256MiB, reuse: { internal_dependencies: false } }
YAML
check "host_pool_with_a_cap_passes" tried '' 0 capped.yaml
check "host_pool_runs_out_at_its_cap" says "$out" "Pool 'host', device 0, step 'wait': rescued"

policy tiny.yaml <<'YAML'
weir: 1
pools:
  tiny: { max_size: 32MiB, small_below: 0 }
YAML
check "tiny_cap_passes" tried '' 0 --threads=8 tiny.yaml
check "too_small_a_pool_for_callbacks_is_skipped_with_the_reason" says "$out" "step 'callbacks': skipped" "too little (32 MiB)"

policy hopeless.yaml <<'YAML'
weir: 1
pools:
  p: { max_size: 1%, small_below: 0 }
YAML
check "cap_below_what_a_pool_grows_by_exits_1" tried memory=1GiB 1 hopeless.yaml
check "cap_below_what_a_pool_grows_by_is_told_what_would_help" says "$err" "which grows by 32 MiB at a time: write 32 MiB or more"

policy bad.yaml <<'YAML'
weir: 1
pools: {}
YAML
policy none.yaml <<'YAML'
weir: 1
pools:
  p: { reuse: { internal_dependencies: false }, on_oom: { steps: [] } }
YAML
check "policy_without_recovery_exits_1" tried '' 1 none.yaml
check "policy_without_recovery_is_told_what_would_help" says "$out" "not rescued" "on_oom is []" "'wait' in its steps" "Result: FAILED"
check "failed_request_shows_the_report_of_weir" says "$out" "Weir's report:" "reserved"

check "small_device_passes" tried memory=256MiB 0
# A run that takes no figures has none, and is a document all the same.
check "device_that_does_not_tell_its_memory_exits_1" tried fail=device_memory:1:999 1 --json
check_json "json_without_a_workload_is_whole" 'd["steps"] == [] and d["workload"]["served"] == 0 and d["reasons"] and not d["passed"]'
check "old_driver_passes" tried driver=11.4 0
check "one_thread_passes" tried '' 0 --threads=1
check "another_seed_passes" tried '' 0 --seed=42
check "seed_is_shown" says "$out" "(seed 42)"
check "short_options_are_taken" exits 0 try -s 0.05 -t 2

from_stdin() {
    "$weir" try --seconds=0.05 - <many.yaml >"$out" 2>"$err"
}
check "dash_reads_standard_input" from_stdin
check "bad_policy_exits_1" tried '' 1 bad.yaml
check "missing_policy_exits_2" tried '' 2 missing.yaml
policy absent.yaml <<'YAML'
weir: 1
pools:
  p: { devices: [7] }
YAML
check "policy_for_a_missing_device_exits_1" tried '' 1 absent.yaml
check "policy_for_a_missing_device_has_its_place" says "$err" "absent.yaml:3:"
check "no_device_exits_1" tried devices=0 1
check "no_device_of_the_simulator_names_its_variable" says "$err" "WEIR_SIM says which devices the simulator has"

# A GPU that fails in the middle: the n-th call of an operation, chosen to hit each part of the run.
for fail in stream_create:3 event_create:2 malloc_async:40 set_async:50 copy_async:30 event_record:5 \
    stream_wait_event:5 delay:1 delay:2 device_memory:1; do
    check "gpu_that_fails_in_${fail}_exits_1" tried "fail=$fail:999" 1
    check "gpu_that_fails_in_${fail}_is_reported" says "$out" "Result: FAILED"
done
# A block that comes out of a cache is freed again later.
echo 'weir: 1
pools: { p: { cache: off } }' >uncached.yaml
check "gpu_that_fails_in_free_async:20_without_caches_exits_1" tried fail=free_async:20:999 1 uncached.yaml
check "gpu_that_fails_in_free_async:20_without_caches_is_reported" says "$out" "Result: FAILED"

check "json_is_printed" tried devices=2 0 --json many.yaml
check_json "json_says_that_it_passed" 'd["passed"] and d["reasons"] == [] and d["leaked_blocks"] == 0'
check_json "json_counts_each_free_once" 'd["workload"]["frees"] == d["workload"]["served"] > 0'
check_json "json_has_the_rescues_of_each_step" \
    'all(s["rung"] == s["step"] for s in d["steps"] if s["outcome"] == "rescued") and any(s["rung"] == "wait" for s in d["steps"])'
check_json "json_verified_something" 'd["workload"]["verified"] > 0 and d["workload"]["corrupt"] == 0'
check "json_of_a_failed_run_exits_1" tried '' 1 --json none.yaml
check_json "json_of_a_failed_run_has_the_reasons" 'not d["passed"] and d["reasons"] and d["steps"][-1]["report"]'
check "json_of_a_bad_policy_exits_1" tried '' 1 --json bad.yaml
check_json "json_of_a_bad_policy_has_the_errors" 'd["errors"][0]["file"] == "bad.yaml" and d["status"] == 1'
check "json_of_a_policy_for_a_missing_device_exits_1" tried '' 1 --json absent.yaml
check "json_of_a_policy_for_a_missing_device_is_all_that_is_said" is_empty "$err"
check_json "json_of_a_policy_for_a_missing_device_has_its_place" 'd["errors"][0]["message"].startswith("absent.yaml:3:")'
from_pipe() {
    # shellcheck disable=SC2002 # a pipe is what is asked for
    cat many.yaml | WEIR_SIM=devices=2 "$weir" try --seconds=0.05 "$1" >"$out" 2>"$err" && says "$out" "$passed" "Pool 'scratch', device 1"
}
check "policy_from_a_pipe_is_tried" from_pipe /dev/stdin
check "policy_from_standard_input_is_tried" from_pipe -
done_testing
