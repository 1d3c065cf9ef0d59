## SPDX-License-Identifier: MIT
## The conformance suite runs on WEIR_GPU, the simulator unless WEIR_TEST_GPU says otherwise; tests/gpu/sim on the simulator alone.
check_PROGRAMS += tests/gpu/conformance tests/gpu/sim
TESTS += tests/gpu/conformance tests/gpu/sim

tests_gpu_conformance_SOURCES = \
	%reldir%/conformance.c %reldir%/conformance.h \
	%reldir%/conformance_capture.c %reldir%/conformance_memory.c %reldir%/conformance_pool.c %reldir%/conformance_stream.c
tests_gpu_conformance_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_conformance_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la

tests_gpu_sim_SOURCES = %reldir%/sim.c %reldir%/sim_test.h %reldir%/sim_work.c
tests_gpu_sim_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_sim_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la
