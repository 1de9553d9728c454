#pragma once

// Names in the text of kernels; shared by the printer and the parser.
//
// A tile, an axis and a size may have one name. Where two are in scope the text means the kind that the place is about
// (sizes in bounds, bases and shapes; axes in indices and predicates; tiles in values) and the others are written
// "axis.q", "size.q", "tile.q".

#include <array>
#include <set>
#include <string>

#include "mir/kernel/kernel.h"

namespace aicf::kernel_text {

enum class Meaning : std::uint8_t { size, axis, tile };
/// Order of meanings of a plain name, the first that exists wins.
using Order = std::array<Meaning, 3>;
inline constexpr Order sizes_first{Meaning::size, Meaning::axis, Meaning::tile};
inline constexpr Order axes_first{Meaning::axis, Meaning::size, Meaning::tile};
inline constexpr Order tiles_first{Meaning::tile, Meaning::axis, Meaning::size};

class Vocabulary {
 public:
  std::set<std::string> axes, sizes;
  std::map<std::string, DType> tiles;

  /// What a plain name means in a place.
  Meaning meaning(const std::string& name, const Order& order) const;
  /// `e` with other meanings qualified, for printing.
  Expr qualified(const Expr& e, const Order& order) const;
  /// Scope that reads what qualified() wrote, and the way back.
  Scope scope(const Order& order) const;
  Expr resolved(const Expr& e) const;

 private:
  bool has(const std::string& name, Meaning meaning) const;
};

/// Every axis that the kernel names, and its symbols and loop variables.
Vocabulary vocabulary_of(const Kernel& kernel);

/// Words that start a line of a body; a tile with such a name is quoted there.
bool is_keyword(const std::string& word);

}  // namespace aicf::kernel_text
