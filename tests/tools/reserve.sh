#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir run --reserve`: what is claimed for a command and for how long, how it is refused, and how `weir ps` shows it.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
WEIR_PYTHON_DIR=$(cd "$top_srcdir" && pwd -P)/plugin/python
WEIR_TORCH_LIBRARY=$tap_dir/library.so
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=reserve-$$,memory=1GiB,devices=2" WEIR_PYTHON_DIR WEIR_TORCH_LIBRARY weir
: >"$WEIR_TORCH_LIBRARY"
policy good.yaml <<YAML
weir: 1
pools: { work: { leave_free: 128MiB, initial_size: 512MiB } }
YAML
cd "$tap_dir" || exit 1
# What runs here is no Python, of which a line at the end tells.
run() {
    "$weir" run --gpu=sim "$@"
}
claims='"$weir" ps | grep MiB | tr -s " "'
user=$(id -un)

# claimed WANTED ARGUMENT…: the command, which prints the claims, is run so, and prints that.
claimed() {
    wanted_text=$1
    shift
    run "$@" >"$out" 2>"$err"
    echo "$wanted_text" | sed 's/^/ [0-9]* /' >patterns
    [ "$(grep -c . "$out")" -eq "$(grep -c . patterns)" ] && [ "$(grep -c -x -f patterns "$out")" -eq "$(grep -c . patterns)" ] || { cat "$out" "$err" && return 1; }
}
check "claim_is_shown_with_the_command_and_the_device" claimed "$user sh GPU-[0-9a-f]* 600 MiB 0 B" --reserve=600MiB sh -c "$claims"
check "claim_of_a_command_with_a_path_has_its_name" claimed "$user sh GPU-[0-9a-f]* 600 MiB 0 B" --reserve=600MiB /bin/sh -c "$claims"
check "claim_within_a_claim_adds_to_it" claimed "$user weir GPU-[0-9a-f]* 600 MiB 0 B
$user sh GPU-[0-9a-f]* 424 MiB 0 B" --reserve=600MiB "$weir" run --gpu=sim --reserve=424MiB sh -c "$claims"
check "other_device_has_claims_of_its_own" claimed "$user weir GPU-[0-9a-f]* 600 MiB 0 B
$user sh GPU-[0-9a-f]* 600 MiB 0 B" --reserve=600MiB "$weir" run --gpu=sim --device=1 --reserve=600MiB sh -c "$claims"
nothing_left() {
    exits 0 ps && says_not "$out" CLAIM
}
check "claim_ends_with_the_command" nothing_left
check "status_is_the_commands" exits 7 run --gpu=sim --reserve=1MiB sh -c 'exit 7'
without_streams() {
    run --reserve=1MiB sh -c '[ ! -e /proc/self/fd/0 ] && [ ! -e /proc/self/fd/1 ]' <&- >&- 2>"$err"
}
check "claim_becomes_no_standard_stream_that_is_closed" without_streams
check "claim_of_bytes_without_a_unit_is_taken" exits 0 run --gpu=sim --reserve=1048576 --wait=0.5 true

# refused STATUS ARGUMENT…: nothing is run.
refused() {
    exits "$1" run --gpu=sim "$2" "${3:-$2}" sh -c 'echo it ran' && is_empty "$out"
}
full() {
    run --reserve=600MiB sh -c '"$weir" run --gpu=sim --reserve=500MiB sh -c "echo it ran"; echo $?' >"$out" 2>"$err"
    [ "$(cat "$out")" = 75 ] && says "$err" "run: --reserve: device 0 has no room for a claim of 500 MiB" " (sh) claims 600 MiB" "at most 424 MiB"
}
check "claim_without_room_exits_75_and_names_who_claims" full
check "claim_above_the_device_exits_2" refused 2 --reserve=2GiB
check "claim_above_the_device_names_the_most" says "$err" "claim from 1 B to 1 GiB"
check "device_that_is_not_there_exits_2" refused 2 --device=7 --reserve=1MiB
check "device_that_is_not_there_is_told_of" says "$err" "there is no device 7: this machine has 2"
for wrong in x 20GB -1 '' 0 50%; do
    check "reserve_of_'$wrong'_exits_2" refused 2 "--reserve=$wrong"
done
for wrong in x -1s 5h 99999999999s; do
    check "wait_of_'$wrong'_exits_2" refused 2 --reserve=1MiB "--wait=$wrong"
    check "wait_of_'$wrong'_is_told_what_to_write" says "$err" "--wait=$wrong: write seconds, or a number with a unit, as in 60s"
done
check "wait_alone_exits_2" refused 2 --wait=60s
check "wait_alone_is_told_what_it_is_for" says "$err" "--wait is for a claim: give --reserve=SIZE"
check "leave_free_of_the_policy_is_kept" exits 2 run --gpu=sim -p good.yaml --reserve=900MiB true
check "leave_free_of_the_policy_is_named" says "$err" "its leave_free: claim from 1 B to 896 MiB"
policy apart.yaml <<YAML
weir: 1
defaults: { pool: work }
pools: { work: { devices: [0] }, other: { devices: [1], leave_free: 128MiB } }
YAML
check "leave_free_of_another_device_does_not_count" exits 0 run --gpu=sim -p apart.yaml --reserve=1GiB true
check "leave_free_of_the_claims_device_counts" exits 2 run --gpu=sim -p apart.yaml --device=1 --reserve=900MiB true
check "initial_size_of_the_policy_is_not_made_for_the_claim" exits 0 run --gpu=sim -p good.yaml --reserve=896MiB true
keyed() {
    WEIR_CONF='pools.work.leave_free=256MiB' exits 2 run --gpu=sim -p good.yaml --reserve=800MiB true && says "$err" "from 1 B to 768 MiB"
}
check "assignments_of_the_environment_count" keyed
closed() {
    mkdir -p open/weir/control && chmod 0777 open/weir/control && WEIR_CONTROL_DIR=$tap_dir/open exits 2 run --gpu=sim --reserve=1MiB true &&
        says "$err" "claims cannot lie in $tap_dir/open/weir/control, which may be written to by others"
}
check "place_that_others_can_write_to_exits_2" closed

actor=${weir%/tools/weir}/tests/tools/worker
export WEIR_POLICY="$tap_dir/idle.yaml"
policy idle.yaml <<YAML
weir: 1
control: true
defaults: { pool: work }
pools: { work: { backing: arena, cache: off } }
YAML
check "worker_begins" begin idler 3
check "worker_takes_memory" tell idler 3 malloc 800
check "worker_frees_it" tell idler 3 free
check "claim_of_memory_that_is_not_free_exits_75" exits 75 run --gpu=sim --reserve=600MiB true
check "claim_of_memory_that_is_not_free_says_what_to_do" says "$err" "but only 224 MiB free" "Wait longer, as neighbours are asked meanwhile"
check "claim_that_waits_gets_it_from_a_neighbour" exits 0 run --gpu=sim --reserve=600MiB --wait=1m true
check "worker_quits" eval 'echo quit >&3 && bury "$begun"'
unset WEIR_POLICY

# heard: waits until a command says that it runs, and the number of its process.
heard() {
    number=$(timeout 60 head -n 1 there)
}

# Waiting, and who keeps a claim.
mkfifo there
"$weir" run --gpu=sim --reserve=600MiB sh -c 'echo $$ >there; exec sleep 600' 2>/dev/null &
holder=$!
heard
"$weir" run --gpu=sim --reserve=500MiB --wait=1m sh -c 'echo $$ >there; exec sleep 600' 2>/dev/null &
waiter=$!
# shellcheck disable=SC2034 # what weir.sh kills at the end
all="$holder $waiter"
check "claims_are_in_json" exits 0 ps --json
check_json "json_has_who_claims_how_much_of_what" "[(c['program'], c['bytes'], c['gpu'][:4], c['uid'], c['user'], c['pid']) for c in d['claims']] == \
[('sh', 600 << 20, 'GPU-', $(id -u), '$user', $holder)] and d['processes'] == []"
kill -KILL "$holder"
bury "$holder"
heard
check "killed_command_makes_room_for_the_one_that_waits" exits 0 ps
check "the_one_that_waited_has_its_claim" row "$waiter" "$user" sh 'GPU-[0-9a-f]+' '500 MiB' '0 B'
says_one() {
    [ "$(grep -c 'MiB *0 B$' "$out")" -eq 1 ]
}
check "and_the_killed_one_has_none" says_one
kill -KILL "$waiter"
bury "$waiter"
# Until nobody has a claim any more.
gone() {
    for _ in $(seq 2400); do
        exits 0 ps && says_not "$out" CLAIM >/dev/null && return 0
        sleep 0.025
    done
    return 1
}
check "claim_of_the_killed_one_is_gone" gone
kept() {
    run --reserve=600MiB sh -c 'setsid sh -c "echo \$\$ >there; exec sleep 600" >/dev/null 2>&1 &' 2>/dev/null
    heard
    exits 0 ps && row "[0-9]+" "$user" sh 'GPU-[0-9a-f]+' '600 MiB'
}
if command -v setsid >/dev/null; then
    check "claim_lasts_as_long_as_a_process_that_inherited_it" kept
    kill -KILL "$number"
    check "and_no_longer" gone
else
    skip "claim_lasts_as_long_as_a_process_that_inherited_it" "there is no setsid"
fi
done_testing
