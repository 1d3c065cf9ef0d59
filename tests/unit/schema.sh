# SPDX-License-Identifier: MIT
# The committed JSON schema and doc/policy.md are those that the key table gives, and the schema agrees with the parser on every good policy.
# shellcheck shell=sh
: "${top_srcdir:?is set by make check}" "${top_builddir:?is set by make check}"
schema=$top_srcdir/config/weir.schema.json
echo 1..4

if "$top_builddir/tools/generate" schema | diff "$schema" - >&2; then
    echo "ok 1 - committed_schema_is_the_generated_one"
else
    echo "not ok 1 - committed_schema_is_the_generated_one # run 'make schema' and commit config/weir.schema.json"
fi

if "$top_builddir/tools/generate" man | grep -q '^\.It Ic pools\.NAME\.release_threshold$'; then
    echo "ok 2 - manual_section_lists_keys"
else
    echo "not ok 2 - manual_section_lists_keys"
fi

if "$top_builddir/tools/generate" markdown | diff "$top_srcdir/doc/policy.md" - >&2; then
    echo "ok 3 - committed_page_of_keys_is_the_generated_one"
else
    echo "not ok 3 - committed_page_of_keys_is_the_generated_one # run 'make keys' and commit doc/policy.md"
fi

if ! python3 -c 'import jsonschema, yaml' 2>/dev/null; then
    echo "ok 4 - good_policies_pass_the_schema # SKIP python3 lacks jsonschema or PyYAML"
elif python3 - "$schema" "$top_srcdir"/tests/unit/policies/good/*.yaml "$top_srcdir"/config/*.yaml >&2 <<'PYTHON'; then
import glob, json, sys
import jsonschema, yaml
schema = json.load(open(sys.argv[1], encoding="utf-8"))
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
failed = 0
for path in sys.argv[2:]:
    if "*" in path:
        continue
    with open(path, encoding="utf-8-sig") as file:
        policy = yaml.safe_load(file)
    for error in validator.iter_errors(policy):
        print(f"# {path}: {list(error.path)}: {error.message}", file=sys.stderr)
        failed = 1
sys.exit(failed)
PYTHON
    echo "ok 4 - good_policies_pass_the_schema"
else
    echo "not ok 4 - good_policies_pass_the_schema"
fi
