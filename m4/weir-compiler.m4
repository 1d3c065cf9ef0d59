dnl SPDX-License-Identifier: MIT
dnl WEIR_COMPILER_FLAGS: the project's own flags go into WEIR_CFLAGS, WEIR_LDFLAGS and, for what is installed as a library, WEIR_LIB_LDFLAGS; never into
dnl the user's CFLAGS. WEIR_UNCOUNTED_CFLAGS is for what no coverage is asked of. Every flag that a compiler or linker may not know is probed.
AC_DEFUN([WEIR_COMPILER_FLAGS], [
  dnl -fexceptions: an exception of a callback passes through our functions, and so does the end of a thread; their clean-ups run then.
  WEIR_CFLAGS="-std=gnu11 -fvisibility=hidden -fexceptions -pthread"
  WEIR_CXXFLAGS="-std=gnu++17 -fvisibility=hidden -pthread -Wall -Wextra"
  WEIR_LDFLAGS="-pthread"
  WEIR_LIB_LDFLAGS=
  WEIR_UNCOUNTED_CFLAGS=
  for weir_flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wundef \
      -Wformat=2 -Wimplicit-fallthrough; do
    WEIR_TRY_CFLAG([$weir_flag], [WEIR_CFLAGS="$WEIR_CFLAGS $weir_flag"])
  done
  AS_IF([test "x$enable_werror" = xyes], [WEIR_CFLAGS="$WEIR_CFLAGS -Werror" WEIR_CXXFLAGS="$WEIR_CXXFLAGS -Werror"])

  weir_sanitized=no
  AS_IF([test -n "$enable_sanitizer" && test "x$enable_sanitizer" != xno], [
    AS_IF([test "x$enable_sanitizer" = xyes], [
      AC_MSG_ERROR([--enable-sanitizer needs a list: write --enable-sanitizer=address,undefined or --enable-sanitizer=thread])])
    weir_sanitized=yes
    weir_flags="-fsanitize=$enable_sanitizer"
    WEIR_TRY_LINK([$weir_flags], [], [
      AC_MSG_ERROR([the compiler cannot link with $weir_flags: install its runtime (for clang on Debian and Ubuntu: libclang-rt-VERSION-dev) or drop the option])])
    WEIR_CFLAGS="$WEIR_CFLAGS $weir_flags -fno-omit-frame-pointer -fno-sanitize-recover=all"
    WEIR_CXXFLAGS="$WEIR_CXXFLAGS $weir_flags -fno-omit-frame-pointer -fno-sanitize-recover=all"
    WEIR_LDFLAGS="$WEIR_LDFLAGS $weir_flags"])
  AM_CONDITIONAL([SANITIZED], [test "x$weir_sanitized" = xyes])

  AS_IF([test "x$enable_coverage" = xyes], [
    WEIR_TRY_LINK([--coverage], [], [AC_MSG_ERROR([the compiler cannot link with --coverage: drop --enable-coverage or install its gcov runtime])])
    dnl By their long names, which can be taken back for what needs no counting; --coverage cannot.
    dnl Counters that threads share must be atomic, else the figures are wrong.
    WEIR_CFLAGS="$WEIR_CFLAGS -fprofile-arcs -ftest-coverage"
    WEIR_TRY_CFLAG([-fprofile-update=atomic], [WEIR_CFLAGS="$WEIR_CFLAGS -fprofile-update=atomic"])
    WEIR_UNCOUNTED_CFLAGS="-fno-profile-arcs -fno-test-coverage"
    WEIR_LDFLAGS="$WEIR_LDFLAGS --coverage"])

  dnl The version map hides everything else, the static CUDA runtime included. Where a linker takes no maps, -fvisibility=hidden hides our own
  dnl symbols and --exclude-libs those of the archives.
  weir_version_map=no
  echo '{ local: *; };' >conftest.map
  WEIR_TRY_LINK([-shared -fPIC -Wl,--version-script=conftest.map], [weir_version_map=yes])
  rm -f conftest.map
  AM_CONDITIONAL([HAVE_VERSION_MAP], [test "x$weir_version_map" = xyes])
  AS_IF([test "x$weir_version_map" = xno], [
    WEIR_TRY_LINK([-Wl,--exclude-libs,ALL], [WEIR_LIB_LDFLAGS="-Wl,--exclude-libs,ALL"])])
  dnl A sanitizer's runtime is found in the program, so that a sanitized library has undefined symbols by design.
  AS_IF([test "x$weir_sanitized" = xno], [
    WEIR_TRY_LINK([-Wl,-z,defs], [WEIR_LIB_LDFLAGS="$WEIR_LIB_LDFLAGS -Wl,-z,defs"])])

  dnl A program may load a library and close it again, as it does with a plug-in that links it. It stays mapped: threads that used it run its
  dnl functions when they end, and so does the process.
  WEIR_TRY_LINK([-shared -fPIC -Wl,-z,nodelete], [WEIR_LIB_LDFLAGS="$WEIR_LIB_LDFLAGS -Wl,-z,nodelete"])
  dnl A library that is loaded beside other copies of itself calls its own functions.
  WEIR_MODULE_LDFLAGS=
  WEIR_TRY_LINK([-shared -fPIC -Wl,-Bsymbolic], [WEIR_MODULE_LDFLAGS="-Wl,-Bsymbolic"])

  AC_SUBST([WEIR_CFLAGS])
  AC_SUBST([WEIR_CXXFLAGS])
  AC_SUBST([WEIR_UNCOUNTED_CFLAGS])
  AC_SUBST([WEIR_MODULE_LDFLAGS])
  AC_SUBST([WEIR_LDFLAGS])
  AC_SUBST([WEIR_LIB_LDFLAGS])
])

dnl WEIR_TRY_CFLAG(FLAG, ACTION): does ACTION if the compiler takes FLAG. -Werror, because clang only warns of unknown ones.
AC_DEFUN([WEIR_TRY_CFLAG], [
  weir_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [CFLAGS=$weir_saved_CFLAGS; $2], [CFLAGS=$weir_saved_CFLAGS])
])

dnl WEIR_TRY_LINK(FLAGS, [IF-GOOD], [IF-NOT]): links an empty program with FLAGS.
AC_DEFUN([WEIR_TRY_LINK], [
  AC_MSG_CHECKING([whether the compiler links with $1])
  weir_saved_LDFLAGS=$LDFLAGS
  LDFLAGS="$LDFLAGS $1"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes]); LDFLAGS=$weir_saved_LDFLAGS; $2],
    [AC_MSG_RESULT([no]); LDFLAGS=$weir_saved_LDFLAGS; $3])
])
