## SPDX-License-Identifier: MIT
## The Python package, on the simulator, with stand-ins for torch and CuPy.
dist_check_SCRIPTS += \
	%reldir%/cupy.sh \
	%reldir%/doctor.sh \
	%reldir%/enable.sh \
	%reldir%/frames.sh \
	%reldir%/memory.sh \
	%reldir%/package.sh \
	%reldir%/run.sh \
	%reldir%/share.sh \
	%reldir%/shim.sh \
	%reldir%/trace.sh \
	%reldir%/wheel.sh
TESTS += \
	%reldir%/cupy.sh \
	%reldir%/doctor.sh \
	%reldir%/enable.sh \
	%reldir%/frames.sh \
	%reldir%/memory.sh \
	%reldir%/package.sh \
	%reldir%/run.sh \
	%reldir%/share.sh \
	%reldir%/shim.sh \
	%reldir%/trace.sh \
	%reldir%/wheel.sh
EXTRA_DIST += \
	%reldir%/cupy_test.py \
	%reldir%/doctor_test.py \
	%reldir%/enable_test.py \
	%reldir%/fake/cupy.py \
	%reldir%/fake/torch/__init__.py \
	%reldir%/fake/torch/_C.py \
	%reldir%/fake/torch/cuda/__init__.py \
	%reldir%/fake/torch/cuda/_utils.py \
	%reldir%/fake/torch/cuda/memory.py \
	%reldir%/frames_host.py \
	%reldir%/frames_test.py \
	%reldir%/history_stories.py \
	%reldir%/history_stories.txt \
	%reldir%/memory_test.py \
	%reldir%/package_test.py \
	%reldir%/python.sh \
	%reldir%/share_consumer.py \
	%reldir%/share_host.py \
	%reldir%/share_test.py \
	%reldir%/shim_cuda.c %reldir%/shim_queue.py \
	%reldir%/shim_test.py \
	%reldir%/shim_tracker.cpp \
	%reldir%/tap.py \
	%reldir%/trace_test.py \
	%reldir%/training.pickle.gz \
	%reldir%/wheel_test.py

## Prints where the members of the structs are that the package has in Python.
check_PROGRAMS += tests/python/layout
tests_python_layout_SOURCES = %reldir%/layout.c
tests_python_layout_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/include

## Loaded by frames_test.py.
check_LTLIBRARIES += tests/python/libhost.la
tests_python_libhost_la_SOURCES = %reldir%/host.c
tests_python_libhost_la_LDFLAGS = $(AM_LDFLAGS) -shared -module -avoid-version -rpath /nowhere
