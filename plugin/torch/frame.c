/* SPDX-License-Identifier: MIT */
/* frame.c - slots, blocks and leases of weir.share. Each function that takes one also makes its hold (hold.h), so that no thing is lost
   between two calls. */
#include "config.h"

#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "plugin/torch/hold.h"

static weir_status no_memory_for_a_hold(weir_error *error)
{
    return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to hold what is shared");
}

weir_status weir_torch_slot_take(weir_torch_hold *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                 weir_torch_hold **slot, void **ptr)
{
    torch_holds_retry();
    weir_status status = weir_ring_take(ring->thing, timeout_ms, stream, error, ptr);
    if (status != WEIR_OK)
        return status;
    *slot = weir_torch_hold_new(WEIR_TORCH_SLOT, *ptr, ring->w, ring->device, stream, 0, ring);
    if (*slot)
        return WEIR_OK;
    weir_ring_drop(ring->thing, *ptr, stream, NULL);
    return no_memory_for_a_hold(error);
}

/* Puts the thing back into its hold if its end failed, so that another call can try again. Returns `status`. */
static weir_status put_back(weir_torch_hold *hold, void *thing, weir_status status)
{
    if (status != WEIR_OK)
        atomic_store(&hold->thing, thing);
    return status;
}

/* Takes the thing out of its hold, so that only one thread ends it, and makes `stream` wait for all streams that used it. The caller puts
   the thing back with put_back() if its end fails. */
static weir_status take_out(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error, void **thing)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    *thing = atomic_exchange(&hold->thing, NULL);
    if (!*thing)
        return weir__fail(error, WEIR_INVALID, "the %s already: take another one",
                          hold->kind == WEIR_TORCH_SLOT ? "slot was pushed or dropped" : "block was published or freed");
    return put_back(hold, *thing, torch_hold_join(hold, stream, error));
}

weir_status weir_torch_slot_push(weir_torch_hold *slot, size_t size, const void *metadata, size_t metadata_size, weir_cuda_stream stream,
                                 weir_error *error)
{
    void *ptr;
    weir_status status = take_out(slot, stream, error, &ptr);
    return status == WEIR_OK
               ? put_back(slot, ptr, weir_ring_push(slot->parent->thing, ptr, size, metadata, metadata_size, stream, error))
               : status;
}

weir_status weir_torch_block_publish(weir_torch_hold *block, const char *name, size_t size, const void *metadata, size_t metadata_size,
                                     weir_error *error)
{
    void *ptr;
    weir_status status = take_out(block, block->home, error, &ptr);
    return status == WEIR_OK ? put_back(block, ptr,
                                        weir_export_publish(block->parent->thing, name, ptr, size, metadata, metadata_size, block->home,
                                                            error))
                             : status;
}

weir_status torch_frame_give_back(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error)
{
    void *ptr;
    weir_status status = take_out(hold, stream, error, &ptr);
    if (status != WEIR_OK)
        return status;
    if (hold->kind == WEIR_TORCH_SLOT)
        return put_back(hold, ptr, weir_ring_drop(hold->parent->thing, ptr, stream, error));
    status = weir_free(hold->w, ptr, stream);
    if (status != WEIR_OK && error)
        weir_last_error(error);
    return put_back(hold, ptr, status);
}

weir_status weir_torch_hold_discard(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error)
{
    if (hold->kind != WEIR_TORCH_SLOT && hold->kind != WEIR_TORCH_BLOCK)
        return weir__fail(error, WEIR_INVALID, "only slots and blocks are discarded: drop others");
    return torch_frame_give_back(hold, stream, error);
}

/* Makes the hold of a lease, whose parent is the hold of the import. If this fails, the lease is released. */
static weir_status held(weir_lease *lease, weir_torch_hold *import, weir_cuda_stream stream, weir_error *error, weir_torch_hold **hold,
                        const weir_lease_info **info)
{
    *info = weir_lease_get_info(lease);
    *hold = weir_torch_hold_new(WEIR_TORCH_LEASE, lease, import->w, (*info)->device, stream, 0, import);
    if (*hold)
        return WEIR_OK;
    weir_lease_release(lease, stream, NULL);
    return no_memory_for_a_hold(error);
}

weir_status weir_torch_lease_next(weir_torch_hold *reader, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                  weir_torch_hold **hold, const weir_lease_info **info)
{
    weir_lease *lease;
    torch_holds_retry();
    weir_status status = weir_reader_next(reader->thing, timeout_ms, stream, error, &lease);
    return status == WEIR_OK ? held(lease, reader->parent, stream, error, hold, info) : status;
}

weir_status weir_torch_lease_acquire(weir_torch_hold *import, const char *name, unsigned timeout_ms, weir_cuda_stream stream,
                                     weir_error *error, weir_torch_hold **hold, const weir_lease_info **info)
{
    weir_lease *lease;
    torch_holds_retry();
    weir_status status = weir_import_acquire(import->thing, name, timeout_ms, stream, error, &lease);
    return status == WEIR_OK ? held(lease, import, stream, error, hold, info) : status;
}
