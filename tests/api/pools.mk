## SPDX-License-Identifier: MIT
## Pools, streams, figures and failures, on the simulator.
check_PROGRAMS += tests/api/blocks
TESTS += tests/api/blocks
tests_api_blocks_SOURCES = tests/api/blocks.c
tests_api_blocks_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_blocks_LDADD = tests/support/libsuite.la lib/libcore.la

check_PROGRAMS += tests/api/format
TESTS += tests/api/format
tests_api_format_SOURCES = tests/api/format.c
tests_api_format_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_api_format_LDADD = tests/support/libsuite.la lib/libcore.la
