/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/device.h"

#include <stdlib.h>
#include <string.h>

#include "lib/pool/settings.h"
#include "lib/trace/file.h"
#include "plugin/torch/history.h"

_Atomic unsigned torch_busy;

static atomic_bool is_over;
pthread_mutex_t torch_opening = PTHREAD_MUTEX_INITIALIZER;
static struct torch_device *_Atomic devices[TORCH_DEVICES_MAX]; /* set under `torch_opening` */
static _Atomic int device_count;

/* Guarded by `torch_opening`. */
static weir_options options = WEIR_OPTIONS_INIT; /* the plug-in owns the strings */
static struct {
    bool is_set;
    double value;
} fractions[TORCH_DEVICES_MAX];
static bool watches_exit;

/* A child that is forked before CUDA is used may use Weir. Another thread of the parent may have held the lock during the fork, so the
   child makes the lock anew. */
static void renew_lock(void)
{
    pthread_mutex_init(&torch_opening, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, renew_lock);
}

int weir_torch_is_over(void)
{
    return torch_is_over();
}

bool torch_is_over(void)
{
    return atomic_load_explicit(&is_over, memory_order_relaxed) || weir__is_forked();
}

struct torch_device *torch_device_find(int index)
{
    return index >= 0 && index < TORCH_DEVICES_MAX ? atomic_load_explicit(&devices[index], memory_order_acquire) : NULL;
}

struct torch_device *torch_device_next(int after)
{
    struct torch_device *device = NULL;
    while (!device && ++after < TORCH_DEVICES_MAX)
        device = torch_device_find(after);
    return device;
}

int torch_device_count(void)
{
    return atomic_load_explicit(&device_count, memory_order_relaxed);
}

void weir_torch_init(int count)
{
    atomic_store_explicit(&device_count, count, memory_order_relaxed);
}

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

static bool copy_string(const char *from, const char **to)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

static void clear_options(weir_options *set)
{
    free((char *)set->policy_file);
    free((char *)set->policy_text);
    free((char *)set->gpu);
    *set = (weir_options)WEIR_OPTIONS_INIT;
}

weir_status weir_torch_configure(const weir_options *given, weir_error *error)
{
    weir_options wanted, copy = WEIR_OPTIONS_INIT;
    weir_status status = weir__check_fork(error);
    if (status == WEIR_OK)
        status = weir__options_read(given, &wanted, error);
    if (status == WEIR_OK)
        status = weir__policy_check(&wanted, error);
    if (status != WEIR_OK)
        return status;
    copy.log = wanted.log;
    copy.log_data = wanted.log_data;
    if (!copy_string(wanted.policy_file, &copy.policy_file) || !copy_string(wanted.policy_text, &copy.policy_text) ||
        !copy_string(wanted.gpu, &copy.gpu)) {
        clear_options(&copy);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the name of the policy");
    }
    pthread_mutex_lock(&torch_opening);
    struct torch_device *open = torch_device_next(-1);
    if (!open) {
        clear_options(&options);
        options = copy;
    }
    pthread_mutex_unlock(&torch_opening);
    if (!open)
        return WEIR_OK;
    clear_options(&copy);
    return weir__fail(error, WEIR_BUSY, "Weir serves device %d already, by another policy: configure it before the first allocation",
                      open->index);
}

/* Sets the pool's cap to the fraction of the device's memory. No cap is set for the whole memory. The cap is at least 1 byte, since 0 would
   mean no cap. The caller holds `torch_opening`. */
static void apply_fraction(struct torch_device *device)
{
    double part = fractions[device->index].value * (double)device->memory;
    uint64_t cap = part >= 1 ? (uint64_t)part : 1;
    weir__pool_set_limit(device->pool, fractions[device->index].is_set && cap < device->memory ? cap : 0);
}

void weir_torch_memory_fraction(double fraction, int index)
{
    if (index < 0 || index >= TORCH_DEVICES_MAX || torch_is_over())
        return;
    pthread_mutex_lock(&torch_opening);
    struct torch_device *device = torch_device_find(index);
    fractions[index].is_set = true;
    fractions[index].value = fraction;
    if (device)
        apply_fraction(device);
    pthread_mutex_unlock(&torch_opening);
}

double weir_torch_get_memory_fraction(int index)
{
    if (index < 0 || index >= TORCH_DEVICES_MAX || torch_is_over())
        return 1;
    pthread_mutex_lock(&torch_opening);
    double fraction = fractions[index].is_set ? fractions[index].value : 1;
    pthread_mutex_unlock(&torch_opening);
    return fraction;
}

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

static void on_exit_of_process(void)
{
    atomic_store(&is_over, true);
    atomic_fetch_add(&torch_busy, 1);
    for (struct torch_device *device = torch_device_next(-1); device && !weir__is_forked(); device = torch_device_next(device->index))
        weir__trace_files_finish(device->w);
}

/* Refuses the simulator if only $WEIR_GPU chose it: its memory is host memory, and a kernel that uses it ends the process. Tests run no
   kernels, and name the simulator in the options. */
static weir_status check_gpu(const weir *w, weir_error *error)
{
    const char *why;
    if (options.gpu || w->gpu != gpu_find("sim", &why))
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID, "$WEIR_GPU is 'sim', and no kernel reaches the memory of the simulator: unset WEIR_GPU");
}

/* Opens the device's weir, and sets the members that depend on it. The caller holds `torch_opening`. */
static weir_status open_weir(struct torch_device *device, weir_error *error)
{
    /* weir_pool_get() below fails if the policy has no default pool on this device: torch could then get no memory there. */
    weir_status status = weir__open_on(&options, device->index, error, &device->w);
    if (status != WEIR_OK)
        return status;
    status = check_gpu(device->w, error);
    if (status == WEIR_OK)
        status = weir_pool_get(device->w, NULL, device->index, error, &device->pool);
    if (status == WEIR_OK && !watches_exit && atexit(on_exit_of_process) != 0)
        status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for an exit handler");
    if (status != WEIR_OK) {
        weir_close(device->w);
        return status;
    }
    watches_exit = true;
    device->gpu = device->w->gpu;
    device->device = &device->w->devices[device->index];
    device->memory = device->device->info.memory;
    device->w->refuses_graphs = device->w->relaxed = true;
    apply_fraction(device);
    return WEIR_OK;
}

/* Opens the weir in relaxed capture mode, since another thread may capture on a device that is open already, and opening makes calls of
   CUDA that would destroy the capture. The caller holds `torch_opening`. */
static weir_status open_relaxed(struct torch_device *device, weir_error *error)
{
    const struct torch_device *other = torch_device_next(-1);
    if (!other)
        return open_weir(device, error);
    enum gpu_capture_mode mode = weir__relaxed_begin(other->gpu);
    weir_status status = open_weir(device, error);
    weir__relaxed_end(other->gpu, mode);
    return status;
}

static struct torch_device *open_device(int index, weir_error *error)
{
    struct torch_device *device = calloc(1, sizeof *device);
    if (!device) {
        weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for device %d", index);
        return NULL;
    }
    device->index = index;
    pthread_mutex_init(&device->reserve_lock, NULL);
    weir__table_init(&device->parts);
    device->totals.size = sizeof device->totals;
    if (open_relaxed(device, error) == WEIR_OK) {
        atomic_store_explicit(&devices[index], device, memory_order_release);
        torch_history_attach(device);
        return device;
    }
    weir__table_destroy(&device->parts);
    pthread_mutex_destroy(&device->reserve_lock);
    free(device);
    return NULL;
}

struct torch_device *torch_device_open(int index, weir_error *error)
{
    struct torch_device *device = torch_device_find(index);
    if (weir__check_fork(error) != WEIR_OK)
        return NULL;
    if (atomic_load(&is_over)) {
        weir__fail(error, WEIR_INVALID, "the process is ending: nothing can be allocated any more");
        return NULL;
    }
    if (device)
        return device;
    if (index < 0 || index >= TORCH_DEVICES_MAX) {
        weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: devices are counted from 0, and at most %d", index,
                   TORCH_DEVICES_MAX);
        return NULL;
    }
    pthread_mutex_lock(&torch_opening);
    device = torch_device_find(index);
    if (!device)
        device = open_device(index, error);
    pthread_mutex_unlock(&torch_opening);
    return device;
}

weir_status weir_torch_get(int index, weir_error *error, weir **w)
{
    weir_error own = WEIR_ERROR_INIT;
    weir_error *first = error ? error : &own;
    if (!w)
        return weir__fail(error, WEIR_INVALID, "weir_torch_get: w must not be NULL");
    struct torch_device *device = torch_device_open(index, first);
    if (!device)
        return first->status;
    *w = device->w;
    return WEIR_OK;
}

gpu_stream torch_device_fill(struct torch_device *device, int *code)
{
    gpu_stream stream = atomic_load_explicit(&device->fill, memory_order_acquire), none = NULL;
    if (stream)
        return stream;
    *code = device->gpu->stream_create(device->index, &stream);
    if (*code != GPU_SUCCESS)
        return NULL;
    if (atomic_compare_exchange_strong(&device->fill, &none, stream))
        return stream;
    device->gpu->stream_destroy(stream);
    return none;
}
