#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir devices`, on simulated machines.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"

# on SETTINGS STATUS ARGUMENT…: exits() on a simulated machine.
on() {
    settings=$1
    shift
    WEIR_SIM=$settings exits "$@"
}

check "one_device_is_shown" on memory=8GiB 0 devices
check "device_has_name_uuid_and_memory" says "$out" "Device 0:" "GPU-" "8 GiB of memory, 8 GiB free"
check "simulator_is_called_so" says "$out" "The simulator (WEIR_GPU=sim)"
check "missing_feature_has_a_reason" says "$out" "no: the simulator has no fabric handles"
check "one_device_has_no_peers" says_not "$out" "Peers"

check "three_devices_are_shown" on devices=3,peers=0-1 0 devices
check "each_device_has_a_heading" says "$out" "Device 0:" "Device 1:" "Device 2:"
matrix() {
    tr -s ' ' <"$out" | grep -q -x " 0 - yes no" && tr -s ' ' <"$out" | grep -q -x " 2 no no -"
}
check "peers_are_a_matrix" matrix

check "old_driver_is_shown" on driver=11.2 0 devices
check "old_driver_is_the_reason_for_what_is_missing" says "$out" "driver 11.2" "no: "

check "no_device_exits_1" on devices=0 1 devices
check "no_device_of_the_simulator_names_its_variable" says "$err" "WEIR_SIM says which devices the simulator has"
check "no_device_prints_nothing_on_stdout" is_empty "$out"
unknown_gpu() {
    WEIR_GPU=vulkan exits 1 devices
}
check "unknown_gpu_exits_1" unknown_gpu

option_wins() {
    WEIR_GPU=vulkan exits 0 devices --gpu=sim
}
check "option_wins_over_the_variable" option_wins
check "failing_driver_call_exits_1" on fail=device_info:1:999 1 devices
check "failing_driver_call_is_named" says "$err" "cannot read device 0" "cudaErrorUnknown"

check "json_is_printed" on devices=2,peers=all 0 devices --json
check_json "json_has_each_device" '[x["device"] for x in d["devices"]] == [0, 1] and d["gpu"] == "sim"'
check_json "json_has_the_peers" '[x["reachable_from"] for x in d["devices"]] == [[1], [0]]'
check_json "json_has_a_reason_for_each_missing_feature" \
    'all(f["supported"] == (f["why_not"] is None) for x in d["devices"] for f in x["features"])'
check "json_without_a_device_exits_1" on devices=0 1 devices --json
check "json_without_a_device_is_all_that_is_said" is_empty "$err"
check_json "json_without_a_device_has_the_reason" '"WEIR_SIM" in d["errors"][0]["message"] and d["status"] == 1'
done_testing
