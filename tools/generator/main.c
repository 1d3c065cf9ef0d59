/* SPDX-License-Identifier: MIT */
/* main.c - prints what others need of the table of keys. A tool of the build, not installed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/generator/generate.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*generate)(void);
    } outputs[] = {{"schema", generate_schema}, {"man", generate_man}, {"markdown", generate_markdown}, {"completion", generate_completion}};
    for (size_t i = 0; argc == 2 && i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        if (strcmp(argv[1], outputs[i].name) != 0)
            continue;
        outputs[i].generate();
        return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    fprintf(stderr, "usage: generate schema|man|markdown|completion\n");
    return 2;
}
