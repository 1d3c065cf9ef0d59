/* SPDX-License-Identifier: MIT */
/*
 * page.h - `weir trace page`: traces as one file of HTML, which needs neither a network nor a server. What its parts share.
 *
 * page.c plays the traces, replays them under other policies, and writes the file; columns.c and totals.c say what is in them. The page
 * itself is the HTML, the style and the scripts beside them, which the build makes the bytes below from.
 */
#ifndef WEIR_PAGE_PAGE_H
#define WEIR_PAGE_PAGE_H

#include "tools/page/columns.h"
#include "tools/trace/view.h"

/* Members of an object that is open: what the file is of, the names that columns have numbers of, and what the model came to. */
void page_json_names(struct json *json, struct view_file *file, const struct page_columns *columns);
void page_json_totals(struct json *json, const struct model *model);

/* The page up to what the coding of its data is called, and behind them: made by the build (assemble.sh). */
extern const unsigned char page_head[], page_tail[];
extern const size_t page_head_len, page_tail_len;

#endif
