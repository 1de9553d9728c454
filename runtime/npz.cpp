// .npz: a zip archive of .npy entries (PKWARE APPNOTE 6.3). Reading trusts only the central directory for sizes,
// because numpy writes zip64 extras in local headers; writing stores entries with a fixed date, so equal tensors give
// equal bytes.

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "runtime/file_io.h"
#include "runtime/npy.h"
#include "runtime/tensor.h"

namespace aicf {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50, locator64_signature = 0x07064b50;
constexpr std::size_t local_size = 30, central_size = 46, end_size = 22, locator64_size = 20, end64_size = 56;
constexpr std::uint64_t limit32 = 0xffffffff;
constexpr std::uint16_t fixed_date = 0x21;  // 1980-01-01
// Deflate cannot expand a byte to more than this; a larger claim is damage, refused before memory is taken.
constexpr std::uint64_t max_expansion = 1040;

using Bytes = std::span<const std::byte>;

struct Entry {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, offset = 0;
};

struct Directory {
  std::uint64_t offset = 0, size = 0;
};

/// The end record is within the last 64 KiB (its comment has a 16-bit length).
std::optional<Directory> find_directory(Bytes file) {
  if (file.size() < end_size) return std::nullopt;
  const std::size_t last = file.size() - end_size;
  const std::size_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (file[at] != std::byte{'P'} || read_little_endian<std::uint32_t>(file, at) != end_signature) continue;
    if (at + end_size + read_little_endian<std::uint16_t>(file, at + 20) != file.size()) continue;
    Directory directory{read_little_endian<std::uint32_t>(file, at + 16),
                        read_little_endian<std::uint32_t>(file, at + 12)};
    if (at >= locator64_size && read_little_endian<std::uint32_t>(file, at - locator64_size) == locator64_signature) {
      const auto end64 = read_little_endian<std::uint64_t>(file, at - locator64_size + 8);
      if (end64 > file.size() || file.size() - end64 < end64_size ||
          read_little_endian<std::uint32_t>(file, end64) != end64_signature) {
        return std::nullopt;
      }
      directory = {read_little_endian<std::uint64_t>(file, end64 + 48),
                   read_little_endian<std::uint64_t>(file, end64 + 40)};
    }
    if (directory.offset > file.size() || directory.size > file.size() - directory.offset) return std::nullopt;
    return directory;
  }
  return std::nullopt;
}

/// Sizes and offset that do not fit in 32 bits follow in extra field 1, in this order, only those that are needed.
bool read_zip64_extra(Bytes extra, Entry& entry) {
  while (extra.size() >= 4) {
    const auto id = read_little_endian<std::uint16_t>(extra, 0);
    const std::size_t length = read_little_endian<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) return false;
    if (id == 1) {
      Bytes field = extra.subspan(4, length);
      for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
        if (*value != limit32) continue;
        if (field.size() < 8) return false;
        *value = read_little_endian<std::uint64_t>(field, 0);
        field = field.subspan(8);
      }
      return true;
    }
    extra = extra.subspan(4 + length);
  }
  return true;
}

Result<std::vector<Entry>> read_directory(Bytes file, const std::string& path) {
  const auto directory = find_directory(file);
  if (!directory) return bad_input("is a damaged or truncated zip archive", path);
  std::vector<Entry> entries;
  Bytes rest = file.subspan(directory->offset, directory->size);
  std::uint64_t packed_total = 0;
  while (!rest.empty()) {
    if (rest.size() < central_size || read_little_endian<std::uint32_t>(rest, 0) != central_signature) {
      return bad_input("has a damaged zip directory", path);
    }
    Entry entry;
    entry.flags = read_little_endian<std::uint16_t>(rest, 8);
    entry.method = read_little_endian<std::uint16_t>(rest, 10);
    entry.crc = read_little_endian<std::uint32_t>(rest, 16);
    entry.packed = read_little_endian<std::uint32_t>(rest, 20);
    entry.size = read_little_endian<std::uint32_t>(rest, 24);
    const std::size_t name_length = read_little_endian<std::uint16_t>(rest, 28);
    const std::size_t extra_length = read_little_endian<std::uint16_t>(rest, 30);
    const std::size_t total = central_size + name_length + extra_length + read_little_endian<std::uint16_t>(rest, 32);
    entry.offset = read_little_endian<std::uint32_t>(rest, 42);
    if (total > rest.size()) return bad_input("has a damaged zip directory", path);
    entry.name.assign(reinterpret_cast<const char*>(rest.data()) + central_size, name_length);
    if (!read_zip64_extra(rest.subspan(central_size + name_length, extra_length), entry)) {
      return bad_input("has a damaged zip directory", path);
    }
    // Entries that share bytes would let a small archive ask for unbounded work.
    if (entry.packed > file.size() - packed_total) return bad_input("has overlapping zip entries", path);
    packed_total += entry.packed;
    rest = rest.subspan(total);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<std::string> inflate_entry(Bytes packed, std::uint64_t size) {
  // Grows with what the data really gives, not with what the directory claims.
  std::string out(std::min<std::uint64_t>(size, std::max<std::uint64_t>(4 * packed.size(), 4096)), '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  std::size_t in_at = 0, out_at = 0;
  int status = Z_OK;
  constexpr std::size_t chunk = std::numeric_limits<uInt>::max() / 2;
  while (status == Z_OK) {
    const auto in_now = static_cast<uInt>(std::min(packed.size() - in_at, chunk));
    const auto out_now = static_cast<uInt>(std::min(out.size() - out_at, chunk));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in_at));
    stream.avail_in = in_now;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
    stream.avail_out = out_now;
    status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t consumed = in_now - stream.avail_in, produced = out_now - stream.avail_out;
    in_at += consumed;
    out_at += produced;
    const bool full = out_at == out.size() && out.size() < size;
    if (full) out.resize(std::min<std::uint64_t>(size, 2 * out.size()));
    if (status == Z_BUF_ERROR && full) status = Z_OK;
    if (status == Z_OK && consumed == 0 && produced == 0 && !full) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out_at != size) return std::nullopt;
  return out;
}

Result<Tensor> read_entry(Bytes file, const Entry& entry, const std::string& place) {
  if (entry.flags & 1) return bad_input("is encrypted", place);
  if (entry.method != 0 && entry.method != 8) {
    return bad_input(fmt::format("uses zip compression method {}; only stored and deflate are read", entry.method),
                     place);
  }
  if (entry.offset > file.size() || file.size() - entry.offset < local_size ||
      read_little_endian<std::uint32_t>(file, entry.offset) != local_signature) {
    return bad_input("has a damaged zip header", place);
  }
  const std::uint64_t start = entry.offset + local_size + read_little_endian<std::uint16_t>(file, entry.offset + 26) +
                              read_little_endian<std::uint16_t>(file, entry.offset + 28);
  if (start > file.size() || entry.packed > file.size() - start) return bad_input("is cut off", place);
  const Bytes packed = file.subspan(start, entry.packed);
  std::optional<std::string> inflated;
  Bytes content = packed;
  if (entry.method == 8) {
    if (entry.size / max_expansion > entry.packed) return bad_input("claims an impossible size", place);
    inflated = inflate_entry(packed, entry.size);
    if (!inflated) return bad_input("has damaged compressed data", place);
    content = std::as_bytes(std::span(inflated->data(), inflated->size()));
  } else if (entry.size != entry.packed) {
    return bad_input("has a damaged zip header", place);
  }
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != entry.crc) return bad_input("is damaged: its checksum does not match", place);
  return parse_npy(content, place);
}

Result<NamedTensors> read_npz(Bytes file, const std::string& path) {
  AICF_TRY(const std::vector<Entry> entries, read_directory(file, path));
  NamedTensors tensors;
  for (const Entry& entry : entries) {
    if (entry.name.ends_with('/')) continue;
    const std::string place = fmt::format("{}: entry '{}'", path, entry.name);
    if (!entry.name.ends_with(".npy")) return bad_input("is not a .npy array", place);
    AICF_TRY(Tensor tensor, read_entry(file, entry, place));
    const std::string name = entry.name.substr(0, entry.name.size() - 4);
    if (!tensors.emplace(name, std::move(tensor)).second) return bad_input("stands twice in the archive", place);
  }
  return tensors;
}

// ---- writing -----------------------------------------------------------------------------------------------------

struct WrittenEntry {
  std::string name;
  std::uint32_t crc;
  std::uint64_t size, offset;
};

std::uint32_t clamp32(std::uint64_t v) {
  return static_cast<std::uint32_t>(std::min(v, limit32));
}

/// Fields that local and central headers share, from "version needed" to the length of the name.
void append_common(std::string& to, const WrittenEntry& entry, bool zip64) {
  const bool ascii = std::ranges::all_of(entry.name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  append_little_endian<std::uint16_t>(to, zip64 ? 45 : 20);
  append_little_endian<std::uint16_t>(to, ascii ? 0 : 0x800);  // bit 11: the name is UTF-8
  append_little_endian<std::uint16_t>(to, 0);                  // stored
  append_little_endian<std::uint16_t>(to, 0);
  append_little_endian<std::uint16_t>(to, fixed_date);
  append_little_endian<std::uint32_t>(to, entry.crc);
  append_little_endian<std::uint32_t>(to, clamp32(entry.size));
  append_little_endian<std::uint32_t>(to, clamp32(entry.size));
  append_little_endian<std::uint16_t>(to, static_cast<std::uint16_t>(entry.name.size()));
}

std::string zip64_extra(std::initializer_list<std::uint64_t> values) {
  std::string extra;
  append_little_endian<std::uint16_t>(extra, 1);
  append_little_endian<std::uint16_t>(extra, static_cast<std::uint16_t>(8 * values.size()));
  for (const std::uint64_t v : values) append_little_endian<std::uint64_t>(extra, v);
  return extra;
}

std::string local_header(const WrittenEntry& entry) {
  const bool zip64 = entry.size >= limit32;
  const std::string extra = zip64 ? zip64_extra({entry.size, entry.size}) : "";
  std::string header;
  append_little_endian<std::uint32_t>(header, local_signature);
  append_common(header, entry, zip64);
  append_little_endian<std::uint16_t>(header, static_cast<std::uint16_t>(extra.size()));
  return header + entry.name + extra;
}

std::string central_header(const WrittenEntry& entry) {
  const bool large = entry.size >= limit32, far = entry.offset >= limit32;
  std::string extra;
  if (large && far) extra = zip64_extra({entry.size, entry.size, entry.offset});
  if (large && !far) extra = zip64_extra({entry.size, entry.size});
  if (!large && far) extra = zip64_extra({entry.offset});
  std::string header;
  append_little_endian<std::uint32_t>(header, central_signature);
  append_little_endian<std::uint16_t>(header, 45);
  append_common(header, entry, large || far);
  append_little_endian<std::uint16_t>(header, static_cast<std::uint16_t>(extra.size()));
  append_little_endian<std::uint16_t>(header, 0);  // comment
  append_little_endian<std::uint16_t>(header, 0);  // disk
  append_little_endian<std::uint16_t>(header, 0);  // internal attributes
  append_little_endian<std::uint32_t>(header, 0);  // external attributes
  append_little_endian<std::uint32_t>(header, clamp32(entry.offset));
  return header + entry.name + extra;
}

std::string end_records(std::uint64_t count, std::uint64_t size, std::uint64_t offset) {
  std::string end;
  if (count >= 0xffff || size >= limit32 || offset >= limit32) {
    append_little_endian<std::uint32_t>(end, end64_signature);
    append_little_endian<std::uint64_t>(end, end64_size - 12);
    append_little_endian<std::uint16_t>(end, 45);
    append_little_endian<std::uint16_t>(end, 45);
    append_little_endian<std::uint64_t>(end, 0);  // disks
    append_little_endian<std::uint64_t>(end, count);
    append_little_endian<std::uint64_t>(end, count);
    append_little_endian<std::uint64_t>(end, size);
    append_little_endian<std::uint64_t>(end, offset);
    append_little_endian<std::uint32_t>(end, locator64_signature);
    append_little_endian<std::uint32_t>(end, 0);
    append_little_endian<std::uint64_t>(end, offset + size);
    append_little_endian<std::uint32_t>(end, 1);
  }
  append_little_endian<std::uint32_t>(end, end_signature);
  append_little_endian<std::uint32_t>(end, 0);  // disks
  append_little_endian<std::uint16_t>(end, static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff)));
  append_little_endian<std::uint16_t>(end, static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff)));
  append_little_endian<std::uint32_t>(end, clamp32(size));
  append_little_endian<std::uint32_t>(end, clamp32(offset));
  append_little_endian<std::uint16_t>(end, 0);  // comment
  return end;
}

}  // namespace

Result<NamedTensors> read_tensors(const std::string& path) {
  AICF_TRY(const auto file, MappedFile::open(path));
  const Bytes bytes = file->bytes();
  if (looks_like_npy(bytes)) {
    AICF_TRY(Tensor tensor, parse_npy(bytes, path));
    NamedTensors tensors;
    tensors.emplace(std::filesystem::path(path).stem().string(), std::move(tensor));
    return tensors;
  }
  if (bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'}) return read_npz(bytes, path);
  return bad_input("is neither .npz nor .npy", path);
}

Result<void> write_npz(const std::string& path, const NamedTensors& tensors) {
  AICF_TRY(AtomicFile file, AtomicFile::create(path));
  std::string directory;
  for (const auto& [name, tensor] : tensors) {
    if (name.size() > 0xff00) return bad_input("a tensor name is too long for a zip entry", path);
    const std::string header = npy_header(tensor.type(), tensor.shape());
    const Bytes content = tensor.bytes();
    auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    if (!content.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(content.data()), content.size());
    const WrittenEntry entry{name + ".npy", static_cast<std::uint32_t>(crc), header.size() + content.size(),
                             file.position()};
    file.write(local_header(entry));
    file.write(header);
    file.write(content);
    directory += central_header(entry);
  }
  const std::uint64_t start = file.position();
  file.write(directory);
  file.write(end_records(tensors.size(), directory.size(), start));
  return file.commit();
}

Result<void> write_npy(const std::string& path, const Tensor& tensor) {
  AICF_TRY(AtomicFile file, AtomicFile::create(path));
  file.write(npy_header(tensor.type(), tensor.shape()));
  file.write(tensor.bytes());
  return file.commit();
}

}  // namespace aicf
