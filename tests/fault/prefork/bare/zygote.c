/* SPDX-License-Identifier: MIT */
/* zygote.c - the handlers of lib_ways.h in a program without sanitizers, also where the tests have
 * them: so a handler dies of what kills it elsewhere. argv: the journal. */
#include "lib_ways.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#error "this program has no sanitizers"
#endif

int main(int argc, char **argv)
{
    return ways_serve(argc - 1, argv + 1);
}
