#include "Emulator/PTX/Syntax.h"

#include <cctype>
#include <charconv>
#include <cstring>

namespace dtc::emulator::ptx {

unsigned bytesOfType(std::string_view type, int line) {
  static const std::map<std::string_view, unsigned> sizes = {
      {"b8", 1},  {"u8", 1},   {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2},
      {"f16", 2}, {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4},
      {"b64", 8}, {"u64", 8},  {"s64", 8}, {"f64", 8}};
  auto at = sizes.find(type);
  if (at == sizes.end())
    syntaxError(line, "unknown type '", type, "'");
  return at->second;
}

namespace {

struct Token {
  enum class Kind { Word, Number, String, Punctuation, End };
  Kind kind = Kind::End;
  std::string_view text;
  int line = 0;

  bool is(std::string_view expected) const { return kind != Kind::String && text == expected; }
};

bool isWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool isWordPart(char c) { return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

/// Words keep their dots and double colons: `ld.global.L1::no_allocate.b32` and `%tid.x` are one
/// word.
class Lexer {
public:
  explicit Lexer(std::string_view text) : rest(text) { advance(); }

  const Token &peek() const { return current; }
  Token next() {
    Token token = current;
    advance();
    return token;
  }

private:
  void skipSpace() {
    while (!rest.empty()) {
      if (rest.front() == '\n') {
        ++line;
        rest.remove_prefix(1);
      } else if (std::isspace(static_cast<unsigned char>(rest.front()))) {
        rest.remove_prefix(1);
      } else if (rest.starts_with("//")) {
        rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
      } else {
        return;
      }
    }
  }

  void advance() {
    skipSpace();
    current = {Token::Kind::End, {}, line};
    if (rest.empty() || rest.front() == '\0')
      return;
    size_t length = 1;
    char first = rest.front();
    if (isWordStart(first)) {
      current.kind = Token::Kind::Word;
      while (length < rest.size() &&
             (isWordPart(rest[length]) || rest.substr(length).starts_with("::")))
        length += rest[length] == ':' ? 2 : 1;
    } else if (std::isdigit(static_cast<unsigned char>(first))) {
      current.kind = Token::Kind::Number;
      while (length < rest.size() &&
             (std::isalnum(static_cast<unsigned char>(rest[length])) || rest[length] == '.'))
        ++length;
    } else if (first == '"') {
      current.kind = Token::Kind::String;
      while (length < rest.size() && rest[length] != '"' && rest[length] != '\n')
        ++length;
      if (length == rest.size() || rest[length] != '"')
        syntaxError(line, "string without an end");
      ++length;
    } else {
      current.kind = Token::Kind::Punctuation;
    }
    current.text = rest.substr(0, length);
    rest.remove_prefix(length);
  }

  std::string_view rest;
  int line = 1;
  Token current;
};

class Parser {
public:
  explicit Parser(std::string_view text) : lexer(text) {}

  Module run() {
    while (lexer.peek().kind != Token::Kind::End)
      topLevel();
    if (module.version.empty() || module.target.empty())
      syntaxError(lexer.peek().line, "the file lacks .version or .target");
    return std::move(module);
  }

private:
  bool accept(std::string_view text) {
    if (!lexer.peek().is(text))
      return false;
    lexer.next();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      syntaxError(lexer.peek().line, "expected '", text, "' instead of '", lexer.peek().text, "'");
  }
  std::string word() {
    if (lexer.peek().kind != Token::Kind::Word)
      syntaxError(lexer.peek().line, "expected a name instead of '", lexer.peek().text, "'");
    return std::string(lexer.next().text);
  }

  /// The name that a register of this text has here: scopes may declare a name again.
  std::string scoped(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (auto at = scope->find(name); at != scope->end())
        return at->second;
    return name;
  }

  void topLevel() {
    Token token = lexer.next();
    if (token.is(".version")) {
      module.version = lexer.next().text;
    } else if (token.is(".target")) {
      module.target = word();
      while (accept(","))
        word();
    } else if (token.is(".address_size")) {
      if (!accept("64"))
        syntaxError(token.line, "only .address_size 64 is known");
    } else if (token.is(".visible") || token.is(".weak")) {
      return;
    } else if (token.is(".entry")) {
      entry();
    } else if (token.is(".extern")) {
      std::string space = word();
      module.variables.push_back(variable(space, true));
    } else if (token.is(".global") || token.is(".shared")) {
      module.variables.push_back(variable(token.text, false));
    } else {
      syntaxError(token.line, "unknown directive '", token.text, "'");
    }
  }

  unsigned extent() { return static_cast<unsigned>(integer(lexer.next())); }

  uint64_t integer(const Token &token) {
    std::string_view text = token.text;
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) {
      base = 16;
      text.remove_prefix(2);
    }
    if (text.ends_with("U"))
      text.remove_suffix(1);
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (token.kind != Token::Kind::Number || error != std::errc() ||
        end != text.data() + text.size())
      syntaxError(token.line, "expected an integer instead of '", token.text, "'");
    return value;
  }

  Variable variable(std::string_view space, bool isExternal) {
    Variable result;
    result.line = lexer.peek().line;
    result.space = space.substr(1);
    result.isExternal = isExternal;
    unsigned elementBytes = 0;
    while (lexer.peek().text.starts_with(".")) {
      Token token = lexer.next();
      if (token.is(".align")) {
        result.alignment = integer(lexer.next());
      } else if (token.is(".ptr")) { // what a parameter points to: .ptr .global .align 16
        accept(".global");
        if (accept(".align"))
          lexer.next();
      } else {
        elementBytes = bytesOfType(token.text.substr(1), token.line);
      }
    }
    result.name = word();
    result.alignment = std::max<uint64_t>(result.alignment, elementBytes);
    result.bytes = elementBytes;
    while (accept("[")) {
      if (accept("]")) {
        result.bytes = 0;
        continue;
      }
      result.bytes *= integer(lexer.next());
      expect("]");
    }
    if (accept("="))
      initialValue(result, elementBytes);
    if (result.space != "param")
      expect(";");
    return result;
  }

  /// The numbers of an array in braces.
  void initialValue(Variable &result, unsigned elementBytes) {
    expect("{");
    while (!accept("}")) {
      uint64_t value = number().bits;
      size_t offset = result.initial.size();
      result.initial.resize(offset + elementBytes, 0);
      std::memcpy(result.initial.data() + offset, &value, elementBytes);
      if (result.initial.size() > result.bytes)
        syntaxError(result.line, "more initial values than '", result.name, "' holds");
      accept(",");
    }
  }

  void entry() {
    Kernel made;
    made.line = lexer.peek().line;
    made.name = word();
    kernel = &made;
    parameters();
    tuning();
    body();
    kernel = nullptr;
    module.kernels.push_back(std::move(made));
  }

  void parameters() {
    if (!accept("("))
      return;
    while (!accept(")")) {
      expect(".param");
      kernel->parameters.push_back(variable(".param", false));
      accept(",");
    }
  }

  void tuning() {
    while (!lexer.peek().is("{")) {
      Token token = lexer.next();
      if (!token.is(".reqntid") && !token.is(".minnctapersm"))
        syntaxError(token.line, "unknown directive '", token.text, "' of a kernel");
      unsigned value = extent();
      while (accept(","))
        value *= extent();
      if (token.is(".reqntid"))
        kernel->requiredThreads = value;
    }
  }

  void body() {
    expect("{");
    scopes = {{}};
    while (!scopes.empty())
      statement();
  }

  void statement() {
    Token token = lexer.next();
    if (token.kind == Token::Kind::End)
      syntaxError(token.line, "the kernel '", kernel->name, "' has no end");
    if (token.is("{")) {
      scopes.emplace_back();
    } else if (token.is("}")) {
      scopes.pop_back();
    } else if (token.is(";")) {
      return;
    } else if (token.text.starts_with(".")) {
      bodyDirective(token);
    } else if (token.kind == Token::Kind::Word && lexer.peek().is(":")) {
      lexer.next();
      std::string label(token.text);
      if (accept(".branchtargets"))
        branchTargets(label);
      else
        kernel->labels[label] = kernel->instructions.size();
    } else {
      instruction(token);
    }
  }

  void bodyDirective(const Token &directive) {
    if (directive.is(".reg"))
      return registers();
    if (directive.is(".shared")) {
      kernel->variables.push_back(variable(directive.text, false));
      return;
    }
    if (directive.is(".pragma")) {
      while (!accept(";"))
        lexer.next();
      return;
    }
    syntaxError(directive.line, "unknown directive '", directive.text, "' in a kernel");
  }

  void registers() {
    std::string type = word().substr(1);
    auto declare = [&](const std::string &name) {
      std::string unique = name;
      if (scopes.size() > 1)
        unique += concat("#", ++scopeNumber);
      scopes.back()[name] = unique;
      kernel->registers[unique] = type;
    };
    do {
      std::string name = word();
      if (accept("<")) {
        unsigned count = extent();
        expect(">");
        for (unsigned i = 0; i < count; ++i)
          declare(name + std::to_string(i));
      } else {
        declare(name);
      }
    } while (accept(","));
    expect(";");
  }

  void branchTargets(const std::string &label) {
    std::vector<std::string> &targets = kernel->branchTargets[label];
    do
      targets.push_back(word());
    while (accept(","));
    expect(";");
  }

  void instruction(const Token &first) {
    Instruction result;
    result.line = first.line;
    Token opcode = first;
    if (first.is("@")) {
      result.isGuardNegated = accept("!");
      result.guard = scoped(word());
      opcode = lexer.next();
    }
    std::string_view text = opcode.text;
    if (opcode.kind != Token::Kind::Word)
      syntaxError(opcode.line, "expected an instruction instead of '", text, "'");
    result.name = text;
    while (!accept(";")) {
      result.operands.push_back(operand());
      if (!accept(",") && !lexer.peek().is(";"))
        syntaxError(lexer.peek().line, "unexpected '", lexer.peek().text, "'");
    }
    kernel->instructions.push_back(std::move(result));
  }

  Operand number() {
    bool isNegative = accept("-");
    Token token = lexer.next();
    Operand result;
    std::string_view text = token.text;
    bool isSingle = text.starts_with("0f") || text.starts_with("0F");
    bool isDouble = text.starts_with("0d") || text.starts_with("0D");
    if (isSingle || isDouble) {
      result.kind = Operand::Kind::Float;
      result.floatBits = isSingle ? 32 : 64;
      std::from_chars(text.data() + 2, text.data() + text.size(), result.bits, 16);
      if (isNegative)
        result.bits ^= uint64_t(1) << (result.floatBits - 1);
      return result;
    }
    result.kind = Operand::Kind::Integer;
    result.bits = integer(token);
    if (isNegative)
      result.bits = 0 - result.bits;
    return result;
  }

  Operand address() {
    Operand result;
    if (lexer.peek().kind == Token::Kind::Number)
      result.offset = static_cast<int64_t>(integer(lexer.next()));
    else
      result.name = scoped(word());
    result.kind = Operand::Kind::Address;
    while (!accept("]")) {
      bool isNegative = accept("-");
      if (!isNegative)
        expect("+");
      isNegative ^= accept("-");
      auto value = static_cast<int64_t>(integer(lexer.next()));
      result.offset += isNegative ? -value : value;
    }
    return result;
  }

  Operand operand() {
    if (accept("["))
      return address();
    if (lexer.peek().is("-") || lexer.peek().kind == Token::Kind::Number)
      return number();
    Operand result;
    if (accept("{")) {
      result.kind = Operand::Kind::Vector;
      while (!accept("}")) {
        result.elements.push_back(operand());
        accept(",");
      }
      return result;
    }
    std::string name = word();
    result.name = scoped(name);
    bool isRegister = name.starts_with("%") || (kernel && kernel->registers.contains(result.name));
    result.kind = isRegister ? Operand::Kind::Register : Operand::Kind::Symbol;
    if (result.kind == Operand::Kind::Symbol && accept("+"))
      result.offset = static_cast<int64_t>(integer(lexer.next()));
    return result;
  }

  Lexer lexer;
  Module module;
  Kernel *kernel = nullptr;
  std::vector<std::map<std::string, std::string>> scopes;
  unsigned scopeNumber = 0;
};

} // namespace

Module parse(std::string_view text) { return Parser(text).run(); }

} // namespace dtc::emulator::ptx
