/* SPDX-License-Identifier: MIT */
/* foreign.c - what people bring from the configurations of other tools: their words, numbers and keys, and what is written here instead. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "policy/form.h"

#define MIB (UINT64_C(1) << 20)
#define LEAST_BYTES 512 /* CUDA's smallest block */

/* Words ---------------------------------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const words[])
{
    while (*words && strcasecmp(text, *words) != 0)
        words++;
    return *words;
}

const char *policy_unlimited(const struct policy_key *key)
{
    /* A cap, of which `none` is no limit, may be a quota as well. `leave_free: none` leaves nothing. */
    return key->accepts & POLICY_ACCEPTS_ALL     ? "all for no limit"
           : key->accepts & POLICY_ACCEPTS_QUOTA ? "none for no limit"
           : key->accepts & POLICY_ACCEPTS_NEVER ? "never"
                                                 : NULL;
}

bool policy_fail_foreign(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    static const char *const limitless[] = { "unlimited", "infinity", "infinite", "inf", ".inf", "max", "maximum", "all", "forever", "never",
                                             NULL };
    static const char *const nothing[] = { "none", "off", "no", "false", "disabled", NULL };
    const char *here = NULL;
    if (is_one_of(node->text, limitless))
        here = policy_unlimited(key);
    else if (is_one_of(node->text, nothing) && key->accepts & POLICY_ACCEPTS_NONE)
        here = "none";
    const char *text = node->text;
    if (strspn(text, "0123456789.") < strlen(text) && text[strlen(text) - 1] == '%' && strchr(text, ' '))
        return policy_fail(reading, node, "'%s' has a space before its %%; write number and %% together", policy_quote(text).text);
    if (here)
        return policy_fail(reading, node, "'%s' is not known; write %s, or %s", policy_quote(text).text, here, key->write);
    return policy_fail(reading, node, "'%s' is not what belongs here; write %s", policy_quote(text).text, key->write);
}

/* Numbers -------------------------------------------------------------------------------------------------------------------------------- */

/* The unit that a wrong one stands for, whatever its case, however much of it is missing or too much: GiB for G, Gi and gib, s for sec. */
static const char *nearest_unit(const char *unit, const struct policy_unit *units)
{
    const struct policy_unit *best = NULL;
    for (const struct policy_unit *one = units; one->name && !best; one++)
        best = strcasecmp(one->name, unit) == 0 ? one : NULL;
    for (const struct policy_unit *one = units; one->name && !best; one++)
        best = strncasecmp(one->name, unit, strlen(unit)) == 0 ? one : NULL;
    if (best)
        return best->name;
    for (const struct policy_unit *one = units; one->name; one++)
        if (strncasecmp(one->name, unit, strlen(one->name)) == 0 && (!best || strlen(one->name) > strlen(best->name)))
            best = one;
    return best ? best->name : NULL;
}

bool policy_fail_unit(const struct policy_reading *reading, const struct policy_node *node, const char *unit,
                      const struct policy_unit *units)
{
    char all[64] = "";
    for (size_t i = 0; units[i].name; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? " " : "", units[i].name);
    const char *nearest = nearest_unit(unit, units);
    const struct policy_quote quote = policy_quote(node->text);
    const char *text = quote.text;
    if (isspace((unsigned char)unit[0]))
        return policy_fail(reading, node, "'%s' has a space before its unit; write number and unit together", text);
    if (tolower((unsigned char)unit[0]) == 'e' && unit[strcspn(unit, "0123456789")])
        return policy_fail(reading, node, "'%s' has an exponent; write the number out, with one of the units %s", text, all);
    if (strncasecmp(node->text, "0x", 2) == 0)
        return policy_fail(reading, node, "'%s' is hexadecimal; write a decimal number, with one of the units %s", text, all);
    if (unit[0] == '_' || unit[0] == ',' || unit[0] == '\'')
        return policy_fail(reading, node, "'%s' has a '%c' in its number; write digits alone, with one of the units %s", text, unit[0], all);
    return policy_fail(reading, node, "unknown unit '%s'; %s%s%sthe units are %s", policy_quote(unit).text, nearest ? "did you mean '" : "",
                       nearest ? nearest : "", nearest ? "'? " : "", all);
}

uint64_t policy_bare_least(const struct policy_key *key)
{
    return key->accepts & POLICY_ACCEPTS_PERCENT ? MIB : LEAST_BYTES;
}

/* Of a fraction of the whole, whatever the locale has for a decimal point. */
static bool fail_fraction(const struct policy_reading *reading, const struct policy_node *node, const struct policy_number *number)
{
    uint64_t hundredths = number->whole * 10000 + (uint64_t)((unsigned __int128)number->fraction * 10000 / number->scale);
    char digits[4] = "";
    if (hundredths % 100)
        snprintf(digits, sizeof digits, ".%02u", (unsigned)(hundredths % 100));
    if (digits[0] && digits[2] == '0')
        digits[2] = '\0';
    return policy_fail(reading, node, "%s has no unit; write %u%s%% for that share of the device's memory", policy_quote(node->text).text,
                       (unsigned)(hundredths / 100), digits);
}

/*
 * A number without a unit counts bytes. Fractions as of other tools, percentages without their sign and numbers of mebibytes would silently
 * become a handful of bytes.
 */
bool policy_has_unit(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    struct policy_number number;
    bool takes_share = key->accepts & POLICY_ACCEPTS_PERCENT;
    if (policy_number_read(node->text, &number) != POLICY_NUMBER_OK || number.unit[0] || (!number.whole && !number.fraction))
        return true;
    const struct policy_quote quote = policy_quote(node->text);
    const char *text = quote.text;
    if (takes_share && number.scale > 1 && (number.whole == 0 || (number.whole == 1 && number.fraction == 0)))
        return fail_fraction(reading, node, &number);
    unsigned long long whole = number.whole;
    if (whole >= policy_bare_least(key) || number.fraction || (!takes_share && whole < key->min))
        return true;
    if (takes_share && whole <= 100)
        return policy_fail(reading, node, "%s has no unit, and so few bytes are no size; write %llu%% or %lluMiB", text, whole, whole);
    return policy_fail(reading, node, "%s has no unit, and so few bytes are no size; write %lluMiB or %lluKiB", text, whole, whole);
}

/* Keys ----------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *write;
} keys[] = {
    /* PYTORCH_CUDA_ALLOC_CONF */
    { "backend", "is PyTorch's; write backing, which is new, default, arena or auto" },
    { "expandable_segments", "is PyTorch's; write backing: arena, which maps memory as it is needed" },
    { "garbage_collection_threshold", "is PyTorch's; write release_threshold, which says what is kept, or max_size" },
    { "max_split_size_mb", "is PyTorch's; write small_below, below which requests live in a pool of their own" },
    { "max_non_split_rounding_mb", "is PyTorch's; leave it out, sizes are rounded by at most an eighth" },
    { "pinned_use_cuda_host_register", "is PyTorch's; write a pool with location: host for pinned memory" },
    { "roundup_power2_divisions", "is PyTorch's; leave it out, sizes are rounded by at most an eighth" },
    /* RMM and CuPy */
    { "initial_pool_size", "is RMM's; write initial_size" },
    { "maximum_pool_size", "is RMM's; write max_size" },
    { "max_pool_size", "is RMM's; write max_size" },
    { "pool_size", "is not known; write initial_size for what is there from the start, max_size for the cap" },
    { "limit", "is not known; write max_size" },
    { "memory_limit", "is not known; write max_size" },
    /* Fractions of the device */
    { "fraction", "is not known; write max_size: 90% for 0.9" },
    { "gpu_memory_fraction", "is not known; write max_size: 90% for 0.9" },
    { "gpu_memory_utilization", "is vLLM's; write max_size: 90% for 0.9" },
    { "mem_fraction", "is XLA's; write max_size: 90% for 0.9" },
    { "memory_fraction", "is not known; write max_size: 90% for 0.9" },
    { "mem_fraction_static", "is SGLang's; write max_size: 90% for 0.9" },
    { "per_process_gpu_memory_fraction", "is TensorFlow's; write max_size: 90% for 0.9" },
    { "allow_growth", "is TensorFlow's; leave it out, pools grow as they are used unless initial_size is set" },
    { "preallocate", "is XLA's; write initial_size" },
    /* Attributes of CUDA's pools */
    { "cudaMemPoolAttrReleaseThreshold", "is CUDA's; write release_threshold" },
    { "threshold", "is not known; write release_threshold" },
};

const char *policy_foreign_key(const char *name)
{
    char plain[POLICY_NAME_MAX + 1];
    size_t len = 0;
    for (; len < POLICY_NAME_MAX && name[len]; len++)
        plain[len] = name[len];
    plain[len] = '\0';
    for (char *dash = plain; (dash = strchr(dash, '-'));)
        *dash = '_';
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcasecmp(keys[i].name, plain) == 0)
            return keys[i].write;
    return NULL;
}
