/* SPDX-License-Identifier: MIT */
#include "policy/report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 1024
#define GUESS_MAX 64 /* longer words are no slips of a key or a name */

static void clear_error(struct policy_error *error)
{
    free(error->file);
    free(error->path);
    free(error->message);
}

void policy_errors_clear(struct policy_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        clear_error(&errors->items[i]);
    free(errors->items);
    *errors = (struct policy_errors){0};
}

int policy_error_format(const struct policy_error *error, char *text, size_t len)
{
    const char *colon = error->path[0] ? ": " : "";
    if (error->line == 0)
        return snprintf(text, len, "%s: %s%s%s", error->file, error->path, colon, error->message);
    return snprintf(text, len, "%s:%u:%u: %s%s%s", error->file, error->line, error->column, error->path, colon, error->message);
}

void policy_report_begin(struct policy_report *report, struct policy_errors *errors)
{
    *report = (struct policy_report){.errors = errors, .before = errors->count};
}

void policy_report_addv(struct policy_report *report, struct policy_mark mark, const char *path, const char *format, va_list arguments)
{
    char message[MESSAGE_MAX];
    struct policy_errors *errors = report->errors;
    vsnprintf(message, sizeof(message), format, arguments);
    struct policy_error error = {
        .file = strdup(mark.file),
        .line = mark.line,
        .column = mark.column,
        .path = strdup(path),
        .message = strdup(message),
    };
    struct policy_error *items = reallocarray(errors->items, errors->count + 1, sizeof(*items));
    if (items)
        errors->items = items;
    if (error.file && error.path && error.message && items) {
        items[errors->count++] = error;
        return;
    }
    clear_error(&error);
    report->no_memory = true;
}

void policy_report_add(struct policy_report *report, struct policy_mark mark, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    policy_report_addv(report, mark, path, format, arguments);
    va_end(arguments);
}

static int height(const struct policy_error *error)
{
    return strcmp(error->file, POLICY_SET) == 0 ? 2 : strcmp(error->file, POLICY_OVERRIDES) == 0;
}

/* The file first, what stands on top of it behind; errors of one place in a fixed order, so that a report is always the same. */
static int by_place(const void *left, const void *right)
{
    const struct policy_error *a = left, *b = right;
    if (height(a) != height(b))
        return height(a) - height(b);
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    int order = strcmp(a->path, b->path);
    return order ? order : strcmp(a->message, b->message);
}

void policy_report_sort(struct policy_report *report)
{
    size_t added = report->errors->count - report->before;
    if (added > 1)
        qsort(report->errors->items + report->before, added, sizeof(*report->errors->items), by_place);
}

enum policy_status policy_report_status(const struct policy_report *report)
{
    if (report->no_memory)
        return POLICY_NO_MEMORY;
    return report->errors->count > report->before ? POLICY_BAD : POLICY_OK;
}

/* Those from U+0080 to U+009F are two bytes. */
static bool is_control(const char *text, size_t at)
{
    unsigned char byte = (unsigned char)text[at];
    if (byte == 0xc2)
        return (unsigned char)text[at + 1] < 0xa0;
    return byte < 0x20 || byte == 0x7f || (byte >= 0x80 && byte < 0xa0 && at > 0 && (unsigned char)text[at - 1] == 0xc2);
}

struct policy_quote policy_quote(const char *text)
{
    struct policy_quote quote;
    size_t room = sizeof(quote.text) - sizeof("…");
    size_t len = strlen(text), shown = len;
    if (len >= sizeof(quote.text)) {
        /* Cut before a character, never inside one. */
        for (shown = room; shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80; shown--)
            ;
    }
    for (size_t i = 0; i < shown; i++)
        quote.text[i] = is_control(text, i) ? '?' : text[i];
    snprintf(quote.text + shown, sizeof(quote.text) - shown, "%s", shown < len ? "…" : "");
    return quote;
}

struct policy_guess policy_guess_begin(const char *word)
{
    return (struct policy_guess){.word = word, .distance = GUESS_MAX};
}

static unsigned min2(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b, whatever their case. Both are shorter than GUESS_MAX. */
static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][GUESS_MAX + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = min2(above[j - 1] + (x != y), min2(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                row[j] = min2(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

void policy_guess_try(struct policy_guess *guess, const char *name)
{
    size_t word_len = strlen(guess->word), name_len = strlen(name);
    if (word_len == 0 || word_len >= GUESS_MAX || name_len >= GUESS_MAX)
        return;
    unsigned distance = edit_distance(guess->word, word_len, name, name_len);
    /* One slip in three letters is still a slip; more is another word. */
    unsigned allowed = word_len < 3 ? 1 : (unsigned)((word_len + 2) / 3);
    if (distance <= allowed && distance < name_len && distance < guess->distance) {
        guess->distance = distance;
        guess->best = name;
    }
}

struct policy_question policy_guess_text(const struct policy_guess *guess)
{
    struct policy_question question = {""};
    if (guess->best)
        snprintf(question.text, sizeof(question.text), "; did you mean '%s'?", policy_quote(guess->best).text);
    return question;
}
