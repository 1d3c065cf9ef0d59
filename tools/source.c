/* SPDX-License-Identifier: MIT */
#include "tools/source.h"
#include "tools/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *source_name(const char *path)
{
    return is_stdin(path) ? "standard input" : path;
}

int source_read(const char *path, char **text, size_t *len)
{
    FILE *in = is_stdin(path) ? stdin : fopen(path, "re");
    if (!in)
        return errno;
    size_t room = POLICY_FILE_MAX + 1;
    char *bytes = must(malloc(room));
    errno = 0;
    size_t got = fread(bytes, 1, room, in);
    int error = ferror(in) ? errno ? errno : EIO : 0;
    if (in != stdin)
        fclose(in);
    if (error) {
        free(bytes);
        return error;
    }
    *text = bytes;
    *len = got;
    return 0;
}

void source_print_errors(const struct policy_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++) {
        int len = policy_error_format(&errors->items[i], NULL, 0);
        if (len < 0)
            continue;
        char *line = must(malloc((size_t)len + 1));
        policy_error_format(&errors->items[i], line, (size_t)len + 1);
        fprintf(stderr, "%s\n", line);
        free(line);
    }
}

void source_json_errors(struct json *json, const struct policy_errors *errors)
{
    json_array(json, "errors");
    for (size_t i = 0; i < errors->count; i++) {
        const struct policy_error *error = &errors->items[i];
        json_object(json, NULL);
        json_string(json, "file", error->file);
        json_uint(json, "line", error->line);
        json_uint(json, "column", error->column);
        json_string(json, "path", error->path);
        json_string(json, "message", error->message);
        json_end(json);
    }
    json_end(json);
}

int source_exit(enum policy_status status)
{
    if (status == POLICY_OK)
        return EXIT_GOOD;
    if (status == POLICY_NO_MEMORY)
        must(NULL);
    return status == POLICY_BAD ? EXIT_FAILED : EXIT_TROUBLE;
}

int source_load(const char *operand, struct policy **policy, char **text)
{
    struct policy_errors errors = {0};
    enum policy_status status;
    *text = NULL;
    if (operand && is_stdin(operand)) {
        size_t len = 0;
        int error = source_read(operand, text, &len);
        if (error) {
            complain("cannot read standard input: %s", strerror(error));
            return EXIT_TROUBLE;
        }
        status = policy_parse(*text, len, source_name(operand), getenv("WEIR_CONF"), &errors, policy);
        /* The library takes the text as a string; the parser has refused any NUL within by now. */
        *text = must(realloc(*text, len + 1));
        (*text)[len] = '\0';
    } else {
        status = policy_load(operand, &errors, policy);
    }
    source_print_errors(&errors);
    policy_errors_clear(&errors);
    if (status != POLICY_OK) {
        free(*text);
        *text = NULL;
    }
    return source_exit(status);
}
