#include "runtime/cuda_emulation/hot.h"
//
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/cuda_emulation/machine.h"

// Operations that all lanes of a subgroup do together. Each lane posts its operands in its slot and meets the others;
// the last to arrive computes everybody's result, so that a lane that runs ahead cannot disturb one that has not read
// yet.

namespace aicf {
namespace {

float narrow_to_float(unsigned bits, bool bf16) {
  return bf16 ? bf16_to_f32(static_cast<std::uint16_t>(bits)) : f16_to_f32(static_cast<std::uint16_t>(bits));
}

}  // namespace

unsigned Machine::shuffle(unsigned value, int lane, int line) {
  const int self = current_thread_;
  Subgroup& subgroup = subgroups_[static_cast<std::size_t>(self / 32)];
  Lane& slot = subgroup.lanes[self % 32];
  if (!(subgroup.members >> lane & 1)) {
    raise(line, [&] {
      return fmt::format("a shuffle reads lane {}, and this subgroup has {}", lane, std::popcount(subgroup.members));
    });
  }
  slot.in[0] = value;
  slot.in[1] = static_cast<unsigned>(lane);
  meet(Operation::shuffle, line, false);
  return slot.out[0];
}

int Machine::vote(int predicate, int line) {
  Lane& slot = subgroups_[static_cast<std::size_t>(current_thread_ / 32)].lanes[current_thread_ % 32];
  slot.in[0] = predicate != 0;
  meet(Operation::vote, line, false);
  return static_cast<int>(slot.out[0]);
}

void Machine::ldmatrix(AicfWord address, int tiles, bool transposed, unsigned* result, int line) {
  const int self = current_thread_;
  const int lane = self % 32;
  Lane& slot = subgroups_[static_cast<std::size_t>(self / 32)].lanes[lane];
  refuse_padding(line);
  if (lane < 8 * tiles) std::memcpy(slot.in, shared_access(address, 16, line, false), 16);
  slot.in[4] = static_cast<unsigned>(tiles) << 1 | static_cast<unsigned>(transposed);
  meet(Operation::ldmatrix, line, true);
  std::memcpy(result, slot.out, sizeof(unsigned) * static_cast<std::size_t>(tiles));
}

void Machine::mma(float* c, const unsigned* ab, bool bf16, int line) {
  Lane& slot = subgroups_[static_cast<std::size_t>(current_thread_ / 32)].lanes[current_thread_ % 32];
  std::memcpy(slot.in, ab, 6 * sizeof(unsigned));
  slot.in[6] = bf16;
  std::memcpy(slot.c, c, sizeof(slot.c));
  meet(Operation::mma, line, true);
  std::memcpy(c, slot.c, sizeof(slot.c));
}

/// C += A·B for m16n8k16 with products exact in f32 and f32 sums in the order of k. The matrix unit sums several
/// products at once and truncates, so its result may differ in the last bits; both are within the rounding of f32
/// accumulation.
void Machine::multiply(Subgroup& subgroup, bool bf16) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const unsigned* in = subgroup.lanes[lane].in;
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      const auto value = [&](int r) { return narrow_to_float(in[r] >> (16 * half) & 0xffffu, bf16); };
      const int k = 2 * t + half;
      a[g][k] = value(0);
      a[g + 8][k] = value(1);
      a[g][k + 8] = value(2);
      a[g + 8][k + 8] = value(3);
      b[k][g] = value(4);
      b[k + 8][g] = value(5);
    }
  }
  float c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) c[g + 8 * (i / 2)][2 * t + i % 2] = subgroup.lanes[lane].c[i];
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) c[m][n] += a[m][k] * b[k][n];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) subgroup.lanes[lane].c[i] = c[g + 8 * (i / 2)][2 * t + i % 2];
  }
}

/// All members have arrived: computes the results.
void Machine::complete(Subgroup& subgroup) {
  switch (subgroup.operation) {
    case Operation::shuffle:
      ++shuffles_;
      for (int lane = 0; lane < 32; ++lane) {
        if (subgroup.members >> lane & 1) {
          Lane& slot = subgroup.lanes[lane];
          slot.out[0] = subgroup.lanes[slot.in[1]].in[0];
        }
      }
      return;
    case Operation::vote: {
      bool any = false, all = true;
      for (int lane = 0; lane < 32; ++lane) {
        if (!(subgroup.members >> lane & 1)) continue;
        any |= subgroup.lanes[lane].in[0] != 0;
        all &= subgroup.lanes[lane].in[0] != 0;
      }
      for (Lane& slot : subgroup.lanes) slot.out[0] = static_cast<unsigned>(any) | static_cast<unsigned>(all) << 1;
      return;
    }
    case Operation::warp_sync:
      ++subgroup.epoch;
      return;
    case Operation::ldmatrix: {
      // Lane l receives of tile j the pair (row l/4, columns 2·(l%4) and the next), or with .trans the pair (rows
      // 2·(l%4) and the next, column l/4).
      const int tiles = static_cast<int>(subgroup.lanes[0].in[4] >> 1);
      const bool transposed = subgroup.lanes[0].in[4] & 1;
      const auto element = [&](int tile, int row, int column) {
        const unsigned pair = subgroup.lanes[8 * tile + row].in[column / 2];
        return column % 2 ? pair >> 16 : pair & 0xffffu;
      };
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int tile = 0; tile < tiles; ++tile) {
          const unsigned lo = transposed ? element(tile, 2 * t, g) : element(tile, g, 2 * t);
          const unsigned hi = transposed ? element(tile, 2 * t + 1, g) : element(tile, g, 2 * t + 1);
          subgroup.lanes[lane].out[tile] = lo | hi << 16;
        }
      }
      return;
    }
    case Operation::mma:
      ++matrix_operations_;
      multiply(subgroup, subgroup.lanes[0].in[6] != 0);
      return;
    case Operation::none:
    case Operation::barrier:
      AICF_BUG("no subgroup operation");
  }
}

}  // namespace aicf
