## SPDX-License-Identifier: MIT
include_HEADERS += %reldir%/weir.h

## Everything but the version map, so that tests and the command reach hidden symbols.
noinst_LTLIBRARIES += lib/libcore.la
lib_libcore_la_SOURCES = \
	%reldir%/asking.c \
	%reldir%/asking.h \
	%reldir%/attach.c \
	%reldir%/attach.h \
	%reldir%/bias.c \
	%reldir%/bias.h \
	%reldir%/blocks.c \
	%reldir%/blocks.h \
	%reldir%/cache.c \
	%reldir%/cache.h \
	%reldir%/callbacks.c \
	%reldir%/callbacks.h \
	%reldir%/class.c \
	%reldir%/class.h \
	%reldir%/current.c \
	%reldir%/current.h \
	%reldir%/device.c \
	%reldir%/device.h \
	%reldir%/error.c \
	%reldir%/error.h \
	%reldir%/event.c \
	%reldir%/event.h \
	%reldir%/fast.h \
	%reldir%/fence.c \
	%reldir%/fence.h \
	%reldir%/flush.c \
	%reldir%/flush.h \
	%reldir%/format.c \
	%reldir%/format.h \
	%reldir%/give.c \
	%reldir%/grant.c \
	%reldir%/grant.h \
	%reldir%/keeper.c \
	%reldir%/keeper.h \
	%reldir%/log.c \
	%reldir%/log.h \
	%reldir%/malloc.c \
	%reldir%/malloc.h \
	%reldir%/orphans.c \
	%reldir%/orphans.h \
	%reldir%/pending.c \
	%reldir%/pending.h \
	%reldir%/pool.c \
	%reldir%/pool.h \
	%reldir%/quiet.c \
	%reldir%/quiet.h \
	%reldir%/recover.c \
	%reldir%/recover.h \
	%reldir%/report.c \
	%reldir%/report.h \
	%reldir%/retired.c \
	%reldir%/retired.h \
	%reldir%/service.c \
	%reldir%/service.h \
	%reldir%/settings.c \
	%reldir%/settings.h \
	%reldir%/sized.c \
	%reldir%/sized.h \
	%reldir%/spin.c \
	%reldir%/spin.h \
	%reldir%/stats.c \
	%reldir%/stream.c \
	%reldir%/stream.h \
	%reldir%/valid.c \
	%reldir%/valid.h \
	%reldir%/waits.c \
	%reldir%/waits.h \
	%reldir%/weir.c \
	%reldir%/weir.h \
	%reldir%/weir_internal.h
lib_libcore_la_LIBADD = policy/libpolicy.la lib/gpu/libgpu.la

## The same with share/ and the map: what is installed.
lib_LTLIBRARIES += lib/libweir.la
lib_libweir_la_SOURCES =
lib_libweir_la_LIBADD = share/libshare.la
lib_libweir_la_LDFLAGS = $(AM_LDFLAGS) $(WEIR_LIB_LDFLAGS) -no-undefined -version-info $(WEIR_LT_VERSION)
if HAVE_VERSION_MAP
lib_libweir_la_LDFLAGS += -Wl,--version-script=$(top_srcdir)/%reldir%/libweir.map
EXTRA_lib_libweir_la_DEPENDENCIES = %reldir%/libweir.map
endif
EXTRA_DIST += %reldir%/libweir.map

pkgconfig_DATA += weir.pc
