/* SPDX-License-Identifier: MIT */
/* man.c - `generate man` and `generate markdown`: the keys as a section of weir-policy(5), and as doc/policy.md for a browser. */
#include "tools/generator/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "policy/keys.h"

#define MAN_WIDTH 78

/* How a page is written. */
struct page {
    void (*text)(const char *text);
    void (*section)(const char *title);
    void (*key)(const char *before, const char *name); /* before: the path above the key */
    const char *paragraph;                             /* between two paragraphs */
    const char *write;                                 /* between what a key does and what to write */
    const char *begin, *between, *end;                 /* around the keys of a section, and between two of them */
};

/* Text in lines of at most MAN_WIDTH, each sentence on a new one. Hyphens stay hyphens, so that keys and values can be copied. */
static void man_text(const char *text)
{
    size_t column = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t len = strcspn(word, " ");
        size_t at = (size_t)(word - text);
        bool sentence = at >= 4 && text[at - 2] == '.' && strncmp(text + at - 4, "...", 3) != 0;
        if (column > 0)
            putchar(sentence || column + 1 + len > MAN_WIDTH ? '\n' : ' ');
        column = column > 0 && !sentence && column + 1 + len <= MAN_WIDTH ? column + 1 + len : len;
        /* Else it would be a macro at the beginning of a line. */
        if (*word == '.' || *word == '\'')
            fputs("\\&", stdout);
        for (; len > 0; len--, word++)
            printf(*word == '-' ? "\\-" : *word == '\\' ? "\\e" : "%c", *word);
    }
    putchar('\n');
}

static void man_section(const char *title)
{
    printf(".Ss %s\n", title);
}

static void man_key(const char *before, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s%s", before, name);
    printf(".It Ic ");
    man_text(path);
}

/* A backslash goes before each character that Markdown or HTML would read as its own; the underscore within a name is none of those. */
static void markdown_text(const char *text)
{
    for (const char *at = text; *at; at++) {
        bool within_name = *at == '_' && at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]);
        if (strchr("\\`*_[]<>|~", *at) && !within_name)
            putchar('\\');
        putchar(*at);
    }
    putchar('\n');
}

static void markdown_section(const char *title)
{
    printf("\n## %s\n\n", title);
}

static void markdown_key(const char *before, const char *name)
{
    printf("### `%s%s`\n\n", before, name);
}

/* A sentence that begins with the names of units. */
static void units(const struct page *page, const char *before, const struct policy_unit *list, const char *behind)
{
    char text[1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", before);
    for (size_t i = 0; list[i].name; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "", list[i].name);
    snprintf(text + len, sizeof(text) - len, "%s", behind);
    page->text(text);
}

/* How numbers, times and the rest are written, from the units that the parser knows. */
static void values(const struct page *page)
{
    page->section("Values");
    units(page, "Sizes are bytes, or a number with one of the units", policy_size_units,
          " directly behind it. A decimal fraction as in 1.5GiB is allowed if it comes to whole bytes. "
          "Shares of the device's memory are a number from 0 to 100, with at most two decimals, and %.");
    fputs(page->paragraph, stdout);
    units(page, "Times always have a unit:", policy_time_units,
          " for milliseconds, seconds and minutes. Booleans are true and false, and nothing else. Names, words and UUIDs may stand in "
          "quotes; numbers, sizes, times and booleans may not, as quotes make them text.");
}

static void key_text(const struct page *page, const struct policy_key *key)
{
    char text[1024];
    bool required = !key->initial && strcmp(key->otherwise, "required") == 0;
    page->text(key->help);
    fputs(page->write, stdout);
    snprintf(text, sizeof(text), "Write %s. %s%s.%s", key->write, required ? "Required" : "Default: ",
             required       ? ""
             : key->initial ? key->initial
                            : key->otherwise,
             key->live ? " Can change at reload." : "");
    page->text(text);
}

static void keys_of_all_scopes(const struct page *page)
{
    static const struct {
        const char *title, *before;
    } parts[POLICY_SCOPE_COUNT] = {
        [POLICY_SCOPE_FILE] = {"The file", ""},
        [POLICY_SCOPE_POOL] = {"Each pool", "pools.NAME."},
        [POLICY_SCOPE_STREAM] = {"Each stream", "streams.NAME."},
    };
    for (unsigned which = 0; which < POLICY_SCOPE_COUNT; which++) {
        size_t count;
        const struct policy_key *keys = policy_keys(which, &count);
        page->section(parts[which].title);
        fputs(page->begin, stdout);
        for (size_t i = 0; i < count; i++) {
            page->key(parts[which].before, keys[i].name);
            key_text(page, &keys[i]);
            fputs(i + 1 < count ? page->between : page->end, stdout);
        }
    }
}

void generate_man(void)
{
    static const struct page page = {man_text, man_section, man_key, ".Pp\n", "", ".Bl -tag -width Ds\n", "", ".El\n"};
    printf(".Sh KEYS\nA dot in the name of a key stands for one level of nesting.\n");
    values(&page);
    keys_of_all_scopes(&page);
}

void generate_markdown(void)
{
    static const struct page page = {markdown_text, markdown_section, markdown_key, "\n", "\n", "", "\n", ""};
    puts("<!-- SPDX-License-Identifier: MIT -->\n"
         "<!-- Made by `make keys` from the table in policy/keys.c: change that one. -->\n"
         "# The keys of a policy\n\n"
         "This is the section KEYS of [weir-policy(5)](../man/weir-policy.5.in), for a browser; the manual page gets the same text when\n"
         "Weir is built. Words in capitals are other sections of that page. A policy to begin with is\n"
         "[config/default.yaml](../config/default.yaml).\n\n"
         "A dot in the name of a key stands for one level of nesting: `pools.main.cache.largest` is\n\n"
         "```yaml\nweir: 1\npools:\n  main:\n    cache:\n      largest: 1MiB\n```\n\n"
         "`weir show FILE` prints the value of each key and the line that set it; `weir check FILE` names each key that is wrong.");
    values(&page);
    keys_of_all_scopes(&page);
}
