/* SPDX-License-Identifier: MIT */
/* What people bring from the configurations of other tools: each is refused with a sentence that says what to write here, or means what it
   plainly says. None becomes something else. */
#include <stdio.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

static const struct {
    const char *pool; /* what stands in the pool */
    const char *said; /* in the error; NULL: it is good */
} values[] = {
    /* Fractions, as of vLLM, XLA and torch, and percentages without their sign. */
    { "max_size: 0.9", "0.9 has no unit; write 90% for that share of the device's memory" },
    { "max_size: 0.955", "write 95.5%" },
    { "max_size: 1.0", "write 100%" },
    { "release_threshold: 0.5", "write 50%" },
    { "keep: 0.25", "write 25%" },
    { "initial_size: .5", "'.5' is not what belongs here; write bytes as in" },
    { "release_threshold: 1", "1 has no unit, and so few bytes are no size; write 1% or 1MiB" },
    { "release_threshold: 50", "write 50% or 50MiB" },
    { "keep: 100", "write 100% or 100MiB" },
    { "release_threshold: 2.0", "2.0 has no unit, and so few bytes are no size; write 2% or 2MiB" },
    { "keep: 80.0", "write 80% or 80MiB" },
    { "max_size: 50 percent", "has a space before its unit" },
    { "max_size: 90 %", "'90 %' has a space before its %; write number and % together" },
    { "max_size: 110%", "110% is more than the whole; write 100% at most" },
    { "max_size: 90%", NULL },
    /* Mebibytes without a unit, as of max_split_size_mb. */
    { "release_threshold: 4096", "4096 has no unit, and so few bytes are no size; write 4096MiB or 4096KiB" },
    { "cache: { per_stream: 128 }", "128 is too small; write bytes as in 64MiB" },
    { "small_below: 1", "write 1MiB or 1KiB" },
    { "small_below: 4096", NULL },
    { "small_below: 0", NULL },
    { "max_size: 4294967296", NULL },
    /* Other units, of Docker, Kubernetes and the JVM. */
    { "max_size: 4G", "unknown unit 'G'; did you mean 'GiB'?" },
    { "max_size: 4g", "did you mean 'GiB'?" },
    { "max_size: 4Gi", "did you mean 'GiB'?" },
    { "max_size: 4gb", "did you mean 'GB'?" },
    { "max_size: 4096M", "did you mean 'MiB'?" },
    { "max_size: 4GBytes", "did you mean 'GB'?" },
    { "max_size: 4P", "unknown unit 'P'; the units are KiB MiB GiB TiB KB MB GB TB" },
    { "max_size: 512 MB", "'512 MB' has a space before its unit; write number and unit together" },
    { "max_size: 4GB", NULL },
    /* Other ways to write numbers. */
    { "max_size: 1e9", "'1e9' has an exponent; write the number out" },
    { "max_size: 1.5E10", "has an exponent" },
    { "max_size: 0x40000000", "'0x40000000' is hexadecimal; write a decimal number" },
    { "max_size: 1_000_000_000", "'1_000_000_000' has a '_' in its number; write digits alone" },
    { "max_size: '1,000'", "is in quotes" },
    { "max_size: 010", "begins with a zero" },
    /* Words for no limit. */
    { "max_size: unlimited", "'unlimited' is not known; write none for no limit" },
    { "max_size: max", "write none for no limit" },
    { "max_size: infinity", "write none for no limit" },
    { "max_size: None", "'None' is not known; write none" },
    { "max_size: off", "'off' is not known; write none" },
    { "max_size: -1", "-1 is negative; write none for no limit" },
    { "max_size: 0", "0 would leave nothing" },
    { "max_size: null", "has no value; write" },
    { "release_threshold: unlimited", "'unlimited' is not known; write all for no limit" },
    { "release_threshold: max", "write all for no limit" },
    { "release_threshold: -1", "-1 is negative; write all for no limit" },
    { "release_threshold: off", "'off' is not known; write none" },
    { "max_size: auto", "'auto' is not what belongs here; write bytes" },
    { "max_size: true", "'true' is not what belongs here; write bytes" },
    { "cache: none", "'none' is not what belongs here; write off, on" },
    { "cache: enabled", "'enabled' is not known; write on" },
    /* Times. */
    { "on_oom: { deadline: 1000 }", "1000 has no unit; write a time as in 500ms, 1s or 2m" },
    { "on_oom: { deadline: 0 }", "0 has no unit" },
    { "on_oom: { deadline: 1 sec }", "has a space before its unit" },
    { "on_oom: { deadline: 1sec }", "unknown unit 'sec'; did you mean 's'?" },
    { "on_oom: { deadline: 5min }", "unknown unit 'min'; did you mean 'm'?" },
    { "on_oom: { deadline: 10S }", "did you mean 's'?" },
    { "on_oom: { deadline: 1M }", "did you mean 'm'?" },
    { "on_oom: { deadline: 100us }", "unknown unit 'us'; the units are ms s m" },
    { "on_oom: { deadline: 1e3 }", "has an exponent" },
    { "on_oom: { deadline: infinity }", "'infinity' is not what belongs here; write a time" },
    { "on_oom: { deadline: -1 }", "-1 is negative; write a time" },
    { "on_oom: { deadline: 1.5s }", NULL },
    /* Devices. */
    { "devices: 0", "'0' is not a list; write [0]" },
    { "devices: cuda:0", "is not a list of devices; write all, local, or a list" },
    { "devices: [cuda:0]", "'cuda:0' is not a device; write an index as in 0" },
    { "devices: -1", "is not a list of devices" },
    /* Keys. */
    { "max_split_size_mb: 128", "is PyTorch's; write small_below" },
    { "garbage_collection_threshold: 0.8", "is PyTorch's; write release_threshold" },
    { "expandable_segments: True", "is PyTorch's; write backing: arena" },
    { "initial_pool_size: 1GiB", "is RMM's; write initial_size" },
    { "maximum-pool-size: 1GiB", "is RMM's; write max_size" },
    { "gpu_memory_utilization: 0.9", "write max_size: 90% for 0.9" },
};

static const struct {
    const char *word, *said;
} switches[] = {
    { "true", NULL },
    { "yes", "'yes' is not a boolean here; write true" },
    { "on", "write true" },
    { "1", "write true" },
    { "True", "write true" },
    { "enabled", "write true" },
    { "no", "write false" },
    { "off", "write false" },
    { "0", "write false" },
    { "disabled", "write false" },
    { "None", "'None' is not what belongs here; write true or false" },
    { "'true'", "is in quotes, which makes it text; write true or false" },
};

static void expect(const char *text, const char *said)
{
    struct policy *policy = NULL;
    struct policy_errors errors = { 0 };
    enum policy_status status = policy_parse(text, strlen(text), "file", NULL, &errors, &policy);
    const char *message = errors.count ? errors.items[0].message : "";
    if (said)
        ck_assert_msg(status == POLICY_BAD && strstr(message, said), "'%s' is not in '%s' for %s", said, message, text);
    else
        ck_assert_msg(status == POLICY_OK, "'%s' for %s", message, text);
    policy_errors_clear(&errors);
    policy_free(policy);
}

START_TEST(values_and_keys_of_other_tools_get_a_sentence_that_says_what_to_write)
{
    char text[256];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(text, sizeof text, "weir: 1\npools:\n  a:\n    %s\n", values[i].pool);
        expect(text, values[i].said);
    }
}
END_TEST

START_TEST(booleans_of_other_dialects_get_a_sentence_that_says_what_to_write)
{
    char text[256];
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        snprintf(text, sizeof text, "weir: 1\nkeeper: %s\npools: { a: {} }\n", switches[i].word);
        expect(text, switches[i].said);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy_foreign");
    TCase *tests = suite_case(suite, "foreign", 0);
    suite_add(tests, values_and_keys_of_other_tools_get_a_sentence_that_says_what_to_write,
              booleans_of_other_dialects_get_a_sentence_that_says_what_to_write);
    return suite_run(suite);
}
