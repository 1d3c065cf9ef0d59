dnl SPDX-License-Identifier: MIT
dnl WEIR_CUDA: finds a CUDA toolkit of 11.2 or later. Sets the conditional HAVE_CUDA, CUDA_CPPFLAGS, CUDA_LIBS and CUDA_LDFLAGS.
dnl Asked for and missing is an error; not asked for and missing leaves the simulator alone, and the summary says so.
AC_DEFUN([WEIR_CUDA], [
  AC_REQUIRE([AC_CANONICAL_HOST])
  AC_ARG_VAR([CUDA_HOME], [folder of the CUDA toolkit, where --with-cuda names none])
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR],
      [folder of the CUDA toolkit (default: $CUDA_HOME, /usr/local/cuda, pkg-config, the compiler's own paths)])]
    [AS_HELP_STRING([--without-cuda], [build with the simulator alone])],
    [], [with_cuda=auto])
  AC_ARG_WITH([cudart],
    [AS_HELP_STRING([--with-cudart=static|shared], [how to link the CUDA runtime (default: static)])],
    [], [with_cudart=static])
  AS_CASE([$with_cudart], [static|shared], [],
    [AC_MSG_ERROR([--with-cudart=$with_cudart: write --with-cudart=static or --with-cudart=shared])])

  weir_have_cuda=no
  weir_cuda_summary="no: the simulator alone (name a toolkit with --with-cuda=DIR)"
  weir_cudart_summary="none"
  CUDART_SUMMARY=none
  AS_CASE([$with_cuda],
    [no], [weir_cuda_summary="no, as asked: the simulator alone"],
    [auto|yes], [
      for weir_dir in $CUDA_HOME /usr/local/cuda; do
        WEIR_TRY_CUDA_DIR([$weir_dir])
      done
      dnl NVIDIA's packages install one cudart-X.Y.pc for each toolkit; the newest comes first here.
      for weir_module in `$PKG_CONFIG --list-all 2>/dev/null | sed -n 's/^\(cudart@<:@-0-9.@:>@*\) .*/\1/p' | sort -r -V`; do
        weir_include=`$PKG_CONFIG --variable=includedir $weir_module`
        weir_libdir=`$PKG_CONFIG --variable=libdir $weir_module`
        WEIR_TRY_CUDA([-isystem $weir_include], [$weir_libdir], [pkg-config $weir_module])
      done
      WEIR_TRY_CUDA([], [], [the compiler's own paths])],
    [WEIR_TRY_CUDA_DIR([$with_cuda])])

  AS_IF([test "x$weir_have_cuda" = xno && test "x$with_cuda" != xauto && test "x$with_cuda" != xno], [
    AS_IF([test "x$with_cuda" = xyes], [weir_where="\$CUDA_HOME, /usr/local/cuda, pkg-config or the compiler's own paths"],
      [weir_where=$with_cuda])
    AC_MSG_ERROR([no CUDA toolkit of 11.2 or later that links ($with_cudart cudart) in $weir_where: dnl
name its folder in --with-cuda=DIR, or configure --without-cuda for the simulator alone])])

  AS_IF([test "x$weir_have_cuda" = xyes], [
    AC_DEFINE([HAVE_CUDA], [1], [Define to 1 if the CUDA runtime is built in.])])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$weir_have_cuda" = xyes])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
  AC_SUBST([CUDA_LDFLAGS])
  AC_SUBST([CUDART_SUMMARY])
  dnl For quickstart, which says where the toolkit is.
  AC_SUBST([CUDA_SUMMARY], [$weir_cuda_summary])
])

dnl WEIR_TRY_CUDA_DIR(DIR): probes the library folders that a toolkit in DIR may have, from NVIDIA's and from distributions.
AC_DEFUN([WEIR_TRY_CUDA_DIR], [
  AS_IF([test -f "$1/include/cuda_runtime_api.h"], [
    for weir_lib in lib64 targets/$host_cpu-linux/lib targets/sbsa-linux/lib lib/$host_cpu-linux-gnu lib; do
      AS_IF([test -d "$1/$weir_lib"], [WEIR_TRY_CUDA([-isystem $1/include], [$1/$weir_lib], [$1/$weir_lib])])
    done])
])

dnl WEIR_TRY_CUDA(CPPFLAGS, LIBRARY-FOLDER, PLACE): probes one candidate by linking, unless an earlier one was good.
AC_DEFUN([WEIR_TRY_CUDA], [
  AS_IF([test "x$weir_have_cuda" = xno], [
    AC_MSG_CHECKING([for a CUDA toolkit in $3])
    weir_saved_CPPFLAGS=$CPPFLAGS weir_saved_LIBS=$LIBS
    weir_folder=$2
    AS_IF([test -n "$weir_folder"], [weir_libs="-L$weir_folder"], [weir_libs=])
    weir_ldflags=
    AS_IF([test "x$with_cudart" = xstatic],
      [weir_libs="$weir_libs -lcudart_static -ldl -lrt -lpthread"],
      [dnl Without a run path, programs would only start where ldconfig happens to know this toolkit.
       weir_libs="$weir_libs -lcudart"
       AS_IF([test -n "$weir_folder"], [weir_ldflags="-Wl,-rpath,$weir_folder"])])
    dnl A distribution's own headers: naming the compiler's folder again would break C++'s include_next.
    AS_CASE(["$1"], ["-isystem /usr/include"], [weir_cppflags=], [weir_cppflags="$1"])
    dnl Looked into last: NVIDIA's wheels of the runtime lack a header that theirs include.
    weir_cppflags="$weir_cppflags -idirafter `cd "$srcdir" && pwd`/lib/gpu/host_defines"
    CPPFLAGS="$weir_cppflags $CPPFLAGS"
    LIBS="$weir_libs $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <cuda_runtime_api.h>
#if CUDART_VERSION < 11020
#error too old
#endif
]], [[cudaMemPool_t pool = 0; return (int)cudaMemPoolTrimTo(pool, 0);]])],
      [AC_MSG_RESULT([yes])
       weir_have_cuda=yes
       CUDA_CPPFLAGS=$weir_cppflags
       CUDA_LIBS=$weir_libs
       CUDA_LDFLAGS=$weir_ldflags
       weir_cuda_summary="$3"
       AC_COMPUTE_INT([weir_cudart_version], [CUDART_VERSION], [[#include <cuda_runtime_api.h>]], [weir_cudart_version=0])
       CUDART_SUMMARY=$((weir_cudart_version / 1000)).$((weir_cudart_version % 1000 / 10))
       weir_cudart_summary="$CUDART_SUMMARY, $with_cudart"],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$weir_saved_CPPFLAGS LIBS=$weir_saved_LIBS])
])
