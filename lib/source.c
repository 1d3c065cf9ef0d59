/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/environment.h"

weir_status weir__source_environment(weir_error *error)
{
    if (policy_environment_read())
        return WEIR_OK;
    return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the variables of the environment");
}

/* Fills the record with the place of the first error, and with a text that has one line for each error. */
static void put_errors(weir_error *error, weir_status status, const struct policy_errors *errors)
{
    error->status = status;
    snprintf(error->file, sizeof error->file, "%s", errors->items[0].file);
    error->line = errors->items[0].line;
    error->column = errors->items[0].column;
    size_t len = 0;
    for (size_t i = 0; i < errors->count && len + 1 < sizeof error->text; i++) {
        if (i > 0)
            error->text[len++] = '\n';
        int written = policy_error_format(&errors->items[i], error->text + len, sizeof error->text - len);
        len += written < 0 ? 0 : (size_t)written;
    }
}

/* Turns the outcome of reading a policy into a status, and all its errors into one record. Clears the list of errors. */
static weir_status judge(enum policy_status outcome, struct policy_errors *errors, weir_error *error)
{
    static const weir_status statuses[] = {
        [POLICY_OK] = WEIR_OK,
        [POLICY_BAD] = WEIR_BAD_POLICY,
        [POLICY_UNREADABLE] = WEIR_UNREADABLE,
        [POLICY_NO_MEMORY] = WEIR_NO_HOST_MEMORY,
    };
    weir_status status = statuses[outcome];
    if (status != WEIR_OK && errors->count == 0)
        weir__fail(error, status, "no host memory for the policy");
    else if (status != WEIR_OK && error && error->status == WEIR_OK)
        put_errors(error, status, errors);
    policy_errors_clear(errors);
    return status;
}

weir_status weir__source_read(const char *file, const char *text, weir_error *error, struct policy **policy)
{
    struct policy_errors errors = { 0 };
    enum policy_status outcome = text ? policy_parse(text, strlen(text), "policy_text", policy_environment("WEIR_CONF"), &errors, policy)
                                      : policy_load(file, &errors, policy);
    return judge(outcome, &errors, error);
}

/* Returns the path of the file made absolute, so that it stays valid if the program changes its working directory. The caller frees it.
   NULL if host memory runs out. */
static char *absolute(const char *file)
{
    char *path, *directory = file[0] == '/' || strcmp(file, POLICY_BUILTIN) == 0 ? NULL : getcwd(NULL, 0);
    if (!directory) /* the path is absolute, or getcwd() failed because the directory was removed: then keep the relative path */
        path = strdup(file);
    else if (asprintf(&path, "%s/%s", directory, file) < 0)
        path = NULL;
    free(directory);
    return path;
}

weir_status weir__source_open(weir *w, const weir_options *options, weir_error *error)
{
    weir_status status = weir__source_read(options->policy_file, options->policy_text, error, &w->policy);
    if (status != WEIR_OK)
        return status;
    if (options->policy_text)
        w->policy_text = strdup(options->policy_text);
    else
        w->policy_file = absolute(w->policy->file);
    return w->policy_text || w->policy_file ? WEIR_OK : weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the name of the policy");
}

weir_status weir__source_again(const weir *w, weir_error *error, struct policy **policy)
{
    struct policy_errors errors = { 0 };
    if (w->policy_text)
        return weir__source_read(NULL, w->policy_text, error, policy);
    return judge(policy_load_again(w->policy_file, &errors, policy), &errors, error);
}

void weir__source_forget(weir *w)
{
    free(w->policy_text);
    free(w->policy_file);
}

weir_status weir__source_override(const struct policy *before, const char *assignments, weir_error *error, struct policy **after)
{
    struct policy_errors errors = { 0 };
    return judge(policy_override(before, assignments, &errors, after), &errors, error);
}

weir_status weir__source_compare(const struct policy *before, const struct policy *after, weir_error *error)
{
    struct policy_errors errors = { 0 };
    return judge(policy_compare(before, after, &errors), &errors, error);
}
