/* SPDX-License-Identifier: MIT */
#include "tools/terminal.h"
#include "tools/command.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 30

static enum { COLOUR_AUTO, COLOUR_NEVER, COLOUR_ALWAYS } colour;
static bool bar_drawn;

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

/* Whether the stream is a terminal that understands more than plain text. */
static bool is_capable(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_is_coloured(FILE *out)
{
    if (colour != COLOUR_AUTO)
        return colour == COLOUR_ALWAYS;
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && is_capable(out);
}

void style_text(FILE *out, enum style style, const char *text)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "", [STYLE_STRONG] = "\033[1m", [STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[1;31m", [STYLE_FAINT] = "\033[2m",
    };
    bool coloured = style != STYLE_PLAIN && terminal_is_coloured(out);
    fprintf(out, "%s%s%s", coloured ? codes[style] : "", text, coloured ? "\033[0m" : "");
}

void style_line(FILE *out, enum style style, const char *text)
{
    style_text(out, style, text);
    fputc('\n', out);
}

void progress_draw(double fraction, const char *text)
{
    if (!is_capable(stderr))
        return;
    char bar[BAR_WIDTH + 1];
    int full = (int)(fraction * BAR_WIDTH);
    full = full < 0 ? 0 : full > BAR_WIDTH ? BAR_WIDTH : full;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = '\0';
    /* Without line wrap, a terminal narrower than the line cuts it, so that the next one still overwrites all of it. */
    fprintf(stderr, "\r\033[?7l[%s] %3.0f %%  %s\033[K\033[?7h", bar, fraction * 100, text);
    fflush(stderr);
    bar_drawn = true;
}

void progress_clear(void)
{
    if (bar_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    bar_drawn = false;
}

/* Whoever read it has what he wanted, as head(1) has. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP);
}

bool terminal_close_stdout(void)
{
    errno = 0;
    bool failed = ferror(stdout) || fflush(stdout);
    if (failed && reader_is_gone())
        return true;
    if (fclose(stdout) == 0 && !failed)
        return true;
    if (errno)
        complain("cannot write the output: %s", strerror(errno));
    else
        complain("cannot write the output");
    return false;
}
