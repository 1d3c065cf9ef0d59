## SPDX-License-Identifier: MIT
## The reader of traces, for the command and for libweir-trace. What there is to be done without memory is its user's (trace/memory.h).
noinst_LTLIBRARIES += trace/libreader.la
trace_libreader_la_SOURCES = \
	%reldir%/bytes.h \
	%reldir%/define.c \
	%reldir%/define.h \
	%reldir%/event.h \
	%reldir%/map.c \
	%reldir%/map.h \
	%reldir%/memory.c \
	%reldir%/memory.h \
	%reldir%/merge.c \
	%reldir%/merge.h \
	%reldir%/model.c \
	%reldir%/model.h \
	%reldir%/object.c \
	%reldir%/object.h \
	%reldir%/orders.c \
	%reldir%/orders.h \
	%reldir%/play.c \
	%reldir%/reader.c \
	%reldir%/reader.h \
	%reldir%/record.c \
	%reldir%/record.h \
	%reldir%/symbols.c \
	%reldir%/symbols.h
trace_libreader_la_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS)
trace_libreader_la_CPPFLAGS = $(AM_CPPFLAGS) $(ZSTD_CFLAGS) $(LIBDW_CFLAGS)
trace_libreader_la_LIBADD = $(ZSTD_LIBS) $(LIBDW_LIBS)

## For Python. All but the map, so that tests reach it with their own faults.
noinst_LTLIBRARIES += trace/libcolumns.la
trace_libcolumns_la_SOURCES = \
	%reldir%/columns.c \
	%reldir%/library.c \
	%reldir%/library.h \
	%reldir%/weir_trace.h \
	%reldir%/write.c
trace_libcolumns_la_LIBADD = trace/libreader.la lib/trace/libbytes.la

include_HEADERS += %reldir%/weir_trace.h
lib_LTLIBRARIES += trace/libweir-trace.la
trace_libweir_trace_la_SOURCES =
trace_libweir_trace_la_LIBADD = trace/libcolumns.la
trace_libweir_trace_la_LDFLAGS = $(AM_LDFLAGS) $(WEIR_LIB_LDFLAGS) $(WEIR_MODULE_LDFLAGS) -no-undefined -version-info $(WEIR_TRACE_LT_VERSION)
if HAVE_VERSION_MAP
trace_libweir_trace_la_LDFLAGS += -Wl,--version-script=$(top_srcdir)/%reldir%/libweir-trace.map
EXTRA_trace_libweir_trace_la_DEPENDENCIES = %reldir%/libweir-trace.map
endif
EXTRA_DIST += %reldir%/libweir-trace.map
