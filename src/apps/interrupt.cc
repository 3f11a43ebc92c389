#include "apps/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "apps/exit_code.h"

namespace pagoda::apps {
namespace {

std::atomic<bool> watching{false};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // or a signal handler could not touch them

void on_signal(int) {
  if (!watching.load()) _exit(kInterrupted);
  interrupted.store(true);
}

}  // namespace

void install_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;  // no SA_RESTART: a blocked read returns and the loop sees the flag
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGPIPE, &ignore, nullptr);
}

void watch_interrupts(bool watch) { watching.store(watch); }

bool take_interrupt() { return interrupted.exchange(false); }

}  // namespace pagoda::apps
