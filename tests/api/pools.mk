## SPDX-License-Identifier: MIT
## Pools, streams, figures and failures, on the simulator.
check_LTLIBRARIES += tests/api/libfixture.la
tests_api_libfixture_la_SOURCES = tests/api/fixture.c tests/api/fixture.h
tests_api_libfixture_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_libfixture_la_LIBADD = tests/support/libsuite.la share/libshare.la

check_PROGRAMS += tests/api/attach
TESTS += tests/api/attach
tests_api_attach_SOURCES = tests/api/attach.c
tests_api_attach_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_attach_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/per_thread tests/api/per_thread_inner
TESTS += tests/api/per_thread tests/api/per_thread_inner
tests_api_per_thread_SOURCES = tests/api/per_thread.c
tests_api_per_thread_CPPFLAGS = $(AM_CPPFLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
tests_api_per_thread_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_per_thread_LDADD = tests/api/libfixture.la
tests_api_per_thread_inner_SOURCES = tests/api/per_thread.c
tests_api_per_thread_inner_CPPFLAGS = $(AM_CPPFLAGS) -D__CUDA_API_PER_THREAD_DEFAULT_STREAM
tests_api_per_thread_inner_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_per_thread_inner_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/blocks
TESTS += tests/api/blocks
tests_api_blocks_SOURCES = tests/api/blocks.c
tests_api_blocks_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_blocks_LDADD = tests/support/libsuite.la share/libshare.la

check_PROGRAMS += tests/api/format
TESTS += tests/api/format
tests_api_format_SOURCES = tests/api/format.c
tests_api_format_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_format_LDADD = tests/support/libsuite.la share/libshare.la

## Loads the shared libraries, and so links neither.
check_PROGRAMS += tests/api/unload
TESTS += tests/api/unload
tests_api_unload_SOURCES = tests/api/unload.c
tests_api_unload_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_unload_LDADD = tests/support/libsuite.la -ldl

check_PROGRAMS += tests/api/host
TESTS += tests/api/host
tests_api_host_SOURCES = tests/api/host.c
tests_api_host_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_host_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/log
TESTS += tests/api/log
tests_api_log_SOURCES = tests/api/log.c
tests_api_log_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_log_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/open
TESTS += tests/api/open
tests_api_open_SOURCES = tests/api/open.c
tests_api_open_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_open_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/pairs
TESTS += tests/api/pairs
tests_api_pairs_SOURCES = tests/api/pairs.c $(hook_sources)
tests_api_pairs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_pairs_LDFLAGS = $(hook_ldflags)
tests_api_pairs_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/pools
TESTS += tests/api/pools
tests_api_pools_SOURCES = tests/api/pools.c
tests_api_pools_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_pools_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/set
TESTS += tests/api/set
tests_api_set_SOURCES = tests/api/set.c
tests_api_set_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_set_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/quota
TESTS += tests/api/quota
tests_api_quota_SOURCES = tests/api/quota.c
tests_api_quota_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_quota_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/ranks
TESTS += tests/api/ranks
tests_api_ranks_SOURCES = tests/api/ranks.c
tests_api_ranks_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_ranks_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/settings
TESTS += tests/api/settings
tests_api_settings_SOURCES = tests/api/settings.c
tests_api_settings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_settings_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/streams
TESTS += tests/api/streams
tests_api_streams_SOURCES = tests/api/streams.c
tests_api_streams_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_streams_LDADD = tests/api/libfixture.la

## Streams that are gone.
check_PROGRAMS += tests/api/gone
TESTS += tests/api/gone
tests_api_gone_SOURCES = tests/api/gone.c
tests_api_gone_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_gone_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/reload
TESTS += tests/api/reload
tests_api_reload_SOURCES = tests/api/reload.c
tests_api_reload_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_reload_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/stats
TESTS += tests/api/stats
tests_api_stats_SOURCES = tests/api/stats.c
tests_api_stats_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_stats_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/stats_json
TESTS += tests/api/stats_json
tests_api_stats_json_SOURCES = tests/api/stats_json.c
tests_api_stats_json_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_stats_json_LDADD = tests/api/libfixture.la

check_PROGRAMS += tests/api/failures
tests_api_failures_SOURCES = tests/api/failures.c
tests_api_failures_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_failures_LDADD = tests/support/libfail.la tests/api/libfixture.la

check_PROGRAMS += tests/api/fork
TESTS += tests/api/fork
tests_api_fork_SOURCES = tests/api/fork.c
tests_api_fork_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_fork_LDADD = tests/api/libfixture.la
