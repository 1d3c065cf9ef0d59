## SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/gpu/libgpu.la
lib_gpu_libgpu_la_SOURCES = \
	%reldir%/gpu.h
lib_gpu_libgpu_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
lib_gpu_libgpu_la_LIBADD =
if HAVE_CUDA
lib_gpu_libgpu_la_SOURCES += \
	%reldir%/cuda.c \
	%reldir%/cuda.h \
	%reldir%/cuda_delay.c \
	%reldir%/cuda_driver.c \
	%reldir%/cuda_features.c \
	%reldir%/cuda_internal.h
lib_gpu_libgpu_la_LIBADD += $(CUDA_LIBS)
endif
