/* SPDX-License-Identifier: MIT */
/* gpu.c - `weir doctor`: the driver, and what its devices can do. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/format.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/doctor/doctor.h"

static bool is_simulator(const struct doctor *doctor)
{
    return strcmp(doctor->gpu->name, "sim") == 0;
}

/* The command has the simulator in every build. */
#ifdef HAVE_SIMULATOR
#define PROGRAMS_LACK_IT ""
#else
#define PROGRAMS_LACK_IT "; programs cannot use the simulator here, as libweir was built without"
#endif

/* CUDA writes 12.2 as 12020. The caller's to free. */
static char *version_text(int version)
{
    return format_text("%d.%d", version / 1000, version % 1000 / 10);
}

/* true: there are devices. */
static bool look_at_driver(struct doctor *doctor)
{
    const struct gpu *gpu = doctor->gpu;
    int driver = 0, toolkit = 0, count = 0, code = gpu->device_count(&count);
    if (code == GPU_SUCCESS && count == 0)
        code = GPU_NO_DEVICE;
    if (code == GPU_SUCCESS)
        code = gpu->versions(&driver, &toolkit);
    if (code != GPU_SUCCESS) {
        doctor_add(doctor, DOCTOR_BAD, "driver", NULL, gpu->remedy(), "there is no usable GPU: %s (%s), so no policy can be opened",
                   gpu->code_text(code), gpu->code_name(code));
        return false;
    }
    doctor->driver = version_text(driver);
    doctor->toolkit = version_text(toolkit);
    if (is_simulator(doctor))
        doctor_add(doctor, DOCTOR_NOTE, "driver", NULL, "unset WEIR_GPU, and look again on the machine with the GPU",
                   "this is the simulator, as if with driver %s: nothing here is said of a GPU%s", doctor->driver, PROGRAMS_LACK_IT);
    else
        doctor_add(doctor, DOCTOR_GOOD, "driver", NULL, NULL, "CUDA %s; Weir was built with toolkit %s", doctor->driver, doctor->toolkit);
    doctor->device_count = count;
    return true;
}

static void look_at_feature(struct doctor *doctor, int device, const char *about, enum gpu_feature feature, const char *means)
{
    if (!doctor->devices[device].supports[feature])
        doctor_add(doctor, DOCTOR_NOTE, "device", about, NULL, "has no %s (%s): %s", gpu_feature_name(feature),
                   doctor->devices[device].why_not[feature], means);
}

static void look_at_device(struct doctor *doctor, int device)
{
    const struct doctor_device *read = &doctor->devices[device];
    const struct gpu_device_info *info = &read->info;
    char about[16];
    snprintf(about, sizeof about, "%d", device);
    int code = doctor_read_device(doctor, device, &doctor->devices[device]);
    if (code != GPU_SUCCESS) {
        doctor_add(doctor, DOCTOR_BAD, "device", about, doctor->gpu->remedy(), "cannot be asked: %s (%s)", doctor->gpu->code_text(code),
                   doctor->gpu->code_name(code));
        return;
    }
    if (!read->supports[GPU_FEATURE_POOLS]) {
        doctor_add(doctor, DOCTOR_BAD, "device", about, "leave it out of the policy's devices, or install a newer driver",
                   "%s has no memory pools (%s), so no pool can be opened on it", info->name, read->why_not[GPU_FEATURE_POOLS]);
        return;
    }
    doctor_add(doctor, DOCTOR_GOOD, "device", about, NULL, "%s, %s, %s free, %s", info->name, SIZE_TEXT(read->memory_total),
               SIZE_TEXT(read->memory_free), info->uuid);
    if (info->mig)
        doctor_add(doctor, DOCTOR_NOTE, "device", about, NULL,
                   "is an instance of MIG: its memory is its own, percentages are of that, and a process sees one instance at most");
    if (info->os_managed)
        doctor_add(doctor, DOCTOR_NOTE, "device", about, NULL,
                   "shares its memory with the host: more may be free than CUDA says, and less than max_size allows");
    look_at_feature(doctor, device, about, GPU_FEATURE_MAPPING, "backing: arena is refused, and auto is a pool of CUDA's");
    look_at_feature(doctor, device, about, GPU_FEATURE_POOL_POSIX_FD, "ipc: posix_fd is refused, so its pools cannot be shared");
    look_at_feature(doctor, device, about, GPU_FEATURE_STREAM_ID,
                    "weir_malloc() on a raw stream is always served by the default pool, and caches serve opened streams only");
}

void doctor_look_at_gpu(struct doctor *doctor, const char *gpu_name)
{
    const char *why = "", *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
    doctor->gpu = gpu_find(gpu_name, &why);
    if (!doctor->gpu) {
        doctor_add(doctor, DOCTOR_BAD, "driver", NULL, "write cuda or sim in WEIR_GPU, or install Weir with CUDA", "there is no GPU called '%s': %s",
                   gpu_name ? gpu_name : "cuda", why);
        return;
    }
    bool is_there = look_at_driver(doctor);
    if (visible && !is_simulator(doctor))
        doctor_add(doctor, is_there ? DOCTOR_NOTE : DOCTOR_BAD, "devices", "CUDA_VISIBLE_DEVICES",
                   is_there ? NULL : "unset it, or write indices or UUIDs as nvidia-smi -L prints them",
                   "is '%s': other devices cannot be seen, and these count from 0", visible);
    doctor->devices = must(calloc((size_t)doctor->device_count + 1, sizeof doctor->devices[0]));
    for (int device = 0; device < doctor->device_count; device++)
        look_at_device(doctor, device);
}

/* What each device supports, in words --------------------------------------------------------------------------------------------------- */

int doctor_read_device(const struct doctor *doctor, int index, struct doctor_device *device)
{
    const struct gpu *gpu = doctor->gpu;
    int code = gpu->device_info(index, &device->info);
    if (code == GPU_SUCCESS)
        code = gpu->device_memory(index, &device->memory_free, &device->memory_total);
    device->peers = must(calloc((size_t)doctor->device_count, sizeof device->peers[0]));
    for (int peer = 0; code == GPU_SUCCESS && peer < doctor->device_count; peer++)
        if (peer != index)
            code = gpu->can_access_peer(index, peer, &device->peers[peer]);
    for (int i = 0; i < GPU_FEATURE_COUNT; i++)
        device->supports[i] = gpu->supports(index, (enum gpu_feature)i, device->why_not[i], sizeof device->why_not[i]);
    device->is_read = code == GPU_SUCCESS;
    return code;
}

/* In words ------------------------------------------------------------------------------------------------------------------------------- */

static void print_device(int index, const struct doctor_device *device)
{
    char heading[64];
    int width = 0;
    snprintf(heading, sizeof heading, "Device %d", index);
    putchar('\n');
    style_line(stdout, STYLE_STRONG, heading);
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        int len = (int)strlen(gpu_feature_name((enum gpu_feature)i));
        width = len > width ? len : width;
    }
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        printf("  %-*s  ", width, gpu_feature_name((enum gpu_feature)i));
        style_text(stdout, device->supports[i] ? STYLE_GOOD : STYLE_BAD, device->supports[i] ? "yes" : "no");
        printf("%s%s\n", device->supports[i] ? "" : ": ", device->supports[i] ? "" : device->why_not[i]);
    }
}

static void print_peers(const struct doctor *doctor)
{
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Peers");
    puts("  Whether kernels on the device above can use memory of the device at the left, if a policy's peer_access grants it.\n");
    char *alignment = must(calloc((size_t)doctor->device_count + 2, 1));
    memset(alignment, 'l', (size_t)doctor->device_count + 1);
    struct table table = TABLE_INIT(alignment);
    table_cell(&table, "MEMORY OF");
    for (int i = 0; i < doctor->device_count; i++)
        table_cell(&table, "%d", i);
    for (int i = 0; i < doctor->device_count; i++) {
        table_cell(&table, "%d", i);
        for (int peer = 0; peer < doctor->device_count; peer++)
            table_cell(&table, "%s", i == peer                       ? "-"
                                     : !doctor->devices[i].is_read   ? "?"
                                     : doctor->devices[i].peers[peer] ? "yes"
                                                                     : "no");
    }
    table_print(&table, stdout);
    free(alignment);
}

void doctor_print_devices(const struct doctor *doctor)
{
    for (int i = 0; i < doctor->device_count; i++)
        if (doctor->devices[i].is_read)
            print_device(i, &doctor->devices[i]);
    if (doctor->device_count > 1)
        print_peers(doctor);
}

/* As JSON -------------------------------------------------------------------------------------------------------------------------------- */

static void json_device(struct json *json, const struct doctor *doctor, int index)
{
    const struct doctor_device *device = &doctor->devices[index];
    json_object(json, NULL);
    json_uint(json, "device", (uint64_t)index);
    json_string(json, "name", device->info.name);
    json_string(json, "uuid", device->info.uuid);
    json_bool(json, "mig", device->info.mig);
    json_uint(json, "memory", device->memory_total);
    json_uint(json, "memory_free", device->memory_free);
    json_array(json, "features");
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        json_object(json, NULL);
        json_string(json, "feature", gpu_feature_name((enum gpu_feature)i));
        json_bool(json, "supported", device->supports[i]);
        json_string(json, "why_not", device->supports[i] ? NULL : device->why_not[i]);
        json_end(json);
    }
    json_end(json);
    json_array(json, "reachable_from");
    for (int peer = 0; peer < doctor->device_count; peer++)
        if (device->peers[peer])
            json_uint(json, NULL, (uint64_t)peer);
    json_end(json);
    json_end(json);
}

void doctor_json_devices(const struct doctor *doctor, struct json *json)
{
    json_string(json, "gpu", doctor->gpu ? doctor->gpu->name : NULL);
    json_string(json, "driver", doctor->driver);
    json_string(json, "toolkit", doctor->toolkit);
    json_array(json, "devices");
    for (int i = 0; i < doctor->device_count; i++)
        if (doctor->devices[i].is_read)
            json_device(json, doctor, i);
    json_end(json);
}
