/* SPDX-License-Identifier: MIT */
#include "tools/common/table.h"
#include "tools/common/command.h"
#include "tools/common/terminal.h"
#include "tools/common/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The columns that the text takes on a terminal: one for each character, however many bytes it has. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

void table_cell(struct table *table, const char *format, ...)
{
    table->cells = must_grow(table->cells, table->count, &table->room, sizeof(char *));
    va_list args;
    va_start(args, format);
    char *text = make_text(format, args);
    va_end(args);
    table->cells[table->count++] = must(utf8_plain(text, false));
    free(text);
}

void table_cells(struct table *table, const char *const *cells)
{
    for (; *cells; cells++)
        table_cell(table, "%s", *cells);
}

/* One row as a line, without blanks at its end. */
static char *make_row(const struct table *table, size_t first, size_t columns, const int *widths)
{
    char *line;
    size_t len;
    FILE *out = must(open_memstream(&line, &len));
    int blanks = 0; /* that go before the next cell with a text */
    for (size_t column = 0; column < columns; column++) {
        const char *cell = table->cells[first + column];
        int pad = widths[column] - width_of(cell);
        int before = table->alignment[column] == 'r' ? pad : 0;
        blanks += 2 + before;
        if (cell[0]) {
            fprintf(out, "%*s%s", blanks, "", cell);
            blanks = 0;
        }
        blanks += pad - before;
    }
    if (fclose(out) != 0)
        must(NULL);
    return line;
}

void table_print(struct table *table, FILE *out)
{
    size_t columns = strlen(table->alignment);
    int *widths = must(calloc(columns, sizeof(int)));
    for (size_t i = 0; i < table->count; i++) {
        int width = width_of(table->cells[i]);
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    for (size_t first = 0; first + columns <= table->count; first += columns) {
        char *line = make_row(table, first, columns, widths);
        style_line(out, first == 0 ? STYLE_STRONG : STYLE_PLAIN, line);
        free(line);
    }
    free(widths);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = table->room = 0;
}
