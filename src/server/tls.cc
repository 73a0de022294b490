// SPDX-License-Identifier: Apache-2.0
#include "server/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "base/error.h"

namespace peng::server {
namespace {

[[noreturn]] void Refuse(const std::string& option, const std::string& value, const std::string& what,
                         const std::string& action) {
  ERR_clear_error();
  throw base::Error(base::ErrorKind::kUsage, option + " " + base::Printable(value), what, action);
}

// OpenSSL's own word for what went wrong last.
std::string Reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "unknown reason" : reason;
}

// OpenSSL would wait for the writer of a FIFO.
void CheckReadable(const std::string& option, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info{};
  const bool opened = fd >= 0 && ::fstat(fd, &info) == 0;
  const std::string why = opened ? "" : std::generic_category().message(errno);
  if (fd >= 0) ::close(fd);
  if (!opened) Refuse(option, path, "cannot be read: " + why, "name a PEM file that peng may read");
  if (!S_ISREG(info.st_mode)) Refuse(option, path, "is not a regular file", "name a PEM file");
}

// A server has nobody to ask for the password of a key.
int NoPassword(char*, int, int, void*) { return -1; }

void LoadCertificate(SSL_CTX* context, const TlsOptions& options) {
  CheckReadable("--ssl-certfile", options.certfile);
  if (SSL_CTX_use_certificate_chain_file(context, options.certfile.c_str()) != 1) {
    Refuse("--ssl-certfile", options.certfile, "is no certificate: " + Reason(), "name a PEM file of certificates");
  }
}

void LoadKey(SSL_CTX* context, const TlsOptions& options) {
  const bool apart = !options.keyfile.empty();
  const std::string& path = apart ? options.keyfile : options.certfile;
  const std::string option = apart ? "--ssl-keyfile" : "--ssl-certfile";
  CheckReadable(option, path);
  SSL_CTX_set_default_passwd_cb(context, NoPassword);
  if (SSL_CTX_use_PrivateKey_file(context, path.c_str(), SSL_FILETYPE_PEM) != 1) {
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (reason == X509_R_KEY_VALUES_MISMATCH) {
      Refuse(option, path, "is not the key of the certificate " + base::Printable(options.certfile),
             "name the key that the certificate was made with");
    }
    Refuse(option, path, "holds no private key that can be read: " + Reason(),
           apart ? "name an unencrypted PEM key" : "name the key with --ssl-keyfile");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    Refuse(option, path, "is not the key of the certificate " + base::Printable(options.certfile),
           "name the key that the certificate was made with");
  }
}

void LoadClientCheck(SSL_CTX* context, const TlsOptions& options) {
  if (!options.ca_certs.empty()) {
    CheckReadable("--ssl-ca-certs", options.ca_certs);
    if (SSL_CTX_load_verify_locations(context, options.ca_certs.c_str(), nullptr) != 1) {
      Refuse("--ssl-ca-certs", options.ca_certs, "holds no certificates: " + Reason(), "name a PEM file");
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(options.ca_certs.c_str()));
  } else if (options.cert_reqs != 0) {
    Refuse("--ssl-cert-reqs", std::to_string(options.cert_reqs), "has nothing to check clients against",
           "name the authorities with --ssl-ca-certs");
  }
  if (options.cert_reqs == 1) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.cert_reqs == 2) SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

// Clients that also speak HTTP/2 are told to use HTTP/1.1.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                   unsigned int in_size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* selected = nullptr;
  const int found = SSL_select_next_proto(&selected, out_size, kOurs, sizeof(kOurs) - 1, in, in_size);
  *out = selected;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

std::shared_ptr<ssl_ctx_st> MakeTlsContext(const TlsOptions& options) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Thousands of idle connections should hold no buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  static constexpr unsigned char kSessions[] = "peng";
  SSL_CTX_set_session_id_context(context.get(), kSessions, sizeof(kSessions) - 1);
  SSL_CTX_set_alpn_select_cb(context.get(), SelectProtocol, nullptr);
  if (!options.ciphers.empty() && SSL_CTX_set_cipher_list(context.get(), options.ciphers.c_str()) != 1) {
    Refuse("--ssl-ciphers", options.ciphers, "names no cipher that can be used", "see `openssl ciphers`");
  }
  LoadCertificate(context.get(), options);
  LoadKey(context.get(), options);
  LoadClientCheck(context.get(), options);
  return context;
}

}  // namespace peng::server
