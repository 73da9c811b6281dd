#include "PtxKernels.h"

#include "llvm/Object/ELF.h"

using namespace llvm;

namespace dtc::cuda {
constexpr size_t kShortest = 6; // rows_0

/// What ends the header of a program.
constexpr StringLiteral kEndOfHeader = ".address_size 64\n";

static std::string withName(StringRef ptx, StringRef from, StringRef to) {
  std::string text;
  for (size_t at; (at = ptx.find(from)) != StringRef::npos; ptx = ptx.substr(at + from.size()))
    text += (ptx.take_front(at) + to).str();
  return text + ptx.str();
}

StringRef standInOf(StringRef name) {
  bool canStandIn = name.size() >= kShortest && name.size() <= kStandIn.size();
  return canStandIn ? kStandIn.take_front(name.size()) : name;
}

PtxKernel::PtxKernel(std::string name, StringRef compiled)
    : name(std::move(name)), ptx(withName(compiled, kStandIn, standInOf(this->name))) {}

std::string joinPtx(ArrayRef<PtxKernel> kernels) {
  std::string text;
  for (const PtxKernel &kernel : kernels) {
    std::string ptx = withName(kernel.ptx, standInOf(kernel.name), kernel.name);
    const size_t end = ptx.find(kEndOfHeader) + kEndOfHeader.size();
    text += text.empty() ? ptx : ptx.substr(end);
  }
  return text;
}

/// Names lie in tables of strings. That of a table of constants begins with the kernel's.
Error nameKernel(std::vector<char> &cubin, StringRef name) {
  using Elf = object::ELFFile<object::ELF64LE>;
  const StringRef standIn = standInOf(name);
  if (standIn == name)
    return Error::success();
  StringRef bytes(cubin.data(), cubin.size());
  Expected<Elf> file = Elf::create(bytes);
  if (!file)
    return file.takeError();
  Expected<Elf::Elf_Shdr_Range> sections = file->sections();
  if (!sections)
    return sections.takeError();
  for (const Elf::Elf_Shdr &section : *sections) {
    if (section.sh_type != ELF::SHT_STRTAB)
      continue;
    Expected<StringRef> table = file->getStringTable(section);
    if (!table)
      return table.takeError();
    for (size_t at = 0; (at = table->find(standIn, at)) != StringRef::npos;)
      llvm::copy(name, cubin.begin() + (table->data() - bytes.data()) + at);
  }
  if (bytes.contains(standIn) || !bytes.contains(name))
    return createStringError("a cubin names its kernel elsewhere than in tables of names");
  return Error::success();
}

} // namespace dtc::cuda
