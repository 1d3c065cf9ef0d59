#!/bin/sh
# SPDX-License-Identifier: MIT
# libweir-torch beside libweir in one process: two copies that share nothing, here each with a simulated GPU of its own.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

module=$top_builddir/plugin/torch/.libs/libweir-torch.so
library=$top_builddir/lib/.libs/libweir.so
[ -e "$module" ] && [ -e "$library" ] || skip_all "there are no shared libraries in this build"
needs_simulator
command -v python3 >/dev/null || skip_all "python3 is missing: install it"
! grep -q '^WEIR_CFLAGS = .*-fsanitize' "$top_builddir/Makefile" || skip_all "built with sanitizers, and python3 is not"

cat >"$tap_dir/copies.py" <<'CODE'
import ctypes, os, sys

MOST = 900 << 20
os.environ["WEIR_GPU"] = "sim"
os.environ["WEIR_SIM"] = "memory=1GiB"
loaded = {path: ctypes.CDLL(os.path.abspath(path), mode=ctypes.RTLD_GLOBAL) for path in sys.argv[1:]}
module = next(loaded[path] for path in loaded if "torch" in os.path.basename(path))
library = next(loaded[path] for path in loaded if "torch" not in os.path.basename(path))

module.weir_torch_pool_malloc.restype = ctypes.c_void_p
module.weir_torch_pool_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
library.weir_malloc.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]



class Options(ctypes.Structure):
    """The first members of weir_options. The module takes the simulator from whoever names it there."""

    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_char_p) for name in ("policy_file", "policy_text", "gpu")]


options = Options(size=ctypes.sizeof(Options), gpu=b"sim")
weir, block = ctypes.c_void_p(), ctypes.c_void_p()
served = module.weir_torch_configure(ctypes.byref(options), None) == 0
served = served and module.weir_torch_pool_malloc(MOST, 0, None) is not None
served = served and library.weir_open(None, None, ctypes.byref(weir)) == 0
served = served and library.weir_malloc(weir, ctypes.byref(block), MOST, 0, None) == 0
sys.exit(0 if served else 1)
CODE
check "module_loaded_behind_the_library_is_a_copy_of_its_own" python3 "$tap_dir/copies.py" "$library" "$module"
check "module_loaded_before_the_library_is_a_copy_of_its_own" python3 "$tap_dir/copies.py" "$module" "$library"
done_testing
