## SPDX-License-Identifier: MIT
## Measurements beside the raw calls. Built on demand (make bench/weir-figures) and into the GPU bundle; bench/ may call CUDA itself.
EXTRA_PROGRAMS += bench/weir-figures
bench_weir_figures_SOURCES = \
	%reldir%/bench.c \
	%reldir%/bench.h \
	%reldir%/figures.c \
	%reldir%/figures.h \
	%reldir%/figures_memory.c \
	%reldir%/figures_speed.c
bench_weir_figures_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
bench_weir_figures_LDADD = lib/libcore.la
CLEANFILES += bench/weir-figures
if HAVE_CUDA
gpu_bundle_programs += bench/weir-figures
endif
