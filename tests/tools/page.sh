#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir trace page`: what it takes and refuses, and that the file is for this user alone and has no other content than its own. What a browser
# makes of it is in page_browser.sh.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
unset WEIR_SIM WEIR_CONF
[ -n "$interpreter" ] || skip_all "python3 is missing: install it"
"$interpreter" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip_all "python3 is older than 3.9"

trace=$tap_dir/run.weir page=$tap_dir/page.html
make_trace() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/tests/tools:$top_srcdir/tests/python" "$interpreter" - "$trace" <<'PYTHON'
import sys
from trace_file import Trace
trace = Trace()
trace.pool(1, "main")
trace.tag(1, "</script><b>&@@DATA@@")
for number in range(20):
    trace.event("malloc", stream=1, pool=1, address=0x1000 * (number + 1), size=4000, given=4096, tag=1)
trace.event("free", stream=1, pool=1, address=0x1000, size=4000, given=4096)
trace.write(sys.argv[1])
PYTHON
}
check "trace_is_made" make_trace

check "page_exits_0" exits 0 trace page -o "$page" "$trace"
check "it_prints_nothing" is_empty "$out"
check "file_is_for_this_user_alone" test "$(stat -c %a "$page")" = 600
check "page_takes_the_place_of_an_older_one" exits 0 trace page --output="$page" "$trace"
check "page_goes_to_standard_output" exits 0 trace page -o - "$trace"
check "it_is_the_same_one" cmp "$out" "$page"

# Scripts and styles are named by their hashes, and what a trace has can be none of them.
cat >"$tap_dir/look.py" <<'PYTHON'
import base64, hashlib, json, re, sys, zlib
text = open(sys.argv[1], encoding="utf-8").read()
def hashed(part):
    return "'sha256-" + base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() + "'"
policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.S)
styles = re.findall(r"<style>(.*?)</style>", text, re.S)
assert len(scripts) == 2 and len(styles) == 1, (len(scripts), len(styles))
assert policy == "default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'" % (hashed(scripts[1][1]), hashed(styles[0])), policy
assert 'type="text/plain"' in scripts[0][0] and re.fullmatch(r"[A-Za-z0-9+/]*=*", scripts[0][1])
assert "@@" not in text and "http" not in re.sub(r"http-equiv|https?://www\.w3\.org/\S+", "", scripts[1][1] + styles[0])
assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", scripts[1][1])
data = base64.b64decode(scripts[0][1])
data = zlib.decompress(data) if 'data-coding="deflate"' in scripts[0][0] else data
document = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
assert document["files"][0]["tags"] == ["-", "</script><b>&@@DATA@@"] and document["files"][0]["totals"]["all"]["blocks"] == 19
assert len(data) == 8 + int.from_bytes(data[:8], "little") + sum(length for _, length, _ in document["files"][0]["columns"])
PYTHON
check "only_its_own_script_and_style_run" "$interpreter" "$tap_dir/look.py" "$page"

# What it is asked wrongly.
check "page_without_a_name_is_refused" exits 2 trace page "$trace"
check "remedy_is_a_line_to_copy" says "$err" "weir trace page -o page.html"
check "trace_itself_is_not_written_over" exits 2 trace page -o "$trace" "$trace"
check "json_is_refused" exits 2 trace page --json -o "$page" "$trace"
check "option_of_another_view_is_refused" exits 2 trace summary --policy=x.yaml "$trace"
check "its_view_is_named" says "$err" "weir trace page"
check "missing_policy_is_refused" exits 2 trace page -o "$tap_dir/none.html" --policy="$tap_dir/none.yaml" "$trace"
printf 'weir: 1\npools: { main: { max_size: many } }\n' >"$tap_dir/wrong.yaml"
check "wrong_policy_is_refused" exits 1 trace page -o "$tap_dir/none.html" --policy="$tap_dir/wrong.yaml" "$trace"
check "wrong_value_is_named" says "$err" "many"
check "missing_document_of_tune_is_refused" exits 2 trace page -o "$tap_dir/none.html" --tune="$tap_dir/none.json" "$trace"
printf '{"no": 1}\n' >"$tap_dir/other.json"
check "other_document_is_refused" exits 2 trace page -o "$tap_dir/none.html" --tune="$tap_dir/other.json" "$trace"
check "how_to_make_one_is_said" says "$err" "weir tune --json"
check "folder_is_no_document" exits 2 trace page -o "$tap_dir/none.html" --tune="$tap_dir" "$trace"
check "refused_pages_are_not_made" test ! -e "$tap_dir/none.html"

# A moment by its number.
check "moment_behind_an_event_exits_0" exits 0 trace live --at='#3' --json "$trace"
check_json "it_has_what_was_live_behind_it" "d['files'][0]['live_blocks'] == 3"
check "number_behind_the_end_exits_1" exits 1 trace live --at='#22' "$trace"
check "count_of_events_is_said" says "$err" "it has only 21 events"
check "number_that_is_none_is_a_mark" exits 1 trace live --at='#0' "$trace"
check "mark_is_said_to_be_missing" says "$err" "it has no such mark"
done_testing
