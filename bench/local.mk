## SPDX-License-Identifier: MIT
## Measurements beside the raw calls. bench/weir-bench is built on demand (make bench/weir-bench) and into the GPU bundle; bench/ may call
## CUDA itself. What of it needs no CUDA is in libbench, for its tests.
EXTRA_LTLIBRARIES += bench/libbench.la
bench_libbench_la_SOURCES = \
	%reldir%/arguments.c \
	%reldir%/arguments.h \
	%reldir%/bench.c \
	%reldir%/bench.h \
	%reldir%/output.c \
	%reldir%/sequence.c \
	%reldir%/sequence.h

EXTRA_PROGRAMS += bench/weir-bench
bench_weir_bench_SOURCES = \
	%reldir%/handover.c \
	%reldir%/keeper.c \
	%reldir%/live.c \
	%reldir%/loop.c \
	%reldir%/main.c \
	%reldir%/multi.c \
	%reldir%/open.c \
	%reldir%/pairs.c \
	%reldir%/pending.c \
	%reldir%/random.c \
	%reldir%/section.h \
	%reldir%/shared.c \
	%reldir%/small.c \
	%reldir%/threads.c
bench_weir_bench_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
bench_weir_bench_LDADD = bench/libbench.la share/libshare.la
CLEANFILES += bench/weir-bench bench/libbench.la
if HAVE_CUDA
gpu_bundle_programs += bench/weir-bench
endif

## Cached pairs on the simulator, to be counted by callgrind: tests/build/instructions.sh.
check_PROGRAMS += bench/weir-count
bench_weir_count_SOURCES = %reldir%/count.c
bench_weir_count_LDADD = share/libshare.la

## The plot of its figures, and the test of the plot, which needs no libcheck.
EXTRA_DIST += %reldir%/plot.py tests/bench/threads.json
dist_check_SCRIPTS += tests/bench/plot.sh
TESTS += tests/bench/plot.sh
