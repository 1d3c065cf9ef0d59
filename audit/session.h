/* SPDX-License-Identifier: MIT */
/*
 * session.h - the recording of this process: it begins with the first call that is worth an event, and ends with the process.
 *
 * One for the process. A child of a fork has none of its parent's: CUDA does not work there, and its writer is gone. A child whose parent had
 * not begun may begin one of its own. Beginning waits for another thread that begins; all else takes no lock but leaves.
 */
#ifndef WEIR_AUDIT_SESSION_H
#define WEIR_AUDIT_SESSION_H

#include "audit/driver.h"
#include "audit/limit.h"
#include "audit/report.h"
#include "lib/gpu/clock.h"
#include "lib/record/recorder.h"

#define SESSION_DEVICES 64 /* those beyond it are not recorded */

/* Pools that are one for each device. */
enum session_pool { SESSION_MALLOC, SESSION_MANAGED, SESSION_HOST, SESSION_DEFAULT, SESSION_MAPPED, SESSION_MAPPED_HOST, SESSION_POOLS };

struct session_device {
    _Atomic uint32_t numbers[SESSION_POOLS]; /* the recorder's; 0: it has none yet */
    void *_Atomic default_pool;              /* its handle, once it was asked for */
    void *_Atomic current;                   /* the pool that the program has set, by its handle; NULL: the default one */
    void *_Atomic primary;                   /* the primary context, once it was seen */
    _Atomic uint64_t created[2], mapped[2];  /* bytes of physical memory, and of its mappings: the device's, and the host's */
};

enum session_state { SESSION_UNBEGUN, SESSION_BEGINS, SESSION_ON, SESSION_OFF };

struct session {
    _Atomic uint32_t *state; /* in a page that is zero in the child of a fork */
    bool has_begun;          /* in this process or in one whose child it is */
    struct audit_report *report;
    struct weir__recorder recorder;
    struct driver_questions driver;
    struct session_device devices[SESSION_DEVICES];
    struct limit device_limit, host_limit;
    _Atomic uint32_t captures; /* under way */
    _Atomic uint64_t sampled;  /* when figures of pools were last asked for, by the coarse clock */
};
extern struct session session;

/* What the environment asks for. false: nothing, or what it says is not this user's. */
bool session_open(void);

bool session_begin(void);
/* Whether this process records. */
static inline bool session_is_on(void)
{
    return atomic_load_explicit(session.state, memory_order_acquire) == SESSION_ON;
}
/* The child of a process that records or did. */
static inline bool session_is_forked(void)
{
    return session.has_begun && atomic_load_explicit(session.state, memory_order_relaxed) == SESSION_UNBEGUN;
}
/* session_is_on(), for an event with which a recording may begin. */
static inline bool session_wants(void)
{
    return session_is_on() || session_begin();
}

/* Writes what there is. gives_way: Weir itself is in the process, whose own recording may want the name of the file. false: there was nothing. */
bool session_end(bool gives_way);

/* What the command is told: the first of each sort is kept. */
__attribute__((format(printf, 3, 4))) void session_say(_Atomic uint32_t *has, char text[static AUDIT_TEXT], const char *format, ...);
/* Why there is no trace, or not all of one. */
#define session_fail(...) session_say(&session.report->told.has_failure, session.report->told.failure, __VA_ARGS__)

/* The number of a device's pool; 0: it has none. */
unsigned session_pool(int device, enum session_pool kind);

/* The program is in a wrapper: what that costs beside the driver's own call. */
struct session_call {
    bool is_timed;
    uint64_t entered, asked, answered;
};
struct session_call session_call_begin(bool is_timed);
void session_call_end(const struct session_call *call);
static inline uint64_t session_ticks(const struct session_call *call)
{
    return call->is_timed ? gpu_clock_ticks() : 0;
}
static inline uint64_t session_took(const struct session_call *call)
{
    return weir__record_nanoseconds(&session.recorder, call->answered - call->asked);
}

#endif
