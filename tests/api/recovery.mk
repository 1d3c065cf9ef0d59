## SPDX-License-Identifier: MIT
## Arenas, running out, capture, threads and peers. All run on a GPU too.
api_recovery_programs = tests/api/arena tests/api/arena_edges tests/api/recovery tests/api/give tests/api/capture tests/api/threads tests/api/peers
check_PROGRAMS += $(api_recovery_programs)
TESTS += $(api_recovery_programs)
gpu_bundle_programs += $(api_recovery_programs)

tests_api_recovery_SOURCES = %reldir%/recovery.c %reldir%/recovery.h %reldir%/recovery_callbacks.c %reldir%/recovery_crowd.c \
	%reldir%/recovery_deadline.c %reldir%/recovery_growth.c %reldir%/recovery_sim.c %reldir%/scene.c %reldir%/scene.h
tests_api_recovery_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_recovery_LDADD = share/libshare.la tests/support/libsuite.la

tests_api_arena_SOURCES = %reldir%/arena.c %reldir%/scene.c %reldir%/scene.h
tests_api_arena_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_LDADD = share/libshare.la tests/support/libsuite.la
tests_api_arena_edges_SOURCES = %reldir%/arena_edges.c %reldir%/scene.c %reldir%/scene.h
tests_api_arena_edges_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_edges_LDADD = share/libshare.la tests/support/libsuite.la

tests_api_give_SOURCES = %reldir%/give.c %reldir%/scene.c %reldir%/scene.h
tests_api_give_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_give_LDADD = share/libshare.la tests/support/libsuite.la

tests_api_capture_SOURCES = %reldir%/capture.c %reldir%/scene.c %reldir%/scene.h
tests_api_capture_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_capture_LDADD = share/libshare.la tests/support/libsuite.la

tests_api_threads_SOURCES = %reldir%/threads.c %reldir%/scene.c %reldir%/scene.h
tests_api_threads_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_threads_LDADD = share/libshare.la tests/support/libsuite.la

tests_api_peers_SOURCES = %reldir%/peers.c %reldir%/scene.c %reldir%/scene.h
tests_api_peers_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_peers_LDADD = share/libshare.la tests/support/libsuite.la
