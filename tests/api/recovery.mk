## SPDX-License-Identifier: MIT
## What these, the tests of caches and the stress test stand on.
check_LTLIBRARIES += tests/api/libscene.la
tests_api_libscene_la_SOURCES = %reldir%/scene.c %reldir%/scene.h
tests_api_libscene_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_libscene_la_LIBADD = share/libshare.la tests/support/libsuite.la

## Arenas, running out, capture, threads and peers. All run on a GPU too.
api_recovery_programs = tests/api/arena tests/api/arena_edges tests/api/large tests/api/align tests/api/leave tests/api/sleep tests/api/yield tests/api/recovery tests/api/refusal tests/api/give tests/api/capture tests/api/threads tests/api/foreign tests/api/peers
check_PROGRAMS += $(api_recovery_programs)
TESTS += $(api_recovery_programs)
gpu_bundle_programs += $(api_recovery_programs)
## Only the simulator says how long a stream waited, and runs out of addresses at will.
check_PROGRAMS += tests/api/order tests/api/arena_limits
TESTS += tests/api/order tests/api/arena_limits

tests_api_recovery_SOURCES = %reldir%/recovery.c %reldir%/recovery.h %reldir%/recovery_callbacks.c %reldir%/recovery_crowd.c \
	%reldir%/recovery_deadline.c %reldir%/recovery_growth.c %reldir%/recovery_report.c %reldir%/recovery_sim.c $(hook_sources)
tests_api_recovery_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_recovery_LDFLAGS = $(hook_ldflags)
tests_api_recovery_LDADD = tests/api/libscene.la

tests_api_refusal_SOURCES = %reldir%/refusal.c %reldir%/refusal_sim.c %reldir%/refusal.h $(hook_sources)
tests_api_refusal_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_refusal_LDFLAGS = $(hook_ldflags)
tests_api_refusal_LDADD = tests/api/libscene.la

tests_api_arena_SOURCES = %reldir%/arena.c
tests_api_arena_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_LDADD = tests/api/libscene.la
tests_api_arena_edges_SOURCES = %reldir%/arena_edges.c
tests_api_arena_edges_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_edges_LDADD = tests/api/libscene.la
tests_api_large_SOURCES = %reldir%/large.c
tests_api_large_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_large_LDADD = tests/api/libscene.la

tests_api_order_SOURCES = %reldir%/order.c
tests_api_order_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_order_LDADD = tests/api/libscene.la

tests_api_arena_limits_SOURCES = %reldir%/arena_limits.c
tests_api_arena_limits_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_limits_LDADD = tests/support/libfail.la tests/api/libscene.la

tests_api_give_SOURCES = %reldir%/give.c
tests_api_give_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_give_LDADD = tests/api/libscene.la

tests_api_leave_SOURCES = %reldir%/leave.c $(hook_sources)
tests_api_leave_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_leave_LDFLAGS = $(hook_ldflags)
tests_api_leave_LDADD = tests/api/libscene.la

tests_api_sleep_SOURCES = %reldir%/sleep.c $(hook_sources)
tests_api_sleep_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_sleep_LDFLAGS = $(hook_ldflags)
tests_api_sleep_LDADD = tests/api/libscene.la
tests_api_yield_SOURCES = %reldir%/yield.c $(hook_sources)
tests_api_yield_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_yield_LDFLAGS = $(hook_ldflags)
tests_api_yield_LDADD = tests/api/libscene.la

tests_api_align_SOURCES = %reldir%/align.c
tests_api_align_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_align_LDADD = tests/api/libscene.la

tests_api_capture_SOURCES = %reldir%/capture.c
tests_api_capture_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_capture_LDADD = tests/api/libscene.la

tests_api_threads_SOURCES = %reldir%/threads.c
tests_api_threads_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_threads_LDADD = tests/api/libscene.la

tests_api_foreign_SOURCES = %reldir%/foreign.c
tests_api_foreign_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_foreign_LDADD = tests/api/libscene.la

tests_api_peers_SOURCES = %reldir%/peers.c
tests_api_peers_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_peers_LDADD = tests/api/libscene.la
