/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/trace/place.h"
#include "policy/keys.h"

struct weir__trace_files {
    char directory[POLICY_FILE_NAME_MAX + 1]; /* of dumps; "": there are none */
    unsigned dumps;
    bool is_dumping;     /* somebody begins one */
    char *policy;        /* its values, a line each */
    struct weir__trace *whole; /* record.file; of the opener and the closer alone, as are the next two */
    struct weir__trace_place whole_file;
    bool must_drop;            /* remove the file of `whole` when the trace has ended */
    struct weir__trace *dump;  /* the last dump, or NULL */
};

/* Begins a trace in a new file. If that fails, removes the file, and returns the status with the error filled. */
static weir_status begin(weir *w, const char *name, enum weir__trace_span span, const char *reason, weir_error *error,
                         struct weir__trace_place *file, struct weir__trace **trace)
{
    char why[WEIR__TRACE_WHY_MAX];
    int fd, code = weir__trace_place_make(name, 0, why, &fd, file);
    if (code)
        return weir__fail(error, code == EEXIST ? WEIR_BUSY : WEIR_INVALID, "%s", why);
    weir_status status = weir__trace_start(w, fd, span, reason, error, trace);
    if (status != WEIR_OK)
        weir__trace_place_drop(file);
    return status;
}

/* What the policy asks for ------------------------------------------------------------------------------------------------------------- */

/* The text of the policy's values while it is being made. With text NULL only its length is computed. */
struct values {
    char *text;
    size_t len;
};

static void add_value(const struct policy_value *value, void *data)
{
    struct values *values = data;
    char *at = values->text ? values->text + values->len : NULL;
    values->len += strlen(value->path) + strlen(value->text) + sizeof ": \n" - 1;
    if (at)
        sprintf(at, "%s: %s\n", value->path, value->text);
}

/* Returns the policy's values as text, one on each line, or NULL if host memory runs out. */
static char *describe(const struct policy *policy)
{
    struct values values = {.len = 0};
    policy_each_value(policy, add_value, &values);
    values = (struct values){.text = malloc(values.len + 1)};
    if (values.text)
        policy_each_value(policy, add_value, &values);
    return values.text;
}

void weir__trace_files_set(weir *w, const struct policy *policy)
{
    struct weir__trace_files *files = w->trace_files;
    char *text = describe(policy);
    pthread_mutex_lock(&w->leaf);
    snprintf(files->directory, sizeof files->directory, "%s", policy->record_dump ? policy->record_dump : "");
    char *former = files->policy;
    files->policy = text;
    pthread_mutex_unlock(&w->leaf);
    free(former);
}

char *weir__trace_files_policy(weir *w)
{
    struct weir__trace_files *files = w->trace_files;
    pthread_mutex_lock(&w->leaf);
    char *copy = files->policy ? strdup(files->policy) : NULL;
    pthread_mutex_unlock(&w->leaf);
    return copy;
}

bool weir__trace_files_begin(weir *w, const struct policy *policy)
{
    struct weir__trace_files *files = calloc(1, sizeof *files);
    weir_error error = WEIR_ERROR_INIT;
    if (!files)
        return false;
    w->trace_files = files;
    weir__trace_files_set(w, policy);
    if (!policy->record_file)
        return true;
    if (begin(w, policy->record_file, WEIR__TRACE_FROM_OPEN, "file", &error, &files->whole_file, &files->whole) != WEIR_OK)
        weir__log(w, WEIR_LOG_ERROR, "no trace is written (record.file): %s", error.text);
    return true;
}

void weir__trace_files_drop(weir *w)
{
    if (w->trace_files)
        w->trace_files->must_drop = true;
}

void weir__trace_files_settle(weir *w)
{
    struct weir__trace_files *files = w->trace_files;
    if (files && files->whole)
        weir__trace_settle(files->whole);
    if (!files || !files->dump)
        return;
    weir__trace_end(files->dump);
    files->dump = NULL;
}

void weir__trace_files_finish(weir *w)
{
    struct weir__trace_files *files = w->trace_files;
    pthread_mutex_lock(&w->leaf);
    struct weir__trace *whole = files->whole;
    files->whole = NULL;
    pthread_mutex_unlock(&w->leaf);
    if (!whole)
        return;
    weir__trace_settle(whole);
    weir__trace_end(whole);
}

void weir__trace_files_end(weir *w)
{
    struct weir__trace_files *files = w->trace_files;
    if (!files)
        return;
    if (files->whole)
        weir__trace_end(files->whole);
    if (files->whole && files->must_drop)
        weir__trace_place_drop(&files->whole_file);
    free(files->policy);
    free(files);
    w->trace_files = NULL;
}

/* Dumps -------------------------------------------------------------------------------------------------------------------------------- */

/* One dump at a time, as the next out-of-memory mostly comes at once and has the same story. true: it is the caller's, who ends the former
   one. */
static bool claim(weir *w, char directory[static POLICY_FILE_NAME_MAX + 1], unsigned *number, struct weir__trace **former)
{
    struct weir__trace_files *files = w->trace_files;
    pthread_mutex_lock(&w->leaf);
    bool is_due = files->directory[0] && files->dumps < WEIR__TRACE_DUMPS_MAX && !files->is_dumping &&
                  (!files->dump || weir__trace_is_over(files->dump));
    if (is_due) {
        files->is_dumping = true;
        *former = files->dump;
        files->dump = NULL;
        *number = files->dumps;
        memcpy(directory, files->directory, sizeof files->directory);
    }
    pthread_mutex_unlock(&w->leaf);
    return is_due;
}

/* Begins a dump in a file with the next number for which no file exists yet, and sets *number to that number. */
static weir_status begin_dump(weir *w, const char *directory, unsigned *number, weir_error *error, struct weir__trace **dump)
{
    weir_status status = WEIR_BUSY;
    struct weir__trace_place file = {.device = 0};
    while (status == WEIR_BUSY && *number < WEIR__TRACE_DUMPS_MAX) {
        char name[2 * WEIR__TRACE_PATH_MAX];
        size_t len = 0;
        for (const char *at = directory; *at; at++)
            len += (size_t)snprintf(name + len, sizeof name - len, *at == '%' ? "%%%%" : "%c", *at);
        snprintf(name + len, sizeof name - len, "/weir-%%p-%u.weir", ++*number);
        weir_error_clear(error);
        status = begin(w, name, WEIR__TRACE_UNTIL_NOW, "out of memory", error, &file, dump);
    }
    return status;
}

void weir__trace_files_dump(weir *w)
{
    struct weir__trace_files *files = w->trace_files;
    weir_error error = WEIR_ERROR_INIT;
    struct weir__trace *former, *dump = NULL;
    char directory[sizeof files->directory];
    unsigned number;
    if (!claim(w, directory, &number, &former))
        return;
    if (former)
        weir__trace_end(former);
    if (begin_dump(w, directory, &number, &error, &dump) != WEIR_OK)
        weir__log(w, WEIR_LOG_ERROR, "no trace of an out-of-memory is written (record.dump): %s", error.text);
    pthread_mutex_lock(&w->leaf);
    files->dump = dump;
    files->dumps = number;
    files->is_dumping = false;
    pthread_mutex_unlock(&w->leaf);
}
