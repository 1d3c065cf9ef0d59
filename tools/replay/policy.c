/* SPDX-License-Identifier: MIT */
#include "tools/replay/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/source.h"

#define DEPTH_MAX 8
#define DEVICES_MAX 16
#define UUID_MAX 64
#define UUID_BYTES "-/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* How many parts at the beginning two paths share. */
static size_t shared_parts(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t parts = 0;
    for (size_t i = 0; i < a_len && i < b_len && a[i] == b[i] && parts < DEPTH_MAX; i++)
        parts += a[i] == '.';
    return parts;
}

unsigned replay_policy_put_parents(FILE *out, const char *path, size_t len, const char *former, size_t former_len)
{
    size_t skip = shared_parts(path, len, former, former_len);
    unsigned depth = 0;
    for (const char *dot; depth < DEPTH_MAX && (dot = memchr(path, '.', len)); depth++) {
        if (depth >= skip)
            fprintf(out, "%*s%.*s:\n", (int)(2 * depth), "", (int)(dot - path), path);
        len -= (size_t)(dot - path) + 1;
        path = dot + 1;
    }
    return depth;
}

static bool begins_with(const char *text, const char *with, size_t len)
{
    return strncmp(text, with, len) == 0;
}

/* Whether it is a value that a policy must not write for an exportable pool, though the pool has it. */
static bool is_implied(const char *policy, const char *path, size_t len)
{
    static const char *const keys[] = {".release_threshold", ".small_below"};
    size_t pool = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (len > strlen(keys[i]) && begins_with(path + len - strlen(keys[i]), keys[i], strlen(keys[i])))
            pool = len - strlen(keys[i]);
    for (const char *at = policy; pool && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (begins_with(at, path, pool) && begins_with(at + pool, ".ipc:", 5))
            return !begins_with(at + pool, ".ipc: none", 10);
    return false;
}

char *replay_policy_recorded(const struct trace *trace)
{
    return trace->header.policy && *trace->header.policy ? replay_policy_of_values(trace->header.policy) : NULL;
}

char *replay_policy_of_values(const char *values)
{
    const char *at = values, *former = "";
    size_t former_len = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *out = must(open_memstream(&text, &size));
    while (*at) {
        size_t line = strcspn(at, "\n"), len = strcspn(at, ":\n");
        if (len < line && !is_implied(values, at, len)) {
            unsigned depth = replay_policy_put_parents(out, at, len, former, former_len);
            const char *key = at;
            for (unsigned i = 0; i < depth; i++)
                key = strchr(key, '.') + 1;
            fprintf(out, "%*s%.*s\n", (int)(2 * depth), "", (int)(at + line - key), key);
            former = at;
            former_len = len;
        }
        at += line + (at[line] == '\n');
    }
    fclose(out);
    return must(text);
}

/* What a header says may be anything: only what can stand for a device in a policy is a UUID. */
static const char *uuid_of(const struct trace *trace, unsigned device)
{
    char key[32];
    snprintf(key, sizeof key, "gpu.%u.uuid", device);
    const char *uuid = trace_value(trace, key);
    bool is_one = uuid && (strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0) && strspn(uuid, UUID_BYTES) == strlen(uuid);
    return is_one && strlen(uuid) <= UUID_MAX ? uuid : NULL;
}

char *replay_policy_read(const char *command, const char *file)
{
    char *bytes = NULL, *text = NULL, *path;
    size_t len;
    if (source_path(file, &path) != EXIT_GOOD)
        return NULL;
    int why = source_read(path, POLICY_FILE_MAX, &bytes, &len);
    free(path);
    if (why)
        complain("%s: %s: %s", command, file, strerror(why));
    else if (memchr(bytes, '\0', len))
        complain("%s: %s has a NUL byte, which no policy has", command, file);
    else
        text = must(strndup(bytes, len));
    free(bytes);
    return text;
}

char *replay_policy_by_index(const char *text, const struct trace *trace)
{
    const char *uuids[DEVICES_MAX];
    char *made = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        uuids[i] = uuid_of(trace, i);
    FILE *out = must(open_memstream(&made, &size));
    while (*text) {
        size_t quotes = *text == '"' || *text == '\'', len = strspn(text + quotes, UUID_BYTES);
        unsigned i = 0;
        while (i < DEVICES_MAX && !(uuids[i] && strlen(uuids[i]) == len && strncmp(text + quotes, uuids[i], len) == 0))
            i++;
        if (i < DEVICES_MAX && (!quotes || text[1 + len] == *text)) {
            fprintf(out, "%u", i); /* a number in quotes is none */
            text += len + 2 * quotes;
        } else {
            text += fwrite(text, 1, quotes + len ? quotes + len : 1, out);
        }
    }
    fclose(out);
    return must(made);
}

int replay_policy_read_valid(const char *command, const char *file, char **text)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    *text = replay_policy_read(command, file);
    if (!*text)
        return EXIT_TROUBLE;
    enum policy_status status = policy_parse(*text, strlen(*text), source_name(file), NULL, &errors, &policy);
    source_print_errors(&errors);
    policy_errors_clear(&errors);
    policy_free(policy);
    return status == POLICY_OK ? EXIT_GOOD : source_exit(status);
}
