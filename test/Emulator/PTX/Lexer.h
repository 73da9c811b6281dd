// Splits PTX text into tokens.
#pragma once

#include <string>
#include <string_view>

namespace dtc::emulator::ptx {

struct Token {
  enum class Kind { Word, Number, String, Punctuation, End };
  Kind kind = Kind::End;
  std::string_view text;
  int line = 0;

  bool is(std::string_view expected) const { return kind != Kind::String && text == expected; }
};

/// Words keep their dots and double colons: `ld.global.L1::no_allocate.b32` and `%tid.x` are one
/// word.
class Lexer {
public:
  explicit Lexer(std::string_view text);

  const Token &peek() const { return current; }
  Token next();

private:
  void advance();
  void skipSpace();

  std::string_view rest;
  int line = 1;
  Token current;
};

} // namespace dtc::emulator::ptx
