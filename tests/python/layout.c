/* SPDX-License-Identifier: MIT */
/* layout.c - prints the size of each struct that the Python package has a copy of, and where its members are. */
#include "plugin/torch/weir_torch.h"

#include <stddef.h>
#include <stdio.h>

#define STRUCT(type, name) printf("%s %zu\n", name, sizeof(type))
#define MEMBER(type, name, member) printf("%s.%s %zu %zu\n", name, #member, offsetof(type, member), sizeof(((type *)NULL)->member))

int main(void)
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
    return 0;
}
