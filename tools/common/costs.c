/* SPDX-License-Identifier: MIT */
#include "tools/common/costs.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/gpu/sim.h"
#include "tools/common/complain.h"

#define VERSION "1"
#define LINE_SIZE 512

const struct cost_row cost_rows[COST_COUNT] = {
#define COST_ROW(key, form, what) { #key, COST_##form, what },
    COSTS(COST_ROW)
#undef COST_ROW
};

void costs_init(struct costs *costs)
{
    *costs = (struct costs){ .gpu = "" };
    for (int i = 0; i < COST_COUNT; i++)
        if (!sim_standard_cost(cost_rows[i].key, &costs->values[i]))
            costs->values[i] = (struct gpu_cost){ 0 };
    costs->values[COST_pair_arena].call = 250;
}

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

struct reading {
    const char *name;
    unsigned line;
    struct costs *costs;
    bool has_version, is_known[3]; /* gpu, driver, uuid */
    char *why;
    size_t why_len;
};

static bool refuse(struct reading *reading, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct reading *reading, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = snprintf(reading->why, reading->why_len, "%s:%u: ", reading->name, reading->line);
    if (len >= 0 && (size_t)len < reading->why_len)
        vsnprintf(reading->why + len, reading->why_len - (size_t)len, format, args);
    va_end(args);
    return false;
}

static bool has_form(enum cost_form form, struct gpu_cost cost)
{
    return form == COST_SIZED || (form == COST_TIME ? !cost.gib : !cost.call);
}

static bool read_cost(struct reading *reading, int row, const char *value)
{
    static const char *const remedies[] = { [COST_TIME] = "300ns, 7us or 1ms", [COST_RATE] = "830us/GiB", [COST_SIZED] = "7us+10us/GiB" };
    struct gpu_cost cost;
    const char *key = cost_rows[row].key;
    enum cost_form form = cost_rows[row].form;
    if (reading->costs->is_measured[row])
        return refuse(reading, "'%s' stands there twice: take one of the lines out", key);
    if (!gpu_cost_parse(value, &cost) || !has_form(form, cost))
        return refuse(reading, "%s: '%s': write whole numbers up to a minute, as in %s", key, value, remedies[form]);
    reading->costs->values[row] = cost;
    reading->costs->is_measured[row] = true;
    return true;
}

/* What the table is of. -1: the key is none of these. */
static int read_name(struct reading *reading, const char *key, const char *value)
{
    struct costs *costs = reading->costs;
    const struct {
        const char *key;
        char *place;
        size_t size;
    } names[] = {
        { "gpu", costs->gpu, sizeof costs->gpu }, { "driver", costs->driver, sizeof costs->driver }, { "uuid", costs->uuid, sizeof costs->uuid }
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i].key) == 0) {
            size_t len = strlen(value);
            if (reading->is_known[i])
                return refuse(reading, "'%s' stands there twice: take one of the lines out", key);
            if (len == 0 || len >= names[i].size)
                return refuse(reading, "%s: '%s': write 1 to %zu bytes, as weir doctor shows them", key, value, names[i].size - 1);
            memcpy(names[i].place, value, len + 1);
            return reading->is_known[i] = true;
        }
    return -1;
}

/* Tables of former releases have pairs in several threads, "pair_16", which no replay reads. */
static bool is_former(const char *key)
{
    return strncmp(key, "pair_", 5) == 0 && key[5 + strspn(key + 5, "0123456789")] == '\0';
}

static bool read_pair(struct reading *reading, const char *key, const char *value)
{
    if (!reading->has_version) {
        if (strcmp(key, "weir_costs") != 0)
            return refuse(reading, "'%s': a cost table begins with 'weir_costs: " VERSION "'; weir calibrate writes one", key);
        if (strcmp(value, VERSION) != 0)
            return refuse(reading, "weir_costs: '%s': this weir reads " VERSION ": measure with it, by weir calibrate", value);
        return reading->has_version = true;
    }
    int is_name = read_name(reading, key, value);
    if (is_name >= 0)
        return is_name;
    for (int i = 0; i < COST_COUNT; i++)
        if (strcmp(key, cost_rows[i].key) == 0)
            return read_cost(reading, i, value);
    return is_former(key) || refuse(reading, "'%s' is no cost that this weir knows: take the line out, or measure with weir calibrate", key);
}

/* Ends the text behind its last byte that is no blank. */
static void cut_blanks(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t' || text[len - 1] == '\r'))
        text[--len] = '\0';
}

static bool read_line(struct reading *reading, char *line)
{
    for (const char *at = line; *at; at++)
        if (iscntrl((unsigned char)*at) && *at != '\t' && *at != '\r')
            return refuse(reading, "byte 0x%02x: write text only", (unsigned char)*at);
    for (char *at = line; (at = strchr(at, '#')); at++)
        if (at == line || at[-1] == ' ' || at[-1] == '\t') {
            *at = '\0';
            break;
        }
    cut_blanks(line);
    if (!*line)
        return true;
    char *colon = strchr(line, ':');
    if (!colon || (colon[1] != ' ' && colon[1] != '\t' && colon[1] != '\0') || *line == ' ' || *line == '\t')
        return refuse(reading, "'%s': write KEY: VALUE, as in malloc_async: 300ns", line);
    *colon = '\0';
    return read_pair(reading, line, colon + 1 + strspn(colon + 1, " \t"));
}

bool costs_read(const char *name, const char *text, size_t len, struct costs *costs, char *why, size_t why_len)
{
    struct reading reading = { .name = name, .costs = costs, .why = why, .why_len = why_len };
    costs_init(costs);
    if (len > COSTS_TEXT_MAX) {
        snprintf(why, why_len, "%s: more than %d bytes: this is no cost table; weir calibrate writes one", name, COSTS_TEXT_MAX);
        return false;
    }
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t size = end ? (size_t)(end - text) - at : len - at;
        char line[LINE_SIZE];
        reading.line++;
        if (size >= sizeof line || memchr(text + at, '\0', size))
            return refuse(&reading, "%s: write text, less than %d bytes in a line", size >= sizeof line ? "a long line" : "byte 0x00", LINE_SIZE);
        memcpy(line, text + at, size);
        line[size] = '\0';
        if (!read_line(&reading, line))
            return false;
        at += size + 1;
    }
    if (!reading.has_version || !reading.is_known[0])
        return refuse(&reading, "%s: weir calibrate writes a whole table",
                      reading.has_version ? "it says of no GPU, by 'gpu: NAME'" : "the table is empty, without 'weir_costs: " VERSION "'");
    return true;
}

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

/* Names come from a driver. What would be read otherwise than it was written becomes a question mark. */
static void write_name(FILE *out, const char *key, const char *value)
{
    if (!*value)
        return;
    fprintf(out, "%s: ", key);
    for (const char *at = value; *at; at++)
        fputc(iscntrl((unsigned char)*at) || *at == '#' || *at == ':' ? '?' : *at, out);
    fputc('\n', out);
}

char *costs_write(const struct costs *costs)
{
    char *text, value[GPU_COST_TEXT_SIZE];
    size_t len;
    FILE *out = must(open_memstream(&text, &len));
    fprintf(out, "# What calls of this GPU cost the calling thread, as weir calibrate measured it.\nweir_costs: " VERSION "\n");
    write_name(out, "gpu", costs->gpu);
    write_name(out, "driver", costs->driver);
    write_name(out, "uuid", costs->uuid);
    for (int i = 0; i < COST_COUNT; i++)
        if (costs->is_measured[i])
            fprintf(out, "%s: %s # %s\n", cost_rows[i].key, gpu_cost_format(costs->values[i], value), cost_rows[i].what);
    fclose(out);
    return must(text);
}

char *costs_to_sim(const struct costs *costs)
{
    char *text, value[GPU_COST_TEXT_SIZE];
    struct gpu_cost unused;
    const char *comma = "";
    size_t len;
    FILE *out = must(open_memstream(&text, &len));
    for (int i = 0; i < COST_COUNT; i++) {
        if (!costs->is_measured[i] || !sim_standard_cost(cost_rows[i].key, &unused))
            continue;
        /* Zero is a time where the setting wants a rate. */
        bool is_free_rate = cost_rows[i].form == COST_RATE && !costs->values[i].gib;
        fprintf(out, "%s%s=%s", comma, cost_rows[i].key, is_free_rate ? "0ns/GiB" : gpu_cost_format(costs->values[i], value));
        comma = ",";
    }
    fclose(out);
    return must(text);
}
