/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/page.h"

#include <stdlib.h>
#include <string.h>

#include "lib/backing/arena/bin.h"
#include "lib/backing/arena/place.h"
#include "lib/backing/arena/rest.h"

/* The most free extents that one search for a page to move looks at while other threads wait for the lock. Recorded programs have fewer. */
#define EXTENTS_MOST 256

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* The map ------------------------------------------------------------------------------------------------------------------------------ */

static struct weir__page *page_at(const struct weir__pages *pages, uint64_t address)
{
    return &pages->map[(address - pages->extents.base) / WEIR__PAGE_UNIT];
}

static void write_page(struct weir__pages *pages, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct weir__page *page = page_at(pages, address);
    uint32_t units = (uint32_t)(bytes / WEIR__PAGE_UNIT);
    page->handle = handle;
    for (uint32_t i = 0; i < units; i++) {
        page[i].units = units;
        page[i].into = i;
    }
    pages->mapped_bytes += bytes;
}

static void erase_page(struct weir__pages *pages, uint64_t address)
{
    struct weir__page *page = page_at(pages, address);
    uint32_t units = page->units;
    pages->mapped_bytes -= units * WEIR__PAGE_UNIT;
    for (uint32_t i = 0; i < units; i++)
        page[i].units = page[i].into = 0;
}

bool weir__pages_init(struct weir__pages *pages, uint64_t base, uint64_t bytes, const struct weir__page_sizes *sizes,
                      const struct weir__page_driver *driver, void *data)
{
    memset(pages, 0, sizeof *pages);
    weir__extents_init(&pages->extents, base, bytes, sizes->least, sizes->shift);
    pages->sizes = sizes;
    pages->driver = driver;
    pages->data = data;
    pages->map = calloc((size_t)(bytes / WEIR__PAGE_UNIT), sizeof *pages->map);
    return pages->map;
}

void weir__pages_clear(struct weir__pages *pages)
{
    uint64_t base = pages->extents.base;
    for (uint64_t at = 0; pages->mapped_bytes > 0; at += WEIR__PAGE_UNIT) {
        struct weir__page *page = page_at(pages, base + at);
        uint64_t bytes = page->units * WEIR__PAGE_UNIT;
        if (!bytes)
            continue;
        (void)pages->driver->unmap(pages->data, base + at, bytes);
        pages->driver->release(pages->data, bytes, page->handle);
        erase_page(pages, base + at);
    }
    weir__extents_clear(&pages->extents);
    free(pages->map);
    pages->map = NULL;
}

/* Calls of the driver ------------------------------------------------------------------------------------------------------------------ */

/* Creates a page and maps it at a held address. Returns 0 or the driver's code. */
static int create_page(struct weir__pages *pages, uint64_t address, uint64_t bytes)
{
    uint64_t handle;
    int code = pages->driver->create(pages->data, bytes, &handle);
    if (code)
        return code;
    code = pages->driver->map(pages->data, address, bytes, handle);
    if (code) {
        pages->driver->release(pages->data, bytes, handle);
        return code;
    }
    write_page(pages, address, bytes, handle);
    pages->created_count++;
    return 0;
}

/* Unmaps a held page. Returns 0 or the driver's code. After 0 the caller owns the page's *handle. */
static int take_off_page(struct weir__pages *pages, uint64_t address, uint64_t *handle)
{
    struct weir__page *page = page_at(pages, address);
    int code = pages->driver->unmap(pages->data, address, page->units * WEIR__PAGE_UNIT);
    if (code)
        return code;
    *handle = page->handle;
    erase_page(pages, address);
    return 0;
}

/* Unmaps and releases one page of a complete extent. The node `extent` may describe another extent afterwards; *before gets the extent that
   then lies before the page. Returns false if the page could not be unmapped. */
static bool release_page(struct weir__pages *pages, struct weir__extent *extent, uint64_t address, struct weir__extent **before)
{
    uint64_t bytes = page_at(pages, address)->units * WEIR__PAGE_UNIT, handle;
    if (!weir__extents_reserve(&pages->extents, 2))
        return false;
    struct weir__extent *held = weir__extents_hold(&pages->extents, extent, address, bytes);
    bool is_off = take_off_page(pages, address, &handle) == 0;
    if (is_off) {
        pages->driver->release(pages->data, bytes, handle);
        pages->released_count++;
        weir__rest_forget(pages);
        held->former = WEIR__EXTENT_HOLE;
    }
    *before = held->before;
    weir__extents_put(&pages->extents, held);
    return is_off;
}

/* Pages that may be moved -------------------------------------------------------------------------------------------------------------- */

/* A complete page, which may be moved. */
struct source {
    struct weir__pages *pages;
    struct weir__extent *extent; /* the extent that contains the page; NULL: no page was found */
    uint64_t address, bytes;
};

/* A search for the complete page that suits best: of at most `room` bytes, and if possible of at most `wanted` bytes. */
struct search {
    struct source best;
    struct weir__pages *pages; /* the range that is being searched */
    uint64_t room, wanted;
    size_t left; /* free extents that the search may still look at */
};

/* Returns whether a page of this size suits better than the best one so far. The best page is the largest of at most `wanted` bytes; if
   there is none, the smallest of the others. */
static bool is_better(const struct search *search, uint64_t bytes)
{
    const struct source *best = &search->best;
    if (!best->extent)
        return true;
    if (bytes <= search->wanted)
        return best->bytes > search->wanted || bytes > best->bytes;
    return bytes < best->bytes;
}

static bool is_complete(const struct weir__extent *extent)
{
    return extent && extent->state == WEIR__EXTENT_FREE && !extent->stream;
}

static bool look_at_extent(struct weir__extent *extent, void *data)
{
    struct search *search = data;
    uint64_t base = search->pages->extents.base, end = weir__extent_end(extent);
    for (uint64_t at = base + weir__page_round(extent->address - base); at < end;) {
        const struct weir__page *page = page_at(search->pages, at);
        uint64_t bytes = page->units * WEIR__PAGE_UNIT, into = page->into * WEIR__PAGE_UNIT;
        if (into == 0 && bytes <= end - at && bytes <= search->room && is_better(search, bytes))
            search->best = (struct source){.pages = search->pages, .extent = extent, .address = at, .bytes = bytes};
        at += bytes - into;
    }
    return search->best.bytes != search->wanted && --search->left;
}

/* Returns a complete page of this range, or else of the other one. Looks at no more than `most` free extents. */
static struct source find_source(struct weir__pages *pages, uint64_t room, uint64_t wanted, size_t most)
{
    struct search search = {.room = room, .wanted = smaller(wanted, room), .left = most};
    for (search.pages = pages; search.pages && !search.best.extent && search.left;
         search.pages = search.pages == pages ? pages->other : NULL) {
        struct weir__extents *extents = &search.pages->extents;
        struct weir__extent *last = extents->end.before;
        if (weir__bin_visit(&extents->complete, weir__bin_of(extents, WEIR__PAGE_UNIT), look_at_extent, &search) && is_complete(last))
            look_at_extent(last, &search);
    }
    pages->looked_count += most - search.left;
    return search.best;
}

/* Moves a page to a held address, and returns 0 or the driver's code. If mapping fails at the new address the page is mapped back at the
   old one; if that fails too the page is released. Needs 2 unused nodes in the range that the page comes from. */
static int move_page(struct weir__pages *pages, const struct source *source, uint64_t address)
{
    struct weir__pages *from = source->pages;
    uint64_t handle;
    struct weir__extent *held = weir__extents_hold(&from->extents, source->extent, source->address, source->bytes);
    int code = take_off_page(from, source->address, &handle);
    if (code) {
        weir__extents_put(&from->extents, held);
        return code;
    }
    code = pages->driver->map(pages->data, address, source->bytes, handle);
    if (!code) {
        write_page(pages, address, source->bytes, handle);
        pages->moved_count++;
        held->former = WEIR__EXTENT_HOLE;
    } else if (!from->driver->map(from->data, source->address, source->bytes, handle)) {
        write_page(from, source->address, source->bytes, handle);
    } else {
        from->driver->release(from->data, source->bytes, handle);
        from->released_count++;
        held->former = WEIR__EXTENT_HOLE;
    }
    weir__extents_put(&from->extents, held);
    return code;
}

/* Growing ------------------------------------------------------------------------------------------------------------------------------ */

/* A request under way, and its place (place.h): a row of held extents, here called pieces. */
struct growth {
    struct weir__pages *pages;
    struct weir__extent *first, *last;
    uint64_t end;  /* the address behind the request. `last` may end higher, so that a larger page fits */
    uint64_t lack; /* bytes of the place that still have no page */
    uint64_t step; /* the smallest page to create, in bytes, if the device has enough memory; 0: the request is served alone */
    uint64_t most; /* the largest page to create, in bytes; it is halved while creating a page fails */
    bool moves;    /* whether to try moving pages; false after a move failed */
    bool buys;     /* whether to create pages rather than move any; false after creating one failed */
};

/* Holds the part of the extent that the request needs. Of a hole more is held, as room for a larger page. */
static struct weir__extent *hold_piece(const struct growth *growth, struct weir__extent *extent)
{
    uint64_t bytes = growth->end - extent->address;
    if (extent->state == WEIR__EXTENT_HOLE)
        bytes = weir__page_round(bytes) + growth->most;
    return weir__extents_hold(&growth->pages->extents, extent, extent->address, smaller(bytes, extent->bytes));
}

static void hold_place(struct growth *growth, struct weir__extent *extent)
{
    growth->first = growth->last = hold_piece(growth, extent);
    while (weir__extent_end(growth->last) < growth->end)
        growth->last = hold_piece(growth, growth->last->after);
}

/* Releases the page that was created for a piece. If the page cannot be unmapped it stays, as free memory. */
static void undo_create(struct weir__pages *pages, struct weir__extent *piece)
{
    uint64_t handle;
    if (take_off_page(pages, piece->address, &handle))
        return;
    pages->driver->release(pages->data, piece->bytes, handle);
    pages->created_count--;
    piece->former = WEIR__EXTENT_HOLE;
}

/* Undoes a growth that failed: created pages are released, and every piece is what it was before. But holes into which a page was moved are
   free memory now. Needs no unused node. */
static void put_place(struct growth *growth)
{
    for (struct weir__extent *piece = growth->first; piece != growth->last->after; piece = piece->after)
        if (piece->is_new)
            undo_create(growth->pages, piece);
    struct weir__extent *extent = growth->last;
    for (bool is_first = false; !is_first;) {
        struct weir__extent *before = extent->before;
        is_first = extent == growth->first;
        weir__extents_put(&growth->pages->extents, extent);
        extent = before;
    }
}

/* Moves a complete page to this address, if a search of EXTENTS_MOST extents finds one of at most `room` bytes. Returns the page's bytes,
   or 0. */
static uint64_t try_move(struct growth *growth, uint64_t address, uint64_t room)
{
    struct source source = find_source(growth->pages, smaller(room, growth->pages->sizes->most), growth->lack, EXTENTS_MOST);
    if (!source.extent || !weir__extents_reserve(&source.pages->extents, 2))
        return 0;
    if (!move_page(growth->pages, &source, address))
        return source.bytes;
    growth->moves = false;
    return 0;
}

/* Releases any complete page, one that is too large to be moved or whose move failed, so that the device has memory for a new page. Returns
   whether there was one. */
static bool release_any(struct growth *growth)
{
    struct source source = find_source(growth->pages, UINT64_MAX, growth->lack, SIZE_MAX);
    return source.extent && release_page(source.pages, source.extent, source.address, &source.extent);
}

/* Releases the page in whose middle the place ends, if that page is complete. If the request took a part of that page, the rest of it could
   not be moved to where memory is lacking. The part that the request needs becomes a hole, which gets a page as other holes do. Returns
   whether the page was released. */
static bool release_cut(struct growth *growth)
{
    struct weir__pages *pages = growth->pages;
    struct weir__extents *extents = &pages->extents;
    struct weir__extent *last = growth->last, *rest = last->after, *before;
    /* the offset of the unit with the request's last byte */
    uint64_t wanted = weir__page_round(growth->end - extents->base) - WEIR__PAGE_UNIT;
    const struct weir__page *page = &pages->map[wanted / WEIR__PAGE_UNIT];
    uint64_t begin = extents->base + wanted - page->into * WEIR__PAGE_UNIT, end = begin + page->units * WEIR__PAGE_UNIT;
    bool is_cut = last->former == WEIR__EXTENT_FREE && begin >= last->address && end > growth->end;
    if (!is_cut || last->stream || !is_complete(rest) || weir__extent_end(rest) < end || !weir__extents_reserve(extents, 4))
        return false;
    if (begin > last->address)
        last = weir__extents_cut(extents, last, begin - last->address);
    growth->last = last->before;
    weir__extents_put(extents, last);
    extents->kept_count++; /* keep one node for hold_piece() below */
    bool is_off = release_page(pages, growth->last->after, begin, &before);
    extents->kept_count--;
    growth->last = hold_piece(growth, growth->last->after);
    if (is_off)
        growth->lack += weir__page_round(growth->end - begin);
    return is_off;
}

static uint64_t size_of_step(const struct weir__pages *pages)
{
    uint64_t mapped = pages->mapped_bytes + (pages->other ? pages->other->mapped_bytes : 0);
    uint64_t step = smaller(weir__page_round(mapped / 64), pages->sizes->step);
    return step > WEIR__PAGE_UNIT ? step : WEIR__PAGE_UNIT;
}

/* Returns the bytes of the page to create at this address if the request is served alone. The unit with the end of the request is left to
   a page of its own, if the page would have three units or more: the next block shares that unit, and would pin the whole page. */
static uint64_t least_page(const struct growth *growth, uint64_t address, uint64_t room)
{
    uint64_t bytes = smaller(smaller(growth->lack, growth->most), room), last_unit = growth->end & -WEIR__PAGE_UNIT;
    bool is_split = !growth->step && address + WEIR__PAGE_UNIT < last_unit;
    return is_split ? smaller(bytes, last_unit - address) : bytes;
}

/* Creates a page at this address: of growth->step bytes if that succeeds, else of the missing bytes, else of fewer. Before the size is
   halved, complete pages are released. Returns 0 or the driver's code, and the page's size in *bytes. */
static int try_create(struct growth *growth, uint64_t address, uint64_t room, uint64_t *bytes)
{
    uint64_t least = least_page(growth, address, room), step = smaller(growth->step, room);
    *bytes = step > least && step <= growth->most ? step : least;
    int code = create_page(growth->pages, address, *bytes);
    while (code && growth->pages->driver->is_shortage(code)) {
        if (*bytes > least) {
            *bytes = least;
        } else if (!release_any(growth) && !release_cut(growth)) {
            if (*bytes == WEIR__PAGE_UNIT)
                break;
            growth->most = least = *bytes = weir__page_round(*bytes / 2);
        }
        code = create_page(growth->pages, address, *bytes);
    }
    return code;
}

/* Maps a page at the beginning of a piece that is a hole. The part of the piece behind the page becomes the next piece. Returns 0 or a
   code. */
static int fill(struct growth *growth, struct weir__extent *piece)
{
    struct weir__extents *extents = &growth->pages->extents;
    if (!weir__extents_reserve(extents, 1))
        return WEIR__PAGE_NO_HOST_MEMORY;
    extents->kept_count = 1;
    uint64_t bytes = least_page(growth, piece->address, piece->bytes);
    bool is_new = true;
    growth->buys = growth->buys && create_page(growth->pages, piece->address, bytes) == 0;
    if (!growth->buys) {
        bytes = growth->moves ? try_move(growth, piece->address, piece->bytes) : 0;
        is_new = bytes == 0;
    }
    int code = bytes > 0 ? 0 : try_create(growth, piece->address, piece->bytes, &bytes);
    extents->kept_count = 0;
    if (code)
        return code;
    if (bytes < piece->bytes) {
        struct weir__extent *rest = weir__extents_cut(extents, piece, bytes);
        if (growth->last == piece)
            growth->last = rest;
    }
    piece->former = WEIR__EXTENT_FREE;
    piece->is_new = is_new;
    growth->lack -= smaller(bytes, growth->lack);
    return 0;
}

/* Puts back the part of the place behind the request: it becomes free memory if a page is mapped there, else a hole. Returns 0, or
   WEIR__PAGE_NO_HOST_MEMORY. */
static int trim_place(struct growth *growth)
{
    struct weir__extents *extents = &growth->pages->extents;
    struct weir__extent *last = growth->last;
    if (last->address >= growth->end) {
        growth->last = last->before;
        weir__extents_put(extents, last);
        last = growth->last;
    }
    if (weir__extent_end(last) == growth->end)
        return 0;
    if (!weir__extents_reserve(extents, 1))
        return WEIR__PAGE_NO_HOST_MEMORY;
    struct weir__extent *rest = weir__extents_cut(extents, last, growth->end - last->address);
    weir__extents_put(extents, rest);
    return 0;
}

/* Creates pages of `bytes` together at the end of the range, as far as the device has memory for them, and stops where it has none. */
static void map_ahead(struct weir__pages *pages, uint64_t bytes)
{
    struct weir__extents *extents = &pages->extents;
    for (bool is_made = true; is_made && bytes > 0 && extents->end.bytes > 0 && weir__extents_reserve(extents, 2);) {
        uint64_t page = smaller(smaller(bytes, pages->sizes->most), extents->end.bytes);
        struct weir__extent *held = weir__extents_hold(extents, &extents->end, extents->end.address, page);
        is_made = create_page(pages, held->address, page) == 0;
        held->former = is_made ? WEIR__EXTENT_FREE : WEIR__EXTENT_HOLE;
        weir__extents_put(extents, held);
        bytes -= page;
    }
}

int weir__pages_grow(struct weir__pages *pages, struct weir__extent_stream *stream, uint64_t bytes, struct weir__extent **extent)
{
    struct weir__extents *extents = &pages->extents;
    if (bytes == 0 || bytes > extents->bytes)
        return WEIR__PAGE_NO_ADDRESSES;
    if (!weir__extents_reserve(extents, 3))
        return WEIR__PAGE_NO_HOST_MEMORY;
    struct weir__extent *taken = weir__extents_take(extents, stream, bytes);
    if (taken) {
        *extent = taken;
        return 0;
    }
    bytes = weir__extent_round(bytes);
    struct weir__place place = weir__place_find(pages, stream, bytes);
    if (!place.first)
        return WEIR__PAGE_NO_ADDRESSES;
    struct growth growth = {
        .pages = pages, .end = place.first->address + bytes, .lack = place.lack, .most = pages->sizes->most, .moves = true};
    growth.buys = weir__rest_note(pages, bytes);
    if (bytes < pages->sizes->alone)
        growth.step = size_of_step(pages);
    hold_place(&growth, place.first);
    int code = 0;
    for (struct weir__extent *piece = growth.first; !code && piece->address < growth.end; piece = piece->after)
        if (piece->former == WEIR__EXTENT_HOLE)
            code = fill(&growth, piece);
    if (!code)
        code = trim_place(&growth);
    if (!code) {
        if (growth.buys)
            map_ahead(pages, weir__rest_ahead(pages));
        *extent = weir__extents_join(extents, growth.first, growth.last);
        return 0;
    }
    put_place(&growth);
    /* Other threads may have freed enough memory during the calls of the driver. */
    taken = weir__extents_take(extents, stream, bytes);
    if (!taken)
        return code;
    *extent = taken;
    return 0;
}

/* Trimming ----------------------------------------------------------------------------------------------------------------------------- */

/* Returns the address of the highest page that lies in the extent with all its bytes; 0 if there is none. */
static uint64_t highest_page(const struct weir__pages *pages, const struct weir__extent *extent)
{
    uint64_t base = pages->extents.base, end = base + ((weir__extent_end(extent) - base) & -WEIR__PAGE_UNIT);
    while (end > extent->address) {
        const struct weir__page *page = page_at(pages, end - WEIR__PAGE_UNIT);
        uint64_t begin = end - (page->into + 1) * WEIR__PAGE_UNIT;
        if (page->into + 1 == page->units)
            return begin >= extent->address ? begin : 0;
        end = begin;
    }
    return 0;
}

uint64_t weir__pages_trim(struct weir__pages *pages, uint64_t bytes)
{
    uint64_t released = 0;
    struct weir__extent *extent = pages->extents.end.before;
    while (extent && released < bytes) {
        uint64_t address = is_complete(extent) ? highest_page(pages, extent) : 0;
        if (!address) {
            extent = extent->before;
            continue;
        }
        uint64_t page = page_at(pages, address)->units * WEIR__PAGE_UNIT;
        if (!release_page(pages, extent, address, &extent))
            break;
        released += page;
    }
    return released;
}
