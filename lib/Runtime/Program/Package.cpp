#include "dtc-rt/Program/Package.h"

#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/Sha256.h"

namespace dtc::rt {

Result<Package> Package::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  std::span<const char> bytes = file->bytes();
  if (!std::string_view(bytes.data(), bytes.size()).starts_with("PK"))
    return refused(path + ": not an artifact of dtc; dtc compile makes one of a model");
  std::string why;
  std::optional<io::ZipFile> zip = io::ZipFile::open(std::move(*file), why);
  if (!zip)
    return refused(why);
  Package package(std::move(*zip));
  if (Status status = package.checkManifest(); !status.isOk())
    return std::move(status).in(path);
  return package;
}

Status Package::checkManifest() {
  auto found = zip.members().find(kManifestMember);
  if (found == zip.members().end() || !found->second.stored)
    return refused(std::string("not an artifact of dtc, has no member: ") + kManifestMember);
  std::span<const char> json = zip.bytes(found->second);
  if (sha256(json) != zip.comment())
    return refused(std::string(kManifestMember) + ": damaged, its SHA-256 is not as recorded");
  Result<Manifest> manifest = Manifest::parse(json);
  if (!manifest)
    return std::move(manifest.status()).in(kManifestMember);
  info = std::move(*manifest);
  for (const auto &[name, member] : zip.members())
    if (name != kManifestMember && !info.members.contains(name))
      return refused("has a member that the manifest does not list: " + name);
  for (const auto &[name, member] : info.members)
    if (!zip.members().contains(name))
      return refused("lacks the member: " + name);
  return Status::ok();
}

std::string Package::manifestText() const {
  std::span<const char> json = zip.bytes(zip.members().at(kManifestMember));
  return {json.begin(), json.end()};
}

Result<std::span<const char>> Package::read(const std::string &member) const {
  auto found = zip.members().find(member);
  auto listed = info.members.find(member);
  if (found == zip.members().end() || listed == info.members.end())
    return wrong("lacks the member: " + member);
  if (!found->second.stored || found->second.offset % kMemberAlignment != 0)
    return wrong(member + ": is compressed or not aligned");
  std::span<const char> bytes = zip.bytes(found->second);
  if (bytes.size() != listed->second.size || sha256(bytes) != listed->second.sha256)
    return wrong(member + ": damaged, its SHA-256 is not as recorded");
  return bytes;
}

} // namespace dtc::rt
