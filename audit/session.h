/* SPDX-License-Identifier: MIT */
/*
 * session.h - the recording of this process. It begins with the first call that is worth an event, and ends with the process.
 *
 * Each process has one session. The child of a fork does not continue its parent's: CUDA does not work in the child, and the thread that
 * writes the trace exists only in the parent. If the parent had not begun, the child may begin a session of its own. A thread that finds
 * another thread beginning the session waits for it; apart from that only leaf locks are taken.
 */
#ifndef WEIR_AUDIT_SESSION_H
#define WEIR_AUDIT_SESSION_H

#include "audit/driver.h"
#include "audit/limit.h"
#include "audit/report.h"
#include "lib/gpu/clock.h"
#include "lib/record/recorder.h"

#define SESSION_DEVICES 64 /* devices with higher numbers are not recorded */

/* The pools that exist once for each device. */
enum session_pool { SESSION_MALLOC, SESSION_MANAGED, SESSION_HOST, SESSION_DEFAULT, SESSION_MAPPED, SESSION_MAPPED_HOST, SESSION_POOLS };

struct session_device {
    _Atomic uint32_t numbers[SESSION_POOLS]; /* the recorder's numbers of the device's pools; 0: none yet */
    void *_Atomic default_pool;              /* the handle of the default pool, once the driver was asked for it */
    void *_Atomic current;                   /* the handle of the pool that the program made current; NULL: the default pool */
    void *_Atomic primary;                   /* the primary context, once the program has retained it */
    _Atomic uint64_t created[2], mapped[2];  /* bytes of physical memory and of its mappings; index 0: device memory, 1: host memory */
};

enum session_state { SESSION_UNBEGUN, SESSION_BEGINS, SESSION_ON, SESSION_OFF };

struct session {
    _Atomic uint32_t *state; /* in a page that the kernel clears in the child of a fork */
    bool has_begun;          /* a session was begun in this process, or in the process that forked it */
    struct audit_report *report;
    struct weir__recorder recorder;
    struct driver_questions driver;
    struct session_device devices[SESSION_DEVICES];
    struct limit device_limit, host_limit;
    _Atomic uint32_t captures; /* captures under way */
    _Atomic uint64_t sampled;  /* when figures of the driver's pools were last asked for, by the coarse clock */
};
extern struct session session;

/* Maps the report that $WEIR_AUDIT names. Returns false if the variable is not set, or the file does not belong to this user or is no
   report. */
bool session_open(void);

/* Begins the session, or waits until another thread has begun it. Returns whether this process records. */
bool session_begin(void);
/* Returns whether this process records. */
static inline bool session_is_on(void)
{
    return atomic_load_explicit(session.state, memory_order_acquire) == SESSION_ON;
}
/* Returns whether this process is a fork's child whose parent records or did. */
static inline bool session_is_forked(void)
{
    return session.has_begun && atomic_load_explicit(session.state, memory_order_relaxed) == SESSION_UNBEGUN;
}
/* session_is_on() for an event with which a recording may begin. */
static inline bool session_wants(void)
{
    return session_is_on() || session_begin();
}

/* Ends the session and writes the rest of the trace. gives_way: Weir itself is in the process, and its own recording may need the name of
   the trace file, so the trace is renamed. Returns false if no session was on. */
bool session_end(bool gives_way);

/* Writes a text into the report for the command, unless *has says that there is one already. */
__attribute__((format(printf, 3, 4))) void session_say(_Atomic uint32_t *has, char text[static AUDIT_TEXT], const char *format, ...);
/* Reports why there is no trace or only a part of one. */
#define session_fail(...) session_say(&session.report->told.has_failure, session.report->told.failure, __VA_ARGS__)

/* Returns the recorder's number of a device's pool; 0: there is no such device, or host memory ran out. */
unsigned session_pool(int device, enum session_pool kind);

/* One call of a wrapper, and the ticks at which it was entered, called the driver and was answered. The time beside the driver's own call
   is what the recording costs. is_timed: the clock is read. session_took(): the nanoseconds of the driver's call. */
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
