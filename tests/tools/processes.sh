#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir ps`, `trim`, `set` and `reload`, with processes of their own, which nobody else asks, and which ask nobody else.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
actor=${weir%/tools/weir}/tests/tools/worker
pool=work-$$
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=processes-$$,memory=1GiB" WEIR_POLICY="$tap_dir/policy.yaml"
sockets=$WEIR_CONTROL_DIR/weir/control
# policy_with KEYS: the policy, with more keys of the pool.
policy_with() {
    policy policy.yaml <<YAML
weir: 1
control: true
pools:
  $pool: { cache: { largest: 64KiB }, small_below: 0, $1 }
streams: { own: { private: true } }
YAML
}
policy_with "keep: 32MiB, max_size: 768MiB"
cd "$tap_dir" || exit 1

check "worker_begins" begin one 3
one=$begun
check "worker_takes_memory" tell one 3 malloc 256
check "process_is_shown" asks 0 ps "$one"
check "process_has_its_user_and_program" row "$one" "$(id -un)" worker
check "pool_has_its_figures_cap_and_policy" row "$one" 0 "$pool" "256 MiB" "256 MiB" "0 B" "0 B" "768 MiB" "$WEIR_POLICY"
check "device_has_its_line" row "$one" 0 "GPU-[0-9a-f]+" "768 MiB" 0 0 0 "0 B" 0 "0 B"
check "worker_frees_it" tell one 3 free
check "process_in_json_is_printed" asks 0 ps --json "$one"
check_json "json_has_the_process" "[(p['pid'], p['number'], p['is_elsewhere'], p['uid'], p['user'], p['program'], p['status'], p['policy']) \
for p in d['processes']] == [($one, 1, False, $(id -u), '$(id -un)', 'worker', 'WEIR_OK', '$WEIR_POLICY')] and d['status'] == 0"
check_json "json_has_the_socket" "d['processes'][0]['socket'] == '$sockets/$one.1'"
check_json "json_has_the_pool" "[(q['name'], q['device'], q['is_private'], q['live'], q['idle'], q['reserved'], q['keep'], q['mallocs'], q['frees']) \
for q in d['processes'][0]['pools']] == [('$pool', 0, False, 0, 256 << 20, 256 << 20, 32 << 20, 1, 1)]"
check_json "json_identities_hold" "all(q['idle'] <= q['reserved'] and q['live'] <= q['live_high'] <= q['reserved_high'] \
for q in d['processes'][0]['pools'])"
check_json "json_has_the_device" "[(x['index'], x['uuid'][:4], x['memory'], sorted(x['rescues'])) for x in d['processes'][0]['devices']] == \
[(0, 'GPU-', 1 << 30, ['callbacks', 'flush', 'neighbours', 'trim', 'wait'])]"
check "process_is_named_by_its_socket" asks 0 ps "$sockets/$one.1"
check "process_is_named_with_the_number_of_its_weir" asks 0 ps "$one.1"
check "list_as_json_exits_2" exits 2 ps --list=pids --json
check "list_as_json_says_what_to_give" says "$out" "--list and --json"
for wrong in 0 -1 x inf 86401; do
    check "watch_of_'$wrong'_exits_2" exits 2 ps --watch=$wrong
done
# The one who reads goes after the third block; nobody looks at a clock.
watched() {
    { "$weir" ps --timeout=60 --watch=0.01 "$@" 2>"$err"; echo $? >watch_status; } | awk '{ print } /^ *PID *USER/ && ++n == 3 { exit }' >"$out"
    [ "$(cat watch_status)" = 0 ] && is_empty "$err"
}
check "watch_ends_with_who_reads_it" watched "$one"
blocks() {
    [ "$(grep -c '^ *PID *USER' "$out")" = 3 ] && [ "$(grep -B 1 '^ *PID *USER' "$out" | grep -c '^$')" = 2 ] && ! grep "$(printf '\033')" "$out"
}
check "watch_in_a_pipe_has_an_empty_line_between_blocks" blocks
lines_of_json() {
    "$weir" ps --timeout=60 --watch=0.01 --json "$one" 2>"$err" | head -n 3 >"$out"
    is_empty "$err" && [ "$(wc -l <"$out")" = 3 ] && [ "$(grep -c '^{"processes": \[{"pid": '"$one"', .*], "status": 0}$' "$out")" = 3 ]
}
check "watch_in_json_is_a_line_for_each_look" lines_of_json
check "watch_of_an_unknown_process_exits_1" asks 1 ps --watch=0.01 $$
if have_python; then
    # signalled SIGNAL WAY: the command ends with 0 after its second look, in a pipe or on a terminal.
    signalled() {
        timeout 60 python3 - "$weir" "$one" "$1" "$2" <<'PYTHON'
import os, pty, signal, subprocess, sys
weir, pid, name, way = sys.argv[1:]
ours, theirs = pty.openpty() if way == "terminal" else os.pipe()
number = getattr(signal, name)
os.environ["TERM"] = "xterm"
child = subprocess.Popen([weir, "ps", "--timeout=60", "--watch=0.01", pid], stdout=theirs, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
text = b""
while text.count(b"USER") < 2:
    text += os.read(ours, 4096)
child.send_signal(number)
os.close(theirs)
try:
    while os.read(ours, 4096):
        pass
except OSError:
    pass  # the terminal's other end is closed
assert child.wait() == 0, child.returncode
assert (text.count(b"\033[H\033[J") >= 2) == (way == "terminal"), text
PYTHON
    }
    for name in SIGINT SIGTERM SIGHUP; do
        check "${name}_ends_watch_in_a_pipe" signalled $name pipe
    done
    if python3 -c 'import os; os.openpty()' 2>/dev/null; then
        check "watch_is_redrawn_in_place_on_a_terminal" signalled SIGINT terminal
    else
        skip "watch_is_redrawn_in_place_on_a_terminal" "no pseudo-terminal can be had: mount devpts on /dev/pts"
    fi
else
    skip "watch_is_ended_by_signals" "no python3"
fi
nobody_here() {
    WEIR_CONTROL_DIR="$tap_dir/elsewhere" exits 0 ps
}
check "a_directory_without_processes_exits_0" nobody_here
check "a_directory_without_processes_is_named" says "$out" "No process can be seen here" "WEIR_CONTROL_DIR" "$tap_dir/elsewhere"
check "unknown_process_exits_1" asks 1 ps "$$"
check "unknown_process_is_told_what_it_takes" says "$err" "there is no process $$" "control: true"
check "unknown_process_does_not_hide_others" asks 1 ps "$$" "$one"
check "process_beside_an_unknown_one_is_shown" row "$one" "$(id -un)" worker
for wrong in 0 -1 12x '' 1. 1.x; do
    check "process_'${wrong}'_exits_2" asks 2 ps -- "$wrong"
    check "process_'${wrong}'_is_told_what_to_write" says "$err" "'$wrong' is no process: write its number"
done

# Giving back.
check "trim_of_nobody_exits_2" asks 2 trim
check "trim_of_nobody_says_what_to_give" says "$err" "PID" "--all"
check "trim_of_one_and_all_exits_2" asks 2 trim --all --pid="$one"
for wrong in -1 1Gib 1.0000001KiB all 50% '' 99999999999GiB; do
    check "keep_of_'${wrong}'_exits_2" asks 2 trim --pid="$one" --keep="$wrong"
    check "keep_of_'${wrong}'_is_told_what_to_write" says "$err" "--keep=$wrong: write bytes"
done
check "trim_of_an_unknown_process_exits_1" asks 1 trim --pid=$$
check "trim_of_an_unknown_pool_exits_1" asks 1 trim --pid="$one" --pool=nothing
check "trim_of_an_unknown_pool_says_which_there_are" says "$err" "there is no pool 'nothing'; there is $pool"
check "trim_of_one_in_two_ways_exits_2" asks 2 trim "$one" --pid="$one"
check "trim_keeps_what_it_is_told" asks 0 trim "$one" --keep=128MiB
check "trim_says_what_was_given" says "$out" "process $one (worker): gave 128 MiB in "
check "trim_keeps_what_the_policy_says" asks 0 trim --pid="$one" --pool="$pool" --json
check_json "trim_in_json_says_what_was_given" "[(p['pid'], p['status'], p['gave_bytes']) for p in d['processes']] == \
[($one, 'WEIR_OK', 96 << 20)] and d['gave_bytes'] == 96 << 20 and d['status'] == 0"
check "trimmed_process_is_shown" asks 0 ps "$one"
check "memory_is_back" row "$one" "$pool" "32 MiB" "0 B" "0 B" "32 MiB"
check "trim_of_all_with_such_a_pool_exits_0" exits 0 trim --all --pool="$pool" --keep=0 --timeout=60
check "trim_of_all_says_what_was_given" says "$out" "process $one (worker): gave 32 MiB in "
check "trim_of_all_without_such_a_pool_exits_1" exits 1 trim --all --pool="none-$$" --timeout=60
check "trim_of_all_without_such_a_pool_is_told_so" says "$err" "no process has a pool 'none-$$'"
# reasons_alone STATUS SUBCOMMAND ARGUMENT…: it can answer nothing, so the document has why, and stderr has nothing.
reasons_alone() {
    asks "$@" && is_empty "$err"
}
for answerless in "ps --json" "set --json" "reload --json" "trim --json --pid"; do
    assignment=
    [ "${answerless%% *}" = set ] && assignment=keeper=true
    # shellcheck disable=SC2086 # words
    check "${answerless}_of_no_process_says_nothing_on_stderr" reasons_alone 1 $answerless $$ $assignment
    check_json "${answerless}_of_no_process_has_the_reason" "'there is no process $$' in d['errors'][0]['message'] and d['status'] == 1"
done
check "trim_in_json_without_such_a_pool_says_nothing_on_stderr" reasons_alone 1 trim --json --all --pool="none-$$"
check_json "trim_in_json_without_such_a_pool_has_the_reason" "'none-$$' in d['errors'][0]['message'] and d['status'] == 1"

# Changing.
check "set_exits_0" asks 0 set "$one" "pools.$pool.release_threshold=64MiB" "pools.$pool.keep=16MiB"
check "set_says_what_it_did" says "$out" "process $one (worker): pools.$pool.release_threshold=64MiB,pools.$pool.keep=16MiB"
figures() {
    asks 0 ps --json "$one" && json "[(q['release_threshold'], q['keep']) for q in d['processes'][0]['pools']] == [($1)]"
}
check_figures() {
    if have_python; then
        check "$1" figures "$2"
    else
        skip "$1" "no python3"
    fi
}
check_figures "what_was_set_is_in_force" "64 << 20, 16 << 20"
check "policy_of_the_process_is_shown" asks 0 show --pid "$one"
check "policy_of_the_process_is_named" says "$out" "Policy: $WEIR_POLICY (in force in process $one, worker)"
check "what_was_set_is_shown_with_its_origin" row "pools.$pool.keep" 16MiB live "weir set"
check "what_was_not_set_is_shown_with_its_line" row "pools.$pool.small_below" 0 "$WEIR_POLICY:4"
here_and_there() {
    exits 0 show "$WEIR_POLICY" && sed -n 's/ *KEY/KEY/; /^KEY/,$p' "$out" | grep -v -e keep -e release_threshold >here &&
        exits 0 show --timeout=60 --pid "$one" && sed -n 's/ *KEY/KEY/; /^KEY/,$p' "$out" | grep -v -e keep -e release_threshold | tr -s ' ' >there &&
        tr -s ' ' <here | diff - there
}
check "everything_else_is_as_the_file_has_it" here_and_there
check "policy_of_the_process_in_json_is_printed" asks 0 show --json --pid="$one"
check_json "policy_in_json_has_what_was_set" "[(v['value'], v['live'], v['file']) for v in d['values'] if v['key'] == 'pools.$pool.keep'] == \
[('16MiB', True, 'weir set')] and d['policy'] == '$WEIR_POLICY' and 'process $one' in d['chosen']"
check "policy_of_an_unknown_process_exits_1" asks 1 show --pid $$
check "policy_of_no_process_exits_2" asks 2 show --pid x
check "policy_of_a_file_and_a_process_exits_2" asks 2 show --pid "$one" "$WEIR_POLICY"
check "set_again_exits_0" asks 0 set "$one" "pools.$pool.keep=8MiB"
check_figures "what_was_set_before_stays" "64 << 20, 8 << 20"
check "set_of_one_bad_key_exits_1" asks 1 set "$one" "pools.$pool.keep=4MiB" "pools.$pool.small_below=1MiB"
check "set_of_a_key_that_is_not_live_is_refused" says "$err" "weir set:1:" "pools.$pool.small_below: cannot change while the policy is open"
check_figures "refused_set_changes_nothing" "64 << 20, 8 << 20"
check "set_of_a_misspelt_key_exits_1" asks 1 set "$one" "pools.$pool.kepe=4MiB"
check "set_of_a_misspelt_key_gets_a_suggestion" says "$err" "did you mean 'keep'?"
check "set_in_json_exits_1" asks 1 set --json "$one" "pools.$pool.kepe=4MiB"
check_json "set_in_json_says_why" "[(p['pid'], p['status'], 'keep' in p['reason']) for p in d['processes']] == [($one, 'WEIR_BAD_POLICY', True)] \
and d['status'] == 1"
check "set_without_assignment_exits_2" asks 2 set "$one"
check "set_of_nothing_exits_2" asks 2 set "$one" ""
check "set_of_nothing_is_told_what_to_write" says "$err" "an empty text is no assignment: write KEY=VALUE"
check "set_of_too_much_exits_2" asks 2 set "$one" "$(printf 'x%.0s' $(seq 300))=1"
check "set_of_too_much_is_told_the_limit" says "$err" "longer than 255 characters"
check "set_in_an_unknown_process_exits_1" asks 1 set $$ keeper=true
policy_with "keep: 48MiB, release_threshold: 128MiB, max_size: 768MiB"
check "reload_exits_0" asks 0 reload "$one"
check "reload_says_what_it_did" says "$out" "process $one (worker): has read its policy again"
check_figures "reloaded_policy_is_in_force" "128 << 20, 48 << 20"
check "reloaded_policy_is_shown" asks 0 show --pid "$one"
check "reloaded_value_has_its_line" row "pools.$pool.keep" 48MiB live "$WEIR_POLICY:4"
policy_with "keep: much"
check "reload_of_a_bad_policy_exits_1" asks 1 reload "$one"
check "reload_of_a_bad_policy_says_what_is_wrong" says "$err" "$WEIR_POLICY:4:" "pools.$pool.keep"
check_figures "refused_reload_changes_nothing" "128 << 20, 48 << 20"
policy_with "keep: 48MiB, max_size: 768MiB"

# Several weirs in one process.
check "second_weir_opens" tell one 3 open
check "both_weirs_are_shown" asks 0 ps "$one"
check "first_weir_has_its_row" row "$one.1" worker
check "second_weir_has_its_row" row "$one.2" worker
check "set_of_a_process_with_two_weirs_exits_2" asks 2 set "$one" keeper=true
check "set_of_a_process_with_two_weirs_names_them" says "$err" "name one of" "  $one.1, or $sockets/$one.1" "  $one.2, or "
check "first_of_two_weirs_is_shown_alone" asks 0 ps --list=pids "$one.1"
check "first_of_two_weirs_has_its_number" says "$out" "$one.1"
check "first_of_two_weirs_is_found_by_its_socket" asks 0 ps --list=pids "$sockets/$one.1"
check "first_of_two_weirs_has_its_number_by_its_socket_too" says "$out" "$one.1"
check "policy_of_a_process_with_two_weirs_exits_2" asks 2 show --pid "$one"
check "policy_of_one_of_two_weirs_is_shown" asks 0 show --pid "$one.2"
check "set_of_one_of_two_weirs_exits_0" asks 0 set "$one.2" keeper=true
check "reload_of_one_of_two_weirs_exits_0" asks 0 reload "$sockets/$one.2"
check "trim_of_a_process_is_one_of_all_its_weirs" asks 0 trim --pid="$one"
check "trim_of_both_is_said" says "$out" "process $one.1 (worker): gave" "process $one.2 (worker): gave"
check "second_weir_closes" tell one 3 close
check "closed_weir_is_not_shown" asks 0 ps "$one"
check "closed_weir_has_no_row" says_not "$out" "$one.2"

# Processes that do not answer, or are gone.
check "second_worker_begins" begin two 4
two=$begun
check "worker_is_stopped" stop "$two"
check "stopped_process_exits_2" exits 2 ps --timeout=0.2 "$two"
check "stopped_process_is_reported" says "$err" "weir: ps: process $two: "
check "stopped_process_does_not_hide_others" exits 2 ps --timeout=15 "$one" "$two"
check "process_beside_a_stopped_one_is_shown" row "$one" worker
check "stopped_process_in_json_exits_2" exits 2 ps --json --timeout=15 "$one" "$two"
check_json "json_has_the_reason" "{p['pid']: (p['status'], 'reason' in p, 'pools' in p) for p in d['processes']} == \
{$one: ('WEIR_OK', False, True), $two: ('WEIR_TIMEOUT', True, False)} and d['status'] == 2"
check "policy_of_a_stopped_process_exits_2" exits 2 show --timeout=0.2 --pid "$two"
check "stopped_process_cannot_be_set" exits 2 set --timeout=0.2 "$two" keeper=true
check "stopped_process_cannot_be_trimmed" exits 2 trim --timeout=0.2 --pid="$two"
check "others_are_set_without_waiting_for_it" exits 0 set --timeout=600 "$one" keeper=true
kill -CONT "$two"
check "continued_process_answers" exits 0 ps --timeout=60 "$two"
kill -KILL "$two"
bury "$two"
check "killed_process_is_unknown" asks 1 ps "$two"
swept() {
    [ ! -e "$sockets/$two.1" ]
}
check "socket_of_a_killed_process_is_removed" swept

# Two containers that see each other's sockets: the first process of each is number 1 there, and of the other's namespace here.
contained="$tap_dir/contained"
printf '#!/bin/sh\nexec unshare --pid --fork --mount-proc "%s" "$@"\n' "$actor" >"$contained"
chmod +x "$contained"
# within NAME ARGUMENT…: runs the command as that container would, and holds if it exits with 0.
within() {
    inner=$(cat "/proc/$1/task/$1/children")
    shift
    nsenter -t "${inner% }" -p -m -- "$weir" "$@" >"$out" 2>"$err"
}
# is_one WORD: there is one line, of that process.
is_one() {
    [ "$(grep -c '^process ' "$out")" -eq 1 ] && says "$out" "process $1 (worker)"
}
facts="number_1_is_the_process_that_is_shown_under_it number_1_is_trimmed_alone process_of_the_other_container_has_a_star
    starred_process_is_trimmed_alone name_of_the_other_container_s_process_is_told"
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    former=$actor actor=$contained
    check "first_container_begins" begin first 5
    first=$begun
    check "second_container_begins" begin second 6
    second=$begun actor=$former
    check "number_1_is_the_process_that_is_shown_under_it" within "$second" ps --timeout=60 --list=pids 1
    number=$(cat "$out")
    check "number_1_is_trimmed_alone" within "$second" trim --timeout=60 1
    check "number_1_is_the_container_s_own" is_one "$number"
    check "starred_process_is_trimmed_alone" within "$second" trim --timeout=60 '1*'
    check "process_of_the_other_container_has_a_star" is_one '1*'
    other_number() {
        ! within "$second" trim --timeout=60 1.1 && says "$err" "there is no process 1.1; that of another PID namespace is '1.1*'"
    }
    check "name_of_the_other_container_s_process_is_told" other_number
    for fd in 5 6; do
        eval "echo quit >&$fd"
    done
    check "first_container_ends" bury "$first"
    check "second_container_ends" bury "$second"
else
    for fact in $facts; do
        skip "$fact" "no PID namespaces can be made here"
    done
fi

eval "echo quit >&3"
check "worker_ends" bury "$one"
check "ended_process_is_unknown" asks 1 ps "$one"
done_testing
