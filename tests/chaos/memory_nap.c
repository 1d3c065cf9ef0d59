/* SPDX-License-Identifier: MIT */
/* memory_nap.c - between two rounds, when everybody is quiet: arenas that sleep or yield, others that need memory meanwhile, and all contents
   afterwards. */
#include "include/weir_sleep.h"
#include "lib/alloc/sleep.h"
#include "lib/base/context.h"
#include "tests/chaos/memory.h"
#include "tests/chaos/waist.h"

#define PATIENCE 100000 /* ms */
#define TRIES 1000      /* no fault lasts */
#define MOST (256 * MIB) /* live bytes of a pool that naps: a sleep really copies them, where a program has gigabytes by name only */

static bool may_nap(const struct program *program, size_t name, int device)
{
    uint64_t blocks;
    return program->plan.arenas >> name & 1 && model_live(program->model, memory_pool_number(name, device), &blocks) <= MOST;
}

static void nap(struct program *program, struct chaos_random *random, weir_pool *pool)
{
    static const unsigned contents[] = { 0, WEIR_SLEEP_RETAIN, WEIR_SLEEP_KEEP | WEIR_SLEEP_ZERO };
    unsigned flags = contents[random_below(random, 3)];
    weir_error error = WEIR_ERROR_INIT;
    bool yields = random_once_in(random, 2);
    waist_enter_weir(program->plan.fault_once_in);
    weir_status status = yields ? weir_pool_yield(pool, flags, &error) : weir_pool_sleep(pool, flags, PATIENCE, &error, NULL);
    waist_enter_weir(false);
    bool is_fault = program->plan.fault_once_in && !yields && (status == WEIR_CUDA_ERROR || status == WEIR_NO_HOST_MEMORY);
    CHAOS_EXPECT(status == WEIR_OK || is_fault, "a pool that %s: expected WEIR_OK, seen %s: %.900s", yields ? "yields" : "sleeps",
                 weir_status_name(status), error.text);
}

/* An operator, who may find nothing to do. */
static void operate(struct program *program, struct chaos_random *random, weir_pool *pool)
{
    uint64_t given = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(program->gpu);
    waist_enter_weir(program->plan.fault_once_in);
    if (random_once_in(random, 2))
        weir__yielded_take(pool, program->gpu->now() + PATIENCE * MILLISECOND, NULL, &given);
    if (random_once_in(random, 3))
        weir__yielded_return(pool, NULL);
    waist_enter_weir(false);
    weir__relaxed_end(program->gpu, mode);
}

/* Needs up to all of the device. A pool that naps refuses. */
static void need(struct program *program, struct chaos_random *random, size_t name, int device)
{
    uint64_t size = MODEL_STEP * (1 + random_below(random, program->plan.memory / MODEL_STEP)), begin = model_tick(program->model);
    size_t pool = memory_pool_number(name, device);
    void *ptr;
    weir_status status = weir_pool_malloc(program->pools[name][device], &ptr, size, program->refuge[device]);
    waist_enter_weir(false); /* as a callback may have said otherwise */
    if (status == WEIR_OUT_OF_MEMORY)
        atomic_fetch_add(&program->failures[name][device], 1);
    if (status != WEIR_OK) {
        bool is_fault = status == WEIR_CUDA_ERROR && program->plan.fault_once_in;
        CHAOS_EXPECT(status == WEIR_OUT_OF_MEMORY || status == WEIR_BUSY || is_fault, "a request beside a nap: expected it to be served or refused, seen %s",
                     weir_status_name(status));
        return;
    }
    size_t number = model_served(program->model, begin, pool, size);
    status = weir_free(name == OTHER ? program->other : program->w, ptr, program->refuge[device]);
    CHAOS_EXPECT(status == WEIR_OK, "a free beside a nap: expected WEIR_OK, seen %s", weir_status_name(status));
    model_freed(program->model, number, NULL);
}

static void wake(struct program *program, weir_pool *pool)
{
    weir_status status = WEIR_CUDA_ERROR;
    int kept = 0;
    for (unsigned tries = 0; status == WEIR_CUDA_ERROR && tries < TRIES; tries++) {
        weir_error error = WEIR_ERROR_INIT;
        waist_enter_weir(program->plan.fault_once_in && tries < TRIES / 2);
        status = weir_pool_wake(pool, PATIENCE, &error, &kept);
        waist_enter_weir(false);
        CHAOS_EXPECT(status == WEIR_OK || (status == WEIR_CUDA_ERROR && program->plan.fault_once_in),
                     "a wake with all memory that it had: expected WEIR_OK, seen %s: %.900s", weir_status_name(status), error.text);
    }
    CHAOS_EXPECT(status == WEIR_OK && kept, "a wake: expected all contents, seen %s, kept %d", weir_status_name(status), kept);
}

/* Has each block that anybody keeps looked at. */
static void look_at_all(struct program *program)
{
    for (unsigned i = 0; i < program->plan.lanes; i++)
        for (size_t j = 0; j < program->lanes[i].count; j++)
            block_witness(program, &program->lanes[i].kept[j]);
    for (size_t i = 0; i < program->passed_count; i++)
        block_witness(program, &program->passed[i]);
    for (size_t i = 0; i < program->spare_count; i++)
        block_witness(program, &program->spare[i]);
    memory_synchronize(program);
}

void nap_all(struct program *program, struct chaos_random *random)
{
    program->is_napping = true;
    for (size_t name = 0; name < memory_names(program); name++)
        for (int device = 0; device < program->plan.devices; device++)
            if (may_nap(program, name, device) && !random_once_in(random, 3))
                nap(program, random, program->pools[name][device]);
    for (unsigned i = 0; i < 4; i++) {
        size_t name = random_below(random, memory_names(program));
        int device = (int)random_below(random, (uint64_t)program->plan.devices);
        if (random_once_in(random, 2))
            operate(program, random, program->pools[name][device]);
        else
            need(program, random, name, device);
    }
    memory_synchronize(program);
    for (size_t name = 0; name < memory_names(program); name++)
        for (int device = 0; device < program->plan.devices; device++)
            wake(program, program->pools[name][device]);
    program->is_napping = false;
    look_at_all(program);
}
