/* SPDX-License-Identifier: MIT */
/* table.h - aligned columns: cells are collected row by row, then printed with each column as wide as its widest cell. */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table {
    const char *alignment; /* one letter for each column: 'l' or 'r' */
    size_t count, room;    /* of cells */
    char **cells;          /* the table's own */
};

#define TABLE_INIT(letters)                                                                                                                \
    {                                                                                                                                      \
        .alignment = (letters)                                                                                                             \
    }

/* Adds the next cell, whose text may be from anywhere (utf8.h); the first row is the heading. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds cells that are texts, as the heading of a table, or a row of it. */
#define table_row(table, ...) table_cells((table), (const char *const[]){__VA_ARGS__, NULL})
void table_cells(struct table *table, const char *const *cells);

/* Prints the table, indented by two, and empties it. */
void table_print(struct table *table, FILE *out);

#endif
