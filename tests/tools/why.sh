#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir trace why`: what it says of requests that were refused on the simulator, and which changes of the policy it finds for them.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped" WEIR_SIM=memory=1GiB
mkdir "$WEIR_COSTS_DIR"
unset WEIR_CONF
cd "$top_builddir" || exit 1
refused=$PWD/tests/tools/refused
cd "$here" || exit 1

# record FILE LEVEL KEYS ARGUMENT…: a trace of a program whose request is refused, with those keys of its pool.
record() {
    file=$tap_dir/$1 level=$2
    printf 'weir: 1\npools: { main: { %s } }\n' "$3" >"$tap_dir/policy.yaml"
    shift 3
    WEIR_POLICY="$tap_dir/policy.yaml" "$weir" record -o "$file" --level "$level" -- "$refused" "$@"
}

# Its cap refuses it.
check "request_above_the_cap_is_recorded" record cap.weir all "small_below: 0, max_size: 256MiB" 192 8 0 128 20
check "why_of_it_exits_0" exits 0 trace why "$tap_dir/cap.weir"
check "cap_is_said_with_what_it_lacks" says "$out" \
    "max_size, 256 MiB, is 64 MiB below what was needed: 192 MiB were live in the pool, 192 MiB of them tag 'weights', and 128 MiB were asked."
check "holders_are_shown" says "$out" "TAG" "weights  192 MiB"
check "change_is_shown_beside_the_recorded_policy" says "$out" "(none: refused)" "max_size: 320MiB"
cp "$out" "$tap_dir/first"
check "why_exits_0_again" exits 0 trace why "$tap_dir/cap.weir"
check "same_trace_gives_the_same_answer" cmp "$out" "$tap_dir/first"
check "document_of_it_exits_0" exits 0 trace why --json "$tap_dir/cap.weir"
check_json "least_cap_that_serves_is_found" \
    "[c['change'] for c in d['files'][0]['changes']] == ['max_size: 320MiB'] and d['files'][0]['can_judge'] and not d['files'][0]['guesses']"
check_json "assignment_is_as_in_the_environment" "d['files'][0]['changes'][0]['assignments'] == 'pools.main.max_size=320MiB'"
check_json "costs_of_the_change_are_there" \
    "d['files'][0]['changes'][0]['peak_reserved'] == 320 << 20 and d['files'][0]['changes'][0]['stall'] > d['files'][0]['recorded']['stall'] > 0"
check_json "refusal_has_its_figures" \
    "d['files'][0]['refusal']['asked'] == 128 << 20 and d['files'][0]['refusal']['at_cap'] and d['files'][0]['refusal']['pool_live'] == 192 << 20"
check_json "nothing_behind_the_refusal_is_replayed" "d['files'][0]['recorded']['requests'] == 1"

# The recorded change is tried on the program itself.
WEIR_CONF=pools.main.max_size=320MiB
export WEIR_CONF
served() {
    ! WEIR_POLICY="$tap_dir/policy.yaml" "$refused" 192 8 0 128
}
check "change_serves_the_program_itself" served
unset WEIR_CONF

# The answer stands before the list of holders.
answer_is_first() {
    answer=$(grep -n "would have served it, the cheapest" "$tap_dir/first" | cut -d: -f1)
    list=$(grep -n "held by the pools" "$tap_dir/first" | cut -d: -f1)
    [ "$answer" -lt "$list" ]
}
check "answer_stands_before_the_list" answer_is_first

# What its pool is to leave free refuses it, on a device that has room.
check "request_at_leave_free_is_recorded" record leave.weir all "small_below: 0, leave_free: 256MiB" 640 8 0 256 20
check "why_of_it_exits_0" exits 0 trace why "$tap_dir/leave.weir"
check "leave_free_is_said" says "$out" "beside its leave_free" "The pool's leave_free, 256 MiB of the device, had to stay free."
check "document_of_it_exits_0" exits 0 trace why --json "$tap_dir/leave.weir"
check_json "change_of_leave_free_serves" \
    "[c['change'] for c in d['files'][0]['changes']] == ['leave_free: none'] and d['files'][0]['refusal']['leave_free'] == 256 << 20"

# Under each policy that is shipped, at a cap and on a full device; a pool holds what is live in it, and no more than its cap and a step.
shipped() {
    shipped_policy=$1 keys=$2 file_of_it=$3
    shift 3
    WEIR_SIM=memory=4GiB WEIR_POLICY=$shipped_policy WEIR_CONF=$keys "$weir" record -o "$file_of_it" --level all -- "$refused" "$@" &&
        exits 0 trace why --json "$file_of_it" && { ! have_python || json "$answers"; }
}
answers="(lambda f, r: f['can_judge'] and r['at_cap'] == (r['max_size'] > 0)
    and (f['changes'] != []) == (r['at_cap'] or r['device_live'] + r['asked'] < r['memory'])
    and r['pool_live'] <= r['pool_reserved'] <= (r['max_size'] + (32 << 20) if r['at_cap'] else r['memory'])
)(d['files'][0], d['files'][0]['refusal'])"
count=0
for file in "${top_srcdir:-.}"/config/*.yaml; do
    grep -q '^pools:' "$file" || continue
    name=$(basename "$file" .yaml)
    pool=$(sed -n 's/^  pool: //p' "$file")
    [ -n "$pool" ] || pool=$(sed -n '/^pools:/,$s/^  \([a-z]*\):$/\1/p' "$file" | head -n 1)
    case $file in /*) ;; *) file=$here/$file ;; esac
    cap="0 30 24 640" full="2400 30 24 1200"
    ! grep -q 'backing: auto' "$file" || { cap="900 0 0 200" full="3800 0 0 512"; } # an arena has no gaps
    # shellcheck disable=SC2086 # the arguments of a program
    check "why_answers_under_${name}_at_a_cap" shipped "$file" "pools.$pool.max_size=1GiB" "$tap_dir/$name-cap.weir" $cap
    # shellcheck disable=SC2086
    check "why_answers_under_${name}_on_a_full_device" shipped "$file" "pools.$pool.max_size=none" "$tap_dir/$name-full.weir" $full
    count=$((count + 1))
done
check "all_shipped_policies_are_tried" test "$count" -ge 7

# Blocks of 1 MiB pin the steps of 32 MiB that they share with what was freed.
check "request_that_fragmentation_refuses_is_recorded" record gaps.weir all "small_below: 0" 0 30 24 640 3000
check "why_of_that_exits_0" exits 0 trace why "$tap_dir/gaps.weir"
check "it_is_no_want_of_memory" says "$out" "24 MiB were live: with 640 MiB more that is within the 1 GiB of the device"
check "document_of_that_exits_0" exits 0 trace why --json "$tap_dir/gaps.weir"
check_json "a_twin_or_an_arena_would_have_served_it" \
    "{c['change'] for c in d['files'][0]['changes']} == {'backing: arena', 'small_below: 4MiB'} and not d['files'][0]['failed']"
check_json "the_cheapest_comes_first" "(lambda a: a == sorted(a))([c['gib_seconds'] for c in d['files'][0]['changes']])"

# Where one pool of the device can have no twin, the other can.
two() {
    printf 'weir: 1\ndefaults: { pool: main }\npools: { main: { small_below: 0 }, shared: { ipc: posix_fd } }\n' >"$tap_dir/policy.yaml"
    WEIR_POLICY="$tap_dir/policy.yaml" "$weir" record -o "$tap_dir/two.weir" --level all -- "$refused" 0 30 24 640 0 0 0 shared &&
        exits 0 trace why --json "$tap_dir/two.weir"
}
if have_python; then
    check "request_beside_a_pool_that_is_shared_is_explained" two
    check "change_of_one_pool_alone_is_found" json \
        "[c['assignments'] for c in d['files'][0]['changes'] if c['change'] == 'small_below: 4MiB, of main alone'] == ['pools.main.small_below=4MiB']"
    check "change_that_a_pool_cannot_have_failed" json "[f for f in d['files'][0]['failed'] if f['change'] == 'small_below: 4MiB'] != []"
fi

# More than the device has.
check "request_that_nothing_can_serve_is_recorded" record full.weir all "" 900 0 0 512 20
check "why_of_what_nothing_serves_exits_0" exits 0 trace why "$tap_dir/full.weir"
check "it_says_that_no_policy_could" says "$out" "so no policy could have served this from it" "No policy that was tried would have served it"
check_full() {
    exits 0 trace why --json "$tap_dir/full.weir" && json "d['files'][0]['changes'] == [] and d['files'][0]['tried'] > 15"
}
if have_python; then check "several_keys_are_tried_then" check_full; fi

# A pool that sleeps has nothing of the device.
asleep() {
    printf 'weir: 1\ndefaults: { pool: main }\npools: { main: { backing: arena }, sleeper: { backing: arena } }\n' >"$tap_dir/policy.yaml"
    WEIR_POLICY="$tap_dir/policy.yaml" "$weir" record -o "$tap_dir/asleep.weir" --level all -- "$refused" 640 0 0 512 0 0 0 sleeper 512 &&
        exits 1 trace why "$tap_dir/asleep.weir"
}
check "request_beside_a_pool_that_sleeps_is_explained" asleep
check "what_sleeps_is_not_counted" says "$out" "640 MiB were live" "with 512 MiB more that is 128 MiB above all that the device has" \
    "The pools of the device held 640 MiB." "cannot be judged: a pool was asleep then"
check "summary_of_it_exits_0" exits 0 trace summary --json "$tap_dir/asleep.weir"
check_json "pools_never_held_more_than_the_device" "d['files'][0]['held_peak'] <= 1 << 30"

# What it was to leave free since a reload is not in the trace.
reloaded() {
    printf 'weir: 1\npools: { main: { small_below: 0, leave_free: 700MiB }, other: {} }\ndefaults: { pool: main }\n' >"$tap_dir/reloaded.yaml"
    printf 'weir: 1\npools: { main: { small_below: 0 }, other: {} }\ndefaults: { pool: main }\n' >"$tap_dir/policy.yaml"
    WEIR_POLICY="$tap_dir/policy.yaml" "$weir" record -o "$tap_dir/reloaded.weir" --level all -- \
        "$refused" 192 0 0 192 0 0 0 other 0 "$tap_dir/reloaded.yaml" && exits 1 trace why "$tap_dir/reloaded.weir"
}
check "request_behind_a_reload_is_explained" reloaded
check "it_says_that_the_settings_changed" says "$out" "it may have had to leave more free; the trace does not tell." \
    "cannot be judged: the settings of the pool had changed"

# Incomplete traces.
size=$(wc -c <"$tap_dir/gaps.weir")
head -c "$((size - 1))" "$tap_dir/gaps.weir" >"$tap_dir/cut.weir"
check "why_of_a_cut_trace_exits_0" exits 0 trace why "$tap_dir/cut.weir"
check "answer_for_a_cut_trace_is_a_guess" says "$out" "backing: arena" "This is a guess: parts of the file are lost"
check "trace_of_level_pool_is_recorded" record pool.weir pool "small_below: 0" 0 30 24 640
check "why_of_level_pool_exits_0" exits 0 trace why "$tap_dir/pool.weir"
check "answer_for_level_pool_is_a_guess" says "$out" "This is a guess: the trace has level 'pool'"
head -c 400 "$tap_dir/gaps.weir" >"$tap_dir/short.weir"
check "trace_that_was_cut_before_its_refusal_exits_1" exits 1 trace why "$tap_dir/short.weir"
check "it_says_that_there_is_none" says "$err" "no request in it failed for want of memory"
dump() {
    printf 'weir: 1\nrecord: { dump: "%s" }\npools: { main: { small_below: 0 } }\n' "$tap_dir/dumps" >"$tap_dir/policy.yaml"
    mkdir "$tap_dir/dumps" && WEIR_POLICY="$tap_dir/policy.yaml" "$refused" 32 30 8 900 2>"$err" && mv "$tap_dir"/dumps/*.weir "$tap_dir/dump.weir"
}
check "dump_is_written" dump
check "why_of_a_dump_exits_1" exits 1 trace why "$tap_dir/dump.weir"
check "it_shows_who_had_memory" says "$out" "40 MiB were live, 32 MiB of them tag 'weights'"
check "it_says_what_the_file_lacks" says "$out" "cannot be judged: the file has only the last events before the request"

# What no trace has: memory of others, and work of the GPU.
check "program_beside_others_is_recorded" record others.weir all "small_below: 0" 64 30 12 480 0 256
check "why_of_it_beside_others_exits_0" exits 0 trace why "$tap_dir/others.weir"
check "others_are_told_of" says "$out" "of the device were in none of these pools: other processes had them, CUDA, or this program by other ways." \
    "This is a guess: what others had of the device is not in the trace: the replays have" "backing: arena"
check "request_behind_work_is_recorded" \
    record busy.weir all "small_below: 4MiB, cache: off, reuse: { internal_dependencies: false }, on_oom: { steps: [] }" 0 30 24 640 0 0 900
check "why_of_it_behind_work_exits_1" exits 1 trace why "$tap_dir/busy.weir"
check "what_the_replay_serves_is_not_judged" says "$out" "cannot be judged: under the policy that was recorded the replay serves the request"
check "document_of_that_exits_1" exits 1 trace why --json "$tap_dir/busy.weir"
check_json "document_says_why_not" "not d['files'][0]['can_judge'] and 'serves the request' in d['files'][0]['why_not']"

# Moments.
check "refusal_behind_a_mark_is_found" exits 0 trace why --at=asks "$tap_dir/cap.weir"
check "refusal_near_a_time_is_found" exits 0 trace why --at=3s "$tap_dir/cap.weir"
check "mark_that_is_not_there_exits_1" exits 1 trace why --at=nowhere "$tap_dir/cap.weir"
check "it_is_answered_with_the_remedy" says "$err" "weir trace summary' lists the marks"
check "file_that_is_none_exits_2" exits 2 trace why "$tap_dir/policy.yaml"
done_testing
