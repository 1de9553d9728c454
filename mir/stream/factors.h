#pragma once

// What is rewritten before states are sought: constant factors and constant bases. Private to mir/stream.

#include <string>
#include <vector>

#include "mir/memory/streaming_region.h"
#include "mir/region/region.h"

namespace aicf::stream {

/// In every sum of products a(…) · (c · b(n, …)) with n the streamed axis, a constant 0 < |c| ≤ 1 and a free of n, the
/// factor moves to a, which is held while n streams: c is then applied once instead of once a step. |c · a| ≤ |a| and
/// the products stay the same, so nothing overflows that did not. Each move is noted as "invariant factor".
Region place_factors(Region region, const std::string& axis, std::vector<CertificateEntry>& certificate);

/// c^x of a constant c > 0 is exp(x · ln c) where x rests on a result of a reduction (2^(s − max s)): as a sum's factor it
/// needs the law of exponentials. Other powers stay, which are exact for whole x. Noted as "power of a constant".
Region powers_as_exponentials(Region region, std::vector<CertificateEntry>& certificate);

}  // namespace aicf::stream
