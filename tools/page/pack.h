/* SPDX-License-Identifier: MIT */
/* pack.h - bytes as they stand in a page: deflated and in base64. */
#ifndef WEIR_PAGE_PACK_H
#define WEIR_PAGE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "deflate", or "none" where Weir was built without zlib. */
extern const char page_coding[];

struct page_packer;

/* What is put is deflated and written in base64. The packer is freed by page_pack_end(). */
struct page_packer *page_pack_begin(FILE *out);
void page_pack_put(struct page_packer *packer, const void *bytes, size_t len);
void page_pack_end(struct page_packer *packer);

#endif
