/* SPDX-License-Identifier: MIT */
/* sim.c - the simulated machine as a whole: its start, the entry of each operation, injected faults and counts of calls, and the table of
   operations. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/clock.h"
#include "lib/gpu/gpu_tables.h"
#include "lib/gpu/sim_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim sim = { .lock = PTHREAD_MUTEX_INITIALIZER, .machine = { .fd = -1 }, .map = { .fd = -1 } };
_Thread_local struct sim_thread *sim_self;

/* The message that says why the machine did not start. */
static _Thread_local char start_error[256];

/* Threads and forks -------------------------------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

static void init_process(void);

static void lock(void)
{
    pthread_once(&once, init_process);
    pthread_mutex_lock(&sim.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

/* The forking thread holds the lock, so the child's copy of the machine is consistent. But as with CUDA, the child cannot use it. */
static void after_fork_in_child(void)
{
    sim.forked = sim.used || sim_machine_is_named();
    sim_thread_after_fork();
    sim_machine_after_fork();
    unlock();
}

/* Runs at the end of a thread: its per-thread streams end with it. */
static void forget_thread(void *data)
{
    struct sim_thread *thread = data;
    lock();
    struct sim_thread **place = &sim.threads;
    while (*place && *place != thread)
        place = &(*place)->next;
    if (*place)
        *place = thread->next;
    sim_thread_streams_clear(thread);
    for (struct sim_capture *capture = sim.captures; capture; capture = capture->next)
        if (capture->thread == thread)
            capture->thread = NULL;
    unlock();
    free(thread);
    sim_self = NULL;
}

/* Runs at exit, or when the library is unloaded: sim_thread.c's thread must not outlive its code. A machine without a name has no such
   thread. */
__attribute__((destructor)) static void leave_machine(void)
{
    pthread_mutex_lock(&sim.lock);
    if (sim_machine_is_named()) {
        sim.gone = true;
        sim_thread_stop();
        sim_machine_leave();
    }
    unlock();
}

static void init_process(void)
{
    pthread_key_create(&thread_key, forget_thread);
    pthread_atfork(lock, unlock, after_fork_in_child);
}

/* Sets sim_self. Returns false if host memory runs out. */
static bool know_thread(void)
{
    if (sim_self)
        return true;
    struct sim_thread *thread = calloc(1, sizeof(*thread));
    if (!thread || pthread_setspecific(thread_key, thread)) {
        free(thread);
        return false;
    }
    thread->next = sim.threads;
    sim.threads = sim_self = thread;
    return true;
}

/* Starting ----------------------------------------------------------------------------------------------------------------------------- */

static void clear_machine(void)
{
    sim_thread_stop();
    sim_captures_clear();
    sim_actions_clear();
    sim_streams_clear();
    sim_pools_clear();
    sim_map_clear();
    sim_host_clear();
    sim_gates_clear();
    sim_machine_close();
    for (struct sim_thread *thread = sim.threads; thread; thread = thread->next)
        *thread = (struct sim_thread){ .next = thread->next };
    memset(sim.devices, 0, sizeof(sim.devices));
    memset(sim.calls, 0, sizeof(sim.calls));
    sim.ready = sim.used = sim.forked = sim.has_grown = false;
    sim.now = sim.last_id = sim.sequence = sim.handled = 0;
    sim.sticky = 0;
}

static int start_device(int device)
{
    struct sim_device *made = &sim.devices[device];
    sim_stream_init(&made->legacy, SIM_STREAM_LEGACY, device);
    if (!sim_supports(device, GPU_FEATURE_POOLS, NULL, 0))
        return 0;
    int code = sim_pool_make(&(struct gpu_pool_spec){ .device = device }, &made->default_pool);
    if (code)
        return code;
    made->default_pool->is_default = true;
    made->current_pool = made->default_pool;
    return 0;
}

/* Starts the machine. Returns 0 or an error, whose message is then in start_error too. */
static int start_machine(const struct sim_settings *settings)
{
    clear_machine();
    sim.settings = *settings;
    if (sim_machine_open(settings, start_error, sizeof(start_error)))
        return GPU_INVALID_VALUE;
    snprintf(start_error, sizeof(start_error),
             "the simulator found no host memory or address space for its devices: give them less, as in memory=1GiB");
    int code = sim_thread_start();
    for (int device = 0; !sim_device_find(device) && !code; device++)
        code = start_device(device);
    if (code)
        clear_machine();
    else
        *start_error = '\0';
    sim.ready = !code;
    return code;
}

static const char *remedy(void)
{
    return *start_error ? start_error : "WEIR_SIM says which devices the simulator has";
}

/* Starts the machine from the environment at the first use of the simulator. */
static int start_if_needed(void)
{
    struct sim_settings settings;
    char why[256];
    if (sim.ready)
        return 0;
    if (sim_settings_parse(secure_getenv("WEIR_SIM"), &settings, why, sizeof(why)))
        return GPU_INVALID_VALUE;
    return start_machine(&settings);
}

const struct gpu *gpu_simulator(const char **why)
{
    static _Thread_local char text[384];
    struct sim_settings settings;
    char wrong[256];
    lock();
    bool bad = !sim.ready && (sim_settings_parse(secure_getenv("WEIR_SIM"), &settings, wrong, sizeof(wrong)) ||
                              sim_machine_check(&settings, wrong, sizeof(wrong)));
    unlock();
    if (!bad)
        return &gpu_sim;
    snprintf(text, sizeof(text), "$WEIR_SIM: %s", wrong);
    *why = text;
    return NULL;
}

int sim_configure(const char *settings_text, char *why, size_t len)
{
    struct sim_settings settings;
    if (sim_settings_parse(settings_text, &settings, why, len))
        return -1;
    lock();
    int code = sim_machine_check(&settings, why, len);
    if (!code && start_machine(&settings)) {
        snprintf(why, len, "%s", start_error);
        code = -1;
    }
    unlock();
    return code;
}

/* Entering and leaving ----------------------------------------------------------------------------------------------------------------- */

const char *const sim_operation_names[SIM_OP_COUNT] = {
#define SIM_OPERATION_NAME(name, check, parameters, arguments) #name,
    GPU_OPERATIONS(SIM_OPERATION_NAME)
#undef SIM_OPERATION_NAME
};

int sim_operation_find(const char *name)
{
    if (!name)
        return SIM_OP_COUNT;
    for (int i = 0; i < SIM_OP_COUNT; i++)
        if (strcmp(sim_operation_names[i], name) == 0)
            return i;
    return -1;
}

static int take_fault(struct sim_fault *fault)
{
    return fault->nth && !--fault->nth ? fault->code : 0;
}

/* Both faults count this call, even if the first one fires. */
static int injected(enum sim_operation operation)
{
    int own = take_fault(&sim.settings.faults[operation]);
    int any = take_fault(&sim.settings.faults[SIM_OP_COUNT]);
    return own ? own : any;
}

/* Takes the lock, which sim_leave() releases. Returns 0, or the error because of which the operation must not run; sim_leave() is called in
   either case. */
static int sim_enter(enum sim_operation operation)
{
    lock();
    int code = start_if_needed();
    if (code)
        return code;
    sim.used = true;
    sim.calls[operation]++;
    if (sim.forked)
        return SIM_INITIALIZATION_ERROR;
    if (sim.gone)
        return SIM_UNLOADING;
    sim_catch_up();
    if (!know_thread())
        return GPU_OUT_OF_MEMORY;
    code = injected(operation);
    return code ? code : sim.sticky;
}

/* The cost of a call passes on the clock after the call is done, even if it failed. */
static int charge(enum sim_operation operation, int code)
{
    uint64_t cost = gpu_cost_of(sim.settings.costs[operation], sim.handled);
    sim.handled = 0;
    if (cost)
        sim_advance_by(cost);
    return code;
}

static int sim_leave(int code)
{
    if (sim.ready) {
        sim_pools_sweep();
        sim_thread_notify();
    }
    unlock();
    return code;
}

/* What tests ask ----------------------------------------------------------------------------------------------------------------------- */

void sim_fail(const char *operation, unsigned nth, int code)
{
    int index = sim_operation_find(operation);
    if (index < 0)
        return;
    lock();
    if (!start_if_needed())
        sim.settings.faults[index] = (struct sim_fault){ nth, code };
    unlock();
}

uint64_t sim_calls(const char *operation)
{
    int index = sim_operation_find(operation);
    uint64_t calls = 0;
    if (index < 0)
        return UINT64_MAX;
    lock();
    for (int i = 0; i < SIM_OP_COUNT; i++)
        calls += i == index || index == SIM_OP_COUNT ? sim.calls[i] : 0;
    unlock();
    return calls;
}

uint64_t sim_changes(void)
{
    return __atomic_load_n(&sim.changes, __ATOMIC_RELAXED);
}

void sim_advance(uint64_t nanoseconds)
{
    lock();
    bool is_real = sim_machine_is_named();
    if (!is_real) {
        sim_advance_by(nanoseconds);
        sim_pools_sweep();
    }
    unlock();
    if (is_real)
        sim_sleep(nanoseconds);
}

void *sim_context_create(int device)
{
    struct sim_context *context = NULL;
    lock();
    if (!start_if_needed() && know_thread() && !sim_device_find(device) && (context = sim_context_make(device))) {
        sim_self->device = device;
        sim_self->context = context;
    }
    unlock();
    return context;
}

void sim_context_set_current(void *context)
{
    lock();
    sim_self->context = context;
    if (context)
        sim_self->device = sim_self->context->device;
    unlock();
}

void sim_context_destroy(void *context)
{
    lock();
    sim_context_drop(context);
    sim_pools_sweep();
    unlock();
}

void sim_census(struct sim_census *census)
{
    *census = (struct sim_census){ 0 };
    lock();
    for (const struct sim_pool *pool = sim.pools; pool; pool = pool->next) {
        census->pools += !pool->is_default && !pool->destroyed;
        census->blocks += pool->blocks;
        census->reserved += pool->reserved;
    }
    sim_map_count(&census->ranges, &census->pages);
    census->hosts = sim_host_count();
    for (const struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        census->streams += stream->kind == SIM_STREAM_CREATED;
    for (const struct sim_event *event = sim.events; event; event = event->next)
        census->events++;
    unlock();
}

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

#define SIM_OPERATION_DEFINE(name, check, parameters, arguments)                                                                           \
    static int enter_##name parameters                                                                                                     \
    {                                                                                                                                      \
        int code = sim_enter(SIM_OP_##name);                                                                                               \
        if (!code)                                                                                                                         \
            code = check;                                                                                                                  \
        return sim_leave(code ? code : charge(SIM_OP_##name, sim_##name arguments));                                                                              \
    }
GPU_OPERATIONS(SIM_OPERATION_DEFINE)
#undef SIM_OPERATION_DEFINE

static bool supports(int device, enum gpu_feature feature, char *why, size_t len)
{
    lock();
    bool started = !start_if_needed();
    bool yes = started && sim_supports(device, feature, why, len);
    unlock();
    if (!started && why && len)
        snprintf(why, len, "the simulator cannot start: correct $WEIR_SIM");
    return yes;
}

/* The name begins like those of the operations, because tests/build/instructions.sh counts such functions as the driver's. */
static __attribute__((noinline)) bool enter_context_is_alive(const struct gpu_context *context)
{
    lock();
    bool lives = sim_context_lives(context);
    unlock();
    return lives;
}

static uint64_t now(void)
{
    lock();
    uint64_t time = sim_machine_is_named() ? gpu_clock_now() : sim.now;
    unlock();
    return time;
}

/* The name begins with enter_, because tests/build/instructions.sh counts such functions as the driver's. */
static __attribute__((noinline)) uint64_t enter_clock(void)
{
    return sim_machine_is_named() ? gpu_clock_coarse() : now();
}

const struct gpu gpu_sim = {
    .name = "sim",
#define SIM_OPERATION_ENTRY(name, check, parameters, arguments) .name = enter_##name,
    GPU_OPERATIONS(SIM_OPERATION_ENTRY)
#undef SIM_OPERATION_ENTRY
        .supports = supports,
    .context_is_alive = enter_context_is_alive,
    .now = now,
    .now_coarse = enter_clock,
    .ticks = enter_clock,
    .pause = sim_advance,
    .remedy = remedy,
    .code_name = sim_code_name,
    .code_text = sim_code_text,
};
