/* SPDX-License-Identifier: MIT */
/*
 * audit.c - the functions that the dynamic loader calls in an audit library (rtld-audit(7)). The loader reports each object (executable or
 * shared library) that it loads, among which are the driver and Weir itself, and each symbol that it binds. For a symbol of the driver the
 * program gets a wrapper (calls.c).
 *
 * The loader calls these functions with its own lock held. `lock` guards the list of objects, which the thread that writes traces reads to
 * name the functions of stacks. The child of a fork uses the list only if its parent did not record, so no thread can have held the lock at
 * the fork.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "audit/driver.h"
#include "audit/session.h"
#include "lib/record/modules.h"

/* A loaded object, with the members that dl_iterate_phdr() would report. */
struct object {
    struct object *next;
    const struct link_map *map;
    const ElfW(Phdr) *headers;
    ElfW(Half) count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;
static unsigned long long opened, closed; /* how many objects were ever loaded and unloaded. `lock` guards these and the list */

static bool is_wanted; /* The command that started the program wants it recorded. Written before the first object is reported. */
/* The process has begun to end: objects are no longer removed from the list. */
static bool is_ending;
static const struct link_map *driver, *libc;
static Lmid_t driver_namespace;
void *_Atomic driver_real[DRIVER_FUNCTION_COUNT];

static const struct {
    const char *symbol, *name; /* the name that the driver exports, and the name that cuGetProcAddress() takes */
    int version;
} functions[DRIVER_FUNCTION_COUNT] = {
#define X(id, name, version) {"cu" #id, name, version},
    DRIVER_FUNCTIONS(X)
#undef X
};

/* Objects -------------------------------------------------------------------------------------------------------------------------------- */

static bool is_named(const struct link_map *map, const char *name)
{
    const char *slash = strrchr(map->l_name, '/');
    return strncmp(slash ? slash + 1 : map->l_name, name, strlen(name)) == 0;
}

/* Adds an object to the list. If host memory runs out the object is left out, and functions in it stay without names in stacks. */
static void add_object(const struct link_map *map)
{
    Dl_info found;
    const bool is_program = !map->l_name[0];
    struct object *object = calloc(1, sizeof *object);
    if (!object || (!is_program && !dladdr(map->l_ld, &found))) {
        free(object);
        return;
    }
    const ElfW(Ehdr) *start = is_program ? NULL : found.dli_fbase;
    object->map = map;
    object->headers = (const ElfW(Phdr) *)(is_program ? getauxval(AT_PHDR) : (uintptr_t)start + start->e_phoff);
    object->count = is_program ? (ElfW(Half))getauxval(AT_PHNUM) : start->e_phnum;
    pthread_mutex_lock(&lock);
    struct object **link = &objects; /* append: the program itself comes first, as in the loader's own list */
    while (*link)
        link = &(*link)->next;
    *link = object;
    opened++;
    pthread_mutex_unlock(&lock);
}

static void remove_object(const struct link_map *map)
{
    pthread_mutex_lock(&lock);
    struct object **link = &objects;
    while (*link && (*link)->map != map)
        link = &(*link)->next;
    struct object *object = *link;
    if (object) {
        *link = object->next;
        closed++;
    }
    pthread_mutex_unlock(&lock);
    free(object);
}

/* dl_iterate_phdr() over the list of objects, which includes those that the program loaded. */
static int each_object(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int stopped = 0;
    pthread_mutex_lock(&lock);
    for (const struct object *object = objects; object && !stopped; object = object->next) {
        struct dl_phdr_info info = {.dlpi_addr = object->map->l_addr,
                                    .dlpi_name = object->map->l_name,
                                    .dlpi_phdr = object->headers,
                                    .dlpi_phnum = object->count,
                                    .dlpi_adds = opened,
                                    .dlpi_subs = closed};
        stopped = visit(&info, sizeof info, data);
    }
    pthread_mutex_unlock(&lock);
    return stopped;
}

/* Symbols -------------------------------------------------------------------------------------------------------------------------------- */

/* Stores the driver's own function, and returns the wrapper that the program gets in its place. */
static void *replace(int function, void *real)
{
    atomic_store_explicit(&driver_real[function], real, memory_order_release);
    return driver_wrapper[function];
}

/* Finds out which form of a function `found` is: the first form in the table for whose version the driver gives the same address. An older
   driver gives that form for later versions too. */
void *driver_looked_up(const char *name, void *found, bool is_per_thread, void *(*ask)(void *to, const char *name, int version), void *to)
{
    bool is_ours = false;
    for (int i = 0; i < DRIVER_FUNCTION_COUNT; i++) {
        const bool has_own_stream = strstr(functions[i].symbol, "_ptsz");
        if (strcmp(functions[i].name, name) != 0 || (has_own_stream && !is_per_thread))
            continue;
        is_ours = true;
        if (found == driver_wrapper[i])
            return found;
        if (ask(to, name, functions[i].version) == found)
            return replace(i, found);
    }
    if (is_ours)
        session_say(&session.report->told.has_unknown, session.report->told.unknown, "%s", name);
    return found;
}

bool driver_find_questions(struct driver_questions *questions)
{
    void *handle = driver ? dlmopen(driver_namespace, driver->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!handle)
        return false;
#define X(member, name, parameters) questions->member = (int(*) parameters)dlsym(handle, name);
    DRIVER_QUESTIONS(X)
#undef X
    return true;
}

/* Returns whether an exec() of this file can succeed. Programs that search $PATH try exec() in each folder. */
static bool can_run(const char *path)
{
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* Functions of the C library that end the program without running its destructors, if the expression in the last column is true. The
   wrappers write what was recorded first. */
#define ENDS(X)                                                                                                                            \
    X(_exit, (int status), (status), true)                                                                                                 \
    X(_Exit, (int status), (status), true)                                                                                                 \
    X(quick_exit, (int status), (status), true)                                                                                            \
    X(abort, (void), (), true)                                                                                                             \
    X(__assert_fail, (const char *what, const char *file, unsigned line, const char *function), (what, file, line, function), true)        \
    X(execv, (const char *path, char *const *arguments), (path, arguments), can_run(path))                                                 \
    X(execvp, (const char *path, char *const *arguments), (path, arguments), true)                                                         \
    X(execve, (const char *path, char *const *arguments, char *const *variables), (path, arguments, variables), can_run(path))             \
    X(execvpe, (const char *path, char *const *arguments, char *const *variables), (path, arguments, variables), true)                     \
    X(fexecve, (int fd, char *const *arguments, char *const *variables), (fd, arguments, variables), true)

#define X(id, parameters, arguments_, ends)                                                                                                \
    static void *_Atomic real_##id;                                                                                                        \
    static int wrap_##id parameters                                                                                                        \
    {                                                                                                                                      \
        const bool has_ended = (ends) && session_end(false);                                                                               \
        const int code = ((int(*) parameters)atomic_load(&real_##id))arguments_, before = errno;                                           \
        if (has_ended)                                                                                                                     \
            session_fail("a process called " #id "(), which failed: what it did later is not recorded");                                   \
        errno = before;                                                                                                                    \
        return code;                                                                                                                       \
    }
ENDS(X)
#undef X

static uintptr_t replace_end(const char *name, uintptr_t real)
{
#define X(id, parameters, arguments_, ends)                                                                                                \
    if (strcmp(name, #id) == 0) {                                                                                                          \
        atomic_store(&real_##id, (void *)real);                                                                                            \
        return (uintptr_t)wrap_##id;                                                                                                       \
    }
    ENDS(X)
#undef X
    return real;
}

/* The loader's functions ------------------------------------------------------------------------------------------------------------------ */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED unsigned la_version(unsigned version)
{
    /* Never return 0, which means a refusal: the loader would unload this library although parts of it stay loaded, and end the program. */
    is_wanted = session_open();
    weir__modules_each = each_object;
    if (is_wanted)
        atomic_fetch_add(&session.report->told.processes, 1);
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* Ends this recording because Weir itself is in the process, whose own recording tells more. */
static void leave_to_weir(void)
{
    atomic_fetch_add(&session.report->told.weirs, 1);
    session_end(true);
}

EXPORTED unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
    const bool is_driver = is_named(map, "libcuda.so");
    *cookie = (uintptr_t)map;
    if (!is_wanted || session_is_forked())
        return 0;
    add_object(map);
    if (is_named(map, "libc10_cuda.so"))
        atomic_fetch_add(&session.report->told.torches, 1);
    if (is_named(map, "libweir.so") || is_named(map, "libweir-torch.so"))
        leave_to_weir();
    if (is_driver)
        atomic_fetch_add(driver ? &session.report->told.seconds : &session.report->told.drivers, 1);
    if (!libc && is_named(map, "libc.so")) /* dlmopen() may load another copy later */
        libc = map;
    if (!is_driver || driver)
        return LA_FLG_BINDFROM | (map == libc ? LA_FLG_BINDTO : 0);
    driver = map;
    driver_namespace = namespace;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

EXPORTED unsigned la_objclose(uintptr_t *cookie)
{
    const struct link_map *map = (const struct link_map *)*cookie;
    /* At the end of the process the program itself is the first object to be closed. From then on the list stays as it is. */
    is_ending = is_ending || !map->l_name[0];
    if (!is_wanted || is_ending || session_is_forked())
        return 0;
    remove_object(map);
    if (map == driver)
        driver = NULL;
    return 0;
}

EXPORTED uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
    (void)index;
    (void)from;
    *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
    if ((const struct link_map *)*to == libc)
        return replace_end(name, symbol->st_value);
    for (int i = 0; (const struct link_map *)*to == driver && i < DRIVER_FUNCTION_COUNT; i++)
        if (strcmp(functions[i].symbol, name) == 0)
            return (uintptr_t)replace(i, (void *)symbol->st_value);
    return symbol->st_value;
}

__attribute__((destructor)) static void end(void)
{
    session_end(false);
}
