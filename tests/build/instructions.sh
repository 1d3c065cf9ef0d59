#!/bin/sh
# SPDX-License-Identifier: MIT
# Instructions that a pair takes, cached or not, counted by callgrind on the simulator: the same on every run, so a slower path shows without
# a GPU.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

# The bounds: instructions inside weir_stream_malloc and weir_stream_free for one cached pair, without and with the capture check. Without it
# this is what the library promises; with it, 242 were measured. For one that goes to CUDA, without and with a cap that Weir watches: 1,079
# and 1,183 were measured; 1,336 and 1,440 since the recorder has two events of it and looks how long CUDA took, without its clocks, which
# are the driver's part here; 1,489 and 1,586 since a thread is not cancelled in a call that goes to CUDA, which pthread_setcancelstate() is
# told of twice in each; 1,526 and 1,623 since each free is noted for recovery, whatever its size, and a request knows what it took; 1,535 and
# 1,632 since a request claims the growth that the recorder writes down, and none that is another one's; 1,543 and 1,642 since CUDA's pool is
# asked by a table of functions, as an arena is; 1,479 and 1,578 later, and 1,571 and 1,670 since a free is counted in a step of its stream's
# line, which tells when the free is complete; 1,506 and 1,633 since the backing watches caps;
# 1,555 and 1,682 since an arena's free is counted in such a step, too, and a miss looks for blocks that wait for several streams; 1,559 and
# 1,686 since a miss enters its stream under the lock of the cache; 1,586 and 1,710 since a request may have to be rounded for `align`, and its
# pool may have `leave_free` or be asleep; 1,596 and 1,720 since the free asks for a capture where the block is an arena's, which the arena
# does not ask again.
bound_unchecked=178
bound_checked=246
bound_uncached=1591
bound_capped=1715
# For one that an arena serves, and for one that it need not, as the stream keeps its last large blocks: 1,917 and 417 were measured, and 2,153 and 421
# since its frees are in debts of lines (2,161 since a miss enters its stream under the lock of the cache, 2,184 since a pool may align and sleep, 2,007 since a free asks for a capture once and looks at a debt once); and for
# such a block of a pool of CUDA's: 428, and 433 since a stream knows which sizes come again.
# For one of a size that never repeats, from 4 MiB on, with the settings of config/default.yaml: 2,094 were measured, and 1,960 since such
# blocks pass through, which asks CUDA three times less; 1,973 since the free asks for a capture of an arena's blocks.
bound_drifting=1966
bound_arena=2002
bound_recent=428
bound_large=438
# For one that is not recorded (level: off), and for a cached one that is (level: all): 1,325 and 433 were measured;
# 1,336 since the table; 1,273 later, 1,365 since the step of a line, 1,300 since the backing watches caps,
# and 1,352 since a miss looks for blocks that wait; 1,356 since a miss enters its stream under the lock of the cache, 1,383 since `align`, 1,394 since the same.
bound_off=1389
bound_all=438

short=1000 long=2000
count=$top_builddir/bench/weir-count
command -v valgrind >/dev/null || skip_all "valgrind is missing: install it"
[ -x "$count" ] || skip_all "bench/weir-count was not built"
find "$top_builddir/lib" -name '*.gcno' | grep -q . && skip_all "this build counts what its lines do, which costs instructions"
# Pairs that no cache serves are an error of the check itself; a build that is no measure for a real one is none.
"$count" 1 unchecked 2>"$tap_dir/why"
[ $? -ne 77 ] || skip_all "$(cat "$tap_dir/why")"
# valgrind has little address space, and a simulated pool reserves a multiple of its device's memory.
WEIR_SIM=memory=1GiB
export WEIR_SIM

# instructions PAIRS MODE [COUNT]: those of one run. Counting is switched over where one of these functions is entered or left: on for the two of the
# library, off for what the simulator does in the driver's place, which is none of ours.
instructions() {
    valgrind -q --tool=callgrind --callgrind-out-file="$tap_dir/callgrind" --toggle-collect=weir_stream_malloc \
        --toggle-collect=weir_stream_free --toggle-collect=weir_malloc --toggle-collect=weir_free --toggle-collect=weir_tag_push \
        --toggle-collect=weir_tag_pop '--toggle-collect=enter_*' "$count" "$@" >&2 || return
    sed -n 's/^totals: \([0-9]*\)$/\1/p' "$tap_dir/callgrind"
}

# pair MODE BOUND: what the additional pairs of the longer run take.
pair() {
    few=$(instructions $short "$1") && many=$(instructions $long "$1") && [ -n "$few" ] && [ -n "$many" ] || return
    each=$(((many - few) / (long - short)))
    echo "$1: $each instructions for a pair, at most $2 asked"
    # None at all would mean that callgrind does not know the functions by these names.
    [ "$each" -gt 0 ] && [ "$each" -le "$2" ]
}

# with_many MODE: a pair with 4,000 things of its kind takes few instructions more than one with 10: chains of a hash table may be longer.
with_many() {
    few=$(of_count 10 "$1") && many=$(of_count 4000 "$1") || return
    echo "$1: $few instructions for a pair with 10, $many with 4,000"
    [ "$few" -gt 0 ] && [ $((many * 100)) -le $((few * 110)) ]
}

# of_count COUNT MODE: what a pair takes with so many.
of_count() {
    less=$(instructions $short "$2" "$1") && more=$(instructions $long "$2" "$1") && [ -n "$less" ] && [ -n "$more" ] || return
    echo $(((more - less) / (long - short)))
}

check "cached_pair_without_capture_check_takes_few_instructions" pair unchecked $bound_unchecked
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "cached_pair_with_capture_check_takes_few_instructions" pair checked $bound_checked
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_that_goes_to_cuda_takes_no_more_instructions" pair uncached $bound_uncached
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_below_a_watched_cap_takes_no_more_instructions" pair capped $bound_capped
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_of_a_size_that_never_repeats_takes_no_more_instructions" pair drifting $bound_drifting
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_on_an_arena_takes_no_more_instructions" pair arena $bound_arena
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_of_one_large_size_on_an_arena_takes_few_instructions" pair recent $bound_recent
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_of_one_large_size_on_a_pool_of_cudas_takes_few_instructions" pair large $bound_large
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_that_is_not_recorded_takes_few_more_than_without_a_recorder" pair off $bound_off
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "cached_pair_that_is_recorded_takes_few_more" pair all $bound_all
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_by_a_raw_handle_takes_no_more_with_4,000_streams" with_many handles
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "pair_that_goes_to_cuda_takes_no_more_with_4,000_blocks_that_wait" with_many parked
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
check "push_of_a_tag_takes_no_more_with_4,000_tags" with_many tags
grep 'instructions for' "$tap_dir/output" | sed 's/^/# /'
done_testing
