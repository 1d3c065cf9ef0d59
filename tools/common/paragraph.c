/* SPDX-License-Identifier: MIT */
#include "tools/common/environment.h"
#include "tools/common/paragraph.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_COLUMNS 80
#define TEXT_COLUMNS_MIN 24 /* where a column is left with less, the text begins below its term */

static unsigned columns(void)
{
    const char *text = variable("COLUMNS");
    char *end = NULL;
    unsigned long wanted = text ? strtoul(text, &end, 10) : 0;
    return text && text[0] >= '1' && text[0] <= '9' && !*end && wanted <= INT_MAX ? (unsigned)wanted : DEFAULT_COLUMNS;
}

/* Prints the text behind `at` columns that are printed already; its further lines begin at `indent`. */
static void print(const char *text, unsigned at, unsigned indent)
{
    unsigned width = columns(), start = at;
    for (const char *word = text; *word;) {
        unsigned len = (unsigned)strcspn(word, " \n");
        if (at > start && at + 1 + len > width) {
            printf("\n%*s", (int)indent, "");
            at = start = indent;
        }
        at += (unsigned)printf("%s%.*s", at > start ? " " : "", (int)len, word);
        bool is_end = len && word[len - 1] == '.' && word[len] == '\n';
        word += len + strspn(word + len, " \n");
        if (is_end && *word) {
            printf("\n%*s", (int)indent, "");
            at = start = indent;
        }
    }
    putchar('\n');
}

void paragraph_print(const char *text)
{
    print(text, 0, 0);
}

void paragraph_print_item(const char *term, unsigned room, const char *text)
{
    unsigned column = room + 3;
    if (columns() >= column + TEXT_COLUMNS_MIN && strlen(term) <= room) {
        printf("  %-*s ", (int)room, term);
    } else {
        column = 10;
        printf("  %s\n%*s", term, (int)column, "");
    }
    print(text, column, column);
}
