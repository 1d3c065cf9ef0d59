#!/bin/sh
# SPDX-License-Identifier: MIT
# Where the output goes: colours, and a stdout that does not take it.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
cd "$tap_dir" || exit 1
escape=$(printf '\033')

check "piped_report_is_printed" exits 0 try --seconds=0.05
check "piped_report_has_no_escape_codes" says_not "$out" "$escape"
check "report_is_all_that_is_printed" is_empty "$err"
check "colours_can_be_forced" exits 0 devices --color=always
check "forced_colours_have_escape_codes" says "$out" "${escape}["
check "colour_option_may_stand_before_the_subcommand" exits 0 --color=always devices
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
        on_terminal "$1" && says "$out" "Device 0" && says_not "$out" "$escape"
    }
    check "terminal_gets_colours" coloured "'$weir' devices"
    check "no_color_is_respected" plain "NO_COLOR=1 '$weir' devices"
    check "empty_no_color_is_none" coloured "NO_COLOR= '$weir' devices"
    check "dumb_terminal_gets_no_colours" plain "TERM=dumb '$weir' devices"
    check "colours_can_be_forbidden" plain "'$weir' devices --color=never"
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
check "reader_that_went_away_from_json_is_no_error" unread 0 devices --json
check "reader_that_went_away_from_help_is_no_error" unread 0 --help
check "reader_that_went_away_from_figures_is_no_error" unread 0 metrics
check "reader_that_went_away_changes_no_status" unread 1 check --json bad.yaml
done_testing
