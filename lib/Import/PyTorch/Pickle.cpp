#include "Pickle.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace dtc::import {

namespace {

using Value = uint32_t;

/// Runs the opcodes on a stack of values that only know what they hold.
class Machine {
public:
  explicit Machine(std::span<const char> bytes) : bytes(bytes) {}
  std::string run();

private:
  bool step(unsigned char opcode);
  bool stepArguments(unsigned char opcode);
  bool stepContainers(unsigned char opcode);
  std::string checkDepth() const;

  bool fail(const std::string &text) {
    if (why.empty())
      why = text;
    return false;
  }
  uint64_t number(size_t size);
  bool skip(uint64_t count);
  bool skipLine();
  Value fresh() {
    values.push_back(0);
    return Value(values.size() - 1);
  }
  bool push(Value value) {
    stack.push_back(value);
    return true;
  }
  bool pop(Value &value);
  bool make(size_t count);
  bool hold(size_t holder, size_t first);
  bool holdMarked();
  size_t mark();

  std::span<const char> bytes;
  size_t at = 0;
  std::string why;
  std::vector<Value> stack;
  std::vector<size_t> marks;
  std::map<uint64_t, Value> memo;
  std::vector<uint32_t> values = {0};         ///< how many values hold each
  std::vector<std::pair<Value, Value>> holds; ///< the holder and what it holds
};

} // namespace

uint64_t Machine::number(size_t size) {
  uint64_t result = 0;
  if (bytes.size() - at < size) {
    fail("ends too early");
    at = bytes.size();
    return 0;
  }
  std::memcpy(&result, bytes.data() + at, size);
  at += size;
  return result;
}

bool Machine::skip(uint64_t count) {
  if (bytes.size() - at < count)
    return fail("ends too early");
  at += count;
  return why.empty();
}

bool Machine::skipLine() {
  const void *end = std::memchr(bytes.data() + at, '\n', bytes.size() - at);
  if (!end)
    return fail("ends too early");
  at = size_t(static_cast<const char *>(end) - bytes.data()) + 1;
  return true;
}

bool Machine::pop(Value &value) {
  if (stack.empty() || (!marks.empty() && marks.back() >= stack.size()))
    return fail("takes a value that isn't there");
  value = stack.back();
  stack.pop_back();
  return true;
}

size_t Machine::mark() {
  if (marks.empty()) {
    fail("lacks a mark");
    return stack.size();
  }
  const size_t at = marks.back();
  marks.pop_back();
  return at;
}

/// The value at `holder` holds those from `first` on, which leave the stack.
bool Machine::hold(size_t holder, size_t first) {
  for (size_t i = first; i < stack.size(); ++i)
    if (stack[i] != 0) {
      holds.emplace_back(stack[holder], stack[i]);
      ++values[stack[i]];
    }
  stack.resize(first);
  return true;
}

bool Machine::holdMarked() {
  const size_t first = mark();
  if (first == 0)
    return fail("adds to a value that isn't there");
  if (stack[first - 1] == 0)
    return fail("adds to a value that holds nothing");
  return hold(first - 1, first);
}

/// A value that holds the last ones.
bool Machine::make(size_t count) {
  const size_t floor = marks.empty() ? 0 : marks.back();
  if (stack.size() < floor + count)
    return fail("takes a value that isn't there");
  const size_t first = stack.size() - count;
  stack.insert(stack.begin() + std::ptrdiff_t(first), fresh());
  return hold(first, first + 1);
}

/// Opcodes with arguments of their own.
bool Machine::stepArguments(unsigned char opcode) {
  switch (opcode) {
  case 0x80: // PROTO
    return skip(1);
  case 'K': // BININT1
    return skip(1) && push(0);
  case 'M': // BININT2
    return skip(2) && push(0);
  case 'J': // BININT
    return skip(4) && push(0);
  case 'G': // BINFLOAT
    return skip(8) && push(0);
  case 0x8a: // LONG1
    return skip(number(1)) && push(0);
  case 'U': // SHORT_BINSTRING
    return skip(number(1)) && push(0);
  case 'X': // BINUNICODE
    return skip(number(4)) && push(0);
  case 'c': // GLOBAL
    return skipLine() && skipLine() && push(0);
  case 'q': // BINPUT
  case 'r': // LONG_BINPUT
    if (stack.empty())
      return fail("takes a value that isn't there");
    memo[number(opcode == 'q' ? 1 : 4)] = stack.back();
    return why.empty();
  case 'h':   // BINGET
  case 'j': { // LONG_BINGET
    auto found = memo.find(number(opcode == 'h' ? 1 : 4));
    return found != memo.end() ? push(found->second) : fail("takes a value that isn't there");
  }
  default:
    return fail("has an opcode that PyTorch doesn't write: " + std::to_string(opcode));
  }
}

bool Machine::stepContainers(unsigned char opcode) {
  switch (opcode) {
  case ')': // EMPTY_TUPLE
  case ']': // EMPTY_LIST
  case '}': // EMPTY_DICT
    return push(fresh());
  case '(': // MARK
    marks.push_back(stack.size());
    return true;
  case 't': { // TUPLE
    const size_t first = mark();
    stack.insert(stack.begin() + std::ptrdiff_t(std::min(first, stack.size())), fresh());
    return hold(first, first + 1);
  }
  case 0x85: // TUPLE1, TUPLE2, TUPLE3
  case 0x86:
  case 0x87:
    return make(opcode - 0x84);
  case 'R':  // REDUCE
  case 0x81: // NEWOBJ
    return make(2);
  case 'Q': // BINPERSID
    return make(1);
  case 'e': // APPENDS
  case 'u': // SETITEMS
    return holdMarked();
  case 'a': // APPEND
  case 'b': // BUILD
  case 's': // SETITEM
    marks.push_back(stack.size() - std::min<size_t>(stack.size(), opcode == 's' ? 2 : 1));
    return holdMarked();
  default:
    return stepArguments(opcode);
  }
}

bool Machine::step(unsigned char opcode) {
  switch (opcode) {
  case 'N':  // NONE
  case 0x88: // NEWTRUE
  case 0x89: // NEWFALSE
    return push(0);
  default:
    return stepContainers(opcode);
  }
}

/// The longest chain of values that hold each other: layer by layer, from those that nothing holds.
std::string Machine::checkDepth() const {
  std::vector<std::pair<Value, Value>> sorted = holds;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> holders = values;
  std::vector<Value> layer, next;
  for (Value value = 1; value < values.size(); ++value)
    if (holders[value] == 0)
      layer.push_back(value);
  size_t seen = 0;
  for (int depth = 1; !layer.empty(); ++depth, layer.swap(next)) {
    if (depth > kDeepestPickle)
      return "nests deeper than " + std::to_string(kDeepestPickle) + " values";
    seen += layer.size();
    next.clear();
    for (Value value : layer)
      for (auto held = std::lower_bound(sorted.begin(), sorted.end(), std::pair(value, Value(0)));
           held != sorted.end() && held->first == value; ++held)
        if (--holders[held->second] == 0)
          next.push_back(held->second);
  }
  return seen + 1 == values.size() ? "" : "has a value that holds itself";
}

std::string Machine::run() {
  while (at < bytes.size()) {
    const auto opcode = static_cast<unsigned char>(bytes[at++]);
    if (opcode == '.') // STOP
      return checkDepth();
    if (!step(opcode) || !why.empty())
      return why;
  }
  return "ends too early";
}

std::string checkPickle(std::span<const char> bytes) {
  if (bytes.size() > size_t(1) << 28)
    return "is too large: " + std::to_string(bytes.size());
  return Machine(bytes).run();
}

} // namespace dtc::import
