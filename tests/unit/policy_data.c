/* SPDX-License-Identifier: MIT */
#include "tests/unit/policy_data.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"

static int is_yaml(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 5 && strcmp(entry->d_name + len - 5, ".yaml") == 0;
}

static void read_file(struct data_file *file)
{
    FILE *stream = fopen(file->path, "rb");
    ck_assert_msg(stream != NULL, "cannot open %s", file->path);
    static const size_t room = 2 * POLICY_FILE_MAX;
    file->text = malloc(room);
    ck_assert_ptr_nonnull(file->text);
    file->len = fread(file->text, 1, room - 1, stream);
    file->text[file->len] = '\0';
    fclose(stream);
}

size_t data_each(const char *folder, void (*fn)(const struct data_file *file))
{
    char directory[2048];
    const char *top = getenv("top_srcdir");
    snprintf(directory, sizeof(directory), "%s/tests/unit/policies/%s", top ? top : ".", folder);
    struct dirent **entries;
    int count = scandir(directory, &entries, is_yaml, alphasort);
    ck_assert_msg(count > 0, "no files in %s; run the test with top_srcdir set to the top of the sources", directory);
    for (int i = 0; i < count; i++) {
        struct data_file file;
        snprintf(file.name, sizeof(file.name), "%s", entries[i]->d_name);
        snprintf(file.path, sizeof(file.path), "%s/%s", directory, entries[i]->d_name);
        free(entries[i]);
        read_file(&file);
        fn(&file);
        free(file.text);
    }
    free(entries);
    return (size_t)count;
}

bool data_line(const struct data_file *file, const char *word, size_t nth, char *line, size_t len)
{
    const char *at = file->text, *end = file->text + file->len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        if (at == file->text && length >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
            at += 3;
            length -= 3;
        }
        if (length >= strlen(word) && memcmp(at, word, strlen(word)) == 0 && nth-- == 0) {
            snprintf(line, len, "%.*s", (int)(length - strlen(word)), at + strlen(word));
            line[strcspn(line, "\r")] = '\0';
            return true;
        }
        at = stop ? stop + 1 : end;
    }
    return false;
}

struct search {
    const char *path, *text;
};

static void find_value(const struct policy_value *value, void *data)
{
    struct search *search = data;
    if (strcmp(value->path, search->path) == 0)
        search->text = value->text;
}

const char *data_value(const struct policy *policy, const char *path)
{
    struct search search = {path, NULL};
    policy_each_value(policy, find_value, &search);
    return search.text;
}

struct policy *data_parse(const char *text, const char *overrides)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    enum policy_status status = policy_parse(text, strlen(text), "test", overrides, &errors, &policy);
    char first[2048] = "";
    if (errors.count > 0)
        policy_error_format(&errors.items[0], first, sizeof(first));
    ck_assert_msg(status == POLICY_OK, "%zu errors: %s", errors.count, first);
    policy_errors_clear(&errors);
    return policy;
}

void data_parse_bad(const char *text, const char *overrides, char *error, size_t len)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    ck_assert_int_eq(policy_parse(text, strlen(text), "test", overrides, &errors, &policy), POLICY_BAD);
    ck_assert_ptr_null(policy);
    ck_assert_uint_eq(errors.count, 1);
    policy_error_format(&errors.items[0], error, len);
    policy_errors_clear(&errors);
}
