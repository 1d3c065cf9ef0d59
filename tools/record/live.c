/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "share/base/wait.h"
#include "share/wire/closing.h"
#include "share/wire/query.h"
#include "tools/common/change.h"
#include "tools/common/processes.h"
#include "tools/record/name.h"

#define REQUEST 1
#define NEVER UINT64_MAX

/* The process and its file, while it is asked. */
struct session {
    const struct process *process;
    char *path;
    int fd, signals; /* the connection; Ctrl-C and its like */
    bool was_stopped;
    int status; /* of the exit, where there is no answer */
};

/* The file --------------------------------------------------------------------------------------------------------------------------- */

/* A new one for this user alone, which nobody else can have put there. -1 after a complaint. */
static int make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0 && errno == EEXIST)
        record_is_free(path);
    else if (fd < 0)
        complain("record: %s: %s; name another one with --output", path, strerror(errno));
    return fd;
}

/* Messages --------------------------------------------------------------------------------------------------------------------------- */

static int fail(struct session *session, weir_status status, const char *text)
{
    const struct process failed = {.status = status};
    complain("record: process %s: %s", process_name(session->process, &(struct text){{0}}), text);
    session->status = process_exit(&failed);
    return session->status;
}

/* A release of Weir that does not know RECORD takes no descriptor, or closes the connection without a word. */
static void fail_as_unknown(struct session *session)
{
    char text[WIRE_TEXT_SIZE];
    snprintf(text, sizeof text, "it takes no question to record: it has ended, or its Weir, %.*s, cannot; use 'weir record -- COMMAND'",
             WIRE_NAME_SIZE - 1, figure_text(session->process->figures, "version"));
    fail(session, WEIR_GONE, text);
}

static bool say(struct session *session, const struct wire_message *message, int passed)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    /* Where it has closed the connection, what it said before tells why. */
    enum share_io io = share_send(session->fd, bytes, wire_encode(message, bytes), passed);
    if (io == SHARE_DONE || io == SHARE_CLOSED)
        return true;
    if (passed >= 0)
        fail_as_unknown(session);
    else
        fail(session, WEIR_PROTOCOL, "it cannot be sent a message");
    return false;
}

/* What has come. false after a complaint, also where it denies or has ended. */
static bool hear(struct session *session, struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len;
    enum share_io io = share_receive(session->fd, bytes, sizeof bytes, &len, NULL);
    if (io == SHARE_CLOSED)
        fail(session, WEIR_GONE, "it closed the connection");
    else if (io != SHARE_DONE || wire_decode(bytes, len, message, NULL) != WIRE_GOOD || wire_sender(message->type) != WIRE_PROCESS_SENDS)
        fail(session, WEIR_PROTOCOL, "it does not keep to the protocol of Weir");
    else if (message->type == WIRE_DENIED)
        fail(session, (weir_status)message->u.refused.status, message->u.refused.text);
    else
        return true;
    return false;
}

enum event { EVENT_MESSAGE, EVENT_SIGNAL, EVENT_TIME };

static enum event wait_for(const struct session *session, uint64_t deadline)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = session->fd, .events = POLLIN}, {.fd = session->signals, .events = POLLIN}};
        const struct timespec left = share_time_left(deadline);
        struct signalfd_siginfo taken;
        int count = ppoll(polled, 2, deadline == NEVER ? NULL : &left, NULL);
        if (count > 0 && polled[0].revents)
            return EVENT_MESSAGE;
        if (count > 0 && polled[1].revents && read(session->signals, &taken, sizeof taken) == sizeof taken)
            return EVENT_SIGNAL;
        if (deadline != NEVER && weir__service_now() >= deadline)
            return EVENT_TIME;
    }
}

/* The recording ---------------------------------------------------------------------------------------------------------------------- */

/* Has it begin; false after a complaint, when nothing was written. */
static bool begin(struct session *session, const struct record_live *live, int file)
{
    struct wire_message message = {.type = WIRE_RECORD, .request = REQUEST};
    message.u.record.level = live->is_pool_level ? WIRE_RECORD_POOL : WIRE_RECORD_ALL;
    message.u.record.flags = live->has_stacks ? WIRE_RECORD_STACKS : 0;
    if (!say(session, &message, file))
        return false;
    enum event event = wait_for(session, weir__service_now() + live->timeout_ms * GPU_MILLISECOND);
    if (event != EVENT_MESSAGE) {
        fail(session, WEIR_TIMEOUT,
             event == EVENT_SIGNAL ? "a signal came before it had begun" : "it did not answer in time: is it stopped?");
        return false;
    }
    if (share_has_hung_up(session->fd) && recv(session->fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
        fail_as_unknown(session);
        return false;
    }
    if (!hear(session, &message))
        return false;
    if (message.type == WIRE_READY && message.request == REQUEST)
        return true;
    fail(session, WEIR_PROTOCOL, "it answered RECORD with what does not belong there");
    return false;
}

static int report(const struct session *session, const struct wire_message *answer)
{
    const __typeof__(answer->u.recorded) *recorded = &answer->u.recorded;
    if (recorded->error)
        complain("record: %s ends early: %s", session->path, strerror((int)recorded->error));
    printf("process %s (%s): %s, %s event%s, %s lost, in %s\n", process_name(session->process, &(struct text){{0}}),
           session->process->program, SIZE_TEXT(recorded->bytes), COUNT_TEXT(recorded->events),
           weir__plural(recorded->events), COUNT_TEXT(recorded->lost), session->path);
    record_say_page(session->path, false);
    return recorded->error ? EXIT_FAILED : EXIT_GOOD;
}

/* Until it is over. A signal ends it in order, a second one, or a process that does not answer in time, at once: what the process has is
   then written when it runs on. */
static int follow(struct session *session, const struct record_live *live)
{
    struct wire_message message = {.type = WIRE_STOP, .request = REQUEST};
    uint64_t deadline = live->seconds > 0 ? weir__service_now() + (uint64_t)(live->seconds * 1e9) : NEVER;
    for (;;) {
        enum event event = wait_for(session, deadline);
        if (event == EVENT_MESSAGE)
            break;
        if (session->was_stopped)
            return fail(session, WEIR_TIMEOUT,
                        event == EVENT_TIME ? "it did not end the recording in time: is it stopped? The file has what was written until now"
                                            : "it still writes what is left; the file may lack its end");
        session->was_stopped = true;
        deadline = weir__service_now() + live->timeout_ms * GPU_MILLISECOND;
        if (!say(session, &message, -1))
            return session->status;
    }
    if (!hear(session, &message)) {
        complain("record: %s has what was written until then", session->path);
        return worse_exit(session->status, EXIT_FAILED);
    }
    if (message.type == WIRE_RECORDED && message.request == REQUEST)
        return report(session, &message);
    return fail(session, WEIR_PROTOCOL, "it ended the recording with what does not belong there");
}

static int watch_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

static int record(struct session *session, const struct record_live *live)
{
    weir_error error = WEIR_ERROR_INIT;
    struct ucred server;
    int file = make_file(session->path);
    if (file < 0)
        return EXIT_TROUBLE;
    session->signals = watch_signals();
    weir_status status = share_connect(session->process->socket, 0, &error, &session->fd, &server);
    bool has_begun = status == WEIR_OK && begin(session, live, file);
    if (status != WEIR_OK)
        fail(session, status, error.text);
    close(file);
    if (has_begun) {
        fprintf(stderr, "weir: record: process %s writes to %s%s\n", process_name(session->process, &(struct text){{0}}), session->path,
                live->seconds > 0 ? "" : "; Ctrl-C ends it");
        session->status = follow(session, live);
    } else {
        unlink(session->path);
    }
    if (session->fd >= 0)
        share_close_socket(session->fd);
    close(session->signals);
    return session->status;
}

int record_live(const struct record_live *live)
{
    struct processes processes;
    char *operand = (char *)live->pid;
    int status = processes_find("record", 1, &operand, live->timeout_ms, &processes);
    if (processes.count > 1) {
        change_complain_of_several("record", live->pid, &processes);
        status = EXIT_TROUBLE;
    } else if (processes.count == 1 && processes.items[0].status != WEIR_OK) {
        processes_complain("record", &processes);
        status = process_exit(&processes.items[0]);
    } else if (processes.count == 1) {
        struct session session = {.process = &processes.items[0], .fd = -1};
        session.path = record_path(live->name, processes.items[0].pid, NULL);
        status = record(&session, live);
        free(session.path);
    }
    processes_free(&processes);
    return status;
}
