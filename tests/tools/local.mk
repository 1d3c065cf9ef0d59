## SPDX-License-Identifier: MIT
dist_check_SCRIPTS += \
	%reldir%/calibrate.sh \
	%reldir%/check.sh \
	%reldir%/cluster.sh \
	%reldir%/completion.sh \
	%reldir%/doctor.sh \
	%reldir%/export.sh \
	%reldir%/figures.sh \
	%reldir%/labels.sh \
	%reldir%/leases.sh \
	%reldir%/metrics.sh \
	%reldir%/output.sh \
	%reldir%/page.sh \
	%reldir%/page_browser.sh \
	%reldir%/processes.sh \
	%reldir%/sleep.sh \
	%reldir%/record.sh \
	%reldir%/replay.sh \
	%reldir%/replay_traces.sh \
	%reldir%/reserve.sh \
	%reldir%/run.sh \
	%reldir%/show.sh \
	%reldir%/stats.sh \
	%reldir%/tmpfiles.sh \
	%reldir%/top.sh \
	%reldir%/trace.sh \
	%reldir%/try.sh \
	%reldir%/tune.sh \
	%reldir%/tune_parts.sh \
	%reldir%/unaware.sh \
	%reldir%/unaware_examples.sh \
	%reldir%/usage.sh \
	%reldir%/why.sh
EXTRA_DIST += %reldir%/holes.weir %reldir%/rmm.weir %reldir%/weir.sh
EXTRA_DIST += %reldir%/figures_test.py %reldir%/screen.py %reldir%/top_test.py %reldir%/trace_test.py %reldir%/weirtrace.py
EXTRA_DIST += %reldir%/export_support.py %reldir%/export_test.py %reldir%/export_perfetto_test.py %reldir%/export_rmm_test.py
EXTRA_DIST += %reldir%/page_browser.py %reldir%/page_browser_test.py %reldir%/page_lora.weir
EXTRA_DIST += %reldir%/export_viz_test.py %reldir%/perfetto.proto %reldir%/replay_traces_test.py %reldir%/trace_file.py
TESTS += \
	%reldir%/calibrate.sh \
	%reldir%/check.sh \
	%reldir%/cluster.sh \
	%reldir%/completion.sh \
	%reldir%/doctor.sh \
	%reldir%/export.sh \
	%reldir%/figures.sh \
	%reldir%/labels.sh \
	%reldir%/output.sh \
	%reldir%/page.sh \
	%reldir%/page_browser.sh \
	%reldir%/replay.sh \
	%reldir%/replay_traces.sh \
	%reldir%/run.sh \
	%reldir%/show.sh \
	%reldir%/stats.sh \
	%reldir%/tmpfiles.sh \
	%reldir%/top.sh \
	%reldir%/trace.sh \
	%reldir%/unaware.sh \
	%reldir%/unaware_examples.sh \
	%reldir%/usage.sh

## What `weir leases` and `weir evict` are tested with.
check_PROGRAMS += tests/tools/sharing
tests_tools_sharing_LDADD = share/libshare.la

## What is recorded for `weir replay`.
check_PROGRAMS += tests/tools/steps
tests_tools_steps_LDADD = share/libshare.la

## What is recorded for `weir tune` to divide.
check_PROGRAMS += tests/tools/parts
tests_tools_parts_LDADD = share/libshare.la

## Traces of programs that know nothing of Weir, with debug information whatever the rest is built with.
check_PROGRAMS += tests/tools/unaware
tests_tools_unaware_CFLAGS = $(AM_CFLAGS) -g
tests_tools_unaware_LDADD = share/libshare.la

## The programs of examples/unaware, on a driver of the tests.
if HAVE_CUDA
check_PROGRAMS += tests/tools/unaware-frees tests/tools/unaware-segments
unaware_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_tools_unaware_frees_SOURCES = examples/unaware/frees.c %reldir%/unaware_runtime.c
tests_tools_unaware_frees_CPPFLAGS = $(unaware_CPPFLAGS)
tests_tools_unaware_frees_CFLAGS = $(AM_CFLAGS) -g
tests_tools_unaware_frees_LDADD = -ldl
tests_tools_unaware_segments_SOURCES = examples/unaware/segments.c %reldir%/unaware_runtime.c
tests_tools_unaware_segments_CPPFLAGS = $(unaware_CPPFLAGS)
tests_tools_unaware_segments_CFLAGS = $(AM_CFLAGS) -g
tests_tools_unaware_segments_LDADD = -ldl
endif

## What is recorded for `weir trace why`.
check_PROGRAMS += tests/tools/refused
tests_tools_refused_LDADD = share/libshare.la

## What is seen and changed by `weir ps`, `weir top` and their like.
check_PROGRAMS += tests/tools/worker
tests_tools_worker_LDADD = share/libshare.la
