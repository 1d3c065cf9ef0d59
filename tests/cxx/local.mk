## SPDX-License-Identifier: MIT
## weir.hpp: what its objects own, and by which compilers it is taken. Needs a C++ compiler and no libcheck.
dist_check_SCRIPTS += %reldir%/compile.sh
TESTS += %reldir%/compile.sh
EXTRA_DIST += %reldir%/rmm.cc

if HAVE_CXX
check_PROGRAMS += tests/cxx/objects
TESTS += tests/cxx/objects
tests_cxx_objects_SOURCES = %reldir%/objects.cc
tests_cxx_objects_LDADD = lib/libweir.la
check_PROGRAMS += tests/cxx/sharing
TESTS += tests/cxx/sharing
tests_cxx_sharing_SOURCES = %reldir%/sharing.cc
tests_cxx_sharing_LDADD = lib/libweir.la
check_PROGRAMS += tests/cxx/throws
TESTS += tests/cxx/throws
tests_cxx_throws_SOURCES = %reldir%/throws.cc
tests_cxx_throws_LDADD = lib/libweir.la
endif
