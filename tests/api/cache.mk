## SPDX-License-Identifier: MIT
## The stream caches and the keeper. All run on a GPU too.
api_cache_programs = tests/api/cache tests/api/cache_threads tests/api/keeper
check_PROGRAMS += $(api_cache_programs)
TESTS += $(api_cache_programs)
gpu_bundle_programs += $(api_cache_programs)

tests_api_cache_SOURCES = %reldir%/cache.c %reldir%/cache.h %reldir%/cache_bounds.c %reldir%/cache_flush.c %reldir%/cache_sim.c
tests_api_cache_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_cache_LDADD = tests/api/libscene.la

tests_api_keeper_SOURCES = %reldir%/keeper.c
tests_api_keeper_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_keeper_LDADD = tests/api/libscene.la

tests_api_cache_threads_SOURCES = %reldir%/cache_threads.c tests/support/ownership.c tests/support/ownership.h
tests_api_cache_threads_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_cache_threads_LDADD = tests/api/libscene.la

## The keeper on the simulator's clock; on no GPU.
check_PROGRAMS += tests/api/keeper_clock
TESTS += tests/api/keeper_clock
tests_api_keeper_clock_SOURCES = %reldir%/keeper_clock.c
tests_api_keeper_clock_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_keeper_clock_LDADD = tests/api/libscene.la

## The threshold that the keeper sets: of whole programs, and its bounds.
check_PROGRAMS += tests/api/adapt_programs
TESTS += tests/api/adapt_programs
tests_api_adapt_programs_SOURCES = %reldir%/adapt_programs.c
tests_api_adapt_programs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_adapt_programs_LDADD = tests/api/libscene.la

check_PROGRAMS += tests/api/adapt
TESTS += tests/api/adapt
tests_api_adapt_SOURCES = %reldir%/adapt.c
tests_api_adapt_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_adapt_LDADD = tests/api/libscene.la
