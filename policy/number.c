/* SPDX-License-Identifier: MIT */
#include "policy/number.h"

#include <ctype.h>

#define FRACTION_DIGITS 18 /* more are finer than any unit */

enum policy_number_status policy_number_read(const char *text, struct policy_number *number)
{
    if (text[0] == '-' && isdigit((unsigned char)text[1]))
        return POLICY_NUMBER_NEGATIVE;
    if (!isdigit((unsigned char)text[0]))
        return POLICY_NUMBER_NONE;
    if (text[0] == '0' && isdigit((unsigned char)text[1]))
        return POLICY_NUMBER_LEADING_ZERO;
    struct policy_number read = {.scale = 1};
    for (; isdigit((unsigned char)*text); text++) {
        if (__builtin_mul_overflow(read.whole, 10, &read.whole) || __builtin_add_overflow(read.whole, *text - '0', &read.whole))
            return POLICY_NUMBER_TOO_LARGE;
    }
    if (text[0] == '.') {
        if (!isdigit((unsigned char)*++text))
            return POLICY_NUMBER_NONE;
        for (int digits = 0; isdigit((unsigned char)*text); text++, digits++) {
            if (digits == FRACTION_DIGITS)
                return POLICY_NUMBER_TOO_FINE;
            read.fraction = read.fraction * 10 + (uint64_t)(*text - '0');
            read.scale *= 10;
        }
    }
    read.unit = text;
    *number = read;
    return POLICY_NUMBER_OK;
}

enum policy_number_status policy_number_scale(const struct policy_number *number, uint64_t factor, uint64_t *value)
{
    /* Below 2^64 * 2^64, and 10^18 * 2^64: both fit. */
    unsigned __int128 fraction = (unsigned __int128)number->fraction * factor;
    if (fraction % number->scale != 0)
        return POLICY_NUMBER_TOO_FINE;
    unsigned __int128 product = (unsigned __int128)number->whole * factor;
    if (product > UINT64_MAX || product + fraction / number->scale > UINT64_MAX)
        return POLICY_NUMBER_TOO_LARGE;
    *value = (uint64_t)(product + fraction / number->scale);
    return POLICY_NUMBER_OK;
}
