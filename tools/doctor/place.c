/* SPDX-License-Identifier: MIT */
/* place.c - `weir doctor`: what a process that is started from here finds of its place among others: its rank, MPS, its limits. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/pool/local_rank.h"
#include "lib/pool/quota.h"
#include "policy/policy.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/processes.h"
#include "tools/doctor/doctor.h"

/* Rank ----------------------------------------------------------------------------------------------------------------------------------- */

static void look_at_rank(struct doctor *doctor)
{
    char why[WEIR__LOCAL_RANK_WHY];
    const char *value, *name = weir__local_rank_variable(&value);
    int device = 0;
    bool is_found = weir__local_rank_device((size_t)doctor->device_count, &device, why);
    if (!is_found)
        doctor_add(doctor, name ? DOCTOR_BAD : DOCTOR_NOTE, "rank", name,
                   name ? "correct it or unset it" : NULL, "a pool whose devices say local is refused, as it %s", why);
    else if (name)
        doctor_add(doctor, DOCTOR_GOOD, "rank", name, NULL, "is %s: devices: local is device %d", value, device);
    else
        doctor_add(doctor, DOCTOR_GOOD, "rank", NULL, NULL, "none is set, and there is one device: devices: local is device %d", device);
}

/* MPS ------------------------------------------------------------------------------------------------------------------------------------ */

/* The number in the file that the daemon writes; 0: there is none. */
static long daemon_of(const char *directory)
{
    char *path = format_text("%s/nvidia-cuda-mps-control.pid", directory), text[32] = "";
    FILE *file = doctor_open(path);
    long pid = file && fgets(text, sizeof text, file) ? strtol(text, NULL, 10) : 0;
    if (file)
        fclose(file);
    free(path);
    return pid > 1 && pid < INT32_MAX ? pid : 0;
}

static void look_at_mps(struct doctor *doctor)
{
    const char *named = variable("CUDA_MPS_PIPE_DIRECTORY"), *directory = named ? named : "/tmp/nvidia-mps";
    struct stat info;
    struct text user;
    if (stat(directory, &info) != 0) {
        if (named)
            doctor_add(doctor, DOCTOR_NOTE, "MPS", directory, "start nvidia-cuda-mps-control -d, or unset CUDA_MPS_PIPE_DIRECTORY",
                       "CUDA_MPS_PIPE_DIRECTORY cannot be looked at (%s): programs run without MPS", strerror(errno));
        else
            doctor_add(doctor, DOCTOR_GOOD, "MPS", NULL, NULL, "is not in use: processes on one GPU take turns, and no limit of it is in force");
        return;
    }
    long pid = daemon_of(directory);
    bool is_alive = pid && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    if (is_alive)
        doctor_add(doctor, DOCTOR_NOTE, "MPS", directory, NULL,
                   "its daemon %ld runs for user %s: processes of one user share a GPU at a time, and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is "
                   "in force",
                   pid, process_user(info.st_uid, &user));
    else
        doctor_add(doctor, DOCTOR_NOTE, "MPS", directory, "start nvidia-cuda-mps-control -d, or remove the directory if MPS is not wanted",
                   "is user %s's, and no daemon of it can be seen here: it has ended, or is in another PID namespace",
                   process_user(info.st_uid, &user));
}

/* Limits --------------------------------------------------------------------------------------------------------------------------------- */

static void look_at_limits(struct doctor *doctor, int device)
{
    const struct gpu_device_info *info = &doctor->devices[device].info;
    struct weir__quota quota;
    weir__quota_read(device, info->memory, &quota);
    for (size_t i = 0; i < quota.count; i++) {
        const struct weir__quota_limit *limit = &quota.limits[i];
        if (limit->is_refused)
            doctor_add(doctor, DOCTOR_BAD, "limits", limit->variable, "correct it or unset it",
                       "is '%s', with which weir_open() fails: it %s", limit->value, limit->why);
        else if (*limit->why)
            doctor_add(doctor, DOCTOR_BAD, "limits", limit->variable, "correct it or unset it", "is '%s' and ignored on device %d: it %s",
                       limit->value, device, limit->why);
        else if ((int)i == quota.counts)
            doctor_add(doctor, DOCTOR_NOTE, "limits", limit->variable, NULL, "is '%s': %s of device %d, which counts", limit->value,
                       SIZE_TEXT(limit->bytes), device);
        else if (limit->bytes)
            doctor_add(doctor, DOCTOR_NOTE, "limits", limit->variable, NULL, "is '%s': %s of device %d, and a lower one counts",
                       limit->value, SIZE_TEXT(limit->bytes), device);
        else
            doctor_add(doctor, DOCTOR_NOTE, "limits", limit->variable, NULL, "is '%s': nothing of it is for device %d", limit->value, device);
    }
    doctor_add(doctor, DOCTOR_GOOD, "limits", NULL, NULL,
               "a process may have %s of device %d (%s): so much is max_size: quota, %sand percentages are of it%s", SIZE_TEXT(quota.bytes),
               device, quota.counts < 0 ? "all of it" : quota.limits[quota.counts].variable,
               quota.counts < 0 ? "" : "which caps pools without a max_size too, ",
               quota.counts < 0 ? "" : ". Weir's pools keep to it; nothing here makes other memory do so");
}

void doctor_look_at_place(struct doctor *doctor)
{
    if (doctor->device_count)
        look_at_rank(doctor);
    look_at_mps(doctor);
    for (int device = 0; device < doctor->device_count; device++)
        if (doctor->devices[device].is_read)
            look_at_limits(doctor, device);
}

/* Policy --------------------------------------------------------------------------------------------------------------------------------- */

void doctor_look_at_policy(struct doctor *doctor)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    char text[2048];
    enum policy_status status = policy_load(NULL, &errors, &policy);
    if (status == POLICY_OK)
        doctor_add(doctor, DOCTOR_GOOD, "policy", NULL, NULL, "programs that choose none get %s", policy->file);
    for (size_t i = 0; i < errors.count; i++) {
        policy_error_format(&errors.items[i], text, sizeof text);
        doctor_add(doctor, DOCTOR_BAD, "policy", NULL, "correct the policy: weir show prints the one in force", "%s", text);
    }
    policy_errors_clear(&errors);
    policy_free(policy);
}
