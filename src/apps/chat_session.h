#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/chat_template.h"
#include "apps/kv_tiers.h"
#include "apps/loaded_model.h"
#include "core/clock.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"

namespace pagoda::apps {

/// What the user of `pagoda run` may choose for every answer.
struct AnswerOptions {
  sampling::SamplingParams sampling{};
  std::optional<int32_t> max_tokens{};  // else to the end of the context
  std::vector<std::string> stop{};
};

struct Answer {
  std::string text;
  scheduler::FinishReason finish = scheduler::FinishReason::kStop;
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  double prefill_s = 0;  // to the first token
  double decode_s = 0;   // from the first to the last
};

/// A conversation with one model: its history, and the scheduler that answers on a thread of its own.
class ChatSession {
 public:
  /// `template_override` replaces the model's chat template if not empty. Errors: a template that does not parse.
  static Result<std::unique_ptr<ChatSession>> create(LoadedModel model, const std::string& template_override,
                                                     scheduler::Limits limits, KvTiers tiers = {});
  ~ChatSession();

  /// False for a base model: it has no chat template and continues raw text, each time from nothing.
  bool has_template() const { return template_ != nullptr; }

  void set_system(std::string text);  // "" = none; starts a new conversation
  void clear();                       // forgets the conversation, keeps the system message

  /// Answers one user message. `on_text` is called with each piece as it comes and returns false to stop the answer.
  /// The exchange joins the history, also when stopped early; on error it does not.
  /// Errors: those of the template, of admission (over-long: the numbers), of the engine.
  Result<Answer> ask(const std::string& message, const AnswerOptions& options,
                     const std::function<bool(std::string_view)>& on_text);

 private:
  ChatSession(LoadedModel model, scheduler::Limits limits, KvTiers tiers);
  Result<std::vector<TokenId>> prompt_ids(const std::string& message) const;

  LoadedModel model_;
  KvTiers tiers_;
  std::unique_ptr<api::ChatTemplate> template_;
  std::string system_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  SteadyClock clock_;
  metrics::ServingMetrics metrics_;
  scheduler::Scheduler scheduler_;
  std::thread worker_;
};

}  // namespace pagoda::apps
