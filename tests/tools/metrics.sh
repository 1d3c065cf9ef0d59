#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir metrics`, with a process of its own, whose figures are read back and compared with those that `weir ps` shows, an exporter, and the
# dashboard in config/, which has all of that and nothing else.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
actor=${weir%/tools/weir}/tests/tools/worker
dashboard=$(cd "${top_srcdir:-.}" && pwd -P)/config/grafana.json
export WEIR_CONTROL_DIR="$tap_dir" XDG_RUNTIME_DIR="$tap_dir/run" WEIR_SIM="name=metrics-$$,memory=1GiB" WEIR_POLICY="$tap_dir/policy.yaml"
policy policy.yaml <<'YAML'
weir: 1
control: true
keeper: true
defaults: { pool: main }
pools:
  main: { max_size: 512MiB, release_threshold: 256MiB }
  open: { release_threshold: all, keep: all }
  swing: { release_threshold: auto }
streams: { own: { private: true, pool: open } }
YAML
# The exporter is no process that `weir ps` shows.
policy exporter.yaml <<'YAML'
weir: 1
defaults: { pool: work }
pools:
  work: {}
  frames: { devices: [0], ipc: posix_fd, share: { socket: frames } }
YAML
mkdir -m 700 "$XDG_RUNTIME_DIR"
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
    at = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)\n', line)
    assert at, "no line of metrics: " + line
    order.append(at[1])
    labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', at[2] or ""))
    series.append((at[1], labels, float(at[3])))
def m(name, **labels):
    found = [v for n, l, v in series if n == name and l.get("pid", pid) == pid and all(l.get(k) == x for k, x in labels.items())]
    assert len(found) == 1, "%s %s: %s" % (name, labels, found)
    return found[0]
dashboard = json.load(open(sys.argv[5], encoding="utf-8")) if len(sys.argv) > 5 else None
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
check "worker_names_what_it_takes" tell worker 3 tag kv-cache
check "worker_takes_more_memory" tell worker 3 malloc 32
check "worker_names_no_more" tell worker 3 untag
check "first_private_pool_is_made" tell worker 3 private
check "second_private_pool_is_made" tell worker 3 private
"$weir" ps --timeout=60 --json "$worker" >figures.json
check "metrics_are_printed" exits 0 metrics --timeout=60
check_metrics "process_is_up" "m('weir_process_up') == 1"
check_metrics "process_is_described" "m('weir_process_info', program='worker', version=ps['version'], uid='$(id -u)') == 1"
check_metrics "process_has_an_age_in_seconds" "m('weir_process_age_seconds', program='worker') * 1000 >= ps['age_ms']"
check_metrics "pool_has_the_figures_of_ps" "all(m('weir_pool_%s_bytes' % k, pool='main', private='false', device='0') == \
pools('main')[0][k] for k in ('live', 'cached', 'slack', 'idle', 'reserved', 'max_size', 'release_threshold', 'keep'))"
check_metrics "pool_has_the_counts_of_ps" "[m('weir_pool_%s' % n, pool='main') for n in \
('live_blocks', 'graph_blocks', 'allocations_total', 'frees_total', 'failures_total', 'cache_hits_total')] == \
[pools('main')[0][k] for k in ('live_blocks', 'graph_blocks', 'mallocs', 'frees', 'failures', 'cache_hits')]"
check_metrics "pool_has_live_bytes" "m('weir_pool_live_bytes', pool='main') == 96 << 20"
check_metrics "pool_has_the_uuid_of_its_device" "m('weir_pool_live_bytes', pool='main', uuid=ps['devices'][0]['uuid']) == 96 << 20"
check_metrics "bounds_that_are_none_are_infinite" "[m('weir_pool_%s_bytes' % k, pool='open', private='false') for k in \
('max_size', 'release_threshold', 'keep')] == [math.inf] * 3"
check_metrics "private_pools_are_one_series" "len(pools('open', True)) == 2 and \
m('weir_pool_live_bytes', pool='open', private='true') == 0 and m('weir_pool_max_size_bytes', pool='open', private='true') == math.inf"
check_metrics "tag_has_the_figures_of_ps" "[m('weir_tag_%s' % n, tag='kv-cache', program='worker') for n in \
('live_bytes', 'live_peak_bytes', 'live_blocks')] == [32 << 20, 32 << 20, 1] and ps['tags'] == \
[{'name': 'kv-cache', 'live': 32 << 20, 'live_high': 32 << 20, 'live_blocks': 1}]"
check_metrics "automatic_threshold_has_the_audit_of_ps" "[m('weir_pool_%s_total' % n, pool='swing', private='false', device='0') for n in \
('kept_used_bytes', 'kept_used_seconds', 'kept_unused_bytes', 'kept_unused_seconds', 'given_missed_bytes', 'given_missed_seconds')] == \
[0] * 6 and ps['audits'] == \
[{'device': 0, 'pool': 'swing', 'is_private': False, 'is_auto': True, 'kept_used': 0, 'kept_used_ms': 0, \
'kept_unused': 0, 'kept_unused_ms': 0, 'given_missed': 0, 'given_missed_ms': 0}]"
check_metrics "pool_of_a_fixed_threshold_has_no_audit" "not [1 for n, l, v in series if 'kept_' in n and l['pool'] == 'main']"
check_metrics "device_has_the_figures_of_ps" "all(m('weir_device_%s_total' % n, device='0') == ps['devices'][0][k] for n, k in \
(('recoveries', 'recoveries'), ('asks_sent', 'asks_sent'), \
('got_bytes', 'bytes_got'), ('asks_received', 'asks_received'), ('given_bytes', 'bytes_given')))"
check_metrics "rescues_have_their_rung" "{r: m('weir_device_rescues_total', rung=r) for r in ps['devices'][0]['rescues']} == \
ps['devices'][0]['rescues']"
check_metrics "gpu_is_told_of_once" "m('weir_gpu_memory_bytes', uuid=ps['devices'][0]['uuid']) == ps['devices'][0]['memory'] == 1 << 30"
check_metrics "no_series_comes_twice" "len({(n, tuple(sorted(l.items()))) for n, l, v in series}) == len(series)"
check_metrics "every_family_has_help_and_type_once" "all(sorted(k) in (['gauge', 'help'], ['counter', 'help']) \
for k in kinds.values()) and {n for n, l, v in series} == set(kinds)"
check_metrics "families_are_contiguous" "len([1 for a, b in zip(order, order[1:]) if a != b]) + 1 == len(kinds)"
check_metrics "counters_end_in_total" "all(('counter' in k) == n.endswith('_total') for n, k in kinds.items())"
check_metrics "no_value_is_nan" "not any(math.isnan(v) for n, l, v in series)"
check_metrics "collection_is_dated" "m('weir_last_collect_timestamp_seconds') > 1.6e9"
check_metrics "collection_is_a_success_if_all_answered" "m('weir_last_collect_success') == \
min(v for n, l, v in series if n == 'weir_process_up')"
if command -v promtool >/dev/null 2>&1; then
    by_promtool() {
        promtool check metrics <"$out"
    }
    check "promtool_has_nothing_to_say" by_promtool
else
    skip "promtool_has_nothing_to_say" "no promtool"
fi

# An export beside it. A frame that nobody reads is pushed; then there is a reader, which takes the first of two, and no other.
actor=${weir%/tools/weir}/tests/tools/sharing
worker_policy=$WEIR_POLICY
export WEIR_POLICY="$tap_dir/exporter.yaml"
check "exporter_begins" begin exporter 4 exporter
exporter=$begun
check "importer_begins" begin importer 5 importer
check "frame_without_readers_is_pushed" tell exporter 4 push 0
check "importer_subscribes" tell importer 5 subscribe 1
check "second_frame_is_pushed" tell exporter 4 push 0
check "third_frame_is_pushed" tell exporter 4 push 0
check "importer_takes_a_lease" tell importer 5 acquire weights
export WEIR_POLICY="$worker_policy"
check "metrics_with_an_export_are_printed" exits 0 metrics --timeout=60
check_export() {
    if have_python; then
        check "$1" metrics "$out" "$2" "$exporter" figures.json "$dashboard"
    else
        skip "$1" "no python3"
    fi
}
socket=$XDG_RUNTIME_DIR/weir/share/frames
check_export "export_is_up" "m('weir_export_up', socket='$socket') == 1 and m('weir_last_collect_success') == 1"
check_export "export_has_its_labels" "m('weir_export_importers', socket='$socket', pool='frames', uuid=ps['devices'][0]['uuid']) == 1"
check_export "export_has_its_counts" "[m('weir_export_%s' % n) for n in ('frames_pushed_total', 'pushed_bytes_total', \
'frames_dropped_total', 'takes_refused_total', 'hangs_total', 'leases_given_total', 'evictions_total', \
'lag_frames', 'lag_peak_frames', 'leases', 'blocks')] == \
[3, 3 << 16, 0, 0, 0, 2, 0, 2, 2, 2, 4]"
check_export "ring_has_its_counts" "[m('weir_ring_%s' % n, ring='camera', pool='frames') for n in ('frames_pushed_total', \
'pushed_bytes_total', 'leases_given_total', 'lag_frames', 'lag_peak_frames', 'slots', 'slot_bytes', 'taken_slots', 'queued_slots', \
'readers', 'hung_readers')] == \
[3, 3 << 16, 1, 2, 2, 3, 1 << 16, 0, 2, 1, 0]"
check_export "families_with_an_export_are_contiguous" "len([1 for a, b in zip(order, order[1:]) if a != b]) + 1 == len(kinds)"
check_export "no_series_comes_twice_with_an_export" "len({(n, tuple(sorted(l.items()))) for n, l, v in series}) == len(series)"

# What the queries of the dashboard name: weir_ names, with no words of legends and texts.
queried="{n for p in dashboard['panels'] for t in p.get('targets', []) for n in re.findall(r'\bweir_[a-z_]+', t['expr'])}"
offered="{n for v in dashboard['templating']['list'] for n in re.findall(r'\bweir_[a-z_]+', v['query'])}"
check_export "dashboard_queries_what_is_printed_and_all_of_it" "not ($queried ^ set(kinds))"
check_export "dashboard_offers_choices_of_what_is_printed" "$offered and $offered <= set(kinds)"
labels="{l for n, s, v in series for l in s} | {'instance'}"
check_export "dashboard_uses_labels_that_there_are" "{l for p in dashboard['panels'] for t in p.get('targets', []) \
for l in re.findall(r'\{\{(\w+)\}\}', t['legendFormat']) + re.findall(r'[{,](\w+)=~', t['expr'])} <= $labels"
check_export "dashboard_takes_rates_of_counters_alone" "{n for p in dashboard['panels'] for t in p.get('targets', []) \
for n in re.findall(r'(?:rate|increase)\((\w+)', t['expr'])} == {n for n, k in kinds.items() if 'counter' in k}"
check_export "panels_have_numbers_and_places_of_their_own" "len({p['id'] for p in dashboard['panels']}) == \
len({(p['gridPos']['x'], p['gridPos']['y']) for p in dashboard['panels']}) == len(dashboard['panels'])"

check "exporter_is_stopped" stop "$exporter"
check "stopped_exporter_exits_2" exits 2 metrics --timeout=15
check "stopped_exporter_is_reported" says "$err" "$socket: the exporter did not answer in time"
check_export "stopped_export_is_down" "m('weir_export_up', socket='$socket') == 0 and m('weir_last_collect_success') == 0"
check_export "stopped_export_has_no_figures" "not [n for n, l, v in series if l.get('socket') == '$socket' and n != 'weir_export_up']"
check_metrics "other_processes_are_there" "m('weir_process_up') == 1"
kill -CONT "$exporter"
for fd in 5 4; do
    eval "echo quit >&$fd"
done
exporter_ended() {
    bury "$exporter" && [ ! -e "$socket" ]
}
check "exporter_ends" exporter_ended

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
mkfifo pipe.prom
check "pipe_in_its_place_exits_2" exits 2 metrics --output=pipe.prom
check "pipe_in_its_place_is_what_is_wrong" says "$err" "pipe.prom is no regular file, and would be replaced by one: name another file"
check "pipe_is_still_there" test -p pipe.prom
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
