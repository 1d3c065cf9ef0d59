/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static __thread weir_error last_error;

static const struct {
    weir_status status;
    const char *name;
    const char *text;
} statuses[] = {
#define STATUS_ROW(name, number, text) { name, #name, text },
    WEIR_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const struct {
    int code;
    weir_status status;
} codes[] = {
    { GPU_SUCCESS, WEIR_OK },
    { GPU_OUT_OF_MEMORY, WEIR_OUT_OF_MEMORY },
    { GPU_NO_DEVICE, WEIR_NO_GPU },
    { GPU_INSUFFICIENT_DRIVER, WEIR_NO_GPU },
    { GPU_INVALID_DEVICE, WEIR_NOT_FOUND },
    { GPU_NOT_SUPPORTED, WEIR_NOT_SUPPORTED },
    { GPU_PEER_ACCESS_UNSUPPORTED, WEIR_NOT_SUPPORTED },
    { GPU_CAPTURE_UNSUPPORTED, WEIR_CAPTURING },
    { GPU_CAPTURE_INVALIDATED, WEIR_CAPTURING },
    { GPU_CAPTURE_IMPLICIT, WEIR_CAPTURING },
};

const char *weir_status_name(weir_status status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "WEIR_UNKNOWN";
}

const char *weir_status_text(weir_status status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "a status of a later version";
}

weir_status weir__status_of(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return codes[i].status;
    return WEIR_CUDA_ERROR;
}

__attribute__((format(printf, 4, 0)))
static void fill(weir_error *error, weir_status status, int code, const char *format, va_list arguments)
{
    if (!error || error->status != WEIR_OK)
        return;
    error->status = status;
    error->cuda_code = code;
    vsnprintf(error->text, sizeof error->text, format, arguments);
}

weir_status weir__fail(weir_error *error, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, 0, format, arguments);
    va_end(arguments);
    return status;
}

weir_status weir__fail_gpu(weir_error *error, const struct gpu *gpu, int code, const char *format, ...)
{
    weir_status status = weir__status_of(code);
    if (!error || error->status != WEIR_OK)
        return status;
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, code, format, arguments);
    va_end(arguments);
    size_t len = strlen(error->text);
    snprintf(error->text + len, sizeof error->text - len, ": %s: %s", gpu->code_name(code), gpu->code_text(code));
    return status;
}

weir_status weir__fail_at(weir_error *error, weir_status status, struct policy_place place, const char *format, ...)
{
    char message[1024], where[320] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (!error || error->status != WEIR_OK)
        return status;
    if (place.file && place.line)
        snprintf(where, sizeof where, "%s:%u:%u: ", place.file, place.line, place.column);
    else if (place.file)
        snprintf(where, sizeof where, "%s: ", place.file);
    weir__fail(error, status, "%s%s: %s", where, place.path, message);
    snprintf(error->file, sizeof error->file, "%s", place.file ? place.file : "");
    error->line = place.line;
    error->column = place.column;
    return status;
}

void weir_error_clear(weir_error *error)
{
    if (!error)
        return;
    /* Clearing these members marks the record as empty. Clearing all of it would cost more: the text alone is several KiB long. */
    error->status = WEIR_OK;
    error->cuda_code = 0;
    error->line = error->column = 0;
    error->file[0] = error->text[0] = '\0';
}

weir_error *weir__last_error_reset(void)
{
    weir_error_clear(&last_error);
    return &last_error;
}

void weir_last_error(weir_error *error)
{
    if (error)
        *error = last_error;
}

const char *weir_version(void)
{
    return PACKAGE_VERSION;
}
