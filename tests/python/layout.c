/* SPDX-License-Identifier: MIT */
/* layout.c - prints the size of each struct that the Python package has a copy of, and where its members are; and numbers of an enum. */
#include "plugin/torch/weir_torch.h"

#include <stddef.h>
#include <stdio.h>

#define STRUCT(type, name) printf("%s %zu\n", name, sizeof(type))
#define MEMBER(type, name, member) printf("%s.%s %zu %zu\n", name, #member, offsetof(type, member), sizeof(((type *)NULL)->member))
#define NUMBER(number, name) printf("%s %d\n", name, number)

static void print_allocator(void)
{
    STRUCT(weir_error, "Error");
    MEMBER(weir_error, "Error", status);
    MEMBER(weir_error, "Error", cuda_code);
    MEMBER(weir_error, "Error", line);
    MEMBER(weir_error, "Error", column);
    MEMBER(weir_error, "Error", file);
    MEMBER(weir_error, "Error", text);
    STRUCT(weir_options, "Options");
    MEMBER(weir_options, "Options", size);
    MEMBER(weir_options, "Options", policy_file);
    MEMBER(weir_options, "Options", policy_text);
    MEMBER(weir_options, "Options", gpu);
    MEMBER(weir_options, "Options", log);
    MEMBER(weir_options, "Options", log_data);
    STRUCT(weir_torch_stats, "Stats");
    MEMBER(weir_torch_stats, "Stats", size);
    MEMBER(weir_torch_stats, "Stats", memory);
    MEMBER(weir_torch_stats, "Stats", memory_free);
    MEMBER(weir_torch_stats, "Stats", allocated);
    MEMBER(weir_torch_stats, "Stats", allocated_high);
    MEMBER(weir_torch_stats, "Stats", active);
    MEMBER(weir_torch_stats, "Stats", reserved);
    MEMBER(weir_torch_stats, "Stats", reserved_high);
    MEMBER(weir_torch_stats, "Stats", cached);
    MEMBER(weir_torch_stats, "Stats", idle);
    MEMBER(weir_torch_stats, "Stats", graph_reserved);
    MEMBER(weir_torch_stats, "Stats", graph_live);
    MEMBER(weir_torch_stats, "Stats", blocks);
    MEMBER(weir_torch_stats, "Stats", mallocs);
    MEMBER(weir_torch_stats, "Stats", frees);
    MEMBER(weir_torch_stats, "Stats", cache_hits);
    MEMBER(weir_torch_stats, "Stats", recoveries);
    MEMBER(weir_torch_stats, "Stats", rescues);
    MEMBER(weir_torch_stats, "Stats", failures);
    MEMBER(weir_torch_stats, "Stats", max_size);
    STRUCT(weir_torch_block, "Block");
    MEMBER(weir_torch_block, "Block", ptr);
    MEMBER(weir_torch_block, "Block", size);
}

static void print_sharing(void)
{
    STRUCT(weir_ring_options, "RingOptions");
    MEMBER(weir_ring_options, "RingOptions", size);
    MEMBER(weir_ring_options, "RingOptions", slot_size);
    MEMBER(weir_ring_options, "RingOptions", depth);
    MEMBER(weir_ring_options, "RingOptions", overflow);
    MEMBER(weir_ring_options, "RingOptions", late);
    MEMBER(weir_ring_options, "RingOptions", reserved);
    STRUCT(weir_export_info, "ExportInfo");
    MEMBER(weir_export_info, "ExportInfo", size);
    MEMBER(weir_export_info, "ExportInfo", epoch);
    MEMBER(weir_export_info, "ExportInfo", importers);
    MEMBER(weir_export_info, "ExportInfo", hung);
    MEMBER(weir_export_info, "ExportInfo", evicted);
    MEMBER(weir_export_info, "ExportInfo", blocks);
    MEMBER(weir_export_info, "ExportInfo", leases);
    MEMBER(weir_export_info, "ExportInfo", mappings);
    MEMBER(weir_export_info, "ExportInfo", pushed);
    MEMBER(weir_export_info, "ExportInfo", bytes);
    MEMBER(weir_export_info, "ExportInfo", dropped);
    MEMBER(weir_export_info, "ExportInfo", refused);
    MEMBER(weir_export_info, "ExportInfo", hangs);
    MEMBER(weir_export_info, "ExportInfo", leases_given);
    MEMBER(weir_export_info, "ExportInfo", evictions);
    MEMBER(weir_export_info, "ExportInfo", lag);
    MEMBER(weir_export_info, "ExportInfo", lag_high);
    STRUCT(weir_import_options, "ImportOptions");
    MEMBER(weir_import_options, "ImportOptions", size);
    MEMBER(weir_import_options, "ImportOptions", timeout_ms);
    MEMBER(weir_import_options, "ImportOptions", host_waits);
    MEMBER(weir_import_options, "ImportOptions", wait_ms);
    MEMBER(weir_import_options, "ImportOptions", reserved);
    STRUCT(weir_lease_info, "LeaseInfo");
    MEMBER(weir_lease_info, "LeaseInfo", ptr);
    MEMBER(weir_lease_info, "LeaseInfo", size);
    MEMBER(weir_lease_info, "LeaseInfo", device);
    MEMBER(weir_lease_info, "LeaseInfo", sequence);
    MEMBER(weir_lease_info, "LeaseInfo", metadata_size);
    MEMBER(weir_lease_info, "LeaseInfo", metadata);
    MEMBER(weir_lease_info, "LeaseInfo", generation);
}

static void print_arrays(void)
{
    STRUCT(weir_torch_tensor, "Tensor");
    MEMBER(weir_torch_tensor, "Tensor", device_type);
    MEMBER(weir_torch_tensor, "Tensor", device);
    MEMBER(weir_torch_tensor, "Tensor", dimensions);
    MEMBER(weir_torch_tensor, "Tensor", code);
    MEMBER(weir_torch_tensor, "Tensor", bits);
    MEMBER(weir_torch_tensor, "Tensor", shape);
    MEMBER(weir_torch_tensor, "Tensor", strides);
    STRUCT(weir_torch_capsules, "Capsules");
    MEMBER(weir_torch_capsules, "Capsules", create);
    MEMBER(weir_torch_capsules, "Capsules", is_valid);
    MEMBER(weir_torch_capsules, "Capsules", pointer);
    MEMBER(weir_torch_capsules, "Capsules", no_memory);
    NUMBER(WEIR_TORCH_LEASE, "Held.LEASE");
    NUMBER(WEIR_TORCH_READER, "Held.READER");
    NUMBER(WEIR_TORCH_IMPORT, "Held.IMPORT");
    NUMBER(WEIR_TORCH_EXPORT, "Held.EXPORT");
    NUMBER(WEIR_TORCH_RING, "Held.RING");
    NUMBER(WEIR_TORCH_SLOT, "Held.SLOT");
    NUMBER(WEIR_TORCH_BLOCK, "Held.BLOCK");
    NUMBER(WEIR_TORCH_MEMORY, "Held.MEMORY");
}

int main(void)
{
    print_allocator();
    print_sharing();
    print_arrays();
    return 0;
}
