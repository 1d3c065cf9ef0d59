## SPDX-License-Identifier: MIT
## The command links the core with its hidden symbols: it needs the policy and the waist as well as weir.h.
bin_PROGRAMS += tools/weir
dist_man_MANS += man/weir.1
tools_weir_SOURCES = %reldir%/main.c
tools_weir_LDADD = tools/libtools.la

## All but main(): for the command itself, for what is generated from its table of subcommands, and for tests.
noinst_LTLIBRARIES += tools/libtools.la
tools_libtools_la_SOURCES = \
	%reldir%/change.c \
	%reldir%/change.h \
	%reldir%/check.c \
	%reldir%/command.c \
	%reldir%/command.h \
	%reldir%/commands.c \
	%reldir%/complain.c \
	%reldir%/complain.h \
	%reldir%/devices.c \
	%reldir%/evict.c \
	%reldir%/format.c \
	%reldir%/format.h \
	%reldir%/help.c \
	%reldir%/histogram.c \
	%reldir%/histogram.h \
	%reldir%/json.c \
	%reldir%/json.h \
	%reldir%/leases.c \
	%reldir%/metrics.c \
	%reldir%/observe.c \
	%reldir%/observe.h \
	%reldir%/paragraph.c \
	%reldir%/paragraph.h \
	%reldir%/processes.c \
	%reldir%/processes.h \
	%reldir%/ps.c \
	%reldir%/reload.c \
	%reldir%/run.c \
	%reldir%/set.c \
	%reldir%/show.c \
	%reldir%/source.c \
	%reldir%/source.h \
	%reldir%/table.c \
	%reldir%/table.h \
	%reldir%/terminal.c \
	%reldir%/terminal.h \
	%reldir%/top.c \
	%reldir%/top_model.c \
	%reldir%/top_model.h \
	%reldir%/top_view.c \
	%reldir%/top_view.h \
	%reldir%/trim.c \
	%reldir%/try.c \
	%reldir%/try.h \
	%reldir%/try_json.c \
	%reldir%/try_recover.c \
	%reldir%/try_report.c \
	%reldir%/try_setup.c \
	%reldir%/try_work.c
tools_libtools_la_LIBADD = share/libshare.la
## Where `weir run` finds what it puts into Python.
tools_libtools_la_CPPFLAGS = $(AM_CPPFLAGS) -DWEIR_LIBDIR='"$(libdir)"' -DWEIR_PYTHON_DIR='"$(weirpythondir)"'
## Compiled anew after configure was run with other folders.
$(tools_libtools_la_OBJECTS): Makefile
if HAVE_NCURSES
tools_libtools_la_SOURCES += \
	%reldir%/top_look.c \
	%reldir%/top_look.h \
	%reldir%/top_screen.c \
	%reldir%/top_screen.h
tools_libtools_la_LIBADD += $(NCURSES_LIBS)
endif

## Prints the JSON schema (committed as config/weir.schema.json), the KEYS section of weir-policy(5), and the tables of the completion; not
## installed.
noinst_PROGRAMS += tools/generate
tools_generate_SOURCES = \
	%reldir%/generate.c \
	%reldir%/generate.h \
	%reldir%/generate_completion.c
tools_generate_LDADD = tools/libtools.la

schema: tools/generate$(EXEEXT)
	tools/generate$(EXEEXT) schema > $(top_srcdir)/config/weir.schema.json

EXTRA_DIST += config/weir.schema.json

## The completion of bash finds a command's file by its name. The tables come from those of the program, so that it cannot lag behind.
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = config/bash-completion/weir
EXTRA_DIST += config/completion.bash
CLEANFILES += config/bash-completion/weir
config/bash-completion/weir: config/completion.bash tools/generate$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) config/bash-completion && rm -f $@
	$(AM_V_GEN){ tools/generate$(EXEEXT) completion && cat $(srcdir)/config/completion.bash; } >$@.new && mv $@.new $@
