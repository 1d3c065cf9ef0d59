/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "audit/session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "audit/known.h"
#include "lib/base/fork.h"
#include "lib/base/spin.h"
#include "lib/base/user.h"
#include "lib/gpu/gpu.h"
#include "lib/record/unwind.h"
#include "lib/trace/place.h"
#include "lib/trace/writer.h"
#include "policy/environment.h"

#define RING_BYTES (UINT64_C(8) << 20) /* bytes of events of each thread: the thread that writes the trace may be 150,000 events late */
#define SERIALS 16                     /* names tried for the traces of one process id, which stays the same after exec() */
#define COUNTED_TICKS (16 * WEIR__SLOW_TICKS) /* a call in which Weir's part took longer was preempted, and does not count */
#define TIMED 16                       /* one of this many fast calls is timed */

static const struct gpu clocks = {.now = gpu_clock_now, .now_coarse = gpu_clock_coarse, .ticks = gpu_clock_ticks};

struct session session;
atomic_bool weir__forked; /* for interpreter.c, by lib/base/fork.h; stays false, as no interpreter reports its frames to this library */
static struct weir__trace *trace;
static pid_t owner; /* the process that records: a child of vfork() shares its memory, but has another id */
static struct weir__trace_place place;
static __thread unsigned calls;
static __thread struct audit_slot *slot;
static __thread bool has_waited; /* This call waited for the session to begin, which does not count as a cost of the call. */

/* What is asked for --------------------------------------------------------------------------------------------------------------------- */

static struct audit_report *map_report(const char *path)
{
    struct stat found;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool is_good = fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && weir__is_file_of(fd, &found, geteuid()) &&
                   !(found.st_mode & (S_IRWXG | S_IRWXO)) && found.st_size == (off_t)sizeof(struct audit_report);
    struct audit_report *report =
        is_good ? mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (report == MAP_FAILED)
        return NULL;
    bool is_ours = report->version == AUDIT_VERSION && memchr(report->asked.name, '\0', sizeof report->asked.name);
    if (!is_ours)
        munmap(report, sizeof *report);
    return is_ours ? report : NULL;
}

bool session_open(void)
{
    const char *path = policy_environment_now(AUDIT_VARIABLE);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    session.report = path && path[0] == '/' ? map_report(path) : NULL;
    if (!session.report)
        return false;
    void *state = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED || madvise(state, page, MADV_WIPEONFORK) != 0) {
        session_fail("a child of a fork cannot be told from its parent: Linux 4.14 or later is needed");
        return false;
    }
    session.state = state;
    known_init();
    return true;
}

void session_say(_Atomic uint32_t *has, char text[static AUDIT_TEXT], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!atomic_exchange(has, 1))
        vsnprintf(text, AUDIT_TEXT, format, arguments);
    va_end(arguments);
}

/* The trace ----------------------------------------------------------------------------------------------------------------------------- */

/* Formats a UUID as CUDA's runtime and nvidia-smi do. */
static void write_uuid(char text[static 41], const struct driver_uuid *uuid)
{
    char *at = text + sprintf(text, "GPU-");
    for (unsigned i = 0; i < sizeof uuid->bytes; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid->bytes[i]);
}

static bool make_head(void *data, const char *reason, struct weir__trace_bytes *content)
{
    const struct driver_questions *driver = &session.driver;
    struct weir__trace_head head;
    static char names[SESSION_DEVICES][128], uuids[SESSION_DEVICES][41];
    int count = 0, version = 0;
    (void)data;
    if (!weir__trace_head_begin(&head, &session.recorder, reason))
        return false;
    if (driver->device_count && driver->device_count(&count) != DRIVER_SUCCESS)
        count = 0;
    count = count < SESSION_DEVICES ? count : SESSION_DEVICES;
    for (int d = 0; d < count; d++) {
        struct driver_uuid uuid = {{0}};
        size_t memory = 0;
        if (driver->device_name && driver->device_name(names[d], sizeof names[d] - 1, d) != DRIVER_SUCCESS)
            names[d][0] = '\0';
        if (driver->device_uuid && driver->device_uuid(&uuid, d) == DRIVER_SUCCESS)
            write_uuid(uuids[d], &uuid);
        if (driver->device_memory)
            driver->device_memory(&memory, d);
        weir__trace_head_device(&head, (unsigned)d, names[d], uuids[d], memory);
    }
    if (driver->version && driver->version(&version) == DRIVER_SUCCESS)
        for (int d = 0; d < count; d++)
            weir__trace_head_costs(&head, (unsigned)d, names[d], version, uuids[d]);
    return weir__trace_head_end(&head, content);
}

static void note_failure(void *data, enum weir__trace_span span, const struct weir__trace_result *result)
{
    (void)data;
    (void)span;
    session_fail("%.150s ends early: %s", place.path, strerror(result->error));
}

static bool make_file(int *fd)
{
    char why[WEIR__TRACE_WHY_MAX];
    const char *name = session.report->asked.name;
    const unsigned serials = strstr(name, "%p") ? SERIALS : 1;
    int code = EEXIST;
    for (unsigned serial = 0; code == EEXIST && serial < serials; serial++)
        code = weir__trace_place_make(name, serial ? serial + 1 : 0, why, fd, &place);
    if (code)
        session_fail("%s", why);
    return !code;
}

static bool start(void)
{
    const struct weir__traced of = {.recorder = &session.recorder, .head = make_head, .failed = note_failure};
    int fd;
    session.has_begun = true;
    owner = getpid();
    policy_environment_read();
    limit_init(&session.device_limit);
    limit_init(&session.host_limit);
    limit_learn_pages(&session.host_limit);
    if (!make_file(&fd))
        return false;
    weir__recorder_init(&session.recorder);
    weir__recorder_start(&session.recorder, &clocks, RING_BYTES);
    weir__recorder_set(&session.recorder, WEIR__LEVEL_ALL, session.report->asked.has_stacks);
    trace = weir__trace_begin(&of, fd, WEIR__TRACE_FROM_OPEN, "file");
    if (!trace) {
        weir__trace_place_drop(&place);
        session_fail("no host memory for a trace, or for the thread that writes it");
        return false;
    }
    atomic_fetch_add(&session.report->told.traces, 1);
    return true;
}

static void *run(void *has_started)
{
    *(bool *)has_started = start();
    return NULL;
}

/* Runs start() in a new thread, made by this library's own copy of the C library. The calling thread belongs to the program's copy: its
   stack may be small, and tables that isalnum() of this library's copy needs are not set up in it. */
static bool start_apart(void)
{
    bool has_started = false;
    sigset_t all, former;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    const bool is_made = pthread_create(&thread, NULL, run, &has_started) == 0;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (is_made)
        pthread_join(thread, NULL);
    else
        session_fail("no thread can be made that begins the trace");
    return has_started;
}

/* The loader's lock is taken (driver_find_questions()) before the state says that the session begins: a thread that waits for the session
   may be in a constructor and hold the loader's lock. The calling thread cannot be cancelled in here, as others would then wait for
   ever. */
bool session_begin(void)
{
    struct driver_questions driver = {.exchange_mode = NULL};
    uint32_t state = SESSION_UNBEGUN;
    unsigned pauses = 0;
    int before = errno, cancel;
    if (session_is_forked())
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bool is_found = atomic_load(session.state) == SESSION_UNBEGUN && driver_find_questions(&driver);
    if (is_found && session.report->asked.has_stacks)
        weir__unwind_prepare();
    if (is_found && atomic_compare_exchange_strong(session.state, &state, SESSION_BEGINS)) {
        session.driver = driver;
        atomic_store_explicit(session.state, start_apart() ? SESSION_ON : SESSION_OFF, memory_order_release);
    }
    pthread_setcancelstate(cancel, NULL);
    errno = before;
    has_waited = true;
    while ((state = atomic_load_explicit(session.state, memory_order_acquire)) == SESSION_BEGINS)
        weir__spin_back_off(&pauses);
    return state == SESSION_ON;
}

/* Renames the trace to the next free name, if names may differ, so that Weir's own recording gets the name asked for. */
static void move_away(void)
{
    const struct weir__trace_place former = place;
    int fd;
    if (!make_file(&fd))
        return;
    close(fd);
    if (rename(former.path, place.path) != 0)
        session_fail("%.150s cannot be renamed: %s", former.path, strerror(errno));
}

bool session_end(bool gives_way)
{
    uint32_t state = SESSION_ON;
    int cancel;
    if (!session.state || (session_is_on() ? getpid() != owner : !gives_way))
        return false;
    if (!atomic_compare_exchange_strong(session.state, &state, SESSION_OFF)) {
        /* A session that has not begun shall not begin any more. In the child of a recording process there is nothing to end. */
        if (state == SESSION_UNBEGUN)
            atomic_compare_exchange_strong(session.state, &state, SESSION_OFF);
        return false;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    weir__trace_end(trace);
    if (gives_way)
        move_away();
    pthread_setcancelstate(cancel, NULL);
    return true;
}

/* Pools and costs ------------------------------------------------------------------------------------------------------------------------ */

unsigned session_pool(int device, enum session_pool kind)
{
    static const char *const names[SESSION_POOLS] = {"cudaMalloc", "managed", "host", "default", "mapped", "mapped host"};
    static weir__spin lock;
    if (device < 0 || device >= SESSION_DEVICES)
        return 0;
    _Atomic uint32_t *number = &session.devices[device].numbers[kind];
    if (!atomic_load_explicit(number, memory_order_acquire)) {
        bool is_host = kind == SESSION_HOST || kind == SESSION_MAPPED_HOST;
        weir__spin_lock(&lock);
        if (!atomic_load(number))
            atomic_store(number, weir__recorder_add_pool(&session.recorder, names[kind], device,
                                                         WEIR__POOL_IS_UNAWARE | (is_host ? WEIR__POOL_IS_HOST : 0)));
        weir__spin_unlock(&lock);
    }
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* A thread's first fast call is not among the timed ones, since it also creates the thread's ring. */
struct session_call session_call_begin(bool is_timed)
{
    struct session_call call = {.is_timed = is_timed || ++calls % TIMED == 0};
    call.entered = session_ticks(&call);
    return call;
}

void session_call_end(const struct session_call *call)
{
    if (!slot)
        slot = &session.report->told.slots[(unsigned)syscall(SYS_gettid) % AUDIT_SLOTS];
    atomic_fetch_add_explicit(&slot->calls, 1, memory_order_relaxed);
    const uint64_t took = call->is_timed ? call->asked - call->entered + (gpu_clock_ticks() - call->answered) : 0;
    const bool counts = took && took < COUNTED_TICKS && !has_waited;
    has_waited = false;
    if (!counts)
        return;
    atomic_fetch_add_explicit(&slot->timed, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->ticks, took, memory_order_relaxed);
}
