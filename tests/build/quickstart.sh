#!/bin/sh
# SPDX-License-Identifier: MIT
# ./quickstart in a tree of stand-ins: what it says before it does anything, and when it is done.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"
command -v bash >/dev/null || skip_all "there is no bash"
[ -e "$top_srcdir/quickstart" ] || skip_all "there is no quickstart here"
find_python

# Programs that are all there, and do nothing but what is asked for below. What is called with a word of $lacks fails: that is missing. apt-get
# leaves a trace.
tools=$tap_dir/tools lacks=$tap_dir/lacks
mkdir "$tools"
: >"$lacks"
for name in cc c++ pkg-config libtoolize automake autoconf; do
    printf '#!/bin/sh\n! printf "%%s\\n" "$@" | grep -q -F -f "%s"\n' "$lacks" >"$tools/$name"
done
# Of headers it has all but those of CUDA.
cat >"$tools/cc" <<'SH'
#!/bin/sh
[ "$1" != -E ] || ! grep -q cuda_runtime_api
SH
printf '#!/bin/sh\ntouch "%s/installed"\n' "$tap_dir" >"$tools/apt-get"
printf '#!/bin/sh\necho libunwind.so.8\n' >"$tools/ldconfig"
cat >"$tools/python3" <<SH
#!/bin/sh
[ "\$1" = -c ] || exec '${interpreter:-false}' "\$@"
! printf '%s\n' "\$2" | grep -q -F -f '$lacks'
SH
cat >"$tools/autoreconf" <<'SH'
#!/bin/sh
cat >configure <<'CONFIGURE'
#!/bin/sh
if [ "$1" = --help ]; then
    printf '  %s  text\n' --enable-FEATURE --enable-werror --disable-rpath --with-cuda=DIR --without-cuda '--with-cudart=static|shared' --without-torch
    exit
fi
prefix=/usr/local cuda=no
for argument; do
    case $argument in
    --prefix=*) prefix=${argument#*=} ;;
    --with-cuda=*) cuda=${argument#*=}/lib ;;
    esac
done
printf '%s\n' "$@" >arguments
printf '%s\n' "prefix = $prefix" "CUDA_SUMMARY = $cuda" "CUDART_SUMMARY = 12.9" >Makefile
echo >config.status
case $cuda in no) echo ;; *) echo '#define HAVE_CUDA 1' ;; esac >config.h
CONFIGURE
chmod +x configure
SH
cat >"$tools/make" <<'SH'
#!/bin/sh
mkdir -p tools && printf '#!/bin/sh\necho tried\n' >tools/weir && chmod +x tools/weir
SH
chmod +x "$tools"/*

# starts STATUS FOLDER ARGUMENT…: quickstart, from a tree in that folder, ends with that status; what it says is in $said. There is no CUDA
# toolkit, and NVIDIA's runtime comes from $runtime.
said=$tap_dir/said
runtime=$tap_dir/runtime.whl digest=0
starts() {
    wanted=$1 tree=$tap_dir/$2
    shift 2
    mkdir -p "$tree" && sed -e "s,/usr/local/cuda,$tap_dir/no-toolkit,g" -e "s,^runtime_url=.*,runtime_url=file://$runtime," \
        -e '/^ *runtime_url+=/d' -e "s,^\( *runtime_sha256=\).*,\1$digest," "$top_srcdir/quickstart" >"$tree/quickstart" || return 1
    env -u CUDA_HOME -u CC PATH="$tools:$PATH" bash "$tree/quickstart" "$@" >"$said" 2>&1
    status=$?
    cat "$said"
    [ "$status" -eq "$wanted" ]
}
says() {
    grep -q -F -e "$1" "$said" || { cat "$said" && return 1; }
}
# given FOLDER OPTION…: configure there was given exactly these.
given() {
    tree=$tap_dir/$1
    shift
    printf '%s\n' "$@" | diff - "$tree/build/arguments"
}

check "good_folder_is_built_in" starts 0 good --without-cuda
check "says_where_the_command_is" grep -q -x -F "quickstart: the command is $(cd "$tap_dir" && pwd -P)/good/build/tools/weir" "$said"
check "says_how_to_install" grep -q "into /usr/local: .*make -C '.*/good/build' install" "$said"
check "says_how_to_install_elsewhere" says './quickstart --prefix=DIR'

there=$tap_dir/there
check "other_prefix_is_taken" starts 0 good --without-cuda "--prefix=$there"
check "says_how_to_install_there" grep -q "into $there: make -C" "$said"
variables_are_right() {
    sed -n 's/^  export //p' "$said" >"$tap_dir/variables"
    [ "$(wc -l <"$tap_dir/variables")" = 3 ] && (
        PATH=/bin LD_LIBRARY_PATH='' PKG_CONFIG_PATH=/c
        # shellcheck source=/dev/null
        . "$tap_dir/variables"
        [ "$PATH $LD_LIBRARY_PATH $PKG_CONFIG_PATH" = "$there/bin:/bin $there/lib $there/lib/pkgconfig:/c" ]
    )
}
check "prints_the_three_variables_to_set" variables_are_right
check "later_runs_keep_the_prefix" starts 0 good --without-cuda
check "kept_prefix_is_said" says "the prefix is $there, as before"
check "kept_prefix_is_handed_to_configure" given good "--prefix=$there" --without-cuda
check "kept_prefix_configures_nothing_anew" says "configured already"
check "another_prefix_takes_its_place" starts 0 good --without-cuda --prefix=/usr/local
check "usual_prefix_needs_no_variables" sh -c '! grep export "$1"' sh "$said"
check "prefix_that_is_no_whole_path_is_refused" starts 1 good --prefix=there
check "prefix_with_a_blank_is_refused" starts 1 good "--prefix=/a b"

check "options_of_configure_are_handed_on" starts 0 options --without-cuda --with-cudart=shared --without-torch --enable-werror --disable-rpath
check "all_of_them_are" given options --without-cuda --with-cudart=shared --without-torch --enable-werror --disable-rpath
# refuses_option OPTION NEAREST: before anything is done.
refuses_option() {
    rm -f "$tap_dir/options/build/arguments"
    starts 1 options "$1" && says "'$1'; the nearest is '$2'" && [ ! -e "$tap_dir/options/build/arguments" ]
}
check "misspelt_feature_is_refused" refuses_option --enable-werorr --enable-werror
check "misspelt_package_is_refused" refuses_option --without-troch --without-torch
check "misspelt_package_with_a_value_is_refused" refuses_option --with-cudarts=shared --with-cudart
check "package_called_a_feature_is_refused" refuses_option --disable-torch --without-torch
check "misspelt_option_of_a_fresh_clone_is_refused" starts 1 fresh --enable-nonsense
check "other_words_are_refused" starts 2 good --nonsense

if [ -n "$interpreter" ]; then
    python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("nvidia/cuda_runtime/include/cuda_runtime_api.h", "")' "$runtime"
    digest=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$runtime")
    unpacked=build/cuda/12.9.79/nvidia/cuda_runtime
    check "without_a_toolkit_the_runtime_is_fetched" starts 0 fetched
    check "its_licence_is_named" says "docs.nvidia.com/cuda/eula"
    check "it_is_handed_to_configure" given fetched "--with-cuda=$tap_dir/fetched/$unpacked"
    check "it_is_unpacked_there" test -e "$tap_dir/fetched/$unpacked/include/cuda_runtime_api.h"
    check "which_toolkit_was_used_is_said" says "CUDA runtime: 12.9, of $tap_dir/fetched/$unpacked/lib"
    check "without_cuda_declines_it" starts 0 declined --without-cuda
    check "declined_it_is_not_there" test ! -e "$tap_dir/declined/build/cuda"
    check "named_toolkit_declines_it" starts 0 declined --with-cuda=/nonexistent
    check "without_installing_nothing_is_downloaded" starts 0 offline --no-install
    check "not_downloaded_it_is_not_there" test ! -e "$tap_dir/offline/build/cuda"
    check "simulator_alone_is_said" says "built with the simulator alone"
    digest=1
    check "other_file_is_not_taken" starts 0 other
    check "other_file_is_said" says "its SHA-256 is not 1"
    check "other_file_is_not_unpacked" test ! -e "$tap_dir/other/$unpacked"
    rm "$runtime"
    check "without_a_network_it_goes_on" starts 0 other
    check "without_a_network_it_says_what_is_missing" says "Weir is built with the simulator alone"
    check "unpacked_runtime_is_not_fetched_again" starts 0 fetched
    check "unpacked_runtime_configures_nothing_anew" says "configured already"
else
    skip "without_a_toolkit_the_runtime_is_fetched" "no python3"
fi

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

# The user is nobody, and an administrator has to be asked, once.
printf '%s\n' yaml venv 'import ssl' >"$lacks"
printf '#!/bin/sh\necho 1000\n' >"$tools/id"
printf '#!/bin/sh\nexit 1\n' >"$tools/sudo"
chmod +x "$tools"/*
check "missing_packages_end_it_without_root" starts 1 user
check "administrator_is_told_of_all_that_tests_and_cuda_need_too" grep -q '^quickstart: sudo apt-get install libyaml-dev python3-venv python3' "$said"
check "missing_packages_end_it_without_installing" starts 1 user --no-install
check "missing_packages_are_named" grep -q -x 'quickstart: missing packages (named as on Debian): libyaml-dev' "$said"
printf '%s\n' 'import ssl' >"$lacks"
check "what_only_cuda_needs_does_not_end_it" starts 0 user
check "what_cuda_needs_is_said" says "Weir is built with the simulator alone"
check "nothing_was_installed_for_a_user" test ! -e "$tap_dir/installed"
done_testing
