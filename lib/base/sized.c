/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/sized.h"

#include <string.h>

#include "lib/base/error.h"

#define SIZE_MOST 4096 /* no release has larger structs, so a larger size means that the program has not set the member */

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

weir_status weir__sized_check(const void *given, const char *name, weir_error *error)
{
    size_t size = size_of(given);
    if (size < sizeof size || size > SIZE_MOST || size % _Alignof(size_t))
        return weir__fail(error, WEIR_INVALID, "%s.size is %zu: set it to sizeof(%s) before the call", name, size, name);
    return WEIR_OK;
}

weir_status weir__sized_read(const void *given, const char *name, void *known, size_t known_size, weir_error *error)
{
    weir_status status = weir__sized_check(given, name, error);
    if (status != WEIR_OK)
        return status;
    size_t size = size_of(given);
    for (size_t i = known_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return weir__fail(error, WEIR_INVALID,
                              "%s is of a later version than this library (%s), and its byte %zu, beyond the %zu known here, is not 0: "
                              "leave newer members at 0, or use a later libweir",
                              name, weir_version(), i, known_size);
    memset(known, 0, known_size);
    memcpy(known, given, size < known_size ? size : known_size);
    memcpy(known, &known_size, sizeof known_size);
    return WEIR_OK;
}

void weir__sized_write(void *given, const void *known, size_t known_size)
{
    size_t size = size_of(given), shared = size < known_size ? size : known_size;
    memcpy((char *)given + sizeof size, (const char *)known + sizeof size, shared - sizeof size);
    memset((char *)given + shared, 0, size - shared);
}
