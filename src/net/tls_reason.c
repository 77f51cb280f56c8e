/* SPDX-License-Identifier: MIT */
/* tls_reason.c - why TLS with a peer failed.
 *
 * A refused certificate is explained where OpenSSL judges it, as its names and dates are at hand
 * there; everything else from OpenSSL's error, in words that name what can be changed. Texts of the
 * peer's certificate are shown only as far as they are plain. */
#include "net/tls_reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "quern/export.h"

#define SHOWN_MAX 3 /* names of a certificate */
#define NAME_SIZE 64
#define NAMES_SIZE 120
#define DATE_SIZE 40

QUERN_PRINTF(2, 3)
static void explain(struct qn_tls_reason *reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason->text, sizeof reason->text, format, args);
    va_end(args);
}

/* --- Certificates ------------------------------------------------------------------- */

/* A foreign text, cut, with ? for what is not visible ASCII. */
static void put_plain(char *out, size_t out_size, const unsigned char *text, int size)
{
    size_t used = 0;
    for (int i = 0; i < size && used + 1 < out_size; i++) {
        unsigned char c = text[i];
        out[used++] = (char)(c >= 0x20 && c < 0x7f && c != '"' ? c : '?');
    }
    out[used] = '\0';
}

static void put_address(char *out, size_t out_size, const ASN1_OCTET_STRING *address)
{
    const unsigned char *bytes = ASN1_STRING_get0_data(address);
    if (ASN1_STRING_length(address) == 4) {
        (void)snprintf(out, out_size, "%d.%d.%d.%d", bytes[0], bytes[1], bytes[2], bytes[3]);
    } else {
        (void)snprintf(out, out_size, "an IPv6 address");
    }
}

/* "a.example, b.example, ..." */
static void put_names(char *out, size_t out_size, X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t used = 0;
    int shown = 0;
    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && used + 1 < out_size; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char one[NAME_SIZE];
        if (name->type == GEN_DNS) {
            put_plain(one, sizeof one, ASN1_STRING_get0_data(name->d.dNSName),
                      ASN1_STRING_length(name->d.dNSName));
        } else if (name->type == GEN_IPADD) {
            put_address(one, sizeof one, name->d.iPAddress);
        } else {
            continue;
        }
        int size = snprintf(out + used, out_size - used, "%s%s", used == 0 ? "" : ", ",
                            shown == SHOWN_MAX ? "..." : one);
        used += size > 0 ? (size_t)size : 0;
        if (shown++ == SHOWN_MAX) {
            break;
        }
    }
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
}

/* The common name, or what there is first. */
static void put_subject(char *out, size_t out_size, const X509_NAME *name)
{
    int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
    const X509_NAME_ENTRY *entry = X509_NAME_get_entry(name, at < 0 ? 0 : at);
    const ASN1_STRING *text = entry == NULL ? NULL : X509_NAME_ENTRY_get_data(entry);
    out[0] = '\0';
    if (text != NULL) {
        put_plain(out, out_size, ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
    }
}

/* "2024-01-31 12:00 UTC" */
static void put_date(char *out, size_t out_size, const ASN1_TIME *date)
{
    struct tm tm;
    if (date == NULL || ASN1_TIME_to_tm(date, &tm) != 1 ||
        strftime(out, out_size, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        (void)snprintf(out, out_size, "an unknown date");
    }
}

static void explain_name(struct qn_tls_reason *reason, X509 *certificate)
{
    char names[NAMES_SIZE];
    put_names(names, sizeof names, certificate);
    if (names[0] == '\0') {
        explain(reason,
                "the certificate has no subjectAltName and so no name to check; wanted: "
                "%.80s",
                reason->server_name);
        return;
    }
    explain(reason, "the certificate is for %s, not for %.60s", names, reason->server_name);
}

static void explain_date(struct qn_tls_reason *reason, X509 *certificate, int depth, bool is_over)
{
    char date[DATE_SIZE];
    char name[NAME_SIZE] = "";
    put_date(date, sizeof date,
             is_over ? X509_get0_notAfter(certificate) : X509_get0_notBefore(certificate));
    if (depth > 0) {
        put_subject(name, sizeof name, X509_get_subject_name(certificate));
    }
    explain(reason, "%s%s%s %s %s%s",
            depth > 0 ? "the certificate of the CA \"" : "the certificate", name,
            depth > 0 ? "\"" : "", is_over ? "expired at" : "is not valid before", date,
            is_over ? "" : " (or the clock here is wrong)");
}

static void explain_issuer(struct qn_tls_reason *reason, X509 *certificate)
{
    char name[NAME_SIZE];
    put_subject(name, sizeof name, X509_get_issuer_name(certificate));
    explain(reason, "the certificate is signed by an unknown CA, \"%s\"; ?ca=FILE trusts another",
            name);
}

static void explain_certificate(struct qn_tls_reason *reason, X509_STORE_CTX *chain)
{
    X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
    int code = X509_STORE_CTX_get_error(chain);
    int depth = X509_STORE_CTX_get_error_depth(chain);
    switch (code) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        explain_name(reason, X509_STORE_CTX_get0_cert(chain));
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        explain_date(reason, certificate, depth, code == X509_V_ERR_CERT_HAS_EXPIRED);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        explain(reason, "the certificate is self-signed and not trusted; ?ca=FILE trusts one");
        break;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        explain_issuer(reason, certificate);
        break;
    default:
        explain(reason, "the certificate is refused: %s", X509_verify_cert_error_string(code));
    }
}

int qn_tls_reason_verify(int ok, X509_STORE_CTX *chain)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct qn_tls_reason *reason = SSL_get_app_data(ssl);
    if (ok != 1 && reason->text[0] == '\0') {
        explain_certificate(reason, chain);
    }
    return ok;
}

/* --- Everything else ---------------------------------------------------------------- */

struct words {
    int reason; /* of ERR_LIB_SSL */
    const char *text;
};

static const struct words words[] = {
    {SSL_R_WRONG_VERSION_NUMBER, "it speaks no TLS that we know"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "it offers only a version of TLS before 1.2, which is not safe"},
    {SSL_R_VERSION_TOO_LOW, "it offers only a version of TLS before 1.2, which is not safe"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "it does not offer TLS 1.2 or later"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
     "it requires a certificate of ours: ?cert=FILE&key=FILE"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "it does not know the CA of our certificate (?cert=)"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "it refuses our certificate (?cert=)"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "our certificate (?cert=) has expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "our certificate (?cert=) is revoked"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "it refuses our certificate (?cert=)"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "it refuses our kind of certificate (?cert=)"},
    {SSL_R_TLSV1_UNRECOGNIZED_NAME, "it does not know the name that we ask for (?servername=)"},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, "its data were damaged on the way, or forged"},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, "the configuration of OpenSSL here allows no TLS 1.2 or later"},
};

static const char *find_words(const struct qn_tls_reason *reason, unsigned long code)
{
    int why = ERR_GET_REASON(code);
    if (ERR_GET_LIB(code) != ERR_LIB_SSL) {
        return NULL;
    }
    if (why == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE && reason->was_asked_for_one &&
        !reason->has_certificate) {
        return "it requires a certificate of ours: ?cert=FILE&key=FILE";
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].reason == why) {
            return words[i].text;
        }
    }
    return NULL;
}

/* No failure of TLS, but the end of the connection below it. */
static const char *find_end(const struct qn_tls_reason *reason, int saved_errno)
{
    if (!reason->has_received && (saved_errno == 0 || saved_errno == ECONNRESET)) {
        return "closed by the server before a byte of TLS came (is this its plain port?)";
    }
    if (saved_errno != 0) {
        return strerror(saved_errno);
    }
    return reason->is_open ? "cut off without a goodbye of TLS (truncated)"
                           : "closed by the server during the TLS handshake";
}

static bool is_out_of_memory(void)
{
    unsigned long code = ERR_peek_last_error();
    return code != 0 && ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
}

bool qn_tls_reason_set(struct qn_tls_reason *reason, int code, int saved_errno)
{
    unsigned long error = ERR_peek_last_error(); /* what went wrong below it stands before */
    const char *text = NULL;
    bool has_memory = !is_out_of_memory();
    bool is_end =
        code == SSL_ERROR_SYSCALL || (ERR_GET_LIB(error) == ERR_LIB_SSL &&
                                      ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
    if (reason->text[0] == '\0') {
        if (reason->is_renegotiating) {
            text = "it asked to renegotiate, which is refused";
        } else if (reason->is_plain) {
            text = "it speaks no TLS (is this its plain port?)";
        } else if (is_end) {
            text = find_end(reason, saved_errno);
        } else {
            text = find_words(reason, error);
        }
        if (text != NULL) {
            explain(reason, "%s", text);
        } else {
            qn_tls_reason_words(reason->text, sizeof reason->text);
        }
    }
    ERR_clear_error();
    return has_memory;
}

void qn_tls_reason_words(char *out, size_t size)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    (void)snprintf(out, size, "%s", text == NULL ? "unknown failure of TLS" : text);
    ERR_clear_error();
}
