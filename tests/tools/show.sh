#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir show`.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"

policy named.yaml <<'YAML'
weir: 1
pools:
  frames:
    max_size: 4GiB
YAML
policy bad.yaml <<'YAML'
weir: 2
YAML
cd "$tap_dir" || exit 1

# row KEY VALUE REST: the table has this row, whatever its blanks.
row() {
    tr -s ' ' <"$out" | grep -q -x -F -e " $1 $2 $3" || {
        echo "no row: $1 | $2 | $3"
        cat "$out"
        return 1
    }
}

check "file_is_shown" exits 0 show named.yaml
check "top_line_says_which_file_and_why" says "$out" "Policy: named.yaml (named on the command line)"
check "value_of_the_file_has_its_line" row pools.frames.max_size 4GiB "live named.yaml:4"
check "value_not_in_the_file_is_a_default" row pools.frames.small_below 1MiB default
check "live_key_is_marked" row pools.frames.on_oom.deadline 1s "live default"
check "caches_that_are_on_show_their_keys" row pools.frames.cache.per_stream 64MiB "live default"

overridden() {
    WEIR_CONF=pools.frames.max_size=2GiB exits 0 show named.yaml
}
check "override_is_applied" overridden
check "overridden_value_names_the_variable" row pools.frames.max_size 2GiB "live \$WEIR_CONF, column 1"
check "overrides_are_shown_on_top" says "$out" "Overrides: WEIR_CONF=pools.frames.max_size=2GiB"

switched_off() {
    WEIR_CONF=pools.frames.cache=off exits 0 show named.yaml
}
check "caches_are_switched_off" switched_off
check "caches_that_are_off_show_that_alone" row pools.frames.cache off "live \$WEIR_CONF, column 1"
check "keys_of_caches_that_are_off_are_not_shown" says_not "$out" cache.per_stream

by_variable() {
    WEIR_POLICY=$tap_dir/named.yaml exits 0 show
}
check "variable_chooses_the_file" by_variable
check "variable_is_named_as_the_reason" says "$out" "named.yaml (named by \$WEIR_POLICY)"

if [ -e /etc/weir/policy.yaml ]; then
    skip "without_any_file_the_built_in_default_is_shown" "this machine has /etc/weir/policy.yaml"
else
    check "without_any_file_the_built_in_default_is_shown" exits 0 show
    check "built_in_default_is_called_so" says "$out" "Policy: the built-in default"
fi
mkdir -p "$XDG_CONFIG_HOME/weir" && cp named.yaml "$XDG_CONFIG_HOME/weir/policy.yaml"
check "file_of_the_search_path_is_shown" exits 0 show
check "search_path_is_named_as_the_reason" says "$out" "weir/policy.yaml (found in the search path)"

check "bad_policy_exits_1" exits 1 show bad.yaml
check "bad_policy_is_explained" says "$err" "bad.yaml:1:7:"
check "missing_policy_exits_2" exits 2 show missing.yaml

from_stdin() {
    "$weir" show - <named.yaml >"$out" 2>"$err"
}
check "dash_reads_standard_input" from_stdin
from_pipe() {
    # shellcheck disable=SC2002 # a pipe is what is asked for
    cat "$1" | "$weir" show /dev/stdin >"$out" 2>"$err"
}
check "pipe_is_read" from_pipe named.yaml
check "pipe_is_named" says "$out" "Policy: /dev/stdin (named on the command line)"
check "value_from_a_pipe_has_its_line" row pools.frames.max_size 4GiB "live /dev/stdin:4"
bad_pipe() {
    ! from_pipe bad.yaml && says "$err" "/dev/stdin:1:7:"
}
check "bad_policy_from_a_pipe_is_explained" bad_pipe
check "directory_exits_2" exits 2 show .

# A quota caps pools that have no max_size, as weir_open() does.
with_quota() {
    WEIR_QUOTA=$1 exits "$2" show quota.yaml
}
policy quota.yaml <<'YAML'
weir: 1
defaults: { pool: free }
pools:
  free: {}
  capped: { max_size: 4GiB }
  none: { max_size: none }
  driver: { backing: default, devices: [0] }
  host: { location: host }
YAML
check "quota_is_shown" with_quota 8GiB 0
check "quota_caps_a_pool_without_max_size" row pools.free.max_size 8GiB "live \$WEIR_QUOTA"
check "quota_caps_no_pool_with_one" row pools.capped.max_size 4GiB "live quota.yaml:5"
check "quota_caps_no_pool_that_does_without" row pools.none.max_size none "live quota.yaml:6"
check "quota_caps_not_the_driver_s_pool" row pools.driver.max_size none "live default"
check "quota_caps_no_host_memory" row pools.host.max_size none "live default"
check "share_as_a_quota_is_shown" with_quota 50% 0
check "share_is_shown_as_it_is" row pools.free.max_size 50% "live \$WEIR_QUOTA"
for wrong in lots 4G 0.9; do
    check "quota_of_${wrong}_exits_1" with_quota "$wrong" 1
    check "quota_of_${wrong}_is_refused_as_in_weir_open" says "$err" "WEIR_QUOTA is '$wrong', which is no limit: write bytes as in 8GiB"
done
hami() {
    CUDA_DEVICE_MEMORY_LIMIT=3000m exits 0 show quota.yaml
}
check "limit_of_hami_is_shown" hami
check "limit_of_hami_caps_a_pool" row pools.free.max_size 3000m "live \$CUDA_DEVICE_MEMORY_LIMIT"

json_overridden() {
    WEIR_CONF=pools.frames.max_size=2GiB exits 0 show --json named.yaml
}
check "json_is_shown" json_overridden
check_json "json_names_the_policy" 'd["policy"] == "named.yaml"'
check_json "json_has_each_origin" \
    '{v["key"]: (v["value"], v["file"], v["live"]) for v in d["values"]}["pools.frames.max_size"] == ("2GiB", "WEIR_CONF", True)'
check_json "json_default_has_no_file" '{v["key"]: v["file"] for v in d["values"]}["pools.frames.ipc"] is None'
check "json_of_a_bad_policy_exits_1" exits 1 show --json bad.yaml
check "json_of_a_bad_policy_is_all_that_is_said" is_empty "$err"
check_json "json_has_the_errors_of_a_bad_policy" \
    '("bad.yaml", 1, 7, "weir") in [(e["file"], e["line"], e["column"], e["path"]) for e in d["errors"]] and d["status"] == 1'
check "json_of_a_missing_policy_exits_2" exits 2 show --json missing.yaml
check_json "json_says_that_a_policy_is_missing" 'd["errors"][0]["file"] == "missing.yaml" and d["status"] == 2'
json_closed() {
    "$weir" show --json - <&- >"$out" 2>"$err"
    [ $? -eq 2 ] && is_empty "$err"
}
check "json_without_standard_input_exits_2" json_closed
check_json "json_says_that_there_is_no_standard_input" '"standard input" in d["errors"][0]["message"] and "file" not in d["errors"][0]'
done_testing
