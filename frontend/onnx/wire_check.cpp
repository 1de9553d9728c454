#include "frontend/onnx/wire_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace aicf {
namespace {

/// Protobuf's own recursion limit; a deeper message would be refused by it without a reason.
constexpr int max_depth = 100;
/// Texts and messages of a file: a few bytes each, and a hundred or so once they are parsed.
constexpr int max_parts = 1 << 21;

enum class Kind : std::uint8_t {
  leaf,  // no submessages worth a descent
  model,
  graph,
  node,
  attribute,
  tensor,
  function,
  value_info,
  type,
  tensor_type,
  element_type,
  map_type,
  training,
  sparse_tensor,
};

/// The kind of field `number` in a message of kind `kind`; empty when it holds no message.
std::optional<Kind> submessage(Kind kind, std::uint64_t number) {
  struct Row {
    Kind parent;
    std::uint64_t number;
    Kind child;
  };
  static constexpr Row rows[] = {
      {Kind::model, 7, Kind::graph},
      {Kind::model, 8, Kind::leaf},
      {Kind::model, 14, Kind::leaf},
      {Kind::model, 20, Kind::training},
      {Kind::model, 25, Kind::function},
      {Kind::graph, 1, Kind::node},
      {Kind::graph, 5, Kind::tensor},
      {Kind::graph, 11, Kind::value_info},
      {Kind::graph, 12, Kind::value_info},
      {Kind::graph, 13, Kind::value_info},
      {Kind::graph, 14, Kind::leaf},
      {Kind::graph, 15, Kind::sparse_tensor},
      {Kind::node, 5, Kind::attribute},
      {Kind::attribute, 5, Kind::tensor},
      {Kind::attribute, 6, Kind::graph},
      {Kind::attribute, 10, Kind::tensor},
      {Kind::attribute, 11, Kind::graph},
      {Kind::attribute, 14, Kind::type},
      {Kind::attribute, 15, Kind::type},
      {Kind::attribute, 22, Kind::sparse_tensor},
      {Kind::attribute, 23, Kind::sparse_tensor},
      {Kind::tensor, 13, Kind::leaf},
      {Kind::function, 7, Kind::node},
      {Kind::function, 9, Kind::leaf},
      {Kind::function, 11, Kind::attribute},
      {Kind::function, 12, Kind::value_info},
      {Kind::value_info, 2, Kind::type},
      {Kind::type, 1, Kind::tensor_type},
      {Kind::type, 4, Kind::element_type},
      {Kind::type, 5, Kind::map_type},
      {Kind::type, 8, Kind::tensor_type},
      {Kind::type, 9, Kind::element_type},
      {Kind::tensor_type, 2, Kind::leaf},
      {Kind::element_type, 1, Kind::type},
      {Kind::map_type, 2, Kind::type},
      {Kind::training, 1, Kind::graph},
      {Kind::training, 2, Kind::graph},
      {Kind::sparse_tensor, 1, Kind::tensor},
      {Kind::sparse_tensor, 2, Kind::tensor},
  };
  for (const Row& row : rows) {
    if (row.parent == kind && row.number == number) return row.child;
  }
  return std::nullopt;
}

class Walker {
 public:
  Walker(std::span<const std::byte> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  Result<void> message(Kind kind, std::size_t end, int depth) {
    if (depth > max_depth) {
      return bad(fmt::format("messages are nested deeper than {} at byte {}", max_depth, at_));
    }
    while (at_ < end) {
      const std::size_t start = at_;
      AICF_TRY(const std::uint64_t tag, varint(end));
      const std::uint64_t number = tag >> 3;
      if (number == 0) return bad(fmt::format("byte {} holds no field tag: the file is not a protobuf model", start));
      switch (tag & 7) {
        case 0: {
          AICF_TRY([[maybe_unused]] const std::uint64_t value, varint(end));
          break;
        }
        case 1:
          AICF_RETURN_IF_ERROR(skip(8, end));
          break;
        case 5:
          AICF_RETURN_IF_ERROR(skip(4, end));
          break;
        case 2: {
          if (++parts_ > max_parts)
            return bad(fmt::format("more than {} texts and messages by byte {}", max_parts, start));
          AICF_TRY(const std::uint64_t length, varint(end));
          if (length > end - at_) {
            return bad(fmt::format(
                "the field at byte {} claims {} bytes where {} are left: the file is truncated or broken, it "
                "ends at byte {}",
                start, length, end - at_, bytes_.size()));
          }
          const std::size_t stop = at_ + static_cast<std::size_t>(length);
          const auto child = submessage(kind, number);
          if (child && *child != Kind::leaf) AICF_RETURN_IF_ERROR(message(*child, stop, depth + 1));
          at_ = stop;
          break;
        }
        default:
          return bad(fmt::format("byte {} has wire type {}, which protobuf models do not use", start, tag & 7));
      }
    }
    return {};
  }

 private:
  Result<std::uint64_t> varint(std::size_t end) {
    const std::size_t start = at_;
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ >= end) {
        return bad(fmt::format("a number at byte {} is cut off: the file is truncated or broken, it ends at byte {}",
                               start, bytes_.size()));
      }
      const auto byte = std::to_integer<std::uint64_t>(bytes_[at_++]);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return bad(fmt::format("the number at byte {} is longer than ten bytes", start));
  }

  Result<void> skip(std::size_t count, std::size_t end) {
    if (count > end - at_) {
      return bad(fmt::format("a number at byte {} is cut off: the file is truncated or broken, it ends at byte {}", at_,
                             bytes_.size()));
    }
    at_ += count;
    return {};
  }

  std::unexpected<Diagnostic> bad(std::string message) const { return bad_input(std::move(message), place_); }

  std::span<const std::byte> bytes_;
  const std::string& place_;
  std::size_t at_ = 0;
  int parts_ = 0;
};

}  // namespace

Result<void> check_wire(std::span<const std::byte> bytes, WireMessage message, const std::string& place) {
  const Kind kind = message == WireMessage::model ? Kind::model : Kind::tensor;
  return Walker(bytes, place).message(kind, bytes.size(), 0);
}

}  // namespace aicf
