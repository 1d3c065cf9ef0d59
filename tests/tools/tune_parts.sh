#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir tune` on programs whose blocks have two lifetimes: a part gets a pool of its own where that is better, and only there.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
printf 'weir_costs: 1\ngpu: simulated GPU 0\n' >"$WEIR_COSTS_DIR/simulated-gpu-0.yaml" # where nothing was measured, the simulator's own
unset WEIR_SIM WEIR_CONF

# record POLICY MODE [NAME]: into MODE.weir, in the place of a former one.
record() {
    rm -f "$tap_dir/$2.weir"
    WEIR_POLICY="$tap_dir/$1.yaml" "$weir" record -o "$tap_dir/$2.weir" -- "$top_builddir/tests/tools/parts" "$2" 12 ${3:+"$3"}
}

# A pool of CUDA's: an arena brings pages to where they are missing, and has less to gain.
policy own.yaml <<'END'
weir: 1
pools: { main: { current: true, release_threshold: 0, cache: off, small_below: 0 } }
END
policy plain.yaml <<'END'
weir: 1
pools: { main: { release_threshold: 0, cache: off, small_below: 0 } }
END

# Streams: 320 MiB of a step and 96 MiB that stay, which leave holes of 40 MiB; blocks of 80 MiB do not fit into those.
check "two_streams_are_recorded" record own streams
check "streams_are_tuned" exits 0 tune --json "$tap_dir/streams.weir"
check_json "what_stays_has_a_pool_of_its_own" "[p['stream'] for p in d['parts'] if p['is_chosen']] == ['keep']"
check_json "it_lives_ten_times_as_long" "d['parts'][0]['mean_life'] > 10 * d['parts'][0]['mean_life_of_the_rest']"
check_json "both_pools_have_no_holes" "d['chosen']['peak_reserved'] <= 448 << 20 and d['chosen']['refused'] == 0"
check_json "one_pool_has" \
    "all(t['figures']['peak_reserved'] >= 640 << 20 for p in d['pools'] for t in p['front'] if t['is_chosen'])"
check_json "stream_is_routed_there" "'streams:\n  keep:\n    pool: main-keep\n' in d['policy']"
check_json "pool_says_why" "'# Blocks of stream \'keep\' live ' in d['policy'] and '# In one pool, at best: ' in d['policy']"
cp "$out" "$tap_dir/first"
check "streams_are_tuned_again" exits 0 tune --json "$tap_dir/streams.weir"
check "same_trace_gives_the_same_parts" cmp "$out" "$tap_dir/first"
check "divided_policy_is_written" exits 0 tune "$tap_dir/streams.weir" -o "$tap_dir/divided.yaml"
check "parts_are_shown" says "$out" "Pool main: parts of it in a pool of their own, each at its best" "A part of pool 'main' has a pool of its own"
check "chosen_part_is_marked" grep -q "^  >  stream 'keep' " "$out"
check "divided_policy_is_one" exits 0 check "$tap_dir/divided.yaml"
check "it_is_replayed" exits 0 replay --json "$tap_dir/streams.weir" -p "$tap_dir/divided.yaml"
cp "$out" "$tap_dir/replayed"
same_figures() {
    python3 - "$tap_dir/first" "$tap_dir/replayed" <<'END'
import json, sys
found, replayed = json.load(open(sys.argv[1]))["chosen"], json.load(open(sys.argv[2]))[0]["policies"][1]
assert (found["peak_reserved"], found["stall"]) == (replayed["peak_reserved"], replayed["stall"]), (found, replayed)
END
}
if have_python; then
    check "named_stream_goes_where_another_policy_has_it" same_figures
else
    skip "named_stream_goes_where_another_policy_has_it" "no python3"
fi

# Bounds are for both pools together.
check "bound_is_divided" exits 0 tune --json --memory=1GiB "$tap_dir/streams.weir"
check_json "both_have_what_one_had" \
    "d['policy'].count('# Its part of 1GiB.') == 1 and 'max_size: 768MiB' in d['policy'] and 'max_size: 256MiB' in d['policy']"
policy percent.yaml <<'END'
weir: 1
defaults: { pool: main }
pools:
  main: { current: true, max_size: 90%, keep: 1GiB }
  main-keep: {}
streams: { keep: { pool: main }, other: { pool: main-keep, private: true } }
END
check "share_of_the_device_is_divided" exits 0 tune "$tap_dir/streams.weir" -p "$tap_dir/percent.yaml" -o "$tap_dir/shares.yaml"
check "it_says_of_what" says "$tap_dir/shares.yaml" "# Its part of 90%." "keep: 768MiB" "keep: 256MiB"
check "name_of_another_pool_is_not_taken" says "$tap_dir/shares.yaml" "    pool: main-keep-2"
check "other_pools_and_streams_stay" says "$tap_dir/shares.yaml" "    private: true" "  main-keep:" "  pool: main"
check "shares_are_a_policy" exits 0 check "$tap_dir/shares.yaml"

policy full.yaml <<'END'
weir: 1
pools: { main: { current: true, initial_size: 1GiB, max_size: 1GiB } }
END
check "pool_that_is_full_from_the_beginning_is_divided" exits 0 tune "$tap_dir/streams.weir" -p "$tap_dir/full.yaml" -o "$tap_dir/less.yaml"
check "its_bound_is_for_both" says "$tap_dir/less.yaml" "# Its part of 1GiB." "max_size: 768MiB" "max_size: 256MiB"
check "bounds_are_a_policy" exits 0 check "$tap_dir/less.yaml"

sed 's/90%/quota/' "$tap_dir/percent.yaml" >"$tap_dir/quota.yaml"
check "quota_is_divided" exits 0 tune "$tap_dir/streams.weir" -p "$tap_dir/quota.yaml" -o "$tap_dir/quotas.yaml"
check "both_have_the_quota_together" says "$tap_dir/quotas.yaml" "# Its part of quota." "max_size: 76.93%" "max_size: 23.07%"
check "quotas_are_a_policy" exits 0 check "$tap_dir/quotas.yaml"

# What the policy has apart already, nobody has to divide.
policy apart.yaml <<'END'
weir: 1
defaults: { pool: main }
pools: { main: { current: true }, other: {} }
streams: { keep: { pool: other } }
END
policy private.yaml <<'END'
weir: 1
pools: { main: { current: true } }
streams: { keep: { pool: main, private: true } }
END
for kind in apart private; do
    check "policy_that_has_them_${kind}_is_kept" exits 0 tune --json "$tap_dir/streams.weir" -p "$tap_dir/$kind.yaml"
    check_json "nothing_is_left_to_divide_$kind" "d['parts'] == [] and 'streams:\n  keep:\n' in d['policy']"
    check_json "both_pools_take_as_little_$kind" "d['chosen']['peak_reserved'] <= 448 << 20"
done

# Where one pool would be an arena, other settings are tried for two as well.
check "same_streams_may_have_an_arena" record plain streams
check "they_are_tuned" exits 0 tune --json "$tap_dir/streams.weir"
check_json "two_pools_have_settings_of_their_own" \
    "{p['backing'] for p in d['parts'] if p['stream'] == 'keep'} == {'arena', 'new'} and d['chosen']['peak_reserved'] <= 416 << 20"

# Tags: no policy routes them, so the program has to do it.
check "two_tags_are_recorded" record own tags
check "tags_are_tuned" exits 0 tune --json "$tap_dir/tags.weir"
check_json "tag_that_stays_has_a_pool_of_its_own" "[p['tag'] for p in d['parts'] if p['is_chosen']] == ['keep']"
check_json "it_takes_as_little" "d['chosen']['peak_reserved'] <= 448 << 20"
check_json "program_is_told_to_ask_for_it" \
    "'No policy routes tags: the program has to ask for this pool itself, as by weir_pool_malloc().' in d['policy']"
check_json "no_stream_is_routed" "'streams:' not in d['policy'] and '\n  main-keep:\n' in d['policy']"
check "tags_are_verified" exits 0 tune --json --verify "$tap_dir/tags.weir"
check_json "tag_is_measured_in_its_pool" \
    "[p['policy'] for p in d['verified']['policies'] if p['measured_peak']['median'] >> 20 < 500] == ['chosen']"
check "tag_with_a_line_in_it_is_recorded" record own tags "$(printf 'x\npools: { "z')"
check "it_is_tuned" exits 0 tune "$tap_dir/tags.weir" -o "$tap_dir/line.yaml"
check "its_name_stays_in_the_comment" exits 0 check "$tap_dir/line.yaml"
check "its_pool_has_letters" says "$tap_dir/line.yaml" "  main-x-pools-----z:"

# A stream whose name no policy can have cannot be routed; the rest of the pool can.
check "stream_of_another_name_is_recorded" record own streams "a.b"
check "it_is_tuned_too" exits 0 tune --json "$tap_dir/streams.weir"
check_json "the_rest_is_the_part" "[p['stream'] for p in d['parts']] == ['work'] and d['parts'][0]['is_chosen']"

# One pool is as good, or there is nothing to tell blocks apart by.
check "early_blocks_are_recorded" record own early
check "early_blocks_are_tuned" exits 0 tune --json "$tap_dir/early.weir"
check_json "parts_were_tried_in_vain" "len(d['parts']) == 2 and not any(p['is_chosen'] for p in d['parts'])"
check_json "one_pool_is_left" "'main-keep' not in d['policy'] and 'a pool of its own' not in d['policy']"
check "they_are_shown" exits 0 tune "$tap_dir/early.weir"
check "one_pool_is_marked" grep -q "^  >  none " "$out"
check "one_tag_is_recorded" record own tag
check "one_tag_is_tuned" exits 0 tune --json "$tap_dir/tag.weir"
check_json "one_tag_has_no_parts" "d['parts'] == []"
done_testing
