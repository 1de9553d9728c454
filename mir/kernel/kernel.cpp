#include "mir/kernel/kernel.h"

#include <fmt/core.h>

#include <algorithm>

namespace aicf {

std::int64_t Distribution::registers() const {
  std::int64_t product = 1;
  for (const Factor& f : factors) {
    if (f.level == Level::reg) product *= f.size;
  }
  return product;
}

const KernelTile& Kernel::tile(const std::string& tile_name) const {
  const auto found = std::ranges::find(tiles, tile_name, &KernelTile::name);
  AICF_CHECK(found != tiles.end(), "kernel " + name + " has no tile " + tile_name);
  return *found;
}

const KernelBuffer* Kernel::buffer(const std::string& buffer_name) const {
  const auto found = std::ranges::find(buffers, buffer_name, &KernelBuffer::name);
  return found == buffers.end() ? nullptr : &*found;
}

std::string headline(const KernelOp& op) {
  using Kind = KernelOp::Kind;
  switch (op.kind) {
    case Kind::load:
      return fmt::format("load {} <- {}", op.tile, op.buffer);
    case Kind::store:
      return fmt::format("store {} <- {}", op.buffer, op.tile);
    case Kind::compute:
      return op.tile + " =";
    case Kind::reduce:
      return fmt::format("{} {}=", op.tile, name(op.reduce));
    case Kind::cross:
      return "cross";
    case Kind::to_workgroup:
      return fmt::format("stage {} <- {}", op.tile, op.source);
    case Kind::from_workgroup:
      return fmt::format("fetch {} <- {}", op.tile, op.source);
    case Kind::multiply:
      return fmt::format("multiply {}", op.tile);
    case Kind::barrier:
      return "barrier";
    case Kind::loop:
      return "for " + op.variable;
    case Kind::branch:
      return "if";
  }
  AICF_BUG("unknown kind of kernel operation");
}

}  // namespace aicf
