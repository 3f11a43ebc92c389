#include "api/conversation_repair.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace pagoda::api {
namespace {

/// The member as text, null if it is none.
std::string* text_of(Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->get_ptr<Json::string_t*>();
}

bool is_short_id(const std::string& id) {
  return id.size() == 9 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

/// Nine characters that depend on nothing but the id (FNV-1a), so a conversation that is sent again is the same prompt.
std::string short_id(const std::string& id) {
  if (is_short_id(id)) return id;
  constexpr char kAlphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 14695981039346656037ull;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  std::string text(9, '0');
  for (char& c : text) {
    c = kAlphabet[hash % 36];
    hash /= 36;
  }
  return text;
}

void complete_calls(Json& message, bool short_ids, std::map<std::string, std::string>& names) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    std::string* id = text_of(call, "id");
    if (id == nullptr) continue;
    const auto function = call.find("function");
    Json& holder = function != call.end() && function->is_object() ? *function : call;
    if (const std::string* name = text_of(holder, "name")) names[*id] = *name;
    if (short_ids) *id = short_id(*id);
  }
}

}  // namespace

void complete_messages(Json& messages, bool short_ids) {
  std::map<std::string, std::string> names;  // of tools, by the id of a call
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    complete_calls(message, short_ids, names);
    if (std::string* id = text_of(message, "tool_call_id")) {
      const auto name = names.find(*id);
      if (name != names.end() && !message.contains("name")) message["name"] = name->second;
      if (short_ids) *id = short_id(*id);
    }
    const std::string* reasoning = text_of(message, "reasoning");
    const std::string* older = text_of(message, "reasoning_content");
    if (reasoning != nullptr && older == nullptr) message["reasoning_content"] = std::string(*reasoning);
    if (older != nullptr && reasoning == nullptr) message["reasoning"] = std::string(*older);
  }
}

}  // namespace pagoda::api
