#!/bin/sh
# SPDX-License-Identifier: MIT
# Where the output goes: colours, and a stdout that does not take it.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
costs=$(cd "$top_srcdir" && pwd -P)/config/costs/nvidia-h200.yaml
imported=$(cd "$top_srcdir" && pwd -P)/tests/tools/rmm.weir
cd "$tap_dir" || exit 1
escape=$(printf '\033')

check "piped_report_is_printed" exits 0 try --seconds=0.05
check "piped_report_has_no_escape_codes" says_not "$out" "$escape"
check "report_is_all_that_is_printed" is_empty "$err"
check "colours_can_be_forced" exits 0 help try --color=always
check "forced_colours_have_escape_codes" says "$out" "${escape}["
check "colour_option_may_stand_before_the_subcommand" exits 0 --color=always help try
check "forced_colours_before_the_subcommand_have_escape_codes" says "$out" "${escape}["

# on_terminal COMMAND: runs it with a terminal for all three streams; what it writes there goes to $out.
on_terminal() {
    TERM=xterm script -q -e -c "$1" "$out.typescript" >"$out" 2>&1 </dev/null
}
terminal_facts="terminal_gets_colours no_color_is_respected empty_no_color_is_none dumb_terminal_gets_no_colours
    colours_can_be_forbidden"
if on_terminal true 2>/dev/null; then
    coloured() {
        on_terminal "$1" && says "$out" "${escape}[1m"
    }
    plain() {
        on_terminal "$1" && says "$out" "Options" && says_not "$out" "$escape"
    }
    check "terminal_gets_colours" coloured "'$weir' help try"
    check "no_color_is_respected" plain "NO_COLOR=1 '$weir' help try"
    check "empty_no_color_is_none" coloured "NO_COLOR= '$weir' help try"
    check "dumb_terminal_gets_no_colours" plain "TERM=dumb '$weir' help try"
    check "colours_can_be_forbidden" plain "'$weir' help try --color=never"
else
    for fact in $terminal_facts; do
        skip "$fact" "no script(1) that can make a terminal"
    done
fi

full_disk() {
    "$weir" show >/dev/full 2>"$err"
    [ $? -eq 2 ] && says "$err" "cannot write the output: No space left on device"
}
if [ -w /dev/full ]; then
    check "full_disk_is_an_error" full_disk
else
    skip "full_disk_is_an_error" "no /dev/full"
fi

# The reader has closed its end before the command starts to write.
mkfifo pipe closed
# unread STATUS ARGUMENT…: the command has that status all the same, and says nothing.
unread() {
    wanted=$1
    shift
    { read -r _ <closed; "$weir" "$@" 2>"$err"; echo $? >status; } >pipe &
    # Opening and closing the reading end, then letting the command start.
    : <pipe
    echo go >closed
    wait $!
    [ "$(cat status)" -eq "$wanted" ] && is_empty "$err"
}
policy bad.yaml <<'YAML'
weir: 2
YAML
check "reader_that_went_away_is_no_error" unread 0 show
check "reader_that_went_away_from_json_is_no_error" unread 0 show --json
check "reader_that_went_away_from_help_is_no_error" unread 0 --help
check "reader_that_went_away_from_figures_is_no_error" unread 0 metrics
check "reader_that_went_away_changes_no_status" unread 1 check --json bad.yaml

# Files that commands write: all of a file or none, for this user alone but where others are to read it, and nothing through a link.
cp "$imported" rmm.weir
mkdir made

# above_limit ARGUMENT…: where a file may have no byte (ulimit -f) the command says so, ends with 2, and leaves what was in the folder.
above_limit() {
    ls -A made >before
    (ulimit -f 0; "$weir" "$@" 2>&1; echo "status $?") | cat >said
    ls -A made >after
    says said "made/file cannot be written: File too large" "status 2" && cmp before after
}
# writes MODE ARGUMENT…: the command makes the file, with that mode.
writes() {
    mode=$1
    shift
    exits 0 "$@" && [ -s made/file ] && [ "$(stat -c %a made/file)" = "$mode" ] && [ "$(ls -A made)" = file ]
}
# replaces MODE ARGUMENT…: the same, where a file of another mode has that name; another name of that file keeps what was in it.
replaces() {
    echo old >made/file && chmod 606 made/file && ln made/file former && writes "$@" && says former old
}
# spares ARGUMENT…: nothing is written through a link, whether or not there is something behind it.
spares() {
    echo old >target
    for behind in target nothing; do
        ln -sf "../$behind" made/file
        exits 2 "$@" && says "$err" "made/file" && [ -L made/file ] && [ ! -e nothing ] && [ "$(cat target)" = old ] || return 1
    done
}
# output NAME new|replace|sim MODE ARGUMENT…: all of this of one way to write made/file. sim: it replaces, and memory of the simulator, which
# it needs, is a file too.
output() {
    name=$1 place=$2 mode=$3
    shift 3
    rm -rf made/* former
    [ "$place" = sim ] || check "${name}_above_the_limit_of_files_leaves_none" above_limit "$@"
    check "${name}_is_made_for_its_readers" writes "$mode" "$@"
    [ "$place" != replace ] || check "${name}_above_the_limit_of_files_leaves_the_former" above_limit "$@"
    if [ "$place" != new ]; then
        check "${name}_takes_the_place_and_not_the_mode_of_a_file" replaces "$mode" "$@"
    fi
    rm -f made/* former
    check "${name}_goes_through_no_link" spares "$@"
}
umask 022
output metrics replace 644 metrics --output=made/file
output calibrate sim 600 calibrate --output=made/file
output tune_policy new 644 tune --costs="$costs" --memory=4GiB --output=made/file rmm.weir

# Early enough that stdio has forgotten why by the end.
long_output() {
    "$weir" trace plot --json rmm.weir >/dev/full 2>"$err"
    [ $? -eq 2 ] && says "$err" "cannot write the output: No space left on device"
}
if [ -w /dev/full ]; then
    check "full_disk_is_told_of_a_long_output_too" long_output
else
    skip "full_disk_is_told_of_a_long_output_too" "no /dev/full"
fi
done_testing
