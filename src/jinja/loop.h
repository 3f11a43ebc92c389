#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {

/// The `loop` variable: reads its iterable one item ahead at most, unless the template asks for the length.
struct LoopObject final : Object {
  LoopObject(Value iterable_, Cursor cursor_) : iterable(std::move(iterable_)), cursor(std::move(cursor_)) {}

  /// Moves to the next item that passes the loop's filter; false at the end.
  Result<bool> advance();
  /// The item after the current one, missing at the end.
  Result<Value> peek();
  Result<int64_t> length(Runtime& rt);

  /// The loop has ended; the object may live on.
  void clear() override {
    filter = nullptr;
    recurse = nullptr;
    drawn.clear();
    drawn_at = 0;
    drawn_all = true;
    after = last_changed = Value();
  }

  /// Draws the next item that passes the filter from the iterable. Missing at the end.
  Result<Value> draw();

  Value iterable;
  Cursor cursor;
  struct Filter {
    virtual ~Filter() = default;
    /// May replace the item by what the loop is to see of it.
    virtual Result<bool> accepts(Value& item) = 0;
  };
  Filter* filter = nullptr;  // lives as long as the loop runs
  std::vector<Value> drawn;  // items read ahead for the length, from `drawn_at` on
  size_t drawn_at = 0;
  bool drawn_all = false;
  Value before, current, after;  // missing where there is none
  int64_t index0 = -1;
  int64_t known_length = -1;
  int64_t depth0 = 0;
  Value last_changed;                 // of loop.changed()
  CallableObject* recurse = nullptr;  // a recursive loop's body; lives as long as the loop runs
};

/// loop.NAME, missing if there is no such attribute.
Result<Value> loop_attribute(Runtime& rt, const Value& loop, std::string_view name);
/// loop(iterable) of a recursive loop.
Result<Value> call_loop(Runtime& rt, const Value& loop, Args args);
Result<std::string> loop_repr(Runtime& rt, const Value& loop);

}  // namespace pagoda::jinja
