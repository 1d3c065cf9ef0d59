## SPDX-License-Identifier: MIT

## Without libFuzzer: the seeds through the same entry. (The script is not called corpus.sh, as make would build `corpus` from it.)
check_PROGRAMS += tests/fuzz/arena_corpus tests/fuzz/figures_corpus tests/fuzz/policy_corpus tests/fuzz/replay_corpus tests/fuzz/trace_corpus tests/fuzz/wire_corpus
tests_fuzz_arena_corpus_SOURCES = %reldir%/arena_fuzz.c %reldir%/run_files.h
tests_fuzz_arena_corpus_LDADD = tests/unit/libarenamodel.la
tests_fuzz_figures_corpus_SOURCES = %reldir%/figures_fuzz.c %reldir%/run_files.h
tests_fuzz_figures_corpus_LDADD = tools/libtools.la
tests_fuzz_policy_corpus_SOURCES = %reldir%/policy_fuzz.c %reldir%/run_files.h
tests_fuzz_policy_corpus_LDADD = policy/libpolicy.la
tests_fuzz_replay_corpus_SOURCES = %reldir%/replay_fuzz.c %reldir%/run_files.h
tests_fuzz_replay_corpus_LDADD = tests/unit/libtracedata.la tools/libtools.la
tests_fuzz_trace_corpus_SOURCES = %reldir%/trace_fuzz.c %reldir%/run_files.h
tests_fuzz_trace_corpus_LDADD = tests/unit/libtracedata.la trace/libcolumns.la
tests_fuzz_wire_corpus_SOURCES = %reldir%/wire_fuzz.c %reldir%/run_files.h
tests_fuzz_wire_corpus_LDADD = tests/unit/libwiredata.la share/libshare.la
dist_check_SCRIPTS += %reldir%/seeds.sh
TESTS += %reldir%/seeds.sh
EXTRA_DIST += %reldir%/corpus %reldir%/policy.dict

## With libFuzzer, which is clang's, whatever the compiler of the rest: `make arena-fuzz`, `make figures-fuzz`, `make policy-fuzz`, `make trace-fuzz`,
## `make wire-fuzz`, and `make fuzz FUZZ_SECONDS=60`, which runs all, so long each.
FUZZ_CC = clang
FUZZ_CFLAGS = -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_SECONDS = 60
## 0: another one in each run.
FUZZ_SEED = 0
FUZZ_FLAGS = -seed=$(FUZZ_SEED) -timeout=60 -rss_limit_mb=2048 -artifact_prefix=tests/fuzz/ -print_final_stats=1

tests/fuzz/policy_fuzz: $(top_srcdir)/tests/fuzz/policy_fuzz.c $(policy_libpolicy_la_SOURCES) config.h
	$(AM_V_GEN)$(MKDIR_P) tests/fuzz && $(FUZZ_CC) $(FUZZ_CFLAGS) -DWEIR_LIBFUZZER -I$(top_srcdir) -I$(top_builddir) $(YAML_CFLAGS) \
		-o $@ $(top_srcdir)/tests/fuzz/policy_fuzz.c \
		`for file in $(policy_libpolicy_la_SOURCES); do case $$file in *.c) echo $(top_srcdir)/$$file;; esac; done` $(YAML_LIBS)
CLEANFILES += tests/fuzz/policy_fuzz

## What reads figures needs json-c alone.
tests/fuzz/figures_fuzz: $(top_srcdir)/tests/fuzz/figures_fuzz.c $(top_srcdir)/tools/common/figures.c $(top_srcdir)/tools/common/figures.h config.h
	$(AM_V_GEN)$(MKDIR_P) tests/fuzz && $(FUZZ_CC) $(FUZZ_CFLAGS) -DWEIR_LIBFUZZER -I$(top_srcdir) -I$(top_builddir) $(JSON_CFLAGS) \
		-o $@ $(top_srcdir)/tests/fuzz/figures_fuzz.c $(top_srcdir)/tools/common/figures.c $(JSON_LIBS)
CLEANFILES += tests/fuzz/figures_fuzz

## The codec is pure, and needs no other file.
tests/fuzz/wire_fuzz: $(top_srcdir)/tests/fuzz/wire_fuzz.c $(top_srcdir)/share/wire/wire.c $(top_srcdir)/share/wire/wire.h config.h
	$(AM_V_GEN)$(MKDIR_P) tests/fuzz && $(FUZZ_CC) $(FUZZ_CFLAGS) -DWEIR_LIBFUZZER -I$(top_srcdir) -I$(top_builddir) \
		-o $@ $(top_srcdir)/tests/fuzz/wire_fuzz.c $(top_srcdir)/share/wire/wire.c
CLEANFILES += tests/fuzz/wire_fuzz

## The arena is pure, and needs no other file than its model.
arena_fuzz_files = $(lib_backing_arena_libarena_la_SOURCES) $(tests_unit_libarenamodel_la_SOURCES)
tests/fuzz/arena_fuzz: $(top_srcdir)/tests/fuzz/arena_fuzz.c $(arena_fuzz_files) config.h
	$(AM_V_GEN)$(MKDIR_P) tests/fuzz && $(FUZZ_CC) $(FUZZ_CFLAGS) -DWEIR_LIBFUZZER -I$(top_srcdir) -I$(top_builddir) \
		-o $@ $(top_srcdir)/tests/fuzz/arena_fuzz.c \
		`for file in $(arena_fuzz_files); do case $$file in *.c) echo $(top_srcdir)/$$file;; esac; done`
CLEANFILES += tests/fuzz/arena_fuzz

## What reads traces, without the views.
trace_fuzz_files = lib/trace/block.c lib/trace/record.c trace/memory.c trace/define.c trace/map.c \
	trace/merge.c trace/model.c trace/orders.c trace/play.c trace/reader.c trace/record.c \
	trace/columns.c trace/library.c trace/write.c tests/unit/trace_data.c
tests/fuzz/trace_fuzz: $(top_srcdir)/tests/fuzz/trace_fuzz.c $(trace_libreader_la_SOURCES) $(trace_libcolumns_la_SOURCES) $(tests_unit_libtracedata_la_SOURCES) config.h
	$(AM_V_GEN)$(MKDIR_P) tests/fuzz && $(FUZZ_CC) $(FUZZ_CFLAGS) -DWEIR_LIBFUZZER -I$(top_srcdir) -I$(top_builddir) $(ZSTD_CFLAGS) \
		-o $@ $(top_srcdir)/tests/fuzz/trace_fuzz.c `for file in $(trace_fuzz_files); do echo $(top_srcdir)/$$file; done` $(ZSTD_LIBS)
CLEANFILES += tests/fuzz/trace_fuzz

arena-fuzz: tests/fuzz/arena_fuzz
figures-fuzz: tests/fuzz/figures_fuzz
policy-fuzz: tests/fuzz/policy_fuzz
trace-fuzz: tests/fuzz/trace_fuzz
wire-fuzz: tests/fuzz/wire_fuzz

## New inputs go into the build tree; the seeds stay as they are. What it finds is written to tests/fuzz/ there.
fuzz: fuzz-arena fuzz-figures fuzz-policy fuzz-trace fuzz-wire
fuzz-arena: tests/fuzz/arena_fuzz
	$(MKDIR_P) tests/fuzz/found-arena
	tests/fuzz/arena_fuzz $(FUZZ_FLAGS) -max_len=1024 -len_control=0 -max_total_time=$(FUZZ_SECONDS) tests/fuzz/found-arena \
		$(top_srcdir)/tests/fuzz/corpus/arena
fuzz-figures: tests/fuzz/figures_fuzz
	$(MKDIR_P) tests/fuzz/found-figures
	tests/fuzz/figures_fuzz $(FUZZ_FLAGS) -max_len=4096 -max_total_time=$(FUZZ_SECONDS) tests/fuzz/found-figures \
		$(top_srcdir)/tests/fuzz/corpus/figures
fuzz-policy: tests/fuzz/policy_fuzz
	$(MKDIR_P) tests/fuzz/found
	tests/fuzz/policy_fuzz $(FUZZ_FLAGS) -max_len=4096 -max_total_time=$(FUZZ_SECONDS) -dict=$(top_srcdir)/tests/fuzz/policy.dict \
		tests/fuzz/found $(top_srcdir)/tests/fuzz/corpus/policy $(top_srcdir)/tests/unit/policies/good $(top_srcdir)/tests/unit/policies/bad
fuzz-trace: tests/fuzz/trace_fuzz
	$(MKDIR_P) tests/fuzz/found-trace
	tests/fuzz/trace_fuzz $(FUZZ_FLAGS) -max_len=8192 -max_total_time=$(FUZZ_SECONDS) tests/fuzz/found-trace \
		$(top_srcdir)/tests/fuzz/corpus/trace
fuzz-wire: tests/fuzz/wire_fuzz
	$(MKDIR_P) tests/fuzz/found-wire
	tests/fuzz/wire_fuzz $(FUZZ_FLAGS) -max_len=1100 -max_total_time=$(FUZZ_SECONDS) tests/fuzz/found-wire \
		$(top_srcdir)/tests/fuzz/corpus/wire

## The seeds of the codec, after a change of the messages.
wire-seeds: tests/fuzz/wire_corpus
	rm -rf $(top_srcdir)/tests/fuzz/corpus/wire && $(MKDIR_P) $(top_srcdir)/tests/fuzz/corpus/wire
	tests/fuzz/wire_corpus --write $(top_srcdir)/tests/fuzz/corpus/wire

## The same of traces, after a change of the format.
trace-seeds: tests/fuzz/trace_corpus
	rm -rf $(top_srcdir)/tests/fuzz/corpus/trace && $(MKDIR_P) $(top_srcdir)/tests/fuzz/corpus/trace
	tests/fuzz/trace_corpus --write $(top_srcdir)/tests/fuzz/corpus/trace
