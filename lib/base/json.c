/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/json.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

size_t weir__json_character(const char **text, char escaped[WEIR__JSON_CHARACTER])
{
    unsigned char first = (unsigned char)**text;
    size_t len = weir__utf8_len(*text);
    if (first == '\0')
        return 0;
    if (len == 0)
        snprintf(escaped, WEIR__JSON_CHARACTER, "\\ufffd");
    else if (first == '"' || first == '\\')
        snprintf(escaped, WEIR__JSON_CHARACTER, "\\%c", first);
    else if (first == '\n')
        snprintf(escaped, WEIR__JSON_CHARACTER, "\\n");
    else if (first < 0x20 || first == 0x7F)
        snprintf(escaped, WEIR__JSON_CHARACTER, "\\u%04x", first);
    else if (first == 0xC2 && (unsigned char)(*text)[1] < 0xA0)
        snprintf(escaped, WEIR__JSON_CHARACTER, "\\u%04x", (unsigned char)(*text)[1]);
    else
        snprintf(escaped, WEIR__JSON_CHARACTER, "%.*s", (int)len, *text);
    *text += len ? len : 1;
    return strlen(escaped);
}
