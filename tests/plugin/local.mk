## SPDX-License-Identifier: MIT
## libweir-torch on the simulator, driven in torch's order of calls. What is in it is linked, so that hidden functions can be tested too.
check_LTLIBRARIES += tests/plugin/libplug.la
tests_plugin_libplug_la_SOURCES = %reldir%/plug.c %reldir%/plug.h
tests_plugin_libplug_la_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_libplug_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_libplug_la_LIBADD = plugin/torch/libtorch.la tests/support/libsuite.la

plugin_programs = tests/plugin/arena tests/plugin/entry tests/plugin/frames \
	tests/plugin/graphs tests/plugin/hold tests/plugin/pages tests/plugin/pages_strangers tests/plugin/pools \
	tests/plugin/streams tests/plugin/structs
check_PROGRAMS += $(plugin_programs)
TESTS += $(plugin_programs)

tests_plugin_arena_SOURCES = %reldir%/arena.c
tests_plugin_arena_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_arena_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_arena_LDADD = tests/plugin/libplug.la

tests_plugin_entry_SOURCES = %reldir%/entry.c
tests_plugin_entry_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_entry_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_entry_LDADD = tests/plugin/libplug.la

tests_plugin_frames_SOURCES = %reldir%/frames.c
tests_plugin_frames_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_frames_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_frames_LDADD = tests/plugin/libplug.la

tests_plugin_streams_SOURCES = %reldir%/streams.c
tests_plugin_streams_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_streams_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_streams_LDADD = tests/plugin/libplug.la

tests_plugin_graphs_SOURCES = %reldir%/graphs.c
tests_plugin_graphs_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_graphs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_graphs_LDADD = tests/plugin/libplug.la

tests_plugin_hold_SOURCES = %reldir%/hold.c
tests_plugin_hold_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_hold_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_hold_LDADD = tests/plugin/libplug.la

tests_plugin_pages_SOURCES = %reldir%/pages.c %reldir%/pages_scene.c %reldir%/pages_scene.h
tests_plugin_pages_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_pages_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_pages_LDADD = tests/plugin/libplug.la

tests_plugin_pages_strangers_SOURCES = %reldir%/pages_strangers.c %reldir%/pages_scene.c %reldir%/pages_scene.h
tests_plugin_pages_strangers_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_pages_strangers_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_pages_strangers_LDADD = tests/plugin/libplug.la

tests_plugin_pools_SOURCES = %reldir%/pools.c
tests_plugin_pools_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_pools_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_pools_LDADD = tests/plugin/libplug.la

tests_plugin_structs_SOURCES = %reldir%/structs.c
tests_plugin_structs_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_structs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_structs_LDADD = tests/plugin/libplug.la

## The shim's history is C++, and is compiled with stand-ins of torch's headers, which are in torch/.
recorded = %reldir%/recorded.cc %reldir%/recorded.h plugin/python/weir/torch/shim_blocks.h \
	plugin/python/weir/torch/shim_history.h plugin/python/weir/torch/shim_ledger.h
EXTRA_DIST += %reldir%/torch
if HAVE_CXX
check_PROGRAMS += tests/plugin/history tests/plugin/sweep
TESTS += tests/plugin/history tests/plugin/sweep
tests_plugin_history_SOURCES = %reldir%/history.c tests/support/fail_malloc.c tests/support/fail_malloc.h $(recorded)
tests_plugin_history_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include -I$(top_srcdir)/%reldir%/torch
tests_plugin_history_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_history_LDADD = tests/plugin/libplug.la

tests_plugin_sweep_SOURCES = %reldir%/sweep.c tests/support/fail_malloc.c tests/support/fail_malloc.h $(recorded)
tests_plugin_sweep_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include -I$(top_srcdir)/%reldir%/torch
tests_plugin_sweep_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_plugin_sweep_LDADD = tests/plugin/libplug.la
endif

if HAVE_TORCH
check_PROGRAMS += tests/plugin/throw
TESTS += tests/plugin/throw
tests_plugin_throw_SOURCES = %reldir%/throw.cc plugin/torch/throw.cc
tests_plugin_throw_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
tests_plugin_throw_LDADD = plugin/torch/libtorch.la
endif

dist_check_SCRIPTS += %reldir%/copies.sh
TESTS += %reldir%/copies.sh
