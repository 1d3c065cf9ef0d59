/* SPDX-License-Identifier: MIT */
#include "tools/common/terminal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/utf8.h"

static enum { COLOUR_AUTO, COLOUR_NEVER, COLOUR_ALWAYS } colour;

bool terminal_set_colour(const char *when)
{
    static const char *const names[] = {"auto", "never", "always"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(when, names[i]) == 0) {
            colour = i;
            return true;
        }
    }
    complain("--color=%s: write one of auto|never|always", when);
    return false;
}

/* Whether the stream is a terminal that understands more than plain text. What is written to memory goes to stdout in the end. */
static bool is_capable(FILE *out)
{
    const char *term = variable("TERM");
    int fd = fileno(out);
    return isatty(fd < 0 ? STDOUT_FILENO : fd) && term && strcmp(term, "dumb") != 0;
}

bool terminal_is_coloured(FILE *out)
{
    if (colour != COLOUR_AUTO)
        return colour == COLOUR_ALWAYS;
    return !variable("NO_COLOR") && is_capable(out);
}

void style_text(FILE *out, enum style style, const char *text)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "", [STYLE_STRONG] = "\033[1m", [STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[1;31m", [STYLE_FAINT] = "\033[2m",
    };
    bool coloured = style != STYLE_PLAIN && terminal_is_coloured(out);
    char *plain = must(utf8_plain(text, false));
    fprintf(out, "%s%s%s", coloured ? codes[style] : "", plain, coloured ? "\033[0m" : "");
    free(plain);
}

void style_line(FILE *out, enum style style, const char *text)
{
    style_text(out, style, text);
    fputc('\n', out);
}

/* Whoever read it has what he wanted, as head(1) has. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP);
}

bool terminal_close_stdout(void)
{
    bool has_failed = ferror(stdout);
    errno = 0;
    bool failed = fflush(stdout) || has_failed;
    if (failed && reader_is_gone())
        return true;
    /* Of what failed before, stdio has forgotten why: it fails again. */
    if (has_failed && !errno && write(STDOUT_FILENO, "\n", 1) == 1)
        errno = 0;
    int error = errno;
    /* Where it was closed and nothing was written, as by a command that runs another one, nothing is lost. */
    if ((fclose(stdout) == 0 || errno == EBADF) && !failed)
        return true;
    errno = error ? error : errno;
    if (errno)
        complain("cannot write the output: %s", strerror(errno));
    else
        complain("cannot write the output");
    return false;
}

/* Paragraphs ---------------------------------------------------------------------------------------------------------------------------- */

#define DEFAULT_COLUMNS 80
#define TEXT_COLUMNS_MIN 24 /* where a column is left with less, the text begins below its term */

unsigned terminal_columns(unsigned most)
{
    const char *text = variable("COLUMNS");
    char *end = NULL;
    unsigned long wanted = text ? strtoul(text, &end, 10) : 0;
    return text && text[0] >= '1' && text[0] <= '9' && !*end && wanted <= most ? (unsigned)wanted : DEFAULT_COLUMNS;
}

/* Prints the text behind `at` columns that are printed already; its further lines begin at `indent`. */
static void print(const char *text, unsigned at, unsigned indent)
{
    unsigned width = terminal_columns(INT_MAX), start = at;
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
    if (terminal_columns(INT_MAX) >= column + TEXT_COLUMNS_MIN && strlen(term) <= room) {
        printf("  %-*s ", (int)room, term);
    } else {
        column = 10;
        printf("  %s\n%*s", term, (int)column, "");
    }
    print(text, column, column);
}
