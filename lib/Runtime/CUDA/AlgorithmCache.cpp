#include "AlgorithmCache.h"

#include "dtc-io/InputFile.h"
#include "dtc-io/Json.h"
#include "dtc-io/JsonValue.h"
#include "dtc-io/PrintableLine.h"
#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Program/PartialFiles.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace dtc::rt::cuda {
namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t(16) << 20;

void note(const std::string &file, const std::string &text) {
  std::fprintf(stderr, "dtc-run: note: %s\n", io::printableLine(file + ": " + text).c_str());
}

/// Throws what json throws where the text has another form.
AlgorithmCache::Places placesOf(const json &root, const AlgorithmScope &scope, std::string &why) {
  if (root.at("gpu") != scope.gpu || root.at("cublaslt") != scope.version) {
    why = "is of another GPU or cuBLASLt";
    return {};
  }
  AlgorithmCache::Places places;
  for (const auto &[product, place] : root.at("places").get_ref<const json::object_t &>())
    places[product] = io::jsonValue<int>(place);
  return places;
}

} // namespace

std::string AlgorithmCache::fileOf(const AlgorithmScope &scope) const {
  std::string name;
  for (char c : scope.gpu + " " + std::to_string(scope.version)) {
    const bool isPlain = std::isalnum(static_cast<unsigned char>(c));
    if (isPlain)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.ends_with('-'))
      name += '-';
  }
  return (std::filesystem::path(folder) / (name + ".json")).string();
}

AlgorithmCache::Places AlgorithmCache::load(const AlgorithmScope &scope, std::string &why) const {
  const std::string file = fileOf(scope);
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(file, error))
    return {};
  Places places;
  if (std::optional<std::string> text = io::readFile(file, kMostBytes, why))
    if (std::optional<json> root = io::parseJson<json>(*text, why)) {
      try {
        places = placesOf(*root, scope, why);
      } catch (const json::exception &) {
        why = "has no places of algorithms";
      }
    }
  return places;
}

AlgorithmCache::Places &AlgorithmCache::known(const AlgorithmScope &scope) {
  auto [entry, isNew] = loaded.try_emplace(scope);
  std::string why;
  if (isNew)
    entry->second = load(scope, why);
  if (!why.empty())
    note(fileOf(scope), why + ", and isn't used");
  return entry->second;
}

AlgorithmCache::Places AlgorithmCache::read(const AlgorithmScope &scope) {
  std::lock_guard lock(mutex);
  return known(scope);
}

Status AlgorithmCache::save(const AlgorithmScope &scope, const Places &places) const {
  json root = {{"gpu", scope.gpu}, {"cublaslt", scope.version}, {"places", places}};
  const std::string text = root.dump(1) + "\n";
  Result<OutputFile> file = OutputFile::create(fileOf(scope), text.size());
  if (!file)
    return file.status();
  std::memcpy(file->data(), text.data(), text.size());
  return file->commit();
}

/// Other processes may have written meanwhile: theirs stay.
void AlgorithmCache::add(const AlgorithmScope &scope, const Places &found) {
  std::lock_guard lock(mutex);
  Places &places = known(scope);
  const size_t before = places.size();
  places.insert(found.begin(), found.end());
  if (places.size() == before || folder.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const FolderLock held(folder);
  std::string ignored; // was said when it was first read
  Places all = load(scope, ignored);
  all.insert(places.begin(), places.end());
  if (Status status = save(scope, all); !status.isOk())
    note(fileOf(scope), "the chosen algorithms aren't kept: " + status.message());
}

} // namespace dtc::rt::cuda
