## SPDX-License-Identifier: MIT
## The command links the core with its hidden symbols: it needs the policy and the waist as well as weir.h.
bin_PROGRAMS += tools/weir
dist_man_MANS += man/weir.1
tools_weir_SOURCES = \
	%reldir%/check.c \
	%reldir%/command.c \
	%reldir%/command.h \
	%reldir%/devices.c \
	%reldir%/format.c \
	%reldir%/format.h \
	%reldir%/help.c \
	%reldir%/histogram.c \
	%reldir%/histogram.h \
	%reldir%/json.c \
	%reldir%/json.h \
	%reldir%/main.c \
	%reldir%/show.c \
	%reldir%/source.c \
	%reldir%/source.h \
	%reldir%/table.c \
	%reldir%/table.h \
	%reldir%/terminal.c \
	%reldir%/terminal.h \
	%reldir%/try.c \
	%reldir%/try.h \
	%reldir%/try_json.c \
	%reldir%/try_recover.c \
	%reldir%/try_report.c \
	%reldir%/try_setup.c \
	%reldir%/try_work.c
tools_weir_LDADD = share/libshare.la

## Prints the JSON schema (committed as config/weir.schema.json) and the KEYS section of weir-policy(5); not installed.
noinst_PROGRAMS += tools/generate
tools_generate_SOURCES = %reldir%/generate.c
tools_generate_LDADD = policy/libpolicy.la

schema: tools/generate$(EXEEXT)
	tools/generate$(EXEEXT) schema > $(top_srcdir)/config/weir.schema.json

EXTRA_DIST += config/weir.schema.json
