/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/claims.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/gpu/slots.h"
#include "share/control/ledger.h"
#include "share/wire/directory.h"
#include "tools/common/environment.h"
#include "tools/common/processes.h"
#include "tools/common/table.h"

#define TIME_MOST (1000 * GPU_MILLISECOND) /* for all files */

/* Called for each claim; gpu: the UUID of the device. */
typedef void (*claim_fn)(void *data, const char *gpu, uid_t uid, const struct share_claim *claim);

static void each_of_file(const char *path, claim_fn use, void *data)
{
    const char *slash = strrchr(path, '/');
    char *gpu = format_text("%.*s", (int)(strlen(slash + 1) - strlen(SHARE_CLAIMS_SUFFIX)), slash + 1);
    struct share_claims claims = {.count = 0};
    struct stat info;
    int fd = lstat(path, &info) == 0 ? gpu_slots_open(path, 0, info.st_uid) : -1;
    if (fd >= 0 && share_ledger_read(fd, UINT64_MAX / SHARE_CLAIMS_MAX, 0, &claims) != 0)
        claims.count = 0;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < claims.count; i++)
        use(data, gpu, info.st_uid, &claims.items[i]);
    free(gpu);
}

/* The files of other users, which root sees last, may be many, and each can be kept from being read for a moment. */
static void each(claim_fn use, void *data)
{
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    uint64_t deadline = weir__service_now() + TIME_MOST;
    share_claims_files(weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    for (size_t i = 0; i < count && weir__service_now() < deadline; i++)
        each_of_file(paths[i], use, data);
    free(paths);
}

static void add_row(void *data, const char *gpu, uid_t uid, const struct share_claim *claim)
{
    struct table *table = data;
    if (table->count == 0)
        table_row(table, "PID", "USER", "PROGRAM", "GPU", "CLAIM", "ASLEEP");
    table_cell(table, "%u", claim->pid);
    table_row(table, process_user(uid, &(struct text){{0}}), claim->program);
    table_cell(table, "%.12s", gpu);
    table_row(table, SIZE_TEXT(claim->bytes), SIZE_TEXT(claim->bytes - share_claim_stands(claim)));
}

void claims_print(FILE *out)
{
    struct table table = TABLE_INIT("llllrr");
    each(add_row, &table);
    if (table.count > 0)
        fputc('\n', out);
    if (table.count > 0)
        table_print(&table, out);
}

static void add_object(void *data, const char *gpu, uid_t uid, const struct share_claim *claim)
{
    struct json *json = data;
    json_object(json, NULL);
    json_uint(json, "pid", claim->pid);
    json_uint(json, "uid", uid);
    json_string(json, "user", process_user(uid, &(struct text){{0}}));
    json_string(json, "program", claim->program);
    json_string(json, "gpu", gpu);
    json_uint(json, "bytes", claim->bytes);
    json_uint(json, "asleep", claim->bytes - share_claim_stands(claim));
    json_end(json);
}

void claims_json(struct json *json)
{
    json_array(json, "claims");
    each(add_object, json);
    json_end(json);
}
