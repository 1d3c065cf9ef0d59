/* SPDX-License-Identifier: MIT */
/*
 * number.h - decimal numbers with a unit, exactly: no binary fraction is involved. Pure.
 */
#ifndef WEIR_POLICY_NUMBER_H
#define WEIR_POLICY_NUMBER_H

#include <stdint.h>

enum policy_number_status {
    POLICY_NUMBER_OK,
    POLICY_NUMBER_NONE, /* does not begin with a number */
    POLICY_NUMBER_NEGATIVE,
    POLICY_NUMBER_LEADING_ZERO, /* 010 is eight in some dialects, so it is nothing here */
    POLICY_NUMBER_TOO_LARGE,
    POLICY_NUMBER_TOO_FINE, /* the fraction is no whole number of the smallest unit */
};

struct policy_number {
    uint64_t whole;
    uint64_t fraction; /* of scale */
    uint64_t scale;    /* a power of ten */
    const char *unit;  /* what follows, in the text that was read */
};

/* Reads digits, and digits behind a dot. *number is set on POLICY_NUMBER_OK only. */
enum policy_number_status policy_number_read(const char *text, struct policy_number *number);
/* number * factor, if that is a whole number that fits. */
enum policy_number_status policy_number_scale(const struct policy_number *number, uint64_t factor, uint64_t *value);

#endif
