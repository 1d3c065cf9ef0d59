/* SPDX-License-Identifier: MIT */
#include "tests/unit/symbols_data.h"

/* Written behind each call, which is no function's last deed then, so that it leaves a frame, and differently, so that none is folded. */
static volatile int called;

#line 1000 SYMBOLS_FILE
void *symbols_call(symbols_callback callback)
{
    void *result = callback();
    called = 1;
    return result;
}

#line 1000 SYMBOLS_FILE
static __attribute__((noinline)) void *hidden_call(symbols_callback callback)
{
    void *result = callback();
    called = 2;
    return result;
}

void *symbols_call_hidden(symbols_callback callback)
{
    void *result = hidden_call(callback);
    called = 3;
    return result;
}

#line 1000 SYMBOLS_FILE
void *symbols_call_mangled(symbols_callback callback)
{
    void *result = callback();
    called = 4;
    return result;
}
