/* SPDX-License-Identifier: MIT */
#include "tools/common/source.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool source_is_stream(const char *path)
{
    struct stat info;
    return is_stdin(path) || (!policy_is_name(path) && stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

const char *source_name(const char *path)
{
    return is_stdin(path) ? "standard input" : path;
}

int source_read(const char *path, size_t most, char **text, size_t *len)
{
    FILE *in = is_stdin(path) ? stdin : fopen(path, "re");
    if (!in)
        return errno;
    char *bytes = must(malloc(most + 1));
    errno = 0;
    size_t got = fread(bytes, 1, most + 1, in);
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

int source_path(const char *operand, char **path)
{
    struct policy_errors errors = {0};
    int status = source_exit(policy_path(operand, &errors, path));
    source_print_errors(&errors);
    policy_errors_clear(&errors);
    return status;
}

void source_print_errors(const struct policy_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        complain_of_policy(&errors->items[i]);
}

void source_json_errors(struct json *json, const struct policy_errors *errors)
{
    json_array(json, "errors");
    for (size_t i = 0; i < errors->count; i++)
        complaint_json(json, &errors->items[i]);
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

/* Reads what can be read only once, as the library refuses it. */
static int load_stream(const char *operand, struct policy_errors *errors, struct policy **policy, char **text)
{
    size_t len = 0;
    int error = source_read(operand, POLICY_FILE_MAX, text, &len);
    if (error) {
        complain("cannot read %s: %s", source_name(operand), strerror(error));
        return EXIT_TROUBLE;
    }
    enum policy_status status = policy_parse(*text, len, source_name(operand), variable("WEIR_CONF"), errors, policy);
    /* The library takes the text as a string; the parser has refused any NUL within by now. */
    *text = must(realloc(*text, len + 1));
    (*text)[len] = '\0';
    return source_exit(status);
}

int source_load(const char *operand, struct policy **policy, char **text)
{
    struct policy_errors errors = {0};
    *text = NULL;
    int status = operand && source_is_stream(operand) ? load_stream(operand, &errors, policy, text) : source_exit(policy_load(operand, &errors, policy));
    source_print_errors(&errors);
    policy_errors_clear(&errors);
    if (status != EXIT_GOOD) {
        free(*text);
        *text = NULL;
    }
    return status;
}
