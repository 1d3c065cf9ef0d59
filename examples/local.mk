## SPDX-License-Identifier: MIT
## Built by `make check` against what users have: <weir.h> and libweir alone. Installed as sources, to be copied.
exampledir = $(docdir)/examples
dist_example_DATA = \
	%reldir%/current-pool.c \
	%reldir%/current-pool.yaml \
	%reldir%/embed.c \
	%reldir%/embed.yaml \
	%reldir%/pipeline.c \
	%reldir%/pipeline.yaml

check_PROGRAMS += examples/embed examples/pipeline
examples_embed_SOURCES = %reldir%/embed.c
examples_embed_CPPFLAGS = -I$(top_srcdir)/lib
examples_embed_LDADD = lib/libweir.la
examples_pipeline_SOURCES = %reldir%/pipeline.c
examples_pipeline_CPPFLAGS = -I$(top_srcdir)/lib
examples_pipeline_LDADD = lib/libweir.la

if HAVE_CUDA
check_PROGRAMS += examples/current-pool
examples_current_pool_SOURCES = %reldir%/current-pool.c
examples_current_pool_CPPFLAGS = -I$(top_srcdir)/lib $(CUDA_CPPFLAGS)
examples_current_pool_LDADD = lib/libweir.la $(CUDA_LIBS)
endif

gpu_bundle_programs += examples/embed examples/pipeline examples/current-pool
gpu_bundle_files += examples/embed.yaml examples/pipeline.yaml examples/current-pool.yaml examples/run.sh

dist_check_SCRIPTS += %reldir%/run.sh
TESTS += %reldir%/run.sh
