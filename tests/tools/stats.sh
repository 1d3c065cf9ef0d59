#!/bin/sh
# SPDX-License-Identifier: MIT
# What a program, `weir ps` and `weir metrics` say of the same figures and quotas: the same names, the same numbers.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
unset WEIR_QUOTA CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_DEVICE_MEMORY_LIMIT CUDA_DEVICE_MEMORY_LIMIT_0
actor=${weir%/tools/weir}/tests/tools/worker
export WEIR_CONTROL_DIR="$tap_dir" XDG_RUNTIME_DIR="$tap_dir/run" WEIR_SIM=memory=512MiB,devices=2 WEIR_POLICY="$tap_dir/policy.yaml"
printf 'weir: 1\ncontrol: true\nrecord: { level: pool }\npools: { main: { release_threshold: 64MiB } }\nstreams: { own: { private: true } }\n' \
    >"$WEIR_POLICY"
mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$tap_dir" || exit 1

# Every member of the three structs has its table in stats_json.c, but for the number of a device, which has another name there.
members() {
    sed -n "/^typedef struct weir_$1_stats {/,/^} weir_$1_stats;/p" "$2" | tr '\n' ' ' | sed 's,^[^{]*{,,; s,/\*[^*]*\(\*[^/*][^*]*\)*\*/,,g' |
        tr ';' '\n' | sed -n 's/^ *\(const char \*\|uint64_t\|int\) *//p' | tr ',' '\n' | sed 's/[ *]//g; s/\[.*//' | sort
}
told() {
    { grep -o "$2([a-z_]*)" "$3" | sed 's/.*(\(.*\))/\1/'; [ "$1" != device ] || echo device; } | grep -v '^member$' | sort
}
complete() {
    members "$1" "$source/include/weir.h" >listed && told "$1" "$2" "$source/lib/stats_json.c" >told && [ -s listed ] && diff listed told
}
case $top_srcdir in /*) source=$top_srcdir ;; *) source=$here/$top_srcdir ;; esac
check "json_has_every_member_of_a_device" complete device DEVICE
check "json_has_every_member_of_a_pool" complete pool POOL
check "json_has_every_member_of_a_tag" complete tag TAG

# agrees FILE: what weir_stats_json() wrote has all that `weir ps --json` prints of the process, which is in $out.
agrees() {
    python3 - "$1" "$out" <<'PYTHON'
import json, sys
own, told = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))["processes"][0]
assert own["version"] == told["version"], (own["version"], told["version"])
for array, ours in (("devices", {"uuid"}), ("pools", set()), ("tags", set())):
    assert len(own[array]) == len(told[array]) > 0, array
    for one, other in zip(own[array], told[array]):
        for name in other.keys() - ours:
            assert one[name] == other[name], (array, name, one[name], other[name])
pools = {(p["device"], p["name"], p["is_private"]): p for p in own["pools"]}
for audit in told["audits"]:
    for name in audit.keys() - {"pool", "device", "is_private"}:
        assert pools[audit["device"], audit["pool"], audit["is_private"]][name] == audit[name], name
PYTHON
}
check_agreement() {
    if have_python; then
        check "$1" agrees "$2"
    else
        skip "$1" "no python3"
    fi
}

check "worker_begins" begin one 3
check "worker_takes_tagged_memory" tell one 3 tag weights
check "and_has_it" tell one 3 malloc 96
check "and_a_pool_of_its_own" tell one 3 private
check "it_writes_its_figures" tell one 3 json own.json
check "process_is_shown_as_json" asks 0 ps --json "$begun"
check_agreement "program_and_command_agree" own.json
check_json "without_a_limit_the_quota_is_the_device" \
    "[(x['quota'], x['quota_from']) for x in d['processes'][0]['devices']] == [(512 << 20, None)] * 2"
check "process_is_shown" asks 0 ps "$begun"
check "no_quota_is_a_dash" row "$begun" 0 "GPU-[0-9a-f]+" "0 B" 0 "0 B" -
check "metrics_are_printed" exits 0 metrics --timeout=60
check "metrics_have_the_device" says "$out" "weir_device_quota_bytes{pid=\"$begun\",weir=\"1\",program=\"worker\",device=\"0\",uuid=\"" \
    ",from=\"\"} 536870912"
echo quit >&3
check "worker_ends" bury "$begun"

export WEIR_QUOTA=50% CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=128M
check "limited_worker_begins" begin limited 3
check "it_takes_tagged_memory" tell limited 3 tag 'odd"name'
check "it_has_it" tell limited 3 malloc 32
check "it_writes_its_figures_too" tell limited 3 json limited.json
check "limited_process_is_shown_as_json" asks 0 ps --json "$begun"
check_agreement "program_and_command_agree_on_its_limits" limited.json
check_json "quota_is_the_least_that_counts" "[(x['quota'], x['quota_from']) for x in d['processes'][0]['devices']] == \
[(256 << 20, 'WEIR_QUOTA'), (128 << 20, 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT')]"
check "limited_process_is_shown" asks 0 ps "$begun"
check "first_device_has_its_quota" row "$begun" 0 "GPU-[0-9a-f]+" "256 MiB [(]WEIR_QUOTA[)]"
check "second_device_has_its_quota" row 1 "GPU-[0-9a-f]+" "128 MiB [(]CUDA_MPS_PINNED_DEVICE_MEM_LIMIT[)]"
check "limited_metrics_are_printed" exits 0 metrics --timeout=60
check "metrics_say_what_counts" says "$out" ',from="WEIR_QUOTA"} 268435456' ',from="CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"} 134217728'
echo quit >&3
check "limited_worker_ends" bury "$begun"
done_testing
