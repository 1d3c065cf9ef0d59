#!/bin/sh
# SPDX-License-Identifier: MIT
# Rank, job and pod of processes in `weir ps` and `weir metrics`, whatever their environment says.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
unset RANK LOCAL_RANK SLURM_PROCID SLURM_LOCALID SLURM_JOB_ID OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK TORCHELASTIC_RUN_ID POD_NAME \
    KUBERNETES_SERVICE_HOST
actor=${weir%/tools/weir}/tests/tools/worker
export WEIR_CONTROL_DIR="$tap_dir" XDG_RUNTIME_DIR="$tap_dir/run" WEIR_SIM=memory=256MiB WEIR_POLICY="$tap_dir/policy.yaml" HOSTNAME=host
printf 'weir: 1\ncontrol: true\npools: { main: {} }\n' >"$WEIR_POLICY"
mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$tap_dir" || exit 1

# as NAME ASSIGNMENT…: a worker with that environment, the only one; its number is $begun.
as() {
    name=$1
    shift
    printf '#!/bin/sh\nexec env "$@" "%s"\n' "$actor" >"$name.sh" && chmod +x "$name.sh"
    former=$actor actor=./$name.sh
    begin "$name" 3 "$@"
    status=$?
    actor=$former
    return $status
}
# ends: the worker does.
ends() {
    echo quit >&3 && bury "$begun"
}

check "plain_process_begins" begin plain 3
check "plain_process_is_shown" asks 0 ps
check "plain_process_has_no_line_of_a_job" says_not "$out" "LOCAL RANK"
check "plain_process_in_json_is_printed" asks 0 ps --json
check_json "its_labels_are_null" "d['processes'][0]['labels'] == {'rank': None, 'local_rank': None, 'job': None, 'pod': None}"
check "plain_process_ends" ends

check "rank_begins" as torchrun RANK=13 LOCAL_RANK=5 SLURM_PROCID=1 SLURM_LOCALID=2 TORCHELASTIC_RUN_ID=none
check "rank_is_shown" asks 0 ps
check "rank_has_its_line" row "$begun" 13 5 - -
check "list_of_processes_is_as_before" asks 0 ps --list=pids
check "nothing_else_is_in_it" test "$(cat "$out")" = "$begun"
check "rank_ends" ends

check "task_of_slurm_begins" as slurm SLURM_PROCID=7 SLURM_LOCALID=3 SLURM_JOB_ID=4242 TORCHELASTIC_RUN_ID=other
check "task_of_slurm_is_shown" asks 0 ps
check "task_of_slurm_has_its_line" row "$begun" 7 3 4242 -
check "metrics_are_printed" exits 0 metrics --timeout=60
check "metrics_have_its_labels" says "$out" ',rank="7",local_rank="3",job="4242"} 1'
check "no_other_series_has_them" test "$(grep -c 'job=' "$out")" -eq 1
check "task_of_slurm_ends" ends

check "pod_begins" as pod KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=trainer-0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0
check "pod_in_json_is_printed" asks 0 ps --json
check_json "pod_is_its_host" "d['processes'][0]['labels'] == {'rank': '0', 'local_rank': '0', 'job': None, 'pod': 'trainer-0'}"
check "pod_ends" ends
check "named_pod_begins" as named KUBERNETES_SERVICE_HOST=10.0.0.1 POD_NAME=trainer-abc-1 TORCHELASTIC_RUN_ID=run-9
check "named_pod_is_shown" asks 0 ps
check "named_pod_has_its_line" row "$begun" - - run-9 trainer-abc-1
check "named_pod_ends" ends

# Whatever stands there reaches neither a terminal, nor another line, nor another label.
nasty=$(printf 'a\033[31m"b\\c\nd e\302\205f\377')
long=$(printf '%050000d%s' 0 the-end)
check "hostile_process_begins" as hostile "RANK=$nasty" "LOCAL_RANK=-1" "SLURM_JOB_ID=$(printf '%070d%s' 0 the-end)" "POD_NAME=$long"
check "hostile_process_is_shown" asks 0 ps
check "hostile_labels_are_cleaned" row "$begun" 'a[?][[]31m"b\\c[?]d[?]e[?][?]f[?]' -1 '[0-9]*the-end' '[0-9]*the-end'
check "lines_are_short_all_the_same" awk 'length > 300 { exit 1 }' "$out"
clean() {
    ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177-\377]')" "$out"
}
check "nothing_but_text_is_printed" clean
check "hostile_process_in_metrics_is_printed" exits 0 metrics --timeout=60
check "hostile_labels_are_escaped" says "$out" ',rank="a?[31m\"b\\x5cc?d?e??f?",local_rank="-1",job="'
check "metrics_are_text" clean
check "hostile_process_in_json_is_printed" asks 0 ps --json
check_json "longest_labels_have_63_characters" "[len(d['processes'][0]['labels'][k]) for k in ('job', 'pod')] == [63, 63]"
check "hostile_process_ends" ends
done_testing
