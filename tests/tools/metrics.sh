#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir metrics`, with a process of its own, whose figures are read back and compared with those that `weir ps` shows.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
actor=${weir%/tools/weir}/tests/tools/worker
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=metrics-$$,memory=1GiB" WEIR_POLICY="$tap_dir/policy.yaml"
policy policy.yaml <<'YAML'
weir: 1
control: true
defaults: { pool: main }
pools:
  main: { max_size: 512MiB, release_threshold: 256MiB }
  open: { release_threshold: all, keep: all }
streams: { own: { private: true, pool: open } }
YAML
cd "$tap_dir" || exit 1

# metrics EXPRESSION: holds for m, the series of our process, of which m('name', label='value') is the value of the one with these labels.
cat >read.py <<'PYTHON'
import json, math, re, sys
pid = sys.argv[3]
series, kinds, order = [], {}, []
for line in open(sys.argv[1], encoding="utf-8"):
    head = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)\n", line)
    if head:
        kinds.setdefault(head[2], []).append(head[3] if head[1] == "TYPE" else "help")
        order.append(head[2])
        continue
    at = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)\n', line)
    assert at, "no line of metrics: " + line
    order.append(at[1])
    labels = dict(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', at[2] or ""))
    series.append((at[1], labels, float(at[3])))
def m(name, **labels):
    found = [v for n, l, v in series if n == name and l.get("pid", pid) == pid and all(l.get(k) == x for k, x in labels.items())]
    assert len(found) == 1, "%s %s: %s" % (name, labels, found)
    return found[0]
ps = json.load(open(sys.argv[4]))["processes"][0] if len(sys.argv) > 4 else None
def pools(name, private=False):
    return [p for p in ps["pools"] if p["name"] == name and p["is_private"] == private]
sys.exit(0 if eval(sys.argv[2]) else "not so: %s\n%s" % (sys.argv[2], open(sys.argv[1]).read()))
PYTHON
metrics() {
    python3 read.py "$@"
}
check_metrics() {
    if have_python; then
        check "$1" metrics "$out" "$2" "$worker" figures.json
    else
        skip "$1" "no python3"
    fi
}

check "worker_begins" begin worker 3
worker=$begun
check "worker_takes_memory" tell worker 3 malloc 64
check "worker_takes_more_memory" tell worker 3 malloc 32
check "first_private_pool_is_made" tell worker 3 private
check "second_private_pool_is_made" tell worker 3 private
"$weir" ps --timeout=60 --json "$worker" >figures.json
check "metrics_are_printed" exits 0 metrics --timeout=60
check_metrics "process_is_up" "m('weir_process_up') == 1"
check_metrics "process_is_described" "m('weir_process_info', program='worker', version=ps['version'], uid='$(id -u)') == 1"
check_metrics "process_has_an_age_in_seconds" "m('weir_process_age_seconds', program='worker') * 1000 >= ps['age_ms']"
check_metrics "pool_has_the_figures_of_ps" "all(m('weir_pool_%s_bytes' % k, pool='main', private='false', device='0') == pools('main')[0][k] \
for k in ('live', 'cached', 'slack', 'idle', 'reserved', 'max_size', 'release_threshold', 'keep'))"
check_metrics "pool_has_the_counts_of_ps" "[m('weir_pool_%s' % n, pool='main') for n in \
('live_blocks', 'graph_blocks', 'allocations_total', 'frees_total', 'failures_total', 'cache_hits_total')] == \
[pools('main')[0][k] for k in ('live_blocks', 'graph_blocks', 'mallocs', 'frees', 'failures', 'cache_hits')]"
check_metrics "pool_has_live_bytes" "m('weir_pool_live_bytes', pool='main') == 96 << 20"
check_metrics "pool_has_the_uuid_of_its_device" "m('weir_pool_live_bytes', pool='main', uuid=ps['devices'][0]['uuid']) == 96 << 20"
check_metrics "bounds_that_are_none_are_infinite" "[m('weir_pool_%s_bytes' % k, pool='open', private='false') for k in \
('max_size', 'release_threshold', 'keep')] == [math.inf] * 3"
check_metrics "private_pools_are_one_series" "len(pools('open', True)) == 2 and m('weir_pool_live_bytes', pool='open', private='true') == 0 \
and m('weir_pool_max_size_bytes', pool='open', private='true') == math.inf"
check_metrics "device_has_the_figures_of_ps" "all(m('weir_device_%s_total' % n, device='0') == ps['devices'][0][k] for n, k in \
(('recoveries', 'recoveries'), ('asks_sent', 'asks_sent'), ('got_bytes', 'bytes_got'), ('asks_received', 'asks_received'), ('given_bytes', 'bytes_given')))"
check_metrics "rescues_have_their_rung" "{r: m('weir_device_rescues_total', rung=r) for r in ps['devices'][0]['rescues']} == ps['devices'][0]['rescues']"
check_metrics "gpu_is_told_of_once" "m('weir_gpu_memory_bytes', uuid=ps['devices'][0]['uuid']) == ps['devices'][0]['memory'] == 1 << 30"
check_metrics "no_series_comes_twice" "len({(n, tuple(sorted(l.items()))) for n, l, v in series}) == len(series)"
check_metrics "every_family_has_help_and_type_once" "all(sorted(k) in (['gauge', 'help'], ['counter', 'help']) for k in kinds.values()) and \
{n for n, l, v in series} == set(kinds)"
check_metrics "families_are_contiguous" "len([1 for a, b in zip(order, order[1:]) if a != b]) + 1 == len(kinds)"
check_metrics "counters_end_in_total" "all(('counter' in k) == n.endswith('_total') for n, k in kinds.items())"
check_metrics "no_value_is_nan" "not any(math.isnan(v) for n, l, v in series)"
check_metrics "collection_is_dated" "m('weir_last_collect_timestamp_seconds') > 1.6e9"
check_metrics "collection_is_a_success_if_all_answered" "m('weir_last_collect_success') == min(v for n, l, v in series if n == 'weir_process_up')"
if command -v promtool >/dev/null 2>&1; then
    by_promtool() {
        promtool check metrics <"$out"
    }
    check "promtool_has_nothing_to_say" by_promtool
else
    skip "promtool_has_nothing_to_say" "no promtool"
fi

# Into a file.
echo "what was there" >weir.prom
chmod 0600 weir.prom
check "metrics_are_written" exits 0 metrics --timeout=60 --output=weir.prom
check "nothing_is_printed_then" is_empty "$out"
check "file_has_them" says weir.prom "weir_process_up{pid=\"$worker\",weir=\"1\"} 1"
check "file_has_nothing_else" says_not weir.prom "what was there"
readable() {
    [ "$(stat -c %a weir.prom)" = 644 ]
}
check "others_may_read_the_file" readable
alone() {
    [ "$(find . -name 'weir.prom*' | wc -l)" -eq 1 ]
}
check "no_other_file_is_left" alone
check "unwritable_file_exits_2" exits 2 metrics --output="$tap_dir/nowhere/weir.prom"
check "unwritable_file_is_reported" says "$err" "$tap_dir/nowhere/weir.prom cannot be written"
mkdir folder.prom
check "directory_in_its_place_exits_2" exits 2 metrics --output=folder.prom
no_rest() {
    [ "$(find . -name 'folder.prom*' | wc -l)" -eq 1 ]
}
check "nothing_is_left_beside_it" no_rest

# A process that does not answer.
check "worker_is_stopped" stop "$worker"
check "stopped_process_exits_2" exits 2 metrics --timeout=0.2
check_metrics "stopped_process_is_down" "m('weir_process_up') == 0 and m('weir_last_collect_success') == 0"
check_metrics "stopped_process_has_no_figures" "not [1 for n, l, v in series if l.get('pid') == pid and n != 'weir_process_up']"
kill -CONT "$worker"
eval "echo quit >&3"
check "worker_ends" wait "$worker"
check "metrics_without_it_are_printed" exits 0 metrics --timeout=60
check_metrics "ended_process_has_no_series" "not [1 for n, l, v in series if l.get('pid') == pid]"
done_testing
