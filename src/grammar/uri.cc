#include "grammar/uri.h"

#include <algorithm>

namespace pagoda::grammar {
namespace {

struct Uri {
  std::string scheme, authority, path, query;
  bool has_authority = false, has_query = false;
};

Uri split_uri(std::string_view text) {
  Uri out;
  text = text.substr(0, text.find('#'));
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos && colon > 0 && text.find_first_of("/?") > colon) {
    out.scheme = text.substr(0, colon);
    text.remove_prefix(colon + 1);
  }
  if (text.starts_with("//")) {
    const size_t end = std::min(text.find_first_of("/?", 2), text.size());
    out.authority = text.substr(2, end - 2);
    out.has_authority = true;
    text.remove_prefix(end);
  }
  const size_t question = text.find('?');
  if (question != std::string_view::npos) {
    out.query = text.substr(question + 1);
    out.has_query = true;
  }
  out.path = text.substr(0, question);
  return out;
}

std::string without_dots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    if (path.starts_with("../")) {
      path.remove_prefix(3);
    } else if (path.starts_with("./") || path.starts_with("/./")) {
      path.remove_prefix(2);
    } else if (path == "/.") {
      path = "/";
    } else if (path.starts_with("/../") || path == "/..") {
      path = path == "/.." ? std::string_view("/") : path.substr(3);
      out.erase(std::min(out.rfind('/'), out.size()));
    } else if (path == "." || path == "..") {
      path = "";
    } else {
      const size_t end = std::min(path.find('/', 1), path.size());
      out += path.substr(0, end);
      path.remove_prefix(end);
    }
  }
  return out;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  Uri out = split_uri(reference);
  if (out.scheme.empty()) {
    const Uri from = split_uri(base);
    if (!out.has_authority) {
      if (out.path.empty()) {
        out.path = from.path;
        if (!out.has_query) out.query = from.query, out.has_query = from.has_query;
      } else if (out.path.front() != '/') {
        const size_t slash = from.path.rfind('/');
        const std::string folder = from.has_authority && from.path.empty() ? "/"
                                   : slash == std::string::npos            ? ""
                                                                           : from.path.substr(0, slash + 1);
        out.path = without_dots(folder + out.path);
      } else {
        out.path = without_dots(out.path);
      }
      out.authority = from.authority;
      out.has_authority = from.has_authority;
    }
    out.scheme = from.scheme;
  }
  std::string text = out.scheme.empty() ? "" : out.scheme + ":";
  if (out.has_authority) text += "//" + out.authority;
  text += out.path;
  if (out.has_query) text += "?" + out.query;
  return text;
}

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 && digit(text[at + 2]) >= 0) {
      out += static_cast<char>(digit(text[at + 1]) * 16 + digit(text[at + 2]));
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace pagoda::grammar
