## SPDX-License-Identifier: MIT

## For sweeps: linked into a program, it replaces malloc. Only programs that name it get it.
check_LTLIBRARIES += tests/support/libfail.la
tests_support_libfail_la_SOURCES = tests/support/fail_malloc.c tests/support/fail_malloc.h

check_LTLIBRARIES += tests/unit/libpolicydata.la
tests_unit_libpolicydata_la_SOURCES = %reldir%/policy_data.c %reldir%/policy_data.h
tests_unit_libpolicydata_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_libpolicydata_la_LIBADD = policy/libpolicy.la tests/support/libsuite.la

policy_tests = \
	tests/unit/policy_cache \
	tests/unit/policy_files \
	tests/unit/policy_foreign \
	tests/unit/policy_load \
	tests/unit/policy_memory \
	tests/unit/policy_overrides \
	tests/unit/policy_set \
	tests/unit/policy_share \
	tests/unit/policy_values
check_PROGRAMS += $(policy_tests)
TESTS += $(policy_tests)

tests_unit_policy_cache_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_cache_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_files_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_files_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_foreign_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_foreign_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_load_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_load_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_memory_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_memory_LDADD = tests/unit/libpolicydata.la tests/support/libfail.la
tests_unit_policy_overrides_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_overrides_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_set_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_set_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_share_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_share_LDADD = tests/unit/libpolicydata.la
tests_unit_policy_values_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_policy_values_LDADD = tests/unit/libpolicydata.la

check_PROGRAMS += tests/unit/service
TESTS += tests/unit/service
tests_unit_service_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_service_LDADD = tests/support/libsuite.la tests/support/libfail.la share/libshare.la

check_PROGRAMS += tests/unit/costs
TESTS += tests/unit/costs
tests_unit_costs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_costs_LDADD = tests/support/libsuite.la tools/libtools.la

check_PROGRAMS += tests/unit/service_hand
TESTS += tests/unit/service_hand
tests_unit_service_hand_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_service_hand_LDADD = tests/support/libsuite.la tests/support/libfail.la share/libshare.la

check_PROGRAMS += tests/unit/service_remove
TESTS += tests/unit/service_remove
tests_unit_service_remove_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_service_remove_LDADD = tests/support/libsuite.la share/libshare.la

EXTRA_DIST += %reldir%/policies

dist_check_SCRIPTS += %reldir%/schema.sh
TESTS += %reldir%/schema.sh

check_PROGRAMS += tests/unit/table
TESTS += tests/unit/table
tests_unit_table_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_table_LDADD = tests/support/libsuite.la tests/support/libfail.la share/libshare.la

check_PROGRAMS += tests/unit/class
TESTS += tests/unit/class
tests_unit_class_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_class_LDADD = tests/support/libsuite.la share/libshare.la

check_PROGRAMS += tests/unit/fence
TESTS += tests/unit/fence
tests_unit_fence_SOURCES = \
	%reldir%/fence.c \
	%reldir%/fence.h \
	%reldir%/fence_between.c \
	%reldir%/fence_failures.c \
	%reldir%/fence_random.c \
	%reldir%/fence_threads.c \
	%reldir%/fence_waits.c
tests_unit_fence_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_fence_LDADD = tests/support/libsuite.la tests/support/libfail.la share/libshare.la

check_PROGRAMS += tests/unit/demand
TESTS += tests/unit/demand
tests_unit_demand_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_demand_LDADD = tests/support/libsuite.la share/libshare.la

## The messages of each type and their bytes, for the codec's tests and as seeds of its fuzzer.
check_LTLIBRARIES += tests/unit/libwiredata.la
tests_unit_libwiredata_la_SOURCES = %reldir%/wire_data.c %reldir%/wire_data.h

check_PROGRAMS += tests/unit/wire
TESTS += tests/unit/wire
tests_unit_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_wire_LDADD = tests/unit/libwiredata.la tests/support/libsuite.la share/libshare.la

check_PROGRAMS += tests/unit/texts
TESTS += tests/unit/texts
tests_unit_texts_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_texts_LDADD = tests/support/libsuite.la tools/libtools.la

## An arena beside a model of it, for its tests and its fuzzer.
check_LTLIBRARIES += tests/unit/libarenamodel.la
tests_unit_libarenamodel_la_SOURCES = tests/unit/arena_model.c tests/unit/arena_model.h
tests_unit_libarenamodel_la_LIBADD = lib/backing/arena/libarena.la

check_PROGRAMS += tests/unit/arena tests/unit/arena_failures tests/unit/arena_rest
TESTS += tests/unit/arena tests/unit/arena_failures tests/unit/arena_rest
tests_unit_arena_rest_SOURCES = tests/unit/arena_rest.c bench/numbers.h
tests_unit_arena_rest_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_arena_rest_LDADD = lib/backing/arena/libarena.la tests/support/libsuite.la
tests_unit_arena_SOURCES = tests/unit/arena.c bench/numbers.h
tests_unit_arena_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_arena_LDADD = tests/unit/libarenamodel.la tests/support/libsuite.la
tests_unit_arena_failures_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_arena_failures_LDADD = tests/unit/libarenamodel.la tests/support/libsuite.la tests/support/libfail.la

## What the recorder keeps of stacks. The module is libweir's stand-in: a shared object with the unwinder in it.
check_LTLIBRARIES += tests/unit/libunwindmodule.la
tests_unit_libunwindmodule_la_SOURCES = %reldir%/unwind_module.c %reldir%/unwind_module.h lib/record/unwind.c lib/record/unwind.h
tests_unit_libunwindmodule_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version -rpath /nowhere

check_PROGRAMS += tests/unit/interpreter tests/unit/modules tests/unit/stacks tests/unit/unwind
TESTS += tests/unit/interpreter tests/unit/modules tests/unit/stacks tests/unit/unwind
tests_unit_interpreter_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_interpreter_LDADD = tests/support/libsuite.la lib/libcore.la
tests_unit_modules_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_modules_LDFLAGS = $(AM_LDFLAGS) -Wl,--build-id=0x0123456789abcdef00ff
tests_unit_modules_LDADD = tests/support/libsuite.la tests/support/libfail.la lib/libcore.la
tests_unit_stacks_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_stacks_LDADD = tests/support/libsuite.la lib/libcore.la
tests_unit_unwind_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -fno-omit-frame-pointer
tests_unit_unwind_LDADD = tests/unit/libunwindmodule.la tests/support/libsuite.la lib/libcore.la

## Small traces, written from doc/trace.md, and what the readers of `weir trace` make of them.
check_LTLIBRARIES += tests/unit/libtracedata.la
tests_unit_libtracedata_la_SOURCES = %reldir%/trace_data.c %reldir%/trace_data.h
tests_unit_libtracedata_la_CPPFLAGS = $(AM_CPPFLAGS) $(ZSTD_CFLAGS)
tests_unit_libtracedata_la_LIBADD = $(ZSTD_LIBS)

check_PROGRAMS += tests/unit/trace_columns tests/unit/trace_merge tests/unit/trace_model tests/unit/trace_reader
TESTS += tests/unit/trace_columns tests/unit/trace_merge tests/unit/trace_model tests/unit/trace_reader
tests_unit_trace_columns_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_trace_columns_LDADD = tests/unit/libtracedata.la tests/support/libsuite.la tests/support/libfail.la trace/libcolumns.la
tests_unit_trace_merge_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_trace_merge_LDADD = tests/unit/libtracedata.la tests/support/libsuite.la tools/libtools.la
tests_unit_trace_model_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_trace_model_LDADD = tests/support/libsuite.la tools/libtools.la
tests_unit_trace_reader_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_trace_reader_LDADD = tests/unit/libtracedata.la tests/support/libsuite.la tools/libtools.la

## Functions of a file that the test knows, with debug information whatever the rest is built with.
check_LTLIBRARIES += tests/unit/libsymbolsdata.la
tests_unit_libsymbolsdata_la_SOURCES = %reldir%/symbols_data.c %reldir%/symbols_data.h
tests_unit_libsymbolsdata_la_CFLAGS = $(AM_CFLAGS) -g
tests_unit_libsymbolsdata_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version -rpath /nowhere \
	-Wl,--build-id=0xfeedbeef00112233445566778899aabb

check_PROGRAMS += tests/unit/symbols
TESTS += tests/unit/symbols
tests_unit_symbols_CPPFLAGS = $(AM_CPPFLAGS) -DOBJCOPY='"$(OBJCOPY)"'
tests_unit_symbols_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_symbols_LDADD = tests/unit/libsymbolsdata.la tests/support/libsuite.la tools/libtools.la

## The recorder's rings.
check_PROGRAMS += tests/unit/ring
TESTS += tests/unit/ring
tests_unit_ring_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_ring_LDADD = tests/support/libsuite.la lib/libcore.la

check_PROGRAMS += tests/unit/sim_index
TESTS += tests/unit/sim_index
tests_unit_sim_index_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_sim_index_LDADD = tests/support/libsuite.la lib/gpu/libgpu.la lib/gpu/libsim.la

## What NVML says, by a stand-in for it.
if HAVE_CUDA
check_LTLIBRARIES += tests/unit/libnvmlmodule.la
tests_unit_libnvmlmodule_la_SOURCES = %reldir%/nvml_module.c %reldir%/nvml_module.h
tests_unit_libnvmlmodule_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version -rpath /nowhere

check_PROGRAMS += tests/unit/nvml
TESTS += tests/unit/nvml
tests_unit_nvml_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_nvml_SOURCES = %reldir%/nvml.c %reldir%/nvml_module.h lib/gpu/nvml.c
tests_unit_nvml_CPPFLAGS = $(AM_CPPFLAGS) -DNVML_LIBRARY='"libnvmlmodule.so"'
tests_unit_nvml_LDADD = tests/unit/libnvmlmodule.la tests/support/libsuite.la
endif

## Outputs of commands.
check_PROGRAMS += tests/unit/new_file
TESTS += tests/unit/new_file
tests_unit_new_file_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_new_file_LDADD = tests/support/libsuite.la tools/libtools.la
