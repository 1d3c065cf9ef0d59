## SPDX-License-Identifier: MIT
## The library that the loader puts into programs.
if HAVE_AUDIT
if HAVE_CHECK
check_PROGRAMS += tests/audit/limit
TESTS += tests/audit/limit
tests_audit_limit_SOURCES = %reldir%/limit.c audit/limit.c audit/limit.h
tests_audit_limit_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_audit_limit_LDADD = tests/support/libsuite.la
endif
endif
