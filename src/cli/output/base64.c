/* SPDX-License-Identifier: MIT */
/* base64.c - a door to OpenSSL's base64, which counts in ints and pads with zero bytes. */
#include "cli/output/base64.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/memory/alloc.h"

#define ALPHABET "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

char *qn_base64_encode(const void *data, size_t size)
{
    if (size > INT_MAX / 2) {
        return NULL;
    }
    char *text = qn_alloc((size + 2) / 3 * 4 + 1);
    if (text != NULL) {
        text[0] = '\0';
        (void)EVP_EncodeBlock((unsigned char *)text, data, (int)size);
    }
    return text;
}

bool qn_base64_decode(const char *text, size_t size, void *out, size_t *ret_size)
{
    size_t padding = 0;
    while (padding < 2 && padding < size && text[size - 1 - padding] == '=') {
        padding++;
    }
    /* EVP_DecodeBlock forgives spaces and more around the text; we do not. */
    if (size > INT_MAX || size % 4 != 0 || strspn(text, ALPHABET) != size - padding) {
        return false;
    }
    int decoded = size == 0 ? 0 : EVP_DecodeBlock(out, (const unsigned char *)text, (int)size);
    if (decoded < 0) {
        return false;
    }
    *ret_size = (size_t)decoded - padding;
    return true;
}
