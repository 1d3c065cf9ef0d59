## SPDX-License-Identifier: MIT
## The Python package, and what `weir run` adds to it. It needs no build: `pip install` of this folder does as well. It is of no
## use without the library.
weirpythondir = $(pkgdatadir)/python

weirpackagedir = $(weirpythondir)/weir
dist_weirpackage_DATA = \
	%reldir%/weir/__init__.py \
	%reldir%/weir/_errors.py \
	%reldir%/weir/_library.py \
	%reldir%/weir/_version.py \
	%reldir%/weir/doctor.py \
	%reldir%/weir/py.typed

weirpackagetracedir = $(weirpackagedir)/trace
dist_weirpackagetrace_DATA = \
	%reldir%/weir/trace/__init__.py \
	%reldir%/weir/trace/__main__.py \
	%reldir%/weir/trace/_native.py \
	%reldir%/weir/trace/_perfetto.py \
	%reldir%/weir/trace/_plot.py \
	%reldir%/weir/trace/_read.py \
	%reldir%/weir/trace/_rmm.py \
	%reldir%/weir/trace/_snapshot.py \
	%reldir%/weir/trace/_viz.py \
	%reldir%/weir/trace/_write.py

if HAVE_TORCH
dist_weirpackage_DATA += \
	%reldir%/weir/_command.py \
	%reldir%/weir/cupy.py

weirpackagetorchdir = $(weirpackagedir)/torch
dist_weirpackagetorch_DATA = \
	%reldir%/weir/torch/__init__.py \
	%reldir%/weir/torch/__main__.py \
	%reldir%/weir/torch/_build.py \
	%reldir%/weir/torch/_conf.py \
	%reldir%/weir/torch/_enable.py \
	%reldir%/weir/torch/_marks.py \
	%reldir%/weir/torch/_sleep.py \
	%reldir%/weir/torch/_memory.py \
	%reldir%/weir/torch/_streams.py \
	%reldir%/weir/torch/_summary.py \
	%reldir%/weir/torch/_watch.py \
	%reldir%/weir/torch/shim.cpp \
	%reldir%/weir/torch/shim_blocks.h \
	%reldir%/weir/torch/shim_history.h \
	%reldir%/weir/torch/shim_ledger.h \
	%reldir%/weir/torch/shim_library.h \
	%reldir%/weir/torch/shim_regions.h \
	%reldir%/weir/torch/shim_trackers.h \
	%reldir%/weir/torch/weir.h \
	%reldir%/weir/torch/weir_torch.h

weirpackagesharedir = $(weirpackagedir)/share
dist_weirpackageshare_DATA = \
	%reldir%/weir/share/__init__.py \
	%reldir%/weir/share/_array.py \
	%reldir%/weir/share/_export.py \
	%reldir%/weir/share/_import.py \
	%reldir%/weir/share/_layout.py \
	%reldir%/weir/share/_native.py

weirpythonrundir = $(weirpythondir)/run
dist_weirpythonrun_DATA = %reldir%/run/sitecustomize.py
endif

EXTRA_DIST += %reldir%/pyproject.toml %reldir%/wheel.py

## make wheel: all of Weir in one file for pip, in $(WHEEL_DIR). What is in it is linked anew, of the objects that are there, with all that another
## machine may lack: libyaml, json-c, libzstd, zlib and libdw from their static archives, which lie alone in a folder that the linker looks into first.
## TORCH names environments of Python: for the torch of each the shim is made, and packed as well.
PYTHON3 = python3
WHEEL_DIR = .
TORCH =
wheel_built = plugin/python/wheel
if HAVE_TORCH
EXTRA_LTLIBRARIES += plugin/python/wheel/libweir.la plugin/python/wheel/libweir-torch.la plugin/python/wheel/libweir-trace.la
EXTRA_PROGRAMS += plugin/python/wheel/weir
plugin_python_wheel_libweir_la_SOURCES =
plugin_python_wheel_libweir_la_LIBADD = $(lib_libweir_la_LIBADD)
plugin_python_wheel_libweir_la_LDFLAGS = -L$(wheel_built)/archives $(lib_libweir_la_LDFLAGS) -rpath $(libdir)
plugin_python_wheel_libweir_torch_la_SOURCES = plugin/torch/throw.cc
plugin_python_wheel_libweir_torch_la_CPPFLAGS = $(plugin_torch_libweir_torch_la_CPPFLAGS)
plugin_python_wheel_libweir_torch_la_LIBADD = $(plugin_torch_libweir_torch_la_LIBADD)
plugin_python_wheel_libweir_torch_la_LDFLAGS = -L$(wheel_built)/archives $(plugin_torch_libweir_torch_la_LDFLAGS) -rpath $(libdir)
## Compiled once more, since what a wheel may have to do without is within (m4/weir-wheel.m4).
plugin_python_wheel_libweir_trace_la_SOURCES = $(trace_libreader_la_SOURCES) $(trace_libcolumns_la_SOURCES)
plugin_python_wheel_libweir_trace_la_CPPFLAGS = $(trace_libreader_la_CPPFLAGS) -DWEIR_WHEEL -DWEIR_WITHOUT_LIBDW
plugin_python_wheel_libweir_trace_la_LIBADD = lib/trace/libbytes.la $(ZSTD_LIBS)
plugin_python_wheel_libweir_trace_la_LDFLAGS = -L$(wheel_built)/archives $(trace_libweir_trace_la_LDFLAGS) -rpath $(libdir)
wheel_libraries = $(wheel_built)/libweir.la $(wheel_built)/libweir-torch.la $(wheel_built)/libweir-trace.la
if HAVE_AUDIT
EXTRA_LTLIBRARIES += plugin/python/wheel/libweir-audit.la
plugin_python_wheel_libweir_audit_la_SOURCES = $(audit_libweir_audit_la_SOURCES)
plugin_python_wheel_libweir_audit_la_CFLAGS = $(audit_libweir_audit_la_CFLAGS)
plugin_python_wheel_libweir_audit_la_LIBADD = $(audit_libweir_audit_la_LIBADD)
plugin_python_wheel_libweir_audit_la_LDFLAGS = -L$(wheel_built)/archives $(audit_libweir_audit_la_LDFLAGS) -rpath $(libdir)
wheel_libraries += $(wheel_built)/libweir-audit.la
endif
## Those that use what a wheel may have to do without (m4/weir-wheel.m4) are compiled once more. They come before those of libtools.la.
plugin_python_wheel_weir_SOURCES = tools/main.c trace/object.c
plugin_python_wheel_weir_CFLAGS = $(tools_libtools_la_CFLAGS)
plugin_python_wheel_weir_CPPFLAGS = $(tools_libtools_la_CPPFLAGS) -DWEIR_WHEEL
plugin_python_wheel_weir_LDADD = $(tools_weir_LDADD) $(WHEEL_LIBS)
plugin_python_wheel_weir_LDFLAGS = -L$(wheel_built)/archives $(AM_LDFLAGS)

wheel: all
	@command -v $(PYTHON3) >/dev/null || { echo 'make wheel: there is no $(PYTHON3): install it, or name another in PYTHON3' >&2; exit 1; }
	$(AM_V_at)rm -rf $(wheel_built)/*weir* $(wheel_built)/.libs
	$(AM_V_at)$(PYTHON3) $(srcdir)/%reldir%/wheel.py archives --without='$(WHEEL_STUBS)' $(wheel_built)/archives '$(CC)' \
	    $(YAML_LIBS) $(JSON_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS) $(LIBDW_LIBS) $(WHEEL_LIBS)
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(wheel_libraries) $(wheel_built)/weir$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) '$(WHEEL_DIR)'
	$(AM_V_at)$(PYTHON3) $(srcdir)/%reldir%/wheel.py pack --source '$(srcdir)' --built $(wheel_built) --out '$(WHEEL_DIR)' \
	    --version '$(VERSION)' --machine $(host_cpu) --objdump '$(OBJDUMP)' --strip '$(STRIP)' \
	    --cuda '$(CUDART_SUMMARY)' --without='$(WHEEL_WITHOUT)' --completion $(bashcompletion_DATA) $(zshcompletion_DATA) $(fishcompletion_DATA) \
	    --files $(dist_weirpackage_DATA) $(dist_weirpackageshare_DATA) $(dist_weirpackagetorch_DATA) $(dist_weirpackagetrace_DATA) --config $(dist_weirconf_DATA) $(dist_weircosts_DATA) \
	    --man $(dist_man_MANS) $(man_MANS) --torch $(TORCH)
else
wheel:
	@echo 'make wheel needs libweir-torch: the end of what configure prints says why there is none' >&2; exit 1
endif
clean-wheel:
	rm -rf $(wheel_built) weir_gpu-*.whl
.PHONY: wheel clean-wheel
