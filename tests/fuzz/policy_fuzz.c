/* SPDX-License-Identifier: MIT */
/*
 * policy_fuzz.c - any bytes as a policy. The part of the input behind the first line "#conf" stands for $WEIR_CONF.
 *
 * `make policy-fuzz` builds it with libFuzzer. Built without, it runs the files that it is given through the same entry, as a test.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tests/fuzz/run_files.h"

/* Stops a fuzzer as a crash does, sanitizers or not. */
static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "policy_fuzz: %s\n", what);
    abort();
}

static void use_value(const struct policy_value *value, void *data)
{
    size_t *total = data;
    require(value->path && value->text, "a value without path or text");
    *total += strlen(value->path) + strlen(value->text);
}

static void use_policy(const struct policy *policy)
{
    size_t total = 0;
    policy_each_value(policy, use_value, &total);
    require(total > 0, "a policy without values");
    require(policy->pool_count > 0 && policy->default_pool < policy->pool_count, "no default pool");
    for (size_t i = 0; i < policy->pool_count; i++) {
        const struct policy_pool *pool = &policy->pools[i];
        require(policy_find_pool(policy, pool->name) == pool, "a pool that is not found");
        require(policy_pool_place(policy, pool, "max_size").path, "a key without a path");
        uint64_t memory = UINT64_MAX / 2;
        if (pool->max_size.kind == POLICY_SIZE_PERCENT)
            require(policy_size_bytes(pool->max_size, memory) <= memory, "a share larger than the whole");
    }
    for (size_t i = 0; i < policy->stream_count; i++)
        require(policy->streams[i].pool < policy->pool_count, "a stream without a pool");
    struct policy_errors errors = {0};
    require(policy_compare(policy, policy, &errors) == POLICY_OK, "a policy that differs from itself");
    policy_errors_clear(&errors);
}

static void use_errors(const struct policy_errors *errors)
{
    require(errors->count > 0, "a bad policy without an error");
    for (size_t i = 0; i < errors->count; i++) {
        char text[256];
        require(policy_error_format(&errors->items[i], text, sizeof(text)) > 0, "an error without text");
        require(errors->items[i].message[0] != '\0', "an error without a message");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "\n#conf ";
    const char *text = (const char *)data, *conf = size > 0 ? memmem(text, size, mark, strlen(mark)) : NULL;
    size_t len = conf ? (size_t)(conf - text) : size;
    char *overrides = conf ? strndup(conf + strlen(mark), size - len - strlen(mark)) : NULL;
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    enum policy_status status = policy_parse(text, len, "fuzz", overrides, &errors, &policy);
    require(status == POLICY_OK || status == POLICY_BAD, "neither good nor bad");
    require((status == POLICY_OK) == (policy != NULL), "a policy that is bad, or none that is good");
    if (policy)
        use_policy(policy);
    else
        use_errors(&errors);
    policy_free(policy);
    policy_errors_clear(&errors);
    free(overrides);
    return 0;
}

#ifndef WEIR_LIBFUZZER
int main(int argc, char **argv)
{
    static uint8_t data[2 * POLICY_FILE_MAX];
    return run_files(argc, argv, data, sizeof(data));
}
#endif
