#!/bin/sh
# SPDX-License-Identifier: MIT
# The section neighbours of weir-bench, with its other processes, on the simulator: every figure is there, and those that are not times are as
# they have to be. What the others say means nothing there.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

bench=${top_builddir:-.}/bench/weir-bench
json=$tap_dir/neighbours.json

measures() {
    # 1: a figure misses what is asked of a GPU.
    WEIR_GPU=sim WEIR_SIM=name=bench-$$ timeout 1200 "$bench" --quick --rounds=3 --json "$json" neighbours >"$tap_dir/out" 2>&1 ||
        [ $? -eq 1 ] || { sed 's/^/# /' "$tap_dir/out"; false; }
}

check "section_runs_across_processes" measures
for figure in "rescue: neighbour's part" 'rescue: of its part' 'rounds of two workers' 'first round that fails' 'a cached pair' \
    'a second in which nobody asks' 'weir ps with 20 live processes'; do
    check "has_figure_$(echo "$figure" | tr -c 'a-z0-9\n' _)" grep -q "\"section\": \"neighbours\", .*$figure" "$json"
done
check "no_figure_is_without_samples" sh -c "test -s '$json' && ! grep -q '\"values\": \[\]' '$json'"
check "two_workers_are_always_served" grep -q 'rounds of two workers.*"reached": true' "$json"
check "raw_pools_fail_in_the_first_round" grep -q 'first round that fails.*"value": 1.0' "$json"
check "nobody_asks_and_nothing_wakes_up" grep -q 'a second in which nobody asks.*"reached": true' "$json"
done_testing
