#include "dtc-rt/Checkpoint/Writer.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace dtc::rt {
namespace {

constexpr uint64_t kPiece = uint64_t(4) << 20;

/// How a rank's writing ended, as the others are told.
struct Report {
  char hash[64] = {};
  char failed = 0;
  char message[447] = {};

  static Report of(Result<std::string> outcome) {
    Report report;
    if (outcome) {
      outcome->copy(report.hash, sizeof(hash));
    } else {
      report.failed = 1;
      outcome.status().message().copy(report.message, sizeof(message) - 1);
    }
    return report;
  }
};

/// A new file, written from the beginning on and synced; and its hash.
class HashedFile {
public:
  explicit HashedFile(std::string path)
      : path(std::move(path)),
        descriptor(::open(this->path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    good = descriptor >= 0;
  }
  ~HashedFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  HashedFile(const HashedFile &) = delete;
  HashedFile &operator=(const HashedFile &) = delete;

  void add(std::span<const char> bytes) {
    while (good && !bytes.empty()) {
      ssize_t count = ::write(descriptor, bytes.data(), std::min<size_t>(bytes.size(), kPiece));
      if (count < 0 && errno == EINTR)
        continue;
      good = count > 0;
      if (!good)
        return;
      digest.add(bytes.first(static_cast<size_t>(count)));
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  Result<std::string> finish() {
    good = good && ::fsync(descriptor) == 0;
    if (!good)
      return failed(path + ": cannot be written: " + std::strerror(errno));
    return digest.finish();
  }

private:
  std::string path;
  int descriptor;
  bool good;
  Sha256 digest;
};

/// The calling thread gives way to all others that want a processor. (SCHED_IDLE would starve it
/// on a busy machine while the rank waits for it.)
void giveWay() {
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
}

/// A rank's thread may be kept on one processor, and what it starts likewise.
void runOn(const std::vector<int> &cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus)
    CPU_SET(cpu, &set);
  if (!cpus.empty())
    ::sched_setaffinity(0, sizeof(set), &set);
}

} // namespace

CheckpointWriter::CheckpointWriter(const Target &target, Communicator &communicator, Device &device,
                                   std::vector<Address> sources)
    : target(target), device(device), sources(std::move(sources)),
      communicator(communicator.forQueue("checkpoint")) {
  std::vector<int> everyone(static_cast<size_t>(communicator.worldSize()));
  std::iota(everyone.begin(), everyone.end(), 0);
  world = this->communicator->group(everyone);
}

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::create(const Target &target,
                                                                   Communicator &communicator,
                                                                   Device &device,
                                                                   std::vector<Address> sources) {
  std::unique_ptr<CheckpointWriter> writer(
      new CheckpointWriter(target, communicator, device, std::move(sources)));
  uint64_t bytes = target.files.bytesOf(communicator.rank());
  auto memory = device.allocate(Space::Host, bytes);
  if (!memory)
    return memory.status();
  writer->memory = std::move(*memory);
  std::memset(writer->memory->base(), 0, bytes); // the first copy must not wait for pages
  return writer;
}

Status CheckpointWriter::save(const TrainingPoint &point) {
  (void)finish();
  if (Status status = copy(); !status.isOk())
    return status;
  writing = std::async(std::launch::async, [this, point] { return write(point); });
  return Status::ok();
}

Status CheckpointWriter::finish() {
  if (writing.valid())
    last = writing.get();
  return last;
}

Status CheckpointWriter::copy() {
  const RankFile &file = target.files.ranks[communicator->rank()];
  char *place = memory->base();
  for (size_t i = 0; i < file.parts.size(); ++i) {
    const OwnedPart &owned = file.parts[i];
    uint64_t bytes = static_cast<uint64_t>((owned.part.end - owned.part.begin) *
                                           sizeOf(dtypeOf(owned.binding->dtype())));
    for (uint64_t at = 0; at < bytes; at += kPiece) {
      uint64_t count = std::min(kPiece, bytes - at);
      auto take = [&](const char *source) { std::memcpy(place, source, count); };
      if (Status status = device.read(sources[i] + at, count, take); !status.isOk())
        return status;
      place += count;
    }
  }
  return Status::ok();
}

Status CheckpointWriter::write(const TrainingPoint &point) const {
  runOn(target.cpus);
  giveWay();
  Status status = writeAside(point);
  if (!status.isOk() && communicator->rank() == 0 && communicator->check().isOk())
    std::fprintf(stderr, "dtc-run: warning: %s\n", status.message().c_str());
  return status;
}

/// All ranks return the same.
Status CheckpointWriter::writeAside(const TrainingPoint &point) const {
  Result<std::string> partial = createPartial(point.step);
  Report mine = Report::of(partial ? writeShard(*partial) : partial);
  std::vector<Report> all(static_cast<size_t>(communicator->worldSize()));
  Transfer gather{reinterpret_cast<char *>(&mine),
                  reinterpret_cast<char *>(all.data()),
                  {static_cast<int64_t>(sizeof(Report))}};
  if (Status status = communicator->allGather(world, DType::U8, {&gather, 1}, 0); !status.isOk())
    return status;
  auto bad =
      std::find_if(all.begin(), all.end(), [](const Report &report) { return report.failed; });
  Report outcome = bad == all.end() ? Report() : *bad;
  if (communicator->rank() == 0 && partial) {
    if (!outcome.failed) {
      CheckpointInfo info = target.files.info;
      info.point = point;
      for (size_t i = 0; i < all.size(); ++i)
        info.files[i].sha256.assign(all[i].hash, sizeof(all[i].hash));
      if (Status status = commit(*partial, std::move(info)); !status.isOk())
        outcome = Report::of(status);
    }
    std::error_code error;
    std::filesystem::remove_all(*partial, error); // it is there only after a failure
  }
  if (Status status =
          communicator->broadcast(world, reinterpret_cast<char *>(&outcome), sizeof(outcome), 0);
      !status.isOk())
    return status;
  return outcome.failed ? failed("checkpoint of step " + std::to_string(point.step) +
                                 " not saved: " + outcome.message)
                        : Status::ok();
}

/// The folder that rank 0 makes for all.
Result<std::string> CheckpointWriter::createPartial(int64_t step) const {
  int64_t process = ::getpid();
  auto nameOf = [&] {
    return target.folder.nameOf(step) + kPartialSuffix + std::to_string(process);
  };
  std::error_code error;
  if (communicator->rank() == 0)
    std::filesystem::create_directory(nameOf(), error);
  Status status =
      communicator->broadcast(world, reinterpret_cast<char *>(&process), sizeof(process), 0);
  if (!status.isOk())
    return status;
  if (error)
    return failed(nameOf() + ": cannot be created: " + error.message());
  return nameOf();
}

Result<std::string> CheckpointWriter::writeShard(const std::string &folder) const {
  int rank = communicator->rank();
  HashedFile file(folder + "/" + target.files.info.files[rank].name);
  file.add(target.files.ranks[rank].header);
  file.add({memory->base(), target.files.bytesOf(rank)});
  return file.finish();
}

Status CheckpointWriter::commit(const std::string &partial, CheckpointInfo info) const {
  HashedFile manifest(partial + "/" + kCheckpointManifest);
  manifest.add(checkpointText(info));
  if (Result<std::string> written = manifest.finish(); !written)
    return written.status();
  Status status = target.folder.commit(partial, info.point.step);
  if (status.isOk() && target.keep)
    target.folder.removeAllBut(*target.keep);
  return status;
}

} // namespace dtc::rt
