## SPDX-License-Identifier: MIT
## What `weir record --any` has the loader put into programs. It brings along the parts of lib/ that it needs, compiled for it: in a namespace
## of its own it shares nothing with a libweir of the program's.
if HAVE_AUDIT
lib_LTLIBRARIES += audit/libweir-audit.la
audit_libweir_audit_la_SOURCES = \
	%reldir%/audit.c \
	%reldir%/calls.c \
	%reldir%/driver.h \
	%reldir%/known.c \
	%reldir%/known.h \
	%reldir%/limit.c \
	%reldir%/limit.h \
	%reldir%/report.h \
	%reldir%/session.c \
	%reldir%/session.h \
	lib/base/call.c \
	lib/base/class.c \
	lib/base/spin.c \
	lib/base/table.c \
	lib/base/user.c \
	lib/record/interpreter.c \
	lib/record/modules.c \
	lib/record/recorder.c \
	lib/record/ring.c \
	lib/record/stack.c \
	lib/record/tag.c \
	lib/record/unwind.c \
	lib/trace/block.c \
	lib/trace/costs.c \
	lib/trace/encode.c \
	lib/trace/head.c \
	lib/trace/place.c \
	lib/trace/record.c \
	lib/trace/writer.c \
	policy/environment.c
## Frame pointers lead libunwind, which knows the program's namespace alone, out of this library. A thread-local variable that is found by a
## call of the loader may call the program's malloc().
audit_libweir_audit_la_CFLAGS = $(AM_CFLAGS) $(WEIR_UNCOUNTED_CFLAGS) -fno-omit-frame-pointer -ftls-model=initial-exec
audit_libweir_audit_la_LIBADD = $(ZSTD_LIBS)
audit_libweir_audit_la_LDFLAGS = $(AM_LDFLAGS) $(WEIR_LIB_LDFLAGS) $(WEIR_MODULE_LDFLAGS) -shared -module -avoid-version -no-undefined
if HAVE_VERSION_MAP
audit_libweir_audit_la_LDFLAGS += -Wl,--version-script=$(top_srcdir)/%reldir%/libweir-audit.map
EXTRA_audit_libweir_audit_la_DEPENDENCIES = %reldir%/libweir-audit.map
endif
endif
EXTRA_DIST += %reldir%/libweir-audit.map
