/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/environment.h"
#include "tools/common/complain.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}

char *format_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = make_text(format, args);
    va_end(args);
    return text;
}

void set_variable(const char *name, char *value)
{
    if (setenv(name, value, 1))
        must(NULL);
    free(value);
}

char *absolute_path(const char *path)
{
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *whole = here ? format_text("%s/%s", here, path) : must(strdup(path));
    free(here);
    return whole;
}
