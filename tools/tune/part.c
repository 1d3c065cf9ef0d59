/* SPDX-License-Identifier: MIT */
#include "tools/tune/part.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"

/* A block that is live, in the pool. */
struct block {
    uint64_t time, size;
    uint16_t tag, stream; /* labels; 0: none */
    bool is_counted;
};

struct sum {
    uint64_t blocks;
    double life; /* of all together, ns */
};

struct reader {
    const struct script *script;
    size_t until;
    bool *is_of;     /* of each pool of the script: it is the one that is looked at */
    bool *is_routed; /* of each label: streams of that name have it by the policy */
    uint16_t *names; /* of each stream: its label now */
    uint16_t *pools; /* of each stream: the pool of the script that it has now */
    struct block *blocks;
    struct sum *sums; /* by label; 0: all */
};

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

static struct reader reader_of(const struct script *script, size_t until, const struct policy *policy, const char *pool)
{
    struct reader reader = {.script = script, .until = until};
    reader.is_of = must(calloc(script->pool_count + 1, sizeof *reader.is_of));
    reader.is_routed = must(calloc(script->label_count + 1, sizeof *reader.is_routed));
    reader.names = must(calloc(script->stream_count + 1, sizeof *reader.names));
    reader.pools = must(calloc(script->stream_count + 1, sizeof *reader.pools));
    reader.blocks = must(calloc(script->block_count + 1, sizeof *reader.blocks));
    reader.sums = must(calloc(script->label_count + 1, sizeof *reader.sums));
    const char *first = policy->pools[policy->default_pool].name;
    for (size_t i = 0; i < script->pool_count; i++) {
        const struct trace_pool *other = script->pools[i];
        const char *name = script_pool_name(other) && policy_find_pool(policy, other->name) ? other->name : first;
        reader.is_of[i] = !(other->flags & TRACE_POOL_PRIVATE) && strcmp(name, pool) == 0;
    }
    for (size_t i = 0; i < script->label_count; i++) {
        const struct policy_stream *stream = policy_find_stream(policy, script->labels[i].text);
        const char *name = stream ? policy->pools[stream->pool].name : first;
        reader.is_routed[i + 1] = script->labels[i].is_stream && !(stream && stream->own_pool) && strcmp(name, pool) == 0;
    }
    return reader;
}

static void reader_free(struct reader *reader)
{
    free(reader->is_of);
    free(reader->is_routed);
    free(reader->names);
    free(reader->pools);
    free(reader->blocks);
    free(reader->sums);
}

/* What the operation begins or ends; NULL: no block of the pool. */
static struct block *look(struct reader *reader, const struct script_op *op)
{
    struct block *block = &reader->blocks[op->block];
    if (op->what == SCRIPT_OPEN) {
        reader->names[op->stream] = op->label;
        reader->pools[op->stream] = op->pool;
    } else if (op->what == SCRIPT_CLOSE) {
        reader->names[op->stream] = 0;
    } else if (op->what == SCRIPT_MALLOC) {
        /* What came by the way of the stream's name goes where the policy has that now, whatever pool was recorded. */
        uint16_t name = reader->pools[op->stream] == op->pool ? reader->names[op->stream] : 0;
        *block = (struct block){.time = op->time, .size = op->size, .tag = op->label, .stream = name};
        block->is_counted = name ? reader->is_routed[name] : reader->is_of[op->pool];
    }
    return (op->what == SCRIPT_MALLOC || op->what == SCRIPT_FREE) && block->is_counted ? block : NULL;
}

/* Lifetimes ---------------------------------------------------------------------------------------------------------------------------- */

static void add_life(struct sum *sum, uint64_t life)
{
    sum->blocks++;
    sum->life += (double)life;
}

static void end_block(struct reader *reader, struct block *block, uint64_t time)
{
    uint64_t life = time > block->time ? time - block->time : 0;
    add_life(&reader->sums[0], life);
    if (block->tag)
        add_life(&reader->sums[block->tag], life);
    if (block->stream)
        add_life(&reader->sums[block->stream], life);
    block->is_counted = false;
}

static void sum_lives(struct reader *reader)
{
    uint64_t last = 0;
    for (size_t i = 0; i < reader->until; i++) {
        const struct script_op *op = &reader->script->ops[i];
        struct block *block = look(reader, op);
        last = op->time > last ? op->time : last;
        if (block && op->what == SCRIPT_FREE)
            end_block(reader, block, op->time);
    }
    for (size_t i = 0; i < reader->script->block_count; i++)
        if (reader->blocks[i].is_counted)
            end_block(reader, &reader->blocks[i], last);
}

/* How many bytes the part and the rest have at most, each for itself. */
static void find_peaks(struct reader *reader, struct part *part)
{
    uint64_t live[2] = {0}, *peaks[2] = {&part->rest.peak, &part->own.peak};
    memset(reader->names, 0, reader->script->stream_count * sizeof *reader->names);
    for (size_t i = 0; i < reader->until; i++) {
        const struct script_op *op = &reader->script->ops[i];
        struct block *block = look(reader, op);
        if (!block)
            continue;
        bool is_own = block->tag == part->label || block->stream == part->label;
        live[is_own] += op->what == SCRIPT_MALLOC ? block->size : 0 - block->size;
        *peaks[is_own] = live[is_own] > *peaks[is_own] ? live[is_own] : *peaks[is_own];
        block->is_counted = op->what == SCRIPT_MALLOC;
    }
    for (size_t i = 0; i < reader->script->block_count; i++)
        reader->blocks[i].is_counted = false;
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

static struct part_sum mean_of(uint64_t blocks, double life)
{
    double mean = blocks ? life / (double)blocks : 0;
    return (struct part_sum){.blocks = blocks, .life = mean > 1 ? (uint64_t)mean : 1};
}

static double ratio_of(const struct part *part)
{
    double own = (double)part->own.life, rest = (double)part->rest.life;
    return own > rest ? own / rest : rest / own;
}

/* Of two parts that are all of the pool, the one that lives longer is the part: it has fewer calls, and a tag's have no caches. */
static bool mixes_less(const struct part *a, const struct part *b)
{
    double x = ratio_of(a), y = ratio_of(b);
    return x > y || (x == y && a->own.life > b->own.life);
}

/* Puts it where it belongs among the best. Returns how many there are. */
static size_t insert(struct part parts[static PARTS_MAX], size_t count, struct part part)
{
    size_t at = count;
    while (at > 0 && mixes_less(&part, &parts[at - 1]))
        at--;
    for (size_t i = count < PARTS_MAX ? count : PARTS_MAX - 1; i > at; i--)
        parts[i] = parts[i - 1];
    if (at < PARTS_MAX)
        parts[at] = part;
    return count < PARTS_MAX ? count + 1 : count;
}

size_t parts_find(const struct script *script, size_t until, const struct policy *policy, const char *pool,
                  struct part parts[static PARTS_MAX])
{
    struct reader reader = reader_of(script, until, policy, pool);
    size_t count = 0;
    sum_lives(&reader);
    for (size_t i = 0; i < script->label_count; i++) {
        const struct sum *all = &reader.sums[0], *own = &reader.sums[i + 1];
        struct part part = {.label = (uint16_t)(i + 1), .name = script->labels[i].text, .is_stream = script->labels[i].is_stream};
        part.own = mean_of(own->blocks, own->life);
        part.rest = mean_of(all->blocks - own->blocks, all->life - own->life);
        if (part.own.blocks && part.rest.blocks && ratio_of(&part) >= PART_RATIO)
            count = insert(parts, count, part);
    }
    for (size_t i = 0; i < count; i++)
        find_peaks(&reader, &parts[i]);
    reader_free(&reader);
    return count;
}
