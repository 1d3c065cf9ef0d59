## SPDX-License-Identifier: MIT
## The conformance suite runs on WEIR_GPU, the simulator unless WEIR_TEST_GPU says otherwise; tests/gpu/sim on the simulator alone.
check_PROGRAMS += tests/gpu/conformance tests/gpu/sim
TESTS += tests/gpu/conformance tests/gpu/sim

tests_gpu_conformance_SOURCES = \
	%reldir%/conformance.c %reldir%/conformance.h \
	%reldir%/conformance_capture.c %reldir%/conformance_context.c %reldir%/conformance_events.c %reldir%/conformance_lend.c %reldir%/conformance_lend.h \
	%reldir%/conformance_map.c %reldir%/conformance_memory.c %reldir%/conformance_pool.c %reldir%/conformance_share.c %reldir%/conformance_stream.c \
	%reldir%/peer.c %reldir%/peer.h
tests_gpu_conformance_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_conformance_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la lib/gpu/libsim.la

tests_gpu_sim_SOURCES = \
	%reldir%/sim.c %reldir%/sim_costs.c %reldir%/sim_named.c %reldir%/sim_named.h %reldir%/sim_named_clock.c %reldir%/sim_pages.c %reldir%/sim_test.h %reldir%/sim_work.c \
	%reldir%/peer.c %reldir%/peer.h
tests_gpu_sim_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_sim_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la lib/gpu/libsim.la

## What a library says that was built without it.
check_PROGRAMS += tests/gpu/sim_none
TESTS += tests/gpu/sim_none
tests_gpu_sim_none_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_sim_none_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la lib/gpu/libnosim.la

## Sixteen streams under load: small on the simulator, ten million allocations on a GPU (WEIR_STRESS_COUNT).
check_PROGRAMS += tests/gpu/stress
TESTS += tests/gpu/stress
gpu_bundle_programs += tests/gpu/stress
tests_gpu_stress_SOURCES = %reldir%/stress.c %reldir%/marks.c %reldir%/marks.h tests/support/ownership.c tests/support/ownership.h
tests_gpu_stress_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_stress_LDADD = tests/api/libscene.la

## `weir record --any` on a GPU: part of the GPU bundle alone. The program's runtime is the static one.
EXTRA_DIST += %reldir%/audit/run.py
if HAVE_CUDA
if HAVE_AUDIT
check_PROGRAMS += tests/gpu/audit/workload
tests_gpu_audit_workload_SOURCES = %reldir%/audit/workload.c
tests_gpu_audit_workload_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_audit_workload_LDADD = $(CUDA_LIBS)
gpu_bundle_programs += tests/gpu/audit/workload
gpu_bundle_modules += audit/libweir-audit
gpu_bundle_files += tests/gpu/audit/run.py tests/tools/weirtrace.py
endif
endif

## PyTorch on Weir, for a machine that has both a GPU and torch: part of the GPU bundle alone.
torch_test_files = \
	%reldir%/torch/cases_arenas.py \
	%reldir%/torch/cases_graphs.py \
	%reldir%/torch/cases_history.py \
	%reldir%/torch/cases_memory.py \
	%reldir%/torch/cases_processes.py \
	%reldir%/torch/cases_registered.py \
	%reldir%/torch/cases_reports.py \
	%reldir%/torch/cases_streams.py \
	%reldir%/torch/cases_trees.py \
	%reldir%/torch/ddp.py \
	%reldir%/torch/harness.py \
	%reldir%/torch/prefork.py \
	%reldir%/torch/queues.py \
	%reldir%/torch/registered.py \
	%reldir%/torch/run.py \
	%reldir%/torch/sharing.py \
	%reldir%/torch/snapshots.py \
	%reldir%/torch/training.py \
	%reldir%/torch/unmodified.py \
	%reldir%/torch/upstream.py \
	%reldir%/torch/upstream.txt
EXTRA_DIST += $(torch_test_files)
gpu_bundle_files += $(torch_test_files)
