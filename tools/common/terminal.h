/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - what a terminal gets that is no table: colours, paragraphs in lines that fit $COLUMNS, and the end of stdout. Main thread only.
 */
#ifndef WEIR_TERMINAL_H
#define WEIR_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum style {
    STYLE_PLAIN,
    STYLE_STRONG, /* a heading */
    STYLE_GOOD,
    STYLE_BAD,
    STYLE_FAINT,
};

/* "auto", "never" or "always"; false after an error on stderr. Auto: on a terminal, unless NO_COLOR is set or TERM is "dumb" or unset. */
bool terminal_set_colour(const char *when);

/* Whether colours are on. */
bool terminal_is_coloured(FILE *out);
/* Prints the text on the stream in that style, where colours are on. */
void style_text(FILE *out, enum style style, const char *text);
/* The same with a newline. */
void style_line(FILE *out, enum style style, const char *text);

/* Flushes and closes stdout; false, after an error on stderr, if something that was printed did not arrive. A pipe that nobody reads any
   more is none. */
bool terminal_close_stdout(void);

/* $COLUMNS; 80 without it, or where it is above that. */
unsigned terminal_columns(unsigned most);

/* Prints the text on stdout, in lines that fit. A line break behind a full stop ends a paragraph; any other one is of the source alone, and counts
   as a blank. */
void paragraph_print(const char *text);

/* Prints a term, and its text in a column of its own behind `room` columns for the term. */
void paragraph_print_item(const char *term, unsigned room, const char *text);

#endif
