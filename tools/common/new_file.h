/* SPDX-License-Identifier: MIT */
/*
 * new_file.h - a file that a command writes: all of it, or none. The one way in which commands make their outputs.
 *
 * Nothing is written through a link, and a file that is replaced passes on neither its mode nor its owner. Complaints begin with the command's
 * name.
 */
#ifndef WEIR_NEW_FILE_H
#define WEIR_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

enum new_file_place {
    NEW_FILE_NOWHERE,   /* there must be nothing of that name */
    NEW_FILE_REPLACE,   /* takes the place of a regular file in one step: whoever reads it sees the former text or this one, whole */
    NEW_FILE_OR_STREAM, /* the same; but a device or a pipe, by a link as well, is written to */
};

struct new_file {
    FILE *out;
    const char *command, *path; /* the caller's */
    char *beside;               /* what takes its name at the end; NULL: it has it, or is_nameless */
    bool is_nameless;           /* it gets a name only at its end, so that a killed command leaves nothing */
    bool is_first;              /* NEW_FILE_NOWHERE */
    bool is_stream;             /* and is not ours to remove */
    int fd, error;              /* error: the first errno */
};

/* For commands that take long before they begin one. false after a complaint: it could not be made. */
bool new_file_can_be_made(const char *command, const char *path, enum new_file_place place);

/* Begins it. mode: 0600, or more where others are to read it. false after a complaint. */
bool new_file_begin(struct new_file *file, const char *command, const char *path, enum new_file_place place, mode_t mode);

/* Ends it; is_whole: all was written that should be. Returns an exit status: EXIT_GOOD, or EXIT_TROUBLE after a complaint, but if it is not whole
   without one. Then what was there before is there, if anything. */
int new_file_end(struct new_file *file, bool is_whole);

#endif
