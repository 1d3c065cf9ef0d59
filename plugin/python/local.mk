## SPDX-License-Identifier: MIT
## The Python package, and what `weir run` adds to it. It needs no build: `pip install` of this folder does as well. It is of no
## use without the library.
weirpythondir = $(pkgdatadir)/python

if HAVE_TORCH
weirpackagedir = $(weirpythondir)/weir
dist_weirpackage_DATA = \
	%reldir%/weir/__init__.py \
	%reldir%/weir/_errors.py \
	%reldir%/weir/_library.py \
	%reldir%/weir/_version.py \
	%reldir%/weir/cupy.py \
	%reldir%/weir/py.typed

weirpackagetorchdir = $(weirpackagedir)/torch
dist_weirpackagetorch_DATA = \
	%reldir%/weir/torch/__init__.py \
	%reldir%/weir/torch/__main__.py \
	%reldir%/weir/torch/_build.py \
	%reldir%/weir/torch/_enable.py \
	%reldir%/weir/torch/_marks.py \
	%reldir%/weir/torch/_memory.py \
	%reldir%/weir/torch/_streams.py \
	%reldir%/weir/torch/_summary.py \
	%reldir%/weir/torch/shim.cpp \
	%reldir%/weir/torch/shim_blocks.h \
	%reldir%/weir/torch/shim_history.h \
	%reldir%/weir/torch/shim_library.h \
	%reldir%/weir/torch/weir.h \
	%reldir%/weir/torch/weir_torch.h

weirpythonrundir = $(weirpythondir)/run
dist_weirpythonrun_DATA = %reldir%/run/sitecustomize.py
endif

EXTRA_DIST += %reldir%/pyproject.toml
