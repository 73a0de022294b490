// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace peng::server {

struct TlsOptions {
  std::string certfile;  // PEM, the server's certificate first; empty = no TLS
  std::string keyfile;   // PEM; empty = the key is in certfile
  std::string ca_certs;  // PEM file of what client certificates are checked against
  int cert_reqs = 0;     // 0: clients need no certificate, 1: one that is sent is checked, 2: they need one
  std::string ciphers;   // OpenSSL's cipher list for TLS 1.2; empty = its default

  bool enabled() const { return !certfile.empty(); }
};

// A context for TLS 1.2 and 1.3. Throws base::Error (kUsage) that names the option whose file cannot be used.
std::shared_ptr<ssl_ctx_st> MakeTlsContext(const TlsOptions& options);

}  // namespace peng::server
