# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# python.sh - how the tests of the Python package are run: sets what finds the package, its library, and the stand-ins for torch and CuPy.
# Sourced with POSIX sh; ends the test where there is no Python for it.
: "${top_srcdir:=.}" "${top_builddir:=.}"
no_python() {
    echo "1..0 # SKIP $1"
    exit 0
}
# shellcheck source=tests/build/tap.sh
[ -n "${tap_count-}" ] || . "$top_srcdir/tests/build/tap.sh"
find_python || no_python "python3 is missing: install it"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || no_python "python3 is older than 3.9"
# Their runtime has to be there from the start of a process, and python3 is built without.
! grep -q '^WEIR_CFLAGS = .*-fsanitize' "$top_builddir/Makefile" || no_python "built with sanitizers, and python3 is not"
[ -e "$top_builddir/plugin/torch/libweir-torch.la" ] || no_python "built without libweir-torch: the end of what configure prints says why"

src=$(cd "$top_srcdir" && pwd -P) build=$(cd "$top_builddir" && pwd -P)
WEIR_PYTHON_DIR=$src/plugin/python
WEIR_TORCH_LIBRARY=$build/plugin/torch/.libs/libweir-torch.so
WEIR_TRACE_LIBRARY=$build/trace/.libs/libweir-trace.so.0
PYTHONPATH=$WEIR_PYTHON_DIR:$src/tests/python/fake:$src/tests/python
PYTHONDONTWRITEBYTECODE=1
export WEIR_PYTHON_DIR WEIR_TORCH_LIBRARY WEIR_TRACE_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE
unset PYTHONSTARTUP PYTHONHOME PYTHONWARNINGS
top_srcdir=$src top_builddir=$build
