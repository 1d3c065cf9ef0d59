/* SPDX-License-Identifier: MIT */
/* page.c - `weir trace page`: plays each trace once, and writes one file that a browser opens. */
#include "config.h"

#include "tools/page/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "tools/common/complain.h"
#include "tools/common/new_file.h"
#include "tools/common/source.h"
#include "tools/replay/machine.h"
#include "tools/replay/policy.h"
#include "tools/replay/replay.h"
#include "tools/replay/unaware.h"

enum { TUNED_MAX = 16 << 20 }; /* bytes of a document of weir tune: its own have less than one MiB */

/* What is written into the page, beside its scripts. */
struct page {
    const struct view *view;
    struct page_columns *columns; /* of each file */
    char **policies;              /* of --policy, as texts */
    char *tuned;                  /* the document of --tune; NULL: none */
    char *json;
    size_t json_len;
};

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

/* The caller's to free; NULL after a complaint. Whether it is such a document is for the page to say, which shows what is in it. */
static char *read_tuned(const char *path)
{
    char *bytes = NULL, *text = NULL;
    size_t len = 0;
    int error = source_read(path, TUNED_MAX, &bytes, &len);
    if (!error)
        text = must(strndup(bytes, len));
    free(bytes);
    /* What no document of weir tune lacks. */
    if (text && len <= TUNED_MAX && text[0] == '{' && strstr(text, "\"policy_in_force\"") && strstr(text, "\"front\""))
        return text;
    if (error)
        complain("trace: --tune=%s: %s", path, strerror(error));
    else
        complain("trace: --tune=%s is no document of weir tune: write one with 'weir tune --json TRACE >FILE'", path);
    free(text);
    return NULL;
}

/* EXIT_GOOD, or after a complaint another exit status. */
static int read_inputs(struct page *page)
{
    const struct view *view = page->view;
    page->policies = must(calloc(view->page.policy_count + 1, sizeof page->policies[0]));
    for (size_t i = 0; i < view->page.policy_count; i++) {
        int status = replay_policy_read_valid("trace", view->page.policies[i], &page->policies[i]);
        if (status != EXIT_GOOD)
            return status;
    }
    page->tuned = view->page.tune ? read_tuned(view->page.tune) : NULL;
    return view->page.tune && !page->tuned ? EXIT_TROUBLE : EXIT_GOOD;
}

/* What is in it ------------------------------------------------------------------------------------------------------------------------ */

static void json_head(struct json *json, const struct view_file *file)
{
    const struct trace *trace = &file->trace;
    const struct trace_header *header = &trace->header;
    json_string(json, "path", SHOWN(trace->path));
    json_string(json, "program", header->program ? SHOWN(header->program) : NULL);
    json_string(json, "rank", header->rank ? SHOWN(header->rank) : NULL);
    json_string(json, "level", header->level ? SHOWN(header->level) : NULL);
    json_string(json, "weir", header->weir ? SHOWN(header->weir) : NULL);
    json_uint(json, "pid", header->pid);
    json_uint(json, "started", header->started_real);
    json_uint(json, "shift", file->shift);
    json_uint(json, "events", trace->events);
    json_uint(json, "first", trace->first);
    json_uint(json, "last", trace->last);
    json_uint(json, "lost_events", trace->losses.events);
    json_uint(json, "lost_bytes", trace->losses.bytes);
    json_string(json, "lost_first", trace->losses.first[0] ? SHOWN(trace->losses.first) : NULL);
}

/* In their order: the bytes of each column, and how many numbers these are. */
static void json_columns(struct json *json, const struct page_columns *columns)
{
    json_array(json, "columns");
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        json_in_line(json);
        json_array(json, NULL);
        json_string(json, NULL, page_column_names[i]);
        json_uint(json, NULL, columns->columns[i].len);
        json_uint(json, NULL, columns->columns[i].count);
        json_end(json);
    }
    json_end(json);
}

static void json_replay(struct json *json, const struct script *script, const char *name, const struct outcome *outcome)
{
    json_object(json, NULL);
    json_string(json, "policy", SHOWN(name));
    json_uint(json, "begin", script->begin);
    json_uint(json, "end", script->end);
    report_json_outcome(json, outcome);
    json_uint(json, "all_refused", outcome->refused + script->recorded.refused - outcome->newly_served);
    char *gain = unaware_gain(script, name, outcome);
    json_string(json, "gain", gain);
    free(gain);
    if (outcome->is_done) {
        json_uints(json, "reserved_line", outcome->reserved, OUTCOME_SLICES);
        json_uints(json, "live_line", outcome->live, OUTCOME_SLICES);
    }
    json_end(json);
}

/* An array "replays": what the requests of a trace come to under the recorded policy and under each of these, with lines of memory over time,
   to be laid over the recording. EXIT_GOOD, or after a complaint another exit status. */
static int json_replays(struct json *json, struct trace *trace, const char *const *names, char *const *texts, size_t count)
{
    struct script script;
    struct machine machine;
    int status = script_make(&script, trace) ? machine_of(&script, NULL, &machine) : EXIT_TROUBLE;
    if (status == EXIT_GOOD) {
        const struct report report = replay_under(&script, &machine, names, texts, count);
        json_string(json, "replays_why_not", report.verdict.can_judge ? NULL : SHOWN(report.verdict.why));
        char *assumptions = unaware_assumptions(&script, "");
        json_string(json, "replays_assumptions", assumptions);
        free(assumptions);
        json_string(json, "replays_costs", SHOWN(machine_costs_text(&machine)));
        json_array(json, "replays");
        for (size_t i = 0; i < report.count; i++) {
            json_replay(json, &script, report.names[i], &report.outcomes[i]);
            if (!report.outcomes[i].is_done)
                complain("%s: the replay under the policy '%s' failed: %s", trace->path, report.names[i], report.outcomes[i].why);
        }
        json_end(json);
        status = replay_end(&report);
        machine_free(&machine);
    }
    script_free(&script);
    return status;
}

/* The answer of `weir trace why`, whose own document stands in that of the page. */
static int json_why(struct json *json, const struct view *view, struct view_file *file)
{
    struct view one = {.files = file, .count = 1, .json = json, .limit = view->limit};
    json_array(json, "why");
    int status = view_each(&one, view_why);
    json_end(json);
    /* That nothing can be judged is an answer. */
    return status == EXIT_TROUBLE ? status : EXIT_GOOD;
}

static int json_file(struct json *json, const struct page *page, struct view_file *file, struct page_columns *columns)
{
    const struct view *view = page->view;
    int status = EXIT_GOOD;
    if (!page_columns_make(columns, &file->trace)) {
        complain("%s: %s", file->trace.path, file->trace.error);
        file->is_bad = true;
    }
    json_object(json, NULL);
    json_head(json, file);
    page_json_names(json, file, columns);
    page_json_totals(json, &columns->model);
    json_columns(json, columns);
    if (columns->model.oom_count)
        status = json_why(json, view, file);
    if (view->page.policy_count)
        status = worse_exit(status, json_replays(json, &file->trace, view->page.policies, page->policies, view->page.policy_count));
    json_end(json);
    return status;
}

static int make_json(struct page *page)
{
    const struct view *view = page->view;
    struct json json = JSON_INIT(must(open_memstream(&page->json, &page->json_len)));
    int status = EXIT_GOOD;
    json_object(&json, NULL);
    json_uint(&json, "limit", view->limit);
    json_array(&json, "files");
    for (size_t i = 0; i < view->count; i++)
        status = worse_exit(status, json_file(&json, page, &view->files[i], &page->columns[i]));
    json_end(&json);
    json_string(&json, "tune", page->tuned);
    json_end(&json);
    if (fclose(json.out) != 0)
        must(NULL);
    return status;
}

/* Base64 ------------------------------------------------------------------------------------------------------------------------------- */

struct base64 {
    FILE *out;
    uint32_t bits;
    unsigned count; /* of bytes in `bits` */
};

static void base64_write(struct base64 *base64, unsigned characters)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned i = 0; i < 4; i++)
        fputc(i < characters ? digits[base64->bits >> (18 - 6 * i) & 63] : '=', base64->out);
    base64->bits = base64->count = 0;
}

static void base64_put(struct base64 *base64, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        base64->bits |= (uint32_t)bytes[i] << (16 - 8 * base64->count);
        if (++base64->count == 3)
            base64_write(base64, 4);
    }
}

static void base64_end(struct base64 *base64)
{
    if (base64->count)
        base64_write(base64, base64->count + 1);
}

/* Deflating ---------------------------------------------------------------------------------------------------------------------------- */

struct page_packer {
    struct base64 base64;
#ifdef HAVE_ZLIB
    z_stream stream;
#endif
};

#ifdef HAVE_ZLIB
static const char page_coding[] = "deflate";

static void deflate_some(struct page_packer *packer, int flush)
{
    uint8_t packed[16384];
    do {
        packer->stream.next_out = packed;
        packer->stream.avail_out = sizeof packed;
        deflate(&packer->stream, flush);
        base64_put(&packer->base64, packed, sizeof packed - packer->stream.avail_out);
    } while (packer->stream.avail_out == 0);
}

static struct page_packer *page_pack_begin(FILE *out)
{
    struct page_packer *packer = must(calloc(1, sizeof *packer));
    packer->base64.out = out;
    if (deflateInit(&packer->stream, Z_BEST_COMPRESSION) != Z_OK)
        must(NULL);
    return packer;
}

static void page_pack_put(struct page_packer *packer, const void *bytes, size_t len)
{
    uint8_t *at = (uint8_t *)(uintptr_t)bytes; /* which zlib does not write to */
    while (len) {
        unsigned part = len < 1U << 30 ? (unsigned)len : 1U << 30;
        packer->stream.next_in = at;
        packer->stream.avail_in = part;
        deflate_some(packer, Z_NO_FLUSH);
        at += part;
        len -= part;
    }
}

static void page_pack_end(struct page_packer *packer)
{
    deflate_some(packer, Z_FINISH);
    deflateEnd(&packer->stream);
    base64_end(&packer->base64);
    free(packer);
}
#else
static const char page_coding[] = "none";

static struct page_packer *page_pack_begin(FILE *out)
{
    struct page_packer *packer = must(calloc(1, sizeof *packer));
    packer->base64.out = out;
    return packer;
}

static void page_pack_put(struct page_packer *packer, const void *bytes, size_t len)
{
    base64_put(&packer->base64, bytes, len);
}

static void page_pack_end(struct page_packer *packer)
{
    base64_end(&packer->base64);
    free(packer);
}
#endif

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

/* How long the document is, in eight bytes, the document, and the columns of each file. */
static void write_data(const struct page *page, FILE *out)
{
    struct page_packer *packer = page_pack_begin(out);
    uint8_t len[8];
    for (unsigned i = 0; i < sizeof len; i++)
        len[i] = (uint8_t)((uint64_t)page->json_len >> 8 * i);
    page_pack_put(packer, len, sizeof len);
    page_pack_put(packer, page->json, page->json_len);
    for (size_t i = 0; i < page->view->count; i++)
        for (size_t j = 0; j < COLUMN_COUNT; j++)
            page_pack_put(packer, page->columns[i].columns[j].bytes, page->columns[i].columns[j].len);
    page_pack_end(packer);
}

static void write_page(const struct page *page, FILE *out)
{
    fwrite(page_head, 1, page_head_len, out);
    fprintf(out, "%s\">", page_coding);
    write_data(page, out);
    fwrite(page_tail, 1, page_tail_len, out);
}

/* What is written takes the place of the file, so it may be none of those that are read. */
static bool is_input(const struct view *view, const char *path)
{
    struct stat output, input;
    if (stat(path, &output) != 0)
        return false;
    for (size_t i = 0; i < view->count; i++)
        if (stat(view->files[i].trace.path, &input) == 0 && input.st_dev == output.st_dev && input.st_ino == output.st_ino)
            return true;
    return false;
}

/* Begins the page, which is for this user alone, as it has the names and paths that the traces have. false after a complaint. */
static bool begin_output(struct new_file *file, const struct view *view, const char *path)
{
    if (!is_input(view, path))
        return new_file_begin(file, "trace", path, NEW_FILE_OR_STREAM, 0600);
    complain("trace: %s is one of the traces: name another file", path);
    return false;
}

static bool can_write(const struct view *view)
{
    if (!view->page.output)
        complain("trace: page into which file? Name it with -o, as in 'weir trace page -o page.html %s'", view->files[0].trace.path);
    else if (strcmp(view->page.output, "-") == 0 && isatty(STDOUT_FILENO))
        complain("trace: a page is not for a terminal: name a file with -o, or redirect it");
    else if (view->json)
        complain("trace: a page has no form in JSON: leave --json out");
    else
        return true;
    return false;
}

int view_page(const struct view *view)
{
    struct page page = {.view = view};
    struct new_file file;
    if (!can_write(view))
        return EXIT_TROUBLE;
    bool is_stdout = strcmp(view->page.output, "-") == 0;
    int status = read_inputs(&page);
    page.columns = must(calloc(view->count, sizeof page.columns[0]));
    if (status == EXIT_GOOD && !is_stdout && !new_file_can_be_made("trace", view->page.output, NEW_FILE_OR_STREAM))
        status = EXIT_TROUBLE;
    if (status == EXIT_GOOD) {
        for (size_t i = 0; i < view->count; i++)
            view_say_losses(view, &view->files[i]);
        /* Replays take long, and a command that is killed meanwhile shall leave no file behind. */
        status = make_json(&page);
        if (is_stdout) {
            write_page(&page, stdout);
        } else if (begin_output(&file, view, view->page.output)) {
            write_page(&page, file.out);
            status = worse_exit(status, new_file_end(&file, true));
        } else {
            status = EXIT_TROUBLE;
        }
    }
    for (size_t i = 0; i < view->count; i++)
        page_columns_free(&page.columns[i]);
    for (size_t i = 0; i < view->page.policy_count; i++)
        free(page.policies[i]);
    free(page.columns);
    free(page.policies);
    free(page.tuned);
    free(page.json);
    return status;
}
