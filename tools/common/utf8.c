/* SPDX-License-Identifier: MIT */
#include "tools/common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"

/* Whether the sequence there is a control character (C0, DEL, C1), or one of the marks U+202A to U+202E and U+2066 to U+2069. */
static bool acts_on_terminals(const unsigned char *at)
{
    return at[0] < 0x20 || at[0] == 0x7F || (at[0] == 0xC2 && at[1] < 0xA0) ||
           (at[0] == 0xE2 && at[1] == 0x80 && at[2] >= 0xAA && at[2] <= 0xAE) ||
           (at[0] == 0xE2 && at[1] == 0x81 && at[2] >= 0xA6 && at[2] <= 0xA9);
}

size_t utf8_next_plain(const char **text, char piece[UTF8_PLAIN])
{
    const unsigned char *at = (const unsigned char *)*text;
    size_t len = weir__utf8_len(*text);
    if (*at == '\0')
        return 0;
    if (len && !acts_on_terminals(at)) {
        memcpy(piece, at, len);
        *text += len;
        return len;
    }
    snprintf(piece, UTF8_PLAIN, "\\x%02x", *at);
    *text += 1;
    return UTF8_PLAIN - 1;
}

char *utf8_plain(const char *text, bool has_lines)
{
    char piece[UTF8_PLAIN], *plain = malloc((UTF8_PLAIN - 1) * strlen(text) + 1), *to = plain;
    for (size_t len; plain && *text; to += len) {
        bool is_line = has_lines && strncmp(text, "\n  ", 3) == 0;
        len = is_line ? 1 : utf8_next_plain(&text, piece);
        memcpy(to, is_line ? text++ : piece, len);
    }
    if (plain)
        *to = '\0';
    return plain;
}

char *utf8_label(const char *text)
{
    char piece[UTF8_PLAIN] = "", *label = malloc(UTF8_PLAIN * strlen(text) + 1), *to = label;
    for (size_t len; label && *text; to += len) {
        bool is_backslash = *text == '\\';
        len = is_backslash ? (size_t)snprintf(piece, sizeof piece, "\\x5c") : utf8_next_plain(&text, piece);
        text += is_backslash;
        if (piece[0] == '\\' || piece[0] == '"')
            *to++ = '\\';
        memcpy(to, piece, len);
    }
    if (label)
        *to = '\0';
    return label;
}

const char *utf8_shown(char buffer[SHOWN_LEN], const char *text)
{
    char piece[UTF8_PLAIN];
    size_t used = 0;
    for (size_t len; used < SHOWN_LEN - 8 && (len = utf8_next_plain(&text, piece)) > 0; used += len)
        memcpy(buffer + used, piece, len);
    memcpy(buffer + used, *text ? "..." : "", *text ? sizeof "..." : 1);
    return buffer;
}
