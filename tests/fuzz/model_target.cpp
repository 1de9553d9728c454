#include "tests/fuzz/model_target.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "frontend/model.h"

namespace {

/// A path in a folder that is empty and stays so: a model finds no external data there.
const std::string& path() {
  static const std::string path = [] {
    std::string folder = (std::filesystem::temp_directory_path() / "aicf_fuzz_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    static const struct Removal {
      std::string folder;
      ~Removal() { std::filesystem::remove(folder); }
    } removal{folder};
    return folder + "/model";
  }();
  return path;
}

void demand(bool condition, const char* promise, const std::string& text) {
  if (!condition) aicf::report_bug(std::string(promise) + ": " + text, __FILE__, __LINE__);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = aicf::load_model(std::as_bytes(std::span(data, size)), path());
  if (!model) {
    const std::string text = model.error().text();
    demand(model.error().kind != aicf::ErrorKind::run_failure, "a broken file is no failure of the machine", text);
    const auto characters = std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; });
    demand(characters < 2000, "a message is short", text);
    demand(std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }), "a message is printable",
           text);
    demand(!model.error().message.empty(), "a message says something", text);
    return 0;
  }
  if (const auto sound = aicf::verify(model->graph); !sound) demand(false, "the graph verifies", sound.error().text());
  demand(!aicf::to_string(model->graph).empty() && !aicf::to_string(model->semantic).empty(), "graphs print", "");
  return 0;
}
