/* SPDX-License-Identifier: MIT */
/* processes_text.c - processes as the rows of commands and as JSON documents show them. */
#include "config.h"

#include "tools/common/processes.h"

#include <pwd.h>
#include <stdio.h>

const char *process_name(const struct process *process, struct text *text)
{
    int len = snprintf(text->chars, sizeof text->chars, "%d", process->pid);
    if (process->number > 1 || process->has_siblings)
        len += snprintf(text->chars + len, sizeof text->chars - (size_t)len, ".%u", process->number);
    if (process->is_elsewhere)
        snprintf(text->chars + len, sizeof text->chars - (size_t)len, "*");
    return text->chars;
}

const char *process_user(uint32_t uid, struct text *text)
{
    const struct passwd *user = getpwuid(uid);
    if (user)
        snprintf(text->chars, sizeof text->chars, "%s", user->pw_name);
    else
        snprintf(text->chars, sizeof text->chars, "%u", (unsigned)uid);
    return text->chars;
}

const char *process_age(uint64_t age_ms, struct text *text)
{
    static const struct {
        const char *name;
        uint64_t seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    uint64_t seconds = age_ms / 1000;
    size_t unit = 0;
    while (units[unit].seconds > 1 && seconds < 2 * units[unit].seconds)
        unit++;
    snprintf(text->chars, sizeof text->chars, "%llu %s", (unsigned long long)(seconds / units[unit].seconds), units[unit].name);
    return text->chars;
}

void process_json(struct json *json, const struct process *process)
{
    json_object(json, NULL);
    json_uint(json, "pid", (uint64_t)process->pid);
    json_uint(json, "number", process->number);
    json_bool(json, "is_elsewhere", process->is_elsewhere);
    json_string(json, "socket", process->socket);
    json_string(json, "program", figure_text(process->figures, "program"));
    json_string(json, "status", weir_status_name(process->status));
    if (process->status != WEIR_OK)
        json_string(json, "reason", process->reason);
}

void processes_json(const struct processes *processes, void (*more)(struct json *json, const struct process *process),
                    void (*rest)(struct json *json), int status, bool in_line)
{
    struct json json = JSON_INIT(stdout);
    if (in_line)
        json_in_line(&json);
    json_object(&json, NULL);
    json_array(&json, "processes");
    for (size_t i = 0; i < processes->count; i++) {
        process_json(&json, &processes->items[i]);
        if (more)
            more(&json, &processes->items[i]);
        json_end(&json);
    }
    json_end(&json);
    if (rest)
        rest(&json);
    json_uint(&json, "status", (uint64_t)status);
    json_end(&json);
}
