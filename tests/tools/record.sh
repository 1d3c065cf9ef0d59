#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir record`: traces of a command, and of a live process. They are read back by `weir trace`.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
have_python || skip_all "no python3"
worker=${weir%/tools/weir}/tests/tools/worker
export WEIR_SIM="name=record-$$,memory=1GiB" WEIR_CONTROL_DIR="$tap_dir/control" worker
mkdir -m 700 "$WEIR_CONTROL_DIR"
mkdir "$tap_dir/a 'b', %c {d}" "$tap_dir/elsewhere"
cd "$tap_dir/a 'b', %c {d}" || exit 1

# summary FILE EXPRESSION: that trace can be read, and what is said of it is so: t is the file in `weir trace summary`.
summary() {
    exits 0 trace summary --json "$1" && json "[t for t in d['files'] if $2] != []"
}
work='printf "malloc 4\nfree\nmalloc 2\n" | "$worker"'

check "command_is_recorded" exits 0 record -o one.weir -- sh -c "$work"
check "file_is_named" says "$err" "wrote $PWD/one.weir, "
check "line_that_makes_a_page_of_it_is_said" says "$err" "weir trace page -o $PWD/one.html $PWD/one.weir"
check "command_prints_what_it_prints" says "$out" WEIR_OK
check "file_is_for_this_user_alone" test "$(stat -c %a one.weir)" = 600
check "file_has_the_requests_of_all_levels" summary one.weir \
    "t['program'] == 'worker' and t['reason'] == 'file' and t['level'] == 'all' and t['lost']['is_closed'] and t['live_peak'] == 4 << 20"
check "times_count_from_the_beginning" summary one.weir "0 <= t['first'] <= t['last'] < 3600 * 10 ** 9"
check "nothing_is_lost" summary one.weir "t['lost']['events'] == 0 and t['lost']['bytes'] == 0 and t['live'] == 2 << 20"
cp one.weir kept
check "file_that_is_there_exits_2" exits 2 record -o one.weir -- sh -c 'echo it ran'
check "file_that_is_there_is_answered_with_the_remedy" says "$err" "one.weir exists" "move it away"
check "command_does_not_run_where_the_file_is_there" is_empty "$out"
check "file_that_is_there_stays_as_it_is" cmp kept one.weir
ln -s nowhere link.weir
check "link_that_is_there_exits_2" exits 2 record -o link.weir -- sh -c "$work"

check "command_that_changes_its_folder_is_recorded" exits 0 record -o two.weir -- sh -c "cd / && $work"
check "file_is_in_the_folder_of_the_caller" summary two.weir "t['live_peak'] == 4 << 20"
check "without_a_name_the_process_is_in_it" exits 7 record -- sh -c "$work; exit 7"
check "file_of_the_process_is_there" summary "$(echo weir-[0-9]*.weir)" "t['file'] == 'weir-%d.weir' % t['pid']"
rm -f weir-[0-9]*
several() {
    exits 0 record -- sh -c "$work; $work" && [ "$(ls weir-[0-9]*.weir | wc -l)" = 2 ] && [ "$(grep -c wrote "$err")" = 2 ]
}
check "each_process_has_a_file" several
ranked() {
    RANK=3 exits 0 record -o "rank-%r-%%.weir" -- sh -c "$work" && summary "rank-3-%.weir" "t['rank'] == '3'"
}
check "rank_is_in_the_name" ranked
# The library reads a number, so what is none is 0, also where it could be a path.
unranked() {
    RANK=node/3 exits 0 record -o "unranked-%r.weir" -- sh -c "$work" && summary unranked-0.weir "t['rank'] == 'node/3'"
}
check "rank_that_is_no_number_is_0_in_the_name" unranked
check "level_pool_is_recorded" exits 0 record --level=pool -o pool.weir -- sh -c "$work"
check "level_is_in_the_file" summary pool.weir "t['level'] == 'pool'"
check "stacks_are_recorded" exits 0 record --stacks -o stacks.weir -- sh -c "$work"
check "stacks_are_in_the_file" summary stacks.weir "t['kinds']['malloc'] == 2"

# What the environment says as well.
with_conf() {
    WEIR_CONF=$1
    export WEIR_CONF
    shift
    "$@"
    status=$?
    unset WEIR_CONF
    return $status
}
check "level_of_the_environment_holds" with_conf "record.level=pool" exits 0 record -o conf.weir -- sh -c "$work"
check "level_of_the_environment_is_in_the_file" summary conf.weir "t['level'] == 'pool'"
check "level_of_both_exits_2" with_conf "record.level=pool" exits 2 record --level=all -- sh -c "$work"
check "level_of_both_is_answered_with_the_remedy" says "$err" "WEIR_CONF sets record.level already" "leave --level away"
check "file_of_both_exits_2" with_conf "keeper=false, record={ file: /x }" exits 2 record -- sh -c "$work"
check "file_of_both_is_answered_with_the_remedy" says "$err" "WEIR_CONF sets record.file already"
check "other_assignments_are_kept" with_conf " pools.default.release_threshold=1MiB" exits 0 record -o kept.weir -- sh -c "$work"
check "other_assignments_are_in_force" summary kept.weir "t['pools'][0]['release_threshold'] == 1 << 20"

# Beside `weir run`, which checks the policy with what is put on top of it.
beside_run() {
    WEIR_PYTHON_DIR=$(cd "$top_srcdir" && pwd -P)/plugin/python WEIR_TORCH_LIBRARY=$worker \
        exits 0 record -o run.weir -- "$weir" run --gpu=sim -- sh -c "$work"
}
# The folder of the sources may be given from where the tests were started.
cd "$here" && top_srcdir=$(cd "$top_srcdir" && pwd -P)
cd "$tap_dir/a 'b', %c {d}" || exit 1
check "what_weir_run_starts_is_recorded" beside_run
check "what_weir_run_starts_is_in_the_file" summary run.weir "t['program'] == 'worker' and t['live_peak'] == 4 << 20"

# What becomes of the command.
check "command_without_a_weir_has_its_status" exits 3 record -- sh -c 'exit 3'
check "command_without_a_weir_is_told_of" says "$err" "sh opened no weir"
check "missing_command_exits_127" exits 127 record -- ./missing
check "missing_command_is_named" says "$err" "cannot run './missing': No such file"
check "command_that_is_a_folder_exits_126" exits 126 record -- /
check "strange_letter_in_the_name_exits_2" exits 2 record -o %d.weir -- sh -c 'echo it ran'
check "strange_letter_in_the_name_is_answered_with_what_can_stand" says "$err" "behind a % only p"
check "missing_folder_exits_2" exits 2 record -o none/x.weir -- sh -c 'echo it ran'
check "missing_folder_is_named" says "$err" "/none: No such file or directory"
check "control_character_in_the_name_exits_2" exits 2 record -o "a
b" -- sh -c 'echo it ran'
check "no_command_exits_2" exits 2 record -o x.weir
prints() {
    wanted_text=$1
    shift
    exits 0 "$@" && echo "$wanted_text" | diff - "$out"
}
check "arguments_reach_the_command_as_they_are" prints "<a b> <--level=x> <-->" record sh -c 'echo "<$1> <$2> <$3>"' sh 'a b' --level=x --
check "broken_pipe_ends_the_command_as_ever" prints 141 record -- sh -c '(sh -c "kill -PIPE \$\$"; echo $?)'
dies() {
    sh -c '"$@" 2>/dev/null; exit $?' sh "$weir" record -- sh -c "kill -$1 \$\$"
    [ $? = "$2" ]
}
check "signal_that_ends_the_command_is_its_end" dies TERM 143
check "signal_that_kills_the_command_is_its_end" dies KILL 137
# The command is in wait, where it hears a signal at once; where wait is the last command, the shell may end before its trap. One that starts
# programs over and over was seen to die of SIGALRM, trapped or not.
passes() {
    : >"$out" # here, since the shell of the background may come to it late, and "ready" of the one before would stand there
    "$weir" record -- sh -c 'trap "kill \$!; echo got; exit 5" "$0"; sleep 600 & echo ready; wait; :' "$1" >"$out" 2>"$err" &
    recorder=$!
    for _ in $(seq 2400); do
        grep -q ready "$out" && break
        sleep 0.025
    done
    kill -"$1" $recorder
    wait $recorder
    [ $? = 5 ] && says "$out" got
}
# Not HUP: where a suite is run by nohup it is ignored, and a shell cannot trap that.
for signal in TERM USR2 USR1 ALRM TSTP CONT; do
    check "signal_${signal}_reaches_the_command" passes $signal
done
# state PID: its letter in ps; nothing if there is none.
state() {
    sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null
}
# comes_to PID STATES: within a minute.
comes_to() {
    for _ in $(seq 2400); do
        case $(state "$1") in [$2] | "") return ;; esac
        sleep 0.025
    done
    return 1
}
# In a process group of its own: the kernel ignores TSTP where nobody outside a group could wake its processes, as in a suite that setsid began.
begin_sleeper() {
    "$worker" group "$weir" record -- sh -c 'echo $$ >sleeper; exec sleep 600' >"$out" 2>"$err" &
    recorder=$!
    for _ in $(seq 2400); do
        [ -s sleeper ] && break
        sleep 0.025
    done
    sleeper=$(cat sleeper) && rm sleeper
}
stops() {
    begin_sleeper
    kill -TSTP $recorder && comes_to "$sleeper" T && comes_to $recorder T || return
    kill -CONT $recorder && comes_to "$sleeper" S && comes_to $recorder S || return
    kill -TERM $recorder
    wait $recorder
    [ $? = 143 ]
}
check "command_is_stopped_and_goes_on_with_it" stops
dies_with() {
    begin_sleeper
    kill -KILL $recorder
    comes_to "$sleeper" ZX
}
check "command_does_not_outlive_it" dies_with
small_files() {
    sh -c 'ulimit -f 0; "$@"' sh "$weir" record -- sh -c 'kill -XFSZ $$' 2>/dev/null
    [ $? = 153 ]
}
check "limit_of_files_is_the_commands" small_files
no_room() {
    (unset WEIR_SIM; ulimit -f 0; "$weir" record -o none.weir -- sh -c "$work" 2>&1) | cat >said
    says said "none.weir is empty" && says_not said "weir trace page"
}
# ThreadSanitizer's runtime writes a file of its own at the start of each program.
if (ulimit -f 0 && "$weir" --version | cat) 2>&1 | grep -q '^weir '; then
    check "trace_that_has_no_room_is_said_to_be_empty" no_room
else
    skip "trace_that_has_no_room_is_said_to_be_empty" "programs of this build write a file at their start"
fi
rm -f none.weir

# A process that is killed in mid-write leaves what it had written.
actor=$worker
killed() {
    WEIR_CONF="record.file=$tap_dir/killed.weir,record.level=all" begin one 3 && tell one 3 malloc 8 && tell one 3 free || return
    for _ in $(seq 2400); do
        summary "$tap_dir/killed.weir" "t['live_peak'] == 8 << 20" >/dev/null && break
        sleep 0.025
    done
    kill -KILL "$begun"
    bury "$begun"
    exec 3>&-
    exits 0 trace summary --json "$tap_dir/killed.weir" && json "d['files'][0]['live_peak'] == 8 << 20 and not d['files'][0]['lost']['is_closed']"
}
check "killed_process_leaves_a_file_that_can_be_read" killed

# A live process.
policy policy.yaml <<YAML
weir: 1
control: true
pools: { work: { release_threshold: all } }
record: { level: off }
YAML
export WEIR_POLICY="$tap_dir/policy.yaml"
check "worker_begins" begin two 4
two=$begun
check "worker_takes_memory" tell two 4 malloc 8

# records NAME [TIMEOUT]: has it record in the background. Its process is $recorder; it has begun.
records() {
    "$weir" record --timeout="${2:-60}" --pid="$two" -o "$1.weir" >"$1.said" 2>"$1.err" &
    recorder=$!
    for _ in $(seq 2400); do
        grep -q 'Ctrl-C' "$1.err" && return 0
        sleep 0.025
    done
    cat "$1.err"
    return 1
}
ended() {
    wait $recorder
    status=$?
    [ $status = "$1" ] || echo "status $status instead of $1"
    [ $status = "$1" ]
}
check "live_process_is_recorded" records live
check "worker_frees_and_takes_memory" tell two 4 free
check "worker_takes_other_memory" tell two 4 malloc 16
kill -INT $recorder
check "signal_ends_the_recording_in_order" ended 0
check "what_was_written_is_said" says live.said "process $two (worker): " " events, 0 lost, in $PWD/live.weir"
check "trace_has_what_was_live_before_and_all_since" summary live.weir "t['pid'] == $two and t['reason'] == 'record' and \
t['lost']['is_closed'] and t['kinds']['live'] == 1 and t['kinds']['keep'] == 1 and t['kinds']['malloc'] == 1 and t['live'] == 16 << 20"
check "file_of_a_live_process_is_for_this_user_alone" test "$(stat -c %a live.weir)" = 600
check "file_of_a_live_process_that_is_there_exits_2" exits 2 record --pid="$two" -o live.weir
check "file_of_a_live_process_that_is_there_is_named" says "$err" "live.weir exists"
check "recording_lasts_so_many_seconds" exits 0 record "$two" --timeout=60 --seconds=0.05 --level=pool -o "short-%p.weir"
check "recording_has_the_process_in_its_name" summary "short-$two.weir" "t['level'] == 'pool' and t['live'] == 16 << 20"
check "recording_begins_again" records first
check "second_recording_exits_1" exits 1 record --timeout=60 --pid="$two" -o second.weir
check "second_recording_is_answered_with_the_remedy" says "$err" "being recorded already: wait"
check "file_of_a_refused_recording_does_not_stay" test ! -e second.weir
kill -KILL $recorder
check "recorder_is_killed" ended 137
again_after_stop() {
    rm -f third.weir && again
}
again() {
    for _ in $(seq 2400); do
        "$weir" record --timeout=60 --pid="$two" -s 0.01 -o third.weir >"$out" 2>"$err" && return 0
        says "$err" "being recorded already" >/dev/null || break
        sleep 0.025
    done
    cat "$err"
    return 1
}
check "process_whose_recorder_was_killed_can_be_recorded_again" again
check "process_whose_recorder_was_killed_goes_on" tell two 4 free
check "trace_of_the_killed_recorder_is_whole" summary first.weir "t['lost']['is_closed'] and t['live'] == 16 << 20"
check "process_that_will_be_stopped_is_recorded" records stopped 0.5
check "recorded_process_is_stopped" stop "$two"
kill -INT $recorder
check "recording_of_a_stopped_process_ends_all_the_same" ended 2
check "stopped_process_is_what_is_said" says stopped.err "process $two: it did not end the recording in time: is it stopped?"
kill -CONT "$two"
check "process_that_was_stopped_can_be_recorded_again" again_after_stop
check "process_is_recorded_to_its_end" records last
echo quit >&4
exec 4>&-
check "end_of_the_weir_ends_the_recording" ended 0
check "worker_ends" bury "$two"
check "trace_ends_with_the_weir" summary last.weir "t['lost']['is_closed']"
check "worker_that_is_killed_begins" begin three 4
two=$begun
check "process_that_is_killed_is_recorded" records killed
# The recording has begun before its first bytes are there.
for _ in $(seq 2400); do
    [ -s killed.weir ] && break
    sleep 0.025
done
kill -KILL "$two"
check "killed_process_exits_1" ended 1
check "killed_process_is_told_of" says killed.err "process $two: it closed the connection" "has what was written until then"
check "trace_of_a_killed_process_can_be_read" summary killed.weir "not t['lost']['is_closed']"
bury "$two"
exec 4>&-
check "process_that_is_none_exits_1" exits 1 record --pid=$$ -o none.weir
check "process_that_is_none_leaves_no_file" test ! -e none.weir
check "process_and_command_exits_2" exits 2 record --pid=$$ -- true
check "process_that_is_none_is_no_command" exits 1 record $$ -o none.weir
check "process_that_is_none_is_called_so" says "$err" "there is no process $$"
check "two_processes_exit_2" exits 2 record $$ $$
printf '#!/bin/sh\necho "$@"\n' >./4711
chmod +x 4711
number_as_command() {
    PATH=.:$PATH exits 0 record -o number.weir -- 4711 --seconds && says "$out" "--seconds"
}
check "number_behind_the_dashes_is_a_command" number_as_command
check "seconds_without_a_process_exits_2" exits 2 record --seconds=1 -- true
check "rank_of_a_live_process_exits_2" exits 2 record --pid=$$ -o %r.weir
done_testing
