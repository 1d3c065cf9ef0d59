/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/format.h"
#include "lib/base/user.h"
#include "lib/trace/traced.h"
#include "share/control/control_answer.h"
#include "share/wire/closing.h"

#define LOOK (GPU_SECOND / 5)          /* pause between two checks whether the trace is over */
#define LOOK_AT_END (GPU_SECOND / 200) /* the same pause once the trace was asked to end */

/* The file --------------------------------------------------------------------------------------------------------------------------- */

/* Checks that the descriptor is an empty regular file of the asker's user, open for writing. So a trace cannot change existing files,
   and the thread that writes never waits for a device or a pipe. */
static weir_status check_file(int fd, uid_t uid, weir_error *error)
{
    struct stat found;
    if (getauxval(AT_SECURE))
        return weir__fail(error, WEIR_REFUSED, "this program runs with changed user or group ids, and writes no traces");
    if (fd < 0)
        return weir__fail(error, WEIR_INVALID, "no descriptor of a file came with RECORD: pass one that is open for writing");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || flags & O_PATH || ((flags & O_ACCMODE) != O_WRONLY && (flags & O_ACCMODE) != O_RDWR))
        return weir__fail(error, WEIR_INVALID, "the file that came with RECORD is not open for writing");
    if (fstat(fd, &found) != 0)
        return weir__fail(error, WEIR_INVALID, "nothing can be known of the file that came with RECORD: %s", strerror(errno));
    if (!S_ISREG(found.st_mode))
        return weir__fail(error, WEIR_INVALID, "what came with RECORD is no regular file: pass a new one");
    if (!weir__is_user(found.st_uid, uid))
        return weir__fail(error, WEIR_REFUSED, "the file that came with RECORD belongs to user %u, not to user %u, who asks",
                          (unsigned)found.st_uid, (unsigned)uid);
    if (found.st_size != 0)
        return weir__fail(error, WEIR_INVALID, "the file that came with RECORD has %lld bytes: pass a new one, which is empty",
                          (long long)found.st_size);
    return WEIR_OK;
}

/* Begin ------------------------------------------------------------------------------------------------------------------------------ */

static weir_status begin(struct share_control *control, const struct wire_message *question, int fd, weir_error *error)
{
    bool is_all = question->u.record.level == WIRE_RECORD_ALL, has_stacks = question->u.record.flags & WIRE_RECORD_STACKS;
    weir__record_at_least(control->w, is_all ? WEIR__LEVEL_ALL : WEIR__LEVEL_POOL, has_stacks);
    weir_status status = weir__trace_start(control->w, fd, WEIR__TRACE_FROM_NOW, "record", error, &control->recording.trace);
    if (status != WEIR_OK)
        weir__record_at_least(control->w, WEIR__LEVEL_OFF, false);
    return status;
}

void share_recording_begin(struct share_asker *asker, const struct wire_message *question, int passed)
{
    struct share_control *control = asker->control;
    struct share_recording *recording = &control->recording;
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = check_file(passed, asker->uid, &error);
    if (status == WEIR_OK && recording->trace)
        status = weir__fail(&error, WEIR_BUSY, "this process is being recorded already: wait until that has ended");
    if (status != WEIR_OK && passed >= 0)
        share_close_away(&passed, 1, NULL);
    if (status == WEIR_OK)
        status = begin(control, question, passed, &error);
    if (status != WEIR_OK) {
        share_asker_deny(asker, question->request, status, error.text);
        return;
    }
    recording->asker = asker;
    recording->request = question->request;
    recording->is_ending = false;
    weir__log(control->w, WEIR_LOG_INFO, "process %d records this one", asker->pid);
    share_asker_ready(asker, question->request);
}

/* End -------------------------------------------------------------------------------------------------------------------------------- */

/* Asks the trace to end. From now on the recorder notes nothing more for the trace; events noted before still go to the file. */
static void ask_end(struct share_control *control)
{
    if (control->recording.is_ending)
        return;
    control->recording.is_ending = true;
    weir__record_at_least(control->w, WEIR__LEVEL_OFF, false);
    weir__trace_ask_end(control->recording.trace);
}

void share_recording_stop(struct share_control *control, const struct share_asker *asker)
{
    if (control->recording.trace && control->recording.asker == asker)
        ask_end(control);
}

void share_recording_leave(struct share_control *control, const struct share_asker *asker)
{
    share_recording_stop(control, asker);
    if (control->recording.asker == asker)
        control->recording.asker = NULL;
}

/* Ends the trace, waiting for the file if the trace is not over yet, and tells the asker. */
static void finish(struct share_control *control)
{
    struct share_recording *recording = &control->recording;
    ask_end(control);
    const struct weir__trace_result result = weir__trace_end(recording->trace);
    struct wire_message message = { .type = WIRE_RECORDED, .request = recording->request };
    message.u.recorded.bytes = result.bytes;
    message.u.recorded.events = result.events;
    message.u.recorded.lost = result.lost;
    message.u.recorded.error = (uint32_t)result.error;
    weir__log(control->w, result.error ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "the recording has ended%s%s: %s, %llu events",
              result.error ? " early: " : "", result.error ? strerror(result.error) : "", WEIR__BYTES(result.bytes),
              (unsigned long long)result.events);
    if (recording->asker) {
        recording->asker->connection.last = weir__service_now();
        share_asker_send(recording->asker, &message);
    }
    *recording = (struct share_recording){ .trace = NULL };
}

uint64_t share_recording_look(struct share_control *control)
{
    const struct share_recording *recording = &control->recording;
    if (!recording->trace)
        return WEIR__SERVICE_NEVER;
    if (!weir__trace_is_over(recording->trace))
        return weir__service_now() + (recording->is_ending ? LOOK_AT_END : LOOK);
    finish(control);
    return 0;
}

void share_recording_close(struct share_control *control)
{
    if (control->recording.trace)
        finish(control);
}
