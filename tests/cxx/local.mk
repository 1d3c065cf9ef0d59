## SPDX-License-Identifier: MIT
## weir.hpp: what its objects own, and by which compilers it is taken. Needs a C++ compiler and no libcheck.
dist_check_SCRIPTS += %reldir%/compile.sh
TESTS += %reldir%/compile.sh
EXTRA_DIST += %reldir%/rmm.cc

if HAVE_CXX
check_PROGRAMS += tests/cxx/objects tests/cxx/sharing tests/cxx/throws
## Linked with what is installed, on its simulator.
if HAVE_SIMULATOR
TESTS += tests/cxx/objects tests/cxx/sharing tests/cxx/throws
endif
tests_cxx_objects_SOURCES = %reldir%/objects.cc
tests_cxx_objects_LDADD = lib/libweir.la
tests_cxx_sharing_SOURCES = %reldir%/sharing.cc
tests_cxx_sharing_LDADD = lib/libweir.la
tests_cxx_throws_SOURCES = %reldir%/throws.cc
tests_cxx_throws_LDADD = lib/libweir.la
endif
