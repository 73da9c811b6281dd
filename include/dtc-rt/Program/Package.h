// An opened artifact: its manifest and members, each verified before use.
#pragma once

#include "dtc-io/ZipFile.h"
#include "dtc-rt/Program/Manifest.h"

#include <string>

namespace dtc::rt {

class Package {
public:
  /// Opens the file and verifies the manifest against the zip's comment.
  static Result<Package> open(const std::string &path);

  const std::string &path() const { return zip.file().path(); }
  /// The file as it was opened, whatever has its name by now.
  std::span<const char> bytes() const { return zip.file().bytes(); }
  const Manifest &manifest() const { return info; }
  /// manifest.json as it is in the file.
  std::string manifestText() const;
  bool has(const std::string &member) const { return zip.members().contains(member); }
  /// The bytes of a member (64-byte aligned), hashed and found as the manifest has them.
  Result<std::span<const char>> read(const std::string &member) const;
  /// Errors that name the artifact.
  Status wrong(std::string message) const { return refused(std::move(message)).in(path()); }

private:
  explicit Package(io::ZipFile zip) : zip(std::move(zip)) {}
  Status checkManifest();
  io::ZipFile zip;
  Manifest info;
};

} // namespace dtc::rt
