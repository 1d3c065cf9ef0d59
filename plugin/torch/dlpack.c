/* SPDX-License-Identifier: MIT */
/*
 * dlpack.c - tensors of shared memory for other libraries: the structs of DLPack 1.0 and those from before, and the capsules of Python that
 * carry them.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/torch/hold.h"

#define DIMENSIONS_MAX 32

/* As dlpack.h lays them out. */
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

static void fill(struct dl_tensor *tensor, const weir_torch_tensor *from, int64_t *numbers)
{
    size_t size = (size_t)from->dimensions * sizeof *numbers;
    tensor->data = from->data;
    tensor->device_type = from->device_type;
    tensor->device = from->device;
    tensor->dimensions = from->dimensions;
    tensor->code = from->code;
    tensor->bits = from->bits;
    tensor->lanes = 1;
    tensor->shape = numbers;
    tensor->strides = numbers + from->dimensions;
    if (size) {
        memcpy(tensor->shape, from->shape, size);
        memcpy(tensor->strides, from->strides, size);
    }
}

void *weir_torch_dlpack_new(weir_torch_hold *hold, const weir_torch_tensor *from, int is_versioned, uint64_t flags)
{
    if (from->dimensions < 0 || from->dimensions > DIMENSIONS_MAX)
        return NULL;
    size_t head = is_versioned ? sizeof(struct dl_versioned) : sizeof(struct dl_managed);
    unsigned char *memory = calloc(1, head + 2 * (size_t)from->dimensions * sizeof(int64_t));
    if (!memory)
        return NULL;
    int64_t *numbers = (int64_t *)(void *)(memory + head);
    if (is_versioned) {
        struct dl_versioned *versioned = (struct dl_versioned *)(void *)memory;
        versioned->major = 1;
        versioned->context = hold;
        versioned->deleter = delete_versioned;
        versioned->flags = flags;
        fill(&versioned->tensor, from, numbers);
    } else {
        struct dl_managed *managed = (struct dl_managed *)(void *)memory;
        managed->context = hold;
        managed->deleter = delete_managed;
        fill(&managed->tensor, from, numbers);
    }
    weir_torch_hold_keep(hold);
    return memory;
}

/* Python's, which tells where they are: this library links no Python. */
static int (*capsule_is_valid)(void *capsule, const char *name);
static void *(*capsule_pointer)(void *capsule, const char *name);

void weir_torch_dlpack_python(int (*is_valid)(void *capsule, const char *name), void *(*pointer)(void *capsule, const char *name))
{
    capsule_is_valid = is_valid;
    capsule_pointer = pointer;
}

/* Who consumes a capsule gives it another name. */
void weir_torch_dlpack_drop(void *capsule)
{
    if (capsule_is_valid(capsule, "dltensor"))
        delete_managed(capsule_pointer(capsule, "dltensor"));
    else if (capsule_is_valid(capsule, "dltensor_versioned"))
        delete_versioned(capsule_pointer(capsule, "dltensor_versioned"));
}
