/* SPDX-License-Identifier: MIT */
/* dlpack.c - hands tensors of shared memory to other libraries: the structs of DLPack 1.0 and of older versions, and the Python capsules
   that carry them. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/torch/weir_torch.h"

#define DIMENSIONS_MAX 32

/* These three structs have the layout of DLTensor, DLManagedTensor and DLManagedTensorVersioned in DLPack's header. */
struct dl_tensor {
    void *data;
    int32_t device_type, device;
    int32_t dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *managed);
};

struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *versioned);
    uint64_t flags;
    struct dl_tensor tensor;
};

static void delete_managed(struct dl_managed *managed)
{
    if (!managed)
        return;
    weir_torch_hold_drop(managed->context);
    free(managed);
}

static void delete_versioned(struct dl_versioned *versioned)
{
    if (!versioned)
        return;
    weir_torch_hold_drop(versioned->context);
    free(versioned);
}

static void fill(struct dl_tensor *tensor, void *data, const weir_torch_tensor *like, int64_t *numbers)
{
    size_t size = (size_t)like->dimensions * sizeof *numbers;
    tensor->data = data;
    tensor->device_type = like->device_type;
    tensor->device = like->device;
    tensor->dimensions = like->dimensions;
    tensor->code = like->code;
    tensor->bits = like->bits;
    tensor->lanes = 1;
    tensor->shape = numbers;
    tensor->strides = numbers + like->dimensions;
    if (size) {
        memcpy(tensor->shape, like->shape, size);
        memcpy(tensor->strides, like->strides, size);
    }
}

/* Returns a new DLManagedTensor or DLManagedTensorVersioned, which keeps the hold until its deleter is called. Returns NULL if host memory
   runs out or `like` has too many dimensions. */
static void *tensor_new(weir_torch_hold *hold, void *data, const weir_torch_tensor *like, int is_versioned, uint64_t flags)
{
    if (like->dimensions < 0 || like->dimensions > DIMENSIONS_MAX)
        return NULL;
    size_t head = is_versioned ? sizeof(struct dl_versioned) : sizeof(struct dl_managed);
    unsigned char *memory = calloc(1, head + 2 * (size_t)like->dimensions * sizeof(int64_t));
    if (!memory)
        return NULL;
    int64_t *numbers = (int64_t *)(void *)(memory + head);
    if (is_versioned) {
        struct dl_versioned *versioned = (struct dl_versioned *)(void *)memory;
        versioned->major = 1;
        versioned->context = hold;
        versioned->deleter = delete_versioned;
        versioned->flags = flags;
        fill(&versioned->tensor, data, like, numbers);
    } else {
        struct dl_managed *managed = (struct dl_managed *)(void *)memory;
        managed->context = hold;
        managed->deleter = delete_managed;
        fill(&managed->tensor, data, like, numbers);
    }
    weir_torch_hold_keep(hold);
    return memory;
}

static weir_torch_capsules python;

void weir_torch_capsules_set(const weir_torch_capsules *functions)
{
    python = *functions;
}

static const char *const old_name = "dltensor";
static const char *const name = "dltensor_versioned";

/* The destructor of a capsule. A consumer renames the capsule, so a capsule that still has its first name still owns the tensor. */
static void delete_unconsumed(void *capsule)
{
    if (python.is_valid(capsule, old_name))
        delete_managed(python.pointer(capsule, old_name));
    else if (python.is_valid(capsule, name))
        delete_versioned(python.pointer(capsule, name));
}

void *weir_torch_capsule_new(weir_torch_hold *hold, void *data, const weir_torch_tensor *like, int is_versioned, uint64_t flags)
{
    void *managed = tensor_new(hold, data, like, is_versioned, flags);
    if (!managed)
        return python.no_memory();
    void *capsule = python.create(managed, is_versioned ? name : old_name, delete_unconsumed);
    if (capsule)
        return capsule;
    if (is_versioned)
        delete_versioned(managed);
    else
        delete_managed(managed);
    return NULL;
}
