#include "runtime/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/file_io.h"

namespace aicf {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

std::string_view descr_of(DType type) {
  switch (type) {
    case DType::f16:
      return "<f2";
    case DType::bf16:
      return "<V2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::i8:
      return "|i1";
    case DType::u8:
      return "|u1";
    case DType::i16:
      return "<i2";
    case DType::u16:
      return "<u2";
    case DType::i32:
      return "<i4";
    case DType::u32:
      return "<u4";
    case DType::i64:
      return "<i8";
    case DType::u64:
      return "<u8";
    case DType::boolean:
      return "|b1";
  }
  return "";
}

Result<DType> type_of(std::string_view descr, const std::string& place) {
  if (descr.size() >= 2 && descr[0] == '>') {
    return bad_input(fmt::format("has big-endian elements ('{}'); convert with .astype('<{}')", descr, descr.substr(1)),
                     place);
  }
  const std::string_view kind = descr.find_first_of("<|=") == 0 ? descr.substr(1) : descr;
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto type = static_cast<DType>(i);
    if (descr_of(type).substr(1) == kind) return type;
  }
  return bad_input(fmt::format("has elements of type '{}', which AICF does not read; convert with .astype(...)", descr),
                   place);
}

/// The header: a Python dict literal with the keys descr, fortran_order and shape in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  struct Header {
    std::string_view descr;
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
  };

  std::optional<Header> parse() {
    Header header;
    bool seen[3] = {};
    if (!accept('{')) return std::nullopt;
    while (!accept('}')) {
      const auto key = quoted();
      if (!key || !accept(':')) return std::nullopt;
      const int which = *key == "descr" ? 0 : *key == "fortran_order" ? 1 : *key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) return std::nullopt;
      seen[which] = true;
      if (which == 0) {
        const auto descr = quoted_or_other();
        if (!descr) return std::nullopt;
        header.descr = *descr;
      } else if (which == 1) {
        if (word("True")) {
          header.fortran_order = true;
        } else if (!word("False")) {
          return std::nullopt;
        }
      } else if (!tuple(header.shape)) {
        return std::nullopt;
      }
      if (!accept(',')) {
        if (!accept('}')) return std::nullopt;
        break;
      }
    }
    skip_space();
    if (at_ != text_.size() || !seen[0] || !seen[1] || !seen[2]) return std::nullopt;
    return header;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view expected) {
    skip_space();
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip_space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }
  /// A structured dtype is a list of tuples: taken whole so that the message can show it.
  std::optional<std::string_view> quoted_or_other() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      const std::size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view content = text_.substr(at_, end - at_ + 1);
      at_ = end + 1;
      return content;
    }
    return quoted();
  }
  bool tuple(std::vector<std::int64_t>& shape) {
    if (!accept('(')) return false;
    while (!accept(')')) {
      skip_space();
      std::int64_t dim = 0;
      const auto [stop, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (code != std::errc()) return false;
      at_ = static_cast<std::size_t>(stop - text_.data());
      word("L");
      shape.push_back(dim);
      if (!accept(',')) return accept(')');
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string npy_header(DType type, std::span<const std::int64_t> shape) {
  std::string dims = fmt::format("{}", fmt::join(shape, ", "));
  if (shape.size() == 1) dims += ",";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(type), dims);
  const bool wide = text.size() + 64 > 0xffff;
  const std::size_t prefix = wide ? 12 : 10;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header(magic);
  header += static_cast<char>(wide ? 2 : 1);
  header += '\0';
  if (wide) {
    append_little_endian(header, static_cast<std::uint32_t>(text.size()));
  } else {
    append_little_endian(header, static_cast<std::uint16_t>(text.size()));
  }
  return header + text;
}

bool looks_like_npy(std::span<const std::byte> file) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

Result<Tensor> parse_npy(std::span<const std::byte> file, const std::string& place) {
  if (!looks_like_npy(file)) return bad_input("is not a .npy array", place);
  if (file.size() < 12) return bad_input("is cut off in the .npy header", place);
  const auto version = static_cast<int>(file[6]);
  if (version < 1 || version > 3) return bad_input(fmt::format("has unknown .npy version {}", version), place);
  const std::size_t prefix = version == 1 ? 10 : 12;
  const std::size_t length =
      version == 1 ? read_little_endian<std::uint16_t>(file, 8) : read_little_endian<std::uint32_t>(file, 8);
  if (length > file.size() - prefix) return bad_input("is cut off in the .npy header", place);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, length);
  const auto header = HeaderParser(text).parse();
  if (!header) return bad_input("has a damaged .npy header", place);
  if (header->descr.starts_with("|O")) {
    return bad_input("holds Python objects (pickle), which AICF does not load; save plain arrays", place);
  }
  AICF_TRY(const DType type, type_of(header->descr, place));
  if (header->fortran_order) {
    return bad_input("is in Fortran order; save np.ascontiguousarray(array) instead", place);
  }
  auto elements = checked_size(type, header->shape);
  if (!elements) return bad_input(elements.error().message, place);
  const std::size_t bytes = static_cast<std::size_t>(*elements) * host_size(type);
  const std::size_t available = file.size() - prefix - length;
  if (bytes != available) {
    return bad_input(fmt::format("holds {} bytes of elements where its shape [{}] of {} needs {}", available,
                                 fmt::join(header->shape, ", "), name(type), bytes),
                     place);
  }
  Tensor tensor(type, header->shape);
  if (bytes > 0) std::memcpy(tensor.mutable_bytes().data(), file.data() + prefix + length, bytes);
  return tensor;
}

}  // namespace aicf
