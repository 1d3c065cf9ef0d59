## SPDX-License-Identifier: MIT
## Measurements beside the raw calls. bench/weir-bench is built on demand (make bench/weir-bench) and into the GPU bundle; bench/ may call
## CUDA itself. What of it needs no CUDA is in libbench, for its tests.
EXTRA_LTLIBRARIES += bench/libbench.la
bench_libbench_la_SOURCES = \
	%reldir%/arguments.c \
	%reldir%/arguments.h \
	%reldir%/bench.c \
	%reldir%/bench.h \
	%reldir%/numbers.h \
	%reldir%/output.c \
	%reldir%/replay.c \
	%reldir%/replay.h \
	%reldir%/sequence.c \
	%reldir%/sequence.h \
	%reldir%/trace.c \
	%reldir%/trace.h \
	tools/common/json.c \
	tools/common/json.h \
	tools/common/utf8.c \
	tools/common/utf8.h
bench_libbench_la_LIBADD = lib/backing/arena/libarena.la

EXTRA_PROGRAMS += bench/weir-bench
bench_weir_bench_SOURCES = \
	%reldir%/arena.c \
	%reldir%/aside.c \
	%reldir%/auto.c \
	%reldir%/claims.c \
	%reldir%/comb.c \
	%reldir%/consumer.c \
	%reldir%/crowd.c \
	%reldir%/crowd.h \
	%reldir%/full.c \
	%reldir%/grow.c \
	%reldir%/handover.c \
	%reldir%/keeper.c \
	%reldir%/handles.c \
	%reldir%/live.c \
	%reldir%/loop.c \
	%reldir%/main.c \
	%reldir%/multi.c \
	%reldir%/neighbour.c \
	%reldir%/neighbours.c \
	%reldir%/neighbours.h \
	%reldir%/neighbours_costs.c \
	%reldir%/neighbours_rounds.c \
	%reldir%/open.c \
	%reldir%/pages.c \
	%reldir%/pairs.c \
	%reldir%/pending.c \
	%reldir%/pinned.c \
	%reldir%/random.c \
	%reldir%/rival.c \
	%reldir%/rival.h \
	%reldir%/rmm.c \
	%reldir%/rmm/rmm.h \
	%reldir%/section.h \
	%reldir%/share.c \
	%reldir%/share_ring.c \
	%reldir%/shared.c \
	%reldir%/sharing.h \
	%reldir%/sleep.c \
	%reldir%/small.c \
	%reldir%/record.c \
	%reldir%/stacks.c \
	%reldir%/threads.c \
	%reldir%/torch.c \
	%reldir%/worker.c \
	%reldir%/worker.h
bench_weir_bench_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -iquote $(top_srcdir)/include
bench_weir_bench_LDADD = bench/libbench.la plugin/torch/libtorch.la
## RMM's side, built by hand where RMM is: bench/rmm/build.sh.
bench_rmm_files = %reldir%/rmm/build.sh %reldir%/rmm/rmm.cpp %reldir%/rmm/rmm.h
EXTRA_DIST += %reldir%/rmm/build.sh %reldir%/rmm/rmm.cpp
gpu_bundle_files += $(bench_rmm_files)
CLEANFILES += bench/weir-bench bench/libbench.la
if HAVE_CUDA
gpu_bundle_programs += bench/weir-bench
endif

## Cached pairs on the simulator, to be counted by callgrind: tests/build/instructions.sh.
check_PROGRAMS += bench/weir-count
bench_weir_count_SOURCES = %reldir%/count.c
bench_weir_count_LDADD = share/libshare.la

## Weir beside other allocators, in programs under PyTorch and CuPy: run from the source or the GPU bundle, as nothing of it is built here.
bench_torch_files = \
	%reldir%/torch/allocators.py \
	%reldir%/torch/bench.py \
	%reldir%/torch/compare.py \
	%reldir%/torch/counter.cpp \
	%reldir%/torch/figures.py \
	%reldir%/torch/machine.py \
	%reldir%/torch/micro.py \
	%reldir%/torch/models.py \
	%reldir%/torch/recordings.py \
	%reldir%/torch/report.py \
	%reldir%/torch/results.py \
	%reldir%/torch/rows.py \
	%reldir%/torch/plain.c \
	%reldir%/torch/programs.py \
	%reldir%/torch/worker.py \
	%reldir%/torch/workloads.py
EXTRA_DIST += $(bench_torch_files) %reldir%/share_python.py
gpu_bundle_files += $(bench_torch_files)

## The plot of its figures, and the test of the plot, which needs no libcheck.
EXTRA_DIST += %reldir%/plot.py tests/bench/threads.json
dist_check_SCRIPTS += tests/bench/plot.sh
TESTS += tests/bench/plot.sh
