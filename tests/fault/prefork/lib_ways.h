/* SPDX-License-Identifier: MIT */
/* lib_ways.h - a program of handlers that a worker executes as its zygote: they crash in eight
 * ways, and in some that not every machine has.
 *
 * The payload is the number of the task and a way ("17 segv"). Types:
 *
 *   steady                      rests up to 3 ms and is done
 *   once                        crashes in its first run, and is done in the next
 *   requeue fail archive drop   crash in each run; so is their policy
 *   take                        takes so many MiB ("17 512"), or is archived without them
 *
 * Beside the eight ways: touch (all memory, for real), core and no-core (abort with or without a
 * core dump, in the folder of the journal).
 *
 * It is part of test programs, which have the sanitizers of the build, and a program of its own
 * without any (bare/zygote.c), which dies as programs do elsewhere. */
#ifndef TESTS_FAULT_LIB_WAYS_H
#define TESTS_FAULT_LIB_WAYS_H

/* argv: the journal. */
int ways_serve(int argc, char **argv);

#endif
