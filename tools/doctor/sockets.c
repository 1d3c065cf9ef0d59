/* SPDX-License-Identifier: MIT */
/* sockets.c - `weir doctor`: where processes and exports listen, whose these places are, and who answers there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "share/wire/directory.h"
#include "tools/common/observe.h"
#include "tools/common/processes.h"
#include "tools/doctor/doctor.h"

#define SHOWN_MAX 64 /* of each kind */

/* Control sockets ------------------------------------------------------------------------------------------------------------------------ */

static void look_at_control_directory(struct doctor *doctor)
{
    char path[SHARE_PATH_SIZE] = "";
    struct stat info;
    weir_error error = WEIR_ERROR_INIT;
    if (share_control_place(false, &error, path) == WEIR_OK)
        doctor_add(doctor, DOCTOR_GOOD, "control", path, NULL, "is this user's alone: processes with control: true listen here");
    else if (*path && lstat(path, &info) != 0 && errno == ENOENT)
        doctor_add(doctor, DOCTOR_GOOD, "control", path, NULL, "is not there yet: the first process with control: true makes it");
    else
        doctor_add(doctor, DOCTOR_BAD, "control", *path ? path : NULL, "see what is said; until then nobody sees a process with control: true",
                   "%s", error.text);
}

static void look_at_processes(struct doctor *doctor)
{
    struct processes processes;
    processes_list(&processes);
    processes_ask(&processes, doctor->timeout_ms);
    for (size_t i = 0; i < processes.count && i < SHOWN_MAX; i++) {
        const struct process *process = &processes.items[i];
        struct text name, user;
        if (process->status == WEIR_OK)
            doctor_add(doctor, DOCTOR_GOOD, "process", process_name(process, &name), NULL, "%s of user %s answers", process->program,
                       process_user(process->uid, &user));
        else
            doctor_add(doctor, DOCTOR_BAD, "process", process_name(process, &name),
                       "let it run on if it is stopped, or end it; remove what lies there if it is no socket of Weir's", "%s: %s",
                       process->socket, process->reason);
    }
    if (processes.count > SHOWN_MAX)
        doctor_add(doctor, DOCTOR_NOTE, "process", NULL, NULL, "%zu more are not shown: see weir ps", processes.count - SHOWN_MAX);
    processes_free(&processes);
}

/* Exports -------------------------------------------------------------------------------------------------------------------------------- */

/* The directory for exports that other users may import, and everything above it: who may write there decides who listens. */
static void look_at_system_directory(struct doctor *doctor)
{
    static const char *const remedy =
        "as root: systemd-tmpfiles --create weir.conf, or install -d -m 0711 -o USER /run/weir/share: weir-share(7)";
    struct text user;
    struct stat info;
    if (lstat(SHARE_SYSTEM_DIRECTORY, &info) != 0) {
        doctor_add(doctor, DOCTOR_NOTE, "exports", SHARE_SYSTEM_DIRECTORY, remedy,
                   "is not there (%s): pools cannot be shared with other users under a name", strerror(errno));
        return;
    }
    bool is_shut = !(info.st_mode & (S_IWGRP | S_IWOTH)) || (info.st_mode & S_ISVTX);
    bool is_good = S_ISDIR(info.st_mode) && is_shut;
    doctor_add(doctor, is_good ? DOCTOR_GOOD : DOCTOR_BAD, "exports", SHARE_SYSTEM_DIRECTORY, is_good ? NULL : remedy,
               !S_ISDIR(info.st_mode) ? "is no directory (mode %04o, of user %s)"
               : is_shut              ? "has mode %04o and is user %s's, whose exports and root's may listen there"
                                      : "has mode %04o, and whoever may write there beside user %s can replace sockets",
               (unsigned)info.st_mode & 07777, process_user(info.st_uid, &user));
}

static void say_export(struct doctor *doctor, const struct observed_socket *socket)
{
    struct stat info = {0};
    struct text user, owner;
    bool is_there = lstat(socket->path, &info) == 0;
    if (socket->status == WEIR_OK)
        doctor_add(doctor, DOCTOR_GOOD, "export", socket->path, NULL, "process %d of user %s answers", socket->pid,
                   process_user(socket->uid, &user));
    else if (socket->status == WEIR_GONE && is_there)
        doctor_add(doctor, DOCTOR_BAD, "export", socket->path, "remove it, or start its exporter again, which does so",
                   "nobody listens: the exporter, of user %s, was killed", process_user(info.st_uid, &owner));
    else if (socket->status == WEIR_REFUSED)
        doctor_add(doctor, DOCTOR_NOTE, "export", socket->path, NULL, "of user %s: %s", process_user(info.st_uid, &owner), socket->text);
    else if (socket->status != WEIR_GONE)
        doctor_add(doctor, DOCTOR_BAD, "export", socket->path, "let its process run on if it is stopped, or end it", "%s", socket->text);
}

static void look_at_exports(struct doctor *doctor)
{
    static const struct wire_message question = {.type = WIRE_LIST};
    struct observed_sockets sockets;
    observe_sockets("doctor", 0, NULL, &sockets);
    observe_ask(&sockets, &question, doctor->timeout_ms);
    for (size_t i = 0; i < sockets.count && i < SHOWN_MAX; i++)
        say_export(doctor, &sockets.items[i]);
    if (sockets.count > SHOWN_MAX)
        doctor_add(doctor, DOCTOR_NOTE, "export", NULL, NULL, "%zu more are not shown: see weir leases", sockets.count - SHOWN_MAX);
    observe_sockets_free(&sockets);
}

void doctor_look_at_sockets(struct doctor *doctor)
{
    look_at_control_directory(doctor);
    look_at_processes(doctor);
    look_at_system_directory(doctor);
    look_at_exports(doctor);
}
