/* SPDX-License-Identifier: MIT */
/*
 * labels.h - what tells this process from others of its job: rank, job, pod, as its launcher put them into the environment.
 *
 * Read once, when the control socket is opened: afterwards another thread might change the environment. Programs with changed user or group
 * ids have none.
 */
#ifndef WEIR_SHARE_LABELS_H
#define WEIR_SHARE_LABELS_H

#include "share/wire/wire.h"

#define SHARE_LABELS 4

struct share_labels {
    char values[SHARE_LABELS][WIRE_NAME_SIZE]; /* printable ASCII without blanks; "": there is none */
};

void share_labels_read(struct share_labels *labels);
/* "rank", "local_rank", "job", "pod". */
const char *share_label_name(unsigned label);
/* The end of the text, as it tells more than its beginning, with a question mark for what is not printable. */
void share_label_copy(char to[WIRE_NAME_SIZE], const char *text);

#endif
