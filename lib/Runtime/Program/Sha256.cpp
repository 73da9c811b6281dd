#include "dtc-rt/Program/Sha256.h"

#include <openssl/evp.h>

namespace dtc::rt {

Sha256::Sha256() : context(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
}

void Sha256::add(std::span<const char> bytes) {
  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context.get(), digest, &size) != 1)
    return {};
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

std::string sha256(std::span<const char> bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

} // namespace dtc::rt
