#!/bin/sh
# SPDX-License-Identifier: MIT
# ./quickstart in a tree of stand-ins: what it says before it does anything, and when it is done.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"
command -v bash >/dev/null || skip_all "there is no bash"
[ -e "$top_srcdir/quickstart" ] || skip_all "there is no quickstart here"

# Programs that are all there, and do nothing but what is asked for below. apt-get leaves a trace.
tools=$tap_dir/tools
mkdir "$tools"
for name in cc c++ pkg-config libtoolize automake autoconf; do
    printf '#!/bin/sh\nexit 0\n' >"$tools/$name"
done
printf '#!/bin/sh\ntouch "%s/installed"\n' "$tap_dir" >"$tools/apt-get"
printf '#!/bin/sh\necho libunwind.so.8\n' >"$tools/ldconfig"
cat >"$tools/autoreconf" <<'SH'
#!/bin/sh
cat >configure <<'CONFIGURE'
#!/bin/sh
prefix=/usr/local
for argument; do
    case $argument in --prefix=*) prefix=${argument#*=} ;; esac
done
echo "prefix = $prefix" >Makefile
echo >config.h
echo >config.status
CONFIGURE
chmod +x configure
SH
cat >"$tools/make" <<'SH'
#!/bin/sh
mkdir -p tools && printf '#!/bin/sh\necho tried\n' >tools/weir && chmod +x tools/weir
SH
chmod +x "$tools"/*

# starts STATUS FOLDER ARGUMENT…: quickstart, from a tree in that folder, ends with that status; what it says is in $said.
said=$tap_dir/said
starts() {
    wanted=$1 tree=$tap_dir/$2
    shift 2
    mkdir -p "$tree" && cp "$top_srcdir/quickstart" "$tree" || return 1
    PATH=$tools:$PATH bash "$tree/quickstart" "$@" >"$said" 2>&1
    status=$?
    cat "$said"
    [ "$status" -eq "$wanted" ]
}

check "good_folder_is_built_in" starts 0 good
check "says_where_the_command_is" grep -q -x -F "quickstart: the command is $(cd "$tap_dir" && pwd -P)/good/build/tools/weir" "$said"
check "says_how_to_install" grep -q "into /usr/local: .*make -C '.*/good/build' install" "$said"
check "says_how_to_install_elsewhere" grep -q -F './quickstart --prefix=DIR' "$said"
check "other_prefix_is_taken" starts 0 good "--prefix=$tap_dir/there"
check "says_how_to_install_there" grep -q "into $tap_dir/there: make -C" "$said"
check "prefix_that_is_no_whole_path_is_refused" starts 1 good --prefix=there
check "prefix_with_a_blank_is_refused" starts 1 good "--prefix=/a b"
refused() {
    check "folder_with_$1_is_refused" starts 1 "$2"
    check "folder_with_$1_is_named" grep -q -F "/$2'" "$said"
    check "folder_with_$1_is_left_as_it_was" test ! -e "$tap_dir/$2/build"
}
refused a_blank 'a blank'
refused a_quote "a'quote"
refused a_dollar "a\$dollar"
refused a_hash 'a#hash'
check "nothing_was_installed" test ! -e "$tap_dir/installed"
done_testing
