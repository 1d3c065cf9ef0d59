/* SPDX-License-Identifier: MIT */
/* texts.c - what each sink makes of names that others chose: terminals, labels of metrics, and JSON. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "tests/support/suite.h"
#include "tools/common/complain.h"
#include "tools/common/json.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/utf8.h"

static void to_cell(FILE *out, const char *text)
{
    struct table table = TABLE_INIT("l");
    table_row(&table, text);
    table_print(&table, out);
}

static void to_style(FILE *out, const char *text)
{
    style_text(out, STYLE_STRONG, text);
}

static void to_complaint(FILE *out, const char *text)
{
    FILE *former = stderr;
    stderr = out;
    complain("%s", text);
    stderr = former;
}

static void to_shown(FILE *out, const char *text)
{
    fputs(SHOWN(text), out);
}

static void to_label(FILE *out, const char *text)
{
    char *label = utf8_label(text);
    fputs(label, out);
    free(label);
}

static void to_json(FILE *out, const char *text)
{
    struct json json = JSON_INIT(out);
    json_in_line(&json);
    json_object(&json, NULL);
    json_string(&json, text, text);
    json_end(&json);
}

static const struct {
    const char *name;
    void (*put)(FILE *out, const char *text);
    const char *control; /* what becomes of the byte 0x1b */
    bool ends_line;
} sinks[] = {
    {"cell", to_cell, "  \\x1b\n", true},          {"style", to_style, "\\x1b", false},
    {"complaint", to_complaint, "weir: \\x1b\n", true}, {"shown", to_shown, "\\x1b", false},
    {"label", to_label, "\\\\x1b", false},         {"JSON", to_json, "{\"\\u001b\": \"\\u001b\"}\n", true},
};
enum { SINKS = sizeof sinks / sizeof sinks[0] };

/* What the sink writes of the text; the caller's to free. */
static char *written(int sink, const char *text)
{
    char *bytes;
    size_t len;
    FILE *out = open_memstream(&bytes, &len);
    sinks[sink].put(out, text);
    fclose(out);
    ck_assert_uint_eq(strlen(bytes), len);
    return bytes;
}

/* Whether it is UTF-8 without control characters, but for a newline at its end where the sink writes one. */
static bool is_plain(const char *text, bool ends_line)
{
    for (size_t len; *text; text += len) {
        const unsigned char *at = (const unsigned char *)text;
        len = weir__utf8_len(text);
        bool is_end = ends_line && text[0] == '\n' && !text[1];
        if (!len || ((at[0] < 0x20 || at[0] == 0x7f) && !is_end) || (at[0] == 0xc2 && at[1] < 0xa0))
            return false;
    }
    return true;
}

static void check_plain(int sink, const char *text)
{
    char *bytes = written(sink, text);
    if (!is_plain(bytes, sinks[sink].ends_line))
        ck_abort_msg("%s: of the bytes %02x %02x %02x it makes '%s'", sinks[sink].name, (unsigned char)text[0],
                     text[0] ? (unsigned char)text[1] : 0, text[0] && text[1] ? (unsigned char)text[2] : 0, bytes);
    free(bytes);
}

START_TEST(every_byte_alone_and_before_every_other_becomes_plain)
{
    for (unsigned first = 1; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            check_plain(_i, (const char[]){(char)first, (char)second, '\0'});
}
END_TEST

START_TEST(every_beginning_of_a_character_becomes_plain)
{
    static const char *const texts[] = {"a\xe2\x82", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\xc0\x80", "\xe2\x80\xae", "a\n\nb",
                                        "\n", "\n  \x1b[2J", "a\nweir: b"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (sinks[_i].put != to_complaint || !strstr(texts[i], "\n  "))
            check_plain(_i, texts[i]);
}
END_TEST

START_TEST(escape_is_shown_as_its_number)
{
    char *bytes = written(_i, "\x1b");
    ck_assert_str_eq(bytes, sinks[_i].control);
    free(bytes);
}
END_TEST

START_TEST(names_of_people_stay_as_they_are)
{
    char *bytes = written(_i, "caf\u00e9 \u65e5\u672c \U0001f600");
    ck_assert_ptr_nonnull(strstr(bytes, "caf\u00e9 \u65e5\u672c \U0001f600"));
    free(bytes);
}
END_TEST

START_TEST(complaint_goes_on_in_a_line_that_two_blanks_begin_and_in_no_other)
{
    char *bytes = written(2, "one of\n  1.1\nweir: all is well");
    ck_assert_str_eq(bytes, "weir: one of\n  1.1\\x0aweir: all is well\n");
    free(bytes);
}
END_TEST

START_TEST(no_two_texts_are_one_label)
{
    static const char *const texts[] = {"\xff", "\\xff", "\xfe", "?", "\xef\xbf\xbd", "\\", "\\x5c", "\n", "\\n", "\"", "\\\""};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    for (size_t i = 0; i < TEXTS; i++)
        for (size_t j = 0; j < i; j++) {
            char *a = utf8_label(texts[i]), *b = utf8_label(texts[j]);
            ck_assert_str_ne(a, b);
            free(a);
            free(b);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("texts");
    TCase *all = suite_case(suite, "sinks", 0);
    tcase_add_loop_test(all, every_byte_alone_and_before_every_other_becomes_plain, 0, SINKS);
    tcase_add_loop_test(all, every_beginning_of_a_character_becomes_plain, 0, SINKS);
    tcase_add_loop_test(all, escape_is_shown_as_its_number, 0, SINKS);
    tcase_add_loop_test(all, names_of_people_stay_as_they_are, 0, SINKS);
    suite_add(all, complaint_goes_on_in_a_line_that_two_blanks_begin_and_in_no_other, no_two_texts_are_one_label);
    return suite_run(suite);
}
