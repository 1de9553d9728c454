#pragma once

// Constant factors of a product, placed where they cost least. Private to mir/stream.

#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"
#include "mir/region/region.h"

namespace aicf::stream {

/// In every sum of products a(…) · (c · b(n, …)) with n the streamed axis, a constant 0 < |c| ≤ 1 and a free of n, the
/// factor moves to a, which is held while n streams: c is then applied once instead of once a step. |c · a| ≤ |a| and
/// the products stay the same, so nothing overflows that did not. Each move is noted as "invariant factor".
Region place_factors(Region region, const std::string& axis, std::vector<CertificateEntry>& certificate);

}  // namespace aicf::stream
