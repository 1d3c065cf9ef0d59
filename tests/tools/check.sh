#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir check`.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"

policy good.yaml <<'YAML'
weir: 1
defaults: { pool: frames }
pools:
  frames: {}
  weights: { max_size: 4GiB }
streams:
  decode: { pool: frames }
YAML
policy bad.yaml <<'YAML'
weir: 1
pools:
  frames:
    max_sise: 4GiB
    ipc: perhaps
YAML
cd "$tap_dir" || exit 1

check "good_file_exits_0" exits 0 check good.yaml
check "good_file_gets_one_line_with_its_counts" says "$out" "good.yaml: ok (2 pools, 1 stream)"
check "good_file_says_nothing_on_stderr" is_empty "$err"

check "bad_file_exits_1" exits 1 check bad.yaml
check "every_error_has_its_place_and_path" says "$err" "bad.yaml:4:5: pools.frames.max_sise:" "bad.yaml:5:10: pools.frames.ipc:"
check "misspelt_key_gets_a_suggestion" says "$err" "did you mean 'max_size'?"
check "bad_file_prints_nothing_on_stdout" is_empty "$out"

check "missing_file_exits_2" exits 2 check missing.yaml
check "missing_file_is_named_with_the_reason" says "$err" "missing.yaml: cannot read the file: No such file or directory"
check "directory_exits_2" exits 2 check "$tap_dir"

check "worst_of_all_files_counts" exits 2 check missing.yaml good.yaml bad.yaml
check "good_files_among_bad_ones_are_still_reported" says "$out" "good.yaml: ok"
check "bad_after_good_exits_1" exits 1 check good.yaml bad.yaml

from_stdin() {
    "$weir" check - <"$1" >"$out" 2>"$err"
}
check "dash_reads_standard_input" from_stdin good.yaml
check "standard_input_is_called_so" says "$out" "standard input: ok"
policy empty.yaml </dev/null
check "empty_file_is_bad" exits 1 check empty.yaml

head -c 1100000 /dev/zero | tr '\0' '#' >large.yaml
check "file_over_1_mib_is_bad" exits 1 check large.yaml

with_overrides() {
    WEIR_CONF=pools.frames.nonsense=1 exits 0 check good.yaml
}
check "overrides_in_the_environment_are_not_applied" with_overrides

check "json_keeps_the_exit_status" exits 2 check --json good.yaml bad.yaml missing.yaml
check "json_prints_no_error_on_stderr" is_empty "$err"
check_json "json_has_every_file_in_order" '[f["status"] for f in d["files"]] == ["ok", "bad", "unreadable"] and d["status"] == 2'
check_json "json_has_every_error_with_its_place" \
    '[(e["file"], e["line"], e["column"], e["path"]) for e in d["files"][1]["errors"]] == [("bad.yaml", 4, 5, "pools.frames.max_sise"), ("bad.yaml", 5, 10, "pools.frames.ipc")]'
check_json "json_has_the_counts_of_good_files" 'd["files"][0]["pools"] == 2 and d["files"][0]["streams"] == 1'

# A name that JSON must escape, with a byte that is not UTF-8.
odd=$(printf 'a"b\\c\td\377.yaml')
check "odd_file_name_exits_2" exits 2 check --json "$odd"
check_json "odd_file_name_is_valid_json" 'd["files"][0]["file"] == "a\"b\\c\td\ufffd.yaml"'
done_testing
