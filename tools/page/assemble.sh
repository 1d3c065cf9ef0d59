#!/bin/sh
# SPDX-License-Identifier: MIT
# assemble.sh HTML CSS SCRIPT...: prints, as C, what of the page of `weir trace page` stands before its data, and what behind. Style and scripts
# are in it as they are; its policy of content names them by their hashes.
set -eu

# "sha256-…" of what is read, without a newline.
hash_of() {
    digest=$(sha256sum | cut -c1-64 | sed 's/../0x& /g')
    # shellcheck disable=SC2059,SC2086 # 32 numbers become a format of as many bytes
    printf 'sha256-%s' "$(printf "$(printf '\\%03o' $digest)" | base64)"
}

# fill TEXT SCRIPT...: prints the text, with what belongs there for each name between two @@.
fill() {
    rest=$1
    shift
    while [ "${rest#*@@}" != "$rest" ]; do
        printf %s "${rest%%@@*}"
        rest=${rest#*@@}
        case ${rest%%@@*} in
        SCRIPT) cat "$@" ;;
        SCRIPT_HASH) cat "$@" | hash_of ;;
        STYLE) cat "$css" ;;
        STYLE_HASH) hash_of <"$css" ;;
        esac
        rest=${rest#*@@}
    done
    printf %s "$rest"
}

# array NAME TEXT SCRIPT...: the same as bytes in C.
array() {
    name=$1
    shift
    echo "const unsigned char ${name}[] = {"
    fill "$@" | od -An -v -tx1 | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
    echo "};
const size_t ${name}_len = sizeof $name;"
}

[ "$(printf abc | hash_of)" = sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0= ] || {
    echo "assemble.sh: sha256sum, cut, sed and base64 do not make the hash of 'abc', which FIPS 180 has: are coreutils installed?" >&2
    exit 1
}
html=$(cat "$1") css=$2
shift 2
echo '/* Made by the build. */
#include "tools/page/page.h"'
array page_head "${html%%@@DATA@@*}" "$@"
array page_tail "${html#*@@DATA@@}
" "$@"
