#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir doctor`, on simulated machines, with an environment of its own: what it finds, what it says to do, and its exit status.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
unset LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK WEIR_QUOTA CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_DEVICE_MEMORY_LIMIT \
    CUDA_DEVICE_MEMORY_LIMIT_0 CUDA_DEVICE_MEMORY_LIMIT_1 CUDA_VISIBLE_DEVICES CUDA_MPS_PIPE_DIRECTORY PYTHONPATH VIRTUAL_ENV CONDA_PREFIX \
    WEIR_TORCH_LIBRARY
export WEIR_CONTROL_DIR="$tap_dir/places" XDG_RUNTIME_DIR="$tap_dir/run" CUDA_MPS_PIPE_DIRECTORY="$tap_dir/mps" COLUMNS=100000
mkdir -m 0700 "$WEIR_CONTROL_DIR" "$XDG_RUNTIME_DIR" "$tap_dir/mps" "$tap_dir/home"

# with ASSIGNMENT… -- STATUS ARGUMENT…: exits() of the doctor in that environment.
with() (
    while [ "$1" != -- ]; do
        export "${1?}"
        shift
    done
    wanted=$2
    shift 2
    exits "$wanted" doctor "$@"
)

check "good_machine_exits_0" with WEIR_SIM=memory=8GiB -- 0
check "nothing_is_to_be_repaired" says "$out" "Nothing to repair."
check "driver_is_named_and_called_simulated" says "$out" "note driver: this is the simulator, as if with driver 13.0"
if has_simulator; then
    check "programs_have_the_simulator_too" says_not "$out" "programs cannot use the simulator here"
else
    check "programs_have_no_simulator" says "$out" "programs cannot use the simulator here, as libweir was built without"
fi
check "device_is_named" says "$out" "good device 0: simulated GPU 0, 8 GiB, 8 GiB free, GPU-"
check "whole_device_is_the_quota" says "$out" "good limits: a process may have 8 GiB of device 0 (all of it)"
check "only_device_is_local" says "$out" "devices: local is device 0"
check "policy_is_named" says "$out" "good policy: programs that choose none get built-in"
check "directory_that_is_not_there_yet_is_good" says "$out" "good control $WEIR_CONTROL_DIR/weir: is not there yet"
check "doctor_makes_no_directory" test ! -e "$WEIR_CONTROL_DIR/weir"
check "notes_have_no_bad_ones_among_them" says_not "$out" "BAD"
check "no_operands_are_taken" with -- 2 operand
check "json_is_printed" with -- 0 --json
check_json "json_has_every_topic" "{'driver', 'device', 'rank', 'MPS', 'limits', 'policy', 'control', 'exports'} <= {f['topic'] for f in d['findings']}"
check_json "json_has_members_of_one_form" "all(list(f) == ['topic', 'about', 'state', 'text', 'remedy'] for f in d['findings'])"
check_json "json_counts_what_is_bad" "d['repair'] == 0 and d['status'] == 0 and not [f for f in d['findings'] if f['state'] == 'bad']"

# Driver and devices.
check "no_device_exits_1" with WEIR_SIM=devices=0 -- 1
check "no_device_has_a_remedy" says "$out" "BAD  driver: there is no usable GPU" "To do: WEIR_SIM says which devices the simulator has" "1 thing to repair."
check "unknown_gpu_exits_1" with WEIR_GPU=vulkan -- 1
check "unknown_gpu_is_named" says "$out" "BAD  driver: " "vulkan"
check "option_wins_over_the_variable" with WEIR_GPU=vulkan -- 0 --gpu=sim
check "mig_exits_0" with WEIR_SIM=mig=yes,posix_fd=no -- 0
check "mig_is_explained" says "$out" "note device 0: is an instance of MIG" "ipc: posix_fd is refused"
check "old_driver_exits_0" with WEIR_SIM=driver=11.4,mapping=no -- 0
check "what_it_lacks_is_explained" says "$out" "backing: arena is refused" "as if with driver 11.4"
check "device_without_pools_exits_1" with WEIR_SIM=devices=2,pools=no -- 1
check "device_without_pools_has_a_remedy" says "$out" "BAD  device 1: " "leave it out of the policy's devices"
check "broken_device_exits_1" with WEIR_SIM=fail=device_info:1:999 -- 1
check "broken_device_is_named" says "$out" "BAD  device 0: cannot be asked" "cudaErrorUnknown"
check "json_without_a_device_is_a_document_too" with WEIR_SIM=devices=0 -- 1 --json
check_json "json_says_so" "d['repair'] == 1 and d['status'] == 1 and d['findings'][0]['state'] == 'bad' and d['findings'][0]['remedy']"

# What each device supports, and who reaches whom.
check "one_device_is_shown" with WEIR_SIM=memory=8GiB -- 0
check "missing_feature_has_a_reason" says "$out" "no: the simulator has no fabric handles"
check "one_device_has_no_peers" says_not "$out" "Peers"
check "three_devices_are_shown" with WEIR_SIM=devices=3,peers=0-1 -- 0
headings() {
    [ "$(grep -c -x 'Device [0-2]' "$out")" = 3 ]
}
check "each_device_has_a_heading" headings
matrix() {
    tr -s ' ' <"$out" | grep -q -x " 0 - yes no" && tr -s ' ' <"$out" | grep -q -x " 2 no no -"
}
check "peers_are_a_matrix" matrix
check "device_that_cannot_be_asked_exits_1" with WEIR_SIM=devices=2,peers=all,fail=device_memory:1:999 -- 1
check "it_is_named_with_the_reason" says "$out" "BAD  device 0: cannot be asked" "cudaErrorUnknown"
check "its_peers_are_not_known" grep -q '^ *0  *-  *?$' "$out"
check "devices_are_json" with WEIR_SIM=devices=2,peers=all -- 0 --json
check_json "json_has_each_device" '[x["device"] for x in d["devices"]] == [0, 1] and d["gpu"] == "sim"'
check_json "json_has_name_uuid_and_memory" 'all(x["name"] and x["uuid"] and x["memory"] == x["memory_free"] > 0 for x in d["devices"])'
check_json "json_has_the_peers" '[x["reachable_from"] for x in d["devices"]] == [[1], [0]]'
check_json "json_has_a_reason_for_each_missing_feature" \
    'all(f["supported"] == (f["why_not"] is None) for x in d["devices"] for f in x["features"])'
check "old_driver_is_json" with WEIR_SIM=driver=11.2 -- 0 --json
check_json "json_has_the_driver" 'd["driver"] == "11.2" and d["toolkit"]'
check "no_gpu_is_json" with WEIR_GPU=vulkan -- 1 --json
check_json "no_gpu_has_no_devices" 'd["gpu"] is None and d["driver"] is None and d["devices"] == []'

# Where programs in Python are likely, the last line names what looks at those.
check "python_without_the_plug_in_exits_0" with VIRTUAL_ENV="$tap_dir" -- 0
last_line() {
    tail -n 1 "$out" | grep -q -x "PyTorch and CuPy are looked at by: \(PYTHONPATH=[^ ]* \)\{0,1\}python3 -m weir.doctor"
}
check "last_line_names_the_other_doctor" last_line

# Ranks.
check "rank_is_found" with WEIR_SIM=devices=4 LOCAL_RANK=2 SLURM_LOCALID=3 -- 0
check "rank_is_explained" says "$out" "good rank LOCAL_RANK: is 2: devices: local is device 2"
check "no_rank_among_several_devices_exits_0" with WEIR_SIM=devices=2 -- 0
check "no_rank_among_several_devices_is_a_note" says "$out" "note rank: a pool whose devices say local is refused"
check "rank_that_is_none_exits_1" with WEIR_SIM=devices=2 SLURM_LOCALID=two -- 1
check "rank_that_is_none_is_named" says "$out" "BAD  rank SLURM_LOCALID: " "'two', which is no local rank"
check "rank_above_the_devices_exits_1" with WEIR_SIM=devices=2 LOCAL_RANK=2 -- 1

# Limits.
check "limits_exit_0" with WEIR_SIM=devices=2,memory=8GiB WEIR_QUOTA=4GiB CUDA_DEVICE_MEMORY_LIMIT=3000m CUDA_DEVICE_MEMORY_LIMIT_1=2g \
    CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G -- 0
check "limits_are_explained" says "$out" "limits WEIR_QUOTA: is '4GiB': 4 GiB of device 0, and a lower one counts" \
    "limits CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: is '0=1G': 1 GiB of device 0, which counts" \
    "limits CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: is '0=1G': nothing of it is for device 1" \
    "limits CUDA_DEVICE_MEMORY_LIMIT: is '3000m': nothing of it is for device 1" \
    "may have 1 GiB of device 0 (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT)" "may have 2 GiB of device 1 (CUDA_DEVICE_MEMORY_LIMIT_1)"
check "limit_above_the_device_exits_1" with WEIR_SIM=memory=8GiB WEIR_QUOTA=9GiB -- 1
check "limit_above_the_device_is_named" says "$out" "BAD  limits WEIR_QUOTA: is '9GiB' and ignored on device 0: it is more than the 8 GiB"
hostile() {
    with "WEIR_QUOTA=$(printf 'a\033[31m\nb\302\205c')" -- 1 && ! grep -q "$(printf '\033')" "$out" && says "$out" "'a?[31m?b" && says_not "$out" "$(printf '\302\205')"
}
check "hostile_limit_reaches_no_terminal" hostile
long() {
    with "WEIR_QUOTA=$(printf '%050000d' 7)" -- 1 && [ "$(wc -c <"$out")" -lt 20000 ]
}
check "long_limit_is_cut" long
check "hostile_limit_is_json" with "WEIR_QUOTA=$(printf '"\\\377\001')" -- 1 --json
check_json "and_one_document" "d['repair'] == 1"

# MPS. Its daemon is this shell, or nobody.
check "mps_without_a_daemon_exits_0" with -- 0
check "mps_without_a_daemon_is_a_note" says "$out" "note MPS $tap_dir/mps: is user $(id -un)'s, and no daemon of it can be seen here"
echo $$ >"$tap_dir/mps/nvidia-cuda-mps-control.pid"
check "mps_with_a_daemon_exits_0" with -- 0
check "mps_with_a_daemon_is_explained" says "$out" "its daemon $$ runs for user $(id -un)"
for wrong in -1 0 1 x 99999999999999999999; do
    echo "$wrong" >"$tap_dir/mps/nvidia-cuda-mps-control.pid"
    check "mps_with_the_number_${wrong}_exits_0" with -- 0
    check "mps_with_the_number_${wrong}_has_no_daemon" says "$out" "no daemon of it can be seen here"
done
check "mps_directory_that_is_not_there_exits_0" with CUDA_MPS_PIPE_DIRECTORY=/nonexistent/mps -- 0
check "mps_directory_that_is_not_there_has_a_remedy" says "$out" "note MPS /nonexistent/mps: " "unset CUDA_MPS_PIPE_DIRECTORY"

# Policies.
printf 'weir: 1\npools: { a: { max_sise: 1 }, b: {} }\n' >"$tap_dir/wrong.yaml"
check "bad_policy_exits_1" with WEIR_POLICY="$tap_dir/wrong.yaml" -- 1
check "each_error_of_it_is_found" says "$out" "BAD  policy: $tap_dir/wrong.yaml:2:15: pools.a.max_sise: unknown key" "defaults.pool"
check "policy_that_is_not_there_exits_1" with WEIR_POLICY=/nonexistent/policy.yaml -- 1
check "bad_override_exits_1" with WEIR_CONF=pools.default.max_size=many -- 1

# Sockets.
mkdir -m 0777 "$tap_dir/open" && chmod 0777 "$tap_dir/open" && mkdir -m 0777 "$tap_dir/open/weir" && chmod 0777 "$tap_dir/open/weir"
check "directory_that_others_may_write_to_exits_1" with WEIR_CONTROL_DIR="$tap_dir/open" -- 1
check "it_has_a_remedy" says "$out" "BAD  control $tap_dir/open/weir: " "chmod 0700"
mkdir "$tap_dir/strange" && : >"$tap_dir/strange/weir"
check "directory_that_is_a_file_exits_1" with WEIR_CONTROL_DIR="$tap_dir/strange" -- 1
check "it_is_named" says "$out" "BAD  control $tap_dir/strange/weir: "
deep=$(printf '/%0110d' 1)
check "directory_that_is_too_long_exits_1" with WEIR_CONTROL_DIR="$deep" -- 1
check "it_is_told_so" says "$out" "BAD  control: WEIR_CONTROL_DIR is too long"
actor=${weir%/tools/weir}/tests/tools/worker
export WEIR_SIM="name=doctor-$$,memory=1GiB" WEIR_POLICY="$tap_dir/policy.yaml"
printf 'weir: 1\ncontrol: true\npools: { main: {} }\n' >"$WEIR_POLICY"
cd "$tap_dir" || exit 1
check "worker_begins" begin one 3
one=$begun
check "process_exits_0" with -- 0 --timeout=60
check "process_and_its_user_are_named" says "$out" "good process $one: worker of user $(id -un) answers" \
    "good control $WEIR_CONTROL_DIR/weir/control: is this user's alone"
kill -STOP "$one"
check "stopped_process_exits_1" with -- 1 --timeout=0.2
check "stopped_process_has_a_remedy" says "$out" "BAD  process $one: " "let it run on if it is stopped"
kill -KILL "$one"
bury "$one"
check "killed_process_is_nothing_to_repair" with -- 0 --timeout=60
check "killed_process_is_not_shown" says_not "$out" "process $one"

# Exports.
actor=${weir%/tools/weir}/tests/tools/sharing
printf 'weir: 1\ndefaults: { pool: work }\npools:\n  work: {}\n  frames: { devices: [0], ipc: posix_fd, share: { socket: frames } }\n' >"$WEIR_POLICY"
check "exporter_begins" begin exporter 4 exporter
exporter=$begun
check "export_exits_0" with -- 0 --timeout=60
check "export_and_its_user_are_named" says "$out" "good export $XDG_RUNTIME_DIR/weir/share/frames: process $exporter of user $(id -un) answers"
kill -KILL "$exporter"
bury "$exporter"
check "export_of_a_killed_process_exits_1" with -- 1 --timeout=60
check "export_of_a_killed_process_has_a_remedy" says "$out" "BAD  export $XDG_RUNTIME_DIR/weir/share/frames: nobody listens" "To do: remove it"
rm "$XDG_RUNTIME_DIR/weir/share/frames"
check "nothing_is_left_to_be_repaired" with -- 0

# A pipe that nobody writes into, in the place of a file; others may make one in /tmp/nvidia-mps.
not_kept_waiting() {
    env "$1" timeout 60 "$weir" doctor >"$out" 2>"$err"
    [ $? -ne 124 ]
}
mkdir "$tap_dir/pipes" && mkfifo "$tap_dir/pipes/nvidia-cuda-mps-control.pid"
check "daemon_s_number_that_is_a_pipe_does_not_keep_it_waiting" not_kept_waiting CUDA_MPS_PIPE_DIRECTORY="$tap_dir/pipes"
done_testing
