#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir replay`: what it says of traces that were recorded on the simulator, of damaged ones, and of policies that are wrong.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
unset WEIR_SIM WEIR_CONF

record() {
    WEIR_POLICY="$tap_dir/policy.yaml" "$weir" record -o "$1" --level "$2" -- "$top_builddir/tests/tools/steps" 20 64 512 40
}

cat >"$tap_dir/policy.yaml" <<'END'
weir: 1
pools: { main: { release_threshold: 256MiB, small_below: 1MiB } }
END
cat >"$tap_dir/capped.yaml" <<'END'
weir: 1
pools: { main: { small_below: 0, max_size: 64MiB, on_oom: { steps: [] } } }
END
cat >"$tap_dir/other.yaml" <<'END'
weir: 1
pools: { elsewhere: { small_below: 0 } }
END
printf 'weir: 1\npools: { main: { max_size: many } }\n' >"$tap_dir/wrong.yaml"
# A log of RMM, as it was imported.
cp "$top_srcdir/tests/tools/rmm.weir" "$tap_dir"

check "program_is_recorded" record "$tap_dir/run.weir" all
check "replay_of_what_was_recorded_exits_0" exits 0 replay "$tap_dir/run.weir"
check "policy_that_was_recorded_is_replayed" says "$out" "as recorded"
check "its_error_is_shown" says "$out" "Against the recording: peak memory 0.0 % off"
# The recording has the figures alone that a replay counts alike: the peak, slow calls and refusals. A replay measures the whole call, the recorder
# the part of it that is CUDA's.
rows_agree() {
    # shellcheck disable=SC2046 # the words of both rows
    set -- $(sed -n 's/^  (recording) //p; s/^  as recorded  //p' "$out")
    echo "$*"
    [ "$1 $2" = "${14} ${15}" ] && [ "$4" = "${22}" ] && [ "$5" = "${26}" ] && [ $# -eq 26 ] &&
        awk "BEGIN { exit !($3 <= ${21} && $3 > 0.99 * ${21}) }"
}
check "rows_of_the_recording_and_of_its_replay_agree" rows_agree
cp "$out" "$tap_dir/first"
check "replay_exits_0_again" exits 0 replay "$tap_dir/run.weir"
check "same_trace_gives_the_same_figures" cmp "$out" "$tap_dir/first"

check "other_policies_are_replayed_beside_it" exits 0 replay "$tap_dir/run.weir" -p "$tap_dir/capped.yaml" --policy "$tap_dir/other.yaml"
check "they_are_named" says "$out" "capped.yaml"
check "pools_that_a_policy_does_not_have_are_told_of" says "$out" "pools that this policy does not have"
check "document_of_them_exits_0" exits 0 replay --json "$tap_dir/run.weir" -p "$tap_dir/capped.yaml"
check_json "cap_refuses_requests" "d[0]['policies'][1]['refused'] > 0 and d[0]['policies'][0]['refused'] == 0"
check_json "cap_holds" "d[0]['policies'][1]['peak_reserved'] <= 64 << 20"
check_json "replay_of_the_recorded_policy_is_to_the_byte" "d[0]['memory_error'] == 0 and d[0]['can_judge']"

printf 'weir: 1\npools: { main: { backing: arena, release_threshold: all, initial_size: 2GiB } }\n' >"$tap_dir/arena.yaml"
sed 's/initial_size/cache: off, initial_size/' "$tap_dir/arena.yaml" >"$tap_dir/uncached.yaml"
check "arenas_are_replayed" exits 0 replay --json "$tap_dir/run.weir" -p "$tap_dir/arena.yaml" -p "$tap_dir/uncached.yaml"
check_json "what_an_arena_serves_without_a_call_takes_time_all_the_same" \
    "(lambda c, u: c['hits'] > 0 and u['hits'] == 0 and u['stall'] > c['stall'])(*d[0]['policies'][1:3])"
# pairs LINE: a replay by a table that has this line alone.
pairs() {
    printf 'weir_costs: 1\ngpu: any\ndriver: 13.0\n%s' "$1" >"$tap_dir/pairs.yaml"
    exits 0 replay --json --costs="$tap_dir/pairs.yaml" "$tap_dir/run.weir" -p "$tap_dir/uncached.yaml"
}
stall() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0]["policies"][-1]["stall"])' "$out"
}
costs_of_pairs() {
    pairs '' && without=$(stall) && pairs 'pair_arena: 250ns
' && same=$(stall) && pairs 'pair_arena: 0ns
' && none=$(stall) && pairs 'pair_arena: 1us
' && dear=$(stall) && echo "$without $same $none $dear" &&
        [ "$without" -eq "$same" ] && [ "$same" -gt "$none" ] && [ $((dear - none)) -eq $((4 * (same - none))) ]
}
if have_python; then
    check "pairs_of_an_arena_cost_what_the_table_says_or_250_ns" costs_of_pairs
else
    skip "pairs_of_an_arena_cost_what_the_table_says_or_250_ns" "no python3"
fi

printf 'weir: 1\npools: { main: { devices: local } }\n' >"$tap_dir/local.yaml"
record_rank() {
    LOCAL_RANK=0 SLURM_LOCALID=1 WEIR_SIM=devices=2 WEIR_POLICY="$tap_dir/local.yaml" "$weir" record -o "$tap_dir/rank.weir" -- \
        "$top_builddir/tests/tools/steps" 2 64 512 40
}
check "rank_is_recorded" record_rank
check "rank_is_replayed_on_its_own_device" env LOCAL_RANK=nonsense "$weir" replay "$tap_dir/rank.weir"

printf 'weir: 1\npools: { main: { max_size: quota, small_below: 0 } }\n' >"$tap_dir/quota.yaml"
record_quota() {
    WEIR_QUOTA=800MiB WEIR_POLICY="$tap_dir/quota.yaml" "$weir" record -o "$tap_dir/quota.weir" -- \
        "$top_builddir/tests/tools/steps" 2 64 512 40
}
check "process_with_a_quota_is_recorded" record_quota
check "its_quota_is_in_force_in_its_replay" \
    env WEIR_QUOTA=64MiB CUDA_DEVICE_MEMORY_LIMIT=64m CUDA_DEVICE_MEMORY_LIMIT_0=x "$weir" replay --json "$tap_dir/quota.weir" -p "$tap_dir/policy.yaml"
check_json "and_it_is_to_the_byte" "d[0]['memory_error'] == 0 and d[0]['policies'][0]['refused'] == 0"

check "trace_of_level_pool_is_recorded" record "$tap_dir/pool.weir" pool
check "trace_of_level_pool_is_replayed" exits 0 replay "$tap_dir/pool.weir"
check "it_says_what_such_a_trace_cannot_tell" says "$out" "caches are off in all replays"

# Behind its middle the file has no end.
size=$(wc -c <"$tap_dir/run.weir")
head -c "$((size / 2))" "$tap_dir/run.weir" >"$tap_dir/cut.weir"
check "trace_that_was_cut_exits_1" exits 1 replay "$tap_dir/cut.weir"
check "replay_of_it_judges_nothing" says "$out" "cannot judge policies for this trace"
check "document_of_no_trace_exits_2" exits 2 replay --json missing.weir "$tap_dir/policy.yaml"
check "it_has_the_reasons_alone" is_empty "$err"
check_json "one_for_each_trace" "[e['message'].split(':')[0] for e in d['errors']] == ['missing.weir', '$tap_dir/policy.yaml'] and d['status'] == 2"
check "document_of_a_cut_trace_exits_1" exits 1 replay --json "$tap_dir/cut.weir"
check_json "document_says_so" "not d[0]['can_judge'] and d[0]['why_not']"

check "imported_log_is_replayed" exits 0 replay --json "$tap_dir/rmm.weir" -p "$tap_dir/policy.yaml"
check "what_a_log_does_not_tell_is_said" says "$err" "A log of RMM does not tell"
check_json "it_has_what_the_log_has" "d[0]['requests'] == 3 and d[0]['policies'][0]['peak_live'] == (1 << 30) + (32 << 20)"
printf 'weir_costs: 1\ngpu: any\ndriver: 13.0\ngrow: 100ms/GiB\n' >"$tap_dir/dear.yaml"
# What calls take on another machine than the recorded one is not held against the recording.
printf 'weir_costs: 1\ngpu: NVIDIA A1\nmalloc_async: 40us\n' >"$tap_dir/other-gpu.yaml"
check "costs_of_another_gpu_are_taken" exits 0 replay --costs="$tap_dir/other-gpu.yaml" "$tap_dir/run.weir"
check "it_says_that_times_do_not_compare" says "$out" "Times are not compared with those of the recording: it was made on simulated GPU 0, and" \
    "  Against the recording: peak memory 0.0 % off."
check "document_of_them_exits_0_as_well" exits 0 replay --json --costs="$tap_dir/other-gpu.yaml" "$tap_dir/run.weir"
check_json "error_of_times_is_none" "d[0]['stall_error'] is None and d[0]['memory_error'] == 0 and d[0]['can_judge']"
# Where there is no table of the GPU, the shipped one of the name that is most like it is taken.
cp "$tap_dir/other-gpu.yaml" "$WEIR_COSTS_DIR/nvidia-a1.yaml"
sed 's/NVIDIA A1/simulated hardware/' "$tap_dir/other-gpu.yaml" >"$WEIR_COSTS_DIR/simulated-hardware.yaml"
check "trace_of_an_unknown_gpu_is_replayed" exits 0 replay "$tap_dir/run.weir"
check "nearest_table_is_named" says "$out" \
    "Costs: $WEIR_COSTS_DIR/simulated-hardware.yaml, the nearest of the shipped tables, as there is none of simulated GPU 0 (weir calibrate makes one)."
check "imported_log_without_a_gpu_is_replayed" exits 0 replay "$tap_dir/rmm.weir" -p "$tap_dir/policy.yaml"
check "first_table_is_named" says "$out" "Costs: $WEIR_COSTS_DIR/nvidia-a1.yaml, the nearest of the shipped tables, as there is none of the recorded GPU"
rm "$WEIR_COSTS_DIR"/*

check "cost_table_is_taken" exits 0 replay --json --costs="$tap_dir/dear.yaml" "$tap_dir/rmm.weir" -p "$tap_dir/policy.yaml"
check_json "growth_costs_what_the_table_says" "100e6 < d[0]['policies'][0]['slow_stall'] < 120e6"

# A trace has what calls cost where it was recorded, if that was measured there.
with_cache() {
    XDG_CACHE_HOME="$tap_dir/measured" WEIR_SIM=grow=7ms/GiB,malloc_async=250ns "$@"
}
check "machine_is_measured" with_cache exits 0 calibrate
check "program_is_recorded_there" with_cache record "$tap_dir/costly.weir" all
check "it_is_replayed_elsewhere" exits 0 replay "$tap_dir/costly.weir"
check "costs_are_those_of_the_trace" says "$out" "Costs: the trace's own, as measured on simulated GPU 0."
check "it_is_replayed_with_a_document" exits 0 replay --json "$tap_dir/costly.weir"
check_json "document_has_their_origin" \
    "d[0]['costs_origin'] == 'recorded' and d[0]['costs'] is None and 'malloc_async=250ns' in d[0]['machine'] and 'grow=7ms/GiB' in d[0]['machine']"
# It was recorded with other costs.
check "trace_without_a_table_takes_the_cache" with_cache exits 1 replay --json "$tap_dir/run.weir"
check_json "which_is_said" "d[0]['costs_origin'] == 'measured' and d[0]['costs'].startswith('$tap_dir/measured/weir/')"
check "table_of_the_trace_goes_before_the_cache" with_cache exits 0 replay --json "$tap_dir/costly.weir"
check_json "and_that_is_said" "d[0]['costs_origin'] == 'recorded'"
cp "$tap_dir/measured/weir"/*.yaml "$tap_dir/mine.yaml"
check "named_table_goes_before_that_of_the_trace" exits 0 replay --json --costs="$tap_dir/mine.yaml" "$tap_dir/costly.weir"
check_json "and_that_is_said_too" "d[0]['costs_origin'] == 'named' and d[0]['costs'] == '$tap_dir/mine.yaml'"
# Beside kernels and other threads growing takes longer than alone, as it was measured.
on_a_busy_gpu() {
    XDG_CACHE_HOME="$tap_dir/measured" WEIR_SIM=grow=14ms/GiB,malloc_async=250ns,first_of_all=9ms "$@"
}
check "program_is_recorded_where_growing_takes_twice_as_long" on_a_busy_gpu record "$tap_dir/busy.weir" all
check "replay_of_it_can_judge" exits 0 replay "$tap_dir/busy.weir"
check "growing_takes_as_long_as_it_did" says "$out" "growing takes 2.00 times as long as in it, as it did in the recording."
check "it_is_replayed_with_a_document_too" exits 0 replay --json "$tap_dir/busy.weir"
check_json "first_growth_takes_as_long_as_it_did" "1.99 < d[0]['growth_factor'] < 2.01 and d[0]['stall_error'] < 0.01"
check "named_table_is_taken_as_it_is" exits 1 replay --json --costs="$tap_dir/mine.yaml" "$tap_dir/busy.weir"
check_json "and_learns_nothing" "d[0]['growth_factor'] == 1 and not d[0]['can_judge']"
check "policy_is_sought_by_the_costs_of_the_trace" exits 0 tune "$tap_dir/costly.weir"
check "which_stands_in_the_policy" says "$out" "# Costs: the trace's own, as measured on simulated GPU 0."

on_a_gpu() {
    WEIR_GPU=sim exits "$@"
}
check "replay_on_the_gpu_exits_0" on_a_gpu 0 replay --json --gpu "$tap_dir/run.weir"
check_json "it_comes_to_what_was_recorded" "d[0]['memory_error'] == 0 and d[0]['machine'] is None and d[0]['can_judge']"
check "costs_of_a_gpu_are_its_own" exits 2 replay --gpu --costs="$tap_dir/dear.yaml" "$tap_dir/run.weir"

check "policy_that_is_wrong_exits_1" exits 1 replay "$tap_dir/run.weir" -p "$tap_dir/wrong.yaml"
check "its_error_has_place_and_remedy" says "$err" "wrong.yaml:2:"
check "policy_that_is_missing_exits_2" exits 2 replay "$tap_dir/run.weir" -p "$tap_dir/none.yaml"
check "trace_that_is_missing_exits_2" exits 2 replay "$tap_dir/none.weir"
check "what_is_no_trace_exits_2" exits 2 replay "$tap_dir/policy.yaml"
check "without_a_trace_exits_2" exits 2 replay
done_testing
