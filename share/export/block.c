/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/event.h"
#include "lib/base/format.h"
#include "lib/base/list.h"
#include "share/base/order.h"
#include "share/export/ring.h"

/* Making and freeing; no lock is held, since CUDA is called ---------------------------------------------------------------------------- */

weir_status share_block_new(weir_export *e, void *ptr, weir_error *error, struct share_block **out)
{
    size_t bytes;
    weir_status status = weir__block_lend(e->pool, ptr, error, &bytes);
    if (status != WEIR_OK)
        return status;
    struct share_block *block = calloc(1, sizeof *block);
    if (!block) {
        weir__block_return(e->pool, ptr);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to publish a block");
    }
    block->ptr = ptr;
    block->bytes = bytes;
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    int code = e->gpu->block_export(ptr, &block->handle);
    if (code == GPU_SUCCESS)
        code = e->gpu->event_create_shared(e->device, &block->ready, &block->ready_handle);
    weir__relaxed_end(e->gpu, mode);
    if (code != GPU_SUCCESS) {
        weir__block_return(e->pool, ptr);
        free(block);
        return weir__fail_gpu(error, e->gpu, code, "exporting a block of %s of pool '%s'", WEIR__BYTES(bytes), e->pool->name);
    }
    pthread_mutex_lock(&e->lock);
    e->exported_in++; /* counts even if the block is not published in the end */
    pthread_mutex_unlock(&e->lock);
    *out = block;
    return WEIR_OK;
}

void share_block_free(weir_export *e, struct share_block *block, bool memory)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    weir__block_return(e->pool, block->ptr);
    /* All importers are done with the block, but the exporter's own last writes may still run on the GPU. */
    if (memory && block->is_recorded)
        e->gpu->stream_wait_event(e->stream, block->ready);
    weir_error error = WEIR_ERROR_INIT;
    if (memory && (weir_free)(e->w, block->ptr, e->stream) != WEIR_OK) {
        weir_last_error(&error);
        weir__log_about(e->w, e->pool, WEIR_LOG_ERROR, "a block of %s of pool '%s' that was shared cannot be freed: %s",
                        WEIR__BYTES(block->bytes), e->pool->name, error.text);
    }
    weir__event_destroy(e->gpu, block->ready);
    weir__relaxed_end(e->gpu, mode);
    free(block);
    weir__service_wake(&e->job, 0);
}

weir_status share_block_record(weir_export *e, struct share_block *block, gpu_stream stream, const char *what, weir_error *error)
{
    weir_status status = share_order(SHARE_ORDER_RECORD, e->gpu, e->device, stream, block->ready, what, error);
    if (status == WEIR_OK)
        block->is_recorded = true;
    return status;
}

/* The content of a block --------------------------------------------------------------------------------------------------------------- */

weir_status share_content_check(const struct share_block *block, const struct share_content *content, const char *function,
                                weir_error *error)
{
    if (content->size > block->bytes && content->size != WEIR_EMPTY)
        return weir__fail(error, WEIR_INVALID, "%s: %zu bytes of a block of %zu: publish at most the whole block", function, content->size,
                          block->bytes);
    if (content->metadata_size > WEIR_METADATA_MAX)
        return weir__fail(error, WEIR_INVALID, "%s: %zu bytes of metadata: at most %d can go with a block", function,
                          content->metadata_size, WEIR_METADATA_MAX);
    if (content->metadata_size && !content->metadata)
        return weir__fail(error, WEIR_INVALID, "%s: metadata is NULL, but metadata_size %zu", function, content->metadata_size);
    return WEIR_OK;
}

void share_block_describe(struct share_block *block, const struct share_content *content)
{
    block->size = content->size == WEIR_EMPTY ? 0 : content->size ? content->size : block->bytes;
    block->metadata_size = (uint32_t)content->metadata_size;
    if (content->metadata_size)
        memcpy(block->metadata, content->metadata, content->metadata_size);
}

/* Publishing and withdrawing; the caller holds e->lock --------------------------------------------------------------------------------- */

uint64_t share_publication_new(weir_export *e)
{
    return ++e->last_publication & (WIRE_BLOCK_PUBLISHED - 1) >> WIRE_BLOCK_INDEX;
}

void share_block_add(weir_export *e, struct share_block *block, uint64_t publication, unsigned index)
{
    block->id = WIRE_BLOCK_PUBLISHED | publication << WIRE_BLOCK_INDEX | index;
    block->next = e->blocks;
    e->blocks = block;
    if (e->retire_until) /* the pool is in use again: the job ends the retiring, and welcomes the clients that wait for that */
        weir__service_wake(&e->job, 0);
}

struct share_block *share_block_find(weir_export *e, const char *name)
{
    struct share_block *block = e->blocks;
    while (block && (block->is_withdrawn || block->ring || strcmp(block->name, name) != 0))
        block = block->next;
    return block;
}

void share_block_withdraw(weir_export *e, struct share_block *block)
{
    block->is_withdrawn = true;
    block->ring = NULL;
    block->awaited = 0;
    share_block_released(e, block);
}

static void bury(weir_export *e, struct share_block *block)
{
    WEIR__UNLINK(e->blocks, block, next);
    block->next = e->dead;
    e->dead = block;
    weir__service_wake(&e->job, 0);
}

void share_block_released(weir_export *e, struct share_block *block)
{
    if (block->ring)
        share_slot_reclaim(block->ring, block);
    if (!block->is_withdrawn)
        return;
    for (struct share_mapping *mapping = block->mappings; mapping; mapping = mapping->next_of_block)
        if (!mapping->leases && !mapping->is_told) {
            struct wire_message message = { .type = WIRE_WITHDRAW, .u.block.block = block->id };
            mapping->is_told = share_client_send(mapping->client, &message, -1) == SHARE_DONE;
        }
    if (!block->mappings)
        bury(e, block);
    share_serve_stir(e);
}
