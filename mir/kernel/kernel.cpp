#include "mir/kernel/kernel.h"

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

}  // namespace aicf
