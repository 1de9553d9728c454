// Runs programs of the oracle: placement of lanes in the space, loads, masks. The arithmetic is in oracle_loops.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "mir/graph/oracle_program.h"

namespace aicf::oracle {

Evaluator::Evaluator(const Program& program) : program_(program) {
  reals_.resize(static_cast<std::size_t>(program.real_registers) * block);
  integers_.resize(static_cast<std::size_t>(program.integer_registers) * block);
  mask_lanes_.resize(program.masks.size() * block);
  active_.assign(program.masks.size(), Active::all);
  offsets_.resize(block);
  for (const auto& [r, value] : program.real_constants) std::fill_n(real(r), block, value);
  for (const auto& [r, value] : program.integer_constants) std::fill_n(integer(r), block, value);
}

/// Cuts the positions into stretches along the innermost axis.
void Evaluator::place(std::int64_t begin, int count) {
  const std::size_t rank = program_.axes.size();
  count_ = count;
  stretches_.clear();
  coordinates_.resize(rank);
  for (std::size_t k = rank; k-- > 0;) {
    coordinates_[k] = begin % program_.axes[k].extent;
    begin /= program_.axes[k].extent;
  }
  const std::int64_t inner = program_.axes.back().extent;
  for (int lane = 0;;) {
    const std::size_t at = coordinates_.size() - rank;
    const int length = static_cast<int>(std::min<std::int64_t>(inner - coordinates_.back(), count - lane));
    stretches_.push_back({lane, length, at});
    lane += length;
    if (lane == count) break;
    coordinates_.resize(at + 2 * rank);
    std::int64_t* next = coordinates_.data() + at + rank;
    std::copy_n(next - rank, rank, next);
    next[rank - 1] = 0;
    for (std::size_t k = rank - 1; k-- > 0;) {
      if (++next[k] < program_.axes[k].extent) break;
      next[k] = 0;
    }
  }
}

std::int64_t Evaluator::at(const AffineIndex& index, const Stretch& stretch) const {
  std::int64_t position = index.offset;
  const std::int64_t* c = coordinates_.data() + stretch.coordinates;
  for (std::size_t k = 0; k < index.coefficients.size(); ++k) position += index.coefficients[k] * c[k];
  return position;
}

void Evaluator::fill_axis(const Instruction& i) {
  std::int64_t* out = integer(i.dst);
  const bool inner = static_cast<std::size_t>(i.payload) + 1 == program_.axes.size();
  for (const Stretch& s : stretches_) {
    const std::int64_t c = coordinates_[s.coordinates + static_cast<std::size_t>(i.payload)];
    for (int l = 0; l < s.length; ++l) out[s.lane + l] = inner ? c + l : c;
  }
}

/// Sets the mask; false when no lane is left.
bool Evaluator::enter(const Instruction& i) {
  const Mask& m = program_.masks[static_cast<std::size_t>(i.payload)];
  const std::int64_t* condition = integer(i.a);
  std::uint8_t* lanes = mask(i.payload);
  int live = 0;
  if (active_[static_cast<std::size_t>(m.parent)] == Active::all) {
    for (int l = 0; l < count_; ++l) live += lanes[l] = (condition[l] != 0) != m.negated;
  } else {
    const std::uint8_t* parent = mask(m.parent);
    for (int l = 0; l < count_; ++l) live += lanes[l] = parent[l] && (condition[l] != 0) != m.negated;
  }
  active_[static_cast<std::size_t>(i.payload)] = live == count_ ? Active::all : live > 0 ? Active::some : Active::none;
  return live > 0;
}

template <class Source, class Lane>
void Evaluator::copy(const LoadSite& site, const Source* source, Lane* lanes, const Stretch& stretch) const {
  const std::int64_t step = site.flat.coefficients.back();
  source += at(site.flat, stretch);
  lanes += stretch.lane;
  if (step == 0) {
    std::fill_n(lanes, stretch.length, static_cast<Lane>(*source));
  } else if (step == 1) {
    std::copy_n(source, stretch.length, lanes);
  } else {
    for (int l = 0; l < stretch.length; ++l) lanes[l] = static_cast<Lane>(source[l * step]);
  }
}

namespace {

/// Calls `f` with the buffer's elements.
template <class F>
auto with_elements(const Buffer& buffer, F f) {
  if (buffer.reals) return f(static_cast<const double*>(buffer.reals.get()));
  if (buffer.booleans) return f(static_cast<const std::uint8_t*>(buffer.booleans.get()));
  return f(static_cast<const std::int64_t*>(buffer.integers.get()));
}

}  // namespace

bool Evaluator::load(const Instruction& i) {
  const LoadSite& site = program_.loads[static_cast<std::size_t>(i.payload)];
  if (site.needs_check) return load_checked(site, i);
  with_elements(*site.buffer, [&](const auto* source) {
    for (const Stretch& s : stretches_) {
      if constexpr (std::is_same_v<decltype(source), const double*>) {
        copy(site, source, real(i.dst), s);
      } else {
        copy(site, source, integer(i.dst), s);
      }
    }
  });
  return true;
}

bool Evaluator::load_checked(const LoadSite& site, const Instruction& i) {
  const bool every_lane = active_[static_cast<std::size_t>(site.mask)] == Active::all;
  const std::uint8_t* live = mask(site.mask);
  return with_elements(*site.buffer, [&](const auto* source) {
    auto* lanes = [&] {
      if constexpr (std::is_same_v<decltype(source), const double*>) {
        return real(i.dst);
      } else {
        return integer(i.dst);
      }
    }();
    for (const Stretch& s : stretches_) {
      bool inside = true;
      for (std::size_t d = 0; d < site.dimensions.size(); ++d) {
        const std::int64_t first = at(site.dimensions[d], s);
        const std::int64_t last = first + site.dimensions[d].coefficients.back() * (s.length - 1);
        inside = inside && std::min(first, last) >= 0 && std::max(first, last) < site.buffer->shape[d];
      }
      if (inside) {
        copy(site, source, lanes, s);
        continue;
      }
      for (int l = 0; l < s.length; ++l) {
        lanes[s.lane + l] = 0;
        if (!every_lane && !live[s.lane + l]) continue;
        for (std::size_t d = 0; d < site.dimensions.size(); ++d) {
          const std::int64_t index = at(site.dimensions[d], s) + site.dimensions[d].coefficients.back() * l;
          if (index < 0 || index >= site.buffer->shape[d]) return out_of_bounds(site, d, index, s.lane + l);
        }
        lanes[s.lane + l] = source[at(site.flat, s) + site.flat.coefficients.back() * l];
      }
    }
    return true;
  });
}

bool Evaluator::gather(const Instruction& i) {
  const LoadSite& site = program_.loads[static_cast<std::size_t>(i.payload)];
  const bool every_lane = active_[static_cast<std::size_t>(site.mask)] == Active::all;
  const std::uint8_t* live = mask(site.mask);
  std::int64_t* offsets = offsets_.data();
  std::fill_n(offsets, count_, 0);
  bool skipped = false;
  for (std::size_t d = 0; d < site.index_registers.size(); ++d) {
    const std::int64_t* index = integer(site.index_registers[d]);
    const std::int64_t stride = site.strides[d];
    const auto extent = static_cast<std::uint64_t>(site.buffer->shape[d]);
    if (site.checked[d]) {
      for (int l = 0; l < count_; ++l) {
        if (static_cast<std::uint64_t>(index[l]) < extent) continue;
        if (every_lane || live[l]) return out_of_bounds(site, d, index[l], l);
        skipped = true;
      }
    }
    for (int l = 0; l < count_; ++l) {
      // Unsigned: lanes outside the mask may hold anything.
      offsets[l] = static_cast<std::int64_t>(static_cast<std::uint64_t>(offsets[l]) +
                                             static_cast<std::uint64_t>(index[l]) * static_cast<std::uint64_t>(stride));
    }
  }
  if (skipped) {
    for (int l = 0; l < count_; ++l) {
      if (live[l]) continue;
      offsets[l] = 0;
    }
    // Every lane inside the mask was in bounds; so if the buffer is empty there is none.
    if (site.buffer->size == 0) return true;
  }
  with_elements(*site.buffer, [&](const auto* source) {
    if constexpr (std::is_same_v<decltype(source), const double*>) {
      double* out = real(i.dst);
      for (int l = 0; l < count_; ++l) out[l] = source[offsets[l]];
    } else {
      std::int64_t* out = integer(i.dst);
      for (int l = 0; l < count_; ++l) out[l] = source[offsets[l]];
    }
  });
  return true;
}

bool Evaluator::out_of_bounds(const LoadSite& site, std::size_t dimension, std::int64_t index, int lane) {
  error_ = fmt::format("index {} leaves dimension {} of '{}', which has extent {}, at {}", index, dimension,
                       site.tensor, site.buffer->shape[dimension], coordinates_text(lane));
  return false;
}

std::string Evaluator::coordinates_text(int lane) const {
  std::string text;
  for (const Stretch& s : stretches_) {
    if (lane < s.lane || lane >= s.lane + s.length) continue;
    for (std::size_t k = 0; k < program_.axes.size(); ++k) {
      const bool inner = k + 1 == program_.axes.size();
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", program_.axes[k].name,
                          coordinates_[s.coordinates + k] + (inner ? lane - s.lane : 0));
    }
  }
  return text;
}

Result<void> Evaluator::run(std::int64_t begin, int count) {
  place(begin, count);
  const int n = count;
  for (std::size_t pc = 0; pc < program_.instructions.size(); ++pc) {
    const Instruction& i = program_.instructions[pc];
    bool good = true;
    switch (i.step) {
      case Step::axis:
        fill_axis(i);
        break;
      case Step::load:
        good = load(i);
        break;
      case Step::gather:
        good = gather(i);
        break;
      case Step::real: {
        const double* b = i.b >= 0 ? real(i.b) : nullptr;
        if (is_test(i.op)) {
          real_test_lanes(i, n, real(i.a), b, integer(i.dst));
        } else {
          real_lanes(i, n, real(i.a), b, real(i.dst));
        }
        break;
      }
      case Step::integer:
        integer_lanes(i, n, integer(i.a), i.b >= 0 ? integer(i.b) : nullptr, integer(i.dst));
        break;
      case Step::convert:
        if (i.from_real) {
          i.to_real ? cast_lanes(i.type, n, real(i.a), real(i.dst)) : cast_lanes(i, n, real(i.a), integer(i.dst));
        } else if (i.to_real) {
          cast_lanes(i.type, n, integer(i.a), real(i.dst));
        } else {
          cast_lanes(i.type, n, integer(i.a), integer(i.dst));
        }
        break;
      case Step::choose:
        if (i.to_real) {
          choose_lanes(i, n, integer(i.a), real(i.b), real(i.c), real(i.dst));
        } else {
          choose_lanes(n, integer(i.a), integer(i.b), integer(i.c), integer(i.dst));
        }
        break;
      case Step::enter:
        if (!enter(i)) pc = static_cast<std::size_t>(i.skip) - 1;
        break;
    }
    if (!good) return bad_input(std::move(error_));
  }
  return {};
}

}  // namespace aicf::oracle
