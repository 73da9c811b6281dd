#include "PtxKernels.h"
#include "Ptx.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ELF.h"

using namespace llvm;

namespace dtc::cuda {
namespace {

constexpr StringRef kEntry = ".visible .entry ";
constexpr StringRef kLabel = "$L__BB";
constexpr StringRef kStandIn = "dtc_kernel_whose_name_stands_elsewhere__";
constexpr size_t kShortest = 6; // rows_0

bool isOfIdentifier(char c) { return isAlnum(c) || c == '_' || c == '$' || c == '%'; }

StringRef identifierAt(StringRef text) { return text.take_while(isOfIdentifier); }

bool mentions(StringRef text, StringRef identifier) {
  for (size_t at = 0; (at = text.find(identifier, at)) != StringRef::npos; ++at)
    if ((at == 0 || !isOfIdentifier(text[at - 1])) &&
        identifierAt(text.substr(at)).size() == identifier.size())
      return true;
  return false;
}

/// `.extern .shared .align 16 .b8 rows_9_kept[];` declares rows_9_kept.
StringRef declaredBy(StringRef line) {
  StringRef before = line.take_until([](char c) { return c == '[' || c == '=' || c == ';'; });
  before = before.rtrim();
  size_t size = 0;
  while (size < before.size() && isOfIdentifier(before[before.size() - 1 - size]))
    ++size;
  return line.ends_with(";") ? before.take_back(size) : StringRef();
}

struct Declaration {
  StringRef name, line;
};

struct Entry {
  StringRef name;
  std::string text; ///< without comments and empty lines
};

/// A program's header, what it declares for all kernels, and its kernels.
struct Program {
  std::string header;
  std::vector<Declaration> declarations;
  std::vector<Entry> kernels;
};

Expected<Program> parse(StringRef ptx) {
  Program program;
  auto [header, rest] = ptx.split(kEndOfHeader);
  for (StringRef line : split(header, '\n'))
    if (line.starts_with("."))
      program.header += (line + "\n").str();
  program.header += kEndOfHeader;
  bool isInKernel = false;
  for (StringRef line : split(rest, '\n')) {
    StringRef bare = line.trim();
    if (bare.empty() || bare.starts_with("//"))
      continue;
    if (line.starts_with(kEntry)) {
      program.kernels.push_back({identifierAt(line.drop_front(kEntry.size())), ""});
      isInKernel = true;
    }
    if (isInKernel) {
      program.kernels.back().text += (line + "\n").str();
      isInKernel = line != "}";
    } else if (StringRef name = declaredBy(bare); !name.empty()) {
      program.declarations.push_back({name, bare});
    } else {
      return createStringError("PTX has a line of no kernel: " + bare);
    }
  }
  return program;
}

/// The text without its name and without the number that it had in its part.
std::string withoutPlace(StringRef text, StringRef name) {
  std::string result;
  std::string own = (name + "_").str();
  bool isEntry = false;
  while (!text.empty()) {
    StringRef token = identifierAt(text);
    StringRef rest = token;
    if (token.empty()) {
      token = text.take_front(1);
      result += token;
    } else if (rest.consume_front(kLabel)) {
      result += (kLabel + "0" + rest.drop_while(isDigit)).str();
    } else if (isEntry || rest.consume_front(own)) {
      result += (standInOf(name) + (isEntry ? "" : "_" + rest)).str();
    } else {
      result += token;
    }
    text = text.drop_front(token.size());
    // Elsewhere it stands in front of other names alone; an instruction may be called so, too.
    isEntry = StringRef(result).ends_with(kEntry);
  }
  return result;
}

} // namespace

StringRef standInOf(StringRef name) {
  bool canStandIn = name.size() >= kShortest && name.size() <= kStandIn.size();
  return canStandIn ? kStandIn.take_front(name.size()) : name;
}

Expected<std::vector<PtxKernel>> splitPtx(StringRef ptx) {
  Expected<Program> program = parse(ptx);
  if (!program)
    return program.takeError();
  std::vector<PtxKernel> kernels;
  for (const Entry &entry : program->kernels) {
    std::string text;
    for (const Declaration &declaration : program->declarations)
      if (mentions(entry.text, declaration.name))
        text += (declaration.line + "\n").str();
    text += entry.text;
    kernels.push_back({entry.name.str(), program->header + withoutPlace(text, entry.name)});
  }
  return kernels;
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
