/* SPDX-License-Identifier: MIT */
/* devices.c - `weir doctor`: what each device supports, why it does not support the rest, and which devices reach each other's memory. */
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/doctor/doctor.h"

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
