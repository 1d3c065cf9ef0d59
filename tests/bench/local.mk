## SPDX-License-Identifier: MIT
## What of weir-bench needs no GPU.
bench_tests = tests/bench/arguments tests/bench/output tests/bench/sequence
check_PROGRAMS += $(bench_tests)
TESTS += $(bench_tests)

tests_bench_arguments_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_arguments_LDADD = bench/libbench.la tests/support/libsuite.la
tests_bench_output_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_output_LDADD = bench/libbench.la tests/support/libsuite.la
tests_bench_sequence_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_sequence_LDADD = bench/libbench.la tests/support/libsuite.la
