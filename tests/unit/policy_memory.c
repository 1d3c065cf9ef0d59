/* SPDX-License-Identifier: MIT */
/* Every allocation failing in turn: POLICY_NO_MEMORY, nothing set, nothing leaked, and errors that can be cleared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

static const char good[] =
    "weir: 1\ncapture: relaxed\ndefaults: {pool: a}\npools:\n"
    "  a: {devices: [0, GPU-01234567-89ab-cdef-0123-456789abcdef], max_size: 50%, on_oom: {steps: [wait], deadline: 2s}}\n"
    "  b: {peer_access: [1, 0], cache: off}\nstreams: {s: {pool: b}, t: {private: true}}\n";
static const char bad[] =
    "weir: 1\ncolour: red\ncapture: *x\npools:\n  a: &a {devices: [x], devices: [1]}\n  b: {max_size: 1G, ? [k] : 1}\n"
    "  c: {current: true}\n  d: {current: true, on_oom: {steps: [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}}\n"
    "streams: {s: {pool: e}}\n";
static const char broken[] = "weir: 1\npools: {a: {devices: [0, 1\n";
static const char overrides[] = "capture=caller,pools.a.devices=[0,1],pools.a.reuse={opportunistic: false},pools.b.cache.idle=5s";
static const char bad_overrides[] = "capture=caller,capture=caller,x,pools.z.ipc=none,pools.a.devices=[0,&x y],pools.a.ipc=";

/* One call that allocates: policy_parse(), or policy_compare() of two policies that were parsed before, or policy_override() of one. */
struct subject {
    const char *text, *overrides;
    enum policy_status status; /* without failures */
    const char *file;          /* policy_load() of it instead */
    bool asks_strerror;        /* which may allocate, and answers all the same where it cannot: nothing else is lost then */
    struct policy *before, *after;
};

static enum policy_status call(const struct subject *subject, struct policy_errors *errors, struct policy **policy)
{
    if (subject->before && subject->overrides)
        return policy_override(subject->before, subject->overrides, errors, policy);
    if (subject->before)
        return policy_compare(subject->before, subject->after, errors);
    if (subject->file)
        return policy_load(subject->file[0] ? subject->file : NULL, errors, policy);
    return policy_parse(subject->text, strlen(subject->text), "test", subject->overrides, errors, policy);
}

static void sweep(const struct subject *subject)
{
    for (unsigned nth = 1;; nth++) {
        struct policy_errors errors = {0};
        struct policy *policy = NULL;
        long live = fail_malloc_live();
        fail_malloc_at(nth);
        enum policy_status status = call(subject, &errors, &policy);
        fail_malloc_at(0);
        bool happened = fail_malloc_happened();
        bool set = policy != NULL;
        policy_free(policy);
        policy_errors_clear(&errors);
        long left = fail_malloc_live() - live;
        ck_assert_msg(left == 0, "allocation %u: %ld blocks left", nth, left);
        if (!happened) {
            ck_assert_int_eq(status, subject->status);
            ck_assert_uint_gt(nth, 2);
            return;
        }
        ck_assert(!set);
        bool is_strerrors = subject->asks_strerror && status == subject->status;
        ck_assert_msg(is_strerrors || status == POLICY_NO_MEMORY, "allocation %u failed, but the status is %d", nth, status);
    }
}

START_TEST(good_policy_survives_any_allocation_failing)
{
    sweep(&(struct subject){.text = good, .status = POLICY_OK});
}
END_TEST

START_TEST(shared_pool_survives_any_allocation_failing)
{
    static const char shared[] = "weir: 1\npools:\n  a:\n    devices: [0]\n    ipc: posix_fd\n    share:\n      socket: frames\n"
                                 "      allow: {users: [camera, lidar, 1001], groups: [video, render]}\n      retire_after: 30s\n";
    sweep(&(struct subject){.text = shared, .status = POLICY_OK});
}
END_TEST

START_TEST(bad_policy_survives_any_allocation_failing)
{
    sweep(&(struct subject){.text = bad, .status = POLICY_BAD});
}
END_TEST

START_TEST(broken_policy_survives_any_allocation_failing)
{
    sweep(&(struct subject){.text = broken, .status = POLICY_BAD});
}
END_TEST

START_TEST(empty_policy_survives_any_allocation_failing)
{
    sweep(&(struct subject){.text = "", .status = POLICY_BAD});
}
END_TEST

START_TEST(overrides_survive_any_allocation_failing)
{
    sweep(&(struct subject){.text = good, .overrides = overrides, .status = POLICY_OK});
    sweep(&(struct subject){.text = good, .overrides = bad_overrides, .status = POLICY_BAD});
}
END_TEST

START_TEST(setting_survives_any_allocation_failing)
{
    struct policy *before = data_parse(good, overrides);
    sweep(&(struct subject){.before = before, .overrides = overrides, .status = POLICY_OK});
    sweep(&(struct subject){.before = before, .overrides = bad_overrides, .status = POLICY_BAD});
    policy_free(before);
}
END_TEST

START_TEST(loading_survives_any_allocation_failing)
{
    char path[] = "/tmp/weir-memory-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, good, strlen(good)), (int)strlen(good));
    close(fd);
    sweep(&(struct subject){.file = path, .status = POLICY_OK});
    unlink(path);
    sweep(&(struct subject){.file = path, .status = POLICY_UNREADABLE, .asks_strerror = true});
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("WEIR_POLICY");
    unsetenv("WEIR_CONF");
    if (access("/etc/weir/policy.yaml", F_OK) != 0)
        sweep(&(struct subject){.file = "", .status = POLICY_OK});
}
END_TEST

START_TEST(comparing_survives_any_allocation_failing)
{
    struct policy *before = data_parse(good, NULL), *after = data_parse("weir: 1\npools: {a: {current: true}}\nstreams: {n: {}}\n", NULL);
    sweep(&(struct subject){.before = before, .after = after, .status = POLICY_BAD});
    policy_free(before);
    policy_free(after);
}
END_TEST

int main(void)
{
    if (!fail_malloc_works())
        return suite_skip("allocations cannot be made to fail under this sanitizer or valgrind");
    Suite *suite = suite_create("policy memory");
    TCase *memory = suite_case(suite, "memory", 120);
    suite_add(memory, good_policy_survives_any_allocation_failing, shared_pool_survives_any_allocation_failing,
              bad_policy_survives_any_allocation_failing, broken_policy_survives_any_allocation_failing,
              empty_policy_survives_any_allocation_failing, overrides_survive_any_allocation_failing,
              setting_survives_any_allocation_failing, loading_survives_any_allocation_failing, comparing_survives_any_allocation_failing);
    return suite_run(suite);
}
