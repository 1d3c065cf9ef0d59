/* SPDX-License-Identifier: MIT */
/* symbols_data.h - a shared object whose functions and lines are known: what symbols_data.c says at its #line, and its build id in
 * local.mk. */
#ifndef WEIR_SYMBOLS_DATA_H
#define WEIR_SYMBOLS_DATA_H

#define SYMBOLS_BUILD_ID "feedbeef00112233445566778899aabb"
#define SYMBOLS_FILE "/known/place.c"
#define SYMBOLS_LINE 1002 /* of the call in each function */

typedef void *(*symbols_callback)(void);

/* Each calls the function, which returns its own return address, and passes that on. */
__attribute__((visibility("default"))) void *symbols_call(symbols_callback callback);
/* From a function that only a table with debug information names. */
__attribute__((visibility("default"))) void *symbols_call_hidden(symbols_callback callback);
/* From a function of a C++ name. */
__attribute__((visibility("default"))) void *symbols_call_mangled(symbols_callback callback) __asm__("_ZN5known4callEPFPvvE");

#endif
