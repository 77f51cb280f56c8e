/* SPDX-License-Identifier: MIT */
/* fingerprint.c - takes out of an error what differs from one task to the next.
 *
 * The text is read word by word; a word consists of letters, digits and the signs that occur in
 * numbers, ids and addresses. What is taken out becomes "#", and several in a row, as in
 * 127.0.0.1:6379, one. */
#include "task/fingerprint/fingerprint.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/hash.h"

enum { LONG_SIZE = 8, UUID_SIZE = 36 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alnum(char c)
{
    return is_digit(c) || is_letter(c) || c == '_';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct out {
    char *text;
    size_t size;
};

static void put(struct out *out, char c)
{
    if (out->size + 1 < QN_FINGERPRINT_TEXT_SIZE) {
        out->text[out->size++] = c;
    }
}

/* Together with a "#" before it, and what joins them. */
static void put_mark(struct out *out)
{
    size_t size = out->size;
    while (size > 0 && strchr(".:-", out->text[size - 1]) != NULL) {
        size--;
    }
    if (size > 0 && out->text[size - 1] == '#') {
        out->size = size;
    } else {
        put(out, '#');
    }
}

static bool is_uuid(const char *at)
{
    for (size_t i = 0; i < UUID_SIZE; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? at[i] != '-' : !is_hex(at[i])) {
            return false;
        }
    }
    return !is_alnum(at[UUID_SIZE]);
}

/* The size of the mail address that begins here; 0: none does. */
static size_t address_size(const char *at)
{
    size_t size = 0;
    size_t sign = 0;
    while (is_alnum(at[size]) || (at[size] != '\0' && strchr(".+-@%", at[size]) != NULL)) {
        sign = at[size] == '@' && sign == 0 ? size : sign;
        size++;
    }
    return sign > 0 && size > sign + 1 ? size : 0;
}

static bool has_digit(const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (is_digit(at[i])) {
            return true;
        }
    }
    return false;
}

/* A run of letters and digits. */
static void put_run(struct out *out, const char *at, size_t size)
{
    bool is_number = size > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    if (is_number || (size >= LONG_SIZE && has_digit(at, size))) {
        put_mark(out);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(at[i])) {
            put(out, at[i]);
        } else {
            put_mark(out);
            while (i + 1 < size && is_digit(at[i + 1])) {
                i++;
            }
        }
    }
}

/* What begins at a letter or a digit; returns its size. */
static size_t put_word(struct out *out, const char *at)
{
    size_t size = is_uuid(at) ? UUID_SIZE : address_size(at);
    if (size > 0) {
        put_mark(out);
        return size;
    }
    while (is_alnum(at[size])) {
        size++;
    }
    put_run(out, at, size);
    return size;
}

uint64_t qn_fingerprint(const char *error, char text[QN_FINGERPRINT_TEXT_SIZE])
{
    struct out out = {.text = text};
    const char *at = error;
    while (*at != '\0') {
        if (is_alnum(*at)) {
            at += put_word(&out, at);
            continue;
        }
        bool is_second = is_blank(*at) && (out.size == 0 || text[out.size - 1] == ' ');
        if (!is_second) {
            put(&out, is_blank(*at) ? ' ' : *at);
        }
        at++;
    }
    while (out.size > 0 && text[out.size - 1] == ' ') {
        out.size--;
    }
    text[out.size] = '\0';
    return qn_hash_bytes(QN_HASH_START, text, out.size);
}
