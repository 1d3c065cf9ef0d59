## SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += policy/libpolicy.la
policy_libpolicy_la_SOURCES = \
	%reldir%/arena.c %reldir%/arena.h \
	%reldir%/check.c \
	%reldir%/environment.c %reldir%/environment.h \
	%reldir%/foreign.c \
	%reldir%/form.h \
	%reldir%/keys.c %reldir%/keys.h \
	%reldir%/list.c \
	%reldir%/load.c \
	%reldir%/named.c \
	%reldir%/number.c %reldir%/number.h \
	%reldir%/origin.h \
	%reldir%/overrides.c \
	%reldir%/parse.c %reldir%/parse.h \
	%reldir%/policy.c %reldir%/policy.h \
	%reldir%/quantity.c \
	%reldir%/report.c %reldir%/report.h \
	%reldir%/tree.c %reldir%/tree.h \
	%reldir%/value.c %reldir%/value.h
policy_libpolicy_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
policy_libpolicy_la_LIBADD = $(YAML_LIBS)
## Where the policies are that have names.
policy_libpolicy_la_CPPFLAGS = $(AM_CPPFLAGS) -DWEIR_POLICY_DIR='"$(weirconfdir)"' -DWEIR_BINDIR='"$(bindir)"' -DWEIR_LIBDIR='"$(libdir)"'
## Compiled anew after configure was run with other folders.
$(policy_libpolicy_la_OBJECTS): Makefile
