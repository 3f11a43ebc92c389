#pragma once

namespace pagoda::apps {

/// Ctrl-C (SIGINT) and SIGTERM as something a loop can ask about, instead of a death by signal. One per process.
///
/// Until watch_interrupts(true) they end the process at once with exit code 130: nothing that loads a model needs
/// undoing. SIGPIPE is ignored: a closed reader is a failed write.
void install_interrupts();
void watch_interrupts(bool watch);
/// True once for all signals since the last call.
bool take_interrupt();

}  // namespace pagoda::apps
