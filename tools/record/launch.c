/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/policy.h"
#include "tools/common/child.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/record/any.h"
#include "tools/record/name.h"

#define FILES_SHOWN 8
#define LEVEL "all" /* where none is asked for */

/* The environment -------------------------------------------------------------------------------------------------------------------- */

/* The file as a value in assignments: within quotes, where two stand for one. */
static char *quote(const char *name)
{
    char *out = must(malloc(2 * strlen(name) + 3)), *at = out;
    *at++ = '\'';
    for (; *name; name++) {
        if (*name == '\'')
            *at++ = '\'';
        *at++ = *name;
    }
    *at++ = '\'';
    *at = '\0';
    return out;
}

/* Whether the environment leaves the key to us. false after a complaint. */
static bool is_left(const char *former, const char *key, const char *remedy)
{
    if (!policy_sets(former, key))
        return true;
    complain("record: WEIR_CONF sets %s already: %s", key, remedy);
    return false;
}

/* Puts what is to be recorded on top of what the environment says of the policy. What it says of level and stacks holds, unless others are
   asked for. */
static bool set_assignments(const struct record_launch *launch)
{
    const char *former = variable("WEIR_CONF");
    former = former ? former : "";
    /* The program's own recording, if it has one, is the better one. */
    if (launch->is_any && policy_sets(former, "record.file"))
        return true;
    bool sets_level = launch->level || !policy_sets(former, "record.level");
    if (!is_left(former, "record.file", "take it out, or run the command without weir record") ||
        (launch->level && !is_left(former, "record.level", "take it out, or leave --level away")) ||
        (launch->has_stacks && !is_left(former, "record.stacks", "take it out, or leave --stacks away")))
        return false;
    char *file = quote(launch->name);
    const char *comma = former[strspn(former, " \t\n")] ? "," : "";
    set_variable("WEIR_CONF", format_text("%s%srecord.file=%s%s%s%s", former, comma, file, sets_level ? ",record.level=" : "",
                                          !sets_level ? "" : launch->level ? launch->level : LEVEL,
                                          launch->has_stacks ? ",record.stacks=true" : ""));
    free(file);
    return true;
}

/* What came of it -------------------------------------------------------------------------------------------------------------------- */

/* Returns how many files there are. */
static size_t say_files(const struct record_launch *launch, const struct record_files *before)
{
    struct record_files after = record_files_of(launch->name);
    const char *first = NULL;
    size_t made = 0;
    for (size_t i = 0; i < after.count; i++) {
        struct stat found;
        if (record_files_have(before, after.paths[i]) || lstat(after.paths[i], &found) != 0 || !S_ISREG(found.st_mode))
            continue;
        if (!first && found.st_size)
            first = after.paths[i];
        if (++made > FILES_SHOWN)
            continue;
        if (!found.st_size)
            complain("record: %s is empty: nothing could be written (a full disk, ulimit -f), or its process has just begun", after.paths[i]);
        else
            complain("record: wrote %s, %s", after.paths[i], SIZE_TEXT((uint64_t)found.st_size));
    }
    if (made > FILES_SHOWN)
        complain("record: wrote %zu files more", made - FILES_SHOWN);
    if (first)
        record_say_page(first, made > 1);
    if (made == 0 && !launch->is_any)
        complain("record: %s opened no weir that could write %s: it does not use Weir (PyTorch: weir record -- weir run …), "
                 "was ended before, or its log says why not",
                 launch->command[0], launch->name);
    record_files_free(&after);
    return made;
}

int record_launch(const struct record_launch *launch)
{
    struct child child;
    struct record_any any;
    if (!set_assignments(launch) || (launch->is_any && !record_any_begin(&any, launch->command[0], launch->name, launch->has_stacks)))
        return EXIT_TROUBLE;
    struct record_files before = record_files_of(launch->name);
    int status = child_start(&child, "record", launch->command);
    if (status == 0) {
        int how = child_follow(&child);
        size_t made = say_files(launch, &before);
        if (launch->is_any)
            record_any_end(&any, launch->command[0], made > 0);
        status = child_end_as(&child, how);
    } else if (launch->is_any) {
        record_any_drop(&any);
    }
    record_files_free(&before);
    return status;
}
