/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/complain.h"
#include "tools/common/json.h"
#include "tools/common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_kept;
static struct policy_errors kept; /* the file of what is about no policy is NULL */

_Noreturn void memory_lacks(void)
{
    fputs("weir: out of host memory\n", stderr);
    exit(EXIT_TROUBLE);
}

char *make_text(const char *format, va_list args)
{
    char *text;
    return vasprintf(&text, format, args) < 0 ? must(NULL) : text;
}

static void print(const struct policy_error *error)
{
    int len = error->file ? policy_error_format(error, NULL, 0) : -1;
    char *line = len < 0 ? NULL : must(malloc((size_t)len + 1));
    if (line)
        policy_error_format(error, line, (size_t)len + 1);
    /* Names and answers from elsewhere may be in it. */
    char *plain = must(utf8_plain(line ? line : error->message, true));
    fprintf(stderr, "%s%s\n", line ? "" : "weir: ", plain);
    free(plain);
    free(line);
}

static char *copy(const char *text)
{
    return text ? must(strdup(text)) : NULL;
}

void complain_of_policy(const struct policy_error *error)
{
    if (!is_kept) {
        print(error);
        return;
    }
    kept.items = must(realloc(kept.items, (kept.count + 1) * sizeof kept.items[0]));
    struct policy_error *last = &kept.items[kept.count++];
    *last = *error;
    last->file = copy(error->file);
    last->path = copy(error->path);
    last->message = copy(error->message);
}

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct policy_error error = {.message = make_text(format, args)};
    va_end(args);
    complain_of_policy(&error);
    free(error.message);
}

void complaint_json(struct json *json, const struct policy_error *error)
{
    json_object(json, NULL);
    if (error->file) {
        json_string(json, "file", error->file);
        json_uint(json, "line", error->line);
        json_uint(json, "column", error->column);
        json_string(json, "path", error->path);
    }
    json_string(json, "message", error->message);
    json_end(json);
}

void complaints_begin(void)
{
    is_kept = true;
}

void complaints_end(int status)
{
    struct json json = JSON_INIT(stdout);
    bool as_json = is_kept && status != EXIT_GOOD && !json_was_begun();
    if (as_json) {
        json_object(&json, NULL);
        json_array(&json, "errors");
    }
    for (size_t i = 0; i < kept.count; i++) {
        if (as_json)
            complaint_json(&json, &kept.items[i]);
        else
            print(&kept.items[i]);
    }
    if (as_json) {
        json_end(&json);
        json_uint(&json, "status", (uint64_t)status);
        json_end(&json);
    }
    policy_errors_clear(&kept);
    is_kept = false;
}
