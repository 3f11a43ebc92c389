#include "api/token_routes.h"

#include "api/prepare.h"

namespace pagoda::api {

Result<Json> tokenize(std::string_view body, const Backend& backend) {
  PAGODA_TRY(const TokenizeRequest request, parse_tokenize_request(body, backend.facts));
  std::vector<TokenId> ids;
  if (const auto* chat = std::get_if<ChatRequest>(&request.input)) {
    PAGODA_TRY(ids, conversation_ids(*chat, request.add_special_tokens, backend));
  } else {
    ids = backend.tokenizer->encode(std::get<std::string>(request.input), {.add_special = request.add_special_tokens,
                                                                           .parse_special = request.parse_special});
  }
  Json json;
  json["count"] = ids.size();
  json["max_model_len"] = backend.facts.max_model_len;
  json["tokens"] = ids;
  json["token_strs"] = nullptr;
  if (request.return_token_strs) {
    const TokenTexts texts(*backend.tokenizer, false);
    json["token_strs"] = Json::array();
    for (const TokenId id : ids) json["token_strs"].push_back(texts.text(id));
  }
  return json;
}

Result<Json> detokenize(std::string_view body, const Backend& backend) {
  PAGODA_TRY(const DetokenizeRequest request, parse_detokenize_request(body, backend.facts));
  Json json;
  json["prompt"] = backend.tokenizer->decode(request.tokens, request.skip_special_tokens);
  return json;
}

Json tokenizer_info(const Backend& backend) {
  const text::VocabSpec& spec = backend.tokenizer->spec();
  const auto spelling = [&](TokenId id) {
    return backend.tokenizer->valid(id) ? Json(TokenTexts(*backend.tokenizer, false).text(id)) : Json(nullptr);
  };
  Json json;
  json["bos_token"] = spelling(spec.bos);
  json["eos_token"] = spelling(spec.eos);
  json["unk_token"] = spelling(spec.unknown);
  json["pad_token"] = spelling(spec.padding);
  json["add_bos_token"] = spec.add_bos;
  json["vocab_size"] = backend.tokenizer->size();
  json["model_max_length"] = backend.facts.max_model_len;
  json["chat_template"] = backend.chat_template_source.empty() ? Json(nullptr) : Json(backend.chat_template_source);
  return json;
}

}  // namespace pagoda::api
