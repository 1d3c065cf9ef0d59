/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/stack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/spin.h"
#include "lib/record/interpreter.h"

#define WORD sizeof(uint64_t)
#define FIRST_SLOTS 1024  /* slots of the first hash table, a power of two */
#define LEAST_COUNT 64    /* the least number of entries for which room is reserved, */
#define LEAST_BYTES 16384 /* and the least bytes of the entries' words */
#define PLACE_WORDS 3     /* words of the entry of a place: the entry's first word and two more */
#define FRAME_WORDS_MAX ((WORD + WEIR__FRAME_FUNCTION_MAX + 1 + WEIR__FRAME_FILE_MAX + 1 + WORD - 1) / WORD)
_Static_assert(FRAME_WORDS_MAX <= UINT8_MAX && WEIR__STACK_MAX <= UINT8_MAX, "the words of an entry fit into its first word");

/* A hash table with open addressing. A slot is 0 if it is empty; otherwise its upper half is the hash of an entry and its lower half the
   entry's number. At least half of the slots are empty. */
struct table {
    uint32_t mask; /* slots - 1 */
    _Atomic uint64_t slots[];
};

/*
 * A set of sequences of words. Each distinct sequence is stored once, as an entry with a number: one word with the hash and the length,
 * then the sequence. When a hash table is half full, a table of twice the size replaces it, with the same entries. The old table remains,
 * since other threads may be reading it; such a thread can miss a new entry, and then looks again under the lock.
 */
struct interned {
    _Atomic(struct table *) table; /* the newest table. Changed under `lock` */
    _Atomic uint32_t count;        /* the highest number in use. Changed under `lock`, after the entry is complete */
    uint32_t max;                  /* the highest number possible */
    /* starts[number] is the index of the entry in `words`. Both are written under `lock`, before other threads can see the number. */
    uint32_t *starts;
    uint64_t *words;
    size_t used, max_words; /* words in use, guarded by `lock`, and the number of words */
    char *next_table;       /* the address for the next table. Guarded by `lock` */
    void *memory;           /* one mapping for the tables, `starts` and `words` */
    size_t bytes;           /* the size of that mapping */
    weir__spin lock;
    atomic_bool is_full; /* there was no room for an entry, so other threads need not take the lock to add one. Set under `lock` */
    atomic_uint_fast64_t lost; /* entries that could not be added */
};

struct weir__stacks {
    struct interned stacks;
    struct interned frames;
    struct interned places;          /* a place is two words: code and position */
    _Atomic uint32_t *place_frames;  /* the number of each place's frame; 0: the thread that added the place has not written it yet */
};

static size_t table_bytes(uint32_t slots)
{
    return (sizeof(struct table) + slots * WORD + 63) / 64 * 64;
}

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = FIRST_SLOTS;
    while (slots / 2 < count)
        slots *= 2;
    return slots;
}

/* Makes a table with `slots` slots that has the entries of the present table, and replaces the present table by it. The memory of a new
   table is zero already. */
static void start_table(struct interned *interned, uint32_t slots)
{
    struct table *table = (struct table *)interned->next_table;
    table->mask = slots - 1;
    struct table *before = atomic_load_explicit(&interned->table, memory_order_relaxed);
    for (uint32_t i = 0; before && i <= before->mask; i++) {
        uint64_t slot = atomic_load_explicit(&before->slots[i], memory_order_relaxed);
        uint32_t at = (uint32_t)(slot >> 32) & table->mask;
        while (slot && atomic_load_explicit(&table->slots[at], memory_order_relaxed))
            at = (at + 1) & table->mask;
        if (slot)
            atomic_store_explicit(&table->slots[at], slot, memory_order_relaxed);
    }
    interned->next_table += table_bytes(slots);
    atomic_store_explicit(&interned->table, table, memory_order_release);
}

static bool reserve(struct interned *interned, size_t bytes, uint32_t count)
{
    size_t words = bytes / WORD, starts = ((size_t)count + 1) * sizeof(uint32_t), tables = 0;
    for (uint32_t slots = FIRST_SLOTS; slots <= slots_for(count); slots *= 2)
        tables += table_bytes(slots);
    starts = (starts + 63) / 64 * 64;
    interned->bytes = tables + words * WORD + starts;
    interned->memory = mmap(NULL, interned->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (interned->memory == MAP_FAILED)
        return false;
    interned->next_table = interned->memory;
    interned->starts = (uint32_t *)(interned->next_table + tables);
    interned->words = (uint64_t *)(interned->next_table + tables + starts);
    interned->max = count;
    interned->max_words = words;
    return true;
}

static bool open_interned(struct interned *interned, size_t bytes, uint32_t count)
{
    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes > WEIR__STACKS_BYTES ? WEIR__STACKS_BYTES : bytes;
    count = count < 1 ? 1 : count > WEIR__STACKS_COUNT ? WEIR__STACKS_COUNT : count;
    while (!reserve(interned, bytes, count)) {
        if (bytes / 2 < LEAST_BYTES || count / 2 < LEAST_COUNT)
            return false;
        bytes /= 2;
        count /= 2;
    }
    weir__spin_init(&interned->lock);
    start_table(interned, FIRST_SLOTS);
    return true;
}

/* Hashes the words in two independent lanes, so that the processor can do two multiplications at the same time. */
static uint32_t hash_words(const uint64_t *words, size_t count)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t even = count * factor, odd = ~even;
    for (size_t i = 0; i + 1 < count; i += 2) {
        even = (even ^ words[i]) * factor;
        odd = (odd ^ words[i + 1]) * factor;
        even ^= even >> 32;
        odd ^= odd >> 32;
    }
    if (count % 2)
        even = (even ^ words[count - 1]) * factor;
    uint64_t both = (even ^ (odd << 29 | odd >> 35)) * factor;
    return (uint32_t)(both >> 32);
}

uint32_t weir__stacks_hash(const uint64_t *elements, unsigned count)
{
    return hash_words(elements, count);
}

static uint64_t *entry_of(const struct interned *interned, uint32_t id)
{
    return interned->words + interned->starts[id];
}

/* Returns the number of the entry with these words. If the table does not have the entry, returns 0, and *at is the slot for it. */
static uint32_t look_up(const struct interned *interned, const struct table *table, uint32_t hash, const uint64_t *words, size_t count,
                        uint32_t *at)
{
    for (uint32_t i = hash & table->mask;; i = (i + 1) & table->mask) {
        uint64_t slot = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        *at = i;
        if (!slot)
            return 0;
        if (slot >> 32 != hash)
            continue;
        const uint64_t *entry = entry_of(interned, (uint32_t)slot);
        if (entry[0] == ((uint64_t)hash << 32 | count) && memcmp(entry + 1, words, count * WORD) == 0)
            return (uint32_t)slot;
    }
}

/* Stores a new entry and returns its number, or 0 if there is no room. The caller holds the lock. */
static uint32_t append(struct interned *interned, uint32_t hash, const uint64_t *words, size_t count)
{
    uint32_t id = atomic_load_explicit(&interned->count, memory_order_relaxed) + 1;
    if (id > interned->max || count + 1 > interned->max_words - interned->used)
        return 0;
    uint64_t *entry = interned->words + interned->used;
    entry[0] = (uint64_t)hash << 32 | count;
    memcpy(entry + 1, words, count * WORD);
    interned->starts[id] = (uint32_t)interned->used;
    interned->used += count + 1;
    atomic_store_explicit(&interned->count, id, memory_order_release);
    return id;
}

static __attribute__((noinline, cold)) uint32_t add(struct interned *interned, uint32_t hash, const uint64_t *words, size_t count)
{
    uint32_t at;
    weir__spin_lock(&interned->lock);
    struct table *table = atomic_load_explicit(&interned->table, memory_order_relaxed);
    if (atomic_load_explicit(&interned->count, memory_order_relaxed) > table->mask / 2 && table->mask + 1 < slots_for(interned->max)) {
        start_table(interned, (table->mask + 1) * 2);
        table = atomic_load_explicit(&interned->table, memory_order_relaxed);
    }
    uint32_t id = look_up(interned, table, hash, words, count, &at);
    if (!id) {
        id = append(interned, hash, words, count);
        if (id)
            atomic_store_explicit(&table->slots[at], (uint64_t)hash << 32 | id, memory_order_release);
        else
            atomic_store_explicit(&interned->is_full, true, memory_order_relaxed);
    }
    weir__spin_unlock(&interned->lock);
    return id;
}

static uint32_t intern(struct interned *interned, const uint64_t *words, size_t count)
{
    uint32_t hash = hash_words(words, count), at;
    uint32_t id = look_up(interned, atomic_load_explicit(&interned->table, memory_order_acquire), hash, words, count, &at);
    if (!id && !atomic_load_explicit(&interned->is_full, memory_order_relaxed))
        id = add(interned, hash, words, count);
    if (!id)
        atomic_fetch_add_explicit(&interned->lost, 1, memory_order_relaxed);
    return id;
}

struct weir__stacks *weir__stacks_new(size_t bytes, uint32_t count)
{
    struct weir__stacks *stacks = calloc(1, sizeof(*stacks));
    if (!stacks)
        return NULL;
    if (!open_interned(&stacks->stacks, bytes, count))
        goto free_stacks;
    if (!open_interned(&stacks->frames, bytes / 4, count / 4))
        goto unmap_stacks;
    if (!open_interned(&stacks->places, PLACE_WORDS * WORD * WEIR__PLACES_COUNT, WEIR__PLACES_COUNT))
        goto unmap_frames;
    stacks->place_frames = calloc((size_t)stacks->places.max + 1, sizeof *stacks->place_frames);
    if (!stacks->place_frames)
        goto unmap_places;
    return stacks;
unmap_places:
    munmap(stacks->places.memory, stacks->places.bytes);
unmap_frames:
    munmap(stacks->frames.memory, stacks->frames.bytes);
unmap_stacks:
    munmap(stacks->stacks.memory, stacks->stacks.bytes);
free_stacks:
    free(stacks);
    return NULL;
}

void weir__stacks_destroy(struct weir__stacks *stacks)
{
    if (!stacks)
        return;
    munmap(stacks->stacks.memory, stacks->stacks.bytes);
    munmap(stacks->frames.memory, stacks->frames.bytes);
    munmap(stacks->places.memory, stacks->places.bytes);
    free(stacks->place_frames);
    free(stacks);
}

uint32_t weir__stacks_add(struct weir__stacks *stacks, const uint64_t *elements, unsigned count)
{
    return count ? intern(&stacks->stacks, elements, count < WEIR__STACK_MAX ? count : WEIR__STACK_MAX) : 0;
}

uint32_t weir__stacks_here(struct weir__stacks *stacks)
{
    uintptr_t pcs[WEIR__UNWIND_MAX];
    uint64_t elements[WEIR__STACK_MAX];
    unsigned count = weir__unwind(pcs, WEIR__UNWIND_MAX);
    for (unsigned i = 0; i < count; i++)
        elements[i] = weir__stack_address(pcs[i]);
    count = weir__interpreter_append(stacks, elements, count, WEIR__STACK_MAX);
    return weir__stacks_add(stacks, elements, count);
}

/* The words of a frame are the line and the length of the function's name in the first word, then the two names, each with a terminating
   zero, and zeros up to the end of the last word. */
uint32_t weir__stacks_frame(struct weir__stacks *stacks, const char *function, const char *file, uint32_t line)
{
    uint64_t words[FRAME_WORDS_MAX];
    size_t function_length = function ? strnlen(function, WEIR__FRAME_FUNCTION_MAX) : 0, file_length = file ? strlen(file) : 0;
    if (file_length > WEIR__FRAME_FILE_MAX) {
        file += file_length - WEIR__FRAME_FILE_MAX;
        file_length = WEIR__FRAME_FILE_MAX;
    }
    size_t count = (WORD + function_length + 1 + file_length + 1 + WORD - 1) / WORD;
    char *text = (char *)(words + 1);
    words[count - 1] = 0;
    words[0] = (uint64_t)line << 32 | function_length;
    if (function_length)
        memcpy(text, function, function_length);
    text[function_length] = '\0';
    if (file_length)
        memcpy(text + function_length + 1, file, file_length);
    text[function_length + 1 + file_length] = '\0';
    return intern(&stacks->frames, words, count);
}

uint32_t weir__stacks_find_place(const struct weir__stacks *stacks, uint64_t code, uint64_t position)
{
    const uint64_t words[] = {code, position};
    const struct interned *places = &stacks->places;
    uint32_t at, id = look_up(places, atomic_load_explicit(&places->table, memory_order_acquire), hash_words(words, 2), words, 2, &at);
    return id ? atomic_load_explicit(&stacks->place_frames[id], memory_order_acquire) : 0;
}

bool weir__stacks_takes_places(const struct weir__stacks *stacks)
{
    return !atomic_load_explicit(&stacks->places.is_full, memory_order_relaxed) &&
           atomic_load_explicit(&stacks->places.count, memory_order_relaxed) < stacks->places.max;
}

/* If two threads add the same place at the same time, both write the same frame. */
void weir__stacks_add_place(struct weir__stacks *stacks, uint64_t code, uint64_t position, uint32_t frame)
{
    const uint64_t words[] = {code, position};
    uint32_t id = intern(&stacks->places, words, 2);
    if (id)
        atomic_store_explicit(&stacks->place_frames[id], frame, memory_order_release);
}

/* Returns the words of the entry with that number and sets *count to their number, or returns NULL. */
static const uint64_t *words_of(const struct interned *interned, uint32_t id, unsigned *count)
{
    if (id == 0 || id > atomic_load_explicit(&interned->count, memory_order_acquire))
        return NULL;
    const uint64_t *entry = entry_of(interned, id);
    *count = (unsigned)(uint32_t)entry[0];
    return entry + 1;
}

bool weir__stacks_get(const struct weir__stacks *stacks, uint32_t id, const uint64_t **elements, unsigned *count)
{
    const uint64_t *words = words_of(&stacks->stacks, id, count);
    if (words)
        *elements = words;
    return words != NULL;
}

bool weir__stacks_get_frame(const struct weir__stacks *stacks, uint32_t id, struct weir__frame *frame)
{
    unsigned count;
    const uint64_t *words = words_of(&stacks->frames, id, &count);
    if (!words)
        return false;
    frame->line = (uint32_t)(words[0] >> 32);
    frame->function = (const char *)(words + 1);
    frame->file = frame->function + (uint32_t)words[0] + 1;
    return true;
}

uint32_t weir__stacks_count(const struct weir__stacks *stacks)
{
    return atomic_load_explicit(&stacks->stacks.count, memory_order_acquire);
}

uint32_t weir__stacks_frame_count(const struct weir__stacks *stacks)
{
    return atomic_load_explicit(&stacks->frames.count, memory_order_acquire);
}

uint64_t weir__stacks_lost(const struct weir__stacks *stacks)
{
    return atomic_load_explicit(&stacks->stacks.lost, memory_order_relaxed) +
           atomic_load_explicit(&stacks->frames.lost, memory_order_relaxed);
}
