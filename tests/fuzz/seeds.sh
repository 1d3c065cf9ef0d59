# SPDX-License-Identifier: MIT
# Runs the seed corpus, and the policies of the unit tests, through the fuzz entry.
# shellcheck shell=sh
: "${top_srcdir:?is set by make check}" "${top_builddir:?is set by make check}"
fuzz=$top_builddir/tests/fuzz/policy_corpus
count=0
failed=
echo "1..1"
for file in "$top_srcdir"/tests/fuzz/corpus/policy/* "$top_srcdir"/tests/unit/policies/*/*.yaml; do
    count=$((count + 1))
    "$fuzz" "$file" >&2 || failed="$failed $file"
done
if [ -z "$failed" ] && [ "$count" -gt 10 ]; then
    echo "ok 1 - no_seed_breaks_the_parser # $count files"
else
    echo "not ok 1 - no_seed_breaks_the_parser #$failed"
fi
