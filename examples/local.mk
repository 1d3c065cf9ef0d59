## SPDX-License-Identifier: MIT
## Built by `make check` against what users have: <weir.h> and libweir alone. Installed as sources, to be copied.
exampledir = $(docdir)/examples
dist_example_DATA = \
	%reldir%/current-pool.c \
	%reldir%/current-pool.yaml \
	%reldir%/embed.c \
	%reldir%/embed.cpp \
	%reldir%/embed.yaml \
	%reldir%/frames.c \
	%reldir%/frames.h \
	%reldir%/pipeline.c \
	%reldir%/pipeline.yaml \
	%reldir%/share-consumer.c \
	%reldir%/share-producer.c \
	%reldir%/share-ring.c \
	%reldir%/share.yaml \
	%reldir%/share_torch.py \
	%reldir%/torch_ddp.py \
	%reldir%/torch_train.py

## The ranks of a job, under their launchers.
exampleclusterdir = $(exampledir)/cluster
dist_examplecluster_DATA = %reldir%/cluster/kubernetes.yaml %reldir%/cluster/policy.yaml %reldir%/cluster/slurm.sbatch
dist_examplecluster_SCRIPTS = %reldir%/cluster/torchrun.sh

## What doc/tuning.md is about.
exampletracesdir = $(exampledir)/traces
dist_exampletraces_DATA = %reldir%/traces/generation.weir

## Programs that know nothing of Weir, which doc/unaware.md is about.
exampleunawaredir = $(exampledir)/unaware
dist_exampleunaware_DATA = %reldir%/unaware/frees.c %reldir%/unaware/segments.c

check_PROGRAMS += examples/embed examples/pipeline
examples_embed_SOURCES = %reldir%/embed.c
examples_embed_CPPFLAGS = -I$(top_srcdir)/include
examples_embed_LDADD = lib/libweir.la
if HAVE_CXX
check_PROGRAMS += examples/embed-cpp
examples_embed_cpp_SOURCES = %reldir%/embed.cpp
examples_embed_cpp_CPPFLAGS = -I$(top_srcdir)/include
examples_embed_cpp_LDADD = lib/libweir.la
endif
examples_pipeline_SOURCES = %reldir%/pipeline.c
examples_pipeline_CPPFLAGS = -I$(top_srcdir)/include
examples_pipeline_LDADD = lib/libweir.la

## The sharing examples write to GPU memory: by CUDA where there is a toolkit, and on the simulator by the host.
sharing_examples = examples/share-consumer examples/share-producer examples/share-ring
check_PROGRAMS += $(sharing_examples)
sharing_CPPFLAGS = -I$(top_srcdir)/include
sharing_LDADD = lib/libweir.la
if HAVE_CUDA
sharing_CPPFLAGS += -DWITH_CUDA $(CUDA_CPPFLAGS)
sharing_LDADD += $(CUDA_LIBS)
endif
examples_share_consumer_SOURCES = %reldir%/share-consumer.c %reldir%/frames.c %reldir%/frames.h
examples_share_consumer_CPPFLAGS = $(sharing_CPPFLAGS)
examples_share_consumer_LDADD = $(sharing_LDADD)
examples_share_producer_SOURCES = %reldir%/share-producer.c %reldir%/frames.c %reldir%/frames.h
examples_share_producer_CPPFLAGS = $(sharing_CPPFLAGS)
examples_share_producer_LDADD = $(sharing_LDADD)
examples_share_ring_SOURCES = %reldir%/share-ring.c %reldir%/frames.c %reldir%/frames.h
examples_share_ring_CPPFLAGS = $(sharing_CPPFLAGS)
examples_share_ring_LDADD = $(sharing_LDADD)

if HAVE_CUDA
check_PROGRAMS += examples/current-pool examples/unaware/frees examples/unaware/segments
examples_current_pool_SOURCES = %reldir%/current-pool.c
examples_current_pool_CPPFLAGS = -I$(top_srcdir)/include $(CUDA_CPPFLAGS)
examples_current_pool_LDADD = lib/libweir.la $(CUDA_LIBS)
examples_unaware_frees_SOURCES = %reldir%/unaware/frees.c
examples_unaware_frees_CPPFLAGS = $(CUDA_CPPFLAGS)
examples_unaware_frees_LDADD = $(CUDA_LIBS)
examples_unaware_segments_SOURCES = %reldir%/unaware/segments.c
examples_unaware_segments_CPPFLAGS = $(CUDA_CPPFLAGS)
examples_unaware_segments_LDADD = $(CUDA_LIBS)
endif

gpu_bundle_programs += examples/embed examples/pipeline examples/current-pool examples/unaware/frees examples/unaware/segments $(sharing_examples)
gpu_bundle_files += examples/embed.yaml examples/pipeline.yaml examples/current-pool.yaml examples/share.yaml examples/run.sh

dist_check_SCRIPTS += %reldir%/run.sh
TESTS += %reldir%/run.sh
