/* SPDX-License-Identifier: MIT */
/* block.h - a task and the data it points to in one block of memory, so that one free releases all.
 *
 * The owner allocates its own struct and behind it the sum of the sizes, then puts the pieces there
 * in any order; arrays that need alignment (the headers) go first. */
#ifndef QN_BROKER_BLOCK_H
#define QN_BROKER_BLOCK_H

#include "task/task.h"

size_t qn_block_text_size(const char *text); /* with its NUL; 0 for NULL */
size_t qn_block_task_size(const struct qn_task *task);
/* With the NUL that follows, so that users can read the bytes as a string, too. */
size_t qn_block_bytes_size(const void *data, size_t size);
/* Each copies to *at and moves it on; NULL stays NULL, an empty block that is not NULL stays so. */
const void *qn_block_put_bytes(char **at, const void *data, size_t size);
const char *qn_block_put_text(char **at, const char *text);
/* *at must be aligned for a pointer. All that `task` points to is in the block afterwards. */
void qn_block_put_task(char **at, struct qn_task *task);

#endif
