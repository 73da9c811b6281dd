// SHA-256 of members and files, by which damage is found.
#pragma once

#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace dtc::rt {

/// SHA-256 in lower-case hex.
std::string sha256(std::span<const char> bytes);

/// The same of what comes piece by piece.
class Sha256 {
public:
  Sha256();
  void add(std::span<const char> bytes);
  /// Call once.
  std::string finish();

private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st *)> context;
};

} // namespace dtc::rt
