/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/python.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/fork.h"

#define RELEASE(major, minor) ((major) * 100u + (minor))

/* The functions of CPython; the addresses of its objects are `void *` here. Written once, before the recorder knows of the interpreter. */
static struct {
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int state);
    void *(*PyGILState_GetThisThreadState)(void);
    void *(*PyEval_GetFrame)(void); /* returns a borrowed reference; all others that return an object return a new one */
    void *(*PyFrame_GetBack)(void *frame);
    void *(*PyFrame_GetCode)(void *frame);
    int (*PyFrame_GetLineNumber)(void *frame);
    int (*PyCode_Addr2Line)(void *code, int offset);
    void *(*PyObject_GetAttrString)(void *object, const char *name);
    const char *(*PyUnicode_AsUTF8AndSize)(void *text, ssize_t *length);
    void (*PyErr_Fetch)(void **type, void **value, void **traceback);
    void (*PyErr_Restore)(void *type, void *value, void *traceback);
    void (*PyErr_Clear)(void);
    void (*Py_IncRef)(void *object);
    void (*Py_DecRef)(void *object);
    /* The pointers below are NULL where this version of Python lacks the function. */
    int (*PyFrame_GetLasti)(void *frame); /* since 3.11; before that a place is a line */
    int (*PyGC_Disable)(void);            /* used with 3.11 only */
    int (*PyGC_Enable)(void);
    void *(*current_thread)(void); /* since 3.12: returns the calling thread's state, or NULL if the thread does not hold the GIL */
} python;

struct wanted {
    const char *name;
    size_t place;
};
#define WANTED(name) { #name, offsetof(__typeof__(python), name) }
static const struct wanted needed[] = {
    WANTED(PyGILState_Ensure), WANTED(PyGILState_Release), WANTED(PyGILState_GetThisThreadState), WANTED(PyEval_GetFrame),
    WANTED(PyFrame_GetBack), WANTED(PyFrame_GetCode), WANTED(PyFrame_GetLineNumber), WANTED(PyCode_Addr2Line),
    WANTED(PyObject_GetAttrString), WANTED(PyUnicode_AsUTF8AndSize), WANTED(PyErr_Fetch), WANTED(PyErr_Restore), WANTED(PyErr_Clear),
    WANTED(Py_IncRef), WANTED(Py_DecRef),
};

/* A thread between enter() and leave(): it holds the GIL, and the exception that the program may be handling is set aside. */
struct visit {
    int gil;
    int collected; /* whether the garbage collector was enabled */
    void *error[3];
};

/* Takes the GIL and sets the current exception aside. Also disables the garbage collector of Python 3.11: only there looking at frames
   makes objects that may start a collection, which runs code of the program. */
static void enter(struct visit *visit)
{
    visit->gil = python.PyGILState_Ensure();
    python.PyErr_Fetch(&visit->error[0], &visit->error[1], &visit->error[2]);
    visit->collected = python.PyGC_Disable ? python.PyGC_Disable() : 0;
}

static void leave(const struct visit *visit)
{
    if (visit->collected)
        python.PyGC_Enable();
    python.PyErr_Restore(visit->error[0], visit->error[1], visit->error[2]);
    python.PyGILState_Release(visit->gil);
}

/* Returns whether the thread can take the GIL: Python knows the thread, and the thread does not run another interpreter of the process. */
static bool has_state(void)
{
    const void *own = python.PyGILState_GetThisThreadState();
    const void *current = python.current_thread ? python.current_thread() : NULL;
    return own && (!current || current == own);
}

/* The functions of struct weir__interpreter -------------------------------------------------------------------------------------------- */

static unsigned find_places(struct weir__place *places, unsigned max)
{
    struct visit visit;
    unsigned count = 0;
    if (!has_state())
        return 0;
    enter(&visit);
    void *frame = python.PyEval_GetFrame();
    if (frame)
        python.Py_IncRef(frame);
    while (frame && count < max) {
        void *code = python.PyFrame_GetCode(frame), *back = python.PyFrame_GetBack(frame);
        int position = python.PyFrame_GetLasti ? python.PyFrame_GetLasti(frame) : python.PyFrame_GetLineNumber(frame);
        places[count++] = (struct weir__place){ (uintptr_t)code, (uint64_t)(int64_t)position };
        /* The running frame keeps its code object and its caller alive, so both references can be dropped. */
        python.Py_DecRef(code);
        python.Py_DecRef(frame);
        frame = back;
    }
    if (frame)
        python.Py_DecRef(frame);
    leave(&visit);
    return count;
}

/* Copies an attribute of the object, a string, into `copy`. Of a longer string it copies the end or the beginning. Returns false if the
   object has no such string. */
static bool copy_text(void *object, const char *attribute, bool copies_end, char *copy, size_t room)
{
    void *text = python.PyObject_GetAttrString(object, attribute);
    ssize_t length = 0;
    const char *bytes = text ? python.PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    if (bytes) {
        size_t kept = (size_t)length < room ? (size_t)length : room - 1;
        memcpy(copy, bytes + (copies_end ? (size_t)length - kept : 0), kept);
        copy[kept] = '\0';
    }
    if (text)
        python.Py_DecRef(text);
    if (!bytes)
        python.PyErr_Clear();
    return bytes;
}

static bool name_place(const struct weir__place *place, bool keeps, struct weir__place_name *name)
{
    struct visit visit;
    void *code = (void *)(uintptr_t)place->code;
    int position = (int)(int64_t)place->position;
    enter(&visit);
    bool is_known = (copy_text(code, "co_qualname", false, name->function, sizeof name->function) ||
                     copy_text(code, "co_name", false, name->function, sizeof name->function)) &&
                    copy_text(code, "co_filename", true, name->file, sizeof name->file);
    int line = python.PyFrame_GetLasti ? python.PyCode_Addr2Line(code, position) : position;
    name->line = line > 0 ? (uint32_t)line : 0;
    if (is_known && keeps)
        python.Py_IncRef(code);
    leave(&visit);
    return is_known;
}

/* Begin and end ------------------------------------------------------------------------------------------------------------------------ */

static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static struct weir__interpreter interpreter = { .find = find_places, .name = name_place };

/* Sets interpreter.low and .high to the executable segment that has PyEval_GetFrame(), in the program itself or in libpython. */
static int find_code(struct dl_phdr_info *info, size_t size, void *unused)
{
    uintptr_t inside = (uintptr_t)python.PyEval_GetFrame;
    (void)size;
    (void)unused;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || inside - start >= segment->p_memsz)
            continue;
        interpreter.low = start;
        interpreter.high = start + segment->p_memsz;
        return 1;
    }
    return 0;
}

static void look_up(const char *name, void *place)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    memcpy(place, &address, sizeof address);
}

/* Looks up the functions that every version has, and returns Python's version as RELEASE() gives it. Returns 0, and names the function that
   is missing in *missing, if this process has no CPython whose functions can be found. */
static unsigned find_python(const char **missing)
{
    const char *(*get_version)(void);
    *missing = "Py_GetVersion";
    look_up(*missing, &get_version);
    if (!get_version)
        return 0;
    char *end;
    unsigned major = (unsigned)strtoul(get_version(), &end, 10), minor = *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *place = (char *)&python + needed[i].place;
        *missing = needed[i].name;
        look_up(*missing, place);
        if (!*(void **)place)
            return 0;
    }
    return RELEASE(major, minor);
}

static void find_optional(unsigned version)
{
    look_up("PyFrame_GetLasti", &python.PyFrame_GetLasti);
    if (version == RELEASE(3, 11)) {
        look_up("PyGC_Disable", &python.PyGC_Disable);
        look_up("PyGC_Enable", &python.PyGC_Enable);
    }
    if (version >= RELEASE(3, 12))
        look_up("_PyThreadState_UncheckedGet", &python.current_thread);
    if (version >= RELEASE(3, 13))
        look_up("PyThreadState_GetUnchecked", &python.current_thread);
}

static weir_status find_functions(weir_error *error)
{
    const char *missing;
    unsigned version = find_python(&missing);
    if (!version)
        return weir__fail(error, WEIR_NOT_SUPPORTED,
                          "stacks have no frames of Python: the process has no function %s, so this is no CPython, or one that hides its "
                          "functions; use CPython 3.9 or later",
                          missing);
    find_optional(version);
    dl_iterate_phdr(find_code, NULL);
    return WEIR_OK;
}

weir_status weir_torch_python_begin(weir_error *error)
{
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&beginning);
    if (!interpreter.high)
        status = find_functions(error);
    pthread_mutex_unlock(&beginning);
    if (status == WEIR_OK)
        weir__interpreter_set(&interpreter);
    return status;
}

void weir_torch_python_end(void)
{
    weir__interpreter_set(NULL);
}
