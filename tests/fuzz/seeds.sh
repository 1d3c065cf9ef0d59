# SPDX-License-Identifier: MIT
# Runs the seed corpora, and the policies of the unit tests, through the fuzz entries.
# shellcheck shell=sh
: "${top_srcdir:?is set by make check}" "${top_builddir:?is set by make check}"
echo "1..7"

# run NUMBER NAME PROGRAM FILES…: one fact.
run() {
    number=$1 name=$2 program=$top_builddir/tests/fuzz/$3
    shift 3
    failed=
    "$program" "$@" >&2 || {
        failed=' together, and of them alone:'
        for file; do
            "$program" "$file" >&2 || failed="$failed $file"
        done
    }
    if [ -z "$failed" ] && [ "$#" -gt 10 ]; then
        echo "ok $number - $name # $# files"
    else
        echo "not ok $number - $name #$failed"
    fi
}

run 1 no_seed_breaks_the_parser policy_corpus "$top_srcdir"/tests/fuzz/corpus/policy/* "$top_srcdir"/tests/unit/policies/*/*.yaml
run 2 no_seed_breaks_the_codec wire_corpus "$top_srcdir"/tests/fuzz/corpus/wire/*
run 3 no_seed_breaks_the_arena arena_corpus "$top_srcdir"/tests/fuzz/corpus/arena/*
run 4 no_seed_breaks_the_reader_of_traces trace_corpus "$top_srcdir"/tests/fuzz/corpus/trace/*
run 5 no_seed_breaks_a_replay replay_corpus "$top_srcdir"/tests/fuzz/corpus/trace/*
run 6 no_seed_breaks_the_reader_of_figures figures_corpus "$top_srcdir"/tests/fuzz/corpus/figures/*
traces=100
[ -z "${WEIR_TEST_NIGHTLY-}" ] || traces=5000
if "$top_builddir/tests/fuzz/replay_corpus" --mutate 1 "$traces" >&2; then
    echo "ok 7 - no_trace_that_was_made_at_random_breaks_a_replay"
else
    echo "not ok 7 - no_trace_that_was_made_at_random_breaks_a_replay"
fi
