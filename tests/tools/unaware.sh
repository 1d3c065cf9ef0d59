#!/bin/sh
# SPDX-License-Identifier: MIT
# Traces of programs that know nothing of Weir: which of their calls waited, what they would have waited for on Weir, and who had memory where
# there was none.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
unset WEIR_SIM WEIR_CONF

traces_are_made() {
    for what in waits torch full host managed empty; do
        "$top_builddir/tests/tools/unaware" "$what" "$tap_dir/$what.weir" || return 1
    done
}
check "traces_are_made" traces_are_made

# Waits.
check "waits_exit_0" exits 0 trace waits "$tap_dir/waits.weir"
check "frees_that_waited_have_a_row" row cudaMalloc cudaFree 212 "4.03 s" "19.0 ms" "636 MiB"
check "those_of_other_memory_have_one_of_their_own" row managed cudaFree 1 "20.0 ms"
check "host_allocations_have_one" row host cudaHostAlloc 1 "30.0 ms"
# The lines of the source are known where the build has libdw.
at='unaware\+0x[0-9a-f]+'
! grep -q '^#define HAVE_LIBDW 1' "$top_builddir/config.h" || at='train_step \(.*unaware\.c:[0-9]+\)'
check "where_most_were_is_said" grep -q -E "^  cudaFree held the host up 212 times, 4.03 s, most at $at; pool cudaMalloc\.$" "$out"
check "document_of_waits_exits_0" exits 0 trace waits --json "$tap_dir/waits.weir"
check_json "document_has_the_sums" "[(w['call'], w['pool'], w['count'], w['ns'], [p['count'] for p in w['places']]) for w in d['files'][0]['waits'][1:]] == \
    [('cudaFree', 'cudaMalloc', 212, 4028000000, [159, 53]), ('cudaFree', 'managed', 1, 20000000, [1]), ('cudaHostAlloc', 'host', 1, 30000000, [1])]"
check_json "document_has_the_places" "__import__('re').fullmatch(r'$at', d['files'][0]['waits'][1]['places'][0]['place'])"
check_json "frames_of_cuda_are_in_the_stack_alone" "d['files'][0]['waits'][1]['places'][0]['stack'][0].startswith('libcudart.so.12+')"
check_json "pools_are_said_to_be_the_program_s_own" "all(w['is_unaware'] and w['kind'] == 'held' for w in d['files'][0]['waits'][1:])"
check "events_exit_0" exits 0 trace events "$tap_dir/waits.weir"
check "events_name_the_call" says "$out" "cudaFree took 19.0 ms" "cudaHostAlloc took 30.0 ms"
check "summary_exits_0" exits 0 trace "$tap_dir/waits.weir"
check "it_counts_such_calls" says "$out" "Calls that held the program up: 214; 'weir trace waits' has their times."
check "segments_are_not_spoken_of_without_torch" says_not "$out" "PyTorch"
check "summary_of_a_program_with_torch_exits_0" exits 0 trace "$tap_dir/torch.weir"
check "its_segments_are_named_with_the_remedies" says "$out" "PyTorch's own allocator" "python3 -m weir.trace import" "weir run"
check "trace_without_such_calls_exits_0" exits 0 trace waits "$tap_dir/empty.weir"
check "nothing_waited_is_said" says "$out" "Nothing waited"

# What Weir would have done. The device's pool of the program is called as one of the policy, which does not serve it for that.
policy small.yaml <<'END'
weir: 1
defaults: { pool: main }
pools: { main: { small_below: 0 }, default: { max_size: 32MiB, small_below: 0 } }
END
check "replay_exits_0" exits 0 replay "$tap_dir/waits.weir" --policy="$tap_dir/small.yaml"
check "waits_of_frees_are_said_to_be_none" says "$out" "4.03 s of 212 frees that waited: none under $tap_dir/small.yaml; peak reserved 32 MiB instead of 40 MiB."
check "recording_has_its_waits_and_its_granules" row '\(recording\)' "40 MiB" "4.03 s"
check "missing_streams_are_said" says "$out" "Which streams used blocks of cudaMalloc is not known: 252 requests are replayed on one."
check "times_are_said" says "$out" "The GPU works as long as before"
check "what_is_left_out_is_said" says "$out" "requests of host memory (2), managed memory (1), mapped memory (1)." \
    "2 calls for such memory waited 50.0 ms, and would on Weir."
check "pools_of_the_program_are_not_missed" says_not "$out" "that this policy does not have"
check "it_can_judge" says_not "$out" "cannot judge"
check "document_of_the_replay_exits_0" exits 0 replay --json "$tap_dir/waits.weir" --policy="$tap_dir/small.yaml"
check_json "document_has_what_was_left_out" "d[0]['unaware'] == {'frees': 212, 'free_time': 4028000000, 'kept': 2, 'kept_time': 50000000, \
    'homeless': 252, 'host': 2, 'managed': 1, 'mapped': 1, 'has_segments': False}"
check_json "recording_has_what_devices_had" "d[0]['recorded']['peak_reserved'] == 40 << 20 and d[0]['recorded']['slow_stall'] == 4028000000"
check_json "nothing_is_refused_or_unknown" "d[0]['can_judge'] and d[0]['unknown_frees'] == 0 and d[0]['has_caches'] and d[0]['requests'] == 253 and \
    d[0]['policies'][0]['refused'] == 0 and d[0]['policies'][0]['stall'] < 10**9"
check "synchronises_of_the_program_are_replayed" exits 0 replay "$tap_dir/waits.weir"
check "thresholds_are_not_said_to_do_nothing" says_not "$out" "synchronises through Weir"
check "replay_of_segments_exits_0" exits 0 replay "$tap_dir/torch.weir"
check "its_segments_are_named_there_too" says "$out" "PyTorch's own allocator" "python3 -m weir.trace import" "weir run"
check "trace_of_weir_is_replayed" exits 0 replay --json "$top_srcdir/examples/traces/generation.weir"
check_json "its_program_knows_of_weir" "d[0]['unaware'] is None"
check "tune_exits_0" exits 0 tune --costs="$top_srcdir/config/costs/nvidia-h200.yaml" "$tap_dir/waits.weir"
check "it_says_what_it_assumes" says "$out" "# 4.03 s of 212 frees that waited: none under this policy." "# Which streams used blocks of cudaMalloc is not known"
check "document_of_tune_exits_0" exits 0 tune --json --costs="$top_srcdir/config/costs/nvidia-h200.yaml" "$tap_dir/waits.weir"
check_json "it_has_the_same" "d['unaware']['frees'] == 212 and d['pools'][0]['pool'] == 'default'"

# Memory that did not come.
check "why_exits_1_as_no_policy_was_recorded" exits 1 trace why "$tap_dir/full.weir"
check "who_had_memory_is_said" says "$out" "pool cudaMalloc had no 70 GiB" "60 GiB were live" "60 GiB (100.0 %) in 1 block" "held by the pools 60 GiB"
check "own_allocators_are_thought_of" says "$out" "What an allocator of the program's own keeps for later counts as live."
check "replay_is_named" says "$out" "weir replay --policy=FILE"
check "why_of_host_memory_exits_1" exits 1 trace why "$tap_dir/host.weir"
check "the_host_is_said_to_have_had_no_more" says "$out" "pool host had no 1 GiB for stream 0x0: the host had no more memory."
check "no_replay_is_named_for_memory_that_none_serves" says_not "$out" "weir replay"
check "why_none_can_tell_is_said" says "$out" "no pool of a device serves such memory"
check "why_of_managed_memory_exits_1" exits 1 trace why "$tap_dir/managed.weir"
check "the_device_is_not_said_to_be_too_small_for_it" says_not "$out" "GiB of the device" "left to the pools"
check "where_such_memory_goes_is_said" says "$out" "for stream 0x0: the driver gave no more." "Managed memory goes to the host where the device is full"
check "refusal_is_replayed" exits 0 replay --json "$tap_dir/full.weir"
check_json "it_is_refused_on_weir_too_while_60_gib_are_live" "d[0]['recorded']['refused'] == 1 and d[0]['policies'][0]['newly_served'] == 0"
done_testing
