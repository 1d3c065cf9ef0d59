/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/unwind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define OWN_MAX 16       /* frames of Weir's own that are looked at and left out */
#define OWN_FIRST 4      /* of them in this file, and of a sanitizer that stands before backtrace() */
#define STARTUP_FRAMES 3 /* of the C library below main() and below a thread's function: those have no frame pointers as a rule */
#define LEAST_COMPARED 2 /* frames that must be the same in both ways: one is in every stack */
#define ROOM (WEIR__UNWIND_MAX + OWN_MAX)

/*
 * On aarch64 a function may sign its return address. libunwind up to 1.8 follows such an address as it is: the stack ends there, or the
 * process with it. Frame pointers, which nearly all code has there, and backtrace() know of signatures.
 */
#if defined(__aarch64__)
#define LIBUNWIND_IS_SAFE false
#else
#define LIBUNWIND_IS_SAFE true
#endif

static const char *const names[WEIR__UNWIND_WAYS] = {"none", "libunwind", "frame pointers", "backtrace"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*unw_backtrace)(void **buffer, int size); /* written under `once`; NULL: there is no libunwind */
static uintptr_t own_low, own_high;                   /* likewise: the code of the shared library that Weir is in, or nothing */
static _Atomic enum weir__unwind_way chosen;          /* written once, behind all of the above */

/* What each thread knows of itself. */
static __thread struct {
    bool is_inside;
    bool has_limits;
    uintptr_t low, high; /* the bounds of its stack; 0 and 0: unknown */
} self;

/* Finds the code of the shared library that this file is in; of the program itself nothing is noted. */
static int find_own(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || (uintptr_t)find_own - start >= segment->p_memsz)
            continue;
        if (info->dlpi_name && info->dlpi_name[0]) {
            own_low = start;
            own_high = start + segment->p_memsz;
        }
        return 1;
    }
    return 0;
}

/*
 * Loads libunwind, which stays loaded, as threads have caches of it. In a set-user-ID program the loader looks in the system's folders
 * alone. Under the thread sanitizer libunwind is not used: it takes a lock when it frees the caches of a thread that ends, which the
 * sanitizer no longer knows then.
 */
static void load(void)
{
    void *warm[ROOM];
    dl_iterate_phdr(find_own, NULL);
    if (!LIBUNWIND_IS_SAFE || dlsym(RTLD_DEFAULT, "__tsan_init"))
        return;
    /* Into the program's namespace, whose code libunwind has to know, also if this library is in another one (LD_AUDIT). */
    void *library = dlmopen(LM_ID_BASE, "libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&unw_backtrace = dlsym(library, "unw_backtrace");
    if (unw_backtrace && unw_backtrace(warm, ROOM) <= 0)
        unw_backtrace = NULL;
}

/* Asked once for each thread: for the first thread of a process the C library reads a file of /proc. */
static void find_limits(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    self.has_limits = true;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        self.low = (uintptr_t)low;
        self.high = (uintptr_t)low + size;
    }
    pthread_attr_destroy(&attributes);
}

/* The bits of a return address that processors with pointer authentication sign are no part of it. */
static inline void *plain_address(uintptr_t pc)
{
#if defined(__aarch64__)
    register uintptr_t link __asm__("x30") = pc;
    __asm__("hint #7" : "+r"(link)); /* xpaclri, which older processors pass over */
    return (void *)link;
#else
    return (void *)pc;
#endif
}

/* The words belong to other functions, which sanitizers do not expect to be read. */
__attribute__((no_sanitize_address)) __attribute__((no_sanitize_thread)) unsigned
weir__unwind_follow(uintptr_t frame, uintptr_t low, uintptr_t high, void **pcs, unsigned max)
{
    unsigned count = 0;
    while (count < max && frame % sizeof(uintptr_t) == 0 && frame >= low && frame < high && high - frame >= 2 * sizeof(uintptr_t)) {
        const uintptr_t *words = (const uintptr_t *)frame;
        uintptr_t next = words[0];
        if (!words[1])
            break;
        pcs[count++] = plain_address(words[1]);
        if (next <= frame)
            break;
        frame = next;
    }
    return count;
}

/* In the caller, which has a frame pointer therefore. A stack that is not the thread's, a coroutine's, gives the caller's frame alone. */
static inline __attribute__((always_inline)) unsigned follow_frames(void **pcs, unsigned max)
{
#if defined(__x86_64__) || defined(__aarch64__)
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (!self.has_limits)
        find_limits();
    unsigned count = weir__unwind_follow(frame, self.low, self.high, pcs, max);
    if (count)
        return count;
    pcs[0] = __builtin_return_address(0);
    return 1;
#else
    (void)pcs;
    (void)max;
    return 0;
#endif
}

bool weir__unwind_agree(void *const *frames, unsigned frame_count, void *const *all, unsigned all_count)
{
    if (frame_count < LEAST_COMPARED || frame_count > all_count || all_count - frame_count > STARTUP_FRAMES)
        return false;
    for (unsigned i = 0; i < frame_count; i++) {
        if (frames[i] != all[i])
            return false;
    }
    return true;
}

/* Where something in between was built without frame pointers, what stands in their place leads anywhere. In the caller, as above. */
static inline __attribute__((always_inline)) bool has_frame_pointers(void)
{
    void *frames[ROOM], *all[ROOM];
    unsigned frame_count = follow_frames(frames, ROOM), all_count = (unsigned)backtrace(all, ROOM), skipped = 0;
    while (frame_count && skipped < all_count && all[skipped] != frames[0])
        skipped++;
    return weir__unwind_agree(frames, frame_count, all + skipped, all_count - skipped);
}

bool weir__unwind_can(enum weir__unwind_way way)
{
    bool was_inside = self.is_inside;
    self.is_inside = true;
    pthread_once(&once, load);
    bool can = way == WEIR__UNWIND_BACKTRACE || (way == WEIR__UNWIND_LIBUNWIND && unw_backtrace) ||
               (way == WEIR__UNWIND_FRAME_POINTERS && has_frame_pointers());
    self.is_inside = was_inside;
    return can;
}

/* backtrace() loads a library when it is called first, which looking for frame pointers does here. */
void weir__unwind_prepare(void)
{
    enum weir__unwind_way none = WEIR__UNWIND_NONE, way = WEIR__UNWIND_LIBUNWIND;
    if (self.is_inside || atomic_load_explicit(&chosen, memory_order_acquire))
        return;
    self.is_inside = true;
    pthread_once(&once, load);
    if (!unw_backtrace)
        way = has_frame_pointers() ? WEIR__UNWIND_FRAME_POINTERS : WEIR__UNWIND_BACKTRACE;
    self.is_inside = false;
    atomic_compare_exchange_strong(&chosen, &none, way);
}

const char *weir__unwind_way(void)
{
    return names[atomic_load_explicit(&chosen, memory_order_acquire)];
}

/* How many frames from the innermost are Weir's: those up to the return address `caller`, then those in the library. */
static inline unsigned count_own(void *const *raw, unsigned count, const void *caller)
{
    unsigned own = 0;
    while (own < count && own < OWN_FIRST && raw[own] != caller)
        own++;
    if (own == count || own == OWN_FIRST)
        own = count > 0;
    while (own < count && own < OWN_MAX && (uintptr_t)raw[own] - own_low < own_high - own_low)
        own++;
    return own;
}

/* Its return address is what count_own() looks for, so that it does not become a part of its caller. */
static inline __attribute__((always_inline)) unsigned unwind(enum weir__unwind_way way, uintptr_t *pcs, unsigned max)
{
    void *raw[ROOM];
    if (self.is_inside || !max)
        return 0;
    self.is_inside = true;
    int wanted = (int)(max < WEIR__UNWIND_MAX ? max : WEIR__UNWIND_MAX) + OWN_MAX, found = 0;
    if (way == WEIR__UNWIND_LIBUNWIND && unw_backtrace)
        found = unw_backtrace(raw, wanted);
    else if (way == WEIR__UNWIND_FRAME_POINTERS)
        found = (int)follow_frames(raw, (unsigned)wanted);
    else if (way == WEIR__UNWIND_BACKTRACE)
        found = backtrace(raw, wanted);
    self.is_inside = false;
    unsigned all = found > 0 ? (unsigned)found : 0, own = count_own(raw, all, plain_address((uintptr_t)__builtin_return_address(0)));
    unsigned count = 0;
    while (own < all && count < max && count < WEIR__UNWIND_MAX)
        pcs[count++] = (uintptr_t)raw[own++];
    return count;
}

__attribute__((noinline)) unsigned weir__unwind_by(enum weir__unwind_way way, uintptr_t *pcs, unsigned max)
{
    return unwind(way, pcs, max);
}

__attribute__((noinline)) unsigned weir__unwind(uintptr_t *pcs, unsigned max)
{
    return unwind(atomic_load_explicit(&chosen, memory_order_acquire), pcs, max);
}
