/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/utf8.h"

size_t weir__utf8_len(const char *text)
{
    /* First bytes, second bytes and length, as in the Unicode standard's table of well-formed sequences. */
    static const struct {
        unsigned char first, last, low, high, len;
    } forms[] = {
        {0x00, 0x7F, 0x00, 0xFF, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    const unsigned char *bytes = (const unsigned char *)text;
    size_t form = 0, count = sizeof(forms) / sizeof(forms[0]);
    while (form < count && (bytes[0] < forms[form].first || bytes[0] > forms[form].last))
        form++;
    size_t len = form < count ? forms[form].len : 0;
    if (len > 1 && (bytes[1] < forms[form].low || bytes[1] > forms[form].high))
        return 0;
    for (size_t i = 2; i < len; i++)
        if (bytes[i] < 0x80 || bytes[i] > 0xBF)
            return 0;
    return len;
}
