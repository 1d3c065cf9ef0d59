#!/bin/sh
# SPDX-License-Identifier: MIT
# The sections of weir-bench that stand beside those of RMM, on the simulator without it: every figure is there, and what an arena keeps
# mapped is as it has to be. What times say means nothing there.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

bench=${top_builddir:-.}/bench/weir-bench
json=$tap_dir/rivals.json

measures() {
    # 1: a figure misses what is asked of a GPU.
    WEIR_GPU=sim WEIR_SIM=memory=64GiB,devices=2 timeout 1200 "$bench" --quick --json "$json" rmm-pairs grow pages full comb pinned sleep >"$tap_dir/out" 2>&1 ||
        [ $? -eq 1 ] || { sed 's/^/# /' "$tap_dir/out"; false; }
}

refuses_rmm() {
    ! WEIR_GPU=sim "$bench" --rmm "$tap_dir/none.so" grow >"$tap_dir/refused" 2>&1 && grep -q -- '--rmm: .*none.so' "$tap_dir/refused"
}

takes_some_rows_alone() {
    WEIR_GPU=sim WEIR_SIM=memory=64GiB "$bench" --quick --only '16 MiB,' --json "$tap_dir/only.json" rmm-pairs >"$tap_dir/out" 2>&1 &&
        [ "$(grep -c '"name": "16 MiB, a hot pair' "$tap_dir/only.json")" -eq 2 ] && ! grep -q '"name": "[^"]*GiB, a hot pair' "$tap_dir/only.json"
}

refuses_rows_that_are_not_there() {
    ! WEIR_GPU=sim WEIR_SIM=memory=64GiB "$bench" --quick --only '17 MiB' rmm-pairs >"$tap_dir/refused" 2>&1 && grep -q '17 MiB: no row begins so' "$tap_dir/refused"
}

check "sections_run" measures
for figure in '64 KiB, a hot pair, weir, arena' '1 GiB, a hot pair, weir"' 'by 1 GiB, idle, weir, arena' 'while a kernel runs, weir' \
    'with one peer, weir, arena' 'MiB are out, weir, arena' '1 GiB in pages of 2 MiB, 0 B mapped' 'GiB given up, a wake'; do
    check "has_figure_$(echo "$figure" | tr -c 'a-zA-Z0-9\n' _)" grep -q "\"name\": \"[^\"]*$figure" "$json"
done
check "no_figure_is_without_samples" sh -c "test -s '$json' && ! grep -q '\"values\": \[\]' '$json'"
check "an_arena_keeps_little_beside_small_blocks" grep -q 'x 64 KiB live between 24 MiB, after a trim, weir, arena.*"reached": true' "$json"
check "an_arena_keeps_little_beside_blocks_between_larger_ones" grep -q 'x 4 MiB live between 24 MiB, after a trim, weir, arena.*"reached": true' "$json"
for sizes in '2 to 16' '8 to 64' '4 to 400'; do
    check "an_arena_strands_little_in_a_comb_of_$(echo "$sizes" | tr ' ' _)_mib" grep -q "stranded in a comb of $sizes MiB, weir, arena\".*\"reached\": true" "$json"
done
check "a_library_that_is_not_there_is_named" refuses_rmm
check "rows_are_chosen_by_how_their_names_begin" takes_some_rows_alone
check "rows_that_are_not_there_are_named" refuses_rows_that_are_not_there
done_testing
