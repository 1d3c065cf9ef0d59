## SPDX-License-Identifier: MIT
## libweir through weir.h, on the simulator or, with WEIR_TEST_GPU=cuda, on a GPU.
## Calls of CUDA that a test takes over.
hook_sources = %reldir%/hook.c %reldir%/hook.h
hook_ldflags = $(AM_LDFLAGS) -Wl,--wrap=gpu_find

include tests/api/pools.mk
include tests/api/recovery.mk
include tests/api/cache.mk

## Marks, tags, leaks and traces, which it reads back.
check_PROGRAMS += tests/api/record
TESTS += tests/api/record
tests_api_record_SOURCES = %reldir%/record.c %reldir%/traced.c %reldir%/traced.h
tests_api_record_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_record_LDADD = tests/api/libscene.la tools/libtools.la

## The same where several things come together.
check_PROGRAMS += tests/api/record_hard
TESTS += tests/api/record_hard
tests_api_record_hard_SOURCES = %reldir%/record_hard.c %reldir%/traced.c %reldir%/traced.h
tests_api_record_hard_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_record_hard_LDADD = tests/api/libscene.la tools/libtools.la

## And where host memory fails.
check_PROGRAMS += tests/api/record_failures
TESTS += tests/api/record_failures
tests_api_record_failures_SOURCES = %reldir%/record_failures.c %reldir%/traced.c %reldir%/traced.h
tests_api_record_failures_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_record_failures_LDADD = tests/support/libfail.la tests/api/libscene.la tools/libtools.la

## Whose growth a recording says it was.
check_PROGRAMS += tests/api/record_growth
TESTS += tests/api/record_growth
tests_api_record_growth_SOURCES = %reldir%/record_growth.c %reldir%/traced.c %reldir%/traced.h $(hook_sources)
tests_api_record_growth_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_record_growth_LDFLAGS = $(hook_ldflags)
tests_api_record_growth_LDADD = tests/api/libscene.la tools/libtools.la

## What was recorded, done again.
check_PROGRAMS += tests/api/replay
TESTS += tests/api/replay
tests_api_replay_SOURCES = %reldir%/replay.c %reldir%/traced.c %reldir%/traced.h
tests_api_replay_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_replay_LDADD = tests/api/libscene.la tools/libtools.la

## What requests waited for.
check_PROGRAMS += tests/api/record_waits
TESTS += tests/api/record_waits
tests_api_record_waits_SOURCES = %reldir%/record_waits.c %reldir%/traced.c %reldir%/traced.h $(hook_sources)
tests_api_record_waits_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_record_waits_LDFLAGS = $(hook_ldflags)
tests_api_record_waits_LDADD = tests/api/libscene.la tools/libtools.la

## Calls of the driver that an arena makes where a program does again what it did before.
check_PROGRAMS += tests/api/arena_rest
TESTS += tests/api/arena_rest
tests_api_arena_rest_SOURCES = %reldir%/arena_rest.c bench/sequence.c bench/sequence.h $(hook_sources)
tests_api_arena_rest_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_arena_rest_LDFLAGS = $(hook_ldflags)
tests_api_arena_rest_LDADD = tests/api/libfixture.la
