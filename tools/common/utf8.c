/* SPDX-License-Identifier: MIT */
#include "tools/common/utf8.h"

#include "lib/base/utf8.h"

size_t utf8_next(const char **text, const char **piece)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t len = weir__utf8_len(*text);
    if (**text == '\0')
        return 0;
    *piece = len ? *text : replacement;
    *text += len ? len : 1;
    return len ? len : sizeof replacement - 1;
}

size_t utf8_clean_len(const char *text)
{
    const char *piece;
    size_t whole = 0;
    for (size_t len; (len = utf8_next(&text, &piece)) > 0;)
        whole += len;
    return whole;
}
