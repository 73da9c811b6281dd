#include "Emulator/PTX/Lexer.h"

#include "Emulator/PTX/Syntax.h"

#include <cctype>

namespace dtc::emulator::ptx {

namespace {

bool isWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool isWordPart(char c) { return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

} // namespace

Lexer::Lexer(std::string_view text) : rest(text) { advance(); }

Token Lexer::next() {
  Token token = current;
  advance();
  return token;
}

void Lexer::skipSpace() {
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

void Lexer::advance() {
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

} // namespace dtc::emulator::ptx
