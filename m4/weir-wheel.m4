dnl SPDX-License-Identifier: MIT
dnl What make wheel links statically, and what a wheel made here does without, since the archives of a library are missing or do not link. (Those
dnl of libdw from elfutils 0.192 on want a library of which distributions ship no archive.) Sets WHEEL_LIBS, which are linked after the
dnl libraries themselves; WHEEL_STUBS, the libraries in whose place are empty archives; and WHEEL_WITHOUT, in words. Where the macro WEIR_WHEEL
dnl is defined, config.h has nothing of what the wheel does without.
AC_DEFUN([WEIR_WHEEL], [
  AC_SUBST([WHEEL_LIBS], [])
  AC_SUBST([WHEEL_STUBS], [])
  AC_SUBST([WHEEL_WITHOUT], [])
  AS_IF([test "x$weir_have_libdw" = xyes], [
    WEIR_WHEEL_TRY([LIBDW], [libdw libelf], [names in traces (libdw)], [[
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
static const Dwfl_Callbacks callbacks = { .find_debuginfo = dwfl_standard_find_debuginfo };
]], [[
Dwfl *dwfl = dwfl_begin(&callbacks);
Dwfl_Module *module = dwfl_report_elf(dwfl, "", "", 0, 0, 1);
Dwarf_Addr bias = 0;
return dwfl_module_getsrc(module, 0) || dwfl_module_nextcu(module, 0, &bias) || dwelf_elf_gnu_build_id(0, 0) > 0;
]])])
  AS_IF([test -z "$WHEEL_WITHOUT"], [weir_wheel_summary="make wheel packs all of it"],
    [weir_wheel_summary="without $WHEEL_WITHOUT: no static libraries that link"])
])

dnl WEIR_WHEEL_TRY(VARIABLES, MODULES, WHAT, PROLOGUE, BODY): whether a program links with the archives of the modules and of all that they need.
dnl As in make wheel the archives lie alone in a folder that the linker looks into first. If not, the wheel does without WHAT.
AC_DEFUN([WEIR_WHEEL_TRY], [
  AC_MSG_CHECKING([whether $2 can be linked statically into a wheel])
  weir_static=`$PKG_CONFIG --static --libs $2 2>/dev/null`
  weir_archives=yes
  rm -rf conftest.archives && mkdir conftest.archives
  for weir_word in $[$1]_LIBS $weir_static; do
    AS_CASE([$weir_word], [-lc|-lm|-ldl|-lrt|-lpthread], [], [-l*], [
      weir_name=lib`echo "$weir_word" | sed 's/^-l//'`.a
      weir_found=
      for weir_folder in `echo "$[$1]_LIBS $weir_static" | tr ' ' '\n' | sed -n 's/^-L//p'`; do
        AS_IF([test -z "$weir_found" && test -f "$weir_folder/$weir_name"], [weir_found=$weir_folder/$weir_name])
      done
      AS_IF([test -z "$weir_found"], [weir_found=`$CC -print-file-name=$weir_name`])
      AS_IF([test -f "$weir_found"], [cp "$weir_found" conftest.archives/$weir_name],
        [weir_archives=no
         AS_ECHO(["$2: there is no $weir_name"]) >&AS_MESSAGE_LOG_FD])])
  done
  AS_IF([test $weir_archives = yes], [
    weir_saved_CPPFLAGS=$CPPFLAGS weir_saved_LIBS=$LIBS
    CPPFLAGS="$[$1]_CFLAGS $CPPFLAGS"
    LIBS="-Lconftest.archives $[$1]_LIBS $weir_static $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$4], [$5])], [], [weir_archives=no])
    CPPFLAGS=$weir_saved_CPPFLAGS LIBS=$weir_saved_LIBS])
  rm -rf conftest.archives
  AC_MSG_RESULT([$weir_archives])
  AS_IF([test $weir_archives = yes], [WHEEL_LIBS="$WHEEL_LIBS $weir_static"], [
    AC_DEFINE([WHEEL_WITHOUT_$1], [1], [Define to 1 if make wheel cannot link $2 statically.])
    WHEEL_STUBS="$WHEEL_STUBS $[$1]_LIBS"
    WHEEL_WITHOUT="${WHEEL_WITHOUT:+$WHEEL_WITHOUT and }$3"])
  dnl The comment keeps config.status from taking the line for one of its own.
  AH_BOTTOM([#if defined(WEIR_WHEEL) && defined(WHEEL_WITHOUT_$1)
/* in a wheel */ #undef HAVE_$1
#endif])
])
