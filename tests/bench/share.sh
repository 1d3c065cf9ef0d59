#!/bin/sh
# SPDX-License-Identifier: MIT
# The section share of weir-bench, with its four other processes, on the simulator: every figure is there. What they say means nothing there.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

bench=${top_builddir:-.}/bench/weir-bench
# Half a minute there, for threads and processes that tests/share has too.
[ -n "${WEIR_TEST_NIGHTLY-}" ] || ! grep -q '^WEIR_CFLAGS = .*-fsanitize=thread' "${top_builddir:-.}/Makefile" ||
    skip_all "with the thread sanitizer only where WEIR_TEST_NIGHTLY is set"
json=$tap_dir/share.json

measures() {
    # 1: a figure misses what is asked of a GPU.
    WEIR_GPU=sim WEIR_SIM=name=bench-$$ timeout 1200 "$bench" --quick --json "$json" share >"$tap_dir/out" 2>&1 || [ $? -eq 1 ] ||
        { sed 's/^/# /' "$tap_dir/out"; false; }
}

refuses_cuda() {
    ! WEIR_GPU=sim "$bench" pairs >"$tap_dir/refused" 2>&1 && grep -q 'pairs: calls CUDA itself' "$tap_dir/refused"
}

check "section_runs_across_processes" measures
for figure in 'first import of a ' 'connecting' 'hand-over of a known block: push to lease' 'lease of a known block by its name' \
    'untouched, 1 consumer"' 'untouched, 4 consumers' 'written and read, 1 consumer"'; do
    check "has_figure_$(echo "$figure" | tr -c 'a-z0-9\n' _)" grep -q "\"section\": \"share\", .*$figure" "$json"
done
check "no_figure_is_without_samples" sh -c "test -s '$json' && ! grep -q '\"values\": \[\]' '$json'"
check "section_that_calls_cuda_is_refused_on_the_simulator" refuses_cuda
done_testing
