/* SPDX-License-Identifier: MIT */
/* pack.h - bytes as they stand in a page: deflated and in base64, and the hashes that its policy of content names scripts and styles by. */
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

/* "sha256-…" as a policy of content writes it. */
#define PAGE_HASH_LEN 64
const char *page_hash(char text[PAGE_HASH_LEN], const void *bytes, size_t len);

#endif
