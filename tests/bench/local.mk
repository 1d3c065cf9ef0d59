## SPDX-License-Identifier: MIT
## What of weir-bench needs no GPU.
bench_tests = tests/bench/arguments tests/bench/output tests/bench/replay tests/bench/sequence tests/bench/trace
check_PROGRAMS += $(bench_tests)
TESTS += $(bench_tests)

tests_bench_arguments_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_arguments_LDADD = bench/libbench.la tests/support/libsuite.la
tests_bench_output_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_output_LDADD = bench/libbench.la lib/libcore.la tests/support/libsuite.la
tests_bench_replay_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_replay_LDADD = bench/libbench.la lib/libcore.la tests/support/libsuite.la
tests_bench_trace_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_trace_LDADD = bench/libbench.la tests/support/libsuite.la
EXTRA_DIST += %reldir%/traces
tests_bench_sequence_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_bench_sequence_LDADD = bench/libbench.la tests/support/libsuite.la

## What runs PyTorch's tests and measurements, without PyTorch; and the programs that are measured, with it, but without a GPU.
dist_check_SCRIPTS += tests/bench/compare.sh tests/bench/programs.sh tests/bench/torch.sh
TESTS += tests/bench/compare.sh tests/bench/programs.sh
EXTRA_DIST += tests/bench/compare_test.py tests/bench/programs_test.py tests/bench/torch_test.py

## The sections that need no GPU to run, only to mean something. weir-bench itself needs a toolkit to be built.
dist_check_SCRIPTS += tests/bench/neighbours.sh tests/bench/rivals.sh tests/bench/share.sh
if HAVE_CUDA
TESTS += tests/bench/neighbours.sh tests/bench/rivals.sh tests/bench/share.sh
tests/bench/neighbours.log: bench/weir-bench$(EXEEXT) tools/weir$(EXEEXT)
tests/bench/rivals.log: bench/weir-bench$(EXEEXT)
tests/bench/share.log: bench/weir-bench$(EXEEXT)
endif
