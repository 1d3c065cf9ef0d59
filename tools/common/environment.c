/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/environment.h"

#include <stdlib.h>

const char *variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}
