## SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += share/libshare.la
share_libshare_la_SOURCES = \
	%reldir%/allowed.c \
	%reldir%/allowed.h \
	%reldir%/ask.c \
	%reldir%/ask.h \
	%reldir%/block.c \
	%reldir%/census.c \
	%reldir%/client.c \
	%reldir%/client.h \
	%reldir%/control.c \
	%reldir%/control.h \
	%reldir%/control_answer.c \
	%reldir%/control_answer.h \
	%reldir%/crowd.c \
	%reldir%/crowd.h \
	%reldir%/directory.c \
	%reldir%/directory.h \
	%reldir%/export.c \
	%reldir%/export.h \
	%reldir%/forked.c \
	%reldir%/forked.h \
	%reldir%/import.c \
	%reldir%/import.h \
	%reldir%/lease.c \
	%reldir%/leave.c \
	%reldir%/mapping.c \
	%reldir%/neighbours.c \
	%reldir%/neighbours.h \
	%reldir%/news.c \
	%reldir%/news.h \
	%reldir%/open.c \
	%reldir%/order.c \
	%reldir%/order.h \
	%reldir%/outbox.c \
	%reldir%/outbox.h \
	%reldir%/process.c \
	%reldir%/process.h \
	%reldir%/query.c \
	%reldir%/query.h \
	%reldir%/reader.c \
	%reldir%/receive.c \
	%reldir%/request.c \
	%reldir%/request.h \
	%reldir%/retire.c \
	%reldir%/ring.c \
	%reldir%/ring.h \
	%reldir%/safe.c \
	%reldir%/safe.h \
	%reldir%/session.c \
	%reldir%/socket.c \
	%reldir%/socket.h \
	%reldir%/wait.c \
	%reldir%/wait.h \
	%reldir%/wire.c \
	%reldir%/wire.h
share_libshare_la_LIBADD = lib/libcore.la
