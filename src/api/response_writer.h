#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api/http_message.h"
#include "api/inbox.h"

namespace pagoda::api {

/// One dialect's way of telling an answer: frames for a stream, or one body at the end.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  /// Takes in what is new. With streaming, returns the frames for it.
  virtual std::string add(std::vector<Delta> deltas) = 0;
  /// The stream's last words.
  virtual std::string stream_end() = 0;
  /// The whole answer, once every choice has finished.
  virtual std::string body() = 0;
  /// The others may wait for something slow now: not for a thread that serves sockets.
  virtual bool may_wait() const { return false; }
  /// Content type of a stream.
  virtual std::string_view stream_type() const { return "text/event-stream; charset=utf-8"; }
  /// The refusal that comes instead, if nothing was told yet.
  virtual HttpResponse refuse(const Error& error) const { return error_response(error); }
};

/// "data: BODY\n\n".
std::string sse_event(const std::string& body);
/// "event: NAME\ndata: BODY\n\n".
std::string sse_event(std::string_view name, const std::string& body);

}  // namespace pagoda::api
