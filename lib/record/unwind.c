/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/unwind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define OWN_MAX 16       /* innermost frames that count_own() can remove as Weir's own */
#define OWN_FIRST 4      /* the most of them that belong to this file, or to a sanitizer that intercepts backtrace() */
#define STARTUP_FRAMES 3 /* outermost frames, of the C library, which call main() or a thread's function and mostly lack frame pointers */
#define LEAST_COMPARED 2 /* frames that two ways must have in common to agree: a single one is the same in any two stacks */
#define ROOM (WEIR__UNWIND_MAX + OWN_MAX)

/*
 * On aarch64 a function may sign its return address (pointer authentication). libunwind up to 1.8 uses a signed address as it is: the stack
 * ends there, or the process crashes. The other two ways handle signed addresses, and nearly all code on aarch64 has frame pointers.
 */
#if defined(__aarch64__)
#define LIBUNWIND_IS_SAFE false
#else
#define LIBUNWIND_IS_SAFE true
#endif

static const char *const names[WEIR__UNWIND_WAYS] = {"none", "libunwind", "frame pointers", "backtrace"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*unw_backtrace)(void **buffer, int size); /* written under `once`; NULL if libunwind is not used */
static uintptr_t own_low, own_high;                   /* written under `once`; where Weir's code lies, 0 if Weir is linked statically */
static _Atomic enum weir__unwind_way chosen;          /* written once, after the variables above */

/* The state of each thread. */
static __thread struct {
    bool is_inside;      /* the thread is unwinding: a nested call gets no frames */
    bool has_limits;     /* find_limits() was called */
    uintptr_t low, high; /* the bounds of the thread's stack; both 0 if they are unknown */
} self;

/* A visitor for dl_iterate_phdr(). Sets own_low and own_high to the code of the shared library that contains this function. If the program
   itself contains it, leaves them 0. */
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
 * Loads libunwind, if it is installed. It is never unloaded, since threads keep caches that belong to libunwind. In a set-user-ID program
 * the loader searches only the system's directories, so loading is safe. Under the thread sanitizer libunwind is not used: when a thread
 * ends, libunwind takes a lock to free the thread's caches, at a time when the sanitizer does not know the thread any more.
 */
static void load(void)
{
    void *warm[ROOM];
    dl_iterate_phdr(find_own, NULL);
    if (!LIBUNWIND_IS_SAFE || dlsym(RTLD_DEFAULT, "__tsan_init"))
        return;
    /* Load libunwind into the program's linker namespace, even if this library is in another one (LD_AUDIT): libunwind must know the
       program's code. */
    void *library = dlmopen(LM_ID_BASE, "libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&unw_backtrace = dlsym(library, "unw_backtrace");
    if (unw_backtrace && unw_backtrace(warm, ROOM) <= 0)
        unw_backtrace = NULL;
}

/* Finds the bounds of the calling thread's stack. Called once for each thread, since it is slow: for the main thread the C library reads a
   file in /proc. */
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

/* Returns the address without the signature bits that pointer authentication puts into a return address. */
static inline void *plain_address(uintptr_t pc)
{
#if defined(__aarch64__)
    register uintptr_t link __asm__("x30") = pc;
    __asm__("hint #7" : "+r"(link)); /* the instruction xpaclri, which older processors execute as a no-op */
    return (void *)link;
#else
    return (void *)pc;
#endif
}

/* Sanitizers are off here, since the function reads words in the stack frames of other functions. */
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

/* Follows the frame pointers of the calling thread. The function is inlined into its caller, which gets a frame pointer by that. On a stack
   other than the thread's own, such as a coroutine's, it finds only the caller's frame. */
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

/* Returns whether the calling thread's stack has frame pointers throughout: whether they give the same frames as backtrace(). If a function
   in between was built without them, the chain goes astray. Inlined into the caller, as follow_frames() is. */
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

/* The first call of backtrace() loads a library. has_frame_pointers() makes that call here, so that no allocation has to. */
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

/* Returns how many of the innermost frames are Weir's own: first the frames of this file, which end with the return address `caller`, then
   the frames in Weir's shared library. */
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

/* Unwinds by the given way and removes Weir's own frames. The function is inlined into weir__unwind() and weir__unwind_by(), whose return
   address count_own() looks for; these two are not inlined. */
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
