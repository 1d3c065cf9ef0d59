## SPDX-License-Identifier: MIT
## The reader of traces, for the command and for libweir-trace. What there is to be done without memory is its user's (tools/common/memory.h).
noinst_LTLIBRARIES += trace/libreader.la
trace_libreader_la_SOURCES = \
	tools/common/memory.c \
	tools/common/memory.h \
	tools/trace/bytes.h \
	tools/trace/define.c \
	tools/trace/define.h \
	tools/trace/event.h \
	tools/trace/map.c \
	tools/trace/map.h \
	tools/trace/merge.c \
	tools/trace/merge.h \
	tools/trace/model.c \
	tools/trace/model.h \
	tools/trace/object.c \
	tools/trace/object.h \
	tools/trace/orders.c \
	tools/trace/orders.h \
	tools/trace/play.c \
	tools/trace/reader.c \
	tools/trace/reader.h \
	tools/trace/record.c \
	tools/trace/record.h \
	tools/trace/symbols.c \
	tools/trace/symbols.h
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
