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
    for what in waits torch full empty; do
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
check "where_most_were_is_said" grep -q -E "^  cudaFree held the host up 213 times, 4.05 s, most at $at\.$" "$out"
check "document_of_waits_exits_0" exits 0 trace waits --json "$tap_dir/waits.weir"
check_json "document_has_the_sums" "[(w['call'], w['pool'], w['count'], w['ns'], [p['count'] for p in w['places']]) for w in d['files'][0]['waits']] == \
    [('cudaFree', 'cudaMalloc', 212, 4028000000, [159, 53]), ('cudaFree', 'managed', 1, 20000000, [1]), ('cudaHostAlloc', 'host', 1, 30000000, [1])]"
check_json "document_has_the_places" "__import__('re').fullmatch(r'$at', d['files'][0]['waits'][0]['places'][0]['place'])"
check_json "frames_of_cuda_are_in_the_stack_alone" "d['files'][0]['waits'][0]['places'][0]['stack'][0].startswith('libcudart.so.12+')"
check_json "pools_are_said_to_be_the_program_s_own" "all(w['is_unaware'] and w['kind'] == 'held' for w in d['files'][0]['waits'])"
check "events_exit_0" exits 0 trace events "$tap_dir/waits.weir"
check "events_name_the_call" says "$out" "cudaFree took 19.0 ms" "cudaHostAlloc took 30.0 ms"
check "summary_exits_0" exits 0 trace "$tap_dir/waits.weir"
check "it_counts_such_calls" says "$out" "Calls that held the program up: 214; 'weir trace waits' has their times."
check "segments_are_not_spoken_of_without_torch" says_not "$out" "PyTorch"
check "summary_of_a_program_with_torch_exits_0" exits 0 trace "$tap_dir/torch.weir"
check "its_segments_are_named_with_the_remedies" says "$out" "PyTorch's own allocator" "python3 -m weir.trace import" "weir run"
check "trace_without_such_calls_exits_0" exits 0 trace waits "$tap_dir/empty.weir"
check "nothing_waited_is_said" says "$out" "Nothing waited"
done_testing
