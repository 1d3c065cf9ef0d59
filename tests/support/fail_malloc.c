/* SPDX-License-Identifier: MIT */
#include "tests/support/fail_malloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#define FEATURE(name) __has_feature(name)
#else
#define FEATURE(name) 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !FEATURE(address_sanitizer) &&                \
    !FEATURE(thread_sanitizer) && !FEATURE(memory_sanitizer)
#define REPLACES 1
#else
#define REPLACES 0
#endif

static atomic_uint countdown; /* allocations until the one that fails; 0: none will */
static __thread unsigned countdown_here; /* the same, of this thread's allocations alone */
static atomic_bool happened;
static atomic_long live;

void fail_malloc_at(unsigned nth)
{
    if (nth > 0)
        atomic_store(&happened, false);
    atomic_store(&countdown, nth);
}

void fail_malloc_here_at(unsigned nth)
{
    if (nth > 0)
        atomic_store(&happened, false);
    countdown_here = nth;
}

bool fail_malloc_happened(void)
{
    return atomic_load(&happened);
}

long fail_malloc_live(void)
{
    return atomic_load(&live);
}

bool fail_malloc_works(void)
{
    /* Asked of the allocator itself, since valgrind replaces the functions below behind the program's back. */
    void *(*volatile allocate)(size_t) = malloc;
    fail_malloc_at(1);
    void *block = allocate(1);
    fail_malloc_at(0);
    bool works = block == NULL;
    free(block);
    return works;
}

#if REPLACES
#define EXPORT __attribute__((visibility("default")))

/* glibc's own functions under the names that it keeps for replacements like this one. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);
EXPORT void free(void *block);

static bool fails_now(void)
{
    unsigned left = atomic_load(&countdown);
    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        ;
    bool is_here = countdown_here && --countdown_here == 0;
    if (left != 1 && !is_here)
        return false;
    atomic_store(&happened, true);
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    atomic_fetch_add(&live, block != NULL);
    return block;
}

void *malloc(size_t size)
{
    return fails_now() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size)
{
    if (fails_now())
        return NULL;
    void *moved = __libc_realloc(block, size);
    if (!block)
        counted(moved);
    else if (size == 0 && !moved)
        atomic_fetch_sub(&live, 1); /* glibc frees then */
    return moved;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails_now() ? NULL : counted(__libc_memalign(alignment, size));
}

void free(void *block)
{
    atomic_fetch_sub(&live, block != NULL);
    __libc_free(block);
}
#endif
