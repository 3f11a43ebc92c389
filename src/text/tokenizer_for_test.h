#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "text/tokenizer.h"

namespace pagoda::text {

/// A tokenizer, or null and a failed test.
inline std::unique_ptr<Tokenizer> create(VocabSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  if (!tokenizer.ok()) return ADD_FAILURE() << tokenizer.error().message, nullptr;
  return std::move(tokenizer).take();
}

}  // namespace pagoda::text
