dnl SPDX-License-Identifier: MIT
dnl WEIR_CUDA: finds a CUDA toolkit of 11.2 or later. Sets the conditional HAVE_CUDA, CUDA_CPPFLAGS and CUDA_LIBS.
dnl Asked for and missing is an error; not asked for and missing leaves the simulator alone, and the summary says so.
AC_DEFUN([WEIR_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit (default: $CUDA_HOME, /usr/local/cuda, pkg-config); no: simulator only])],
    [], [with_cuda=auto])
  AC_ARG_WITH([cudart],
    [AS_HELP_STRING([--with-cudart=static|shared], [how to link the CUDA runtime (default: static)])],
    [], [with_cudart=static])
  AS_CASE([$with_cudart], [static|shared], [],
    [AC_MSG_ERROR([--with-cudart=$with_cudart: write --with-cudart=static or --with-cudart=shared])])

  weir_have_cuda=no
  weir_cuda_summary="no; the simulator alone"
  weir_cudart_summary="none"
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda],
      [auto|yes], [weir_cuda_dirs="$CUDA_HOME /usr/local/cuda"],
      [weir_cuda_dirs=$with_cuda])
    for weir_dir in $weir_cuda_dirs; do
      AS_IF([test "x$weir_have_cuda" = xno], [
        for weir_lib in lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib lib lib/x86_64-linux-gnu lib/aarch64-linux-gnu; do
          AS_IF([test "x$weir_have_cuda" = xno && test -f "$weir_dir/include/cuda_runtime_api.h" && test -d "$weir_dir/$weir_lib"], [
            WEIR_TRY_CUDA([-isystem $weir_dir/include], [-L$weir_dir/$weir_lib], [$weir_dir])])
        done])
    done
    AS_IF([test "x$weir_have_cuda" = xno], [
      AS_CASE([$with_cuda], [auto|yes], [
        for weir_module in cudart cudart-13.0 cudart-12.9 cudart-12.8 cudart-12.6 cudart-12.4 cudart-12.2 cudart-11.8 cudart-11.2; do
          AS_IF([test "x$weir_have_cuda" = xno && $PKG_CONFIG --exists "$weir_module >= 11.2" 2>/dev/null], [
            weir_include=`$PKG_CONFIG --variable=includedir $weir_module`
            WEIR_TRY_CUDA([-isystem $weir_include], [`$PKG_CONFIG --libs-only-L $weir_module`], [pkg-config $weir_module])])
        done])])
    AS_IF([test "x$weir_have_cuda" = xno && test "x$with_cuda" != xauto], [
      AC_MSG_ERROR([no CUDA toolkit of 11.2 or later under '$with_cuda' that links (cudart: $with_cudart): name its folder in --with-cuda=DIR, or configure --without-cuda for the simulator alone])])
  ])
  AS_IF([test "x$weir_have_cuda" = xyes], [
    AC_DEFINE([HAVE_CUDA], [1], [Define to 1 if the CUDA runtime is built in.])])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$weir_have_cuda" = xyes])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
])

dnl WEIR_TRY_CUDA(CPPFLAGS, LDFLAGS, PLACE): probes one candidate by linking.
AC_DEFUN([WEIR_TRY_CUDA], [
  AC_MSG_CHECKING([for a CUDA toolkit in $3])
  weir_saved_CPPFLAGS=$CPPFLAGS weir_saved_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $1"
  AS_IF([test "x$with_cudart" = xstatic],
    [weir_libs="$2 -lcudart_static -ldl -lrt -lpthread"],
    [weir_libs="$2 -lcudart"])
  LIBS="$weir_libs $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <cuda_runtime_api.h>
#if CUDART_VERSION < 11020
#error too old
#endif
]], [[cudaMemPool_t pool = 0; return (int)cudaMemPoolTrimTo(pool, 0);]])],
    [AC_MSG_RESULT([yes])
     weir_have_cuda=yes
     CUDA_CPPFLAGS="$1"
     CUDA_LIBS="$weir_libs"
     weir_cuda_summary="$3"
     weir_cudart_summary="$with_cudart"],
    [AC_MSG_RESULT([no])])
  CPPFLAGS=$weir_saved_CPPFLAGS LIBS=$weir_saved_LIBS
])
