// Package files. Layout: "AICFPKG2", u64 length of the header, JSON header, zeros to a multiple of 64, blobs each
// padded to a multiple of 64, u64 XXH3-64 of everything before; integers are little-endian. Blob offsets count from the
// first blob. Byte strings (binaries, sources, logs, constants) are blobs, stored once however often they are used; a
// constant may be a part of another file instead.

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "runtime/artifact.h"
#include "runtime/file_io.h"

namespace aicf {
namespace {

using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr std::string_view magic = "AICFPKG2";
constexpr int format_version = 2;
constexpr std::size_t blob_alignment = 64;
constexpr std::size_t smallest_file = 8 + 8 + 8;
constexpr std::size_t smallest_reference = 1024;  ///< bytes of a constant below which it is embedded anyway

std::size_t padding(std::uint64_t at) {
  return static_cast<std::size_t>((blob_alignment - at % blob_alignment) % blob_alignment);
}

constexpr std::pair<std::string_view, BinaryKind> binary_kinds[] = {
    {"spirv", BinaryKind::spirv}, {"cubin", BinaryKind::cubin}, {"cuda_source", BinaryKind::cuda_source}};
constexpr std::pair<std::string_view, BufferPlan::Kind> buffer_kinds[] = {
    {"input", BufferPlan::Kind::input},
    {"output", BufferPlan::Kind::output},
    {"constant", BufferPlan::Kind::constant},
    {"intermediate", BufferPlan::Kind::intermediate}};

template <class E, std::size_t N>
std::string word_of(const std::pair<std::string_view, E> (&table)[N], E value) {
  for (const auto& [word, entry] : table) {
    if (entry == value) return std::string(word);
  }
  AICF_BUG("enumerator without a word");
}

// ---- writing -----------------------------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const std::string& path, WeightStorage weights)
      : folder_(std::filesystem::absolute(path).parent_path()), weights_(weights) {}

  Json describe(const Package& package) {
    Json programs = Json::array();
    for (const Program& program : package.programs) programs.push_back(describe(program));
    return {
        {"version", format_version}, {"model", package.model_name}, {"programs", programs}, {"blobs", blob_table()}};
  }

  std::span<const Bytes> blobs() const { return blobs_; }

 private:
  Json describe(const Program& program) {
    symbols_ = &program.symbols;
    Json kernels = Json::array(), launches = Json::array(), buffers = Json::array(), constants = Json::array();
    for (const KernelBinary& kernel : program.kernels) kernels.push_back(describe(kernel));
    for (const Launch& launch : program.launches) launches.push_back(describe(launch));
    for (const BufferPlan& buffer : program.buffers) buffers.push_back(describe(buffer));
    for (const Tensor& constant : program.constants) constants.push_back(describe(constant));
    Json constraints = Json::array(), indices = Json::array(), must_be_false = Json::array();
    for (const ShapeConstraint& c : program.constraints) {
      constraints.push_back(
          {{"left", text(c.left)}, {"right", text(c.right)}, {"place", c.place}, {"at_most", c.at_most}});
    }
    for (const IndexConstraint& c : program.indices) {
      indices.push_back({{"input", c.input}, {"size", text(c.size)}, {"negative", c.negative}, {"place", c.place}});
    }
    for (const InputConstraint& c : program.must_be_false) {
      must_be_false.push_back({{"input", c.input}, {"meaning", c.meaning}, {"place", c.place}});
    }
    Json inputs = Json::array(), outputs = Json::array();
    for (const Signature& input : program.inputs)
      inputs.push_back({{"name", input.name}, {"type", name(input.type)}, {"shape", texts(input.shape)}});
    for (const ProgramOutput& output : program.outputs)
      outputs.push_back({{"name", output.name}, {"buffer", output.buffer}});
    return {{"target", program.target},       {"driver", program.driver},   {"kernels", kernels},
            {"launches", launches},           {"buffers", buffers},         {"constants", constants},
            {"symbols", program.symbols},     {"constraints", constraints}, {"indices", indices},
            {"must_be_false", must_be_false}, {"inputs", inputs},           {"outputs", outputs}};
  }

  Json describe(const Tensor& constant) {
    Json json{{"type", name(constant.type())}, {"shape", constant.shape()}};
    const auto range = weights_ == WeightStorage::referenced && constant.bytes().size() >= smallest_reference
                           ? mapped_range(constant.bytes())
                           : std::nullopt;
    if (range) {
      json["file"] = std::filesystem::absolute(range->path).lexically_proximate(folder_).generic_string();
      json["offset"] = range->offset;
      json["hash"] = XXH3_64bits(constant.bytes().data(), constant.bytes().size());
    } else {
      json["blob"] = add_blob(constant.bytes());
    }
    return json;
  }

  Json describe(const KernelBinary& kernel) {
    Json arguments = Json::array();
    for (const KernelArgument& argument : kernel.arguments) {
      arguments.push_back({{"name", argument.name},
                           {"type", name(argument.type)},
                           {"written", argument.written},
                           {"read", argument.read}});
    }
    return {{"name", kernel.name},
            {"kind", word_of(binary_kinds, kernel.kind)},
            {"binary", add_blob(kernel.bytes)},
            {"source", add_blob(kernel.source)},
            {"arguments", arguments},
            {"parameters", kernel.parameters},
            {"workgroup_size", kernel.workgroup_size},
            {"subgroup_size", kernel.subgroup_size},
            {"workgroup_memory_bytes", kernel.workgroup_memory_bytes},
            {"compiler_log", add_blob(kernel.compiler_log)},
            {"statistics", kernel.statistics}};
  }

  Json describe(const Launch& launch) {
    return {{"kernel", launch.kernel},
            {"buffers", launch.buffers},
            {"parameters", texts(launch.parameters)},
            {"workgroups", text(launch.workgroups)},
            {"guard", text(launch.guard)},
            {"region", launch.region}};
  }

  Json describe(const BufferPlan& buffer) {
    return {{"name", buffer.name},         {"kind", word_of(buffer_kinds, buffer.kind)},
            {"type", name(buffer.type)},   {"shape", texts(buffer.shape)},
            {"constant", buffer.constant}, {"first_use", buffer.first_use},
            {"last_use", buffer.last_use}, {"scratch", buffer.scratch}};
  }

  std::string text(const Expr& e) const {
    if (!e) return "";
    std::string text = to_string(e);
    Scope scope;
    scope.symbols.insert(symbols_->begin(), symbols_->end());
    const auto back = parse_expr(text, scope);
    AICF_CHECK(back && *back == e, fmt::format("'{}' is not an expression over the program's symbols", text));
    return text;
  }

  Json texts(const std::vector<Expr>& list) const {
    Json result = Json::array();
    for (const Expr& e : list) result.push_back(text(e));
    return result;
  }

  std::size_t add_blob(std::string_view text) { return add_blob(std::as_bytes(std::span(text.data(), text.size()))); }

  std::size_t add_blob(Bytes bytes) {
    const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      const Bytes other = blobs_[it->second];
      const bool same = other.data() == bytes.data() || std::ranges::equal(other, bytes);
      if (other.size() == bytes.size() && same) return it->second;
    }
    by_hash_.emplace(hash, blobs_.size());
    blobs_.push_back(bytes);
    return blobs_.size() - 1;
  }

  Json blob_table() const {
    Json table = Json::array();
    std::uint64_t at = 0;
    for (const Bytes blob : blobs_) {
      table.push_back({{"offset", at}, {"size", blob.size()}});
      at += blob.size() + padding(blob.size());
    }
    return table;
  }

  std::vector<Bytes> blobs_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  const std::vector<std::string>* symbols_ = nullptr;
  std::filesystem::path folder_;
  WeightStorage weights_;
};

/// Writes and hashes at once.
class HashedFile {
 public:
  explicit HashedFile(AtomicFile& file) : file_(file), state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~HashedFile() { XXH3_freeState(state_); }
  HashedFile(const HashedFile&) = delete;
  HashedFile& operator=(const HashedFile&) = delete;

  void write(Bytes bytes) {
    if (bytes.empty()) return;
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
    file_.write(bytes);
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void pad() { write(std::string(padding(file_.position()), '\0')); }
  std::uint64_t digest() const { return XXH3_64bits_digest(state_); }

 private:
  AtomicFile& file_;
  XXH3_state_t* state_;
};

// ---- reading -----------------------------------------------------------------------------------------------------

/// Thrown inside this file only; read_package() turns it into a Diagnostic.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Likewise: the package is well, what it refers to is not.
struct Missing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Reader {
 public:
  Reader(const Json& header, Bytes blobs, std::shared_ptr<const void> keep_alive, const std::string& path)
      : header_(header),
        area_(blobs),
        keep_alive_(std::move(keep_alive)),
        folder_(std::filesystem::absolute(path).parent_path()) {}

  Package package() {
    for (const Json& entry : array(header_, "blobs")) {
      const auto offset = integer<std::uint64_t>(entry, "offset"), size = integer<std::uint64_t>(entry, "size");
      if (offset % blob_alignment != 0 || offset > area_.size() || size > area_.size() - offset) {
        throw Malformed(fmt::format("blob {} lies outside the file", blobs_.size()));
      }
      blobs_.push_back(area_.subspan(offset, size));
    }
    Package package;
    package.model_name = string(header_, "model");
    for (const Json& entry : array(header_, "programs")) package.programs.push_back(program(entry));
    return package;
  }

 private:
  static const Json& member(const Json& object, const char* key) {
    if (!object.is_object()) throw Malformed(fmt::format("expected an object with '{}'", key));
    const auto found = object.find(key);
    if (found == object.end()) throw Malformed(fmt::format("'{}' is missing", key));
    return *found;
  }
  static const Json& array(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (!value.is_array()) throw Malformed(fmt::format("'{}' is not a list", key));
    return value;
  }
  static std::string string(const Json& value, std::string_view what) {
    if (!value.is_string()) throw Malformed(fmt::format("'{}' is not a text", what));
    return value.get<std::string>();
  }
  static std::string string(const Json& object, const char* key) {
    return string(member(object, key), std::string_view(key));
  }
  static bool boolean(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (!value.is_boolean()) throw Malformed(fmt::format("'{}' is not true or false", key));
    return value.get<bool>();
  }
  template <class T>
  static T number(const Json& value, std::string_view what) {
    const bool in_range = value.is_number_unsigned()  ? std::in_range<T>(value.get<std::uint64_t>())
                          : value.is_number_integer() ? std::in_range<T>(value.get<std::int64_t>())
                                                      : false;
    if (!in_range) throw Malformed(fmt::format("'{}' is not an integer in range", what));
    return value.get<T>();
  }
  template <class T>
  static T integer(const Json& object, const char* key) {
    return number<T>(member(object, key), key);
  }
  template <class T>
  static std::vector<T> integers(const Json& object, const char* key) {
    std::vector<T> list;
    for (const Json& value : array(object, key)) list.push_back(number<T>(value, key));
    return list;
  }
  static std::vector<std::string> strings(const Json& object, const char* key) {
    std::vector<std::string> list;
    for (const Json& value : array(object, key)) list.push_back(string(value, std::string_view(key)));
    return list;
  }
  static DType dtype(const Json& object) {
    const std::string word = string(object, "type");
    const auto type = parse_dtype(word);
    if (!type) throw Malformed(fmt::format("'{}' is not an element type", word));
    return *type;
  }
  template <class E, std::size_t N>
  static E enumerator(const std::pair<std::string_view, E> (&table)[N], const Json& object, const char* key) {
    const std::string text = string(object, key);
    for (const auto& [word, value] : table) {
      if (word == text) return value;
    }
    throw Malformed(fmt::format("'{}' is not a known {}", text, key));
  }
  static int index(int value, std::size_t count, const char* what) {
    if (value < 0 || static_cast<std::size_t>(value) >= count) {
      throw Malformed(fmt::format("{} {} does not exist", what, value));
    }
    return value;
  }

  Bytes blob(const Json& object, const char* key) const {
    const auto at = integer<std::size_t>(object, key);
    if (at >= blobs_.size()) throw Malformed(fmt::format("blob {} does not exist", at));
    return blobs_[at];
  }
  std::string text_blob(const Json& object, const char* key) const {
    const Bytes bytes = blob(object, key);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Expr expression(const std::string& text, bool condition) const {
    auto e = parse_expr(text, scope_);
    if (!e) throw Malformed(fmt::format("expression '{}': {}", text, e.error().text()));
    if (condition ? e->type() != DType::boolean : !is_integer(e->type())) {
      throw Malformed(fmt::format("expression '{}' is not {}", text, condition ? "a condition" : "an integer"));
    }
    return *e;
  }
  std::vector<Expr> expressions(const Json& object, const char* key) const {
    std::vector<Expr> list;
    for (const std::string& text : strings(object, key)) list.push_back(expression(text, false));
    return list;
  }

  Program program(const Json& json) {
    Program program;
    program.target = string(json, "target");
    program.driver = string(json, "driver");
    program.symbols = strings(json, "symbols");
    scope_ = {};
    scope_.symbols.insert(program.symbols.begin(), program.symbols.end());
    for (const Json& entry : array(json, "constants")) program.constants.push_back(constant(entry));
    for (const Json& entry : array(json, "buffers")) program.buffers.push_back(buffer(entry, program));
    for (const Json& entry : array(json, "kernels")) program.kernels.push_back(kernel(entry));
    for (const Json& entry : array(json, "launches")) program.launches.push_back(launch(entry, program));
    for (const BufferPlan& b : program.buffers) {
      if (b.kind == BufferPlan::Kind::intermediate) {
        index(b.first_use, program.launches.size(), "launch");
        index(b.last_use, program.launches.size(), "launch");
      }
    }
    for (const Json& entry : array(json, "constraints")) {
      program.constraints.push_back({expression(string(entry, "left"), false),
                                     expression(string(entry, "right"), false), string(entry, "place"),
                                     boolean(entry, "at_most")});
    }
    for (const Json& entry : array(json, "indices")) {
      program.indices.push_back({string(entry, "input"), expression(string(entry, "size"), false),
                                 boolean(entry, "negative"), string(entry, "place")});
    }
    for (const Json& entry : array(json, "must_be_false")) {
      program.must_be_false.push_back({string(entry, "input"), string(entry, "meaning"), string(entry, "place")});
    }
    for (const Json& entry : array(json, "inputs"))
      program.inputs.push_back({string(entry, "name"), dtype(entry), expressions(entry, "shape")});
    for (const Json& entry : array(json, "outputs"))
      program.outputs.push_back(
          {string(entry, "name"), index(integer<int>(entry, "buffer"), program.buffers.size(), "buffer")});
    return program;
  }

  Tensor constant(const Json& json) {
    const DType type = dtype(json);
    std::vector<std::int64_t> shape = integers<std::int64_t>(json, "shape");
    const auto size = checked_size(type, shape);
    if (!size) throw Malformed(size.error().message);
    const std::size_t wanted = static_cast<std::size_t>(*size) * host_size(type);
    if (json.contains("file")) return referenced(json, type, std::move(shape), wanted);
    const Bytes bytes = blob(json, "blob");
    if (bytes.size() != wanted) throw Malformed("a constant and its shape disagree in size");
    return Tensor::view(type, std::move(shape), bytes.data(), keep_alive_);
  }

  Tensor referenced(const Json& json, DType type, std::vector<std::int64_t> shape, std::size_t size) {
    const std::string path = (folder_ / string(json, "file")).lexically_normal().string();
    auto& file = weight_files_[path];
    if (!file) {
      auto opened = MappedFile::open(path);
      if (!opened) throw Missing(fmt::format("has its weights in '{}', which {}", path, opened.error().message));
      file = std::move(*opened);
    }
    const auto offset = integer<std::uint64_t>(json, "offset");
    const Bytes all = file->bytes();
    if (offset > all.size() || size > all.size() - offset ||
        XXH3_64bits(all.data() + offset, size) != integer<std::uint64_t>(json, "hash")) {
      throw Missing(fmt::format("has its weights in '{}', which has changed since it was compiled", path));
    }
    return Tensor::view(type, std::move(shape), all.data() + offset, file);
  }

  BufferPlan buffer(const Json& json, const Program& program) const {
    BufferPlan buffer;
    buffer.name = string(json, "name");
    buffer.kind = enumerator(buffer_kinds, json, "kind");
    buffer.type = dtype(json);
    buffer.shape = expressions(json, "shape");
    buffer.constant = integer<std::int64_t>(json, "constant");
    buffer.first_use = integer<int>(json, "first_use");
    buffer.last_use = integer<int>(json, "last_use");
    buffer.scratch = json.contains("scratch") && boolean(json, "scratch");
    if (buffer.kind == BufferPlan::Kind::constant) {
      const auto at = buffer.constant;
      if (at < 0 || static_cast<std::uint64_t>(at) >= program.constants.size()) {
        throw Malformed(fmt::format("constant {} of buffer '{}' does not exist", at, buffer.name));
      }
      const Tensor& constant = program.constants[static_cast<std::size_t>(at)];
      if (buffer.type != constant.type() ||
          !std::ranges::equal(buffer.shape, constant.shape(),
                              [](const Expr& e, std::int64_t n) { return e.as_int() == n; })) {
        throw Malformed(fmt::format("buffer '{}' differs from its constant", buffer.name));
      }
    }
    return buffer;
  }

  KernelBinary kernel(const Json& json) const {
    KernelBinary kernel;
    kernel.name = string(json, "name");
    kernel.kind = enumerator(binary_kinds, json, "kind");
    kernel.bytes = text_blob(json, "binary");
    kernel.source = text_blob(json, "source");
    for (const Json& entry : array(json, "arguments")) {
      kernel.arguments.push_back(
          {string(entry, "name"), dtype(entry), boolean(entry, "written"), boolean(entry, "read")});
    }
    kernel.parameters = strings(json, "parameters");
    kernel.workgroup_size = integer<std::uint32_t>(json, "workgroup_size");
    kernel.subgroup_size = integer<std::uint32_t>(json, "subgroup_size");
    kernel.workgroup_memory_bytes = integer<std::uint32_t>(json, "workgroup_memory_bytes");
    kernel.compiler_log = text_blob(json, "compiler_log");
    const Json& statistics = member(json, "statistics");
    if (!statistics.is_object()) throw Malformed("'statistics' is not an object");
    for (const auto& [key, value] : statistics.items()) kernel.statistics[key] = number<std::int64_t>(value, key);
    return kernel;
  }

  Launch launch(const Json& json, const Program& program) const {
    Launch launch;
    launch.kernel = index(integer<int>(json, "kernel"), program.kernels.size(), "kernel");
    const KernelBinary& kernel = program.kernels[static_cast<std::size_t>(launch.kernel)];
    launch.buffers = integers<int>(json, "buffers");
    for (const int buffer : launch.buffers) index(buffer, program.buffers.size(), "buffer");
    launch.parameters = expressions(json, "parameters");
    if (launch.buffers.size() != kernel.arguments.size() || launch.parameters.size() != kernel.parameters.size()) {
      throw Malformed(fmt::format("a launch of kernel '{}' does not match its arguments", kernel.name));
    }
    launch.workgroups = expression(string(json, "workgroups"), false);
    if (const std::string guard = string(json, "guard"); !guard.empty()) launch.guard = expression(guard, true);
    launch.region = string(json, "region");
    return launch;
  }

  const Json& header_;
  Bytes area_;
  std::shared_ptr<const void> keep_alive_;
  std::vector<Bytes> blobs_;
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> weight_files_;
  Scope scope_;
};

}  // namespace

Result<void> write_package(const std::string& path, const Package& package, WeightStorage weights) {
  Writer writer(path, weights);
  std::string header;
  try {
    header = writer.describe(package).dump();
  } catch (const Json::exception&) {
    return bad_input(fmt::format("model '{}' has a name that is not UTF-8", package.model_name), path);
  }
  AICF_TRY(AtomicFile file, AtomicFile::create(path));
  HashedFile out(file);
  std::string start(magic);
  append_little_endian<std::uint64_t>(start, header.size());
  out.write(start);
  out.write(header);
  out.pad();
  for (const Bytes blob : writer.blobs()) {
    out.write(blob);
    out.pad();
  }
  std::string checksum;
  append_little_endian<std::uint64_t>(checksum, out.digest());
  file.write(checksum);
  return file.commit();
}

namespace {

std::unexpected<Diagnostic> other_version(std::int64_t version, const std::string& path) {
  const char* way_out =
      version > format_version ? "use a newer AICF, or compile the model again" : "compile the model again";
  return bad_input(
      fmt::format("is a package of format {}, this AICF reads format {}: {}", version, format_version, way_out), path);
}

}  // namespace

Result<Package> read_package(const std::string& path) {
  AICF_TRY(const auto file, MappedFile::open(path));
  const Bytes bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic.substr(0, 7))) return bad_input("is not an AICF package", path);
  if (!text.starts_with(magic)) return other_version(text.size() > 7 ? text[7] - '0' : 0, path);
  if (bytes.size() < smallest_file) return bad_input("is a truncated package", path);
  const std::size_t content = bytes.size() - 8;
  if (XXH3_64bits(bytes.data(), content) != read_little_endian<std::uint64_t>(bytes, content)) {
    return bad_input("is a damaged or truncated package: its checksum does not match", path);
  }
  const auto header_size = read_little_endian<std::uint64_t>(bytes, 8);
  if (header_size > content - 16) return bad_input("is a damaged package: its header is cut off", path);
  const std::size_t header_end = 16 + static_cast<std::size_t>(header_size);
  const std::size_t first_blob = std::min(content, header_end + padding(header_end));
  try {
    const Json header = Json::parse(text.substr(16, header_end - 16));
    const Json* version = header.is_object() && header.contains("version") ? &header["version"] : nullptr;
    if (!version || !version->is_number_integer()) return bad_input("is a malformed package: no version", path);
    if (*version != format_version) return other_version(version->get<std::int64_t>(), path);
    return Reader(header, bytes.subspan(first_blob, content - first_blob), file, path).package();
  } catch (const Missing& error) {
    return bad_input(error.what(), path);
  } catch (const Malformed& error) {
    return bad_input(fmt::format("is a malformed package: {}", error.what()), path);
  } catch (const Json::exception& error) {
    return bad_input(fmt::format("is a malformed package: {}", error.what()), path);
  }
}

}  // namespace aicf
