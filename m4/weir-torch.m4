dnl SPDX-License-Identifier: MIT
dnl WEIR_TORCH: whether libweir-torch.so, the plug-in of PyTorch, is built: it needs a C++ compiler and shared libraries, and nothing of
dnl torch. Asked for and impossible is an error; not asked for and impossible leaves it out, and the summary says so. Sets the conditional
dnl HAVE_TORCH, and HAVE_CXX: that there is such a compiler, whatever becomes of torch.
AC_DEFUN([WEIR_TORCH], [
  AC_ARG_WITH([torch],
    [AS_HELP_STRING([--without-torch], [build without libweir-torch, PyTorch's allocator (default: with it, if there is a C++ compiler)])],
    [], [with_torch=auto])
  AC_LANG_PUSH([C++])
  AC_MSG_CHECKING([whether $CXX links a program that throws])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <new>]], [[throw std::bad_alloc();]])], [weir_have_cxx=yes], [weir_have_cxx=no])
  AC_MSG_RESULT([$weir_have_cxx])
  AC_LANG_POP([C++])
  AM_CONDITIONAL([HAVE_CXX], [test "x$weir_have_cxx" = xyes])
  weir_have_torch=no
  AS_CASE([$with_torch],
    [no], [weir_torch_summary="no, as asked"],
    [auto|yes], [
      weir_have_torch=$weir_have_cxx
      AS_IF([test "x$weir_have_cxx" = xyes], [weir_torch_summary="yes ($CXX)"], [weir_torch_summary="no: install a C++ compiler (g++) for it"])
      AS_IF([test "x$enable_shared" = xno], [weir_have_torch=no weir_torch_summary="no: it is a shared library: drop --disable-shared"])
      AS_IF([test "x$with_torch" = xyes && test "x$weir_have_torch" = xno], [AC_MSG_ERROR([--with-torch: $weir_torch_summary])])],
    [AC_MSG_ERROR([--with-torch=$with_torch: write --with-torch or --without-torch; torch itself is not needed to build it])])
  AM_CONDITIONAL([HAVE_TORCH], [test "x$weir_have_torch" = xyes])
])
