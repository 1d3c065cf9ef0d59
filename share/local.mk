## SPDX-License-Identifier: MIT
## The rooms, each of which may include those below it here (tests/build/house.sh), and lib/:
##   here      weir_open(): ties the rooms to a weir; windows: pages of other processes
##   control/  the control socket of a process, and asking those of its neighbours
##   export/   a pool that is shared: blocks, rings, the importers; does not know import/
##   import/   pools of other processes: connections, leases, readers
##   wire/     messages, sockets, where they lie, who is at the other end; the server and the client of both kinds
##   base/     what every room needs: lists, waiting, streams behind events, lines for the log, what a forked child closes
noinst_LTLIBRARIES += share/librooms.la
share_librooms_la_SOURCES = \
	%reldir%/base/forked.c \
	%reldir%/base/forked.h \
	%reldir%/base/news.c \
	%reldir%/base/news.h \
	%reldir%/base/order.c \
	%reldir%/base/order.h \
	%reldir%/base/wait.c \
	%reldir%/base/wait.h \
	%reldir%/wire/closing.c \
	%reldir%/wire/closing.h \
	%reldir%/wire/directory.c \
	%reldir%/wire/directory.h \
	%reldir%/wire/other_end.c \
	%reldir%/wire/other_end.h \
	%reldir%/wire/outbox.c \
	%reldir%/wire/outbox.h \
	%reldir%/wire/place.c \
	%reldir%/wire/place.h \
	%reldir%/wire/process.c \
	%reldir%/wire/process.h \
	%reldir%/wire/query.c \
	%reldir%/wire/query.h \
	%reldir%/wire/server.c \
	%reldir%/wire/server.h \
	%reldir%/wire/socket.c \
	%reldir%/wire/socket.h \
	%reldir%/wire/wire.c \
	%reldir%/wire/wire.h \
	%reldir%/export/allowed.c \
	%reldir%/export/allowed.h \
	%reldir%/export/block.c \
	%reldir%/export/census.c \
	%reldir%/export/figures.c \
	%reldir%/export/figures.h \
	%reldir%/export/client.c \
	%reldir%/export/client.h \
	%reldir%/export/export.c \
	%reldir%/export/export.h \
	%reldir%/export/lease.c \
	%reldir%/export/request.c \
	%reldir%/export/request.h \
	%reldir%/export/retire.c \
	%reldir%/export/ring.c \
	%reldir%/export/ring.h \
	%reldir%/export/serve.c \
	%reldir%/export/serve.h \
	%reldir%/export/slot.c \
	%reldir%/import/ask.c \
	%reldir%/import/ask.h \
	%reldir%/import/farewell.c \
	%reldir%/import/import.c \
	%reldir%/import/import.h \
	%reldir%/import/mapping.c \
	%reldir%/import/reader.c \
	%reldir%/import/receive.c \
	%reldir%/import/session.c \
	%reldir%/control/control.c \
	%reldir%/control/control.h \
	%reldir%/control/control_answer.c \
	%reldir%/control/control_answer.h \
	%reldir%/control/ledger.c \
	%reldir%/control/ledger.h \
	%reldir%/control/neighbours.c \
	%reldir%/control/neighbours.h \
	%reldir%/control/recording.c \
	%reldir%/control/recording.h \
	%reldir%/control/reserve.c \
	%reldir%/control/reserve.h \
	%reldir%/open.c \
	%reldir%/open.h \
	%reldir%/window.c \
	%reldir%/window.h

## For programs of the build.
noinst_LTLIBRARIES += share/libshare.la
share_libshare_la_SOURCES =
share_libshare_la_LIBADD = share/librooms.la lib/libcore.la
