/* SPDX-License-Identifier: MIT */
/* man.c - `generate man`: the KEYS section of weir-policy(5). */
#include "tools/generator/generate.h"

#include <stdio.h>
#include <string.h>

#include "policy/keys.h"

#define MAN_WIDTH 78

/* Text in lines of at most MAN_WIDTH, each sentence on a new one. Hyphens stay hyphens, so that keys and values can be copied. */
static void roff(const char *text)
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

/* A sentence that begins with the names of units. */
static void man_units(const char *before, const struct policy_unit *units, const char *behind)
{
    char text[1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", before);
    for (size_t i = 0; units[i].name; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "", units[i].name);
    snprintf(text + len, sizeof(text) - len, "%s", behind);
    roff(text);
}

/* How numbers, times and the rest are written, from the units that the parser knows. */
static void man_values(void)
{
    printf(".Ss Values\n");
    man_units("Sizes are bytes, or a number with one of the units", policy_size_units,
              " directly behind it. A decimal fraction as in 1.5GiB is good where it comes to whole bytes. "
              "Shares of the device's memory are a number from 0 to 100, with two decimals at most, and %.");
    printf(".Pp\n");
    man_units("Times always have a unit:", policy_time_units,
              " for milliseconds, seconds and minutes. Booleans are true and false, and nothing else. Names, words and UUIDs may stand in "
              "quotes; numbers, sizes, times and booleans may not, as quotes make them text.");
}

static void man_key(const char *before, const struct policy_key *key)
{
    char text[1024];
    printf(".It Ic ");
    snprintf(text, sizeof(text), "%s%s", before, key->name);
    roff(text);
    bool required = !key->initial && strcmp(key->otherwise, "required") == 0;
    snprintf(text, sizeof(text), "%s Write %s. %s%s.%s", key->help, key->write, required ? "Required" : "Default: ",
             required       ? ""
             : key->initial ? key->initial
                            : key->otherwise,
             key->live ? " Can change at reload." : "");
    roff(text);
}

void generate_man(void)
{
    static const struct {
        const char *title, *before;
    } parts[POLICY_SCOPE_COUNT] = {
        [POLICY_SCOPE_FILE] = {"The file", ""},
        [POLICY_SCOPE_POOL] = {"Each pool", "pools.NAME."},
        [POLICY_SCOPE_STREAM] = {"Each stream", "streams.NAME."},
    };
    printf(".Sh KEYS\nA dot in the name of a key stands for one level of nesting.\n");
    man_values();
    for (unsigned which = 0; which < POLICY_SCOPE_COUNT; which++) {
        size_t count;
        const struct policy_key *keys = policy_keys(which, &count);
        printf(".Ss %s\n.Bl -tag -width Ds\n", parts[which].title);
        for (size_t i = 0; i < count; i++)
            man_key(parts[which].before, &keys[i]);
        printf(".El\n");
    }
}
