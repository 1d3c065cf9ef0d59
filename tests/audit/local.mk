## SPDX-License-Identifier: MIT
## `weir record --any` on a driver of our own: the library that the loader puts into programs, and programs that know nothing of Weir.
EXTRA_DIST += %reldir%/audit_test.py
dist_check_SCRIPTS += %reldir%/audit.sh
if HAVE_AUDIT
TESTS += %reldir%/audit.sh

## With the name that the driver has, libcuda.so.1.
check_LTLIBRARIES += tests/audit/libcuda.la
tests_audit_libcuda_la_SOURCES = %reldir%/standin.c %reldir%/standin.h
tests_audit_libcuda_la_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS) -Wno-missing-prototypes
tests_audit_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -rpath /nowhere

check_LTLIBRARIES += tests/audit/libroom.la
tests_audit_libroom_la_SOURCES = %reldir%/room.c
tests_audit_libroom_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -module -rpath /nowhere

check_PROGRAMS += tests/audit/program tests/audit/linked
tests_audit_program_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS)
tests_audit_program_SOURCES = %reldir%/program.c %reldir%/standin.h
tests_audit_program_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_audit_program_LDADD = -ldl
tests_audit_linked_SOURCES = %reldir%/program.c %reldir%/standin.h
tests_audit_linked_CPPFLAGS = $(AM_CPPFLAGS) -DLINKED
tests_audit_linked_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS)
tests_audit_linked_LDFLAGS = $(AM_LDFLAGS) -no-install
tests_audit_linked_LDADD = tests/audit/libcuda.la

if HAVE_CUDA
check_PROGRAMS += tests/audit/types
TESTS += tests/audit/types
tests_audit_types_SOURCES = %reldir%/types.c audit/driver.h
tests_audit_types_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
endif

if HAVE_CHECK
check_PROGRAMS += tests/audit/limit
TESTS += tests/audit/limit
tests_audit_limit_SOURCES = %reldir%/limit.c audit/limit.c audit/limit.h
tests_audit_limit_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_audit_limit_LDADD = tests/support/libsuite.la
endif
endif
