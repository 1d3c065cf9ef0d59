#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/unaware, recorded as they are: frees that wait, and an allocator that keeps its segments. On a driver of the tests' own, whose kernels
# take as long as they are told.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
drivers=${weir%/tools/weir}/tests/audit/.libs programs=${weir%/tools/weir}/tests/tools
[ -e "$programs/unaware-frees" ] || skip_all "this build has no CUDA toolkit, whose headers the programs want"
[ -e "$drivers/libcuda.so.1" ] || skip_all "this build records no programs that know nothing of Weir"

# record NAME ARGUMENT…: records one of the programs with stacks; what it prints goes to NAME.out.
record() {
    name=$1
    shift
    LD_LIBRARY_PATH=$drivers RUNTIME_MS=100 STANDIN_MEMORY=85899345920 \
        "$weir" record --any --stacks -o "$tap_dir/$name.weir" -- "$programs/unaware-$name" "$@" >"$tap_dir/$name.out" 2>"$err"
}

check "program_whose_frees_wait_is_recorded" record frees 8 1
check "its_own_output_is_whole" grep -q -E '^8 steps in [0-9.]+ s, [0-9.]+ s of them in cudaFree$' "$tap_dir/frees.out"
check "waits_exit_0" exits 0 trace waits --json "$tap_dir/frees.weir"
# A kernel runs for 100 ms: a free behind it is late only where the machine took that long to get there.
waits="[w for w in d['files'][0]['waits'] if w['kind'] == 'held' and w['call'] == 'cudaFree' and w['pool'] == 'cudaMalloc']"
check_json "frees_waited" "4 <= ${waits}[0]['count'] <= 9"
own=$(sed -n 's/.* \([0-9.]*\) s of them in cudaFree$/\1/p' "$tap_dir/frees.out")
check_json "they_took_no_longer_than_by_the_program_s_own_clock" "0.2 < sum(w['ns'] for w in $waits) / 1e9 <= ${own:-0} + 0.1"
check_json "where_they_waited_is_known" "${waits}[0]['places'][0]['place'].split('+')[0].split()[0] in ('step', 'unaware-frees')"
check "replay_exits_0" exits 0 replay "$tap_dir/frees.weir"
check "no_free_would_wait" grep -q -E 's of [4-9] frees that waited: none under' "$out"

check "program_with_segments_is_recorded" record segments
check "its_allocator_gave_back_what_it_kept" says "$tap_dir/segments.out" "the large one freed: 2 MiB in use, 61440 MiB kept" \
    "refused 71680 MiB, gives back what it keeps" "a larger one taken: 71682 MiB in use, 0 MiB kept"
check "summary_exits_0" exits 0 trace "$tap_dir/segments.weir"
check "refusal_is_in_it" says "$out" "1 at the device"
check "who_had_the_memory_is_known" exits 1 trace why "$tap_dir/segments.weir"
check "segments_that_are_kept_count_as_live" says "$out" "had no 70 GiB" "60 GiB were live" "keeps for later counts as live"
check "replay_of_segments_exits_0" exits 0 replay --json "$tap_dir/segments.weir"
check_json "a_policy_does_not_change_what_the_allocator_keeps" "d[0]['recorded']['refused'] == 1 and d[0]['policies'][0]['newly_served'] == 0"
done_testing
