/* SPDX-License-Identifier: MIT */
/*
 * paragraph.h - text for people, broken into lines that fit $COLUMNS, or 80 columns without it.
 *
 * A line break behind a full stop ends a paragraph. Any other one is of the source alone, and counts as a blank.
 */
#ifndef WEIR_PARAGRAPH_H
#define WEIR_PARAGRAPH_H

/* Prints the text on stdout. */
void paragraph_print(const char *text);

/* Prints a term, and its text in a column of its own behind `room` columns for the term. */
void paragraph_print_item(const char *term, unsigned room, const char *text);

#endif
