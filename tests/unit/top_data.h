/* SPDX-License-Identifier: MIT */
/* top_data.h - processes as `weir top` sees them, for the tests of its model and its view. Static storage; one test at a time. */
#ifndef WEIR_TESTS_TOP_DATA_H
#define WEIR_TESTS_TOP_DATA_H

#include "tools/top/model.h"

#define MIB (UINT64_C(1) << 20)

/* Forgets all processes. */
void top_data_clear(void);
/* One more, with a single device and no pools; it is named "PID". uuid: the last characters of the device's. */
struct process *top_data_process(int pid, const char *program, const char *uuid);
/* One more pool of the process; the rest of `reserved` is idle. */
process_pool *top_data_pool(struct process *process, const char *name, uint64_t reserved, uint64_t live);
/* What came of the automatic threshold of the process's pool of that name. One for each process. */
process_audit *top_data_audit(struct process *process, const char *name);
/* The process does not answer. */
void top_data_hang(struct process *process);
/* All processes. */
const struct processes *top_data_look(void);
/* A copy of them, as one look finds them, for the model. */
struct processes top_data_seen(void);

#endif
