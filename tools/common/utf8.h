/* SPDX-License-Identifier: MIT */
/*
 * utf8.h - texts that others wrote, for readers that take no bytes but UTF-8: formats of files, labels of metrics, terminals. Pure.
 *
 * Each kind of output has one way out. Terminals: table_cell(), complain() and style_text() write nothing but plain characters, and what is
 * printed otherwise goes through SHOWN(). Labels of metrics: utf8_label(). JSON: json_string().
 */
#ifndef WEIR_UTF8_H
#define WEIR_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The next character of the text, which moves on, as a terminal may get it: itself, or "\x1b" for a byte of a control character, of a mark that
 * turns the direction of the text around, or of no UTF-8. Its length; 0 at the end.
 */
enum { UTF8_PLAIN = 5 };
size_t utf8_next_plain(const char **text, char piece[UTF8_PLAIN]);

/* The whole text so, in one line, the caller's to free(); NULL without host memory. has_lines: a newline before two blanks stays, which is
   how texts of several lines go on; in a name from elsewhere it cannot begin a line that looks like one of ours. */
char *utf8_plain(const char *text, bool has_lines);

/* The whole text as it stands between the quotation marks of a label of Prometheus, with such bytes and backslashes as "\\x1b": no two texts
   become one, since one series that is there twice has the whole file refused. The caller's to free(); NULL without host memory. */
char *utf8_label(const char *text);

/* The beginning of the text as a terminal may get it, and "..." where it is longer. */
enum { SHOWN_LEN = 256 };
const char *utf8_shown(char buffer[SHOWN_LEN], const char *text);
#define SHOWN(text) utf8_shown((char[SHOWN_LEN]){0}, (text))

#endif
