## SPDX-License-Identifier: MIT
## Pools across processes.
check_LTLIBRARIES += tests/share/libsocket_scene.la
tests_share_libsocket_scene_la_SOURCES = %reldir%/socket_scene.c %reldir%/socket_scene.h %reldir%/connect.h
tests_share_libsocket_scene_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_libsocket_scene_la_LIBADD = share/libshare.la tests/support/libsuite.la

check_PROGRAMS += tests/share/path tests/share/socket tests/share/packet tests/share/server tests/share/slow
TESTS += tests/share/path tests/share/socket tests/share/packet tests/share/server tests/share/slow
tests_share_server_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_server_LDADD = tests/share/libsocket_scene.la
tests_share_slow_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_slow_LDADD = tests/share/libsocket_scene.la
tests_share_path_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_path_LDADD = tests/share/libsocket_scene.la
tests_share_socket_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_socket_LDADD = tests/share/libsocket_scene.la
tests_share_packet_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_packet_LDADD = tests/share/libsocket_scene.la

check_PROGRAMS += tests/share/query tests/share/directory tests/share/control tests/share/control_record tests/share/control_strangers
TESTS += tests/share/query tests/share/directory tests/share/control tests/share/control_record tests/share/control_strangers
tests_share_directory_SOURCES = %reldir%/directory.c %reldir%/runtime_scene.c %reldir%/runtime_scene.h
tests_share_directory_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_directory_LDADD = share/libshare.la tests/support/libsuite.la
tests_share_query_SOURCES = %reldir%/query.c %reldir%/runtime_scene.c %reldir%/runtime_scene.h
tests_share_query_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_query_LDADD = share/libshare.la tests/support/libsuite.la
tests_share_control_SOURCES = %reldir%/control.c %reldir%/control_scene.c %reldir%/control_scene.h
tests_share_control_record_SOURCES = %reldir%/control_record.c %reldir%/control_scene.c %reldir%/control_scene.h
tests_share_control_record_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_control_record_LDADD = tests/api/libfixture.la
tests_share_control_strangers_SOURCES = %reldir%/control_strangers.c %reldir%/control_scene.c %reldir%/control_scene.h
tests_share_control_strangers_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_control_strangers_LDADD = tests/api/libfixture.la
## What processes claim of a GPU (share/control/ledger.h).
check_PROGRAMS += tests/share/claims tests/share/claims_die
TESTS += tests/share/claims tests/share/claims_die
tests_share_claims_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_claims_LDADD = tests/api/libfixture.la
tests_share_claims_die_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_claims_die_LDADD = share/libshare.la tests/support/libsuite.la
check_PROGRAMS += tests/share/environment
TESTS += tests/share/environment
tests_share_environment_SOURCES = %reldir%/environment.c %reldir%/control_scene.c %reldir%/control_scene.h
tests_share_environment_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_environment_LDADD = tests/api/libfixture.la
tests_share_control_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_control_LDADD = tests/api/libfixture.la

## The same twice: as on this kernel, and as on one that has no SO_PEERPIDFD.
check_PROGRAMS += tests/share/process tests/share/process_by_pid
TESTS += tests/share/process tests/share/process_by_pid
tests_share_process_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_process_LDADD = share/libshare.la tests/support/libsuite.la
tests_share_process_by_pid_SOURCES = tests/share/process.c share/wire/process.c
tests_share_process_by_pid_CPPFLAGS = $(AM_CPPFLAGS) -DSO_PEERPIDFD=0x7ffe
tests_share_process_by_pid_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_process_by_pid_LDADD = share/libshare.la tests/support/libsuite.la

## A set-group-ID copy of itself, where such a thing can be made.
check_PROGRAMS += tests/share/secure
TESTS += tests/share/secure
tests_share_secure_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_secure_LDADD = share/libshare.la tests/support/libsuite.la

## The client in Python, which is written from doc/protocol.md alone.
dist_check_SCRIPTS += %reldir%/client.sh
TESTS += %reldir%/client.sh
EXTRA_DIST += %reldir%/client.py %reldir%/client_wire.py %reldir%/client_server.py %reldir%/client_test.py

## A process that plays an exporter or an importer, and the stage for several of them. The linker puts actor_messages.c between the actor and
## its sockets.
check_PROGRAMS += tests/share/actor
tests_share_actor_SOURCES = \
	%reldir%/actor.c \
	%reldir%/actor.h \
	%reldir%/actor_crowd.c \
	%reldir%/actor_export.c \
	%reldir%/actor_gpu.c \
	%reldir%/actor_import.c \
	%reldir%/actor_late.c \
	%reldir%/actor_memory.c \
	%reldir%/actor_messages.c
tests_share_actor_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=share_send -Wl,--wrap=share_receive \
	-Wl,--wrap=getpwnam_r -Wl,--wrap=getgrnam_r -Wl,--wrap=ppoll
tests_share_actor_LDADD = share/libshare.la

check_LTLIBRARIES += tests/share/libstage.la
tests_share_libstage_la_SOURCES = tests/share/stage.c tests/share/stage.h
tests_share_libstage_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_libstage_la_LIBADD = share/libshare.la tests/support/libsuite.la

share_stage_tests = \
	tests/share/claims_neighbours \
	tests/share/ends \
	tests/share/faults \
	tests/share/figures \
	tests/share/floods \
	tests/share/flow \
	tests/share/hand_over \
	tests/share/late \
	tests/share/neighbours \
	tests/share/neighbours_crowd \
	tests/share/neighbours_die \
	tests/share/neighbours_strange \
	tests/share/neighbours_wait \
	tests/share/other_client \
	tests/share/pairs \
	tests/share/reader_fd \
	tests/share/restarts \
	tests/share/retire \
	tests/share/ring_ends \
	tests/share/rings \
	tests/share/strangers \
	tests/share/sweep \
	tests/share/yielded
check_PROGRAMS += $(share_stage_tests)
## The others are in tests/local.mk.
TESTS += \
	tests/share/claims_neighbours \
	tests/share/faults \
	tests/share/figures \
	tests/share/floods \
	tests/share/late \
	tests/share/neighbours_crowd \
	tests/share/neighbours_strange \
	tests/share/other_client \
	tests/share/pairs \
	tests/share/reader_fd \
	tests/share/restarts \
	tests/share/ring_ends \
	tests/share/strangers \
	tests/share/yielded
tests_share_yielded_SOURCES = tests/share/yielded.c tests/share/neighbourhood.c tests/share/neighbourhood.h
tests_share_yielded_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_yielded_LDADD = tests/share/libstage.la
tests_share_ends_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_ends_LDADD = tests/share/libstage.la
tests_share_faults_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_faults_LDADD = tests/share/libstage.la
tests_share_flow_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_flow_LDADD = tests/share/libstage.la
tests_share_hand_over_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_hand_over_LDADD = tests/share/libstage.la
tests_share_late_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_late_LDADD = tests/share/libstage.la
tests_share_neighbours_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_LDADD = tests/share/libstage.la
tests_share_claims_neighbours_SOURCES = tests/share/claims_neighbours.c tests/share/neighbourhood.c tests/share/neighbourhood.h
tests_share_claims_neighbours_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_claims_neighbours_LDADD = tests/share/libstage.la
tests_share_neighbours_SOURCES = tests/share/neighbours.c tests/share/neighbourhood.c tests/share/neighbourhood.h
tests_share_neighbours_wait_SOURCES = tests/share/neighbours_wait.c tests/share/neighbourhood.c tests/share/neighbourhood.h
tests_share_neighbours_wait_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_wait_LDADD = tests/share/libstage.la
tests_share_neighbours_strange_SOURCES = tests/share/neighbours_strange.c tests/share/neighbourhood.c tests/share/neighbourhood.h
tests_share_neighbours_strange_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_strange_LDADD = tests/share/libstage.la
tests_share_neighbours_crowd_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_crowd_LDADD = tests/share/libstage.la
tests_share_neighbours_die_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_die_LDADD = tests/share/libstage.la
tests_share_other_client_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_other_client_LDADD = tests/share/libstage.la
tests_share_pairs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_pairs_LDADD = tests/share/libstage.la
tests_share_restarts_SOURCES = tests/share/restarts.c tests/share/ring_scene.c tests/share/ring_scene.h
tests_share_restarts_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_restarts_LDADD = tests/share/libstage.la
tests_share_reader_fd_SOURCES = tests/share/reader_fd.c tests/share/ring_scene.c tests/share/ring_scene.h
tests_share_reader_fd_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_reader_fd_LDADD = tests/share/libstage.la
tests_share_retire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_retire_LDADD = tests/share/libstage.la
tests_share_ring_ends_SOURCES = tests/share/ring_ends.c tests/share/ring_scene.c tests/share/ring_scene.h
tests_share_ring_ends_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_ring_ends_LDADD = tests/share/libstage.la
tests_share_rings_SOURCES = tests/share/rings.c tests/share/ring_scene.c tests/share/ring_scene.h
tests_share_rings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_rings_LDADD = tests/share/libstage.la
tests_share_figures_SOURCES = tests/share/figures.c tests/share/ring_scene.c tests/share/ring_scene.h
tests_share_figures_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_figures_LDADD = tests/share/libstage.la
tests_share_floods_SOURCES = tests/share/floods.c tests/share/stranger_scene.c tests/share/stranger_scene.h
tests_share_floods_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_floods_LDADD = tests/share/libstage.la
tests_share_strangers_SOURCES = tests/share/strangers.c tests/share/stranger_scene.c tests/share/stranger_scene.h
tests_share_strangers_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_strangers_LDADD = tests/share/libstage.la
tests_share_sweep_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_sweep_LDADD = tests/share/libstage.la


## On a GPU as well: run.sh share of the bundle.
check_PROGRAMS += tests/share/gpu
tests_share_gpu_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_gpu_LDADD = tests/share/libstage.la
check_PROGRAMS += tests/share/neighbours_gpu
TESTS += tests/share/neighbours_gpu
tests_share_neighbours_gpu_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_neighbours_gpu_LDADD = tests/share/libstage.la
gpu_bundle_programs += tests/share/actor tests/share/gpu tests/share/neighbours_gpu

check_PROGRAMS += tests/share/data_path
TESTS += tests/share/data_path
tests_share_data_path_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_share_data_path_LDADD = tests/share/libstage.la
