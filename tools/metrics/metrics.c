/* SPDX-License-Identifier: MIT */
/* metrics.c - `weir metrics`: the figures of all live processes, and of exports, in the text format of Prometheus. */
#include "config.h"

#include "lib/about.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/new_file.h"
#include "tools/common/observe.h"
#include "tools/common/processes.h"
#include "tools/common/utf8.h"
#include "tools/metrics/families.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPT_OUTPUT, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_OUTPUT] = {.name = "output", .letter = 'o', .kind = OPTION_TEXT, .placeholder = "FILE", .help = "replace FILE by them, in one go"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

/* Objects of a process that are one series: private pools of one name, or tags whose names look the same. */
struct series {
    const figures *object, *device; /* device: of a pool; NULL: the process does not tell of it */
    const char *name;
    bool is_first; /* of its series */
    size_t next;   /* of the same series; 0: there is none */
};

/* The series of one process. */
struct collection {
    size_t pool_count, tag_count;
    struct series *pools, *tags;
    bool *tells_gpu; /* of each device: no process before it, nor this one, tells of that GPU of the machine */
};

/* One text of metrics that is being written. */
struct writer {
    FILE *out;
    const struct processes *processes;
    const struct collection *collections; /* of each process */
    const struct observed_sockets *exports;
    const struct family *family; /* whose HELP and TYPE are written */
    bool has_labels;             /* of the series that is being written */
};

/* Begins a series; the family's first one with what is said of it, so that there is no heading without any. */
static void begin(struct writer *writer, const struct family *family)
{
    if (writer->family != family)
        fprintf(writer->out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name, family->type);
    writer->family = family;
    writer->has_labels = false;
    fputs(family->name, writer->out);
}

static void label(struct writer *writer, const char *name, const char *value)
{
    char *escaped = must(utf8_label(value));
    fprintf(writer->out, "%c%s=\"%s\"", writer->has_labels ? ',' : '{', name, escaped);
    writer->has_labels = true;
    free(escaped);
}

static void label_number(struct writer *writer, const char *name, unsigned value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    label(writer, name, text);
}

static void end(struct writer *writer, uint64_t value, enum value_kind kind)
{
    fputs(writer->has_labels ? "} " : " ", writer->out);
    if ((kind == VALUE_BOUND && value == UINT64_MAX) || (kind == VALUE_CAP && value == 0))
        fputs("+Inf\n", writer->out);
    else if (kind == VALUE_MILLISECONDS)
        fprintf(writer->out, "%" PRIu64 ".%03u\n", value / 1000, (unsigned)(value % 1000));
    else
        fprintf(writer->out, "%" PRIu64 "\n", value);
}

/* Tells the weirs of a process apart. Numbers of other PID namespaces may come twice, but series must not. */
static unsigned weir_label(const struct processes *processes, const struct process *process)
{
    unsigned same = 0;
    for (const struct process *other = processes->items; other < process; other++)
        same += other->pid == process->pid && other->number == process->number;
    return process->number + same * 1000000;
}

/* Which process: the same labels in each of its series. */
static void label_process(struct writer *writer, const struct process *process)
{
    label_number(writer, "pid", (unsigned)process->pid);
    label_number(writer, "weir", weir_label(writer->processes, process));
}

static void label_program(struct writer *writer, const struct process *process)
{
    label_process(writer, process);
    label(writer, "program", figure_text(process->figures, "program"));
}

static void label_device(struct writer *writer, const struct process *process, uint64_t index, const figures *device)
{
    label_program(writer, process);
    label_number(writer, "device", (unsigned)index);
    label(writer, "uuid", device ? figure_text(device, "uuid") : "");
}

/* At a socket there is one export at a time. */
static void label_export(struct writer *writer, const struct observed_socket *socket)
{
    label(writer, "socket", socket->path);
    label_number(writer, "pid", (unsigned)socket->seen.told.pid);
    label(writer, "pool", socket->seen.told.pool);
    label(writer, "uuid", socket->seen.told.uuid);
}

/* Of an export or a ring. */
static uint64_t value_of(const void *object, const struct family *family)
{
    uint64_t value;
    memcpy(&value, (const char *)object + family->offset, sizeof value);
    return value;
}

/* What two values come to together, where one may stand for infinity. */
static uint64_t sum_of(uint64_t a, uint64_t b, enum value_kind kind)
{
    uint64_t sum;
    if (kind == VALUE_CAP && (a == 0 || b == 0))
        return 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Series ------------------------------------------------------------------------------------------------------------------------------- */

/* Whether there is an export that should have answered. At other sockets nobody listens, or another user, or a Weir that does not count. */
static bool is_mute(const struct observed_socket *socket)
{
    return socket->status != WEIR_OK && socket->status != WEIR_GONE && socket->status != WEIR_REFUSED;
}

static int exports_exit(const struct observed_sockets *exports)
{
    for (size_t i = 0; i < exports->count; i++)
        if (is_mute(&exports->items[i]))
            return EXIT_TROUBLE;
    return EXIT_GOOD;
}

static int exit_of(const struct writer *writer)
{
    return worse_exit(processes_exit(writer->processes), exports_exit(writer->exports));
}

static void write_collect(struct writer *writer, uint64_t now)
{
    static const struct family success = {"weir_last_collect_success", "gauge", "Whether every process and export answered (1) or not (0).",
                                          OF_PROCESS, NULL, 0, VALUE_PLAIN};
    static const struct family timestamp = {"weir_last_collect_timestamp_seconds", "gauge", "When these figures were collected.",
                                            OF_PROCESS, NULL, 0, VALUE_PLAIN};
    begin(writer, &success);
    end(writer, exit_of(writer) == EXIT_GOOD, VALUE_PLAIN);
    begin(writer, &timestamp);
    end(writer, now, VALUE_PLAIN);
}

static void write_processes(struct writer *writer)
{
    static const struct family up = {"weir_process_up", "gauge", "Whether it answered (1) or not (0).", OF_PROCESS, NULL, 0, VALUE_PLAIN};
    static const struct family info = {"weir_process_info", "gauge", "Always 1: what the process is.", OF_PROCESS, NULL, 0, VALUE_PLAIN};
    const struct processes *processes = writer->processes;
    for (size_t i = 0; i < processes->count; i++) {
        begin(writer, &up);
        label_process(writer, &processes->items[i]);
        end(writer, processes->items[i].status == WEIR_OK, VALUE_PLAIN);
    }
    for (size_t i = 0; i < processes->count; i++) {
        if (processes->items[i].status != WEIR_OK)
            continue;
        begin(writer, &info);
        label_program(writer, &processes->items[i]);
        label_number(writer, "uid", processes->items[i].uid);
        label(writer, "version", figure_text(processes->items[i].figures, "version"));
        for (unsigned l = 0; l < WEIR__LABELS; l++) {
            const char *value = figure_text(figures_of(processes->items[i].figures, "labels"), weir__label_name(l));
            if (value)
                label(writer, weir__label_name(l), value);
        }
        end(writer, 1, VALUE_PLAIN);
    }
}

static void write_rungs(struct writer *writer, const struct family *family, const struct process *process, const figures *device)
{
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        begin(writer, family);
        label_device(writer, process, figure(device, "index"), device);
        label(writer, "rung", weir_rung_name((weir_rung)rung));
        end(writer, figure(figures_of(device, family->member), weir_rung_name((weir_rung)rung)), family->kind);
    }
}

static void write_device(struct writer *writer, const struct family *family, const struct process *process, const figures *device)
{
    begin(writer, family);
    if (family->of == OF_GPU)
        label(writer, "uuid", figure_text(device, "uuid"));
    else
        label_device(writer, process, figure(device, "index"), device);
    if (family->of == OF_QUOTA)
        label(writer, "from", figure_text(device, "quota_from") ? figure_text(device, "quota_from") : "");
    end(writer, figure(device, family->member), family->kind);
}

static void write_series(struct writer *writer, const struct family *family, const struct process *process, const struct series *all,
                         size_t index)
{
    uint64_t value = figure(all[index].object, family->member);
    bool has_audit = figures_has_audit(all[index].object);
    for (size_t i = all[index].next; i; i = all[i].next) {
        value = sum_of(value, figure(all[i].object, family->member), family->kind);
        has_audit = has_audit || figures_has_audit(all[i].object);
    }
    if (family->of == OF_AUDIT && !has_audit)
        return;
    begin(writer, family);
    if (family->of == OF_TAG) {
        label_program(writer, process);
        label(writer, "tag", all[index].name);
    } else {
        label_device(writer, process, figure(all[index].object, "device"), all[index].device);
        label(writer, "pool", all[index].name);
        label(writer, "private", figure_is(all[index].object, "is_private") ? "true" : "false");
    }
    end(writer, value, family->kind);
}

/* The series that the process tells of. */
static void write_family(struct writer *writer, const struct family *family, const struct process *process)
{
    const struct collection *collection = &writer->collections[process - writer->processes->items];
    bool is_of_device = family->of == OF_GPU || family->of == OF_DEVICE || family->of == OF_RUNG || family->of == OF_QUOTA;
    bool is_of_pool = family->of == OF_POOL || family->of == OF_AUDIT;
    if (family->of == OF_PROCESS && process->status == WEIR_OK) {
        begin(writer, family);
        label_program(writer, process);
        end(writer, figure(process->figures, family->member), family->kind);
    }
    for (size_t i = 0; is_of_device && i < figures_count(process->figures, "devices"); i++) {
        const figures *device = figures_at(process->figures, "devices", i);
        if (family->of == OF_RUNG)
            write_rungs(writer, family, process, device);
        else if (family->of != OF_GPU || collection->tells_gpu[i])
            write_device(writer, family, process, device);
    }
    for (size_t i = 0; is_of_pool && i < collection->pool_count; i++)
        if (collection->pools[i].is_first)
            write_series(writer, family, process, collection->pools, i);
    for (size_t i = 0; family->of == OF_TAG && i < collection->tag_count; i++)
        if (collection->tags[i].is_first)
            write_series(writer, family, process, collection->tags, i);
}

static void write_exports(struct writer *writer)
{
    static const struct family up = {"weir_export_up", "gauge", "Whether the export answered (1) or not (0).", OF_EXPORT, NULL, 0, VALUE_PLAIN};
    for (size_t i = 0; i < writer->exports->count; i++) {
        const struct observed_socket *socket = &writer->exports->items[i];
        if (socket->status != WEIR_OK && !is_mute(socket))
            continue;
        begin(writer, &up);
        label(writer, "socket", socket->path);
        end(writer, socket->status == WEIR_OK, VALUE_PLAIN);
    }
}

/* The series that the export tells of. */
static void write_export(struct writer *writer, const struct family *family, const struct observed_socket *socket)
{
    if (socket->status != WEIR_OK || !socket->seen.is_counted)
        return;
    if (family->of == OF_EXPORT) {
        begin(writer, family);
        label_export(writer, socket);
        end(writer, value_of(&socket->seen.counts, family), family->kind);
    }
    for (size_t i = 0; family->of == OF_RING && i < socket->seen.ring_count; i++) {
        begin(writer, family);
        label_export(writer, socket);
        label(writer, "ring", socket->seen.rings[i].name);
        end(writer, value_of(&socket->seen.rings[i], family), family->kind);
    }
}

static void write_all(struct writer *writer, FILE *out)
{
    writer->out = out;
    write_collect(writer, (uint64_t)time(NULL));
    write_processes(writer);
    write_exports(writer);
    for (size_t f = 0; f < metrics_family_count; f++) {
        for (size_t i = 0; i < writer->processes->count; i++)
            write_family(writer, &metrics_families[f], &writer->processes->items[i]);
        for (size_t i = 0; i < writer->exports->count; i++)
            write_export(writer, &metrics_families[f], &writer->exports->items[i]);
    }
}

/* Collecting --------------------------------------------------------------------------------------------------------------------------- */

/* What the objects are that are one series. */
static char *key_of(const figures *object)
{
    return format_text("%" PRIu64 " %d %s", figure(object, "device"), figure_is(object, "is_private"), figure_text(object, "name"));
}

/* Of an array of the document. What is one series is chained in the order of the document. */
static struct series *collect(const figures *document, const char *array, size_t *count)
{
    *count = figures_count(document, array);
    struct series *all = must(calloc(*count + 1, sizeof *all));
    char **keys = must(calloc(*count + 1, sizeof *keys));
    size_t *last = must(calloc(*count + 1, sizeof *last)); /* of the series that begins there */
    for (size_t i = 0; i < *count; i++) {
        const figures *object = figures_at(document, array, i);
        all[i] = (struct series){.object = object, .name = figure_text(object, "name")};
        all[i].device = figures_device(document, figure(object, "device"));
        keys[i] = key_of(object);
    }
    size_t *first = first_same((const char *const *)keys, *count);
    for (size_t i = 0; i < *count; i++) {
        all[i].is_first = first[i] == i;
        if (!all[i].is_first)
            all[last[first[i]]].next = i;
        last[first[i]] = i;
        free(keys[i]);
    }
    free(first);
    free(last);
    free(keys);
    return all;
}

/* A GPU of the machine is told of once, by the first process that has it. */
static void find_tellers(struct collection *collections, const struct processes *processes)
{
    const char **uuids = NULL;
    size_t count = 0, room = 0, at = 0;
    for (size_t i = 0; i < processes->count; i++)
        for (size_t j = 0; j < figures_count(processes->items[i].figures, "devices"); j++) {
            *MUST_ADD(uuids, count, room) = figure_text(figures_at(processes->items[i].figures, "devices", j), "uuid");
        }
    size_t *first = first_same(uuids, count);
    for (size_t i = 0; i < processes->count; i++) {
        size_t devices = figures_count(processes->items[i].figures, "devices");
        collections[i].tells_gpu = must(calloc(devices + 1, sizeof(bool)));
        for (size_t j = 0; j < devices; j++, at++)
            collections[i].tells_gpu[j] = first[at] == at;
    }
    free(first);
    free(uuids);
}

static struct collection *collect_all(const struct processes *processes)
{
    struct collection *collections = must(calloc(processes->count + 1, sizeof *collections));
    for (size_t i = 0; i < processes->count; i++) {
        collections[i].pools = collect(processes->items[i].figures, "pools", &collections[i].pool_count);
        collections[i].tags = collect(processes->items[i].figures, "tags", &collections[i].tag_count);
    }
    find_tellers(collections, processes);
    return collections;
}

static void free_all(struct collection *collections, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(collections[i].pools);
        free(collections[i].tags);
        free(collections[i].tells_gpu);
    }
    free(collections);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static int replace(struct writer *writer, const char *path)
{
    struct new_file file;
    /* Whoever scrapes it is another user. */
    if (!new_file_begin(&file, "metrics", path, NEW_FILE_REPLACE, 0644))
        return EXIT_TROUBLE;
    write_all(writer, file.out);
    return new_file_end(&file, true);
}

static void complain_of(const struct observed_sockets *exports)
{
    for (size_t i = 0; i < exports->count; i++)
        if (is_mute(&exports->items[i]))
            complain("metrics: %s", exports->items[i].text);
}

static int run(const struct command_call *call)
{
    static const struct wire_message count = {.type = WIRE_COUNT};
    unsigned timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]);
    struct processes processes;
    struct observed_sockets exports;
    struct writer writer = {.processes = &processes, .exports = &exports};
    int status = processes_find("metrics", 0, NULL, timeout_ms, &processes);
    struct collection *collections = collect_all(&processes);
    writer.collections = collections;
    if (observe_sockets("metrics", 0, NULL, &exports))
        observe_ask(&exports, &count, timeout_ms);
    if (call->options[OPT_OUTPUT].given)
        status = replace(&writer, call->options[OPT_OUTPUT].text);
    else
        write_all(&writer, stdout);
    status = worse_exit(status, exit_of(&writer));
    processes_complain("metrics", &processes);
    complain_of(&exports);
    observe_sockets_free(&exports);
    free_all(collections, processes.count);
    processes_free(&processes);
    return status;
}

const struct command command_metrics = {
    .name = "metrics",
    .summary = "print the figures of all live processes for Prometheus",
    .operands = "",
    .details =
        "Prints the figures that 'weir ps --json' has, and the counts of 'weir leases --json', in the text format of Prometheus (0.0.4).\n"
        "With --output they replace FILE all at once, as the textfile collector of its node exporter wants it: run this by a timer, with\n"
        "a FILE that ends in .prom. Where one did not answer, weir_process_up of the process or weir_export_up of the socket is 0, and\n"
        "weir_last_collect_success too; the others are written. A dashboard of Grafana for them is installed beside the policies.\n"
        "Exit status: 0 all answered, 2 a process or an export does not answer, or FILE cannot be written.",
    .example = "  weir metrics\n"
               "  weir metrics --output=/var/lib/prometheus/node-exporter/weir.prom\n",
    .options = options,
    .run = run,
};
