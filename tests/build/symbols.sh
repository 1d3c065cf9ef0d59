#!/bin/sh
# SPDX-License-Identifier: MIT
# The header, the version map and the built library name the same functions, and the versions agree everywhere.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

library=$top_builddir/lib/.libs/libweir.so
header=$top_srcdir/lib/weir.h
[ -e "$library" ] || skip_all "there is no shared libweir in this build"
command -v nm >/dev/null || skip_all "nm is missing: install binutils"

# Declarations may span lines, so the name is the first weir_word before a parenthesis after each WEIR_API.
tr '\n' ' ' <"$header" | grep -o 'WEIR_API [^;{]*' | sed -n 's/^[^(]*[ *]\(weir_[a-z0-9_]*\)(.*/\1/p' | sort >"$tap_dir/header"
sed -n 's/^ *\(weir_[a-z0-9_]*\);$/\1/p' "$top_srcdir/lib/libweir.map" | sort >"$tap_dir/map"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$tap_dir/library"

check "header_declares_functions" test -s "$tap_dir/header"
check "map_lists_what_the_header_declares" diff "$tap_dir/header" "$tap_dir/map"
check "library_exports_exactly_the_map" diff "$tap_dir/map" "$tap_dir/library"
check "every_export_has_a_version" sh -c "! nm -D --defined-only '$library' | grep -v ' A ' | grep -v '@@WEIR_'"

header_version=$(awk '/^#define WEIR_VERSION_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' "$header")
built_version=$(sed -n 's/^#define VERSION "\(.*\)"$/\1/p' "$top_builddir/config.h")
pc_version=$(sed -n 's/^Version: //p' "$top_builddir/weir.pc")
check "header_and_configure_agree_on_the_version" test "$header_version" = "$built_version"
check "pkg_config_file_has_the_same_version" test "$pc_version" = "$built_version"
done_testing
