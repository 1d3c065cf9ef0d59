## SPDX-License-Identifier: MIT
## Random programs at the bounds of memory. The linker puts the schedule between them, with Weir, and the C library (schedule.h).
check_PROGRAMS += tests/chaos/chaos
tests_chaos_chaos_SOURCES = \
	%reldir%/chaos.c %reldir%/chaos.h \
	%reldir%/company.c %reldir%/company.h \
	%reldir%/memory.c %reldir%/memory.h \
	%reldir%/memory_ask.c \
	%reldir%/memory_lane.c \
	%reldir%/memory_nap.c \
	%reldir%/memory_plan.c \
	%reldir%/memory_vain.c \
	%reldir%/model.c %reldir%/model.h \
	%reldir%/neighbours.c \
	%reldir%/random.h \
	%reldir%/rings.c \
	%reldir%/schedule.c %reldir%/schedule.h \
	%reldir%/schedule_calls.c \
	%reldir%/throw.cc \
	%reldir%/waist.c %reldir%/waist.h \
	tests/support/ownership.c tests/support/ownership.h
tests_chaos_chaos_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_chaos_chaos_LDADD = share/libshare.la tests/support/libsuite.la
tests_chaos_chaos_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=gpu_find \
	-Wl,--wrap=pthread_create -Wl,--wrap=pthread_join \
	-Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_rwlock_rdlock -Wl,--wrap=pthread_rwlock_wrlock -Wl,--wrap=pthread_rwlock_unlock \
	-Wl,--wrap=pthread_cond_wait -Wl,--wrap=pthread_cond_timedwait -Wl,--wrap=pthread_cond_signal -Wl,--wrap=pthread_cond_broadcast \
	-Wl,--wrap=clock_gettime -Wl,--wrap=nanosleep -Wl,--wrap=sched_yield -Wl,--wrap=ppoll -Wl,--wrap=eventfd_write
