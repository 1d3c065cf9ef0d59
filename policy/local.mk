## SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += policy/libpolicy.la
policy_libpolicy_la_SOURCES = \
	%reldir%/arena.c %reldir%/arena.h \
	%reldir%/check.c \
	%reldir%/keys.c %reldir%/keys.h \
	%reldir%/load.c \
	%reldir%/number.c %reldir%/number.h \
	%reldir%/origin.h \
	%reldir%/overrides.c \
	%reldir%/parse.c %reldir%/parse.h \
	%reldir%/policy.c %reldir%/policy.h \
	%reldir%/report.c %reldir%/report.h \
	%reldir%/tree.c %reldir%/tree.h \
	%reldir%/value.c %reldir%/value.h
policy_libpolicy_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
policy_libpolicy_la_LIBADD = $(YAML_LIBS)

## Prints the JSON schema (committed as config/weir.schema.json) and the KEYS section of weir-policy(5).
noinst_PROGRAMS += policy/generate
policy_generate_SOURCES = %reldir%/generate.c
policy_generate_LDADD = policy/libpolicy.la

schema: policy/generate$(EXEEXT)
	policy/generate$(EXEEXT) schema > $(top_srcdir)/config/weir.schema.json

EXTRA_DIST += config/weir.schema.json
