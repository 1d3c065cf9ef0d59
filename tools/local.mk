## SPDX-License-Identifier: MIT
## The command links the core with its hidden symbols: it needs the policy and the waist as well as weir.h.
bin_PROGRAMS += tools/weir
dist_man_MANS += man/weir.1
tools_weir_SOURCES = %reldir%/main.c
tools_weir_LDADD = tools/libtools.la

## All but main(): for the command itself, for what is generated from its table of subcommands, and for tests.
noinst_LTLIBRARIES += tools/libtools.la
tools_libtools_la_SOURCES = \
	%reldir%/check.c \
	%reldir%/commands.c \
	%reldir%/leases.c \
	%reldir%/common/observe.c \
	%reldir%/common/observe.h \
	%reldir%/ps.c \
	%reldir%/run.c \
	%reldir%/set.c \
	%reldir%/show.c \
	%reldir%/sleep.c \
	%reldir%/trim.c \
	%reldir%/common/change.c \
	%reldir%/common/change.h \
	%reldir%/common/child.c \
	%reldir%/common/claims.c \
	%reldir%/common/claims.h \
	%reldir%/common/child.h \
	%reldir%/common/command.c \
	%reldir%/common/command.h \
	%reldir%/common/complain.c \
	%reldir%/common/complain.h \
	%reldir%/common/costs.c \
	%reldir%/common/costs.h \
	%reldir%/common/costs_find.c \
	%reldir%/common/costs_find.h \
	%reldir%/common/environment.c \
	%reldir%/common/environment.h \
	%reldir%/common/figures.c \
	%reldir%/common/figures.h \
	%reldir%/common/format.c \
	%reldir%/common/format.h \
	%reldir%/common/json.c \
	%reldir%/common/json.h \
	%reldir%/common/processes.c \
	%reldir%/common/processes.h \
	%reldir%/common/processes_text.c \
	%reldir%/common/new_file.c \
	%reldir%/common/new_file.h \
	%reldir%/common/source.c \
	%reldir%/common/source.h \
	%reldir%/common/table.c \
	%reldir%/common/table.h \
	%reldir%/common/terminal.c \
	%reldir%/common/terminal.h \
	%reldir%/common/utf8.c \
	%reldir%/common/utf8.h \
	%reldir%/calibrate/arena.c \
	%reldir%/calibrate/calibrate.c \
	%reldir%/calibrate/fit.c \
	%reldir%/calibrate/fit.h \
	%reldir%/calibrate/measure.c \
	%reldir%/calibrate/measure.h \
	%reldir%/doctor/doctor.c \
	%reldir%/doctor/doctor.h \
	%reldir%/doctor/gpu.c \
	%reldir%/doctor/place.c \
	%reldir%/doctor/sockets.c \
	%reldir%/metrics/families.c \
	%reldir%/metrics/families.h \
	%reldir%/metrics/metrics.c \
	%reldir%/page/columns.c \
	%reldir%/page/columns.h \
	%reldir%/page/page.c \
	%reldir%/page/page.h \
	%reldir%/page/totals.c \
	%reldir%/record/any.c \
	%reldir%/record/any.h \
	%reldir%/record/launch.c \
	%reldir%/record/launch.h \
	%reldir%/record/live.c \
	%reldir%/record/live.h \
	%reldir%/record/name.c \
	%reldir%/record/name.h \
	%reldir%/record/program.c \
	%reldir%/record/program.h \
	%reldir%/record/record.c \
	%reldir%/replay/machine.c \
	%reldir%/replay/machine.h \
	%reldir%/replay/outcome.c \
	%reldir%/replay/outcome.h \
	%reldir%/replay/policy.c \
	%reldir%/replay/policy.h \
	%reldir%/replay/processes.c \
	%reldir%/replay/replay.c \
	%reldir%/replay/replay.h \
	%reldir%/replay/refusal.c \
	%reldir%/replay/refusal.h \
	%reldir%/replay/report.c \
	%reldir%/replay/report.h \
	%reldir%/replay/run.c \
	%reldir%/replay/run.h \
	%reldir%/replay/script.c \
	%reldir%/replay/script.h \
	%reldir%/replay/unaware.c \
	%reldir%/replay/unaware.h \
	%reldir%/replay/why.c \
	%reldir%/trace/import.c \
	%reldir%/trace/import.h \
	%reldir%/trace/trace.c \
	%reldir%/trace/view.c \
	%reldir%/trace/view.h \
	%reldir%/trace/view_events.c \
	%reldir%/trace/view_holders.c \
	%reldir%/trace/view_plot.c \
	%reldir%/trace/view_summary.c \
	%reldir%/trace/view_totals.c \
	%reldir%/trace/view_waits.c \
	%reldir%/tune/advice.c \
	%reldir%/tune/advice.h \
	%reldir%/tune/division.c \
	%reldir%/tune/division.h \
	%reldir%/tune/search.c \
	%reldir%/tune/search.h \
	%reldir%/tune/show.c \
	%reldir%/tune/show.h \
	%reldir%/tune/tune.c \
	%reldir%/tune/tune.h \
	%reldir%/tune/verify.c \
	%reldir%/tune/verify.h \
	%reldir%/try/recover.c \
	%reldir%/try/report.c \
	%reldir%/try/setup.c \
	%reldir%/try/try.c \
	%reldir%/try/try.h \
	%reldir%/try/work.c
tools_libtools_la_LIBADD = share/libshare.la trace/libreader.la $(JSON_LIBS) $(ZLIB_LIBS)
## Where `weir run` finds what it puts into Python, and where cost tables are.
tools_libtools_la_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS)
tools_libtools_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS) $(ZLIB_CFLAGS) -DWEIR_BINDIR='"$(bindir)"' -DWEIR_LIBDIR='"$(libdir)"' -DWEIR_PYTHON_DIR='"$(weirpythondir)"' -DWEIR_COSTS_DIR='"$(weircostsdir)"'
## Compiled anew after configure was run with other folders.
$(tools_libtools_la_OBJECTS): Makefile

## The page of `weir trace page` as bytes of the command: its scripts go one after the other, in this order, and each is read as it stands.
page_scripts = \
	%reldir%/page/data.js \
	%reldir%/page/model.js \
	%reldir%/page/words.js \
	%reldir%/page/draw.js \
	%reldir%/page/memory.js \
	%reldir%/page/steps.js \
	%reldir%/page/map.js \
	%reldir%/page/search.js \
	%reldir%/page/panel.js \
	%reldir%/page/twins.js \
	%reldir%/page/hands.js
EXTRA_DIST += %reldir%/page/assemble.sh %reldir%/page/page.html %reldir%/page/page.css $(page_scripts)
nodist_tools_libtools_la_SOURCES = tools/page/assets.c
CLEANFILES += tools/page/assets.c
tools/page/assets.c: %reldir%/page/assemble.sh %reldir%/page/page.html %reldir%/page/page.css $(page_scripts)
	$(AM_V_at)$(MKDIR_P) tools/page && rm -f $@
	$(AM_V_GEN)(at=`pwd`; cd $(srcdir) && $(SHELL) tools/page/assemble.sh tools/page/page.html tools/page/page.css $(page_scripts) >"$$at/$@.new") && mv $@.new $@

## Prints the JSON schema and the keys as Markdown (both committed, so that neither an editor nor a browser needs a build), the KEYS section of
## weir-policy(5), and the tables of the completion; not installed.
noinst_PROGRAMS += tools/generate
tools_generate_SOURCES = \
	%reldir%/generator/main.c \
	%reldir%/generator/generate.h \
	%reldir%/generator/completion.c \
	%reldir%/generator/man.c \
	%reldir%/generator/schema.c
tools_generate_LDADD = tools/libtools.la
## How it is run; where the machine that builds is another one than that which it is built for, with something before it.
GENERATE = tools/generate$(EXEEXT)

schema: tools/generate$(EXEEXT)
	$(GENERATE) schema > $(top_srcdir)/config/weir.schema.json
keys: tools/generate$(EXEEXT)
	$(GENERATE) markdown > $(top_srcdir)/doc/policy.md

EXTRA_DIST += config/weir.schema.json

## The completions of bash, which finds a command's file by its name, zsh and fish: each written by hand but for the table of the program's
## subcommands, which takes the place of a line in it, so that none can lag behind.
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = config/bash-completion/weir
zshcompletiondir = $(datadir)/zsh/site-functions
zshcompletion_DATA = config/zsh-completion/_weir
fishcompletiondir = $(datadir)/fish/vendor_completions.d
fishcompletion_DATA = config/fish-completion/weir.fish
EXTRA_DIST += config/completion.bash config/completion.zsh config/completion.fish
CLEANFILES += $(bashcompletion_DATA) $(zshcompletion_DATA) $(fishcompletion_DATA) tools/completion.table
tools/completion.table: tools/generate$(EXEEXT)
	$(AM_V_GEN)$(GENERATE) completion >$@.new && mv $@.new $@
make_completion = $(MKDIR_P) `dirname $@` && sed -e '/^@TABLE@$$/{r tools/completion.table' -e 'd' -e '}' $< >$@.new && mv $@.new $@
config/bash-completion/weir: config/completion.bash tools/completion.table
	$(AM_V_GEN)$(make_completion)
config/zsh-completion/_weir: config/completion.zsh tools/completion.table
	$(AM_V_GEN)$(make_completion)
config/fish-completion/weir.fish: config/completion.fish tools/completion.table
	$(AM_V_GEN)$(make_completion)
