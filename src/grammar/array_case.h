#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/values.h"

namespace pagoda::grammar {

/// One way to be an array.
class ArrayCase {
 public:
  ArrayCase(Values& values, ValueCase facts, std::string path);

  bool satisfiable();
  void prepare();

  int32_t begin();
  bool may_close(int32_t data);
  struct Way {
    int32_t data;
    ConjId value;
  };
  /// The ways to go on with one more item.
  const std::vector<Way>& ways(int32_t data);
  /// Items are kept, and no value may come twice.
  bool unique() const { return facts_.unique; }
  /// `data` once its last item turned out to be this value (a schema's constant); unique() only.
  int32_t remember(int32_t data, NodeId value);

 private:
  struct Data {
    int64_t items = 0;             // as far as it matters
    std::vector<int32_t> found{};  // [contains]
    std::vector<NodeId> values{};  // of the items, sorted; unique() only
  };
  void build();
  ConjId item(int64_t index);
  int32_t intern(const Data& data);
  bool viable(int32_t data);
  bool compute_viable(const Data& data);
  bool findable(size_t contains, int64_t from_index);
  void add_ways(const Data& data, std::vector<Way>& out);

  Values& values_;
  ValueCase facts_;
  std::string path_;
  bool built_ = false;
  int64_t alike_from_ = 0;     // items from this index on must satisfy the same
  int64_t items_max_ = 0;      // counts from here on are alike
  std::vector<ConjId> items_;  // [alike_from_ + 1]

  std::vector<Data> datas_;
  Interner data_ids_;
  std::vector<int8_t> viable_;
  std::map<int32_t, std::vector<Way>> ways_;
};

}  // namespace pagoda::grammar
