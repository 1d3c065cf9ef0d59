## SPDX-License-Identifier: MIT
## The waist without its simulator, which comes in one of the two libraries below: the installed libraries have none with --without-simulator;
## programs of the build, the command among them, always have libsim.la.
noinst_LTLIBRARIES += lib/gpu/libgpu.la lib/gpu/libsim.la lib/gpu/libnosim.la
lib_gpu_libnosim_la_SOURCES = %reldir%/sim_none.c %reldir%/slots.c %reldir%/slots.h
lib_gpu_libsim_la_SOURCES = \
	%reldir%/cost.c %reldir%/cost.h \
	%reldir%/sim.c %reldir%/sim.h %reldir%/sim_internal.h %reldir%/sim_machine.h \
	%reldir%/sim_capture.c %reldir%/sim_clock.c %reldir%/sim_context.c %reldir%/sim_device.c %reldir%/sim_errors.c \
	%reldir%/sim_gate.c %reldir%/sim_ledger.c %reldir%/sim_machine.c %reldir%/sim_map.c %reldir%/sim_share.c %reldir%/sim_thread.c \
	%reldir%/sim_handles.c %reldir%/sim_handles.h %reldir%/sim_host.c %reldir%/sim_index.c %reldir%/sim_index.h \
	%reldir%/sim_memory.c %reldir%/sim_pool.c %reldir%/sim_range.c %reldir%/sim_settings.c %reldir%/sim_stream.c \
	%reldir%/slots.c %reldir%/slots.h
installed_gpu = lib/gpu/libgpu.la
if HAVE_SIMULATOR
installed_gpu += lib/gpu/libsim.la
else
installed_gpu += lib/gpu/libnosim.la
endif

lib_gpu_libgpu_la_SOURCES = \
	%reldir%/clock.h \
	%reldir%/gpu.c %reldir%/gpu.h %reldir%/gpu_tables.h
EXTRA_DIST += %reldir%/host_defines/crt/host_defines.h
lib_gpu_libgpu_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
lib_gpu_libgpu_la_LIBADD =
if HAVE_CUDA
lib_gpu_libgpu_la_SOURCES += \
	%reldir%/cuda.c \
	%reldir%/cuda_delay.c \
	%reldir%/cuda_driver.c \
	%reldir%/cuda_event.c \
	%reldir%/cuda_features.c \
	%reldir%/cuda_internal.h \
	%reldir%/cuda_map.c \
	%reldir%/cuda_pool.c \
	%reldir%/nvml.c \
	%reldir%/nvml.h
lib_gpu_libgpu_la_LIBADD += $(CUDA_LIBS)
endif
