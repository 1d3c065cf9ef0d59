/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/environment.h"
#include "tools/common/complain.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The Makefile has that of this installation. */
#ifndef WEIR_BINDIR
#define WEIR_BINDIR "/usr/local/bin"
#endif

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

char *installed_path(const char *configured, const char *below)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    if (slash) {
        *slash = 0;
        char *path = strcmp(self, WEIR_BINDIR) != 0 ? format_text("%s/../%s", self, below) : NULL;
        char *whole = path ? realpath(path, NULL) : NULL;
        free(path);
        if (whole)
            return whole;
    }
    return must(strdup(configured));
}
