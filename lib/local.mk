## SPDX-License-Identifier: MIT
include_HEADERS = %reldir%/weir.h

## Everything but the version map, so that tests and the command reach hidden symbols.
noinst_LTLIBRARIES += lib/libcore.la
lib_libcore_la_SOURCES = %reldir%/weir.h
lib_libcore_la_LIBADD = policy/libpolicy.la lib/gpu/libgpu.la
