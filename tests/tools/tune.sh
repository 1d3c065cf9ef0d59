#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir tune`: it finds what was planted, says what is true of it, and refuses what it cannot judge.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
printf 'weir_costs: 1\ngpu: simulated GPU 0\n' >"$WEIR_COSTS_DIR/simulated-gpu-0.yaml" # where nothing was measured, the simulator's own
unset WEIR_SIM WEIR_CONF

record() {
    WEIR_POLICY="$1" "$weir" record -o "$2" --level "$3" -- "$top_builddir/tests/tools/steps" 60 64 512 40
}

lacks() {
    ! grep -q -e "$2" "$1"
}

# Each step gives 512 MiB back and takes them again: without a threshold that costs growth and trims, which no policy below 576 MiB spares.
printf 'weir: 1\npools: { main: { release_threshold: 0, cache: off, small_below: 0 } }\n' >"$tap_dir/cuda.yaml"
printf 'weir: 1\npools: { main: { max_size: many } }\n' >"$tap_dir/wrong.yaml"
check "program_is_recorded" record "$tap_dir/cuda.yaml" "$tap_dir/run.weir" all

check "policy_for_time_is_found" exits 0 tune --json --for=time "$tap_dir/run.weir"
check_json "it_spares_nine_tenths_of_the_stalls" "10 * d['chosen']['stall'] < d['in_force']['stall']"
check_json "it_spares_them_on_what_was_kept_aside_as_well" "10 * d['kept_aside_chosen']['stall'] < d['kept_aside_in_force']['stall']"
check_json "its_threshold_holds_what_a_step_takes" \
    "all(t['release_threshold'] >= 512 << 20 for p in d['pools'] for t in p['front'] if t['is_chosen'])"
check_json "nothing_on_the_front_takes_less_time" \
    "all(t['figures']['stall'] >= d['chosen']['stall'] for p in d['pools'] for t in p['front'])"
check_json "one_policy_is_chosen" "sum(t['is_chosen'] for p in d['pools'] for t in p['front']) == 1"
check_json "none_on_the_front_beats_another" \
    "all(a['figures']['stall'] > b['figures']['stall'] for p in d['pools'] for a, b in zip(p['front'], p['front'][1:]))"
cp "$out" "$tap_dir/first"
check "it_is_found_again" exits 0 tune --json --for=time "$tap_dir/run.weir"
check "same_trace_gives_the_same_answer" cmp "$out" "$tap_dir/first"

check "policy_for_memory_is_found" exits 0 tune --json --for=memory "$tap_dir/run.weir"
check_json "nothing_on_the_front_takes_less_memory" \
    "all(t['figures']['peak_reserved'] >= d['chosen']['peak_reserved'] for p in d['pools'] for t in p['front'])"
check_json "it_takes_no_more_than_is_live_and_a_step_of_growth" "d['chosen']['peak_reserved'] <= (576 + 32) << 20"

check "policy_is_written" exits 0 tune "$tap_dir/run.weir" -o "$tap_dir/found.yaml"
check "front_is_shown" says "$out" "what no other policy beats"
check "gain_over_cuda_is_said" says "$out" "Against CUDA's defaults:"
check "what_was_kept_aside_is_said" says "$out" "which was kept aside"
check "values_have_reasons" grep -q '# .* would ' "$tap_dir/found.yaml"
check "recording_is_no_part_of_it" lacks "$tap_dir/found.yaml" 'file: '
check "policy_is_one" exits 0 check "$tap_dir/found.yaml"
check "its_replay_exits_0" exits 0 replay --json "$tap_dir/run.weir" -p "$tap_dir/found.yaml"
check_json "its_replay_is_better_than_what_was_recorded" \
    "d[0]['policies'][1]['stall'] < d[0]['policies'][0]['stall'] / 5 and d[0]['policies'][1]['refused'] == 0"
check "file_that_is_there_stays" exits 2 tune "$tap_dir/run.weir" -o "$tap_dir/found.yaml"
check "it_is_said_before_the_search" test ! -s "$out"
check "file_that_cannot_be_made_exits_2" exits 2 tune "$tap_dir/run.weir" -o "$tap_dir/none/found.yaml"
check "that_is_said_before_the_search_as_well" test ! -s "$out"
ln -s none/found.yaml "$tap_dir/link.yaml"
check "link_is_left_alone" exits 2 tune "$tap_dir/run.weir" -o "$tap_dir/link.yaml"
check "link_is_found_before_the_search" test ! -s "$out"
check "file_without_a_name_exits_2" exits 2 tune "$tap_dir/run.weir" -o ""
check "no_name_is_found_before_the_search" test ! -s "$out"

check "bound_of_memory_is_kept" exits 0 tune --json --memory=1GiB "$tap_dir/run.weir"
check_json "it_stands_in_the_policy" "'max_size: 1GiB' in d['policy']"
check "bound_below_what_the_program_needs_is_tried_all_the_same" exits 0 tune --json --memory=256MiB "$tap_dir/run.weir"
check_json "and_requests_are_refused" "d['chosen']['refused'] > 0"
check_json "how_many_is_said" "d['policy'].count('{:,} requests refused'.format(d['chosen']['refused'])) == 1"
check_json "cuda_without_a_cap_is_not_compared_with_it" "'CUDA' not in d['policy']"
# Sixteen blocks of 96 MiB are taken, every other one is freed, and six of 128 MiB fit into none of the holes: 1.5 GiB are live at most. Without a
# bound 2.3 GiB are reserved, as no free was seen to end; under one recovery sees to that, and CUDA takes the holes apart.
holes=$top_srcdir/tests/tools/holes.weir
printf 'weir: 1\npools: { main: { current: true } }\n' >"$tap_dir/own.yaml"
check "tighter_bound_is_found" exits 0 tune --json --memory=4GiB --for=memory "$holes" -p "$tap_dir/own.yaml"
check_json "it_is_an_eighth_above_what_is_live" "'max_size: 1728MiB' in d['policy'] and d['chosen']['peak_reserved'] <= 1728 << 20"
check_json "nothing_is_refused_for_it" "d['chosen']['refused'] == 0"
check_json "it_has_its_reason" "'# no other value that was tried takes less memory or less time.\\n    max_size: 1728MiB' in d['policy']"
check_json "no_bound_is_above_what_was_given" "all(0 < t['max_size'] <= 4 << 30 for p in d['pools'] for t in p['front'])"
check "time_is_spared_by_the_bound_that_was_given" exits 0 tune --memory=4GiB --for=time "$holes" -p "$tap_dir/own.yaml"
check "bounds_are_in_the_list" says "$out" "INITIAL  MAX SIZE"
check "it_stays" says "$out" "    max_size: 4GiB"
check "without_one_none_is_proposed" exits 0 tune --json --for=memory "$holes" -p "$tap_dir/own.yaml"
check_json "and_the_pool_has_its_holes" "'max_size' not in d['policy'] and d['chosen']['peak_reserved'] > 2 << 30"

# Calls of the driver are not free: without a table of the GPU one like it is taken, and that is said; without any nothing is found.
without_tables() {
    WEIR_COSTS_DIR=$tap_dir/none exits "$@"
}
check "trace_without_costs_exits_1" without_tables 1 tune "$tap_dir/run.weir" -o "$tap_dir/free.yaml"
check "it_says_how_to_have_some" says "$err" "there is no cost table, and calls of the driver are not free: make one with 'weir calibrate', or name one"
check "no_policy_is_written" test ! -e "$tap_dir/free.yaml"
mkdir "$tap_dir/of-another"
printf 'weir_costs: 1\ngpu: NVIDIA A1\nmalloc_async: 5us\n' >"$tap_dir/of-another/nvidia-a1.yaml"
with_another() {
    WEIR_COSTS_DIR=$tap_dir/of-another exits "$@"
}
check "costs_of_another_gpu_are_taken" with_another 0 tune "$tap_dir/run.weir"
check "policy_says_so" says "$out" "# Costs: $tap_dir/of-another/nvidia-a1.yaml, the nearest of the shipped tables, as there is none of simulated GPU 0"

check "bound_that_is_no_size_exits_2" exits 2 tune --memory=much "$tap_dir/run.weir"

# The simulator stands for a GPU here, at first with the costs that the replays were predicted with.
with_sim() {
    sim=$1
    shift
    WEIR_SIM=$sim exits "$@"
}
# A block of an arena takes the simulator, as the GPU that measures, no time; nor shall the question whether a stream captures, as in replays.
printf 'weir_costs: 1\ngpu: any\ndriver: 13.0\npair_arena: 0ns\n' >"$tap_dir/costs.yaml"
check "what_was_found_is_measured" with_sim stream_capture_status=0us 0 tune --json --verify --for=time --costs="$tap_dir/costs.yaml" "$tap_dir/run.weir"
check_json "its_rivals_are_measured_as_well" \
    "[p['policy'] for p in d['verified']['policies']] == ['chosen', 'as recorded', 'next best'] and d['verified']['is_measured']"
check_json "same_machine_has_what_was_predicted" \
    "all(p['predicted_peak'] == p['measured_peak']['median'] and p['predicted_stall'] == p['measured_stall']['median']
         for p in d['verified']['policies'])"
check_json "then_the_order_is_the_predicted_one" "d['verified']['other_order'] is None and 'measured order' not in d['policy']"
check_json "policy_has_what_was_measured_in_place_of_a_warning" "'Measured on the GPU' in d['policy'] and 'before you rely' not in d['policy']"
check "machine_with_other_costs_is_measured" with_sim malloc_async=1us 0 tune --verify --for=time "$tap_dir/run.weir"
check "other_order_is_said" says "$out" "  The measured order is not the predicted one: 'next best' waits less than 'chosen'."
check "it_stands_in_the_policy_as_well" says "$out" "# The measured order is not the predicted one:"
check "predicted_stands_beside_measured" says "$out" "PEAK PREDICTED  MEASURED  STALL PREDICTED  MEASURED"
check "machine_without_a_gpu_measures_nothing" with_sim devices=0 1 tune --verify "$tap_dir/run.weir"
check "it_says_why_and_what_to_do" says "$err" "cannot be replayed on the GPU here: no usable GPU" "Leave --verify away"
check "it_searches_nothing" test ! -s "$out"
check "policy_that_cannot_be_measured_exits_1" with_sim memory=128MiB 1 tune --json --verify --for=time "$tap_dir/run.weir"
check_json "why_is_said" "not d['verified']['is_measured'] and not d['verified']['policies'][0]['is_measured'] and d['verified']['policies'][0]['why']"
check_json "requests_that_found_no_memory_are_counted" "d['verified']['policies'][1]['refused'] > 0"
check_json "policy_is_there_all_the_same" "'It could not be measured on the GPU.' in d['policy']"

check "part_that_was_searched_is_named" exits 0 tune "$tap_dir/run.weir"
check "with_the_whole" says "$out" "from the first 2,242 of 3,361 requests of"
check "document_has_both" exits 0 tune --json "$tap_dir/run.weir"
check_json "numbers_are_of_the_trace" "d['requests'] == 3361 and d['requests_searched'] == 2242"

check "trace_of_level_pool_is_recorded" record "$tap_dir/cuda.yaml" "$tap_dir/pool.weir" pool
check "trace_of_level_pool_exits_1" exits 1 tune "$tap_dir/pool.weir"
check "it_says_how_to_record" says "$err" "--level=all"
size=$(wc -c <"$tap_dir/run.weir")
head -c "$((size / 2))" "$tap_dir/run.weir" >"$tap_dir/cut.weir"
check "trace_that_was_cut_exits_1" exits 1 tune "$tap_dir/cut.weir"
check "it_says_why" says "$err" "cannot judge"
check "it_exits_1_with_a_policy_of_the_users_too" exits 1 tune "$tap_dir/cut.weir" -p "$tap_dir/cuda.yaml"
check "and_says_why" says "$err" "cannot judge"
check "policy_that_is_wrong_exits_1" exits 1 tune "$tap_dir/run.weir" -p "$tap_dir/wrong.yaml"
check "goal_that_is_none_exits_2" exits 2 tune "$tap_dir/run.weir" --for=speed
check "what_is_no_trace_exits_2" exits 2 tune "$tap_dir/cuda.yaml"
done_testing
