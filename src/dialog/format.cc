#include "dialog/format.h"

#include <fmt/format.h>

#include <array>

namespace pagoda::dialog {
namespace {

using enum CallSyntax;

/// `sign` in a template's text means that its model writes `format`. The first row that fits counts.
struct CallRow {
  std::string_view sign;
  CallFormat format;
};

constexpr std::array kCallRows = {
    CallRow{"｜DSML｜",
            {.name = "deepseek-v4",
             .syntax = kParameters,
             .open = "<｜DSML｜tool_calls>",
             .close = "</｜DSML｜tool_calls>",
             .call_open = "<｜DSML｜invoke name=\"",
             .call_close = "</｜DSML｜invoke>",
             .argument_open = "<｜DSML｜parameter name=\"",
             .argument_close = "</｜DSML｜parameter>"}},
    CallRow{"<minimax:tool_call>",
            {.name = "minimax-m2",
             .syntax = kParameters,
             .open = "<minimax:tool_call>",
             .close = "</minimax:tool_call>",
             .call_open = "<invoke name=\"",
             .call_close = "</invoke>",
             .argument_open = "<parameter name=\"",
             .argument_close = "</parameter>"}},
    CallRow{"<atem:function_calls>",
            {.name = "atem",
             .syntax = kParameters,
             .open = "<atem:function_calls>",
             .close = "</atem:function_calls>",
             .call_open = "<atem:invoke name=\"",
             .call_close = "</atem:invoke>",
             .argument_open = "<atem:parameter name=\"",
             .argument_close = "</atem:parameter>"}},
    CallRow{"<|tool_calls_section_begin|>",
            {.name = "kimi",
             .syntax = kNamedJson,
             .open = "<|tool_calls_section_begin|>",
             .close = "<|tool_calls_section_end|>",
             .call_open = "<|tool_call_begin|>",
             .name_end = "<|tool_call_argument_begin|>",
             .call_close = "<|tool_call_end|>"}},
    CallRow{"```json",  // with the row below: DeepSeek R1 fences its arguments, V3.1 does not
            {.name = "deepseek-r1",
             .syntax = kNamedJson,
             .open = "<｜tool▁calls▁begin｜>",
             .close = "<｜tool▁calls▁end｜>",
             .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
             .name_end = "\n```json\n",
             .call_close = "```<｜tool▁call▁end｜>"}},
    CallRow{"<｜tool▁calls▁begin｜>",
            {.name = "deepseek-v3.1",
             .syntax = kNamedJson,
             .open = "<｜tool▁calls▁begin｜>",
             .close = "<｜tool▁calls▁end｜>",
             .call_open = "<｜tool▁call▁begin｜>",
             .name_end = "<｜tool▁sep｜>",
             .call_close = "<｜tool▁call▁end｜>"}},
    CallRow{"[ARGS]", {.name = "mistral-named", .syntax = kNamedJson, .open = "[TOOL_CALLS]", .name_end = "[ARGS]"}},
    CallRow{"[TOOL_CALLS]", {.name = "mistral", .syntax = kJson, .open = "[TOOL_CALLS]"}},
    CallRow{"<|tools_prefix|>",
            {.name = "apertus", .syntax = kKeyedJson, .open = "<|tools_prefix|>", .close = "<|tools_suffix|>"}},
    CallRow{">>>all", {.name = "functionary-v3.2", .syntax = kNamedJson, .open = ">>>", .name_end = "\n"}},
    CallRow{"<|channel|>commentary",
            {.name = "harmony",
             .syntax = kNamedJson,
             .open = "<|channel|>commentary to=functions.",
             .name_end = "<|message|>"}},
    CallRow{"<|START_ACTION|>",
            {.name = "command-r7b", .syntax = kJson, .open = "<|START_ACTION|>", .close = "<|END_ACTION|>"}},
    CallRow{"<|tool_call>", {.name = "gemma-4", .syntax = kGemma, .open = "<|tool_call>", .close = "<tool_call|>"}},
    CallRow{"<|tool_call_start|>",
            {.name = "lfm2", .syntax = kPythonic, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"}},
    CallRow{"<|tool_list_start|>",
            {.name = "lfm2", .syntax = kPythonic, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"}},
    CallRow{"<|function_call|>", {.name = "gigachat", .syntax = kJson, .open = "<|function_call|>"}},
    CallRow{"<arg_key>", {.name = "glm", .syntax = kPairs, .open = "<tool_call>", .close = "</tool_call>"}},
    CallRow{"<seed:tool_call>",
            {.name = "seed-oss",
             .syntax = kParameters,
             .open = "<seed:tool_call>",
             .close = "</seed:tool_call>",
             .call_open = "<function=",
             .call_close = "</function>",
             .argument_open = "<parameter=",
             .argument_close = "</parameter>"}},
    CallRow{"<parameter=",
            {.name = "qwen3-coder",
             .syntax = kParameters,
             .open = "<tool_call>",
             .close = "</tool_call>",
             .call_open = "<function=",
             .call_close = "</function>",
             .argument_open = "<parameter=",
             .argument_close = "</parameter>"}},
    CallRow{"<param name=\"",
            {.name = "minicpm5",
             .syntax = kParameters,
             .open = "<function name=\"",
             .call_close = "</function>",
             .argument_open = "<param name=\"",
             .argument_close = "</param>"}},
    CallRow{"<function=",
            {.name = "functionary-v3.1",
             .syntax = kNamedJson,
             .open = "<function=",
             .name_end = ">",
             .call_close = "</function>"}},
    CallRow{"<TOOLCALL>", {.name = "nemotron", .syntax = kJson, .open = "<TOOLCALL>", .close = "</TOOLCALL>"}},
    CallRow{"<tool_calls>", {.name = "apriel", .syntax = kJson, .open = "<tool_calls>", .close = "</tool_calls>"}},
    CallRow{"<|tool_call|>", {.name = "granite", .syntax = kJson, .open = "<|tool_call|>", .may_be_bare = true}},
    CallRow{"<tool_call>",
            {.name = "hermes", .syntax = kJson, .open = "<tool_call>", .close = "</tool_call>", .may_be_bare = true}},
    CallRow{" functools[", {.name = "firefunction", .syntax = kJson, .open = " functools"}},
    CallRow{"[func_name1(", {.name = "pythonic", .syntax = kPythonic, .open = "<|python_tag|>", .may_be_bare = true}},
    CallRow{"<|python_tag|>", {.name = "llama-3", .syntax = kJson, .open = "<|python_tag|>", .may_be_bare = true}},
    CallRow{"{\"name\": function name",
            {.name = "llama-3", .syntax = kJson, .open = "<|python_tag|>", .may_be_bare = true}},
};
constexpr CallFormat kFallback = {
    .name = "hermes", .syntax = kJson, .open = "<tool_call>", .close = "</tool_call>", .may_be_bare = true};

struct ReasoningRow {
  std::string_view sign;
  ReasoningFormat format;
};
constexpr std::array kReasoningRows = {
    ReasoningRow{"<think>", {"<think>", "</think>"}},
    ReasoningRow{"[THINK]", {"[THINK]", "[/THINK]"}},
    ReasoningRow{"<seed:think>", {"<seed:think>", "</seed:think>"}},
    ReasoningRow{"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},
    ReasoningRow{"<|channel|>analysis", {"<|channel|>analysis<|message|>", "<|end|>"}},
    ReasoningRow{"<|channel>thought", {"<|channel>thought", "<channel|>"}},
    ReasoningRow{"<|inner_prefix|>", {"<|inner_prefix|>", "<|inner_suffix|>"}},
    ReasoningRow{"<atem:function_calls>", {" to=self<|message|>", "<|eom|>"}},
    ReasoningRow{"Here are my reasoning steps:", {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"}},
    ReasoningRow{"[BEGIN FINAL RESPONSE]", {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"}},
};

struct NoiseRow {
  std::string_view sign;
  Noise noise;
};
constexpr std::array kNoiseRows = {
    NoiseRow{">>>all", {">>>all\n", ""}},
    NoiseRow{"[BEGIN FINAL RESPONSE]", {"[END FINAL RESPONSE]", ""}},
    NoiseRow{"<|channel|>final", {"<|channel|>final", "<|message|>"}},
    NoiseRow{"<|channel|>final", {"<|start|>assistant", ""}},
    NoiseRow{"<|START_RESPONSE|>", {"<|START_RESPONSE|>", ""}},
    NoiseRow{"<|START_RESPONSE|>", {"<|END_RESPONSE|>", ""}},
    NoiseRow{"<atem:function_calls>", {"<|start|>assistant", ""}},
    NoiseRow{"<atem:function_calls>", {" to=", "<|message|>"}},
};

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::vector<std::string_view> OutputFormat::markers() const {
  std::vector<std::string_view> all;
  const auto add = [&all](std::string_view marker) {
    if (!marker.empty()) all.push_back(marker);
  };
  for (const std::string_view marker : {calls.open, calls.close, calls.call_open, calls.name_end, calls.call_close,
                                        calls.argument_open, calls.argument_close, reasoning.open, reasoning.close})
    add(marker);
  for (const Noise& one : noise) {
    add(one.begin);
    add(one.end);
  }
  if (calls.syntax == kGemma) add("<|\"|>");
  if (calls.syntax == kPairs) {
    for (const char* tag : {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}) add(tag);
  }
  if (calls.name == "mistral-named") add("[CALL_ID]");
  if (calls.name == "harmony") add("<|constrain|>");
  return all;
}

OutputFormat read_format(std::string_view template_source) {
  OutputFormat format;
  format.calls = kFallback;
  for (const CallRow& row : kCallRows) {
    if (!holds(template_source, row.sign)) continue;
    if (row.format.name == "deepseek-r1" && !holds(template_source, row.format.open)) continue;
    format.calls = row.format;
    break;
  }
  for (const ReasoningRow& row : kReasoningRows) {
    if (!holds(template_source, row.sign)) continue;
    format.reasoning = row.format;
    break;
  }
  for (const NoiseRow& row : kNoiseRows) {
    if (holds(template_source, row.sign)) format.noise.push_back(row.noise);
  }
  format.short_call_ids = holds(template_source, "alphanumeric strings with length 9");
  return format;
}

std::string begin_call(const CallFormat& format, std::string_view name) {
  const bool bare = format.may_be_bare && format.close.empty();
  std::string text(bare ? std::string_view() : format.open);
  std::string after;
  switch (format.syntax) {
    case CallSyntax::kNone:
      return {};
    case CallSyntax::kJson: {
      const bool list = format.name != "llama-3" && format.name != "hermes" && format.name != "gigachat";
      text += fmt::format("{}{}{{\"{}\": \"", format.name == "hermes" ? "\n" : "", list ? "[" : "",
                          format.name == "command-r7b" ? "tool_name" : "name");
      after = fmt::format("\", \"{}\": {{",
                          format.name == "llama-3" || format.name == "command-r7b" ? "parameters" : "arguments");
      break;
    }
    case CallSyntax::kKeyedJson:
      text += "[{\"";
      after = "\": {";
      break;
    case CallSyntax::kNamedJson:
      text += format.call_open;
      after = std::string(format.name_end) + "{";
      break;
    case CallSyntax::kParameters:
      if (!format.call_open.empty()) text.append("\n").append(format.call_open);
      after = text.ends_with('"') ? "\">\n" : ">\n";
      break;
    case CallSyntax::kPairs:
      break;
    case CallSyntax::kPythonic:
      text += "[";
      after = "(";
      break;
    case CallSyntax::kGemma:
      text += "call:";
      after = "{";
      break;
  }
  if (name.empty()) return text;
  return text.append(name).append(after);
}

bool opens_reasoning(const OutputFormat& format, std::string_view prompt) {
  if (format.reasoning.open.empty()) return false;
  const size_t last = prompt.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(format.reasoning.open);
}

}  // namespace pagoda::dialog
