// layer: jinja
// Any bytes as a template: an error or an output inside the budget, never a crash, a hang or unbounded memory.
// The first byte picks the environment; a NUL separates the template from a JSON context.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "jinja/template.h"
#include "jinja/value_json.h"

namespace {

constexpr std::string_view kContext =
    R"({"messages":[{"role":"user","content":"Hi <b>"},{"role":"assistant","content":null,"tool_calls":[{"id":"a",)"
    R"("function":{"name":"f","arguments":{"x":[1,2.5,null]}}}]}],"add_generation_prompt":true,"s":"a,b","n":3})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pagoda::jinja;
  if (size == 0) return 0;
  const uint8_t switches = data[0];
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Environment environment = (switches & 1) != 0 ? Environment::plain() : Environment{};
  environment.autoescape = (switches & 2) != 0;
  if ((switches & 4) != 0) environment.undefined = Undefined::kStrict;
  if ((switches & 8) != 0) environment.line_statement_prefix = "#";

  const Budget budget{.steps_max = 20'000, .output_bytes_max = 1 << 18, .memory_bytes_max = 1 << 20, .depth_max = 60};
  const size_t cut = input.find('\0');
  const auto parsed = Template::parse(input.substr(0, cut), environment, budget);
  if (!parsed.ok()) return 0;
  auto context = from_json(cut == std::string_view::npos ? kContext : input.substr(cut + 1));
  if (!context.ok()) context = from_json(kContext);
  const auto rendered = parsed.value()->render(context.value(), 1768435200);
  if (rendered.ok() && rendered.value().text().size() > static_cast<size_t>(budget.output_bytes_max)) __builtin_trap();
  return 0;
}
