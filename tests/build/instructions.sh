#!/bin/sh
# SPDX-License-Identifier: MIT
# Instructions that a cached pair takes, counted by callgrind on the simulator: the same on every run, so a slower path shows without a GPU.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

# The bounds, in instructions per pair of weir_stream_malloc and weir_stream_free. With the capture check the simulator's answer is counted.
bound_unchecked=150
bound_checked=150

short=10000 long=20000
count=$top_builddir/bench/weir-count
command -v valgrind >/dev/null || skip_all "valgrind is missing: install it"
[ -x "$count" ] || skip_all "bench/weir-count was not built"
# Pairs that no cache serves are an error of the check itself; a build that is no measure for a real one is none.
"$count" 1 unchecked 2>"$tap_dir/why"
[ $? -ne 77 ] || skip_all "$(cat "$tap_dir/why")"
# valgrind has little address space, and a simulated pool reserves a multiple of its device's memory.
WEIR_SIM=memory=1GiB
export WEIR_SIM

# instructions PAIRS MODE: all of one run.
instructions() {
    valgrind -q --tool=callgrind --callgrind-out-file="$tap_dir/callgrind" "$count" "$1" "$2" >&2 || return
    sed -n 's/^totals: \([0-9]*\)$/\1/p' "$tap_dir/callgrind"
}

# pair MODE BOUND: what the additional pairs of the longer run take.
pair() {
    few=$(instructions $short "$1") && many=$(instructions $long "$1") && [ -n "$few" ] && [ -n "$many" ] || return
    each=$(((many - few) / (long - short)))
    echo "$1: $each instructions for a cached pair, at most $2 asked"
    [ "$each" -le "$2" ]
}

check "cached_pair_without_capture_check_takes_few_instructions" pair unchecked $bound_unchecked
sed 's/^/# /' "$tap_dir/output"
check "cached_pair_with_capture_check_takes_few_instructions" pair checked $bound_checked
sed 's/^/# /' "$tap_dir/output"
done_testing
