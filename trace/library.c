/* SPDX-License-Identifier: MIT */
/* library.c - libweir-trace: opens traces, and returns their tables row by row. */
#include "config.h"

#include "trace/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/memory.h"

/* The place to which memory_lacks() jumps if host memory runs out. library_run() sets it for the call of this thread. */
static _Thread_local jmp_buf *way_out;

_Noreturn void memory_lacks(void)
{
    longjmp(*way_out, 1);
}

bool library_fail(weir_trace_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (error)
        vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}

bool library_run(bool (*work)(void *context), void *context, weir_trace_error *error)
{
    jmp_buf here;
    way_out = &here;
    if (setjmp(here) != 0) {
        way_out = NULL;
        return library_fail(error, "there is no host memory for it");
    }
    bool is_good = work(context);
    way_out = NULL;
    return is_good;
}

const char *weir_trace_version(void)
{
    return PACKAGE_VERSION;
}

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

struct opening {
    weir_trace *trace;
    const char *path;
    weir_trace_error *error;
};

static bool open_it(void *context)
{
    const struct opening *opening = context;
    struct trace *trace = &opening->trace->trace;
    return trace_open(trace, opening->path) || library_fail(opening->error, "%s", trace->error);
}

bool weir_trace_open(const char *path, weir_trace_error *error, weir_trace **trace)
{
    struct opening opening = {.trace = calloc(1, sizeof *opening.trace), .path = path, .error = error};
    if (!opening.trace)
        return library_fail(error, "there is no host memory for it");
    opening.trace->trace.reader.fd = -1;
    if (!library_run(open_it, &opening, error)) {
        weir_trace_close(opening.trace);
        return false;
    }
    opening.trace->trace.path = NULL; /* the string belongs to the caller, and need not be valid after this call */
    *trace = opening.trace;
    return true;
}

void weir_trace_close(weir_trace *trace)
{
    if (!trace)
        return;
    columns_free(trace);
    symbols_free(trace->symbols);
    trace_close(&trace->trace);
    free(trace);
}

/* Tables ------------------------------------------------------------------------------------------------------------------------------- */

/* Returns the code of the definitions in the table; 0 if the table has no definitions. */
static enum trace_definition_code code_of(weir_trace_table table)
{
    switch (table) {
    case WEIR_TRACE_POOLS:
        return TRACE_DEFINES_POOL;
    case WEIR_TRACE_TAGS:
        return TRACE_DEFINES_TAG;
    case WEIR_TRACE_NAMES:
        return TRACE_DEFINES_NAME;
    case WEIR_TRACE_STACKS:
        return TRACE_DEFINES_STACK;
    case WEIR_TRACE_MODULES:
        return TRACE_DEFINES_MODULE;
    case WEIR_TRACE_LINES:
        return TRACE_DEFINES_LINE;
    default:
        return (enum trace_definition_code)0;
    }
}

uint64_t weir_trace_count(const weir_trace *trace, weir_trace_table table)
{
    const uint64_t *kinds = trace->trace.kinds;
    switch (table) {
    case WEIR_TRACE_EVENTS:
        return trace->trace.events;
    case WEIR_TRACE_BLOCKS:
        return kinds[TRACE_MALLOC] + kinds[TRACE_SERVE] + kinds[TRACE_LIVE] + kinds[TRACE_CACHED] + kinds[TRACE_KEEP];
    case WEIR_TRACE_VALUES:
        return trace->trace.reader.pair_count;
    case WEIR_TRACE_LOSSES:
        return 1;
    case WEIR_TRACE_KINDS:
        return TRACE_KIND_COUNT;
    default:
        return code_of(table) ? trace_definitions_count(&trace->trace.definitions, code_of(table)) : 0;
    }
}

static void get_defined(const weir_trace *trace, enum trace_definition_code code, uint64_t row, weir_trace_row *values)
{
    const void *object = trace_definitions_get(&trace->trace.definitions, code, (size_t)row);
    const struct trace_pool *pool = object;
    const struct trace_module *module = object;
    const struct trace_line *line = object;
    switch (code) {
    case TRACE_DEFINES_POOL:
        *values = (weir_trace_row){{pool->id, pool->device, pool->flags}, {pool->name, ""}};
        break;
    case TRACE_DEFINES_STACK:
        *values = (weir_trace_row){{((const struct trace_stack *)object)->count}, {"", ""}};
        break;
    case TRACE_DEFINES_MODULE:
        *values = (weir_trace_row){{module->first, module->bytes, module->offset}, {module->build_id, module->path}};
        break;
    case TRACE_DEFINES_LINE:
        *values = (weir_trace_row){{line->line}, {line->function, line->file}};
        break;
    default:
        *values = (weir_trace_row){{0}, {((const struct trace_text *)object)->text, ""}};
    }
}

bool weir_trace_get(const weir_trace *trace, weir_trace_table table, uint64_t row, weir_trace_row *values)
{
    const struct trace_losses *losses = &trace->trace.losses;
    const char *name;
    if (table == WEIR_TRACE_EVENTS || table == WEIR_TRACE_BLOCKS || row >= weir_trace_count(trace, table))
        return false;
    switch (table) {
    case WEIR_TRACE_VALUES:
        *values = (weir_trace_row){{0}, {trace->trace.reader.pairs[row].key, trace->trace.reader.pairs[row].value}};
        break;
    case WEIR_TRACE_LOSSES:
        *values = (weir_trace_row){{losses->events, losses->blocks, losses->bytes, losses->is_closed}, {losses->first, ""}};
        break;
    case WEIR_TRACE_KINDS:
        name = trace_kind_name((unsigned)row);
        *values = (weir_trace_row){{row}, {name ? name : "", ""}};
        break;
    default:
        get_defined(trace, code_of(table), row, values);
    }
    return true;
}

/* Stacks ------------------------------------------------------------------------------------------------------------------------------- */

bool weir_trace_frames(const weir_trace *trace, uint64_t stack, uint64_t *address, int32_t *line, int32_t *module)
{
    const struct trace_definitions *definitions = &trace->trace.definitions;
    if (stack >= trace_definitions_count(definitions, TRACE_DEFINES_STACK))
        return false;
    const struct trace_stack *found = trace_definitions_get(definitions, TRACE_DEFINES_STACK, (size_t)stack);
    for (uint32_t i = 0; i < found->count; i++) {
        const struct trace_frame *frame = &found->frames[i];
        address[i] = frame->address;
        line[i] = frame->line ? (int32_t)frame->line->number : -1;
        module[i] = frame->module ? (int32_t)frame->module->number : -1;
    }
    return true;
}

struct asking {
    weir_trace *trace;
    uint64_t address;
    weir_trace_row *values;
};

static bool ask(void *context)
{
    const struct asking *asking = context;
    weir_trace *trace = asking->trace;
    const struct trace_module *module = trace_module_of(&trace->trace, asking->address);
    *asking->values = (weir_trace_row){{0}, {"", ""}};
    if (!module)
        return true;
    if (!trace->symbols)
        trace->symbols = symbols_new();
    const struct symbol *symbol = symbols_find(trace->symbols, module, asking->address);
    *asking->values = (weir_trace_row){{symbol->line}, {symbol->function, symbol->file}};
    return true;
}

bool weir_trace_symbol(weir_trace *trace, uint64_t address, weir_trace_error *error, weir_trace_row *values)
{
    struct asking asking = {trace, address, values};
    if (trace->is_broken || !library_run(ask, &asking, error)) {
        trace->is_broken = true;
        return library_fail(error, "there is no host memory for it");
    }
    return true;
}
