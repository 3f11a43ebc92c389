#include "jinja/template.h"

#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {
namespace {

class ParsedTemplate final : public Template {
 public:
  ParsedTemplate(Environment environment, Budget budget, std::unique_ptr<Program> program)
      : environment_(std::move(environment)), budget_(budget), program_(std::move(program)) {}

  Result<Rendered> render(const Value& context, int64_t today_unix_s) const override {
    Runtime rt(environment_, budget_, today_unix_s);
    Result<Str> output = Interpreter(rt, *program_, context, budget_.output_bytes_max).run();
    if (!output.ok()) return output.error();
    Rendered rendered;
    output.value().each_run([&rendered](std::string_view run, bool from_input) {
      rendered.spans.push_back({std::string(run), from_input});
    });
    return rendered;
  }

 private:
  const Environment environment_;
  const Budget budget_;
  const std::unique_ptr<Program> program_;
};

}  // namespace

Environment Environment::plain() {
  Environment environment;
  environment.trim_blocks = false;
  environment.lstrip_blocks = false;
  environment.json_html_escape = true;
  environment.chat_globals = false;
  return environment;
}

std::string Rendered::text() const {
  std::string out;
  for (const Span& span : spans) out += span.text;
  return out;
}

Result<std::unique_ptr<Template>> Template::parse(std::string_view source, Environment environment, Budget budget) {
  if (environment.strict_undefined) environment.undefined = Undefined::kStrict;
  PAGODA_TRY(std::unique_ptr<Program> program, parse_program(source, environment, budget.depth_max));
  return std::unique_ptr<Template>(
      std::make_unique<ParsedTemplate>(std::move(environment), budget, std::move(program)));
}

}  // namespace pagoda::jinja
