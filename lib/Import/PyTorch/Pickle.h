// How deep the values of a pickle nest.
//
// LibTorch builds and frees what a pickle holds by recursion, and overflows its stack where a
// million tuples nest. So the pickles of an archive are looked at before it. Their opcodes build a
// graph of which value holds which, without any of the values.
#pragma once

#include <span>
#include <string>

namespace dtc::import {

/// What is wrong with the pickle; empty where it may be read. Only the opcodes that PyTorch writes
/// are known.
std::string checkPickle(std::span<const char> bytes);

/// Values nest this deep at most. The modules of a model nest three values each.
constexpr int kDeepestPickle = 1000;

} // namespace dtc::import
