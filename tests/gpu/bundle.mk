## SPDX-License-Identifier: MIT
## make gpu-bundle: a folder that runs the GPU tests and measurements on a machine with an NVIDIA GPU and its driver, and nothing else
## of ours: no libyaml, no libcheck, no json-c, no libzstd, no zlib, no libdw, no toolkit.
##
## A folder's local.mk adds its programs to gpu_bundle_programs (paths as automake names them; tests are those under tests/) and the
## source files that they read at run time to gpu_bundle_files. Both lists are emptied in Makefile.am.
##
## A shared library that a host loads is named in gpu_bundle_modules. It comes from a third build, since the static one makes none.
##
## The programs come from a build of their own, of a copy of what `make dist` would ship, with the configuration of this build, but linked
## statically against everything that the other machine may lack.
##
## RMM_SOURCE=DIR RMM_WHEELS=DIR: RMM's own tests of memory resources go along, on Weir's (tests/gpu/rmm/build.sh).
EXTRA_DIST += tests/gpu/make-bundle.sh tests/gpu/run-bundle.sh tests/gpu/rmm/build.sh tests/gpu/rmm/suites.cc

gpu_bundle_programs += tests/gpu/conformance tools/weir
gpu_bundle_files += tests/python/tap.py config/default.yaml config/inference.yaml config/multi-gpu.yaml $(dist_weircosts_DATA)

gpu_bundle_build = build-gpu-bundle
gpu_bundle_flags = --disable-shared --enable-static --disable-dependency-tracking --without-libdw --without-zlib --without-zstd \
	YAML_LIBS=-l:libyaml.a JSON_LIBS=-l:libjson-c.a \
	CHECK_LIBS='-l:libcheck.a -l:libsubunit.a -lm -lrt -lpthread'

## torch's, beside what folders have named: the library, the package that finds it, and what its users start from.
if HAVE_TORCH
gpu_bundle_modules += plugin/torch/libweir-torch
gpu_bundle_files += $(dist_weirpackage_DATA) $(dist_weirpackageshare_DATA) $(dist_weirpackagetorch_DATA) $(dist_weirpythonrun_DATA) config/pytorch.yaml \
	examples/share_torch.py examples/torch_ddp.py examples/torch_train.py bench/share_python.py tests/python/share_host.py
endif
gpu_bundle_module_flags = --disable-dependency-tracking --without-libdw --without-zlib --without-zstd YAML_LIBS=-l:libyaml.a JSON_LIBS=-l:libjson-c.a

.PHONY: gpu-bundle clean-gpu-bundle
if HAVE_CUDA
if HAVE_CHECK
gpu-bundle: clean-gpu-bundle
	$(MKDIR_P) $(gpu_bundle_build)/build gpu-bundle
	$(MAKE) $(AM_MAKEFLAGS) distdir distdir=$(gpu_bundle_build)/source top_distdir=$(gpu_bundle_build)/source
	eval "set x `./config.status --config`"; shift; \
	  cd $(gpu_bundle_build)/build && ../source/configure -q "$$@" $(gpu_bundle_flags)
	cd $(gpu_bundle_build)/build && $(MAKE) $(AM_MAKEFLAGS) $(BUILT_SOURCES) $(gpu_bundle_programs)
	test -z '$(gpu_bundle_modules)' || $(MKDIR_P) $(gpu_bundle_build)/module
	test -z '$(gpu_bundle_modules)' || { eval "set x `./config.status --config`"; shift; \
	  cd $(gpu_bundle_build)/module && ../source/configure -q "$$@" $(gpu_bundle_module_flags); }
	test -z '$(gpu_bundle_modules)' || { cd $(gpu_bundle_build)/module && \
	  $(MAKE) $(AM_MAKEFLAGS) $(BUILT_SOURCES) $(gpu_bundle_modules:=.la); }
	for module in $(gpu_bundle_modules); do \
	  $(MKDIR_P) $(gpu_bundle_build)/build/`dirname $$module` && \
	  cp $(gpu_bundle_build)/module/`dirname $$module`/.libs/`basename $$module`.so $(gpu_bundle_build)/build/$$module.so || exit 1; \
	done
	$(SHELL) $(srcdir)/tests/gpu/make-bundle.sh $(srcdir) $(gpu_bundle_build)/build gpu-bundle \
	  $(gpu_bundle_programs) $(gpu_bundle_modules:=.so) -- $(gpu_bundle_files)
	test -z '$(RMM_SOURCE)' || test -d $(gpu_bundle_build)/module || { \
	  echo 'make gpu-bundle: RMM_SOURCE wants a libweir that is shared, which a build --without-torch has not' >&2; exit 1; }
	test -z '$(RMM_SOURCE)' || { cd $(gpu_bundle_build)/module && $(MAKE) $(AM_MAKEFLAGS) $(BUILT_SOURCES) lib/libweir.la; }
	test -z '$(RMM_SOURCE)' || $(SHELL) $(srcdir)/tests/gpu/rmm/build.sh '$(RMM_SOURCE)' '$(RMM_WHEELS)' \
	  $(gpu_bundle_build)/module/lib/.libs/libweir.so gpu-bundle/rmm
else
gpu-bundle:
	@echo 'make gpu-bundle needs libcheck with its static archives (Debian: check): install it and configure again' >&2; exit 1
endif
else
gpu-bundle:
	@echo 'make gpu-bundle needs a CUDA toolkit: configure --with-cuda=DIR' >&2; exit 1
endif

clean-gpu-bundle:
	test ! -d $(gpu_bundle_build) || chmod -R u+w $(gpu_bundle_build)
	rm -rf $(gpu_bundle_build) gpu-bundle
