## SPDX-License-Identifier: MIT
include_HEADERS += include/weir.h include/weir_sleep.h include/weir_reserve.h include/weir.hpp

## The rooms, each of which may include those above it in this list (tests/build/house.sh), and lib/gpu/gpu.h:
##   base/     errors, fork, events, locks, the service thread: what every room needs, and knows no weir
##   fence/    when freed memory may serve others: lines, marks, debts
##   record/   what the recorder has: rings of events, tags, stacks, modules
##   backing/  the memory of a pool, an arena or CUDA's pool: knows no pool
##   pool/     what a policy is on the devices: weir, device, pool, its settings, its blocks
##   alloc/    how a request is served: streams, caches, asking CUDA, giving blocks back
##   recover/  what is done for a request that found no memory: the ladder
##   release/  memory that goes back although nobody here asks for it: the keeper, giving to neighbours; does not know recover/
##   trace/    what the recorder has, in files; above pool/
##   here      open, close, reload, figures: ties the rooms together
##   backing/arena/  memory that Weir maps itself; includes none of the others, and only backing/ includes it
##
## Pure, so that tests and fuzzers have it without the rest.
noinst_LTLIBRARIES += lib/backing/arena/libarena.la
lib_backing_arena_libarena_la_SOURCES = \
	%reldir%/backing/arena/arena.c \
	%reldir%/backing/arena/arena.h \
	%reldir%/backing/arena/bin.c \
	%reldir%/backing/arena/bin.h \
	%reldir%/backing/arena/extent.c \
	%reldir%/backing/arena/extent.h \
	%reldir%/backing/arena/page.c \
	%reldir%/backing/arena/page.h \
	%reldir%/backing/arena/pinned.c \
	%reldir%/backing/arena/place.c \
	%reldir%/backing/arena/place.h \
	%reldir%/backing/arena/queue.c \
	%reldir%/backing/arena/queue.h \
	%reldir%/backing/arena/rest.c \
	%reldir%/backing/arena/rest.h \
	%reldir%/backing/arena/valid.c

## The bytes of traces, which libweir-trace writes as well. Pure.
noinst_LTLIBRARIES += lib/trace/libbytes.la
lib_trace_libbytes_la_SOURCES = \
	%reldir%/trace/block.c \
	%reldir%/trace/block.h \
	%reldir%/trace/record.c \
	%reldir%/trace/record.h
lib_trace_libbytes_la_LIBADD = $(ZSTD_LIBS)

## Everything but the waist and the version map.
noinst_LTLIBRARIES += lib/librooms.la
lib_librooms_la_SOURCES = \
	%reldir%/base/call.c \
	%reldir%/base/call.h \
	%reldir%/base/class.c \
	%reldir%/base/class.h \
	%reldir%/base/context.h \
	%reldir%/base/error.c \
	%reldir%/base/error.h \
	%reldir%/base/event.c \
	%reldir%/base/event.h \
	%reldir%/base/fork.c \
	%reldir%/base/fork.h \
	%reldir%/base/format.c \
	%reldir%/base/format.h \
	%reldir%/base/json.c \
	%reldir%/base/json.h \
	%reldir%/base/list.h \
	%reldir%/base/number.h \
	%reldir%/base/service.c \
	%reldir%/base/service.h \
	%reldir%/base/sized.c \
	%reldir%/base/sized.h \
	%reldir%/base/spin.c \
	%reldir%/base/spin.h \
	%reldir%/base/table.c \
	%reldir%/base/table.h \
	%reldir%/base/treap.h \
	%reldir%/base/user.c \
	%reldir%/base/user.h \
	%reldir%/base/utf8.c \
	%reldir%/base/utf8.h \
	%reldir%/base/valid.c \
	%reldir%/base/valid.h \
	%reldir%/fence/debt.c \
	%reldir%/fence/fence.h \
	%reldir%/fence/fence_internal.h \
	%reldir%/fence/line.c \
	%reldir%/fence/mark.c \
	%reldir%/fence/wait.c \
	%reldir%/record/interpreter.c \
	%reldir%/record/interpreter.h \
	%reldir%/record/kind.h \
	%reldir%/record/modules.c \
	%reldir%/record/modules.h \
	%reldir%/record/recorder.c \
	%reldir%/record/recorder.h \
	%reldir%/record/ring.c \
	%reldir%/record/ring.h \
	%reldir%/record/stack.c \
	%reldir%/record/stack.h \
	%reldir%/record/tag.c \
	%reldir%/record/tag.h \
	%reldir%/record/unwind.c \
	%reldir%/record/unwind.h \
	%reldir%/backing/arena.c \
	%reldir%/backing/arena.h \
	%reldir%/backing/arena_internal.h \
	%reldir%/backing/arena_serve.c %reldir%/backing/arena_sleep.c \
	%reldir%/backing/backing.h \
	%reldir%/backing/cuda.c \
	%reldir%/backing/cuda.h \
	%reldir%/backing/cuda_cap.c \
	%reldir%/backing/cuda_cap.h \
	%reldir%/backing/cuda_threshold.c \
	%reldir%/backing/window.c \
	%reldir%/backing/window.h \
	%reldir%/pool/asking.c \
	%reldir%/pool/asking.h \
	%reldir%/pool/blocks.c \
	%reldir%/pool/blocks.h \
	%reldir%/pool/demand.c \
	%reldir%/pool/demand.h \
	%reldir%/pool/device.c \
	%reldir%/pool/device.h \
	%reldir%/pool/figures.c \
	%reldir%/pool/figures.h \
	%reldir%/pool/former.c \
	%reldir%/pool/former.h \
	%reldir%/pool/holders.c \
	%reldir%/pool/holders.h \
	%reldir%/pool/left.c \
	%reldir%/pool/left.h \
	%reldir%/pool/local_rank.c \
	%reldir%/pool/local_rank.h \
	%reldir%/pool/log.c \
	%reldir%/pool/log.h \
	%reldir%/pool/pool.c \
	%reldir%/pool/pool.h \
	%reldir%/pool/quota.c \
	%reldir%/pool/quota.h \
	%reldir%/pool/recorded.c \
	%reldir%/pool/recorded.h \
	%reldir%/pool/settings.c \
	%reldir%/pool/settings.h \
	%reldir%/pool/weir_internal.h \
	%reldir%/alloc/cache.c \
	%reldir%/alloc/cache.h \
	%reldir%/alloc/calls.c \
	%reldir%/alloc/flush.c \
	%reldir%/alloc/flush.h \
	%reldir%/alloc/free.c \
	%reldir%/alloc/free.h \
	%reldir%/alloc/grant.c \
	%reldir%/alloc/grant.h \
	%reldir%/alloc/held.c \
	%reldir%/alloc/held.h \
	%reldir%/alloc/lend.c \
	%reldir%/alloc/lend.h \
	%reldir%/alloc/malloc.c \
	%reldir%/alloc/opening.c \
	%reldir%/alloc/order.c \
	%reldir%/alloc/orphans.c \
	%reldir%/alloc/orphans.h \
	%reldir%/alloc/others.c \
	%reldir%/alloc/others.h \
	%reldir%/alloc/quiet.c \
	%reldir%/alloc/quiet.h \
	%reldir%/alloc/noted.h \
	%reldir%/alloc/recent.c \
	%reldir%/alloc/recent.h \
	%reldir%/alloc/request.c \
	%reldir%/alloc/request.h \
	%reldir%/alloc/sleep.c \
	%reldir%/alloc/sleep.h \
	%reldir%/alloc/stream.c \
	%reldir%/alloc/stream.h \
	%reldir%/recover/callbacks.c \
	%reldir%/recover/callbacks.h \
	%reldir%/recover/climb.h \
	%reldir%/recover/finding.c \
	%reldir%/recover/finding.h \
	%reldir%/recover/recover.c \
	%reldir%/recover/recover.h \
	%reldir%/recover/report.c \
	%reldir%/recover/report.h \
	%reldir%/recover/rungs.c \
	%reldir%/release/adapt.c \
	%reldir%/release/adapt.h \
	%reldir%/release/give.c \
	%reldir%/release/give.h \
	%reldir%/release/keeper.c \
	%reldir%/release/keeper.h \
	%reldir%/about.c \
	%reldir%/about.h \
	%reldir%/attached.c \
	%reldir%/attached.h \
	%reldir%/open.h \
	%reldir%/trace/costs.c \
	%reldir%/trace/costs.h \
	%reldir%/trace/encode.c \
	%reldir%/trace/encode.h \
	%reldir%/trace/file.c \
	%reldir%/trace/file.h \
	%reldir%/trace/head.c \
	%reldir%/trace/head.h \
	%reldir%/trace/place.c \
	%reldir%/trace/place.h \
	%reldir%/trace/traced.c \
	%reldir%/trace/traced.h \
	%reldir%/trace/writer.c \
	%reldir%/trace/writer.h \
	%reldir%/leaks.c \
	%reldir%/leaks.h \
	%reldir%/marks.c \
	%reldir%/source.c \
	%reldir%/source.h \
	%reldir%/stats.c \
	%reldir%/stats.h \
	%reldir%/stats_json.c \
	%reldir%/weir.c \
	include/weir.h \
	include/weir_sleep.h
lib_librooms_la_LIBADD = $(ZSTD_LIBS) policy/libpolicy.la lib/backing/arena/libarena.la lib/trace/libbytes.la

## The same with the waist and its simulator, so that tests and the command reach hidden symbols.
noinst_LTLIBRARIES += lib/libcore.la
lib_libcore_la_SOURCES =
lib_libcore_la_LIBADD = lib/librooms.la lib/gpu/libgpu.la lib/gpu/libsim.la

## With share/ and the map: what is installed.
lib_LTLIBRARIES += lib/libweir.la
lib_libweir_la_SOURCES =
lib_libweir_la_LIBADD = share/librooms.la lib/librooms.la $(installed_gpu)
lib_libweir_la_LDFLAGS = $(AM_LDFLAGS) $(WEIR_LIB_LDFLAGS) -no-undefined -version-info $(WEIR_LT_VERSION)
if HAVE_VERSION_MAP
lib_libweir_la_LDFLAGS += -Wl,--version-script=$(top_srcdir)/%reldir%/libweir.map
EXTRA_lib_libweir_la_DEPENDENCIES = %reldir%/libweir.map
endif
EXTRA_DIST += %reldir%/libweir.map

pkgconfig_DATA += weir.pc

## find_package(weir CONFIG) of CMake.
cmakedir = $(libdir)/cmake/weir
cmake_DATA = weirConfig.cmake weirConfigVersion.cmake
EXTRA_DIST += weirConfig.cmake.in weirConfigVersion.cmake.in
CLEANFILES += $(cmake_DATA)
$(cmake_DATA): weirConfig.cmake.in weirConfigVersion.cmake.in Makefile
	$(AM_V_GEN)sed -e 's|[@]libdir[@]|$(libdir)|' -e 's|[@]includedir[@]|$(includedir)|' -e 's|[@]VERSION[@]|$(VERSION)|' \
	    $(srcdir)/$@.in >$@.new && mv $@.new $@
