/* SPDX-License-Identifier: MIT */
/* slots.c - slots of keys, errors of a cluster, and the reply to CLUSTER SLOTS. */
#include "redis/cluster/slots.h"

#include <string.h>

#include "base/text/str.h"

/* --- Keys --------------------------------------------------------------------------- */

/* CRC16 as XMODEM has it: polynomial 0x1021, from 0. */
static uint16_t crc16(const unsigned char *data, size_t size)
{
    static const uint16_t nibbles[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                         0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                         0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint16_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc = (uint16_t)((crc << 4) ^ nibbles[(crc >> 12) ^ (data[i] >> 4)]);
        crc = (uint16_t)((crc << 4) ^ nibbles[(crc >> 12) ^ (data[i] & 15)]);
    }
    return crc;
}

uint16_t qn_slots_of(const void *key, size_t size)
{
    const unsigned char *data = key;
    const unsigned char *open = size > 0 ? memchr(data, '{', size) : NULL;
    if (open != NULL) {
        size_t left = size - (size_t)(open + 1 - data);
        const unsigned char *close = left > 0 ? memchr(open + 1, '}', left) : NULL;
        if (close != NULL && close > open + 1) {
            return crc16(open + 1, (size_t)(close - open - 1)) % QN_SLOT_COUNT;
        }
    }
    return crc16(data, size) % QN_SLOT_COUNT;
}

/* --- Places ------------------------------------------------------------------------- */

/* Names of hosts and addresses have no other bytes. */
static bool is_host(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
        if (!good) {
            return false;
        }
    }
    return size < QN_SLOT_HOST_SIZE;
}

static bool is_port(const char *text, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size && i < QN_SLOT_PORT_SIZE; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    return size > 0 && size < QN_SLOT_PORT_SIZE && number > 0 && number <= UINT16_MAX;
}

static bool make_place(struct qn_str host, struct qn_str port, struct qn_slot_place *ret_place)
{
    if (!is_host(host.data, host.size) || !is_port(port.data, port.size)) {
        return false;
    }
    memcpy(ret_place->host, host.data, host.size);
    ret_place->host[host.size] = '\0';
    memcpy(ret_place->port, port.data, port.size);
    ret_place->port[port.size] = '\0';
    return true;
}

bool qn_slots_place(const char *text, size_t size, const char *port,
                    struct qn_slot_place *ret_place)
{
    const char *colon = size > 0 ? memrchr(text, ':', size) : NULL;
    bool bracketed = size > 0 && text[0] == '[';
    const char *close = bracketed ? memchr(text, ']', size) : NULL;
    if (bracketed && close == NULL) {
        return false;
    }
    if (bracketed && colon != NULL && colon < close) {
        colon = NULL; /* it is in the address */
    }
    bool has_more = bracketed && close + 1 != text + size && close + 1 != colon;
    if (has_more || (colon == NULL && port == NULL)) {
        return false;
    }
    const char *end = colon != NULL ? colon : text + size;
    struct qn_str host = bracketed ? (struct qn_str){text + 1, (size_t)(close - text - 1)}
                                   : (struct qn_str){text, (size_t)(end - text)};
    struct qn_str number = colon != NULL
                               ? (struct qn_str){colon + 1, (size_t)(text + size - colon - 1)}
                               : (struct qn_str){port, strlen(port)};
    return make_place(host, number, ret_place);
}

/* --- Errors ------------------------------------------------------------------------- */

/* "MOVED 3999 127.0.0.1:6381". */
static enum qn_slot_advice read_moved(const char *text, struct qn_slot_place *ret_place)
{
    const char *place = strchr(text, ' ');
    size_t size = place == NULL ? 0 : strlen(place + 1);
    return place != NULL && qn_slots_place(place + 1, size, NULL, ret_place) ? QN_SLOT_MOVED
                                                                             : QN_SLOT_BAD;
}

enum qn_slot_advice qn_slots_advice(const struct qn_reply *error, struct qn_slot_place *ret_place)
{
    static const char *const later[] = {"ASK ",        "TRYAGAIN", "CLUSTERDOWN",
                                        "MASTERDOWN ", "LOADING ", "READONLY "};
    if (error->type != QN_REPLY_ERROR) {
        return QN_SLOT_FINE;
    }
    if (qn_str_starts_with(error->data, "MOVED ")) {
        return read_moved(error->data + strlen("MOVED "), ret_place);
    }
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (qn_str_starts_with(error->data, later[i])) {
            return QN_SLOT_WAIT;
        }
    }
    /* Of a script whose slot left this node when it had begun; such a script has only read. */
    return strstr(error->data, "access a non local key") != NULL ? QN_SLOT_WAIT : QN_SLOT_FINE;
}

/* --- CLUSTER SLOTS ------------------------------------------------------------------ */

/* The master of a range: its host (nil or "": that of the server which was asked) and port.
 * *ret_known is false where the server does not know under which name it can be reached ("?"). */
static bool read_master(const struct qn_reply *master, bool *ret_known,
                        struct qn_slot_place *ret_place)
{
    const struct qn_reply *host = qn_reply_at(master, 0);
    int64_t port = qn_reply_int(qn_reply_at(master, 1), -1);
    char digits[QN_SLOT_PORT_SIZE];
    size_t at = sizeof digits;
    bool is_text = host->type == QN_REPLY_TEXT;
    *ret_known = !is_text || strcmp(host->data, "?") != 0;
    if (master->type != QN_REPLY_ARRAY || port < 0 || port > UINT16_MAX ||
        (!is_text && host->type != QN_REPLY_NIL)) {
        return false;
    }
    do {
        digits[--at] = (char)('0' + port % 10);
        port /= 10;
    } while (port > 0);
    struct qn_str number = {digits + at, sizeof digits - at};
    struct qn_str name =
        is_text && *ret_known ? (struct qn_str){host->data, host->size} : (struct qn_str){"", 0};
    return make_place(name, number, ret_place) || !*ret_known;
}

const char *qn_slots_read(const struct qn_reply *reply, int16_t owners[QN_SLOT_COUNT],
                          qn_slot_number_fn number, void *user)
{
    for (size_t slot = 0; slot < QN_SLOT_COUNT; slot++) {
        owners[slot] = -1;
    }
    if (reply->type != QN_REPLY_ARRAY || reply->count > QN_SLOT_COUNT) {
        return "it is no list of ranges of slots";
    }
    for (size_t i = 0; i < reply->count; i++) {
        const struct qn_reply *range = qn_reply_at(reply, i);
        int64_t first = qn_reply_int(qn_reply_at(range, 0), -1);
        int64_t last = qn_reply_int(qn_reply_at(range, 1), -1);
        struct qn_slot_place place;
        bool known = false;
        if (first < 0 || last < first || last >= QN_SLOT_COUNT) {
            return "it has a range of slots that cannot be";
        }
        if (!read_master(qn_reply_at(range, 2), &known, &place)) {
            return "it names a place where no node can be";
        }
        int owner = known ? number(&place, user) : -1;
        if (known && (owner < 0 || owner >= QN_SLOT_NODES_MAX)) {
            return "it names too many nodes";
        }
        for (int64_t slot = first; slot <= last; slot++) {
            if (owners[slot] >= 0) {
                return "it gives a slot to two nodes";
            }
            owners[slot] = (int16_t)owner;
        }
    }
    return NULL;
}
