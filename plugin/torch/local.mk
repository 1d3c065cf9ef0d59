## SPDX-License-Identifier: MIT
## Everything but the function that throws and the version map, so that tests reach hidden symbols and need no C++.
noinst_LTLIBRARIES += plugin/torch/libentries.la
plugin_torch_libentries_la_SOURCES = \
	%reldir%/arena.c \
	%reldir%/arena.h \
	%reldir%/begin.c \
	%reldir%/begin.h \
	%reldir%/device.c \
	%reldir%/device.h \
	%reldir%/dlpack.c \
	%reldir%/entry.c \
	%reldir%/entry.h \
	%reldir%/history.c \
	%reldir%/history.h \
	%reldir%/frame.c \
	%reldir%/hold.c \
	%reldir%/hold.h \
	%reldir%/late.c \
	%reldir%/late.h \
	%reldir%/note.c \
	%reldir%/note.h \
	%reldir%/pages.c \
	%reldir%/pools.c \
	%reldir%/python.c \
	%reldir%/python.h \
	%reldir%/region.c \
	%reldir%/region.h \
	%reldir%/reserve.c \
	%reldir%/reserve.h \
	%reldir%/marks.c \
	%reldir%/source.c \
	%reldir%/source.h \
	%reldir%/state.c \
	%reldir%/stats.c \
	%reldir%/stream.c \
	%reldir%/stream.h \
	%reldir%/weir_torch.h
## weir_torch.h is installed beside weir.h, and includes it so.
plugin_torch_libentries_la_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include

## For programs of the build.
noinst_LTLIBRARIES += plugin/torch/libtorch.la
plugin_torch_libtorch_la_SOURCES =
plugin_torch_libtorch_la_LIBADD = plugin/torch/libentries.la share/libshare.la

EXTRA_DIST += %reldir%/libweir-torch.map
if HAVE_TORCH
include_HEADERS += %reldir%/weir_torch.h
lib_LTLIBRARIES += plugin/torch/libweir-torch.la
plugin_torch_libweir_torch_la_SOURCES = %reldir%/throw.cc
plugin_torch_libweir_torch_la_CPPFLAGS = $(AM_CPPFLAGS) -iquote $(top_srcdir)/include
plugin_torch_libweir_torch_la_LIBADD = plugin/torch/libentries.la $(lib_libweir_la_LIBADD)
## A module that nothing links, with its own copy of libweir, whose calls stay within it.
plugin_torch_libweir_torch_la_LDFLAGS = $(AM_LDFLAGS) $(WEIR_LIB_LDFLAGS) $(WEIR_MODULE_LDFLAGS) \
	-shared -module -avoid-version -no-undefined
if HAVE_VERSION_MAP
plugin_torch_libweir_torch_la_LDFLAGS += -Wl,--version-script=$(top_srcdir)/%reldir%/libweir-torch.map
EXTRA_plugin_torch_libweir_torch_la_DEPENDENCIES = %reldir%/libweir-torch.map
endif
endif
