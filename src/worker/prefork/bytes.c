/* SPDX-License-Identifier: MIT */
/* bytes.c - numbers of eight bytes, and strings behind their size.
 *
 * The size of a string includes its NUL, so that 0 is NULL, and a reader can hand out the string
 * where it lies. Nothing is aligned: numbers are copied. */
#include "worker/prefork/bytes.h"

#include <string.h>

void qn_bytes_put(struct qn_writer *writer, const void *data, size_t size)
{
    if (writer->ok && size > 0) {
        writer->ok = qn_buf_append(writer->out, data, size) == QUERN_OK;
    }
}

void qn_bytes_put_number(struct qn_writer *writer, int64_t number)
{
    qn_bytes_put(writer, &number, sizeof number);
}

void qn_bytes_put_text(struct qn_writer *writer, const char *text)
{
    size_t size = text != NULL ? strlen(text) + 1 : 0;
    qn_bytes_put_number(writer, (int64_t)size);
    qn_bytes_put(writer, text, size);
}

const void *qn_bytes_take(struct qn_reader *reader, size_t size)
{
    if (!reader->ok || size > reader->left) {
        reader->ok = false;
        return NULL;
    }
    const char *data = reader->at;
    reader->at += size;
    reader->left -= size;
    return data;
}

int64_t qn_bytes_number(struct qn_reader *reader)
{
    int64_t number = 0;
    const void *data = qn_bytes_take(reader, sizeof number);
    if (data != NULL) {
        memcpy(&number, data, sizeof number);
    }
    return number;
}

int64_t qn_bytes_number_in(struct qn_reader *reader, int64_t min, int64_t max)
{
    int64_t number = qn_bytes_number(reader);
    if (number < min || number > max) {
        reader->ok = false;
        return min;
    }
    return number;
}

const char *qn_bytes_text(struct qn_reader *reader, size_t size_max)
{
    uint64_t size = (uint64_t)qn_bytes_number(reader);
    if (!reader->ok || size == 0) {
        return NULL;
    }
    if (size > size_max + 1) {
        reader->ok = false;
        return NULL;
    }
    const char *text = qn_bytes_take(reader, (size_t)size);
    if (text == NULL || memchr(text, '\0', (size_t)size) != text + size - 1) {
        reader->ok = false;
        return NULL;
    }
    return text;
}
