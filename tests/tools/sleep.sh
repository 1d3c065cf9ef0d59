#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir sleep` and `weir wake`, with processes of their own.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
actor=${weir%/tools/weir}/tests/tools/worker
pool=work-$$
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=sleep-$$,memory=1GiB" WEIR_POLICY="$tap_dir/policy.yaml"
policy policy.yaml <<YAML
weir: 1
control: true
defaults: { pool: $pool }
pools:
  $pool: { backing: arena, cache: off, on_oom: { deadline: 60s } }
  other: { backing: arena }
YAML
cd "$tap_dir" || exit 1

check "worker_begins" begin one 3
one=$begun
check "worker_takes_memory" tell one 3 malloc 256
for name in sleep wake; do
    check "${name}_of_nobody_exits_2" asks 2 $name
    check "${name}_of_an_unknown_process_exits_1" asks 1 $name $$
    check "${name}_of_an_unknown_pool_exits_1" asks 1 $name "$one" --pool=nothing
    check "${name}_of_an_unknown_pool_says_which_there_are" says "$err" "there is no pool 'nothing'; there is $pool"
    check "${name}_of_what_cannot_be_a_name_exits_2" asks 2 $name "$one" "--pool=no name"
    check "${name}_where_nothing_is_yielded_exits_1" asks 1 $name "$one"
    check "${name}_where_nothing_is_yielded_says_what_to_call" says "$err" "has yielded no pool" "weir_pool_yield()"
done
check "pool_in_use_cannot_sleep" asks 1 sleep "$one" --pool="$pool"
check "pool_in_use_is_named" says "$err" "pool '$pool' on device 0 is in use" "weir_pool_yield()"
check "worker_sleeps_by_itself" tell one 3 sleep
check "sleeper_is_printed" asks 0 ps "$one"
check "pool_that_its_program_has_put_to_sleep_is_shown" row "$one" "$pool \\(asleep\\)" "0 B" "256 MiB"
check "pool_that_its_program_has_put_to_sleep_stays_so" asks 1 wake "$one" --pool="$pool"
check "pool_that_its_program_has_put_to_sleep_is_named" says "$err" "pool '$pool' on device 0 was put to sleep by its program"
check "worker_wakes" tell one 3 wake

check "worker_yields" tell one 3 yield
check "yielded_process_is_seen" asks 0 ps "$one"
check "pool_that_is_yielded_is_shown" row "$one" "$pool \\(yielded\\)" "256 MiB" "256 MiB"
check "metrics_are_printed" asks 0 metrics
check "metrics_have_it" says "$out" 'weir_pool_yielded_bytes{' '268435456'
check "it_sleeps" asks 0 sleep "$one"
check "it_is_said_what_it_gave" says "$out" "process $one (worker): gave 256 MiB in "
check "sleeper_is_seen" asks 0 ps "$one"
check "pool_that_sleeps_is_shown" row "$one" "$pool \\(asleep\\)" "0 B" "256 MiB"
check "second_sleep_gives_nothing" asks 0 sleep "$one" --json
check_json "second_sleep_gives_nothing_in_json" "[(p['pid'], p['status'], p['gave_bytes']) for p in d['processes']] == [($one, 'WEIR_OK', 0)] and d['status'] == 0"
check "it_gets_its_memory_back" asks 0 wake "$one" --pool="$pool"
check "it_is_said_that_it_has_it" says "$out" "process $one (worker): has its memory again"
check "waker_is_seen" asks 0 ps "$one"
check "pool_stays_yielded" row "$one" "$pool \\(yielded\\)" "256 MiB" "256 MiB"

# Others on the device.
check "second_worker_begins" begin two 4
check "second_worker_takes_what_is_yielded" tell two 4 malloc 896
check "wake_without_memory_exits_1" asks 1 wake "$one"
check "wake_without_memory_says_what_may_help" says "$err" "pool '$pool' on device 0 sleeps on" "weir trim --all"
check "second_worker_frees_it" tell two 4 free
check "worker_wakes_by_itself" tell one 3 wake
check "worker_takes_more" tell one 3 malloc 64

# Others that are named.
check "worker_yields_what_it_has" tell one 3 yield
for name in sleep wake; do
    check "${name}_of_two_processes_exits_1_where_one_has_yielded_nothing" asks 1 $name "$one" "$begun"
    check "${name}_of_two_processes_says_which_one_has_yielded_nothing" says "$err" "process $begun: this process has yielded no pool"
done
check "worker_wakes_what_it_has" tell one 3 wake

# A second weir has yielded nothing, and is not meant.
check "worker_opens_a_second_weir" tell one 3 open
check "worker_yields_once_more" tell one 3 yield
check "one_of_two_weirs_sleeps" asks 0 sleep "$one"
check "the_other_one_is_passed_over" says "$out" "process $one.1 (worker): gave 320 MiB in "
check "weir_that_is_named_is_not_passed_over" asks 1 sleep "$one.1" "$one.2"
check "weir_that_is_named_is_told_of" says "$err" "process $one.2: this process has yielded no pool"
check "worker_is_woken" tell one 3 wake
done_testing
