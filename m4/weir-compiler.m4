dnl SPDX-License-Identifier: MIT
dnl WEIR_COMPILER_FLAGS: the project's own flags go into WEIR_CFLAGS and WEIR_LDFLAGS, never into the user's CFLAGS.
AC_DEFUN([WEIR_COMPILER_FLAGS], [
  WEIR_CFLAGS="-std=gnu11 -fvisibility=hidden -pthread"
  WEIR_LDFLAGS="-pthread"
  for weir_flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wundef \
      -Wformat=2 -Wimplicit-fallthrough; do
    WEIR_TRY_CFLAG([$weir_flag], [WEIR_CFLAGS="$WEIR_CFLAGS $weir_flag"])
  done
  AS_IF([test "x$enable_werror" = xyes], [WEIR_CFLAGS="$WEIR_CFLAGS -Werror"])
  AS_IF([test -n "$enable_sanitizer" && test "x$enable_sanitizer" != xno], [
    weir_saved_LDFLAGS=$LDFLAGS
    LDFLAGS="$LDFLAGS -fsanitize=$enable_sanitizer"
    AC_MSG_CHECKING([whether -fsanitize=$enable_sanitizer links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([the compiler cannot link with -fsanitize=$enable_sanitizer; install its runtime or drop the option])])
    LDFLAGS=$weir_saved_LDFLAGS
    WEIR_CFLAGS="$WEIR_CFLAGS -fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
    WEIR_LDFLAGS="$WEIR_LDFLAGS -fsanitize=$enable_sanitizer"])
  AS_IF([test "x$enable_coverage" = xyes], [
    WEIR_CFLAGS="$WEIR_CFLAGS --coverage -O0"
    WEIR_LDFLAGS="$WEIR_LDFLAGS --coverage"])
  AM_CONDITIONAL([SANITIZED], [test -n "$enable_sanitizer" && test "x$enable_sanitizer" != xno])
  AC_SUBST([WEIR_CFLAGS])
  AC_SUBST([WEIR_LDFLAGS])
])

dnl WEIR_TRY_CFLAG(FLAG, ACTION): does ACTION if the compiler takes FLAG. -Werror, because clang only warns of unknown ones.
AC_DEFUN([WEIR_TRY_CFLAG], [
  weir_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [CFLAGS=$weir_saved_CFLAGS; $2], [CFLAGS=$weir_saved_CFLAGS])
])
