/* SPDX-License-Identifier: MIT */
/* lib_mortal.h - what the worker program of lib_deaths.h and its supervisor agree on. */
#ifndef TESTS_FAULT_LIB_MORTAL_H
#define TESTS_FAULT_LIB_MORTAL_H

struct quern_clock;

#define MORTAL_PATH_SIZE 320
#define MORTAL_FAILED 4 /* exit code: the worker ended with an error. 1 is that of ASan */

/* A file beside the journal: if it exists, that host is broken. */
void mortal_path_of_broken(const char *journal, const char *host, char out[MORTAL_PATH_SIZE]);
/* The clock of a test, in a file; flags: as for open. */
struct quern_clock *mortal_map_clock(const char *path, int flags);

#endif
