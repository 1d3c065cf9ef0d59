/* SPDX-License-Identifier: MIT */
/* fence.h - fences of the simulator's devices, and an owner that frees: what the tests of lib/fence/ share. */
#ifndef WEIR_TESTS_UNIT_FENCE_H
#define WEIR_TESTS_UNIT_FENCE_H

#include "lib/fence/fence.h"
#include "lib/gpu/sim.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)
#define MILLISECOND UINT64_C(1000000)
#define NEVER UINT64_MAX /* bytes after which a mark is due */

struct rig {
    const struct gpu *gpu;
    struct weir__fences *fences, *other; /* of devices 0 and 1 */
    struct weir__debts debts;            /* of memory of device 0 */
    struct weir__scope scope;            /* all of that */
};
extern struct rig rig;

/* The machine is configured and the fences are joined; nothing is left at the end. */
void rig_begin_with(const char *settings);
void rig_begin(void);
void rig_end(void);
/* The same on a table of operations of the test's own, which passes them on to the simulator. */
void rig_join(const struct gpu *gpu);

gpu_stream rig_stream(int device);
/* The line of a stream, within a call that names it. */
struct weir__line *rig_name(gpu_stream stream);
struct weir__line *rig_open(gpu_stream stream);
/* Keeps it busy for so many milliseconds. */
void rig_delay(gpu_stream stream, uint64_t milliseconds);
/* Bytes are freed on the line, with no mark but at `due`. Returns the step. */
uint64_t rig_free(struct weir__line *line, uint64_t bytes, uint64_t due);
uint64_t rig_pending(void);
uint64_t rig_pending_on(struct weir__line *line);
/* Looks once, and says what is pending then. */
uint64_t rig_look(void);
/* Covers the scope, and looks until so much has become complete or nothing more can, or until the deadline. Returns the bytes. */
uint64_t rig_wait(const struct weir__scope *scope, uint64_t enough, uint64_t deadline);
/* The line ends, and its stream with it, once that is idle. */
void rig_close(struct weir__line *line, gpu_stream stream);

void fence_add_waits(Suite *suite);
void fence_add_failures(Suite *suite);
void fence_add_random(Suite *suite);
void fence_add_between(Suite *suite);
void fence_add_threads(Suite *suite);

#endif
